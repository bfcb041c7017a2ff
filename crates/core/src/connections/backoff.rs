//! The pause before something that has failed is tried again.

use std::time::Duration;

use roost_wire::Time;
use roost_wire::random::SplitMix64;

/// Pauses that double with each failure, up to the longest, and begin anew
/// after a success that lasted for as long as that: a remote that lets one
/// in and hangs up at once is not to be dialled four times a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    /// The next pause, before jitter.
    next: Duration,
    /// Since when it works.
    since: Option<Time>,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, since: None }
    }

    pub(crate) fn record_success(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The next pause is the first one.
    pub(crate) fn reset(&mut self) {
        (self.next, self.since) = (self.first, None);
    }

    /// Returns the pause before the next try.
    pub(crate) fn record_failure(&mut self, now: Time, random: &mut SplitMix64) -> Duration {
        if self.since.take().is_some_and(|since| now.since(since) >= self.longest) {
            self.next = self.first;
        }
        let pause = random.jitter(self.next);
        self.next = (self.next * 2).min(self.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasted_begins_anew() {
        let (first, mut random) = (Duration::from_secs(1), SplitMix64::new(1));
        let mut backoff = Backoff::new(first, first * 8);
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for stay in [0, 1, 2, 3, 7, 8, 0] {
            backoff.record_success(now);
            now = now + Duration::from_secs(stay);
            pauses.push(backoff.record_failure(now, &mut random));
        }
        for (pause, base) in pauses.into_iter().zip([1, 2, 4, 8, 8, 1, 2]) {
            assert!(pause >= first * base * 3 / 4 && pause <= first * base * 5 / 4, "{pause:?}, not about {base} s");
        }
    }
}
