//! Dialling for a home: the hubs of the list, one after the other. One that is silent may be far
//! away, so it is not given up for the next, which is dialled as well; the first that answers
//! becomes the home.

use std::time::Duration;

use roost_wire::ConnectionId;

use crate::node::connections::{DIAL_LIMIT, NodeDialPurpose};
use crate::node::core::Core;
use crate::node::home::{HomeConnection, HomeEvent, HomeRegistration, RegistrationState};
use crate::node::timers::Timer;

/// Time that a hub is dialled before the next one is dialled as well.
const HEAD_START: Duration = Duration::from_secs(5);

impl HomeRegistration {
    /// Turns to the hub whose turn it is, or gives up a dial that takes too long.
    pub(crate) fn on_attach_timer(&mut self, core: &mut Core) {
        match self.state {
            RegistrationState::Waiting => self.dial(core),
            RegistrationState::Dialling if self.hubs.has_untried() => self.dial_next(core),
            RegistrationState::Dialling => {
                core.forget_dial(NodeDialPurpose::Home);
                self.on_dial_failed(core, "the dial took too long");
            }
            RegistrationState::Linked(_) => {
                core.forget_dial(NodeDialPurpose::Redirect);
                self.on_redirect_failed(core);
            }
            RegistrationState::Left => {}
        }
    }

    /// Somebody waits for a hub: it is dialled now, not after the pause that was due.
    pub(crate) fn hurry(&mut self, core: &mut Core) {
        if matches!(self.state, RegistrationState::Waiting) && core.timers.is_set(Timer::Attach) {
            core.timers.clear(Timer::Attach);
            self.dial(core);
        }
    }

    pub(super) fn dial(&mut self, core: &mut Core) {
        if let Some(addresses) = self.hubs.current() {
            self.state = RegistrationState::Dialling;
            let role = core.hub_role;
            core.dial(NodeDialPurpose::Home, addresses.to_vec(), role, None);
            core.set(Timer::Attach, if self.hubs.has_untried() { HEAD_START } else { DIAL_LIMIT });
        }
    }

    /// Goes on to the next hub while others may still answer.
    fn dial_next(&mut self, core: &mut Core) {
        self.hubs.pass_over();
        self.dial(core);
    }

    pub(crate) fn on_dial_failed(&mut self, core: &mut Core, reason: &str) {
        if !matches!(self.state, RegistrationState::Dialling) {
            return;
        }
        // The reason names the addresses that were tried.
        let reason = format!("cannot reach the hub: {reason}");
        if !core.is_dialling(NodeDialPurpose::Home) {
            return self.try_next_home(core, None, reason);
        }
        self.events.push_back(HomeEvent::Lost { connection: None, reason });
        if self.hubs.has_untried() {
            self.dial_next(core);
        }
    }

    /// A dial has led to a hub: publish there.
    pub(crate) fn on_connection_up(&mut self, core: &mut Core, connection: ConnectionId) {
        if !matches!(self.state, RegistrationState::Dialling) {
            return core.close(connection, "no longer needed");
        }
        core.timers.clear(Timer::Attach);
        core.forget_dial(NodeDialPurpose::Home);
        if let Some(entry) = core.connections.get(connection) {
            self.hubs.found_at(&entry.address);
        }
        self.state = RegistrationState::Linked(HomeConnection::new(connection));
        self.publish_anew(core);
    }
}
