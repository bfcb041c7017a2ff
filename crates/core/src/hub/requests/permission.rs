//! Requests under the group's policy. A provider gets those of this hub's nodes that these may make there. Another hub to
//! which data would be relayed is judged, too: it reads along.

use roost_policy::Action;
use roost_wire::messages::Reason;
use roost_wire::{Area, Form};

use super::routed_request::{RequestStage, RequestTarget, RoutedRequest};
use super::{RequestTurn, Requests};
use crate::directory::Judged;
use crate::hub::action::subject_of;
use crate::request_key::RequestKey;

impl Requests {
    /// True if the remote that asks may not have what `choice` would give it, relayed through this hub or not.
    pub(super) fn is_forbidden(
        &self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
        is_relayed: bool,
    ) -> bool {
        let Some(asked) = self.table.get(key) else { return false };
        if asked.is_from_hub() && !is_relayed {
            return false;
        }
        let place = match choice {
            RequestTarget::Node(node) => turn.view.records.get(node).map(|entry| entry.cell()).or(asked.target_cell()),
            RequestTarget::Hub { named, .. } => named.map(|(_, cell)| cell).or(asked.target_cell()),
        };
        let action = if is_relayed { asked.relayed_action() } else { asked.action() };
        let (judged, service) = (Judged { node: asked.remote, action }, subject_of(action, asked.spec.service));
        let is_forbidden = !turn.core.permits(judged.node, action, service, place);
        if is_forbidden {
            turn.core.tell_denial(judged, service, place.map(Area::Exact));
        }
        is_forbidden
    }

    /// There is another policy: requests and flows end that it does not allow.
    pub(crate) fn on_policy(&mut self, turn: &mut RequestTurn<'_>) {
        self.relays.end_forbidden(turn.core);
        let handed = |asked: &RoutedRequest| match asked.stage {
            RequestStage::Handed { to, relay, accepted, .. } => Some((to, relay, accepted)),
            _ => None,
        };
        let all: Vec<_> = self.table.iter().filter_map(|(key, asked)| Some((*key, handed(asked)?))).collect();
        for (key, (to, relay, is_accepted)) in all {
            if !self.is_forbidden(turn, key, to, relay.is_some()) {
                continue;
            }
            if let Some(relay) = relay.filter(|_| !is_accepted) {
                self.relays.end_relay(turn.core, relay, None, Some(Reason::Forbidden));
            }
            match is_accepted {
                true => drop(self.remove_request(key)),
                false => self.decline(turn.core, key, Reason::Forbidden),
            }
        }
    }
}

impl RoutedRequest {
    fn action(&self) -> Action {
        if self.is_reflected() { Action::Subscribe } else { self.relayed_action() }
    }

    /// The action that it is if its answer is relayed: a copy becomes a flow of its requester's own.
    pub(super) fn relayed_action(&self) -> Action {
        match self.spec.service.form() {
            _ if self.is_connect() => Action::Send,
            Form::Call => Action::Call,
            _ => Action::Request,
        }
    }
}
