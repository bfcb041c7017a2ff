//! Streams that end here: packets are opened, put in order, and handed to the
//! requests that watch them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use roost_proto::node::{NodeCommand, Ticket};
use roost_proto::reflection::{Epoch, EpochSecret, StreamId, StreamTag};
use roost_proto::{NodeId, Time};
use roost_reflection::Relay;

use super::playout::{Missed, Playout};
use super::playouts::Playouts;
use super::relay_client::SubscriberOutput;
use super::request::{MAX_TAGS, ReflectedRequest};

/// How often it is noted how evenly streams come.
const MEASURED: Duration = Duration::from_millis(500);

/// The sentence for a stream that comes in vain.
const HOPELESS: &str = "what comes of this stream has not opened for 30 seconds with the keys that its provider tells: \
    ask for it from another provider";

/// All that is watched here.
pub(super) struct Subscriptions {
    ending: SubscriberOutput,
    requests: BTreeMap<Ticket, ReflectedRequest>,
    copies: Playouts,
    opened: Vec<u8>,
    /// When it is looked again how evenly streams come.
    measures: Time,
}

impl Subscriptions {
    pub(super) fn new(ending: SubscriberOutput) -> Self {
        let (requests, copies) = (BTreeMap::new(), Playouts::default());
        Self { ending, requests, copies, opened: Vec::new(), measures: Time::ZERO }
    }

    /// A request waits for what is offered under this tag.
    pub(super) fn expect(&mut self, now: Time, relay: &mut Relay, ticket: Ticket, tag: StreamTag) {
        if let Err(reason) = relay.expect_offer(now, tag) {
            // One that has its stream keeps the way that it has.
            if self.requests.get(&ticket).is_none_or(|request| request.copy.is_none()) {
                self.ending.end(ticket, format!("this node cannot take one more stream: {reason}"));
            }
            return;
        }
        let request = self.requests.entry(ticket).or_default();
        request.tags.push_back(tag);
        if request.tags.len() > MAX_TAGS {
            request.tags.pop_front();
        }
    }

    /// A stream comes under this tag.
    pub(super) fn began(&mut self, now: Time, relay: &mut Relay, tag: StreamTag, stream: StreamId) {
        let ticket = self.of_tag(tag);
        let Some(request) = ticket.and_then(|ticket| self.requests.get_mut(&ticket)) else {
            // Its request is over.
            return self.forget_unwanted(now, relay, stream);
        };
        request.is_begun();
        ticket.into_iter().for_each(|ticket| self.ending.tallies.update_stats(ticket, |tally| tally.is_offered = true));
        if request.stream() != Some(stream) || !request.is_confirmed {
            self.copies.collect(stream);
        }
        if !request.begun.contains(&stream) {
            request.begun.push_back(stream);
        }
        let is_full = request.begun.len() > MAX_TAGS;
        if is_full && let Some(oldest) = request.begun.pop_front() {
            self.forget_unwanted(now, relay, oldest);
        }
    }

    /// The provider has said which stream a request gets, and what opens it.
    pub(super) fn set_confirmed_stream(
        &mut self,
        now: Time,
        relay: &mut Relay,
        ticket: Ticket,
        (tag, stream, provider): (StreamTag, StreamId, NodeId),
        (epoch, secret): (Epoch, &EpochSecret),
    ) {
        // One that is not expected is over.
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        request.is_confirmed = true;
        request.accept(now, relay, tag);
        let before = request.copy.replace((stream, provider)).filter(|before| *before != (stream, provider));
        let others: Vec<StreamId> =
            request.begun.drain(..).chain(before.map(|(stream, _)| stream)).chain([stream]).collect();
        self.join(ticket, (stream, provider));
        self.part(ticket, before);
        others.into_iter().for_each(|other| self.forget_unwanted(now, relay, other));
        self.key(now, ticket, epoch, secret);
    }

