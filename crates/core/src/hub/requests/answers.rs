//! Answers of providers, and their way to the requester.

use std::time::Duration;

use roost_wire::messages::{
    Accept, BodyRequest, Decline, FlowDescription, HopAction, Message, ProviderAddress, Reason, Request,
    RequestMessage, RouteDirection, Sentence,
};
use roost_wire::{Channel, ConnectionId, Delivery, NodeId, RequestId};

use super::RETRY_AFTER;
use super::handoff::AnswerWay;
use super::routed_request::{RequestStage, RequestTarget};
use crate::address_filter;
use crate::hub::HubLimit;
use crate::hub::core::HubCore;
use crate::hub::provider_event::ProviderEvent;
use crate::hub::requests::{RequestTurn, Requests};
use crate::hub::sender::Sender;
use crate::machine::{Traffic, Transmit};
use crate::request_key::RequestKey;

/// Pause before a copy is asked for again for which there was no room: subscribers come and go in seconds, not at
/// once.
const SATURATED_RETRY: Duration = Duration::from_secs(5);

/// The longest that a provider is believed to stay busy, milliseconds.
const LONGEST_RETRY_MS: u32 = 60_000;

impl Requests {
    /// Finds the request that a provider, or the hub that has it, talks about.
    pub(crate) fn handed_to(
        &self,
        from: Sender,
        id: RequestId,
        requester: Option<NodeId>,
    ) -> Option<(RequestKey, RequestTarget)> {
        let key = match requester {
            Some(requester) => RequestKey { requester, id },
            None => self.relays.key_at_provider(from.node, id)?,
        };
        match self.table.get(key)?.stage {
            RequestStage::Handed { to, relay, .. }
                if to.remote() == from.node && relay.is_some() == requester.is_none() =>
            {
                Some((key, to))
            }
            _ => None,
        }
    }

    /// A provider declines: the next one, or a final word. False if it has no such request.
    pub(crate) fn handle_decline(&mut self, turn: &mut RequestTurn<'_>, from: Sender, decline: &Decline) -> bool {
        let Some((key, to)) = self.handed_to(from, decline.id, decline.requester) else { return false };
        let Some(asked) = self.table.get(key) else { return true };
        if matches!(asked.stage, RequestStage::Handed { accepted: true, .. }) {
            // A provider that has accepted ends the flow with `Stop`.
            turn.core.counters.stray += 1;
            return true;
        }
        self.note_answer(turn.core, key);
        self.note_refusal(turn.core, to, decline.reason);
        self.report(turn.core, key, HopAction::Declined, to.remote(), Some(decline.reason));
        self.on_overflow_declined(key, to);
        match decline.reason {
            Reason::Busy => {
                to.node().into_iter().for_each(|node| self.note_provider(node, ProviderEvent::Busy));
                self.note_retry(key, decline.retry_after_ms);
            }
            Reason::Saturated => {
                self.note_retry(key, decline.retry_after_ms);
                self.on_overflow_refused(turn.core, key, to);
            }
            Reason::Leaving => {
                to.node().into_iter().for_each(|node| self.note_provider(node, ProviderEvent::Suspended))
            }
            Reason::SourceFailed => self.note_sentence(key, decline.sentence.clone()),
            _ => {}
        }
        self.try_next_after_decline(turn, key, to, decline.reason);
        true
    }

    /// A provider or a hub has declined the request: the hub relays between two who cannot reach each other, or tries
    /// the next one.
    fn try_next_after_decline(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        to: RequestTarget,
        declined: Reason,
    ) {
        let Some(asked) = self.table.get(key) else { return };
        if let Some(relay) = asked.relay() {
            self.relays.end_relay(turn.core, relay, None, None);
        } else if !asked.is_from_hub()
            && !to.is_overflow()
            && matches!(declined, Reason::Unreachable | Reason::NoTransport)
        {
            match self.hand(turn, key, to, AnswerWay::Relayed) {
                Ok(()) => return,
                Err(reason) => self.record_reason(key, reason),
            }
        }
        if declined == Reason::WrongBody {
            // The requester would give it to others, too.
            return self.decline(turn.core, key, declined);
        }
        // A provider that has no transport for the requester has not dialled it.
        let has_dialled = match declined {
            Reason::Unreachable => true,
            Reason::NoTransport => to.node().is_none(),
            _ => false,
        };
        if has_dialled {
            self.note_dialling(key);
        }
        let reason = match (to, declined) {
            (RequestTarget::Node(_), reason) => reason_for_requester(reason),
            // The provider's home leaves: in a moment it is found elsewhere.
            (RequestTarget::Hub { .. }, Reason::Leaving) => Reason::Unreachable,
            (RequestTarget::Hub { .. }, reason) => reason,
        };
        if matches!(to, RequestTarget::Hub { way: RouteDirection::Up, .. }) {
            self.clear_unreachable_above(key);
        }
        self.record_reason(key, reason);
        self.advance(turn, key);
    }

