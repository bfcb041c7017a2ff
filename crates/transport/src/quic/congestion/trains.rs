//! The first packets tell a path's rate: those that leave together arrive at it.
//!
//! A pacer lets packets out in small trains. The bottleneck spreads a train, and the
//! acknowledgements of its packets are as far apart. Where they come in clumps, or a connection
//! carries several packets at once, that tells too great a rate, so that it is a hint for the
//! beginning only: what arrives in a round trip is measured by [`super::delivery`].

use std::time::{Duration, Instant};

/// Packets that leave within so long are a train.
const TOGETHER: Duration = Duration::from_millis(1);
/// A train counts if so many bytes of it arrived after its first acknowledgement.
const LEAST_BYTES: u64 = 4 * 1200;

/// The trains that have arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trains {
    current: Option<Train>,
    /// Of all before it: bytes behind the first acknowledgement, and how long they took.
    bytes: u64,
    took: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    left: Instant,
    /// Acknowledgement of its first packets, and of the last pair of others.
    first: Instant,
    last: Instant,
    /// Time and bytes of another acknowledgement, which count once a second one comes with it.
    pair: (Instant, u64),
    bytes: u64,
}

impl Train {
    const fn new(left: Instant, now: Instant) -> Self {
        Self { left, first: now, last: now, pair: (now, 0), bytes: 0 }
    }

    /// An acknowledgement of one packet does not count: it was held back for another.
    fn arrived(&mut self, now: Instant, bytes: u64) {
        if self.pair.0 != now {
            self.pair = (now, bytes);
        } else if now > self.first {
            self.bytes += bytes + std::mem::take(&mut self.pair.1);
            self.last = now;
        }
    }
}

impl Trains {
    /// A packet that left at `sent` is acknowledged; answers whether it is the first of a train.
    pub(super) fn arrived(&mut self, now: Instant, sent: Instant, bytes: u64) -> bool {
        if let Some(train) = self.current.as_mut().filter(|train| sent.saturating_duration_since(train.left) < TOGETHER)
        {
            train.arrived(now, bytes);
            return false;
        }
        let next = Some(Train::new(sent, now));
        if let Some(train) = std::mem::replace(&mut self.current, next).filter(|train| train.bytes >= LEAST_BYTES) {
            self.bytes += train.bytes;
            self.took += train.last - train.first;
        }
        true
    }

    /// Bytes per second; none before the first train.
    pub(super) fn rate(&self) -> Option<f64> {
        (!self.took.is_zero()).then(|| self.bytes as f64 / self.took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Ten packets that left together; when the acknowledgements came, and of how many each.
    fn told(acknowledgements: &[(u32, u32)]) -> Option<f64> {
        let (sent, mut trains) = (Instant::now(), Trains::default());
        for (after, packets) in acknowledgements {
            (0..*packets).for_each(|_| _ = trains.arrived(sent + 100 * MS + *after * MS, sent, 1200));
        }
        assert!(trains.arrived(sent + 300 * MS, sent + 100 * MS, 1200), "the next train");
        trains.rate()
    }

    #[test]
    fn a_train_arrives_at_the_rate() {
        // Eight packets behind the first two, in 8 ms.
        assert_eq!(told(&[(0, 2), (2, 2), (4, 2), (6, 2), (8, 2)]), Some(1_200_000.0));
    }

    #[test]
    fn a_delayed_acknowledgement_does_not_count() {
        assert_eq!(told(&[(0, 2), (2, 2), (4, 2), (6, 2), (8, 2), (13, 1)]), Some(1_200_000.0));
    }

    #[test]
    fn a_clump_tells_nothing() {
        assert_eq!(told(&[(0, 10)]), None);
        assert_eq!(told(&[(0, 8), (1, 2)]), None);
    }
}
