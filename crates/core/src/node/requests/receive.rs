//! The data of a request that is accepted, and its end.

use bytes::Bytes;
use roost_wire::messages::{Datagram, FlowMessage, Reason};
use roost_wire::{ConnectionId, RequestId};

use super::OutgoingRequests;
use super::incoming_flow::IncomingFlow;
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use super::subscribe::REPORT_PAUSE;
use crate::flow::REPORT_INTERVAL;
use crate::node::api::{NodeEvent, Ticket};
use crate::node::connections::ConnectionLoss;
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::timers::Timer;

impl OutgoingRequests {
    /// Data or the end of a flow.
    pub(crate) fn on_data(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        connection: ConnectionId,
        id: RequestId,
        message: FlowMessage,
    ) {
        let Some(asked) = self.asked.get_mut(&id) else {
            return self.on_stray_data(core, connection, id, message);
        };
        let RequestPhase::Receiving(receiving) = &mut asked.phase else {
            return self.early.keep(id, connection, message);
        };
        if !receiving.may_come_over(core, connection) {
            return self.on_stray_data(core, connection, id, message);
        }
        let was_doubted = asked.subscription.lost.is_none() && receiving.is_doubted(core.now);
        receiving.record_heard(core.now);
        let ticket = asked.ticket;
        if was_doubted {
            self.on_flow_resumed(core, id);
        }
        if let FlowMessage::Stop { reason, .. } = message {
            return self.provider_gone(core, attach, id, reason);
        }
        let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get_mut(&id) else {
            return;
        };
        let breaks_rules = match &message {
            FlowMessage::Datagram(Datagram { sequence: datagrams, .. })
            | FlowMessage::End { packets: datagrams, .. } => receiving.is_incredible(core.now, *datagrams),
            FlowMessage::Chunk(chunk) => receiving.is_overdrawn(chunk),
            _ => false,
        };
        if breaks_rules {
            core.counters.refused += 1;
            stop(core, connection, id, Reason::Protocol);
            return self.finish(core, id, Some(Reason::Protocol));
        }
        if let Some(payload) = receiving.on_message(core, ticket, id, message) {
            core.emit(NodeEvent::Data { ticket, payload });
        }
        if receiving.is_whole() {
            self.finish(core, id, None);
        }
    }

    /// Data of a flow that is not here, or comes another way. It may have overtaken the acceptance by way of a hub.
    fn on_stray_data(&mut self, core: &mut Core, connection: ConnectionId, id: RequestId, message: FlowMessage) {
        let is_known = self.asked.get(&id).is_some();
        if self.keep_overtaking(core, connection, id, &message) {
            return;
        }
        let is_data = matches!(message, FlowMessage::Datagram(_) | FlowMessage::Chunk(_));
        core.counters.refused += u64::from(is_known);
        core.counters.stale += u64::from(!is_known);
        if is_known || is_data {
            stop(core, connection, id, Reason::Cancelled);
        }
    }

    /// A flow may have fallen silent, or its stragglers have had their time.
    pub(crate) fn on_receive_timer(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get(&id) else {
            return;
        };
        if receiving.has_ended() {
            return self.finish(core, id, None);
        }
        if receiving.is_reflected() {
            return self.end_subscription(core, id);
        }
        if !receiving.has_begun() && core.now >= receiving.is_doubted_at() {
            stop(core, receiving.connection, id, Reason::TimedOut);
            return self.provider_gone(core, attach, id, Reason::TimedOut);
        }
        self.check_flow(core, attach, id);
    }

    pub(crate) fn on_report_timer(&mut self, core: &mut Core, id: RequestId) {
        let Some(OutgoingRequest { phase: RequestPhase::Receiving(receiving), .. }) = self.asked.get_mut(&id) else {
            return;
        };
        if receiving.is_overdue(core.now) {
            stop(core, receiving.connection, id, Reason::Protocol);
            return self.finish(core, id, Some(Reason::Protocol));
        }
        if receiving.over_at().is_some_and(|over_at| core.now >= over_at) {
            let reason = (core.now >= receiving.is_doubted_at()).then(|| receiving.why_it_ends());
            stop(core, receiving.connection, id, Reason::Cancelled);
            return self.finish(core, id, reason);
        }
        receiving.report(core, id);
        let pause = if receiving.is_reflected() { REPORT_PAUSE } else { REPORT_INTERVAL };
        let left = receiving.over_at().map_or(pause, |over_at| over_at.since(core.now));
        core.set(Timer::Report(id), pause.min(left));
    }