    /// Somebody dials, or has dialled, where another hub says that the requester is. Nobody else is to: its
    /// home was charged for one.
    fn note_dialling(&mut self, key: RequestKey) {
        if let Some(asked) = self.table.get_mut(key).filter(|asked| asked.is_from_hub()) {
            asked.is_dialled = true;
        }
    }

    /// A parent has answered, so the other's silence cuts nothing off.
    fn clear_unreachable_above(&mut self, key: RequestKey) {
        if let Some(asked) = self.table.get_mut(key).filter(|asked| asked.reason == Reason::UnreachableAbove) {
            asked.reason = Reason::NotFound;
        }
    }

    /// Keeps when the first of the busy providers may be free.
    fn note_retry(&mut self, key: RequestKey, after_ms: Option<u32>) {
        let Some(asked) = self.table.get_mut(key) else { return };
        let after_ms = after_ms.map(|millis| millis.min(LONGEST_RETRY_MS));
        asked.retry_after_ms = asked.retry_after_ms.into_iter().chain(after_ms).min();
    }

    /// Keeps the words of a provider instead of those of the one before.
    fn note_sentence(&mut self, key: RequestKey, sentence: Option<Sentence>) {
        let Some(asked) = self.table.get_mut(key) else { return };
        asked.sentence = sentence.or(asked.sentence.take());
    }

    /// A provider has the request and needs more time: the requester waits longer.
    pub(crate) fn handle_pending(
        &mut self,
        turn: &mut RequestTurn<'_>,
        from: Sender,
        id: RequestId,
        requester: Option<NodeId>,
        told: Option<ProviderAddress>,
    ) {
        let now = turn.core.now;
        let Some((key, to)) = self.handed_to(from, id, requester) else {
            turn.core.counters.stray += 1;
            return;
        };
        self.note_answer(turn.core, key);
        self.end_hop_wait(key);
        self.note_dialling(key);
        let provider = self.provider_address(turn, key, to, from.connection, told);
        let Some(asked) = self.table.get_mut(key) else { return };
        if let RequestStage::Handed { repeats, .. } = &mut asked.stage {
            *repeats = 0;
        }
        if !asked.may_be_pending(now) {
            turn.core.over_limit(from.node, HubLimit::PendingAnswers);
            return;
        }
        let (connection, traffic) = (asked.connection, Traffic::Lookup);
        let pending = RequestMessage::Pending { id: key.id, requester: asked.named_requester(), provider };
        turn.core.send(connection, Channel::Datagram, traffic, pending);
    }

    /// The provider that has a request, with addresses at which the requester may reach it. Those
    /// of a node come from its record and its connections, at hosts where this hub sees it, not
    /// from its answer.
    fn provider_address(
        &self,
        turn: &RequestTurn<'_>,
        key: RequestKey,
        to: RequestTarget,
        connection: ConnectionId,
        told: Option<ProviderAddress>,
    ) -> Option<ProviderAddress> {
        let asked = self.table.get(key).filter(|asked| asked.relay().is_none())?;
        let ProviderAddress { node, mut addresses } = match to {
            RequestTarget::Hub { .. } => {
                let ProviderAddress { node, addresses } = told?;
                ProviderAddress { node, addresses: turn.core.told_by_hub(connection, addresses) }
            }
            RequestTarget::Node(node) => {
                let mut addresses = turn.view.records.get(node).map_or(Vec::new(), |entry| entry.addresses());
                turn.core.add_seen(connection, &mut addresses);
                let (addresses, _) = address_filter::split(&addresses, &turn.core.hosts_of(node));
                ProviderAddress { node, addresses }
            }
        };
        addresses.retain(|address| asked.transports().contains(address.scheme));
        let addresses = turn.core.shareable(asked.connection, addresses);
        (!addresses.is_empty()).then_some(ProviderAddress { node, addresses })
    }

    /// A provider serves a relayed request. The hub at which it is says who it is.
    pub(crate) fn handle_accept(&mut self, turn: &mut RequestTurn<'_>, from: Sender, mut accept: Accept) {
        let now = turn.core.now;
        let Some((key, to)) = self.handed_to(from, accept.id, None) else {
            turn.core.counters.stray += 1;
            return;
        };
        if let RequestTarget::Node(node) = to {
            accept.provider = Some(node);
        }
        self.note_answer(turn.core, key);
        self.end_hop_wait(key);
        self.note_success(to);
        self.relays.accepted(now, accept.id);
        if matches!(&accept.flow, FlowDescription::Object { inline: Some(_), .. }) {
            self.relays.ended(now, accept.id);
        }
        let Some(asked) = self.table.get_mut(key) else { return };
        if let RequestStage::Handed { accepted, .. } = &mut asked.stage {
            *accepted = true;
        }
        // Data on the flow must not overtake it.
        let (relay, flow) = (accept.id, self.relays.flow_after(&accept));
        accept.id = key.id;
        let (connection, traffic) = (asked.connection, Traffic::Lookup);
        let message = Message::Request(RequestMessage::Accept(accept)).encode();
        if !self.relays.charge(relay, message.len()) {
            self.relays.accepts_too_much(turn.core, relay);
            return self.hear_relays(turn);
        }
        turn.core.counters.relayed_messages += 1;
        turn.core.counters.relayed_bytes += message.len() as u64;
        let (channel, delivery) = match flow {
            Some(delivery) => (Channel::Reliable { flow: key.id.0 }, delivery),
            None => (Channel::Datagram, Delivery::CONTROL),
        };
        turn.core.out.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
    }

