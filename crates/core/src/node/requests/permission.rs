//! Requests under the group's policy: this node asks for nothing that it may not have, and takes nothing of a provider
//! that may not offer it.

use roost_policy::Action;
use roost_wire::messages::{FlowMessage, Reason};
use roost_wire::{Cell, ConnectionId, RequestId, Role};

use super::OutgoingRequests;
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use crate::node::action::{action_of, place_of};
use crate::node::core::Core;

/// The answer of a provider to a request, and the cell that it gives for itself.
#[derive(Clone, Copy)]
pub(super) struct Offering {
    pub(super) id: RequestId,
    pub(super) cell: Cell,
}

impl OutgoingRequest {
    /// The refusal of what the remote at a connection gives, if that is a node and may not give it. `place` is the
    /// provider's, or that of the receiver of a file.
    fn objection_to_provider(&self, core: &Core, connection: ConnectionId, place: Cell) -> Option<String> {
        let is_node = core.connections.get(connection).is_some_and(|entry| entry.role == Role::Node);
        match self.request.pushed {
            // Hubs are judged when they pass files on.
            true => core.objection_to(connection, Action::Send, None, place),
            false if is_node => core.objection_to(connection, Action::Offer, Some(self.request.service), place),
            false => None,
        }
    }

    fn objection(&self, core: &Core, here: Cell) -> Option<String> {
        if let RequestPhase::Receiving(receiving) = &self.phase {
            let place = if self.request.pushed { here } else { receiving.cell() };
            if let Some(refusal) = self.objection_to_provider(core, receiving.connection, place) {
                return Some(refusal);
            }
        }
        let place = match &self.phase {
            RequestPhase::Receiving(receiving) => Some(receiving.cell()),
            _ => place_of(self.request.scope, self.request.area, here),
        };
        let is_subscription = self.subscription.is_requested;
        let action = if is_subscription { Action::Subscribe } else { action_of(&self.request) };
        let refusal = || core.objection(action, Some(self.request.service), place);
        if self.request.pushed { None } else { refusal() }
    }
}

impl OutgoingRequests {
    /// Refuses what a provider accepts with that may not offer it: for the hub it is silent, so that others are
    /// asked. True if it does.
    pub(super) fn refuses_provider(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        offering: Offering,
        here: Cell,
    ) -> bool {
        let Offering { id, cell } = offering;
        let Some(asked) = self.asked.get_mut(&id) else { return false };
        let place = if asked.request.pushed { here } else { cell };
        let Some(refusal) = asked.objection_to_provider(core, connection, place) else { return false };
        core.counters.forbidden += 1;
        let (is_pushed, service) = (asked.request.pushed, asked.request.service);
        let action = if is_pushed { Action::Send } else { Action::Offer };
        core.tell_denial(connection, action, (!is_pushed).then_some(service), Some(place));
        core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Forbidden });
        asked.last = Some(Reason::Forbidden);
        if asked.is_direct() {
            self.fail_because(core, id, Reason::Forbidden, refusal);
        }
        true
    }

    /// There is another policy: requests end that it does not allow.
    pub(crate) fn on_policy(&mut self, core: &mut Core, here: Cell) {
        for id in self.asked.keys().copied().collect::<Vec<_>>() {
            let refusal = self.asked.get(&id).and_then(|asked| asked.objection(core, here));
            if let Some(refusal) = refusal {
                core.counters.forbidden += 1;
                self.stop_provider(core, id, Reason::Forbidden);
                self.end_forbidden(core, id, refusal);
            }
        }
    }

    fn end_forbidden(&mut self, core: &mut Core, id: RequestId, refusal: String) {
        match self.asked.get(&id).map(|asked| &asked.phase) {
            Some(RequestPhase::Receiving(_)) => self.finish(core, id, Some(Reason::Forbidden)),
            Some(_) => self.fail_because(core, id, Reason::Forbidden, refusal),
            None => {}
        }
    }
}
