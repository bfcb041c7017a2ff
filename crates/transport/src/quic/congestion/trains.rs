//! An early estimate of a path's rate, from packets that leave together and arrive at the path's rate.
//!
//! A pacer lets packets out in small trains. The bottleneck spreads a train, and the acknowledgements of its packets
//! are as far apart. If the acknowledgements come in clumps, or a link carries several packets at once, the estimate is
//! too great. So it is only a hint for the startup; [`super::delivery`] measures the bytes that arrive in a round trip.

use std::time::{Duration, Instant};

/// Packets that leave within this time are a train.
const TOGETHER: Duration = Duration::from_millis(1);
/// The least bytes of a train after its first acknowledgement, for the train to count.
const LEAST_BYTES: u64 = 4 * 1200;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trains {
    current: Option<Train>,
    /// Of all earlier trains: the bytes after their first acknowledgements, and the time that these took.
    bytes: u64,
    took: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    left: Instant,
    /// The acknowledgement of the first packets, and of the last other pair.
    first: Instant,
    last: Instant,
    /// The time and bytes of a further acknowledgement, which counts once a second one comes with it.
    pair: (Instant, u64),
    bytes: u64,
}

impl Train {
    const fn new(left: Instant, now: Instant) -> Self {
        Self { left, first: now, last: now, pair: (now, 0), bytes: 0 }
    }

    /// Notes an acknowledgement. One of a single packet does not count, because the receiver delayed it to wait for
    /// another packet.
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
    /// Notes the acknowledgement of a packet that left at `sent`. Returns true if the packet is the first of a train.
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

    /// Bytes per second; `None` before the first train.
    pub(super) fn rate(&self) -> Option<f64> {
        (!self.took.is_zero()).then(|| self.bytes as f64 / self.took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The rate of ten packets that left together. Each acknowledgement has a time in milliseconds and a number of
    /// packets.
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
        // Eight packets after the first two, in 8 ms.
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