    /// The provider of a relayed call asks its requester for the body. The hub at which it is says who it is.
    pub(crate) fn handle_body_request(&mut self, turn: &mut RequestTurn<'_>, from: Sender, mut wanted: BodyRequest) {
        let Some((key, to)) = self.handed_to(from, wanted.id, None) else {
            turn.core.counters.stray += 1;
            return;
        };
        if let RequestTarget::Node(node) = to {
            wanted.provider = Some(node);
        }
        self.note_answer(turn.core, key);
        self.end_hop_wait(key);
        let Some(asked) = self.table.get_mut(key) else { return };
        if let RequestStage::Handed { repeats, .. } = &mut asked.stage {
            *repeats = 0;
        }
        let (relay, connection) = (wanted.id, asked.connection);
        self.relays.renew(turn.core.now, relay);
        wanted.id = key.id;
        let message = Message::Request(RequestMessage::BodyRequest(wanted)).encode();
        if !self.relays.charge(relay, message.len()) {
            self.relays.accepts_too_much(turn.core, relay);
            return self.hear_relays(turn);
        }
        let (channel, delivery) = (Channel::Reliable { flow: key.id.0 }, Delivery::CONTROL);
        let (delivery, traffic) = (delivery.on_channel(channel), Traffic::Lookup);
        turn.core.out.push_back(Transmit::Message { connection, channel, delivery, traffic, message });
    }

    /// A requester no longer wants it, before there was a flow to stop.
    pub(crate) fn handle_cancel(&mut self, core: &mut HubCore, from: Sender, id: RequestId) {
        let key = RequestKey { requester: from.node, id };
        if self.table.get(key).is_some_and(|asked| asked.remote == from.node) {
            self.remove_request(key);
        } else {
            core.counters.stray += 1;
        }
    }

    /// The final word. It is kept, so that it can be said again.
    pub(crate) fn decline(&mut self, core: &mut HubCore, key: RequestKey, reason: Reason) {
        let now = core.now;
        let young_for = core.knows_since.map_or(Duration::ZERO, |at| (at + core.config.lease).since(now));
        let Some(asked) = self.table.get_mut(key) else { return };
        let retry_after_ms = match reason {
            // A requester that was held has waited already.
            Reason::NotYetKnown if asked.is_held() => Some(Duration::ZERO),
            Reason::NotYetKnown => Some(young_for.min(2 * RETRY_AFTER)),
            Reason::Busy | Reason::TooMany => Some(RETRY_AFTER),
            Reason::Saturated => Some(SATURATED_RETRY),
            _ => None,
        }
        .map(|after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX));
        let has_word = matches!(reason, Reason::Busy | Reason::Saturated);
        let retry_after_ms = asked.retry_after_ms.filter(|_| has_word).or(retry_after_ms);
        asked.reason = reason;
        self.reflection.release(key);
        self.table.set_stage(key, RequestStage::Declined { retry_after_ms });
        let Some(asked) = self.table.get(key) else { return };
        if !asked.is_from_hub() {
            core.counters.count_outcome(asked.spec.service, asked.mode, reason.into());
        }
        self.report(core, key, HopAction::Exhausted, None, Some(reason));
        self.send_refusal(core, key);
    }

    pub(crate) fn send_refusal(&mut self, core: &mut HubCore, key: RequestKey) {
        let Some(asked) = self.table.get(key) else { return };
        let RequestStage::Declined { retry_after_ms } = asked.stage else { return };
        let requester = asked.named_requester();
        let sentence = asked.sentence.clone().filter(|_| asked.reason == Reason::SourceFailed);
        let decline = Decline { retry_after_ms, requester, sentence, ..Decline::new(key.id, asked.reason) };
        let (connection, traffic) = (asked.connection, Traffic::Lookup);
        core.send(connection, Channel::Datagram, traffic, RequestMessage::Decline(decline));
    }
}

impl HubCore {
    /// Declines a request that is not remembered.
    pub(crate) fn decline_request(&mut self, connection: ConnectionId, request: &Request, reason: Reason) {
        self.counters.count_outcome(request.spec.service, self.mode_of(request), reason.into());
        self.report_declined(connection, request, reason);
        let retry_after_ms = (reason == Reason::TooMany).then_some(RETRY_AFTER.as_millis() as u32);
        let decline = Decline { retry_after_ms, ..Decline::new(request.id, reason) };
        self.send_answer(connection, RequestMessage::Decline(decline));
    }
}

/// The reason that the requester gets to hear of a provider's refusal: not what it would take for the word of its own
/// hub.
fn reason_for_requester(reason: Reason) -> Reason {
    match reason {
        Reason::Leaving => Reason::NotFound,
        Reason::TooMany => Reason::Busy,
        Reason::NotAllowed | Reason::Cancelled | Reason::Reflected => Reason::Unreachable,
        reason => reason,
    }
}
