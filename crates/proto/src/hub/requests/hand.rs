//! Handing a request to one provider, and again if the requester repeats it.

use super::table::{Asked, Choice, Key, Stage};
use crate::address::{Address, SchemeSet};
use crate::hub::{Hub, Outcome};
use crate::ids::{LinkId, NodeId, RequestId};
use crate::machine::{Channel, Traffic};
use crate::time::Time;
use crate::wire::{Forward, Message, Reason};

impl Hub {
    /// Hands the request to one provider, or starts to dial it.
    pub(in crate::hub) fn hand(&mut self, now: Time, key: Key, choice: Choice, relay: bool) -> Result<(), Reason> {
        let asked = self.requests.get(key).ok_or(Reason::Cancelled)?;
        let allowed = asked.transports();
        let reply_to = if relay { Vec::new() } else { self.reply_to(asked, choice) };
        let relay = reply_to.is_empty();
        if relay && asked.named_requester().is_some() {
            // The peer that carries the request relays it, if anybody does.
            return Err(Reason::NoTransport);
        }
        // Hubs may use any transport among themselves.
        if relay && !asked.is_carried() && !self.neighbours.uses(asked.link, allowed) {
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
        asked.stage = Stage::Handed { to: choice, relay, sent: now, repeated: false, accepted: false };
        if !asked.is_carried() {
            self.counters.count_outcome(asked.service, asked.mode, Outcome::Handed);
        }
        Ok(())
    }

    /// Where the provider can answer over a transport that the request allows.
    pub(super) fn reply_to(&self, asked: &Asked, to: Choice) -> Vec<Address> {
        let mut addresses = match asked.is_carried() {
            true => asked.reply_to.clone(),
            false => self.directory.get(asked.requester).map_or(Vec::new(), |entry| entry.addresses()),
        };
        let allowed = asked.transports();
        addresses.retain(|address| allowed.contains(address.scheme));
        match self.neighbours.best_link(to.neighbour(), SchemeSet::ALL) {
            Some(link) => self.shareable(link, addresses),
            None => addresses,
        }
    }

    pub(super) fn send_forward(
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
    pub(super) fn dial_for(&mut self, key: Key, choice: Choice, allowed: SchemeSet) -> Result<(), Reason> {
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
    pub(in crate::hub) fn dialled_for(&mut self, now: Time, key: Key, node: NodeId, reached: bool) {
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
    pub(super) fn repeat(&mut self, now: Time, key: Key, link: LinkId) {
        let Some(asked) = self.requests.table.get_mut(&key) else { return };
        asked.link = link;
        match &mut asked.stage {
            Stage::Seeking | Stage::Dialling(_) => {}
            Stage::Refused { .. } => self.say_refused(key),
            Stage::Handed { to, relay, sent, repeated, accepted } => {
                let (to, relay) = (*to, *relay);
                let Some(way) = self.neighbours.best_link(to.neighbour(), SchemeSet::ALL) else {
                    return self.give_up(now, key, to, relay, Reason::Unreachable);
                };
                let may_still_answer = *repeated && now < *sent + self.neighbours.patience(way);
                if may_still_answer {
                    return;
                }
                if *repeated && !*accepted {
                    return self.give_up(now, key, to, relay, Reason::Unreachable);
                }
                (*sent, *repeated) = (now, true);
                self.counters.repeats += 1;
                self.hand_again(now, key, way, to, relay);
            }
        }
    }

    pub(super) fn hand_again(&mut self, now: Time, key: Key, link: LinkId, to: Choice, relay: Option<RequestId>) {
        let Some(asked) = self.requests.get(key) else { return };
        let reply_to = if relay.is_some() { Vec::new() } else { self.reply_to(asked, to) };
        if relay.is_none() && reply_to.is_empty() {
            // What could be dialled before cannot be any more.
            if let Err(reason) = self.hand(now, key, to, true) {
                self.note(key, reason);
                self.advance(now, key);
            }
            return;
        }
        if let Some(relay) = relay {
            self.relays.wanted(now, relay);
        }
        let link = relay.and_then(|relay| self.relays.provider_link(relay)).unwrap_or(link);
        self.send_forward(now, key, link, to, relay, reply_to);
    }

    /// The provider is silent: holds it back and goes on to the next.
    pub(super) fn give_up(&mut self, now: Time, key: Key, to: Choice, relay: Option<RequestId>, reason: Reason) {
        self.counters.suspensions += 1;
        self.directory.suspend(to.node);
        if let Some(relay) = relay {
            self.end_relay(relay, None, Some(Reason::Cancelled));
        }
        self.note(key, reason);
        self.advance(now, key);
    }

    /// The flow's provider is gone before it accepted.
    pub(in crate::hub) fn provider_lost(&mut self, now: Time, key: Key, relay: RequestId) {
        if self.requests.get(key).and_then(Asked::relay) == Some(relay) {
            self.note(key, Reason::Unreachable);
            self.advance(now, key);
        }
    }
}
