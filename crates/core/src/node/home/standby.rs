//! The hub that stands by: how far the search for it has come, and that it lives.

use std::time::Duration;

use roost_wire::messages::ProbeMessage;
use roost_wire::{ConnectionId, NodeId, Time};

use crate::node::core::Core;
use crate::node::timers::Timer;

/// The pause between two pings to the standby.
const PING_EVERY: Duration = Duration::from_secs(60);

/// A standby that lasted less than this counts as one that failed.
const SHORT_STAY: Duration = Duration::from_secs(30);

/// The pings that a standby may leave unanswered.
pub(super) const PINGS: u8 = 4;

/// The second hub of a node.
#[derive(Debug, Default)]
pub(super) struct StandbyHub {
    pub(super) search: StandbyState,
    /// Hubs tried in vain since one was found that lasts.
    pub(super) failures: u32,
}

#[derive(Debug, Default)]
pub(super) enum StandbyState {
    #[default]
    Waiting,
    /// The place in the list of hubs.
    Dialling(usize),
    Up(ActiveStandby),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveStandby {
    pub(super) connection: ConnectionId,
    /// The place in the list of hubs.
    pub(super) index: usize,
    pub(super) hub: NodeId,
    pub(super) since: Time,
    /// The last ping, and how many are unanswered.
    pub(super) token: u32,
    pub(super) pinged: Time,
    pub(super) unanswered: u8,
}

impl StandbyHub {
    pub(super) fn up(&self) -> Option<&ActiveStandby> {
        match &self.search {
            StandbyState::Up(up) => Some(up),
            StandbyState::Waiting | StandbyState::Dialling(_) => None,
        }
    }

    /// The connection with it.
    pub(super) fn connection(&self) -> Option<ConnectionId> {
        self.up().map(|up| up.connection)
    }

    /// Since when it is this one of the list, if it is.
    pub(super) fn since_at(&self, index: usize) -> Option<Time> {
        self.up().filter(|up| up.index == index).map(|up| up.since)
    }

    /// The connection with it, and which one of the list it is: it stands by no longer.
    pub(super) fn take_connection(&mut self) -> Option<(ConnectionId, usize)> {
        let taken = self.up().map(|up| (up.connection, up.index))?;
        self.search = StandbyState::Waiting;
        Some(taken)
    }

    /// The connection with it, and since when.
    pub(super) fn since(&self) -> Option<(ConnectionId, Time)> {
        self.up().map(|up| (up.connection, up.since))
    }

    /// True if it has answered what it was asked last.
    pub(super) fn answers(&self) -> bool {
        self.up().is_some_and(|up| up.unanswered == 0)
    }

    /// Time at which the ping with this token was sent, if it was the last one.
    pub(super) fn pinged(&self, connection: ConnectionId, token: u32) -> Option<Time> {
        self.up().filter(|up| up.connection == connection && up.token == token && up.unanswered > 0).map(|up| up.pinged)
    }

    /// Asks for a sign of life, again after one, two, … probe time-outs.
    pub(super) fn ping(&mut self, core: &mut Core) {
        let StandbyState::Up(up) = &mut self.search else { return };
        if up.unanswered >= PINGS {
            // A further ping would put off when its silence counts.
            return;
        }
        up.token = core.random.next_u64() as u32;
        up.pinged = core.now;
        core.send(up.connection, ProbeMessage::Ping(up.token));
        let wait = core.pto(up.connection) * (1 << u32::from(up.unanswered));
        up.unanswered += 1;
        core.set(Timer::Standby, wait);
    }

    /// The host stood still, so no answer could come.
    pub(super) fn doubt(&mut self, core: &mut Core) {
        if let StandbyState::Up(up) = &mut self.search {
            up.unanswered = 0;
            self.ping(core);
        }
    }

    /// The standby lives.
    pub(super) fn on_answer(&mut self, core: &mut Core) {
        if let StandbyState::Up(up) = &mut self.search {
            up.unanswered = 0;
            let since = up.since;
            let pause = core.random.jitter(PING_EVERY);
            core.set(Timer::Standby, pause);
            self.note_stay(core.now, since);
        }
    }

    /// A standby that has lasted makes up for those that did not.
    pub(super) fn note_stay(&mut self, now: Time, since: Time) {
        if now.since(since) >= SHORT_STAY {
            self.failures = 0;
        }
    }
}
