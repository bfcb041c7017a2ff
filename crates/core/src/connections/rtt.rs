//! The time that a remote takes to answer.

use std::time::Duration;

use roost_wire::LONGEST_ROUND_TRIP;

/// The least that the variation adds to a time-out: timers are not finer.
const GRANULARITY: Duration = Duration::from_millis(10);

/// The longest time of the other end before it answers.
const ANSWER_DELAY: Duration = Duration::from_millis(25);

/// Most round trips for a transfer on a long path. TCP begins with ten segments under way and at
/// most doubles them each round trip, so that a stream of 10 s has all gone after nine, twice that
/// through a hub; less urgent data waits behind it.
pub(crate) const PACE_TRIPS: u32 = 20;

/// The longest probe time-out, before doubling, of a path whose round trip is shorter: after a
/// time of great variation silence is to be noticed soon.
const MAX_PTO: Duration = Duration::from_secs(3);

/// Smoothed round trip and its variation, as RFC 9002, section 5.3, has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: Duration,
    variation: Duration,
    /// True if an exchange of messages has been timed yet.
    sampled: bool,
}

impl Rtt {
    /// The assumption until the first sample: the time of a handshake's round trip, most of which is
    /// computing on a short path.
    pub(crate) fn new(handshake: Duration) -> Self {
        Self { smoothed: handshake, variation: handshake / 2, sampled: false }
    }

    /// Takes a sample, of an exchange that was not repeated. The first one
    /// takes the place of the handshake's.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        if !self.sampled {
            *self = Self { smoothed: rtt, variation: rtt / 2, sampled: true };
            return;
        }
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(rtt)) / 4;
        self.smoothed = (self.smoothed * 7 + rtt) / 8;
    }

    /// The smoothed round trip.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The probe timeout, the longest wait for an answer: RFC 9002, section 6.2.1.
    pub(crate) fn pto(&self) -> Duration {
        let smoothed = self.smoothed.min(LONGEST_ROUND_TRIP);
        let longest = MAX_PTO.max(smoothed * 3 / 2);
        (smoothed + (self.variation * 4).max(GRANULARITY) + ANSWER_DELAY).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn steady_path_pto_exceeds_rtt() {
        let mut rtt = Rtt::new(100 * MS);
        assert_eq!(rtt.pto(), 325 * MS);
        for _ in 0..100 {
            rtt.sample(100 * MS);
        }
        assert_eq!(rtt.smoothed(), 100 * MS);
        assert_eq!(rtt.pto(), 135 * MS);
    }

    #[test]
    fn first_sample_replaces_handshake_rtt() {
        let mut rtt = Rtt::new(100 * MS);
        rtt.sample(2 * MS);
        assert_eq!((rtt.smoothed(), rtt.pto()), (2 * MS, 37 * MS));
        rtt.sample(10 * MS);
        assert_eq!(rtt.smoothed(), 3 * MS);
    }

    #[test]
    fn jittery_path_has_longer_pto() {
        let mut rtt = Rtt::new(100 * MS);
        for n in 0..100 {
            rtt.sample(if n % 2 == 0 { 50 * MS } else { 150 * MS });
        }
        assert!(rtt.pto() > 250 * MS, "{:?}", rtt.pto());
    }
}
