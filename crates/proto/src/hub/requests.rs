//! A request's way from provider to provider, to at most one final answer.
//!
//! Success is silent: the provider answers the requester. What the hub hears
//! of is trouble: the requester asks again, or the provider declines. So an
//! entry is a memory of what was tried, kept until the requester's deadline.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::seek::Waiter;
use super::{Hub, Kind, MAX_PER_WAKE, Outcome, Sender};
use crate::address::{Address, SchemeSet};
use crate::directory::{Query, Rank};
use crate::grid::Area;
use crate::ids::{LinkId, NodeId, Nonce, RequestId};
use crate::machine::{Channel, Traffic};
use crate::service::Service;
use crate::time::Time;
use crate::wire::{Accept, Candidate, Coverage, Decline, Forward, Message, Mode, Params, Reason, Request};

/// How many providers a request considers if it does not say.
const DEFAULT_CONSIDERED: usize = 8;

/// The longest that a request is remembered, whatever its deadline.
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// When to ask again after a refusal for want of room.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Names a request at this hub: whose number it is, and the number. A request
/// that a peer hands on to be answered directly keeps its requester's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) asker: NodeId,
    pub(super) id: RequestId,
}

/// The requests that the hub remembers.
#[derive(Debug, Default)]
pub(super) struct Requests {
    table: BTreeMap<Key, Asked>,
    timers: BTreeSet<(Time, Key)>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Asked {
    /// The neighbour that asked and over which link: the requester or a peer hub.
    pub(super) neighbour: NodeId,
    pub(super) link: LinkId,
    /// Whether a peer hub asked.
    carried: bool,
    requester: NodeId,
    nonce: Nonce,
    pub(super) service: Service,
    mode: Mode,
    params: Option<Params>,
    /// From a peer hub: where the provider is to answer. Otherwise the
    /// requester's record says it.
    reply_to: Vec<Address>,
    until: Time,
    choices: VecDeque<Choice>,
    stage: Stage,
    /// The gravest reason so far why nobody serves it.
    reason: Reason,
}

/// A provider to try, and the peer at which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) node: NodeId,
    via: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The peers are being asked.
    Seeking,
    /// The provider is being dialled over a transport that the request wants.
    Dialling(Choice),
    /// The provider has it.
    Handed {
        to: Choice,
        /// The relayed flow, if the hub carries the answer.
        relay: Option<RequestId>,
        /// Whether it was repeated without a word since.
        repeated: bool,
        accepted: bool,
    },
    /// Nobody serves it; said again whenever the requester asks again.
    Refused { retry_after_ms: Option<u32> },
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn get(&self, key: Key) -> Option<&Asked> {
        self.table.get(&key)
    }

    fn insert(&mut self, key: Key, asked: Asked) {
        self.timers.insert((asked.until, key));
        if let Some(before) = self.table.insert(key, asked) {
            self.timers.remove(&(before.until, key));
        }
    }

    fn remove(&mut self, key: Key) -> Option<Asked> {
        let asked = self.table.remove(&key)?;
        self.timers.remove(&(asked.until, key));
        Some(asked)
    }
}

impl Asked {
    pub(super) fn transports(&self) -> SchemeSet {
        self.params.and_then(|params| params.transports).unwrap_or(SchemeSet::ALL)
    }

    /// Whether the hub carries the answer from the start.
    fn is_relay(&self) -> bool {
        self.mode == Mode::Relay
    }

    /// Whether it can be forgotten for the sake of a newer one: what follows
    /// goes on without the hub, or is nothing.
    fn is_forgettable(&self) -> bool {
        matches!(
            self.stage,
            Stage::Handed { relay: None, .. } | Stage::Handed { accepted: true, .. } | Stage::Refused { .. }
        )
    }

    fn relay(&self) -> Option<RequestId> {
        match self.stage {
            Stage::Handed { relay, .. } => relay,
            _ => None,
        }
    }

    /// What the peer that handed the request on calls it.
    fn named_requester(&self) -> Option<NodeId> {
        (self.carried && !self.is_relay()).then_some(self.requester)
    }
}

impl Choice {
    /// The neighbour that gets the request.
    fn neighbour(self) -> NodeId {
        self.via.unwrap_or(self.node)
    }
}

