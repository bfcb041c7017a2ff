//! All subscriptions of this node, and the streams that come for them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use roost_core::node::{NodeCommand, Ticket};
use roost_wire::{StreamId, StreamTag, Time};

use super::playout::Playout;
use super::playouts::Playouts;
use super::{KeyAuthority, StreamSource, Subscription, SubscriptionError};
use crate::keys::AnnouncedKey;
use crate::node::NodeOutput;
use crate::relay::Relay;

/// Time between two looks at how evenly streams come, and at those that come in vain.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

/// A stream that a request gets, and its key.
pub(crate) struct NamedStream {
    pub(crate) source: StreamSource,
    pub(crate) key: AnnouncedKey,
}

/// All subscriptions, as many as the node's machine admits requests, and their streams.
#[derive(Default)]
pub(crate) struct Subscriptions {
    by_ticket: BTreeMap<Ticket, Subscription>,
    playouts: Playouts,
    scratch: Vec<u8>,
    next_check: Time,
    /// Drained by the owner after each input.
    outputs: VecDeque<NodeOutput>,
}

impl Subscriptions {
    pub(crate) fn poll_output(&mut self) -> Option<NodeOutput> {
        self.outputs.pop_front()
    }

    fn command(&mut self, command: NodeCommand) {
        self.outputs.push_back(NodeOutput::Command(command));
    }

    /// A request waits for the stream that is offered under this tag.
    pub(crate) fn expect(&mut self, now: Time, relay: &mut Relay, ticket: Ticket, tag: StreamTag) {
        if let Err(reason) = relay.expect_offer(now, tag) {
            // A request that has its stream keeps the way that it has.
            if self.by_ticket.get(&ticket).is_none_or(|subscription| subscription.source.is_none()) {
                let error = SubscriptionError::Refused(reason);
                self.outputs.push_back(NodeOutput::SubscriptionFailed { ticket, error });
            }
            return;
        }
        self.by_ticket.entry(ticket).or_insert_with(|| Subscription::new(now)).push_tag(tag);
    }

    pub(crate) fn on_began(&mut self, now: Time, relay: &mut Relay, tag: StreamTag, stream: StreamId) {
        let Some((ticket, subscription)) = self.by_ticket.iter_mut().find(|(_, one)| one.tags.contains(&tag)) else {
            // The request is over.
            return self.forget_unwanted(now, relay, stream);
        };
        let oldest = subscription.begin_stream(stream);
        if subscription.stream() != Some(stream) || !subscription.is_confirmed {
            self.playouts.collect(stream);
        }
        self.outputs.push_back(NodeOutput::Received { ticket: *ticket, reception: subscription.reception });
        if let Some(oldest) = oldest {
            self.forget_unwanted(now, relay, oldest);
        }
    }

    /// The provider has named the stream that a request gets under this tag, and its key.
    pub(crate) fn confirm(
        &mut self,
        now: Time,
        relay: &mut Relay,
        (ticket, tag): (Ticket, StreamTag),
        named: &NamedStream,
    ) {
        // A request that is not expected is over.
        let Some(subscription) = self.by_ticket.get_mut(&ticket) else { return };
        let source = named.source;
        let has_come = subscription.stream() == Some(source.stream) || subscription.begun.contains(&source.stream);
        subscription.accept(now, relay, tag);
        let before = subscription.source.replace(source).filter(|before| *before != source);
        let others: Vec<StreamId> =
            subscription.begun.drain(..).chain(before.map(|source| source.stream)).chain([source.stream]).collect();
        self.move_to(now, ticket, source, before);
        others.into_iter().for_each(|other| self.forget_unwanted(now, relay, other));
        if !has_come {
            // A stream that came under the tag before, and is forgotten now, has taken the tag with it. There is room.
            let _ = relay.expect_offer(now, tag);
        }
        self.add_key(now, ticket, &named.key);
    }

    /// A hub names it before the provider has: any other stream that has begun may be the right one.
    pub(crate) fn foretell(&mut self, now: Time, ticket: Ticket, named: &NamedStream) {
        let Some(subscription) = self.by_ticket.get_mut(&ticket) else { return };
        let source = named.source;
        subscription.is_confirmed = false;
        let before = subscription.source.replace(source).filter(|before| *before != source);
        self.playouts.collect(source.stream);
        if let Some(before) = before {
            subscription.begun.push_back(before.stream);
            self.playouts.collect(before.stream);
        }
        self.move_to(now, ticket, source, before);
        self.add_key(now, ticket, &named.key);
    }

