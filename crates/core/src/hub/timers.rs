//! Timers of a hub.

use roost_wire::Time;

use crate::machine::Deadline;

/// Timers of one kind that one wake serves; the rest wait for the next wake, which is due at once.
pub(super) const MAX_PER_WAKE: usize = 1_024;

/// A part that wants to be woken, at the first time that it waits for. Those that are due are served in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HubTimer {
    Lease,
    Motion,
    CachedRecord,
    Request,
    Relay,
    HubLookup,
    Reservation,
    Room,
    Mailbox,
    Summary,
    Watch,
    Mesh,
    Replication,
    StandbyConnection,
    Claim,
    Members,
    Balance,
    Documents,
    Progress,
    /// The last one: the table has room up to it.
    Drain,
}

/// A place for each timer, since the hub plans all of them after nearly every input. A node sets a timer for each of
/// its requests, and has a table of another kind.
#[derive(Debug, Default)]
pub(super) struct HubTimers {
    times: [Option<(Time, HubTimer)>; HubTimer::Drain as usize + 1],
    earliest: Option<(Time, HubTimer)>,
}

impl HubTimers {
    /// Sets a timer to a time, or clears it.
    pub(super) fn plan(&mut self, timer: HubTimer, at: Option<Time>) {
        let at = at.map(|at| (at, timer));
        if std::mem::replace(&mut self.times[timer as usize], at) != at {
            self.earliest = self.times.iter().flatten().min().copied();
        }
    }

    /// Takes the earliest timer that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<HubTimer> {
        let (_, timer) = self.earliest.filter(|(at, _)| *at <= now)?;
        self.plan(timer, None);
        Some(timer)
    }

    /// True if a timer is set.
    #[cfg(test)]
    pub(super) fn is_set(&self, timer: HubTimer) -> bool {
        self.times[timer as usize].is_some()
    }

    pub(super) fn next(&self) -> Option<Deadline> {
        self.earliest.map(|(at, timer)| Deadline { at, reason: timer.reason() })
    }
}

impl HubTimer {
    /// The reason in words, for the log.
    fn reason(self) -> &'static str {
        match self {
            Self::Lease => "a lease ends",
            Self::Motion => "a node in motion leaves its cell",
            Self::CachedRecord => "what a cache was told is too old",
            Self::Request => "a request's deadline",
            Self::Relay => "a relayed flow is idle",
            Self::HubLookup => "a search at other hubs is late",
            Self::Reservation => "a copy that was granted has not begun",
            Self::Room => "a room has to be tended",
            Self::Mailbox => "a file waits for a node",
            Self::Summary => "a summary is due",
            Self::Watch => "a watch is offered again",
            Self::Mesh => "another hub wants tending",
            Self::Replication => "a standby wants to know",
            Self::StandbyConnection => "a standby is to be reached",
            Self::Claim => "a node is asked if it is here",
            Self::Members => "a membership message is due",
            Self::Balance => "a super node that has joined gets a node",
            Self::Documents => "documents of the group spread",
            Self::Progress => "other hubs are told who holds the documents",
            Self::Drain => "the drain ends",
        }
    }
}
