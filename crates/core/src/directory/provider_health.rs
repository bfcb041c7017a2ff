//! The health of a provider: how fast it answers, and whether it has failed of late.
//!
//! Both only order providers. How fast one answers decides between those that
//! are equally near and have equally much left; a failure puts a provider
//! behind the others for a while that doubles with each further one, and is
//! forgotten with the first success.

use std::time::Duration;

use roost_wire::Time;

/// Time for which a provider that has failed once is tried after the others.
const FIRST_HOLD: Duration = Duration::from_secs(2);

/// The longest that a failure counts, however many there were: half of the
/// usual lease, so that one who is back is not passed over for longer than one
/// who is gone is kept.
pub const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// Failures beyond which the hold does not grow.
const MAX_FAILURES: u8 = 5;

/// In what holds are counted. They are compared with times rounded down, so one
/// lasts up to so much longer.
const TICK: Duration = Duration::from_millis(250);

/// In what times to answer are counted, microseconds.
const GRAIN_US: u128 = 16;

/// The health of a provider, in eight bytes, as every record has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProviderHealth {
    /// The tick at which its failures cease to count; 34 years are enough.
    until: u32,
    /// The time that it takes to answer, smoothed, at most a second; 0 is not known.
    answer: u16,
    /// Failures without a success in between.
    failures: u8,
    /// Held back until it speaks again.
    pub(super) suspended: bool,
}

impl ProviderHealth {
    pub(super) fn record_failure(&mut self, now: Time) {
        if tick(now) >= self.until.saturating_add(ticks(LONGEST_HOLD)) {
            self.failures = 0;
        }
        let hold = (FIRST_HOLD * (1 << self.failures.min(MAX_FAILURES))).min(LONGEST_HOLD);
        self.failures = (self.failures + 1).min(MAX_FAILURES);
        self.until = tick(now).saturating_add(ticks(hold));
    }

    pub(super) fn record_success(&mut self) {
        self.failures = 0;
        self.until = 0;
    }

    /// Notes the time of an answer. One answer in four counts, as in TCP's round trips but quicker to follow.
    pub(super) fn record_response_time(&mut self, after: Duration) {
        let new = u16::try_from(after.as_micros() / GRAIN_US).unwrap_or(u16::MAX).max(1);
        self.answer = match self.answer {
            0 => new,
            old => (old - old / 4).saturating_add(new / 4).max(1),
        };
    }

    /// True if it is to be tried after the others.
    pub(super) fn is_doubtful(&self, now: Time) -> bool {
        tick(now) < self.until
    }

    /// A number that grows by one each time that its answers take twice as long, so that only a difference of
    /// that order decides anything.
    pub(super) fn pace(&self) -> u8 {
        match self.answer {
            0 => u8::MAX,
            answer => answer.ilog2() as u8,
        }
    }
}

fn ticks(span: Duration) -> u32 {
    u32::try_from(span.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

fn tick(now: Time) -> u32 {
    ticks(now.since(Time::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failure_penalty_doubles_up_to_limit() {
        let mut standing = ProviderHealth::default();
        let mut now = Time::ZERO + SECOND;
        for hold in [2, 4, 8, 16, 30, 30, 30] {
            standing.record_failure(now);
            assert!(standing.is_doubtful(now + (SECOND * hold - Duration::from_millis(1))));
            now = now + SECOND * hold;
            assert!(!standing.is_doubtful(now));
        }
        standing.record_success();
        standing.record_failure(now);
        assert!(!standing.is_doubtful(now + FIRST_HOLD), "a success has wiped the slate clean");
    }

    #[test]
    fn old_failures_do_not_raise_penalty() {
        let mut standing = ProviderHealth::default();
        let now = Time::ZERO + SECOND;
        standing.record_failure(now);
        let later = now + FIRST_HOLD + LONGEST_HOLD;
        standing.record_failure(later);
        assert!(!standing.is_doubtful(later + FIRST_HOLD));
    }

    #[test]
    fn slowness_grows_with_doubled_response_time() {
        let pace = |spans: &[u64]| {
            let mut standing = ProviderHealth::default();
            for millis in spans {
                standing.record_response_time(Duration::from_millis(*millis));
            }
            standing.pace()
        };
        assert_eq!(pace(&[20]), pace(&[25]));
        assert!(pace(&[20]) < pace(&[45]));
        assert!(pace(&[600; 20]) > pace(&[20]));
        assert!(pace(&[5_000]) == pace(&[60_000]), "beyond a second all are alike");
        assert_eq!(pace(&[]), u8::MAX, "who was never measured comes last");
        assert!(pace(&[20, 600]) > pace(&[20]) && pace(&[20, 600]) < pace(&[600]));
    }
}