    /// A request has this stream from now on instead of the one before: from its last key frame on, if others
    /// here have it already.
    fn move_to(&mut self, now: Time, ticket: Ticket, source: StreamSource, before: Option<StreamSource>) {
        self.part(ticket, before);
        let Some(subscription) = self.by_ticket.get_mut(&ticket) else { return };
        let playout = self.playouts.get_or_begin(source);
        if !playout.tickets.insert(ticket) {
            return;
        }
        let is_new = subscription.reception.packets == 0;
        subscription.change_playout(now, playout.loss());
        // A request that goes on after a break has had its beginning.
        for payload in playout.beginning().iter().filter(|_| is_new) {
            let output = hand_payload(now, ticket, subscription, payload.clone());
            self.outputs.push_back(output);
        }
    }

    /// A request has this stream no longer.
    fn part(&mut self, ticket: Ticket, source: Option<StreamSource>) {
        if let Some(playout) = source.and_then(|source| self.playouts.get_mut(source)) {
            playout.tickets.remove(&ticket);
        }
    }

    /// Takes the key of an epoch of a request's stream: by the provider's word, once there is one.
    pub(crate) fn add_key(&mut self, now: Time, ticket: Ticket, key: &AnnouncedKey) {
        let Some(subscription) = self.by_ticket.get(&ticket) else { return };
        let authority = if subscription.is_confirmed { KeyAuthority::Provider } else { KeyAuthority::Hub };
        let Some(source) = subscription.source else { return };
        let Some(playout) = self.playouts.get_mut(source) else { return };
        playout.add_key(now, key, authority, &mut self.scratch);
        hand_over(now, playout, &mut self.by_ticket, &mut self.outputs);
    }

    pub(crate) fn handle_packet(&mut self, now: Time, stream: StreamId, packet: &[u8]) {
        // The relay tells only afterwards that a stream has begun.
        if self.playouts.playouts_of(stream).next().is_none() {
            self.playouts.collect(stream);
        }
        for playout in self.playouts.playouts_of(stream) {
            playout.open(now, packet, &mut self.scratch);
            hand_over(now, playout, &mut self.by_ticket, &mut self.outputs);
        }
    }

    /// No stream was offered under a tag.
    pub(crate) fn on_offer_timed_out(&mut self, now: Time, relay: &mut Relay, tag: StreamTag) {
        let missed = self.by_ticket.iter().find(|(_, subscription)| subscription.tags.contains(&tag));
        let missed = missed.filter(|(_, subscription)| subscription.is_missed(now, relay, tag));
        if let Some(ticket) = missed.map(|(ticket, _)| *ticket) {
            self.command(NodeCommand::Resubscribe { ticket, lost: true });
        }
    }

    /// The way of a stream is gone.
    pub(crate) fn on_lost(&mut self, stream: StreamId) {
        self.resubscribe_all(stream, |ticket| NodeCommand::Resubscribe { ticket, lost: true });
    }

    /// The way of a stream will be gone soon.
    pub(crate) fn on_upstream_leaving(&mut self, stream: StreamId) {
        self.resubscribe_all(stream, |ticket| NodeCommand::Resubscribe { ticket, lost: false });
    }

    fn resubscribe_all(&mut self, stream: StreamId, command: impl Fn(Ticket) -> NodeCommand) {
        let affected = self.by_ticket.iter().filter(|(_, subscription)| subscription.stream() == Some(stream));
        self.outputs.extend(affected.map(|(ticket, _)| NodeOutput::Command(command(*ticket))));
    }

    /// The streams that requests have, each with one of these.
    pub(crate) fn streams(&self) -> Vec<(StreamId, Ticket)> {
        let mut all: BTreeMap<StreamId, Ticket> = BTreeMap::new();
        for (stream, playout) in self.playouts.all() {
            if let Some(ticket) = playout.tickets.first() {
                all.entry(stream).or_insert(*ticket);
            }
        }
        all.into_iter().collect()
    }

    pub(crate) fn release(&mut self, now: Time, relay: &mut Relay, ticket: Ticket) {
        let Some(Subscription { source, begun, .. }) = self.by_ticket.remove(&ticket) else { return };
        self.part(ticket, source);
        let streams = source.map(|source| source.stream).into_iter().chain(begun);
        streams.for_each(|stream| self.forget_unwanted(now, relay, stream));
    }

