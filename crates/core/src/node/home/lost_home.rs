//! The home is lost, or leaves: on to the standby, or to the next hub of the list.

use std::time::Duration;

use roost_wire::ConnectionId;

use super::standby::{ActiveStandby, StandbyState};
use crate::node::core::Core;
use crate::node::home::{HomeConnection, HomeEvent, HomeRegistration, HomeRequest, RegistrationState};
use crate::node::timers::Timer;

/// The longest pause between two rounds of dials while requests wait for a hub.
const PAUSE_IN_NEED: Duration = Duration::from_secs(1);

/// A home that lasted less than this counts as one that failed.
const SHORT_STAY: Duration = Duration::from_secs(1);

/// The time of others to notice the loss of their home: until their next renewal, and then some.
const UNSETTLED: Duration = Duration::from_secs(25);

/// Within how long the nodes of a hub that leaves turn away from it: much less than it waits for that.
const SPREAD: Duration = Duration::from_secs(1);

impl HomeRegistration {
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

    /// The home, or a candidate for it, has failed: on to the next.
    pub(super) fn try_next_home(&mut self, core: &mut Core, connection: Option<ConnectionId>, reason: String) {
        self.drop_standby(core);
        self.drop_redirect(core);
        let stayed = match &self.state {
            RegistrationState::Linked(home) => home.attached.map(|since| core.now.since(since)),
            _ => None,
        };
        core.timers.clear(Timer::HomeReply);
        core.timers.clear(Timer::Renew);
        self.state = RegistrationState::Waiting;
        self.failback.lose(self.hubs.current_index(), stayed);
        if stayed.is_some() {
            core.counters.failovers += 1;
            core.unsettled_until = core.now + UNSETTLED;
        }
        self.events.push_back(HomeEvent::Lost { connection, reason });
        if stayed.is_some_and(|stayed| stayed >= SHORT_STAY) {
            self.hubs.lost();
            return self.dial(core);
        }
        let pause = self.hubs.failed(core.now, &mut core.random);
        let pause = if core.under_way > 0 { pause.min(PAUSE_IN_NEED) } else { pause };
        let pause = pause.max(self.again.rest(core.now));
        if pause.is_zero() { self.dial(core) } else { core.set(Timer::Attach, pause) }
    }

    /// A hub says to all its nodes at once that it leaves. It goes on for some seconds, so they turn to
    /// their standbys one after the other, each when it needs a home or its time has come.
    pub(crate) fn on_handover(&mut self, core: &mut Core, connection: ConnectionId) {
        match &self.state {
            RegistrationState::Linked(HomeConnection {
                connection: home, attached: Some(_), exchange: None, ..
            }) if *home == connection => {
                let wait = Duration::from_nanos(core.random.below(SPREAD.as_nanos() as u64));
                if !core.timers.is_set(Timer::Depart(connection)) {
                    core.set(Timer::Depart(connection), wait);
                }
            }
            // A hub that leaves takes no record any more.
            _ => self.depart(core, connection),
        }
    }

    /// A home is needed: one that leaves is left now. Returns whether it was.
    pub(crate) fn depart_now(&mut self, core: &mut Core) -> bool {
        let leaving = self.home().filter(|home| core.timers.is_set(Timer::Depart(*home)));
        leaving.inspect(|home| self.depart(core, *home)).is_some()
    }

    /// A hub leaves. If it is the home, on to another one; the
    /// connection stays up for what is still relayed over it, until the hub
    /// closes it.
    pub(crate) fn depart(&mut self, core: &mut Core, connection: ConnectionId) {
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
