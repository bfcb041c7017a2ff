//! Patience with a hub that has the node publish again: it is obeyed a few times at once, then ever more
//! slowly, and in the end it is left for another one.

use std::time::Duration;

use roost_wire::Time;
use roost_wire::random::SplitMix64;

/// In which time it is counted.
const PERIOD: Duration = Duration::from_secs(60);

/// So often it is done at once: after a restart of the hub, or a change of address.
const AT_ONCE: u32 = 3;

/// So often at all; then the hub is left.
const MOST: u32 = 10;

/// The first pause, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The node's answer to a hub that has it publish again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepublishDecision {
    AtOnce,
    After(Duration),
    Leave,
}

/// Time after which a hub that was left is forgotten.
const MEMORY: Duration = Duration::from_secs(600);

/// The first rest after a second hub was left so, or the same one again; doubled each time.
const FIRST_REST: Duration = Duration::from_secs(1);

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Counts how often the home did so of late.
#[derive(Debug, Default)]
pub(super) struct RepublishLimiter {
    times: u32,
    since: Time,
    /// The number of times that a hub was left for it of late, and the last of these times.
    left: u32,
    left_at: Time,
}

impl RepublishLimiter {
    /// The home has the node publish once more.
    pub(super) fn once_more(&mut self, now: Time, random: &mut SplitMix64) -> RepublishDecision {
        if self.times == 0 || now.since(self.since) >= PERIOD {
            (self.times, self.since) = (0, now);
        }
        self.times += 1;
        let left = self.left(now);
        if self.times > MOST.saturating_sub(left).max(AT_ONCE) {
            (self.times, self.left, self.left_at) = (0, left.saturating_add(1), now);
            return RepublishDecision::Leave;
        }
        let at_once = AT_ONCE.saturating_sub(left);
        let Some(doublings) = self.times.checked_sub(at_once + 1) else { return RepublishDecision::AtOnce };
        let pause = (FIRST_PAUSE * (1 << doublings.min(8))).min(LONGEST_PAUSE);
        RepublishDecision::After(pause + Duration::from_nanos(random.below(pause.as_nanos() as u64 / 2)))
    }

    /// The number of times that a hub was left of late.
    fn left(&self, now: Time) -> u32 {
        if now.since(self.left_at) < MEMORY { self.left } else { 0 }
    }

    /// Pause before a hub is dialled again, as the last ones have all gone on so.
    pub(super) fn rest(&self, now: Time) -> Duration {
        let Some(doublings) = self.left(now).checked_sub(2) else { return Duration::ZERO };
        let rest = (FIRST_REST * (1 << doublings.min(8))).min(LONGEST_REST);
        rest.saturating_sub(now.since(self.left_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_that_insists_is_left() {
        let (mut again, mut random) = (RepublishLimiter::default(), SplitMix64::new(1));
        let mut now = Time::ZERO + Duration::from_secs(5);
        let mut pauses = Vec::new();
        loop {
            match again.once_more(now, &mut random) {
                RepublishDecision::AtOnce => {}
                RepublishDecision::After(pause) => {
                    now = now + pause;
                    pauses.push(pause);
                }
                RepublishDecision::Leave => break,
            }
        }
        assert_eq!(pauses.len(), (MOST - AT_ONCE) as usize);
        assert!(pauses.is_sorted_by(|a, b| a <= b || *a >= LONGEST_PAUSE), "{pauses:?}");
    }

    #[test]
    fn hub_left_before_is_left_sooner() {
        let (mut again, mut random) = (RepublishLimiter::default(), SplitMix64::new(1));
        let mut now = Time::ZERO + Duration::from_secs(5);
        let mut stays = Vec::new();
        for _ in 0..12 {
            let mut times = 1;
            while again.once_more(now, &mut random) != RepublishDecision::Leave {
                times += 1;
            }
            let rest = again.rest(now);
            stays.push((times, rest));
            now = now + rest;
        }
        assert!(stays.is_sorted_by(|a, b| a.0 >= b.0 && a.1 <= b.1), "{stays:?}");
        assert_eq!((stays[0], stays[11]), ((11, Duration::ZERO), (4, LONGEST_REST)));
        assert_eq!(again.once_more(now + MEMORY, &mut random), RepublishDecision::AtOnce);
    }

    #[test]
    fn occasional_asking_keeps_the_hub() {
        let (mut again, mut random) = (RepublishLimiter::default(), SplitMix64::new(1));
        for number in 0..100 {
            let now = Time::ZERO + Duration::from_secs(20 * number);
            assert_eq!(again.once_more(now, &mut random), RepublishDecision::AtOnce);
        }
    }
}
