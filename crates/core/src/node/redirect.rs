//! Going to another hub, because the home asks for it or [to go back](super::failback): to the new one first,
//! then away from the old one, so that nothing under way fails.

use std::time::Duration;

use roost_wire::{Address, ConnectionId, Time};

use super::connections::{DIAL_LIMIT, NodeDialPurpose};
use super::core::Core;
use super::registration::{HomeConnection, HomeEvent, HomeRegistration, RegistrationState};
use super::timers::Timer;

/// How often a node lets itself be sent elsewhere in [`PERIOD`].
const MOST: u8 = 2;

const PERIOD: Duration = Duration::from_secs(60);

/// Where this node was sent.
#[derive(Debug, Default)]
pub(super) struct Redirect {
    /// Which hub of the list is being dialled.
    to: Option<usize>,
    /// Whether that is to go back, and no hub has asked for it.
    is_return: bool,
    /// How often since `since`.
    times: u8,
    since: Time,
}

impl Redirect {
    /// Whether it may go elsewhere once more.
    fn again(&mut self, now: Time) -> bool {
        if self.times == 0 || now.since(self.since) >= PERIOD {
            (self.times, self.since) = (0, now);
        }
        self.times = self.times.saturating_add(1);
        self.times <= MOST
    }
}

impl HomeRegistration {
    /// The home, or the hub at which the node publishes, names a better one.
    pub(super) fn on_redirect(&mut self, core: &mut Core, connection: ConnectionId, addresses: Vec<Address>) {
        let is_ours = matches!(&self.state, RegistrationState::Linked(home) if home.connection == connection);
        if !is_ours || (self.redirect.to.is_some() && !self.redirect.is_return) {
            return;
        }
        if self.redirect.to.is_some() {
            // What a hub asks for comes before going back.
            self.drop_redirect(core);
            self.schedule_failback(core);
        }
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.attached.is_none() {
            home.exchange = None;
            core.timers.clear(Timer::HomeReply);
        }
        let index = if self.redirect.again(core.now) { self.hubs.index_of(&addresses) } else { None };
        let Some(index) = index else { return self.stay(core) };
        self.redirect_to(index, false);
        let role = core.hub_role;
        core.dial(NodeDialPurpose::Redirect, addresses, role, None);
        core.set(Timer::Attach, DIAL_LIMIT);
    }

    /// Whether another hub is being reached for.
    pub(super) const fn is_being_redirected(&self) -> bool {
        self.redirect.to.is_some()
    }

    /// Another hub of the list is being reached for; to go back, or because a hub asks for it.
    pub(super) const fn redirect_to(&mut self, index: usize, is_return: bool) {
        (self.redirect.to, self.redirect.is_return) = (Some(index), is_return);
    }

    /// Nothing comes of it: who has no lease yet asks for it again where it is.
    fn stay(&mut self, core: &mut Core) {
        if matches!(&self.state, RegistrationState::Linked(home) if home.attached.is_none()) {
            self.publish_once_more(core, Duration::ZERO);
        }
    }

    pub(super) fn on_redirect_failed(&mut self, core: &mut Core) {
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
            core.connections.forget(NodeDialPurpose::Redirect);
            core.timers.clear(Timer::Attach);
        }
    }

    /// The better hub is reached: it becomes the home, and the old one stands by.
    pub(super) fn on_redirected(&mut self, core: &mut Core, connection: ConnectionId) {
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
        if was_home && self.redirect.is_return {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_limited_to_two_per_minute() {
        let mut redirect = Redirect::default();
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let went: Vec<bool> = [5, 6, 7, 64, 65, 66, 67].map(|secs| redirect.again(at(secs))).to_vec();
        assert_eq!(went, [true, true, false, false, true, true, false]);
    }
}
