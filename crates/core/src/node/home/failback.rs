//! The home that was lost, to which the node goes back.

use std::time::Duration;

use roost_wire::random::SplitMix64;

/// The pause before a home that was lost is tried, doubled each time that it is in vain.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause; a home that was kept for as long is none that comes and goes.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// The home that was lost, and the attempts to go back.
#[derive(Debug, Default)]
pub(super) struct Failback {
    lost: Option<LostHome>,
    /// Attempts to go back that came to nothing, or did not last.
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct LostHome {
    /// The place in the list of hubs.
    index: usize,
    /// True if it held the record; else it is the one that the node would have had first.
    was_home: bool,
}

impl Failback {
    /// A hub has gone that was home for so long, or was to be. The first home counts until the node is there
    /// again; one that has never been had counts less.
    pub(super) fn lose(&mut self, index: usize, stayed: Option<Duration>) {
        let was_home = stayed.is_some();
        if self.lost.is_none_or(|lost| was_home && !lost.was_home) {
            self.lost = Some(LostHome { index, was_home });
            self.failures = if stayed.unwrap_or_default() < LONGEST_PAUSE { self.failures } else { 0 };
        }
    }

    /// The node has this home now, where it was before or where it was sent: there is no other to go back to.
    /// If it goes at once, the node waits longer. Returns whether it is the one that was lost.
    pub(super) fn end(&mut self, index: usize) -> bool {
        let lost = self.lost.take();
        self.failures = self.failures.saturating_add(u32::from(lost.is_some()));
        lost.is_some_and(|lost| lost.index == index)
    }

    pub(super) fn lost(&self) -> Option<usize> {
        self.lost.map(|lost| lost.index)
    }

    pub(super) fn record_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn pause(&self, random: &mut SplitMix64) -> Duration {
        random.jitter((FIRST_PAUSE * (1 << self.failures.min(8))).min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unstable_home_backs_off_failback() {
        let (mut homing, mut random) = (Failback::default(), SplitMix64::new(1));
        let mut pauses = |stayed: u64, homing: &mut Failback| {
            homing.lose(0, Some(Duration::from_secs(stayed)));
            let pause = homing.pause(&mut random).as_secs();
            assert!(homing.end(0));
            pause
        };
        for expected in [60, 120, 240, 480, 900, 900] {
            let pause = pauses(30, &mut homing);
            assert!((expected * 3 / 4..=expected * 5 / 4).contains(&pause), "{pause} s, not {expected}");
        }
        assert!(pauses(1_000, &mut homing) <= 75);
    }

    #[test]
    fn failback_targets_first_lost_home() {
        let mut homing = Failback::default();
        homing.lose(2, Some(Duration::ZERO));
        homing.lose(3, Some(Duration::ZERO));
        homing.lose(4, None);
        assert_eq!(homing.lost(), Some(2));
    }

    #[test]
    fn failed_candidate_does_not_replace_home() {
        let mut homing = Failback::default();
        homing.lose(0, None);
        homing.lose(1, None);
        assert_eq!(homing.lost(), Some(0));
        homing.lose(2, Some(Duration::ZERO));
        assert_eq!(homing.lost(), Some(2));
    }
}
