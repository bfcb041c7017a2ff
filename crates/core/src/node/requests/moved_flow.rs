//! Flows that go on by way of a hub, as their provider took this node for out of sight.
//!
//! Data that the provider has sent directly may come just before, and the flow then seems to go on as it was. So a hub's
//! late acceptance counts: under the number of the request itself, and under that of a request for the rest of its flow,
//! which was withdrawn.

use roost_wire::messages::{Accept, FlowMessage};
use roost_wire::{ConnectionId, RequestId, Time};

use super::OutgoingRequests;
use super::accept::check_flow_matches;
use super::incoming_flow::{FlowOrigin, IncomingFlow};
use super::outgoing_request::{OutgoingRequest, RequestPhase, WithdrawnRequest};
use crate::node::core::Core;
use crate::node::timers::Timer;

impl OutgoingRequests {
    /// True if the provider of a request goes on by way of the hub that was asked. No hub has that power over a flow
    /// once the time for its answer is over.
    pub(super) fn has_moved(
        &self,
        core: &Core,
        connection: ConnectionId,
        accept: &Accept,
        origin: &FlowOrigin,
    ) -> bool {
        let fits = |asked| check_flow_matches(asked, origin.scheme, &accept.flow).is_ok();
        self.direct_flow(core, connection, accept.id).is_some_and(|flow| may_be_moved(flow, accept, origin))
            && self.asked.get(&accept.id).is_some_and(fits)
    }

    /// The flow of a request that comes directly, and may yet go on by way of the hub at `connection`.
    pub(super) fn direct_flow(&self, core: &Core, connection: ConnectionId, id: RequestId) -> Option<&IncomingFlow> {
        let asked = self.asked.get(&id)?;
        let RequestPhase::Receiving(receiving) = &asked.phase else { return None };
        let hub = core.connections.get(connection)?;
        let was_asked = asked.is_asked_over(connection) || asked.subscription.hub == Some(hub.node);
        let is_hub = hub.role == core.hub_role;
        (is_hub && was_asked && core.now < asked.deadline && !receiving.relayed).then_some(receiving)
    }

    /// The request whose flow came again while one for the rest of it had this number. Once the flow is doubted again,
    /// another one is put.
    fn withdrawn_from(&self, now: Time, number: RequestId) -> Option<RequestId> {
        let is_meant = |withdrawn: &WithdrawnRequest| withdrawn.number == number && now < withdrawn.request.deadline;
        let id = self.withdrawn.iter().find(|(_, withdrawn)| is_meant(withdrawn)).map(|(id, _)| *id)?;
        let RequestPhase::Receiving(flow) = &self.asked.get(&id)?.phase else { return None };
        (!flow.relayed && now < flow.is_doubted_at()).then_some(id)
    }

    /// Keeps data that may have overtaken an acceptance by way of the hub at `connection`. True if that may yet come.
    pub(super) fn keep_overtaking(
        &mut self,
        core: &Core,
        connection: ConnectionId,
        id: RequestId,
        message: &FlowMessage,
    ) -> bool {
        let is_hub = core.connections.get(connection).is_some_and(|entry| entry.role == core.hub_role);
        let may_come =
            self.direct_flow(core, connection, id).is_some() || is_hub && self.withdrawn_from(core.now, id).is_some();
        match message {
            FlowMessage::Datagram(_) | FlowMessage::Chunk(_) | FlowMessage::End { .. } if may_come => {
                self.early.keep(id, connection, message.clone());
                true
            }
            _ => false,
        }
    }

    /// Forgets what was kept of a flow for an acceptance that comes no more.
    pub(super) fn forget_overtaking(&mut self, now: Time, id: RequestId) {
        let Some(asked) = self.asked.get(&id) else { return };
        let is_past = self.withdrawn.get(&id).is_some_and(|kept| now >= kept.request.deadline);
        if now >= asked.deadline {
            self.early.take_messages(id);
        }
        if is_past {
            self.forget_withdrawn(id);
        }
    }

    /// Ends the search for the rest of a flow that its provider has moved.
    pub(super) fn end_resumption(&mut self, core: &mut Core, id: RequestId) {
        core.timers.clear(Timer::Resubscribe(id));
        self.forget_withdrawn(id);
        self.drop_replacement(core, id);
    }

    /// Takes up a withdrawn request, if the acceptance shows that the provider of its flow goes on under that number.
    pub(super) fn restore_withdrawn(&mut self, core: &mut Core, accept: &Accept, origin: &FlowOrigin) {
        let Some(id) = self.withdrawn_from(core.now, accept.id) else { return };
        let Some(OutgoingRequest { nonce, phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get(&id) else {
            return;
        };
        // Nobody can tell if a stream that must come whole would go on or begin anew.
        if *nonce != accept.nonce || receiving.is_kept || !may_be_moved(receiving, accept, origin) {
            return;
        }
        let Some(withdrawn) = self.withdrawn.remove(&id) else { return };
        self.drop_replacement(core, id);
        // Unless this acceptance is taken, the request is over at once.
        core.timers.set(Timer::Deadline(withdrawn.number), core.now);
        self.asked.insert(withdrawn.number, withdrawn.request);
        core.under_way = self.asked.len();
    }

    /// A request for the rest of a flow was withdrawn and does not count any more.
    pub(super) fn forget_withdrawn(&mut self, id: RequestId) {
        if let Some(withdrawn) = self.withdrawn.remove(&id) {
            self.early.take_messages(withdrawn.number);
        }
    }
}

/// True if an acceptance by way of a hub is for the same flow.
fn may_be_moved(flow: &IncomingFlow, accept: &Accept, origin: &FlowOrigin) -> bool {
    let is_same = flow.provider == origin.provider && flow.may_go_on_with(&accept.flow);
    is_same && flow.may_be_resumed() && origin.relayed && origin.reflected.is_none()
}
