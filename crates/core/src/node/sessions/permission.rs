//! Requesters under the group's policy. A provider judges the remote to which data would flow: the requester, or the hub
//! that relays and so reads along.

use roost_policy::{Action, Attempt};
use roost_wire::messages::Reason;
use roost_wire::{Cell, ConnectionId, Form, Role, Service};

use super::ProviderSessions;
use super::serve_request::ServeRequest;
use super::session::SessionPhase;
use crate::node::api::SessionId;
use crate::node::core::Core;

impl ProviderSessions {
    /// True if the remote at `connection` may have what a request is for.
    pub(super) fn permits(&self, core: &Core, request: &ServeRequest, connection: ConnectionId) -> bool {
        // This node has chosen the receivers of its files.
        let is_chosen = request.pushed.is_some() && !core.is_way_through_hubs(connection);
        let (action, service, place) = self.attempt(request);
        is_chosen || core.permits(connection, action, service, place)
    }

    /// The action, service and place of a request under the policy.
    fn attempt(&self, request: &ServeRequest) -> (Action, Option<Service>, Option<Cell>) {
        let service = Some(request.offer.service);
        match (request.pushed, request.reflect) {
            (Some(_), _) => (Action::Send, None, None),
            (None, Some(_)) => (Action::Subscribe, service, Some(self.cell)),
            (None, None) if request.offer.service.form() == Form::Call => (Action::Call, service, Some(self.cell)),
            (None, None) => (Action::Request, service, Some(self.cell)),
        }
    }

    fn tell_denial(&self, core: &mut Core, request: &ServeRequest, connection: ConnectionId) {
        let (action, service, place) = self.attempt(request);
        core.tell_denial(connection, action, service, place);
    }

    /// Declines a request of a remote that may not have it, before anything makes room for it. True if it does.
    pub(super) fn decline_forbidden(&mut self, core: &mut Core, request: &ServeRequest) -> bool {
        let forbidden = way_to(core, request).filter(|way| !self.permits(core, request, *way));
        if let Some(way) = forbidden {
            core.counters.forbidden += 1;
            self.tell_denial(core, request, way);
            self.on_member_refused(core, request);
            super::decline(core, request, Reason::Forbidden, None);
        }
        forbidden.is_some()
    }

    /// There is another policy, or this node is elsewhere: sessions end whose requesters may not have them any more.
    pub(crate) fn on_policy(&mut self, core: &mut Core) {
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end_if_forbidden(core, id);
        }
        for id in self.publications.ids() {
            self.withhold_keys(core, id);
        }
    }

    fn end_if_forbidden(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let Some(connection) = session.connection.filter(|way| !self.permits(core, &session.request, *way)) else {
            return;
        };
        match session.phase {
            SessionPhase::Done { .. } => {
                // An object in the acceptance is not said again.
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.accept = None;
                }
            }
            _ => self.turn_away(core, id, connection),
        }
    }

    /// Ends a session whose requester is at `connection` and may not have it.
    pub(super) fn turn_away(&mut self, core: &mut Core, id: SessionId, connection: ConnectionId) {
        core.counters.forbidden += 1;
        if let Some(session) = self.sessions.get(&id) {
            self.tell_denial(core, &session.request, connection);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if matches!(session.phase, SessionPhase::Reaching | SessionPhase::Fetching(_) | SessionPhase::Opening) {
            return self.refuse(core, id, Reason::Forbidden);
        }
        session.connection = Some(connection);
        self.stop_requester(core, id, Reason::Forbidden);
    }

    /// True if every node may have the service's stream, so that hubs may keep what opens it.
    pub(super) fn may_leave_keys(&self, core: &Core, service: Service) -> bool {
        is_for_all(core, Action::Subscribe, service, self.cell)
    }

    /// True if every node on the link may know that this node offers the service.
    pub(crate) fn may_show(&self, core: &Core, service: Service) -> bool {
        is_for_all(core, Action::Lookup, service, self.cell)
    }
}

impl Core {
    fn is_way_through_hubs(&self, connection: ConnectionId) -> bool {
        self.connections.get(connection).is_some_and(|entry| entry.own.tunnel.is_some())
    }
}

/// The connection over which data for a request would flow, if that is up.
pub(super) fn way_to(core: &Core, request: &ServeRequest) -> Option<ConnectionId> {
    let transports = request.spec.transports;
    if request.addresses.is_empty() || request.relayed {
        let fits = |way: &ConnectionId| {
            core.connections.get(*way).is_some_and(|entry| transports.contains(entry.address.scheme))
        };
        return request.asked_by.filter(fits);
    }
    let sound = core.connections.between(core.now, request.requester, transports, &request.addresses);
    // A reflected stream comes by way of hubs, and its keys may be left there, too.
    let may_be_dead = request.reflect.is_some();
    let doubted = || core.connections.doubted(core.now, request.requester, transports).pop();
    sound.or_else(|| may_be_dead.then(doubted).flatten())
}

fn is_for_all(core: &Core, action: Action, service: Service, place: Cell) -> bool {
    let attempt = Attempt { action, service: Some(service.base_name()), place: Some(place) };
    core.connections.policy().is_none_or(|policy| policy.allows_all(Role::Node, &attempt))
}
