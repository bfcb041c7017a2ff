//! Doubt in a connection that may be dead without a word.

use std::time::Duration;

use roost_wire::Time;

/// The beginning of the doubt in a connection. It ends as soon as anything is heard over that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    since: Option<Time>,
}

impl Doubt {
    /// Begins at `now`, unless nothing has been `heard` since it began before.
    pub(super) fn begin(&mut self, now: Time, heard: Time) {
        if self.since.is_none_or(|since| heard > since) {
            self.since = Some(now);
        }
    }

    /// True once a sign of life had its time, and did not come.
    pub(super) fn holds(&self, now: Time, heard: Time, time_to_answer: Duration) -> bool {
        self.since.is_some_and(|since| heard <= since && now >= since + time_to_answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_ends_with_anything_heard() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let answer = Duration::from_millis(50);
        let mut doubt = Doubt::default();
        assert!(!doubt.holds(at(9_000), at(0), answer));
        doubt.begin(at(1_000), at(500));
        assert!(!doubt.holds(at(1_049), at(500), answer), "an answer may be on its way");
        assert!(doubt.holds(at(1_050), at(500), answer));
        doubt.begin(at(1_500), at(500));
        assert!(doubt.holds(at(1_500), at(500), answer), "it goes on");
        assert!(!doubt.holds(at(9_000), at(1_600), answer));
        doubt.begin(at(9_000), at(1_600));
        assert!(!doubt.holds(at(9_049), at(1_600), answer) && doubt.holds(at(9_050), at(1_600), answer));
    }
}