    /// A hub says so, before the provider has: what else has begun may be what that says.
    pub(super) fn set_provisional_stream(
        &mut self,
        now: Time,
        ticket: Ticket,
        copy: (StreamId, NodeId),
        (epoch, secret): (Epoch, &EpochSecret),
    ) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        request.is_confirmed = false;
        let before = request.copy.replace(copy).filter(|before| *before != copy);
        self.copies.collect(copy.0);
        if let Some((stream, _)) = before {
            request.begun.push_back(stream);
            self.copies.collect(stream);
        }
        self.join(ticket, copy);
        self.part(ticket, before);
        self.key(now, ticket, epoch, secret);
    }

    /// A request watches a stream from now on: from the last key frame on, if others here watch it already.
    fn join(&mut self, ticket: Ticket, (stream, provider): (StreamId, NodeId)) {
        let watched = self.copies.of_word(stream, provider);
        if watched.requests.contains_key(&ticket) {
            return;
        }
        let counted = (watched.skipped(), watched.subscriber.counts().duplicate);
        let (mut missed, mut is_new) = (Missed::default(), true);
        self.ending.tallies.update_stats(ticket, |tally| {
            is_new = tally.packets == 0;
            missed = Missed {
                lost: tally.lost.saturating_add(tally.missed_since(Instant::now())).wrapping_sub(counted.0),
                duplicates: tally.duplicates.wrapping_sub(counted.1),
            };
        });
        watched.requests.insert(ticket, missed);
        // One that goes on after a break has had its beginning.
        for payload in watched.beginning.payloads().iter().filter(|_| is_new) {
            self.ending.hand_over(ticket, payload);
        }
    }

    /// What opens an epoch of a request's stream: by the provider's word, once there is one.
    pub(super) fn key(&mut self, now: Time, ticket: Ticket, epoch: Epoch, secret: &EpochSecret) {
        let Some(&ReflectedRequest { copy: Some((stream, provider)), is_confirmed, .. }) = self.requests.get(&ticket)
        else {
            return;
        };
        let Some(watched) = self.copies.get_mut((stream, Some(provider))) else { return };
        watched.key(now, (epoch, secret), is_confirmed, &mut self.opened);
        hand_over(&self.ending, now, watched);
    }

    /// A packet has come.
    pub(super) fn deliver(&mut self, now: Time, stream: StreamId, packet: &[u8]) {
        // The relay tells only afterwards that a stream has begun.
        if self.copies.playouts_of(stream).next().is_none() {
            self.copies.collect(stream);
        }
        for watched in self.copies.playouts_of(stream) {
            watched.open(now, packet, &mut self.opened);
            hand_over(&self.ending, now, watched);
        }
    }

    /// Nothing was offered under a tag.
    pub(super) fn unoffered(&self, now: Time, relay: &mut Relay, tag: StreamTag) {
        let Some(ticket) = self.of_tag(tag) else { return };
        if self.requests.get(&ticket).is_some_and(|request| request.is_missed(now, relay, tag)) {
            self.ending.mailbox.post(NodeCommand::Resubscribe { ticket, lost: true });
        }
    }

    /// The way of a stream is gone, or will be.
    pub(super) fn resubscribe(&self, stream: StreamId, lost: bool) {
        let tickets = self.requests.iter().filter(|(_, request)| request.stream() == Some(stream));
        tickets.for_each(|(ticket, _)| self.ending.mailbox.post(NodeCommand::Resubscribe { ticket: *ticket, lost }));
    }

    /// The streams that requests have, each with one of these.
    pub(super) fn streams(&self) -> Vec<(StreamId, Ticket)> {
        let mut all: BTreeMap<StreamId, Ticket> = BTreeMap::new();
        for (stream, watched) in self.copies.all() {
            if let Some(ticket) = watched.requests.keys().next() {
                all.entry(stream).or_insert(*ticket);
            }
        }
        all.into_iter().collect()
    }

    /// A request is over.
    pub(super) fn release(&mut self, now: Time, relay: &mut Relay, ticket: Ticket) {
        let Some(ReflectedRequest { copy, begun, .. }) = self.requests.remove(&ticket) else { return };
        self.part(ticket, copy);
        let streams = copy.map(|(stream, _)| stream).into_iter().chain(begun);
        streams.for_each(|stream| self.forget_unwanted(now, relay, stream));
    }

    /// A request watches this no longer.
    fn part(&mut self, ticket: Ticket, copy: Option<(StreamId, NodeId)>) {
        let watched = copy.and_then(|(stream, provider)| self.copies.get_mut((stream, Some(provider))));
        if let Some(watched) = watched {
            watched.requests.remove(&ticket);
        }
    }

    /// Has a stream come no more, unless a request wants it.
    fn forget_unwanted(&mut self, now: Time, relay: &mut Relay, stream: StreamId) {
        let is_wanted = |copy| self.requests.values().any(|request| request.wants(copy));
        if !self.copies.keep(stream, is_wanted) {
            relay.release_stream(now, stream);
        }
    }

    fn of_tag(&self, tag: StreamTag) -> Option<Ticket> {
        self.requests.iter().find(|(_, request)| request.tags.contains(&tag)).map(|(ticket, _)| *ticket)
    }

    /// When something waits no longer for what is missing, or it is looked how evenly streams come.
    pub(super) fn poll_deadline(&self) -> Option<Time> {
        let sequences = self.copies.all().filter_map(|(_, watched)| watched.poll_deadline());
        let measures = (!self.copies.is_empty()).then_some(self.measures);
        sequences.chain(measures).chain(self.requests.values().filter_map(ReflectedRequest::gives_up_at)).min()
    }

    /// That time has come.
    pub(super) fn handle_timeout(&mut self, now: Time, relay: &Relay) {
        if now >= self.measures {
            self.measures = now + MEASURED;
            self.note_jitter(relay);
            self.ask_anew(now);
        }
        self.give_up(now);
        let is_due = |watched: &&mut Playout| watched.poll_deadline().is_some_and(|due| due <= now);
        self.copies.all_mut().filter(is_due).for_each(|watched| hand_over(&self.ending, now, watched));
    }

    /// Ends requests that were accepted and of which no packet finds its way here: asking again changes that no more.
    fn give_up(&mut self, now: Time) {
        for (ticket, request) in &mut self.requests {
            if request.gives_up_at().is_none_or(|due| now < due) {
                continue;
            }
            // It may have a stream that came for another one already.
            let mut came = 0;
            self.ending.tallies.update_stats(*ticket, |tally| came = tally.packets);
            request.is_begun();
            if came == 0 {
                self.ending.mailbox.post(NodeCommand::EndSubscription { ticket: *ticket });
            }
        }
    }

    /// Asks once more for streams that come in vain, and gives up what has been asked for so for long.
    fn ask_anew(&mut self, now: Time) {
        for watched in self.copies.all_mut().filter_map(|watched| watched.is_undecodable(now).then_some(watched)) {
            for ticket in watched.requests.keys().copied() {
                // The others await their provider's word.
                let Some(request) = self.requests.get_mut(&ticket).filter(|request| request.is_confirmed) else {
                    continue;
                };
                let mut handed = 0;
                self.ending.tallies.update_stats(ticket, |tally| handed = tally.packets);
                match request.should_give_up(now, handed) {
                    true => self.ending.end(ticket, HOPELESS.to_owned()),
                    false => self.ending.mailbox.post(NodeCommand::Resubscribe { ticket, lost: true }),
                }
            }
        }
    }

    fn note_jitter(&self, relay: &Relay) {
        for (stream, watched) in self.copies.all() {
            let Some(jitter) = relay.jitter(stream) else { continue };
            watched
                .requests
                .keys()
                .for_each(|ticket| self.ending.tallies.update_stats(*ticket, |tally| tally.jitter = jitter));
        }
    }
}

/// Hands what is in order to those who watch.
fn hand_over(ending: &SubscriberOutput, now: Time, watched: &mut Playout) {
    while let Some(payload) = watched.poll(now) {
        watched.requests.keys().for_each(|ticket| ending.hand_over(*ticket, &payload));
    }
    let (lost, duplicates) = (watched.skipped(), watched.subscriber.counts().duplicate);
    for (ticket, missed) in &watched.requests {
        ending.tallies.update_stats(*ticket, |tally| {
            tally.lost = lost.wrapping_add(missed.lost);
            tally.duplicates = duplicates.wrapping_add(missed.duplicates);
        });
    }
}
