//! The bodies of calls. A provider that has a call asks for the body and shows the request's secret.
//!
//! Each provider gets the body for one run: the first of which this node hears. So a provider runs a call at most once,
//! however often the request is repeated and whatever becomes of connections, sessions and daemons meanwhile.

use roost_wire::messages::{BodyRequest, FlowMessage, Reason};
use roost_wire::{Cell, ConnectionId, NodeId, RequestId, Role};

use super::OutgoingRequests;
use super::answers::PENDING_PATIENCE;
use super::outgoing_body::{BodyClaim, BodyWay};
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use super::permission::Offering;
use crate::node::core::Core;
use crate::node::timers::Timer;

impl OutgoingRequest {
    /// Tells providers that have the body, but the one that has accepted, that nobody waits for them.
    pub(super) fn stop_runs(&mut self, core: &mut Core, id: RequestId, accepted: Option<NodeId>) {
        for connection in self.body.end_runs(accepted) {
            core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
        }
    }
}

impl OutgoingRequests {
    /// A provider has a call and asks for its body.
    pub(crate) fn on_body_request(
        &mut self,
        core: &mut Core,
        here: Cell,
        connection: ConnectionId,
        wanted: BodyRequest,
    ) {
        let id = wanted.id;
        let Some(asked) = self.asked.get_mut(&id) else {
            core.counters.stale += 1;
            return core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
        };
        let Some(entry) = core.connections.get_mut(connection) else { return };
        let (provider, way) = match entry.role {
            Role::Node => (Some(entry.node), BodyWay::Direct(connection)),
            _ => (wanted.provider, BodyWay::Relayed(connection)),
        };
        if asked.nonce != wanted.nonce {
            entry.own.guesses = entry.own.guesses.saturating_add(1);
        }
        let is_allowed = asked.request.transports.contains(entry.address.scheme);
        let Some(provider) = provider.filter(|_| asked.nonce == wanted.nonce && asked.request.service.is_call()) else {
            core.counters.refused += 1;
            return;
        };
        if let RequestPhase::Receiving(receiving) = &asked.phase {
            // The accepting provider has the body: a late question for it is of no use any more.
            if receiving.provider != provider {
                core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
            }
            return;
        }
        if !is_allowed {
            core.counters.refused += 1;
            return core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::NoTransport });
        }
        if self.refuses_provider(core, connection, Offering { id, cell: wanted.cell }, here) {
            return;
        }
        self.give_body(core, way, provider, wanted);
    }

    fn give_body(&mut self, core: &mut Core, way: BodyWay, provider: NodeId, wanted: BodyRequest) {
        let id = wanted.id;
        let (BodyWay::Direct(connection) | BodyWay::Relayed(connection)) = way;
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let stop = |reason| FlowMessage::Stop { id, reason };
        let is_up = |hub: ConnectionId| core.connections.get(hub).is_some();
        if asked.body.other_relay(provider, wanted.run, way).is_some_and(is_up) {
            // Two hubs have handed the call over, and each relays.
            return core.send_reliably(connection, id, stop(Reason::Cancelled));
        }
        match asked.body.claim(provider, wanted.run, way) {
            BodyClaim::Given => {}
            BodyClaim::Ignored => return,
            BodyClaim::TooMany => return core.send_reliably(connection, id, stop(Reason::TooMany)),
            BodyClaim::Lost => {
                core.send_reliably(connection, id, stop(Reason::Cancelled));
                let lost = "the provider has lost the call, which it may have run: call again if it may run twice";
                return self.fail_because(core, id, Reason::Unreachable, lost.to_owned());
            }
        }
        asked.await_call(core, id, connection);
        for piece in asked.body.pieces(id, wanted.offset) {
            core.send_reliably(connection, id, FlowMessage::Body(piece));
        }
    }
}

impl OutgoingRequest {
    /// A provider has the call: it is waited for as for one that is on its way.
    fn await_call(&mut self, core: &mut Core, id: RequestId, connection: ConnectionId) {
        if matches!(self.phase, RequestPhase::Waiting) {
            self.answered(core);
        }
        self.phase = RequestPhase::Pending;
        core.timers.clear(Timer::MulticastSearch(id));
        if let Some(search) = &mut self.ways.multicast {
            search.over = true;
        }
        core.set(Timer::Ask(id), PENDING_PATIENCE.max(core.pto(connection) * 2));
    }
}