impl Hub {
    /// A node asks for a service.
    pub(super) fn request(&mut self, now: Time, from: Sender, mut request: Request) {
        if self.config.kind == Kind::Server && request.mode == Mode::Forward {
            request.mode = Mode::Relay;
        }
        let key = Key { asker: from.node, id: request.id };
        if self.is_repeat(key, from.node, request.nonce) {
            return self.repeat(now, key, from.link);
        }
        self.counters.count_request(request.service, request.mode);
        if let Some(reason) = self.objection(&request) {
            return self.decline_request(from.link, &request, reason);
        }
        if request.mode == Mode::Locate {
            return self.locate(now, from, &request);
        }
        if !self.admit(from.node) {
            return self.decline_request(from.link, &request, Reason::TooMany);
        }
        let mut query = self.query(from.node, &request, DEFAULT_CONSIDERED);
        query.except = Some(from.node);
        self.remember(
            key,
            from,
            Asked {
                neighbour: from.node,
                link: from.link,
                carried: false,
                requester: from.node,
                nonce: request.nonce,
                service: request.service,
                mode: request.mode,
                params: request.params,
                reply_to: Vec::new(),
                until: now + Duration::from_millis(u64::from(request.deadline_ms)).min(MAX_DEADLINE),
                choices: VecDeque::new(),
                stage: Stage::Seeking,
                reason: Reason::NotFound,
            },
        );
        self.choose_or_seek(now, key, request.area, query);
    }

    fn objection(&self, request: &Request) -> Option<Reason> {
        if self.leaving.is_some() {
            return Some(Reason::Leaving);
        }
        request.id.is_of_hub().then_some(Reason::Protocol)
    }

    /// Whether this is a request that the hub has already from this neighbour.
    fn is_repeat(&self, key: Key, neighbour: NodeId, nonce: Nonce) -> bool {
        self.requests.get(key).is_some_and(|asked| asked.nonce == nonce && asked.neighbour == neighbour)
    }

    /// Makes room for one more request of a neighbour, by forgetting its
    /// oldest if that has been handed on. False if there is no room.
    fn admit(&mut self, node: NodeId) -> bool {
        let limits = &self.config.limits;
        let Some(neighbour) = self.neighbours.get_mut(node) else { return false };
        let allowance = neighbour.allowance(limits.requests_per_node);
        while let Some(oldest) = neighbour.requests.front() {
            let over = self.requests.get(*oldest).is_none_or(|asked| asked.neighbour != node);
            if !over && neighbour.requests.len() < allowance {
                break;
            }
            if !over && self.requests.get(*oldest).is_some_and(|asked| !asked.is_forgettable()) {
                self.counters.over_limit += 1;
                return false;
            }
            self.requests.remove(*oldest);
            neighbour.requests.pop_front();
        }
        if self.requests.len() >= limits.requests {
            self.counters.over_limit += 1;
            return false;
        }
        true
    }

    fn remember(&mut self, key: Key, from: Sender, asked: Asked) {
        self.forget(key, Reason::Cancelled);
        self.requests.insert(key, asked);
        if let Some(neighbour) = self.neighbours.get_mut(from.node) {
            neighbour.requests.push_back(key);
        }
    }

    fn choose_or_seek(&mut self, now: Time, key: Key, area: Area, query: Query) {
        let mut hits = self.search(&query);
        if self.must_seek(area, hits.iter().any(|hit| hit.rank.is_free())) {
            self.hits = hits;
            if !self.seek(now, query, Waiter::Request { key, query }) {
                self.counters.over_limit += 1;
                self.refuse(now, key, Reason::TooMany);
            }
            return;
        }
        hits.sort_unstable_by_key(|hit| hit.rank.by_availability());
        if let Some(asked) = self.requests.table.get_mut(&key) {
            asked.choices.extend(hits.iter().map(|hit| Choice { node: hit.rank.node(), via: None }));
        }
        self.hits = hits;
        self.advance(now, key);
    }