    /// Ends a stream, unless a request wants it.
    fn forget_unwanted(&mut self, now: Time, relay: &mut Relay, stream: StreamId) {
        let is_wanted = |playout| self.by_ticket.values().any(|subscription| subscription.wants(playout));
        if !self.playouts.keep(stream, is_wanted) {
            relay.release_stream(now, stream);
        }
    }

    /// The time at which a packet waits no longer for those before it, a request is given up, or streams are
    /// looked at.
    pub(crate) fn poll_deadline(&self) -> Option<Time> {
        let sequences = self.playouts.all().filter_map(|(_, playout)| playout.poll_deadline());
        let check = (!self.playouts.is_empty()).then_some(self.next_check);
        sequences.chain(check).chain(self.by_ticket.values().filter_map(Subscription::gives_up_at)).min()
    }

    /// Hands over packets that wait no longer, looks at streams, and gives up requests, as far as they are due.
    pub(crate) fn handle_timeout(&mut self, now: Time, relay: &Relay) {
        if now >= self.next_check {
            self.next_check = now + CHECK_PAUSE;
            self.record_jitter(relay);
            self.ask_anew(now);
        }
        self.give_up(now);
        let is_due = |playout: &&mut Playout| playout.poll_deadline().is_some_and(|due| due <= now);
        for playout in self.playouts.all_mut().filter(is_due) {
            hand_over(now, playout, &mut self.by_ticket, &mut self.outputs);
        }
    }

    /// Ends requests that were accepted and of which no packet finds its way here: asking again changes that no more.
    fn give_up(&mut self, now: Time) {
        for (ticket, subscription) in &mut self.by_ticket {
            if subscription.gives_up_at().is_none_or(|due| now < due) {
                continue;
            }
            subscription.record_first_packet();
            // The request may have a stream that came for another one already.
            if subscription.reception.packets == 0 {
                let command = NodeCommand::EndSubscription { ticket: *ticket };
                self.outputs.push_back(NodeOutput::Command(command));
            }
        }
    }

    /// Asks once more for streams that come in vain, and gives up those that it has asked for so for long.
    fn ask_anew(&mut self, now: Time) {
        for playout in self.playouts.all_mut().filter_map(|playout| playout.is_undecodable(now).then_some(playout)) {
            for ticket in playout.tickets.iter().copied() {
                // Requests without confirmation await their provider's word.
                let Some(subscription) = self.by_ticket.get_mut(&ticket).filter(|one| one.is_confirmed) else {
                    continue;
                };
                self.outputs.push_back(match subscription.should_give_up(now) {
                    true => NodeOutput::SubscriptionFailed { ticket, error: SubscriptionError::Undecodable },
                    false => NodeOutput::Command(NodeCommand::Resubscribe { ticket, lost: true }),
                });
            }
        }
    }

    fn record_jitter(&mut self, relay: &Relay) {
        for (stream, playout) in self.playouts.all() {
            let Some(jitter) = relay.jitter(stream) else { continue };
            for ticket in &playout.tickets {
                let Some(subscription) = self.by_ticket.get_mut(ticket) else { continue };
                subscription.reception.jitter = jitter;
                let reception = subscription.reception;
                self.outputs.push_back(NodeOutput::Received { ticket: *ticket, reception });
            }
        }
    }
}

/// Counts a payload for a request, and hands it over.
fn hand_payload(now: Time, ticket: Ticket, subscription: &mut Subscription, payload: Bytes) -> NodeOutput {
    subscription.reception.record_payload(now, payload.len());
    NodeOutput::Payload { ticket, payload, reception: subscription.reception }
}

/// Hands payloads that are in order to the requests that have the stream.
fn hand_over(
    now: Time,
    playout: &mut Playout,
    by_ticket: &mut BTreeMap<Ticket, Subscription>,
    outputs: &mut VecDeque<NodeOutput>,
) {
    while let Some(payload) = playout.poll(now) {
        for ticket in &playout.tickets {
            let Some(subscription) = by_ticket.get_mut(ticket) else { continue };
            outputs.push_back(hand_payload(now, *ticket, subscription, payload.clone()));
        }
    }
    let loss = playout.loss();
    for ticket in &playout.tickets {
        let Some(subscription) = by_ticket.get_mut(ticket) else { continue };
        let before = subscription.reception;
        subscription.record_loss(loss);
        if subscription.reception != before {
            outputs.push_back(NodeOutput::Received { ticket: *ticket, reception: subscription.reception });
        }
    }
}