    /// The connection over which data comes has gone. The provider comes
    /// back over another one, unless one of the two is not admitted any more.
    pub(super) fn on_way_lost(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        connection: ConnectionId,
        loss: ConnectionLoss<'_>,
    ) {
        let (mut over, mut parted) = (Vec::new(), Vec::new());
        for (id, asked) in self.asked.iter_mut() {
            let RequestPhase::Receiving(receiving) = &mut asked.phase else { continue };
            if receiving.connection == connection {
                receiving.record_way_lost(core.now, loss.reason);
                if loss.refused { over.push(*id) } else { parted.push(*id) }
            }
        }
        for id in parted {
            self.await_return(core, id);
            self.look_soon(core, id);
        }
        for id in over {
            self.provider_gone(core, attach, id, Reason::NotAllowed);
        }
    }

    /// The hub that relayed is gone: so is what came through it.
    pub(super) fn on_relay_lost(&mut self, core: &mut Core, attach: &HomeRegistration, connection: ConnectionId) {
        let lost = |asked: &OutgoingRequest| matches!(&asked.phase, RequestPhase::Receiving(r) if r.relayed && r.connection == connection);
        let ids: Vec<_> = self.asked.iter().filter(|(_, asked)| lost(asked)).map(|(id, _)| *id).collect();
        for id in ids {
            self.provider_gone(core, attach, id, Reason::Unreachable);
        }
    }

    /// Nothing more comes. If nothing has come yet, another provider may serve.
    fn provider_gone(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId, reason: Reason) {
        let Some(OutgoingRequest { request, phase: RequestPhase::Receiving(receiving), deadline, .. }) =
            self.asked.get_mut(&id)
        else {
            return;
        };
        if reason == Reason::Busy {
            receiving.mark_displaced();
        }
        let (has_begun, is_reflected, deadline) = (receiving.has_begun(), receiving.is_reflected(), *deadline);
        let may_be_repeated = core.now < deadline && !request.service.is_call();
        // A provider need not wait for a reader that takes nothing.
        let may_be_resumed = receiving.may_be_resumed() && !receiving.waits_for_reader();
        if is_reflected && reason == Reason::TimedOut {
            // The provider has not heard of this node for a while; the stream goes on.
            return self.find_another_way(core, attach, id);
        }
        if reason == Reason::Reflected && self.turn_to_reflected(core, attach, id) {
            return;
        }
        // `Busy`: another requester needs the place; later it is free again, or another provider serves.
        let is_outage = matches!(reason, Reason::TimedOut | Reason::Unreachable | Reason::Busy);
        match has_begun {
            true if is_outage && !is_reflected && may_be_resumed => self.lost(core, attach, id),
            true => self.finish(core, id, Some(reason)),
            false if may_be_repeated => self.ask_anew(core, attach, id),
            false => self.fail(core, id, reason),
        }
    }

    pub(super) fn finish(&mut self, core: &mut Core, id: RequestId, reason: Option<Reason>) {
        let Some(asked) = self.remove(core, id) else { return };
        self.drop_replacement(core, id);
        if let RequestPhase::Receiving(receiving) = &asked.phase {
            let summary = receiving.summary(asked.commanded, core.now, reason);
            self.traces.conclude(core, asked.ticket, NodeEvent::Finished { ticket: asked.ticket, summary });
        }
    }
}

impl IncomingFlow {
    /// Takes data, an end or a key of the flow; returns the payload that is new.
    fn on_message(&mut self, core: &mut Core, ticket: Ticket, id: RequestId, message: FlowMessage) -> Option<Bytes> {
        match message {
            FlowMessage::Datagram(packet) => return self.packet(core, packet),
            FlowMessage::Chunk(chunk) => {
                let fresh = self.chunk(core.now, chunk);
                self.confirm_object(core, id);
                return fresh;
            }
            FlowMessage::End { packets, bytes, digest, .. } => self.end(core, id, packets, bytes, digest),
            FlowMessage::Rekey(rekey) => {
                if let Some((epoch, secret)) = self.rekey(&rekey) {
                    core.emit(NodeEvent::Key { ticket, epoch, secret });
                }
            }
            _ => {}
        }
        None
    }
}

pub(super) fn stop(core: &mut Core, connection: ConnectionId, id: RequestId, reason: Reason) {
    core.send_reliably(connection, id, FlowMessage::Stop { id, reason });
}
