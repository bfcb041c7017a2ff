//! The pace of a stream that a program offers.

use std::time::Duration;

/// A stream may have its offered rate and a fifth more.
const ALLOWED_PERCENT: u64 = 120;

/// A datagram costs this beside its payload, so that tiny ones do not multiply the rate.
const HEADER_BYTES: usize = 40;

/// A stream may be ahead of its rate by this time.
const AHEAD: Duration = Duration::from_millis(200);

/// Counts the datagrams of a stream, of which a daemon takes no more than the offer says. Times are since the beginning
/// of the stream.
#[derive(Clone, Debug)]
pub struct OfferedRate {
    allowed: u64,
    due: Duration,
}

impl OfferedRate {
    /// The rate of an offer, bits per second.
    pub fn new(bits_per_second: u32) -> Self {
        Self { allowed: (u64::from(bits_per_second) * ALLOWED_PERCENT / 100).max(1), due: Duration::ZERO }
    }

    /// Counts a datagram with so many bytes of payload, and gives the time from which on the next one may come.
    pub fn count(&mut self, now: Duration, bytes: usize) -> Duration {
        let micros = ((bytes + HEADER_BYTES) as u64).saturating_mul(8_000_000) / self.allowed;
        self.due = self.due.max(now) + Duration::from_micros(micros);
        self.due.saturating_sub(AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_more_is_allowed() {
        let (mut rate, mut now, mut bytes) = (OfferedRate::new(100_000), Duration::ZERO, 0);
        while now < Duration::from_secs(10) {
            now = now.max(rate.count(now, 1_210));
            bytes += 1_250;
        }
        let expected = 120_000 * (10 * 1000 + 200) / 8_000;
        assert!(bytes >= expected && bytes <= expected + 1_250, "{bytes}");
    }

    #[test]
    fn pause_saves_nothing() {
        let mut rate = OfferedRate::new(8_000);
        rate.count(Duration::ZERO, 1_160);
        let later = Duration::from_secs(60);
        assert_eq!(rate.count(later, 1_160), later + Duration::from_millis(800));
    }
}
