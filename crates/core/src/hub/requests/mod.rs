//! A request's way from provider to provider, to at most one final answer.
//!
//! Success is silent: the provider answers the requester. What the hub hears
//! of is trouble: the requester asks again, or the provider declines. So an
//! entry is a memory of what was tried, kept until the requester's deadline.

mod answers;
mod choose;
mod copies;
mod copy_target;
mod handoff;
mod held_requests;
mod hop_silence;
mod hub_routing;
mod overflow;
mod permission;
mod provider_health;
mod routed_request;
mod table;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(test)]
mod views;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{Reason, Request, RequestMode, RequestSpec};
use roost_wire::random::RootSecret;
use roost_wire::{Area, Cell, ConnectionId, NodeId, Nonce, SchemeSet, Service, Time};

use super::sender::Sender;
use super::timers::MAX_PER_WAKE;
use super::{HubKind, HubLimit, ReflectedStream};
use crate::directory::{DirectoryQuery, Hit, Judged};
use crate::hub::action::action_of;
use crate::hub::copy_room::CopyRoom;
use crate::hub::core::HubCore;
use crate::hub::members::MemberView;
use crate::hub::provider_event::ProviderEvent;
use crate::hub::reflection::ReflectionState;
use crate::hub::registry::Records;
use crate::hub::relay::{RelayNotice, Relays};
use crate::hub::route::RoutePlan;
use crate::hub::summaries::BlockIndex;
use crate::hub::timers::{HubTimer, HubTimers};
use crate::request_key::RequestKey;
pub(super) use routed_request::PassedRequest;
use routed_request::{RequestStage, RoutedRequest};
pub(super) use table::RequestTable;

/// Number of providers that a request considers if it does not say.
const DEFAULT_CONSIDERED: usize = 8;

/// Pause after a refusal for want of room.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Requests, the flows that answer them through this hub, and the copies of streams that they were granted.
#[derive(Debug)]
pub(super) struct Requests {
    table: RequestTable,
    relays: Relays,
    reflection: ReflectionState,
    effects: VecDeque<RequestEffect>,
    /// The list of the last search, kept for its memory.
    hits: Vec<Hit>,
}

/// The effect of a request on other parts.
#[derive(Debug)]
pub(super) enum RequestEffect {
    Provider(NodeId, ProviderEvent),
    /// Nobody has the service in this cell.
    NothingIn(Service, Cell),
    /// Other hubs are to be asked for a request.
    Lookup(Box<WantedLookup>),
}

/// A lookup at other hubs for a request.
#[derive(Debug)]
pub(super) struct WantedLookup {
    pub(super) key: RequestKey,
    pub(super) query: DirectoryQuery,
    /// The area in which other hubs are asked, a part of the query's.
    pub(super) area: Area,
    pub(super) plan: RoutePlan,
    pub(super) patience: Duration,
}

#[derive(Clone, Copy)]
pub(super) struct RequestView<'a> {
    pub(super) records: Records<'a>,
    pub(super) blocks: BlockIndex<'a>,
    pub(super) members: MemberView<'a>,
}

/// The input of a decision about requests.
pub(super) struct RequestTurn<'a> {
    pub(super) core: &'a mut HubCore,
    pub(super) view: RequestView<'a>,
}

impl Requests {
    pub(super) fn new(secret: RootSecret) -> Self {
        Self {
            table: RequestTable::default(),
            relays: Relays::default(),
            reflection: ReflectionState::new(secret),
            effects: VecDeque::new(),
            hits: Vec::new(),
        }
    }

    pub(super) fn next_effect(&mut self) -> Option<RequestEffect> {
        self.effects.pop_front()
    }