    /// The peers have been asked: ranks what they and this hub have.
    pub(super) fn choose(
        &mut self,
        now: Time,
        key: Key,
        query: &Query,
        remote: &[(NodeId, Candidate)],
        coverage: Coverage,
    ) {
        if !self.requests.get(key).is_some_and(|asked| asked.stage == Stage::Seeking) {
            return;
        }
        let hits = self.search(query);
        let mut ranked: Vec<(Rank, Choice)> = Vec::with_capacity(hits.len() + remote.len());
        for hit in &hits {
            let entry = self.directory.hit(*hit);
            let node = entry.node();
            let newer = |(_, other): &&(NodeId, Candidate)| other.node == node && other.version > entry.version();
            if !remote.iter().any(|other| newer(&other)) {
                ranked.push((hit.rank, Choice { node, via: None }));
            }
        }
        self.hits = hits;
        for (hub, Candidate { node, cell, capacity, .. }) in remote {
            let known = ranked.iter().any(|(_, choice)| choice.node == *node);
            if !known && query.except != Some(*node) {
                let rank = Rank::new(query.service, query.centre(), *cell, *capacity, false, *node);
                ranked.push((rank, Choice { node: *node, via: Some(*hub) }));
            }
        }
        ranked.sort_unstable_by_key(|(rank, _)| rank.by_availability());
        if let Some(asked) = self.requests.table.get_mut(&key) {
            asked.choices.extend(ranked.iter().take(query.count).map(|(_, choice)| *choice));
            if asked.choices.is_empty() && coverage != Coverage::Whole {
                asked.reason = if coverage == Coverage::Partial { Reason::Unreachable } else { Reason::NotYetKnown };
            }
        }
        self.advance(now, key);
    }

    /// A peer hands a request on to one of this hub's nodes.
    pub(super) fn carry(&mut self, now: Time, from: Sender, forward: Forward) {
        let Some(provider) = forward.provider else {
            return self.refused(from.node, "it handed on a request without naming the provider");
        };
        let relay = forward.reply_to.is_empty();
        let key = Key { asker: if relay { from.node } else { forward.requester }, id: forward.id };
        if self.is_repeat(key, from.node, forward.nonce) {
            return self.repeat(now, key, from.link);
        }
        let reason = match () {
            () if self.leaving.is_some() => Some(Reason::Leaving),
            () if !self.admit(from.node) => Some(Reason::TooMany),
            () => None,
        };
        if let Some(reason) = reason {
            let requester = (!relay).then_some(forward.requester);
            let decline = Decline { id: forward.id, reason, retry_after_ms: None, requester };
            return self.send(from.link, Channel::Datagram, Traffic::Mesh, &Message::Decline(decline));
        }
        let offered = self.directory.get(provider).is_some_and(|entry| entry.services().contains(forward.service));
        let choice = offered.then_some(Choice { node: provider, via: None });
        self.remember(
            key,
            from,
            Asked {
                neighbour: from.node,
                link: from.link,
                carried: true,
                requester: forward.requester,
                nonce: forward.nonce,
                service: forward.service,
                mode: if relay { Mode::Relay } else { Mode::Forward },
                params: forward.params,
                reply_to: forward.reply_to,
                until: now + Duration::from_millis(u64::from(forward.deadline_ms)).min(MAX_DEADLINE),
                choices: choice.into_iter().collect(),
                stage: Stage::Seeking,
                reason: Reason::NotFound,
            },
        );
        self.advance(now, key);
    }

    /// Hands the request to the next provider that can be had.
    fn advance(&mut self, now: Time, key: Key) {
        loop {
            let Some(asked) = self.requests.table.get_mut(&key) else { return };
            let Some(choice) = asked.choices.pop_front() else { break };
            let relay = asked.is_relay();
            match self.hand(now, key, choice, relay) {
                Ok(()) => return,
                Err(reason) => self.note(key, reason),
            }
        }
        let Some(asked) = self.requests.get(key) else { return };
        let young = asked.reason == Reason::NotFound && !asked.carried && self.is_young(now);
        let reason = if young { Reason::NotYetKnown } else { asked.reason };
        self.refuse(now, key, reason);
    }

    /// Keeps the gravest reason: what the requester can do most about.
    fn note(&mut self, key: Key, reason: Reason) {
        let weight = |reason| match reason {
            Reason::Busy => 4,
            Reason::TooMany => 3,
            Reason::NoTransport => 2,
            Reason::NotFound | Reason::NotYetKnown => 0,
            _ => 1,
        };
        if let Some(asked) = self.requests.table.get_mut(&key)
            && weight(reason) > weight(asked.reason)
        {
            asked.reason = reason;
        }
    }

