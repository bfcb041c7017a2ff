//! A request's way from provider to provider, to at most one final answer.
//!
//! Success is silent: the provider answers the requester. What the hub hears
//! of is trouble: the requester asks again, or the provider declines. So an
//! entry is a memory of what was tried, kept until the requester's deadline.

mod answers;
mod choose;
mod handoff;
mod held_requests;
mod hub_routing;
mod provider_health;
mod routed_request;
mod table;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(test)]
mod views;

use std::time::Duration;

use super::{Hub, HubKind, HubLimit, MAX_PER_WAKE, Sender};
use crate::ids::{NodeId, Nonce};
use crate::time::Time;
use crate::wire::{Reason, Request, RequestMode};
use routed_request::RequestStage;
pub(super) use routed_request::{PassedRequest, RequestTarget, RoutedRequest};
pub(super) use table::{RequestKey, RequestTable};

/// How many providers a request considers if it does not say.
const DEFAULT_CONSIDERED: usize = 8;

/// When to ask again after a refusal for want of room.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Hub {
    /// A node asks for a service.
    pub(super) fn request(&mut self, now: Time, from: Sender, request: Request) {
        let key = RequestKey { requester: from.node, id: request.id };
        if self.is_repeat(key, from.node, request.nonce) {
            return self.repeat(now, key, from.connection);
        }
        self.counters.count_request(request.spec.service, self.mode_of(&request));
        if let Some(reason) = self.objection(from, &request) {
            return self.decline_request(from.connection, &request, reason);
        }
        if request.spec.mode == RequestMode::Lookup {
            return self.answer_lookup(now, from, &request);
        }
        if !self.admit(from.node) {
            return self.decline_request(from.connection, &request, Reason::TooMany);
        }
        let mut query = self.query(from.node, &request, DEFAULT_CONSIDERED);
        query.except = Some(from.node);
        let (area, scope, mode) = (request.spec.area, request.spec.scope, self.mode_of(&request));
        self.remember(key, from, RoutedRequest::by_node(now, from, request, mode));
        if self.is_young(now) {
            self.requests.early.insert(key, (query, scope));
        }
        if let Some(provider) = self.requests.get(key).and_then(RoutedRequest::named_provider) {
            return self.choose_named(now, key, provider);
        }
        self.choose_or_lookup(now, key, (area, scope), query);
    }

    /// The way of a request's data: a central server relays all of it.
    fn mode_of(&self, request: &Request) -> RequestMode {
        match request.spec.mode {
            RequestMode::Forward if self.config.kind == HubKind::Server => RequestMode::Relay,
            mode => mode,
        }
    }

    fn objection(&self, from: Sender, request: &Request) -> Option<Reason> {
        if self.leaving.is_some() {
            return Some(Reason::Leaving);
        }
        if self.is_cache() && self.is_cut_off() && request.spec.mode != RequestMode::Lookup {
            // Data goes through the server.
            return Some(Reason::UnreachableAbove);
        }
        if !self.targets_own_host(from, request) {
            return Some(Reason::NotAllowed);
        }
        request.id.is_of_hub().then_some(Reason::Protocol)
    }

    /// Whether this is a request that the hub has already from this remote.
    fn is_repeat(&self, key: RequestKey, remote: NodeId, nonce: Nonce) -> bool {
        let same = |asked: &RoutedRequest| asked.nonce == nonce && asked.remote == remote;
        self.requests.get(key).is_some_and(same)
    }

    /// Makes room for one more request of a remote, here and among its own. False if there
    /// is none.
    fn admit(&mut self, node: NodeId) -> bool {
        if !self.admit_of(node) {
            return false;
        }
        if self.requests.len() >= self.config.limits.requests {
            let Some(key) = self.requests.displaceable() else {
                self.over_limit(node, HubLimit::Requests);
                return false;
            };
            self.remove_request(key);
        }
        true
    }

    /// Makes room for one more request among those of a remote, by forgetting its
    /// oldest if that has been handed on. False if there is none.
    fn admit_of(&mut self, node: NodeId) -> bool {
        let limits = &self.config.limits;
        let Some(remote) = self.remotes.get_mut(node) else { return false };
        let allowance = remote.allowance(limits.requests_per_node);
        let requests = &mut self.requests;
        let is_over = |requests: &RequestTable, key| requests.get(key).is_none_or(|asked| asked.remote != node);
        let is_done = |requests: &RequestTable, key| requests.get(key).is_none_or(RoutedRequest::is_forgettable);
        while remote.requests.front().is_some_and(|oldest| is_over(requests, *oldest)) {
            remote.requests.pop_front();
        }
        if remote.requests.len() >= allowance && !is_done(requests, remote.requests[0]) {
            remote.requests.retain(|key| !is_over(requests, *key));
        }
        if remote.requests.len() >= allowance {
            let Some(oldest) = remote.requests.iter().position(|key| is_done(requests, *key)) else {
                self.over_limit(node, HubLimit::RequestsPerNode);
                return false;
            };
            if let Some(key) = remote.requests.remove(oldest) {
                self.remove_request(key);
            }
        }
        true
    }

    /// Removes a request, and ends what was pledged for it.
    fn remove_request(&mut self, key: RequestKey) -> Option<RoutedRequest> {
        self.reflection.release(key);
        self.requests.remove(key)
    }

    /// Enters a request in place of an older one of the same name.
    fn remember(&mut self, key: RequestKey, from: Sender, asked: RoutedRequest) {
        self.drop_overflow(key);
        self.forget(key, Reason::Cancelled);
        self.requests.insert(key, asked);
        if let Some(remote) = self.remotes.get_mut(from.node) {
            remote.requests.push_back(key);
        }
    }

    /// Forgets a request, and ends its flow if that has not begun.
    fn forget(&mut self, key: RequestKey, reason: Reason) {
        let Some(asked) = self.remove_request(key) else { return };
        if let RequestStage::Handed { relay: Some(relay), accepted: false, .. } = asked.stage {
            self.end_relay(relay, None, Some(reason));
        }
    }

    /// The remote that asked is gone.
    pub(super) fn drop_request_of(&mut self, remote: NodeId, key: RequestKey) {
        if self.requests.get(key).is_some_and(|asked| asked.remote == remote) {
            self.remove_request(key);
        }
    }

    pub(super) fn expire_requests(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some((_, key)) = self.requests.hops.first().copied().filter(|(at, _)| *at <= now) else { break };
            match self.requests.get(key).is_some_and(RoutedRequest::is_held) {
                true => self.decline(now, key, Reason::NotYetKnown),
                false => self.on_hop_timeout(now, key),
            }
        }
        for _ in 0..MAX_PER_WAKE {
            let Some((_, key)) = self.requests.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            let waiting = self
                .requests
                .get(key)
                .map(|asked| matches!(asked.stage, RequestStage::LookingUp | RequestStage::Dialling(_)));
            if waiting == Some(true) {
                self.decline(now, key, Reason::TimedOut);
            }
            self.note_end(key);
            self.forget(key, Reason::TimedOut);
        }
    }
}
