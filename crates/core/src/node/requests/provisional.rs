//! A reflected stream before its provider has accepted: a hub that carries it has
//! handed over what opens it, which the provider left there, sealed for nodes.
//!
//! It may be wrong or old; then nothing opens, and the provider's word comes as
//! it would have. That word is what counts: it confirms and takes over, or ends
//! it, as does silence.

use std::time::Duration;

use roost_wire::messages::{FlowDescription, ProvisionalAccept, SealedKeys};
use roost_wire::{ConnectionId, NodeId, Time};

use super::OutgoingRequests;
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use crate::node::api::{NodeEvent, Ticket};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The limit of words of hubs for one request.
const MAX_HANDED: u32 = 4;

/// Least time for the provider to confirm then: a hub that keeps old packets shows them for no
/// longer, whatever it says of the provider.
const CONFIRMATION: Duration = Duration::from_secs(8);

impl OutgoingRequests {
    /// A hub hands over what may open the stream of a request: the owner is to
    /// look at it.
    pub(crate) fn on_sealed_keys(&mut self, core: &mut Core, connection: ConnectionId, keys: SealedKeys) {
        let SealedKeys { id, service, provider, sealed, .. } = keys;
        let fits = |asked: &&mut OutgoingRequest| {
            asked.is_asked_over(connection) && asked.awaits(provider) && asked.request.service == service
        };
        let asked = id.and_then(|id| self.asked.get_mut(&id)).filter(fits).filter(|_| core.is_hub(connection));
        let Some(asked) = asked.filter(|asked| asked.subscription.foretold.times < MAX_HANDED) else {
            core.counters.stale += 1;
            return;
        };
        asked.subscription.foretold.times += 1;
        core.emit(NodeEvent::Unseal { ticket: asked.ticket, service, provider, sealed });
    }

    /// The owner has opened it.
    pub(crate) fn on_unsealed(
        &mut self,
        core: &mut Core,
        ticket: Ticket,
        provider: NodeId,
        opening: ProvisionalAccept,
    ) {
        let Some(id) = self.tickets.get(&ticket).copied() else { return };
        let is_its_own = opening.stream_keys.stream.is_of(provider);
        let asked = self.asked.get_mut(&id);
        let Some(asked) = asked.filter(|asked| is_its_own && asked.awaits(provider)) else { return };
        let (Some((_, tag)), Some(via)) =
            (asked.subscription.copy_target, asked.via.and_then(|via| core.connections.get(via)))
        else {
            return;
        };
        let (scheme, confirmation) = (via.address.scheme, CONFIRMATION.max(via.rtt.pto() * 3));
        let ProvisionalAccept { stream_keys: reflected, bits_per_second, format, cell } = opening;
        // The time of a second word counts from the first.
        asked.subscription.foretold.until.get_or_insert(core.now + confirmation);
        core.timers.set(Timer::Deadline(id), asked.due());
        let before = asked.subscription.foretold.provider.replace(provider);
        if before != Some(provider) {
            let duration = asked.request.duration.unwrap_or_default();
            let duration_ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
            let flow = FlowDescription::Stream { duration_ms, bits_per_second, format };
            core.emit(NodeEvent::Accepted { ticket, provider, cell, flow, scheme, relayed: false, reflected: true });
        }
        let (stream, epoch, secret) = (reflected.stream, reflected.epoch, reflected.secret);
        core.emit(NodeEvent::Reflected { ticket, stream, provider, epoch, secret, tag, is_confirmed: false });
        if let Some((epoch, secret)) = reflected.next {
            core.emit(NodeEvent::Key { ticket, epoch, secret });
        }
    }
}

impl OutgoingRequest {
    /// Until when an acceptance is of use: no longer than what was foretold may go on without one.
    pub(super) fn due(&self) -> Time {
        self.subscription.foretold.until.map_or(self.deadline, |until| until.min(self.deadline))
    }

    /// A provider has accepted. If nothing comes of that, others have the time that the request has.
    pub(super) fn confirm(&mut self) {
        self.subscription.foretold.until = None;
    }

    /// True if a reflected stream of this provider would be an answer, and there is none yet.
    fn awaits(&self, provider: NodeId) -> bool {
        let subscription = &self.subscription;
        let is_open = matches!(self.phase, RequestPhase::Waiting | RequestPhase::Pending);
        is_open
            && subscription.is_requested
            && subscription.replaces.is_none()
            && subscription.copy_target.is_some()
            && self.may_be_of(provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::grid::Area;
    use roost_wire::messages::ServiceRequest;
    use roost_wire::service::Service;

    #[test]
    fn provisional_key_shortens_deadline_until_confirmed() {
        let (now, deadline) = (Time::ZERO, Duration::from_secs(30));
        let mut asked =
            OutgoingRequest::new(Ticket(1), ServiceRequest::new(Service::Video, Area::Anywhere), None, now, deadline);
        asked.subscription.foretold.until = Some(now + CONFIRMATION);
        assert_eq!(asked.due(), now + CONFIRMATION);
        asked.confirm();
        assert_eq!(asked.due(), now + deadline);
    }
}