    fn note_provider(&mut self, node: NodeId, event: ProviderEvent) {
        self.effects.push_back(RequestEffect::Provider(node, event));
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn relay_count(&self) -> usize {
        self.relays.len()
    }

    pub(super) fn relaying_connections(&self) -> BTreeSet<ConnectionId> {
        self.relays.connections()
    }

    /// True if something goes through this hub: relayed, or reflected, whose receivers find another way meanwhile.
    pub(super) fn has_traffic(&self) -> bool {
        self.relays.len() > 0 || self.reflection.is_busy()
    }

    /// The room for copies of which other hubs are told.
    pub(super) fn copy_room(&self, core: &HubCore) -> Option<CopyRoom> {
        self.reflection.room(core)
    }

    pub(super) fn note_residual(&mut self, residual_kbps: Option<u32>, subscribers: u32) {
        self.reflection.note_residual(residual_kbps, subscribers);
    }

    pub(super) fn record_streams(&mut self, core: &mut HubCore, streams: Vec<ReflectedStream>) {
        self.reflection.record_streams(core, streams);
    }

    pub(super) fn flow_broken(&mut self, core: &mut HubCore, connection: ConnectionId, flow: u32) {
        self.relays.flow_broken(core, connection, flow);
    }

    pub(super) fn expire_relays(&mut self, core: &mut HubCore) {
        self.relays.expire_relays(core);
    }

    pub(super) fn expire_reservations(&mut self, now: Time) {
        self.reflection.expire_reservations(now);
    }

    pub(super) fn plan_timers(&self, timers: &mut HubTimers) {
        timers.plan(HubTimer::Request, self.table.next_expiry());
        timers.plan(HubTimer::Relay, self.relays.next_expiry());
        timers.plan(HubTimer::Reservation, self.reflection.next_due());
    }
}

impl Requests {
    /// Passes a data message on if it belongs to a relayed flow. False if it
    /// is for the rest of the hub to read.
    pub(super) fn pass_data(&mut self, turn: &mut RequestTurn<'_>, from: Sender, bytes: &Bytes) -> bool {
        let is_of_flow = self.relays.relay_data(turn.core, from, bytes);
        if self.relays.has_notices() {
            self.hear_relays(turn);
        } else if is_of_flow && turn.core.leaving.is_none() {
            turn.core.timers.plan(HubTimer::Relay, self.relays.next_expiry());
            turn.core.keeps_timers = true;
        }
        is_of_flow
    }

    /// A remote has lost a connection: its flows take another one, or end.
    pub(super) fn lose_connection(&mut self, turn: &mut RequestTurn<'_>, node: NodeId, connection: ConnectionId) {
        let requests = &self.table;
        let transports_of = |key| requests.get(key).map_or(SchemeSet::ALL, RoutedRequest::transports);
        self.relays.relays_lost_connection(turn.core, node, connection, transports_of);
        self.hear_relays(turn);
    }

    /// Hears what has become of flows.
    pub(super) fn hear_relays(&mut self, turn: &mut RequestTurn<'_>) {
        while let Some(notice) = self.relays.next_notice() {
            match notice {
                RelayNotice::ProviderLost { key, relay } => self.provider_lost(turn, key, relay),
                RelayNotice::Overrun { provider } => self.note_provider(provider, ProviderEvent::Failed),
                RelayNotice::Stopped(key) => self.drop_request_of(key.requester, key),
            }
        }
    }

    /// A node asks for a service. Gives back a lookup, which is answered at once.
    pub(super) fn request(&mut self, turn: &mut RequestTurn<'_>, from: Sender, request: Request) -> Option<Request> {
        let now = turn.core.now;
        let key = RequestKey { requester: from.node, id: request.id };
        if self.is_repeat(key, from.node, request.nonce) {
            self.repeat(turn, key, from.connection);
            return None;
        }
        turn.core.counters.count_request(request.spec.service, turn.core.mode_of(&request));
        if let Some(reason) = self.objection(turn, from, &request) {
            turn.core.decline_request(from.connection, &request, reason);
            return None;
        }
        if request.spec.mode == RequestMode::Lookup {
            return Some(request);
        }
        if !self.admit(turn.core, from.node, &request.spec) {
            turn.core.decline_request(from.connection, &request, Reason::TooMany);
            return None;
        }
        let mut query = turn.view.records.query(from.node, &request, DEFAULT_CONSIDERED);
        query.except = Some(from.node);
        query.judged =
            Some(Judged { node: from.node, action: action_of(&request) }).filter(|_| request.connect_to.is_none());
        let (area, scope, mode) = (request.spec.area, request.spec.scope, turn.core.mode_of(&request));
        self.remember(turn.core, key, from, RoutedRequest::by_node(now, from, request, mode));
        if turn.core.is_young() {
            self.table.early.insert(key, (query.clone(), scope));
        }
        if let Some(provider) = self.table.get(key).and_then(RoutedRequest::named_provider) {
            self.choose_named(turn, key, provider);
            return None;
        }
        self.choose_or_lookup(turn, key, area, scope, query);
        None
    }

