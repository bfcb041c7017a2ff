//! Going to another hub, because the home asks for it or to go back: to the new one first, then away from the
//! old one, so that nothing under way fails.
//!
//! Going back: configuration, or balance among hubs, had put the node at the home that was lost, and without a
//! way back each outage leaves hubs less even. Once it lives again it stands by, until it has shown that it
//! lives and knows of everybody, and then changes places with the home.

use std::time::Duration;

use roost_wire::{Address, ConnectionId, Role};

use super::redirect::{MOST, RedirectCause};
use crate::node::connections::{DIAL_LIMIT, NodeDialPurpose};
use crate::node::core::Core;
use crate::node::home::{HomeConnection, HomeEvent, HomeRegistration, HomeRequest, RegistrationState};
use crate::node::timers::Timer;

/// The time for which it stands by: longer than a hub is young, which is a lease.
const TRIAL: Duration = Duration::from_secs(80);

impl HomeRegistration {
    /// The home, or the hub at which the node publishes, names a better one.
    pub(crate) fn on_redirect(&mut self, core: &mut Core, connection: ConnectionId, addresses: Vec<Address>) {
        let is_ours = matches!(&self.state, RegistrationState::Linked(home) if home.connection == connection);
        if !is_ours || (self.redirect.to.is_some() && self.redirect.cause == RedirectCause::Hub) {
            return;
        }
        if self.redirect.to.is_some() {
            // A redirect comes before going back.
            self.drop_redirect(core);
            self.schedule_failback(core);
        }
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.attached.is_none() {
            home.exchange = None;
            core.timers.clear(Timer::HomeReply);
        }
        let index = if self.redirect.try_charge(core.now) { self.hubs.index_of(&addresses) } else { None };
        let Some(index) = index else { return self.stay(core) };
        self.redirect_to(index, RedirectCause::Hub);
        let role = core.hub_role;
        core.dial(NodeDialPurpose::Redirect, addresses, role, None);
        core.set(Timer::Attach, DIAL_LIMIT);
    }

    /// True if another hub is being reached for.
    pub(super) const fn is_being_redirected(&self) -> bool {
        self.redirect.to.is_some()
    }

    /// Another hub of the list is being reached for.
    pub(super) const fn redirect_to(&mut self, index: usize, cause: RedirectCause) {
        (self.redirect.to, self.redirect.cause) = (Some(index), cause);
    }

    /// Nothing comes of it: who has no lease yet asks for it again where it is.
    fn stay(&mut self, core: &mut Core) {
        if matches!(&self.state, RegistrationState::Linked(home) if home.attached.is_none()) {
            self.publish_once_more(core, Duration::ZERO);
        }
    }

    pub(crate) fn on_redirect_failed(&mut self, core: &mut Core) {
        if let Some(index) = self.redirect.to.take() {
            // A hub that names one that is not there is not believed for a while.
            self.redirect.times = MOST;
            core.timers.clear(Timer::Attach);
            self.stay(core);
            self.on_failback_failed(core, index);
        }
    }

    /// The home has gone in the meantime.
    pub(super) fn drop_redirect(&mut self, core: &mut Core) {
        if self.redirect.to.take().is_some() {
            core.forget_dial(NodeDialPurpose::Redirect);
            core.timers.clear(Timer::Attach);
        }
    }

    /// The better hub is reached: it becomes the home, and the old one stands by.
    pub(crate) fn on_redirected(&mut self, core: &mut Core, connection: ConnectionId) {
        let (Some(index), RegistrationState::Linked(home)) = (self.redirect.to.take(), &self.state) else {
            return core.close(connection, "no longer needed");
        };
        core.timers.clear(Timer::Attach);
        let (old, was_home) = (home.connection, home.attached.is_some());
        if core.are_same(old, connection) {
            core.close(connection, "it is the home already");
            self.failback.end(index);
            return self.stay(core);
        }
        if was_home && self.redirect.cause == RedirectCause::Return {
            return self.try_lost_home_as_standby(core, connection, index);
        }
        for timer in [Timer::HomeReply, Timer::Renew] {
            core.timers.clear(timer);
        }
        self.drop_standby(core);
        self.accept_standby(core, old, self.hubs.current_index());
        self.hubs.turn_to(index);
        self.failback.end(index);
        self.state = RegistrationState::Linked(HomeConnection {
            attached: was_home.then_some(core.now),
            ..HomeConnection::new(connection)
        });
        if was_home {
            core.counters.redirects += 1;
            self.events.push_back(HomeEvent::Attached(connection));
        }
        self.publish_anew(core);
    }
}

impl HomeRegistration {
    /// There is a home: perhaps not the one that was lost.
    pub(super) fn schedule_failback(&mut self, core: &mut Core) {
        match self.failback.lost() {
            Some(lost) if lost == self.hubs.current_index() => drop(self.failback.end(lost)),
            // Servers stand by for nobody.
            Some(_) if core.hub_role != Role::SuperNode => {}
            Some(_) => {
                let pause = self.failback.pause(&mut core.random);
                core.set(Timer::Failback, pause);
            }
            None => {}
        }
    }

    pub(crate) fn on_failback_timer(&mut self, core: &mut Core) {
        let (Some(lost), Some(home)) = (self.failback.lost(), self.home()) else { return };
        if self.is_being_redirected() || core.timers.is_set(Timer::Depart(home)) {
            return self.schedule_failback(core);
        }
        if let Some(since) = self.standby.since_at(lost) {
            return match core.now.since(since) >= TRIAL * 3 / 4 && self.standby.answers() {
                true => self.return_home(core, home),
                false => self.begin_trial(core),
            };
        }
        let Some(addresses) = self.hubs.list().get(lost).cloned() else { return };
        let role = core.hub_role;
        self.redirect_to(lost, RedirectCause::Return);
        core.dial(NodeDialPurpose::Redirect, addresses, role, None);
        core.set(Timer::Attach, DIAL_LIMIT);
    }

    /// The one that was lost is reached: it stands by instead of another one.
    pub(super) fn try_lost_home_as_standby(&mut self, core: &mut Core, connection: ConnectionId, index: usize) {
        self.drop_standby(core);
        self.accept_standby(core, connection, index);
        self.name_standby(core);
        self.begin_trial(core);
    }

    fn begin_trial(&mut self, core: &mut Core) {
        let pause = core.random.jitter(TRIAL);
        core.set(Timer::Failback, pause);
    }

    /// The lost home is not there, or did not last as a standby.
    pub(super) fn on_failback_failed(&mut self, core: &mut Core, index: usize) {
        if self.failback.lost() == Some(index) {
            self.failback.record_failure();
            self.schedule_failback(core);
        }
    }

    /// The home and the standby, which was it before, change places.
    fn return_home(&mut self, core: &mut Core, home: ConnectionId) {
        let Some((connection, index)) = self.standby.take_connection() else { return };
        for timer in [Timer::HomeReply, Timer::Renew] {
            core.timers.clear(timer);
        }
        self.accept_standby(core, home, self.hubs.current_index());
        self.hubs.turn_to(index);
        core.counters.returns += u64::from(self.failback.end(index));
        self.state =
            RegistrationState::Linked(HomeConnection { attached: Some(core.now), ..HomeConnection::new(connection) });
        self.events.push_back(HomeEvent::Attached(connection));
        let held = self.record.version;
        self.record.version = held.next();
        self.ask(core, HomeRequest::Return(held), 1, core.now);
    }
}