    /// Hands the request to one provider, or starts to dial it.
    pub(super) fn hand(&mut self, now: Time, key: Key, choice: Choice, relay: bool) -> Result<(), Reason> {
        let asked = self.requests.get(key).ok_or(Reason::Cancelled)?;
        let allowed = asked.transports();
        let reply_to = if relay { Vec::new() } else { self.reply_to(asked) };
        let relay = reply_to.is_empty();
        if relay && asked.named_requester().is_some() {
            // The peer that carries the request relays it, if anybody does.
            return Err(Reason::NoTransport);
        }
        if relay && !self.neighbours.uses(asked.link, allowed) {
            return Err(Reason::NoTransport);
        }
        let wanted = if relay && choice.via.is_none() { allowed } else { SchemeSet::ALL };
        let (service, asker_link) = (asked.service, asked.link);
        let Some(link) = self.neighbours.best_link(choice.neighbour(), wanted) else {
            return self.dial_for(key, choice, allowed);
        };
        let relay = match relay {
            true => Some(self.open_relay(now, key, asker_link, (choice.neighbour(), link), service)?),
            false => None,
        };
        self.directory.deduct(choice.node, service);
        self.counters.forwards += 1;
        self.send_forward(now, key, link, choice, relay, reply_to);
        let Some(asked) = self.requests.table.get_mut(&key) else { return Ok(()) };
        asked.stage = Stage::Handed { to: choice, relay, repeated: false, accepted: false };
        if !asked.carried {
            self.counters.count_outcome(asked.service, asked.mode, Outcome::Handed);
        }
        Ok(())
    }

    /// Where the provider can answer over a transport that the request allows.
    fn reply_to(&self, asked: &Asked) -> Vec<Address> {
        if asked.carried {
            return asked.reply_to.clone();
        }
        let mut addresses = self.directory.get(asked.requester).map_or(Vec::new(), |entry| entry.addresses());
        let allowed = asked.transports();
        addresses.retain(|address| allowed.contains(address.scheme));
        addresses
    }

    fn send_forward(
        &mut self,
        now: Time,
        key: Key,
        link: LinkId,
        to: Choice,
        relay: Option<RequestId>,
        reply_to: Vec<Address>,
    ) {
        let Some(asked) = self.requests.get(key) else { return };
        let left = asked.until.since(now).as_millis();
        let forward = Forward {
            id: relay.unwrap_or(key.id),
            nonce: asked.nonce,
            service: asked.service,
            requester: asked.requester,
            reply_to,
            deadline_ms: u32::try_from(left).unwrap_or(u32::MAX),
            provider: to.via.map(|_| to.node),
            params: asked.params,
        };
        let traffic = if to.via.is_some() { Traffic::Mesh } else { Traffic::Lookup };
        self.send(link, Channel::Datagram, traffic, &Message::Forward(forward));
    }

    /// The provider has no link of a wanted transport: dials it, if its record
    /// has an address for one and the request is to be relayed.
    fn dial_for(&mut self, key: Key, choice: Choice, allowed: SchemeSet) -> Result<(), Reason> {
        if choice.via.is_some() || !self.neighbours.is_up(choice.node) {
            return Err(Reason::Unreachable);
        }
        let mut addresses = self.directory.get(choice.node).map_or(Vec::new(), |entry| entry.addresses());
        addresses.retain(|address| allowed.contains(address.scheme));
        if addresses.is_empty() || !self.dial_provider(choice.node, allowed, addresses, key) {
            return Err(Reason::NoTransport);
        }
        if let Some(asked) = self.requests.table.get_mut(&key) {
            asked.stage = Stage::Dialling(choice);
        }
        Ok(())
    }

    /// The dial that the request waited for has ended.
    pub(super) fn dialled_for(&mut self, now: Time, key: Key, node: NodeId, reached: bool) {
        let Some(Asked { stage: Stage::Dialling(choice), .. }) = self.requests.get(key) else { return };
        let choice = *choice;
        if choice.node != node {
            return;
        }
        let handed = if reached { self.hand(now, key, choice, true) } else { Err(Reason::NoTransport) };
        if let Err(reason) = handed {
            self.note(key, reason);
            self.advance(now, key);
        }
    }

