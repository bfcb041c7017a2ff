//! The standby: a second hub that has the node's record already.
//!
//! Once the node has a home it keeps a connection with another hub, which
//! the home is told to keep up to date. The standby is asked for a sign of
//! life once a minute. When the home is lost, or leaves, one message makes the
//! standby the home, and the node looks for another standby.

use std::time::Duration;

use roost_wire::messages::{Message, ProbeMessage, RegistrationMessage};
use roost_wire::{ConnectionId, NodeId, RequestId, Role, Time};

use super::connections::{DIAL_LIMIT, NodeDialPurpose};
use super::core::Core;
use super::registration::{HomeConnection, HomeEvent, HomeRegistration, HomeRequest, RegistrationState, UNSETTLED};
use super::timers::Timer;

/// How often the standby is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(60);

/// A standby that lasted less than this counts as one that failed.
const SHORT_STAY: Duration = Duration::from_secs(30);

/// How many pings a standby may leave unanswered.
const PINGS: u8 = 4;

/// The pause before a standby is looked for: homes that are lost, are lost by
/// many at once.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, if no other hub can be reached.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Within how long the nodes of a hub that leaves turn away from it: much less than it waits for that.
const SPREAD: Duration = Duration::from_secs(1);

/// The second hub of a node.
#[derive(Debug, Default)]
pub(super) struct StandbyHub {
    search: StandbyState,
    /// Hubs tried in vain since one was found that lasts.
    failures: u32,
}

/// How far the search has come.
#[derive(Debug, Default)]
enum StandbyState {
    #[default]
    Waiting,
    /// Which hub of the list.
    Dialling(usize),
    Up(ActiveStandby),
}

#[derive(Clone, Copy, Debug)]
struct ActiveStandby {
    connection: ConnectionId,
    /// Which one of the list it is.
    index: usize,
    hub: NodeId,
    since: Time,
    /// The last ping, and how many are unanswered.
    token: u32,
    pinged: Time,
    unanswered: u8,
}

impl StandbyHub {
    fn up(&self) -> Option<&ActiveStandby> {
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

    /// The same, and since when.
    pub(super) fn since(&self) -> Option<(ConnectionId, Time)> {
        self.up().map(|up| (up.connection, up.since))
    }

    /// Whether it has answered what it was asked last.
    pub(super) fn answers(&self) -> bool {
        self.up().is_some_and(|up| up.unanswered == 0)
    }

    /// When the ping with this token was sent, if it was the last one.
    pub(super) fn pinged(&self, connection: ConnectionId, token: u32) -> Option<Time> {
        self.up().filter(|up| up.connection == connection && up.token == token && up.unanswered > 0).map(|up| up.pinged)
    }

    /// Asks for a sign of life, again after one, two, … probe time-outs.
    pub(super) fn ping(&mut self, core: &mut Core) {
        let StandbyState::Up(up) = &mut self.search else { return };
        if up.unanswered >= PINGS {
            // One more would put off when its silence counts.
            return;
        }
        up.token = core.random.next_u64() as u32;
        up.pinged = core.now;
        core.send(up.connection, &Message::Probe(ProbeMessage::Ping(up.token)));
        let wait = core.pto(up.connection) * (1 << u32::from(up.unanswered));
        up.unanswered += 1;
        core.set(Timer::Standby, wait);
    }

    /// It lives.
    pub(super) fn on_answer(&mut self, core: &mut Core) {
        if let StandbyState::Up(up) = &mut self.search {
            up.unanswered = 0;
            let since = up.since;
            let pause = core.random.jitter(PING_EVERY);
            core.set(Timer::Standby, pause);
            self.note_stay(core.now, since);
        }
    }

    /// One that has lasted makes up for those that did not.
    fn note_stay(&mut self, now: Time, since: Time) {
        if now.since(since) >= SHORT_STAY {
            self.failures = 0;
        }
    }
}

impl HomeRegistration {
    /// Looks for a standby after a pause, if there can be one: servers do not
    /// tell one another of their nodes.
    fn schedule_standby_dial(&mut self, core: &mut Core) {
        let possible = core.hub_role == Role::SuperNode && self.hubs.list().len() > 1;
        if possible && matches!(self.standby.search, StandbyState::Waiting) {
            let others = u32::try_from(self.hubs.list().len() - 1).unwrap_or(1);
            let rounds = self.standby.failures / others;
            let pause = (FIRST_PAUSE * (1 << rounds.min(6))).min(LONGEST_PAUSE);
            let pause = core.random.jitter(pause);
            core.set(Timer::Standby, pause);
        }
    }

