//! Pauses of a stream: receivers get the number of the last packet then, as they cannot know that it was lost.

use std::time::Duration;

use roost_wire::Time;

/// A pause is at least so long: longer than between frames of most videos, and a fraction of how long packets
/// are kept for repairs.
const LEAST: Duration = Duration::from_millis(50);
/// Packets so far apart, or farther, are bursts with pauses between them; closer ones are one run.
const RUN: Duration = Duration::from_millis(100);

/// The runs and pauses of a stream.
#[derive(Debug, Default)]
pub(super) struct PauseDetector {
    /// True if it is waited for.
    waits: bool,
    /// The counter after the last packet of which receivers were told.
    told: u64,
    last: Option<Time>,
    /// The longest time between two packets of a run, of late.
    usual: Duration,
}

impl PauseDetector {
    /// Packets have come, the last one then, and the next is to have this counter. Answers when to look for a
    /// pause, if there is anybody to be told of it and it is not waited for already.
    pub(super) fn runs(&mut self, last: Time, next: u64, has_receivers: bool) -> Option<Time> {
        if let Some(gap) = self.last.replace(last).map(|before| last.since(before)).filter(|gap| *gap < RUN) {
            self.usual = gap.max(self.usual - self.usual / 64);
        }
        let begins = has_receivers && !self.waits && next != self.told;
        self.waits |= begins;
        begins.then(|| self.due(last))
    }

    /// Answers when to look again, if there is no pause yet.
    pub(super) fn look(&mut self, now: Time, last: Time, next: u64) -> Option<Time> {
        let due = Some(self.due(last)).filter(|due| *due > now);
        if due.is_none() {
            (self.waits, self.told) = (false, next);
        }
        due
    }

    fn due(&self, last: Time) -> Time {
        last + (self.usual * 3 / 2).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// The number of pauses that are told of if packets come at these times.
    fn told(times: impl IntoIterator<Item = u64>) -> u64 {
        let (mut pause, mut due, mut told) = (PauseDetector::default(), None, 0);
        let mut last = Time::ZERO;
        for (next, ms) in (1..).zip(times) {
            while let Some(at) = due.filter(|due| *due < at(ms)) {
                due = pause.look(at, last, next - 1);
                told += u64::from(due.is_none());
            }
            last = at(ms);
            due = pause.runs(last, next, true).or(due);
        }
        told
    }

    #[test]
    fn jittered_run_has_no_pauses() {
        let jitter = |number: u64| number * 53 % 19;
        assert!(told((0..1000).map(|number| number * 50 + jitter(number))) < 10);
        assert!(told((0..1000).map(|number| number / 8 * 66)) < 10, "frames of eight packets");
    }

    #[test]
    fn each_burst_ends_in_a_pause() {
        assert_eq!(told((0..1000).map(|number| number / 10 * 500 + number % 10)), 99);
        assert_eq!(told((0..100).map(|number| number * 1000)), 99);
    }

    #[test]
    fn first_receiver_starts_pause_detection() {
        let mut pause = PauseDetector::default();
        assert_eq!(pause.runs(at(0), 1, false), None);
        assert_eq!(pause.runs(at(10), 2, true), Some(at(60)));
    }

    #[test]
    fn pause_detected_within_repair_deadline() {
        let mut pause = PauseDetector::default();
        (0..100).for_each(|number| {
            pause.runs(at(number * 99), number + 1, true);
        });
        assert!(pause.due(at(0)) <= at(150));
    }
}