    /// The neighbour asks again: it has heard nothing, or not everything.
    fn repeat(&mut self, now: Time, key: Key, link: LinkId) {
        let Some(asked) = self.requests.table.get_mut(&key) else { return };
        asked.link = link;
        match &mut asked.stage {
            Stage::Seeking | Stage::Dialling(_) => {}
            Stage::Refused { .. } => self.say_refused(key),
            Stage::Handed { to, relay, repeated, accepted } => {
                let (to, relay) = (*to, *relay);
                let silent = *repeated && !*accepted;
                *repeated = true;
                let up = self.neighbours.best_link(to.neighbour(), SchemeSet::ALL);
                match up {
                    Some(link) if !silent => {
                        self.counters.repeats += 1;
                        self.hand_again(now, key, link, to, relay);
                    }
                    _ => self.give_up(now, key, to, relay, Reason::Unreachable),
                }
            }
        }
    }

    fn hand_again(&mut self, now: Time, key: Key, link: LinkId, to: Choice, relay: Option<RequestId>) {
        let Some(asked) = self.requests.get(key) else { return };
        let reply_to = if relay.is_some() { Vec::new() } else { self.reply_to(asked) };
        let link = relay.and_then(|relay| self.relays.provider_link(relay)).unwrap_or(link);
        self.send_forward(now, key, link, to, relay, reply_to);
    }

    /// The provider is silent: holds it back and goes on to the next.
    fn give_up(&mut self, now: Time, key: Key, to: Choice, relay: Option<RequestId>, reason: Reason) {
        self.counters.suspensions += 1;
        self.directory.suspend(to.node);
        if let Some(relay) = relay {
            self.end_relay(relay, None, Some(Reason::Cancelled));
        }
        self.note(key, reason);
        self.advance(now, key);
    }

    /// The flow's provider is gone before it accepted.
    pub(super) fn provider_lost(&mut self, now: Time, key: Key, relay: RequestId) {
        if self.requests.get(key).and_then(Asked::relay) == Some(relay) {
            self.note(key, Reason::Unreachable);
            self.advance(now, key);
        }
    }

    /// Finds the request that a provider, or the peer it is at, talks about.
    fn handed_to(&self, from: Sender, id: RequestId, requester: Option<NodeId>) -> Option<(Key, Choice)> {
        let key = match requester {
            Some(asker) => Key { asker, id },
            None => self.relays.key_at_provider(from.node, id)?,
        };
        match self.requests.get(key)?.stage {
            Stage::Handed { to, relay, .. }
                if to.neighbour() == from.node && relay.is_some() == requester.is_none() =>
            {
                Some((key, to))
            }
            _ => None,
        }
    }

    /// A provider declines: the next one, or a final word.
    pub(super) fn declined(&mut self, now: Time, from: Sender, decline: Decline) {
        let Some((key, to)) = self.handed_to(from, decline.id, decline.requester) else {
            self.counters.stray += 1;
            return;
        };
        match decline.reason {
            Reason::Busy => self.directory.busy(to.node),
            Reason::Leaving => self.directory.suspend(to.node),
            _ => {}
        }
        let Some(asked) = self.requests.get(key) else { return };
        if matches!(asked.stage, Stage::Handed { accepted: true, .. }) {
            // Who has accepted ends the flow with `Stop`.
            self.counters.stray += 1;
            return;
        }
        let relay = asked.relay();
        if let Some(relay) = relay {
            self.end_relay(relay, None, None);
        } else if !asked.carried && matches!(decline.reason, Reason::Unreachable | Reason::NoTransport) {
            // The two cannot reach each other: the hub can.
            match self.hand(now, key, to, true) {
                Ok(()) => return,
                Err(reason) => self.note(key, reason),
            }
        }
        self.note(key, decline.reason);
        self.advance(now, key);
    }