    pub(super) fn on_standby_timer(&mut self, core: &mut Core) {
        match &self.standby.search {
            StandbyState::Waiting if self.home().is_some() => self.dial_standby(core),
            StandbyState::Waiting => {}
            StandbyState::Dialling(_) => {
                core.connections.forget(NodeDialPurpose::Standby);
                self.on_standby_unreachable(core);
            }
            StandbyState::Up(up) if up.unanswered < PINGS => self.standby.ping(core),
            StandbyState::Up(up) => {
                let connection = up.connection;
                core.close(connection, "no answer");
                self.events.push_back(HomeEvent::StandbyLost(connection));
                self.standby_lost(core, connection);
            }
        }
    }

    fn dial_standby(&mut self, core: &mut Core) {
        let Some((index, addresses)) = self.hubs.standby_candidate(self.standby.failures as usize) else { return };
        let (addresses, role) = (addresses.to_vec(), core.hub_role);
        self.standby.search = StandbyState::Dialling(index);
        core.dial(NodeDialPurpose::Standby, addresses, role, None);
        core.set(Timer::Standby, DIAL_LIMIT);
    }

    pub(super) fn on_standby_unreachable(&mut self, core: &mut Core) {
        if matches!(self.standby.search, StandbyState::Dialling(_)) {
            self.standby.search = StandbyState::Waiting;
            self.standby.failures = self.standby.failures.saturating_add(1);
            self.schedule_standby_dial(core);
        }
    }

    /// A dial has led to a hub, which may be the home under another address.
    pub(super) fn on_standby_up(&mut self, core: &mut Core, connection: ConnectionId) {
        let hub_at = |connection: ConnectionId| core.connections.get(connection).map(|entry| entry.remote.node);
        let (StandbyState::Dialling(index), Some(hub)) = (&self.standby.search, hub_at(connection)) else {
            return core.close(connection, "no longer needed");
        };
        let index = *index;
        if self.home().and_then(hub_at) == Some(hub) {
            core.close(connection, "it is the home already");
            return self.on_standby_unreachable(core);
        }
        self.accept_standby(core, connection, index);
        self.name_standby(core);
    }

    /// Tells the home which hub stands by, once it holds the record; or looks for one.
    pub(super) fn name_standby(&mut self, core: &mut Core) {
        let RegistrationState::Linked(home) = &mut self.state else { return };
        let unconfirmed = |exchange: &super::registration::PendingHomeRequest| {
            !matches!(exchange.question, HomeRequest::Renew | HomeRequest::Probe(_))
        };
        if home.attached.is_none() || home.exchange.as_ref().is_some_and(unconfirmed) {
            return;
        }
        let Some(up) = self.standby.up() else {
            if !core.timers.is_set(Timer::Standby) {
                self.schedule_standby_dial(core);
            }
            return;
        };
        if home.named != Some(up.hub) {
            home.named = Some(up.hub);
            let addresses = self.hubs.list().get(up.index).cloned();
            let connection = home.connection;
            core.send_reliably(
                connection,
                RequestId(0),
                &Message::Registration(RegistrationMessage::SetStandby { hub: up.hub, addresses }),
            );
        }
    }

    /// A connection has gone that may be the one with the standby.
    pub(super) fn standby_lost(&mut self, core: &mut Core, connection: ConnectionId) {
        let Some(ActiveStandby { index, since, unanswered, .. }) =
            self.standby.up().copied().filter(|up| up.connection == connection)
        else {
            return;
        };
        if unanswered == 0 {
            self.standby.note_stay(core.now, since);
        }
        self.standby.search = StandbyState::Waiting;
        self.standby.failures = self.standby.failures.saturating_add(1);
        self.schedule_standby_dial(core);
        self.on_failback_failed(core, index);
    }

