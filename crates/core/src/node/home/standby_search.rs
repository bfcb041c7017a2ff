//! The standby: a second hub that has the node's record already.
//!
//! Once the node has a home it keeps a connection with another hub, which
//! the home is told to keep up to date. The standby is asked for a sign of
//! life once a minute. When the home is lost, or leaves, one message makes the
//! standby the home, and the node looks for another standby.

use std::time::Duration;

use roost_wire::messages::RegistrationMessage;
use roost_wire::record::MAX_ADDRESSES;
use roost_wire::{ConnectionId, RequestId, Role};

use super::standby::{ActiveStandby, PINGS, StandbyState};
use crate::node::connections::{DIAL_LIMIT, NodeDialPurpose};
use crate::node::core::Core;
use crate::node::home::{HomeEvent, HomeRegistration, HomeRequest, PendingHomeRequest, RegistrationState};
use crate::node::timers::Timer;

/// The pause before a standby is looked for: homes that are lost, are lost by
/// many at once.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, if no other hub can be reached.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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

    pub(crate) fn on_standby_timer(&mut self, core: &mut Core) {
        match &self.standby.search {
            StandbyState::Waiting if self.home().is_some() => self.dial_standby(core),
            StandbyState::Waiting => {}
            StandbyState::Dialling(_) => {
                core.forget_dial(NodeDialPurpose::Standby);
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

    pub(crate) fn on_standby_unreachable(&mut self, core: &mut Core) {
        if matches!(self.standby.search, StandbyState::Dialling(_)) {
            self.standby.search = StandbyState::Waiting;
            self.standby.failures = self.standby.failures.saturating_add(1);
            self.schedule_standby_dial(core);
        }
    }

    /// A dial has led to a hub, which may be the home under another address.
    pub(crate) fn on_standby_up(&mut self, core: &mut Core, connection: ConnectionId) {
        let hub_at = |connection: ConnectionId| core.connections.get(connection).map(|entry| entry.node);
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
        let unconfirmed =
            |exchange: &PendingHomeRequest| !matches!(exchange.question, HomeRequest::Renew | HomeRequest::Probe(_));
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
            let known = self.hubs.list().get(up.index);
            let addresses = known.map(|known| known.iter().take(MAX_ADDRESSES).cloned().collect());
            let connection = home.connection;
            core.send_reliably(connection, RequestId(0), RegistrationMessage::SetStandby { hub: up.hub, addresses });
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
        let Some(hub) = core.connections.get(connection).map(|entry| entry.node) else { return };
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
        core.forget_dial(NodeDialPurpose::Standby);
        if let StandbyState::Up(up) = std::mem::take(&mut self.standby.search) {
            core.close(up.connection, "the home is lost");
            self.events.push_back(HomeEvent::StandbyLost(up.connection));
        }
    }
}
