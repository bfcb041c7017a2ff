//! A request's way from provider to provider, to at most one final answer.
//!
//! Success is silent: the provider answers the requester. What the hub hears
//! of is trouble: the requester asks again, or the provider declines. So an
//! entry is a memory of what was tried, kept until the requester's deadline.

mod answers;
mod choose;
mod hand;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Hub, Kind, MAX_PER_WAKE, Sender};
use crate::ids::{NodeId, Nonce};
use crate::machine::{Channel, Traffic};
use crate::time::Time;
use crate::wire::{Decline, Forward, Message, Mode, Reason, Request};
use table::{Asked, Choice, Stage};
pub(super) use table::{Key, Requests};

/// How many providers a request considers if it does not say.
const DEFAULT_CONSIDERED: usize = 8;

/// When to ask again after a refusal for want of room.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Hub {
    /// A node asks for a service.
    pub(super) fn request(&mut self, now: Time, from: Sender, mut request: Request) {
        if self.config.kind == Kind::Server && request.mode == Mode::Forward {
            request.mode = Mode::Relay;
        }
        let key = Key { asker: from.node, id: request.id };
        if self.is_repeat(key, from.node, request.nonce, None) {
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
        self.remember(key, from, Asked::by_node(now, from, &request));
        self.choose_or_seek(now, key, &request, query);
    }

    /// A peer hands a request on to one of this hub's nodes.
    pub(super) fn carry(&mut self, now: Time, from: Sender, forward: Forward) {
        let Some(provider) = forward.provider else {
            return self.refused(from.node, "it handed on a request without naming the provider");
        };
        let relay = forward.reply_to.is_empty();
        let key = Key { asker: if relay { from.node } else { forward.requester }, id: forward.id };
        if self.is_repeat(key, from.node, forward.nonce, Some(provider)) {
            return self.repeat(now, key, from.link);
        }
        // A node that is connected knows best what it offers, wherever its record is by now.
        let connected = self.neighbours.is_up(provider);
        let reason = if self.leaving.is_some() && !connected {
            Some(Reason::Leaving)
        } else {
            (!self.admit(from.node)).then_some(Reason::TooMany)
        };
        if let Some(reason) = reason {
            let requester = (!relay).then_some(forward.requester);
            let decline = Decline { id: forward.id, reason, retry_after_ms: None, requester };
            return self.send(from.link, Channel::Datagram, Traffic::Mesh, &Message::Decline(decline));
        }
        let held = self.directory.get(provider);
        let offered = held.map_or(connected, |entry| entry.services().contains(forward.service));
        let mut asked = Asked::by_hub(now, from, forward, provider);
        asked.choices.extend(offered.then_some(Choice { node: provider, via: None }));
        self.remember(key, from, asked);
        self.advance(now, key);
    }

    fn objection(&self, request: &Request) -> Option<Reason> {
        if self.leaving.is_some() {
            return Some(Reason::Leaving);
        }
        request.id.is_of_hub().then_some(Reason::Protocol)
    }

    /// Whether this is a request that the hub has already from this neighbour.
    fn is_repeat(&self, key: Key, neighbour: NodeId, nonce: Nonce, meant: Option<NodeId>) -> bool {
        let same = |asked: &Asked| asked.nonce == nonce && asked.neighbour == neighbour && asked.meant == meant;
        self.requests.get(key).is_some_and(same)
    }

    /// Makes room for one more request of a neighbour, by forgetting its
    /// oldest if that has been handed on. False if there is no room.
    fn admit(&mut self, node: NodeId) -> bool {
        let limits = &self.config.limits;
        let Some(neighbour) = self.neighbours.get_mut(node) else { return false };
        let allowance = neighbour.allowance(limits.requests_per_node);
        let requests = &mut self.requests;
        let is_over = |requests: &Requests, key| requests.get(key).is_none_or(|asked| asked.neighbour != node);
        let is_done = |requests: &Requests, key| requests.get(key).is_none_or(Asked::is_forgettable);
        while neighbour.requests.front().is_some_and(|oldest| is_over(requests, *oldest)) {
            neighbour.requests.pop_front();
        }
        if neighbour.requests.len() >= allowance && !is_done(requests, neighbour.requests[0]) {
            neighbour.requests.retain(|key| !is_over(requests, *key));
        }
        if neighbour.requests.len() >= allowance {
            let Some(oldest) = neighbour.requests.iter().position(|key| is_done(requests, *key)) else {
                self.counters.over_limit += 1;
                return false;
            };
            if let Some(key) = neighbour.requests.remove(oldest) {
                requests.remove(key);
            }
        }
        if self.requests.len() >= limits.requests {
            self.counters.over_limit += 1;
            return false;
        }
        true
    }

    /// Enters a request in place of an older one of the same name.
    fn remember(&mut self, key: Key, from: Sender, asked: Asked) {
        self.forget(key, Reason::Cancelled);
        self.requests.insert(key, asked);
        if let Some(neighbour) = self.neighbours.get_mut(from.node) {
            neighbour.requests.push_back(key);
        }
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