    /// The hub at the other end, which is this one of the list, stands by.
    pub(super) fn accept_standby(&mut self, core: &mut Core, connection: ConnectionId, index: usize) {
        let Some(hub) = core.connections.get(connection).map(|entry| entry.remote.node) else { return };
        let now = core.now;
        self.standby.search = StandbyState::Up(ActiveStandby {
            connection,
            index,
            hub,
            since: now,
            token: 0,
            pinged: now,
            unanswered: 0,
        });
        self.standby.on_answer(core);
    }

    /// There is no home for which it could stand by.
    pub(super) fn drop_standby(&mut self, core: &mut Core) {
        core.timers.clear(Timer::Standby);
        core.connections.forget(NodeDialPurpose::Standby);
        if let StandbyState::Up(up) = std::mem::take(&mut self.standby.search) {
            core.close(up.connection, "the home is lost");
            self.events.push_back(HomeEvent::StandbyLost(up.connection));
        }
    }

    /// The home is silent and the standby is not.
    pub(super) fn switch(&mut self, core: &mut Core, reason: String) {
        let RegistrationState::Linked(HomeConnection { connection, .. }) = self.state else { return };
        core.close(connection, "no answer");
        self.move_on(core, Some(connection), reason);
    }

    /// The home is lost: on to the standby, with one message, or to the next
    /// hub of the list.
    pub(super) fn move_on(&mut self, core: &mut Core, lost: Option<ConnectionId>, reason: String) {
        let was_home = self.home().is_some();
        let Some(ActiveStandby { connection, index, .. }) = self.standby.up().copied().filter(|_| was_home) else {
            return self.try_next_home(core, lost, reason);
        };
        self.drop_redirect(core);
        for timer in [Timer::HomeReply, Timer::Renew, Timer::Standby] {
            core.timers.clear(timer);
        }
        self.standby.search = StandbyState::Waiting;
        let stayed = self.home_since().map(|(_, since)| core.now.since(since));
        self.failback.lose(self.hubs.current_index(), stayed);
        self.hubs.turn_to(index);
        core.counters.failovers += 1;
        core.unsettled_until = core.now + UNSETTLED;
        self.state =
            RegistrationState::Linked(HomeConnection { attached: Some(core.now), ..HomeConnection::new(connection) });
        self.events.extend([HomeEvent::Lost { connection: lost, reason }, HomeEvent::Attached(connection)]);
        let held = self.record.version;
        self.record.version = held.next();
        self.ask(core, HomeRequest::Adopt(held), 1, core.now);
        self.schedule_failback(core);
    }

    /// A hub says to all its nodes at once that it leaves. It goes on for some seconds, so they turn to
    /// their standbys one after the other, each when it needs a home or its time has come.
    pub(super) fn on_handover(&mut self, core: &mut Core, connection: ConnectionId) {
        match &self.state {
            RegistrationState::Linked(HomeConnection {
                connection: home, attached: Some(_), exchange: None, ..
            }) if *home == connection => {
                let wait = Duration::from_nanos(core.random.below(SPREAD.as_nanos() as u64));
                if !core.timers.is_set(Timer::Depart(connection)) {
                    core.set(Timer::Depart(connection), wait);
                }
            }
            // It takes no record any more.
            _ => self.depart(core, connection),
        }
    }

    /// A home is needed: one that leaves is left now. Returns whether it was.
    pub(super) fn depart_now(&mut self, core: &mut Core) -> bool {
        let leaving = self.home().filter(|home| core.timers.is_set(Timer::Depart(*home)));
        leaving.inspect(|home| self.depart(core, *home)).is_some()
    }

    /// A hub leaves. If it is the home, on to another one; the
    /// connection stays up for what is still relayed over it, until the hub
    /// closes it.
    pub(super) fn depart(&mut self, core: &mut Core, connection: ConnectionId) {
        core.timers.clear(Timer::Depart(connection));
        if matches!(&self.state, RegistrationState::Linked(home) if home.connection == connection) {
            self.former = Some(connection);
            self.move_on(core, None, "the hub is leaving".to_owned());
        } else if self.standby.connection() == Some(connection) {
            core.close(connection, "no longer needed");
            self.events.push_back(HomeEvent::StandbyLost(connection));
            self.standby_lost(core, connection);
        }
    }
}