    fn objection(&self, turn: &mut RequestTurn<'_>, from: Sender, request: &Request) -> Option<Reason> {
        if turn.core.leaving.is_some() {
            return Some(Reason::Leaving);
        }
        if turn.core.is_cache() && turn.core.is_cut_off() && request.spec.mode != RequestMode::Lookup {
            // Data goes through the server.
            return Some(Reason::UnreachableAbove);
        }
        if !turn.targets_own_host(from, request) {
            return Some(Reason::NotAllowed);
        }
        if turn.core.forbids_request(from, request) {
            return Some(Reason::Forbidden);
        }
        request.id.is_of_hub().then_some(Reason::Protocol)
    }

    /// True if this is a request that the hub has already from this remote.
    fn is_repeat(&self, key: RequestKey, remote: NodeId, nonce: Nonce) -> bool {
        let same = |asked: &RoutedRequest| asked.nonce == nonce && asked.remote == remote;
        self.table.get(key).is_some_and(same)
    }

    /// Makes room for one more request of a remote, here and among its own. False if there
    /// is none.
    pub(super) fn admit(&mut self, core: &mut HubCore, node: NodeId, spec: &RequestSpec) -> bool {
        if !self.admit_of(core, node) {
            return false;
        }
        if !self.table.has_room_for(spec) {
            let Some(key) = self.table.displaceable_long() else {
                core.over_limit(node, HubLimit::Requests);
                return false;
            };
            self.remove_request(key);
        }
        if self.table.len() >= core.config.limits.requests {
            let Some(key) = self.table.displaceable() else {
                core.over_limit(node, HubLimit::Requests);
                return false;
            };
            self.remove_request(key);
        }
        true
    }

    /// Makes room for one more request among those of a remote, by forgetting its
    /// oldest if that has been handed on. False if there is none.
    pub(super) fn admit_of(&mut self, core: &mut HubCore, node: NodeId) -> bool {
        let limits = &core.config.limits;
        let Some(remote) = core.remotes.get_mut(node) else { return false };
        let allowance = remote.allowance(limits.requests_per_node);
        let requests = &mut self.table;
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
                core.over_limit(node, HubLimit::RequestsPerNode);
                return false;
            };
            if let Some(key) = remote.requests.remove(oldest) {
                self.remove_request(key);
            }
        }
        true
    }

    /// Removes a request, and ends what was pledged for it.
    pub(super) fn remove_request(&mut self, key: RequestKey) -> Option<RoutedRequest> {
        self.reflection.release(key);
        self.table.remove(key)
    }

    /// Enters a request in place of an older one of the same name.
    pub(super) fn remember(&mut self, core: &mut HubCore, key: RequestKey, from: Sender, asked: RoutedRequest) {
        self.drop_overflow(core, key);
        self.forget(core, key, Reason::Cancelled);
        self.table.insert(key, asked);
        if let Some(remote) = core.remotes.get_mut(from.node) {
            remote.requests.push_back(key);
        }
    }

    /// Forgets a request, and ends its flow if that has not begun.
    fn forget(&mut self, core: &mut HubCore, key: RequestKey, reason: Reason) {
        let Some(asked) = self.remove_request(key) else { return };
        if let RequestStage::Handed { relay: Some(relay), accepted: false, .. } = asked.stage {
            self.relays.end_relay(core, relay, None, Some(reason));
        }
    }

    /// The remote that asked is gone.
    pub(super) fn drop_request_of(&mut self, remote: NodeId, key: RequestKey) {
        if self.table.get(key).is_some_and(|asked| asked.remote == remote) {
            self.remove_request(key);
        }
    }

    pub(super) fn expire_requests(&mut self, turn: &mut RequestTurn<'_>) {
        let now = turn.core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some((_, key)) = self.table.hops.first().copied().filter(|(at, _)| *at <= now) else { break };
            match self.table.get(key).is_some_and(RoutedRequest::is_held) {
                true => self.decline(turn.core, key, Reason::NotYetKnown),
                false => self.on_hop_timeout(turn, key),
            }
        }
        for _ in 0..MAX_PER_WAKE {
            let Some((_, key)) = self.table.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            let waiting = self
                .table
                .get(key)
                .map(|asked| matches!(asked.stage, RequestStage::LookingUp | RequestStage::Dialling(_)));
            if waiting == Some(true) {
                self.decline(turn.core, key, Reason::TimedOut);
            }
            self.note_end(key);
            self.forget(turn.core, key, Reason::TimedOut);
        }
    }
}

impl HubCore {
    /// The way of a request's data: a central server relays all of it.
    pub(super) fn mode_of(&self, request: &Request) -> RequestMode {
        match request.spec.mode {
            RequestMode::Forward if self.config.kind == HubKind::Server => RequestMode::Relay,
            mode => mode,
        }
    }
}