    /// A provider has the request and needs more time: the requester waits longer.
    pub(super) fn pending(&mut self, from: Sender, id: RequestId, requester: Option<NodeId>) {
        let Some((key, _)) = self.handed_to(from, id, requester) else {
            self.counters.stray += 1;
            return;
        };
        let Some(asked) = self.requests.table.get_mut(&key) else { return };
        if let Stage::Handed { repeated, .. } = &mut asked.stage {
            *repeated = false;
        }
        let (link, traffic) = (asked.link, if asked.carried { Traffic::Mesh } else { Traffic::Lookup });
        let pending = Message::Pending { id: key.id, requester: asked.named_requester() };
        self.send(link, Channel::Datagram, traffic, &pending);
    }

    /// A provider serves a relayed request. The hub at which it is says who it is.
    pub(super) fn accepted(&mut self, now: Time, from: Sender, mut accept: Accept) {
        let Some((key, to)) = self.handed_to(from, accept.id, None) else {
            self.counters.stray += 1;
            return;
        };
        if to.via.is_none() {
            accept.provider = Some(to.node);
        }
        self.relays.accepted(now, accept.id);
        let Some(asked) = self.requests.table.get_mut(&key) else { return };
        if let Stage::Handed { accepted, .. } = &mut asked.stage {
            *accepted = true;
        }
        accept.id = key.id;
        let (link, traffic) = (asked.link, if asked.carried { Traffic::Mesh } else { Traffic::Lookup });
        let message = Message::Accept(accept).encode();
        self.counters.relayed_messages += 1;
        self.counters.relayed_bytes += message.len() as u64;
        let channel = Channel::Datagram;
        self.out.push_back(crate::machine::Transmit::Message { link, channel, traffic, message });
    }

    /// A requester no longer wants it, before there was a flow to stop.
    pub(super) fn cancelled(&mut self, from: Sender, id: RequestId) {
        let key = Key { asker: from.node, id };
        if self.requests.get(key).is_some_and(|asked| asked.neighbour == from.node) {
            self.requests.remove(key);
        } else {
            self.counters.stray += 1;
        }
    }

