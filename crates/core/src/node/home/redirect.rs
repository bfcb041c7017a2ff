//! The hub to which the node is sent, and how often it lets itself be sent.

use std::time::Duration;

use roost_wire::Time;

/// The redirects that a node follows in [`PERIOD`].
pub(super) const MOST: u8 = 2;

const PERIOD: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Redirect {
    /// The place in the list of the hub that is being dialled.
    pub(super) to: Option<usize>,
    pub(super) cause: RedirectCause,
    /// The redirects since `since`.
    pub(super) times: u8,
    since: Time,
}

/// Cause of a move to another hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RedirectCause {
    /// A hub asks for it.
    #[default]
    Hub,
    /// The node goes back to the home that it had lost.
    Return,
}

impl Redirect {
    /// Counts one more redirect; false if there were too many.
    pub(super) fn try_charge(&mut self, now: Time) -> bool {
        if self.times == 0 || now.since(self.since) >= PERIOD {
            (self.times, self.since) = (0, now);
        }
        self.times = self.times.saturating_add(1);
        self.times <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_limited_to_two_per_minute() {
        let mut redirect = Redirect::default();
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let went: Vec<bool> = [5, 6, 7, 64, 65, 66, 67].map(|secs| redirect.try_charge(at(secs))).to_vec();
        assert_eq!(went, [true, true, false, false, true, true, false]);
    }
}
