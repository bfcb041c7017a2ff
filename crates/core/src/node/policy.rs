//! The group's policy at a node: its own commands are judged before they begin, and remotes by the certificates of
//! their connections.

use std::sync::Arc;

use roost_policy::{Action, Policy};
use roost_wire::messages::Reason;
use roost_wire::{Area, Cell, ConnectionId, RemoteIdentity, Scope, Service};

use super::Node;
use super::action::{action_of, place_of};
use super::api::{NodeCommand, NodeEvent, Ticket};
use super::core::Core;
use crate::allowance::{Allowance, Denial};

impl Core {
    /// The refusal of what this node may not do itself; `None` if it may. A place that is not known is the best.
    pub(super) fn objection(&self, action: Action, service: Option<Service>, place: Option<Cell>) -> Option<String> {
        self.own.refusal(&self.identity.name, action, service, place)
    }

    /// The refusal of what the remote at a connection may not do with a service of a provider at `place`.
    pub(super) fn objection_to(
        &self,
        connection: ConnectionId,
        action: Action,
        service: Option<Service>,
        place: Cell,
    ) -> Option<String> {
        let own = &self.connections.get(connection)?.own;
        own.allowance.refusal(&own.name, action, service, Some(place))
    }

    /// True if the remote at a connection may do so.
    pub(super) fn permits(
        &self,
        connection: ConnectionId,
        action: Action,
        service: Option<Service>,
        place: Option<Cell>,
    ) -> bool {
        let entry = self.connections.get(connection);
        entry.is_none_or(|entry| entry.own.allowance.permits(action, service, place))
    }

    /// Tells the owner that the remote at a connection may not do something, and by which rule.
    pub(super) fn tell_denial(
        &mut self,
        connection: ConnectionId,
        action: Action,
        service: Option<Service>,
        place: Option<Cell>,
    ) {
        let Some(entry) = self.connections.judged(connection) else { return };
        let area = place.map(Area::Exact);
        if let Some(rule) = entry.own.allowance.rule_against(action, service, area) {
            let (node, name) = (entry.node, entry.own.name.clone());
            self.emit(NodeEvent::Denied(Denial { node, name, action, service, area, rule }));
        }
    }

    /// True if the hub at a connection may read files that nodes send one another.
    pub(super) fn may_relay_files(&self, connection: ConnectionId) -> bool {
        self.permits(connection, Action::Send, None, None)
    }

    /// Fails what the policy does not allow.
    pub(super) fn forbid(&mut self, ticket: Ticket, detail: String) {
        self.counters.forbidden += 1;
        self.emit(NodeEvent::failed(ticket, Reason::Forbidden, detail));
    }
}

impl Node {
    /// True if the policy lets a node send files to this one, as its certificate says.
    pub fn admits_file_of(&self, sender: &RemoteIdentity) -> bool {
        let allowance = Allowance::new(self.core.connections.policy(), sender);
        allowance.permits(Action::Send, None, Some(self.attach.record().cell))
    }

    /// Another policy, or none: what is no longer allowed ends.
    pub(super) fn on_policy(&mut self, policy: Option<Arc<Policy>>) {
        self.core.connections.set_policy(policy);
        self.judge_again();
    }

    /// Ends what is not allowed any more, as the policy or the labels of this node or of a remote are others.
    pub(super) fn judge_again(&mut self) {
        let Self { core, attach, requests, provide, watches, pushes, receptions, rooms, .. } = self;
        core.own = Allowance::new(core.connections.policy(), &core.identity);
        provide.on_policy(core);
        requests.on_policy(core, attach.record().cell);
        watches.on_policy(core, attach.home());
        rooms.on_policy(core, attach);
        pushes.on_policy(core);
        receptions.on_policy(core, attach.record().cell);
    }

    /// The ticket of a command that the policy does not allow this node, and the refusal.
    pub(super) fn objection_to_command(&self, command: &NodeCommand) -> Option<(Ticket, String)> {
        let (core, here) = (&self.core, self.attach.record().cell);
        match command {
            // Files that were offered are judged by the certificate of their sender.
            NodeCommand::Request { request, .. } if request.pushed => None,
            NodeCommand::Request { ticket, request, .. } => {
                let place = place_of(request.scope, request.area, here);
                Some((*ticket, core.objection(action_of(request), Some(request.service), place)?))
            }
            NodeCommand::Lookup { ticket, service, area, .. } => {
                let place = place_of(Scope::Anywhere, *area, here);
                Some((*ticket, core.objection(Action::Lookup, Some(*service), place)?))
            }
            NodeCommand::Watch { ticket, services, area, .. } => {
                let place = place_of(Scope::Anywhere, *area, here);
                let refusals = services.iter().map(|service| core.objection(Action::Watch, Some(service), place));
                Some((*ticket, refusals.collect::<Option<Vec<_>>>()?.into_iter().next()?))
            }
            NodeCommand::JoinRoom { ticket, .. } => Some((*ticket, core.objection(Action::Room, None, None)?)),
            NodeCommand::Push { ticket, published_service, .. } => {
                let place = published_service.map(|(_, cell)| cell);
                Some((*ticket, core.objection(Action::Send, None, place)?))
            }
            _ => None,
        }
    }
}