    /// The final word. It is kept, so that it can be said again.
    fn refuse(&mut self, now: Time, key: Key, reason: Reason) {
        let young_for = self.started.map_or(Duration::ZERO, |at| (at + self.config.lease).since(now));
        let Some(asked) = self.requests.table.get_mut(&key) else { return };
        let retry_after_ms = match reason {
            Reason::NotYetKnown => Some(young_for.min(2 * RETRY_AFTER)),
            Reason::Busy | Reason::TooMany => Some(RETRY_AFTER),
            _ => None,
        }
        .map(|after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX));
        asked.reason = reason;
        asked.stage = Stage::Refused { retry_after_ms };
        if !asked.carried {
            self.counters.count_outcome(asked.service, asked.mode, reason.into());
        }
        self.say_refused(key);
    }

    fn say_refused(&mut self, key: Key) {
        let Some(asked) = self.requests.get(key) else { return };
        let Stage::Refused { retry_after_ms } = asked.stage else { return };
        let requester = asked.named_requester();
        let decline = Decline { id: key.id, reason: asked.reason, retry_after_ms, requester };
        let (link, traffic) = (asked.link, if asked.carried { Traffic::Mesh } else { Traffic::Lookup });
        self.send(link, Channel::Datagram, traffic, &Message::Decline(decline));
    }

    /// Declines a request that is not remembered.
    pub(super) fn decline_request(&mut self, link: LinkId, request: &Request, reason: Reason) {
        self.counters.count_outcome(request.service, request.mode, reason.into());
        let retry_after_ms = (reason == Reason::TooMany).then_some(RETRY_AFTER.as_millis() as u32);
        let decline = Decline { id: request.id, reason, retry_after_ms, requester: None };
        self.send(link, Channel::Datagram, Traffic::Lookup, &Message::Decline(decline));
    }

    /// Forgets a request, and ends its flow if that has not begun.
    fn forget(&mut self, key: Key, reason: Reason) {
        let Some(asked) = self.requests.remove(key) else { return };
        if let Stage::Handed { relay: Some(relay), accepted: false, .. } = asked.stage {
            self.end_relay(relay, None, Some(reason));
        }
    }

    /// The neighbour that asked is gone.
    pub(super) fn drop_request_of(&mut self, neighbour: NodeId, key: Key) {
        if self.requests.get(key).is_some_and(|asked| asked.neighbour == neighbour) {
            self.requests.remove(key);
        }
    }

    pub(super) fn expire_requests(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some((_, key)) = self.requests.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            let waiting =
                self.requests.get(key).map(|asked| matches!(asked.stage, Stage::Seeking | Stage::Dialling(_)));
            if waiting == Some(true) {
                self.refuse(now, key, Reason::TimedOut);
            }
            self.forget(key, Reason::TimedOut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, address, decline, forwarded, node, record, refused, request};
    use super::super::{Config, Kind};
    use super::*;
    use crate::grid::Cell;
    use crate::record::Record;
    use crate::service::Role;

    #[test]
    fn a_request_goes_to_the_provider_with_the_way_back() {
        let mut bench = Bench::new();
        let (provider, asker) = (bench.provider(1), bench.requester(2));
        let (link, forward) = forwarded(&bench.ask(asker, request(7, Mode::Forward)));
        assert_eq!(link, provider);
        assert_eq!((forward.id, forward.requester, forward.provider), (RequestId(7), node(2), None));
        assert_eq!(forward.reply_to, [address(2)]);
    }

    #[test]
    fn nobody_is_handed_its_own_request() {
        let mut bench = Bench::new();
        let asker = bench.provider(1);
        assert_eq!(refused(&bench.ask(asker, request(1, Mode::Forward))), (asker, Reason::NotFound));
    }

    #[test]
    fn a_repeated_request_goes_to_the_same_provider_once_and_then_to_the_next() {
        let mut bench = Bench::new();
        let (first, second, asker) = (bench.provider(1), bench.provider(2), bench.requester(3));
        let to = |bench: &mut Bench| forwarded(&bench.ask(asker, request(1, Mode::Forward))).0;
        assert_eq!([to(&mut bench), to(&mut bench), to(&mut bench), to(&mut bench)], [first, first, second, second]);
        assert_eq!(refused(&bench.ask(asker, request(1, Mode::Forward))), (asker, Reason::Unreachable));
        assert_eq!(bench.hub.counters().suspensions, 2);
    }

    #[test]
    fn a_provider_that_says_pending_is_not_given_up() {
        let mut bench = Bench::new();
        let (provider, asker) = (bench.provider(1), bench.requester(2));
        bench.provider(3);
        for _ in 0..5 {
            let (link, _) = forwarded(&bench.ask(asker, request(1, Mode::Forward)));
            assert_eq!(link, provider);
            let pending = Message::Pending { id: RequestId(1), requester: Some(node(2)) };
            let told = bench.say(provider, &pending);
            assert_eq!(told, [(asker, Message::Pending { id: RequestId(1), requester: None })]);
        }
    }

    #[test]
    fn who_is_busy_is_passed_over_and_the_last_word_is_said_again() {
        let mut bench = Bench::new();
        let (first, second, asker) = (bench.provider(1), bench.provider(2), bench.requester(3));
        let (_, forward) = forwarded(&bench.ask(asker, request(1, Mode::Forward)));
        assert_eq!(forwarded(&bench.say(first, &decline(&forward, Reason::Busy))).0, second);
        let last = bench.say(second, &decline(&forward, Reason::SourceFailed));
        assert_eq!(refused(&last), (asker, Reason::Busy));
        assert_eq!(bench.ask(asker, request(1, Mode::Forward)), last);
        assert!(bench.say(second, &decline(&forward, Reason::Busy)).is_empty());
        assert_eq!(bench.hub.counters().stray, 1);
    }

    #[test]
    fn two_requesters_may_count_alike() {
        let mut bench = Bench::new();
        let (provider, a, b) = (bench.provider(1), bench.requester(2), bench.requester(3));
        bench.ask(a, request(1, Mode::Forward));
        let (_, forward) = forwarded(&bench.ask(b, request(1, Mode::Forward)));
        assert_eq!(refused(&bench.say(provider, &decline(&forward, Reason::SourceFailed))), (b, Reason::SourceFailed));
    }

    #[test]
    fn a_provider_that_cannot_reach_the_requester_answers_through_the_hub() {
        let mut bench = Bench::new();
        let (provider, asker) = (bench.provider(1), bench.requester(2));
        let (_, forward) = forwarded(&bench.ask(asker, request(1, Mode::Forward)));
        let (link, again) = forwarded(&bench.say(provider, &decline(&forward, Reason::Unreachable)));
        assert_eq!(link, provider);
        assert!(again.reply_to.is_empty() && again.id.is_of_hub());
        let last = bench.say(provider, &decline(&again, Reason::Unreachable));
        assert_eq!(refused(&last), (asker, Reason::Unreachable));
    }

    #[test]
    fn a_young_hub_does_not_say_that_there_is_none() {
        let mut bench = Bench::young(Config::new(node(200), Kind::SuperNode, 1));
        let asker = bench.requester(2);
        let sent = bench.ask(asker, request(1, Mode::Forward));
        let retry = Some(2_000);
        assert!(
            matches!(sent[..], [(_, Message::Decline(Decline { reason: Reason::NotYetKnown, retry_after_ms, .. }))]
            if retry_after_ms == retry)
        );
        bench.wait(Duration::from_secs(59));
        bench.say(asker, &Message::Ping(0));
        bench.wait(Duration::from_secs(2));
        assert_eq!(refused(&bench.ask(asker, request(2, Mode::Forward))), (asker, Reason::NotFound));
    }

    #[test]
    fn streams_spread_over_equals_and_full_ones_come_last() {
        let mut bench = Bench::new();
        let (a, b, asker) = (bench.provider(1), bench.provider(2), bench.requester(3));
        let full = Record { capacity: crate::record::Capacity { streams: 0, uplink_kbps: 0 }, ..record(4) };
        let c = bench.up(4, Role::Node);
        bench.say(c, &Message::Publish(full));
        let links: Vec<LinkId> = (1..=9).map(|id| forwarded(&bench.ask(asker, request(id, Mode::Forward))).0).collect();
        assert_eq!(links, [a, b, a, b, a, b, a, b, a]);
    }

    #[test]
    fn the_nearest_comes_first_and_anywhere_is_near_the_one_who_asks() {
        let mut bench = Bench::new();
        let far = bench.up(1, Role::Node);
        bench.say(far, &Message::Publish(Record { cell: Cell::new(500, 500), ..record(1) }));
        let (near, asker) = (bench.provider(2), bench.requester(3));
        for (id, area, to) in [(1, Area::Anywhere, near), (2, Area::Near(Cell::new(499, 499)), far)] {
            let asked = Request { area, ..request(id, Mode::Forward) };
            assert_eq!(forwarded(&bench.ask(asker, asked)).0, to);
        }
    }

    #[test]
    fn a_neighbour_has_a_limit_only_for_what_is_not_handed_on() {
        let mut config = Config::new(node(200), Kind::SuperNode, 1);
        config.limits.requests_per_node = 3;
        let mut bench = Bench::with(config);
        bench.up(100, Role::SuperNode);
        let (_, asker) = (bench.provider(1), bench.requester(2));
        for id in 0..10 {
            forwarded(&bench.ask(asker, Request { service: Service::Sensor, ..request(id, Mode::Forward) }));
        }
        assert_eq!(bench.hub.status(bench.now).requests, 3);
        let away = |id| Request { area: Area::At(Cell::new(1, 1)), ..request(id, Mode::Forward) };
        for id in 10..13 {
            bench.ask(asker, away(id));
        }
        assert_eq!(refused(&bench.ask(asker, away(13))), (asker, Reason::TooMany));
    }

    #[test]
    fn ids_of_hubs_are_not_for_requesters() {
        let mut bench = Bench::new();
        let asker = bench.requester(2);
        let asked = request(RequestId::FIRST_OF_HUB, Mode::Forward);
        assert_eq!(refused(&bench.ask(asker, asked)), (asker, Reason::Protocol));
    }

    #[test]
    fn what_was_handed_on_is_forgotten_at_the_deadline() {
        let mut bench = Bench::new();
        let (_, asker) = (bench.provider(1), bench.requester(2));
        bench.ask(asker, request(1, Mode::Forward));
        assert!(bench.wait(Duration::from_secs(6)).is_empty());
        assert_eq!(bench.hub.status(bench.now).requests, 0);
    }
}
