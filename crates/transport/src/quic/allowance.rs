//! The number of streams that a remote may have open on one QUIC connection.

use std::time::{Duration, Instant};

use super::settings::{FIRST_STREAMS, MAX_STREAMS};

/// Once the remote opens this part of the allowance within a round trip, the allowance grows by this factor. So it
/// stays ahead of a window that grows fivefold.
const GROWTH: u32 = 4;

/// The number of streams that the remote may have open.
pub(super) struct Allowance {
    streams: u32,
    opened: u32,
    since: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { streams: FIRST_STREAMS, opened: 0, since: now }
    }

    /// Notes that the remote has opened a stream. Returns the allowance if it has changed.
    pub(super) fn note_opened(&mut self, now: Instant, rtt: Duration) -> Option<u32> {
        if now.duration_since(self.since) > rtt {
            (self.opened, self.since) = (0, now);
        }
        self.opened += 1;
        if self.opened <= self.streams / GROWTH || self.streams == MAX_STREAMS {
            return None;
        }
        (self.opened, self.since) = (0, now);
        self.streams = (GROWTH * self.streams).min(MAX_STREAMS);
        Some(self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn allowance_grows_for_busy_remotes() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        let grown: Vec<u32> = (0..10_000).filter_map(|_| allowance.note_opened(now, RTT)).collect();
        assert_eq!(grown, [200, 800, MAX_STREAMS]);
    }

    #[test]
    fn allowance_stays_for_calm_remotes() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        for turn in 0..1000 {
            let now = now + turn * RTT / 10;
            assert_eq!(allowance.note_opened(now, RTT), None);
        }
    }
}
