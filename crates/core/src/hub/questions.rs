//! Requests and lookups, from the message to the answer.
//!
//! A request came: the registry names providers, the requests remember it and hand it on, and other hubs are asked
//! for what is not here. A lookup is answered from the registry, or with what other hubs have said.

use std::time::Duration;

use roost_policy::Action;
use roost_wire::messages::{
    Coverage, Decline, DirectoryMessage, FlowMessage, HopAction, HubLookup, LookupResult, MAX_CANDIDATES, Reason,
    Request, RequestMessage, RouteDirection,
};
use roost_wire::{NodeId, RequestId};

use super::Hub;
use super::hub_lookup::{AnswerReceiver, ConcludedLookup, Waiter};
use super::registry::{HubsFound, LookupReply, Viewer, encode_found};
use super::relation::Relation;
use super::requests::{PassedRequest, RequestEffect, RequestTurn, RequestView, Requests, WantedLookup};
use super::route::RoutePlan;
use super::sender::Sender;
use crate::directory::{DirectoryQuery, Judged, SearchPurpose};

/// Providers that a lookup lists if it does not say how many.
const DEFAULT_LISTED: usize = 16;

impl Hub {
    pub(super) fn on_request_message(&mut self, from: Sender, message: RequestMessage) {
        match message {
            RequestMessage::Request(request) => self.on_request(from, request),
            RequestMessage::Accept(accept) => {
                self.with_requests(|requests, turn| requests.handle_accept(turn, from, accept));
            }
            RequestMessage::Decline(decline) => self.on_decline(from, &decline),
            RequestMessage::Pending { id, requester, provider } => {
                self.with_requests(|requests, turn| requests.handle_pending(turn, from, id, requester, provider))
            }
            RequestMessage::BodyRequest(wanted) => {
                self.with_requests(|requests, turn| requests.handle_body_request(turn, from, wanted));
            }
            RequestMessage::RequestAck { id, requester, provider } => {
                self.on_request_taken(from, id, requester, provider);
            }
            RequestMessage::HopReport(traced) => self.requests.handle_trace(&mut self.core, from, traced),
            RequestMessage::Push(_) | RequestMessage::PushStatus { .. } | RequestMessage::Tunneled { .. } => {
                self.core.counters.stray += 1;
            }
        }
    }

    /// A node asks, or another hub passes a request on.
    fn on_request(&mut self, from: Sender, request: Request) {
        if request.hop().is_some() {
            let Some(passed) = PassedRequest::new(request) else { return };
            return self.with_requests(|requests, turn| requests.handle_passed_request(turn, from, passed));
        }
        let lookup = self.with_requests(|requests, turn| requests.request(turn, from, request));
        if let Some(lookup) = lookup {
            self.answer_lookup(from, &lookup);
        }
    }

    fn on_decline(&mut self, from: Sender, decline: &Decline) {
        let is_awaited = self.with_requests(|requests, turn| requests.handle_decline(turn, from, decline))
            || decline.requester.is_none() && self.watches.watch_refused(&mut self.core, from.node, decline.id);
        self.core.counters.stray += u64::from(!is_awaited);
    }

    fn on_request_taken(&mut self, from: Sender, id: RequestId, requester: Option<NodeId>, provider: Option<NodeId>) {
        let is_awaited = self
            .with_requests(|requests, turn| requests.handle_request_ack(turn, from, id, requester, provider))
            || requester.is_none() && self.hub_lookups.confirm_hub_lookup(&mut self.core, from.node, id);
        self.core.counters.stray += u64::from(!is_awaited);
    }

    /// The relays have taken what belongs to a flow through this hub.
    pub(super) fn on_flow_message(&mut self, from: Sender, message: FlowMessage) {
        match message {
            FlowMessage::SealedKeys(keys) => self.requests.handle_keys(&mut self.core, from, keys),
            FlowMessage::Stop { id, .. } => self.requests.handle_cancel(&mut self.core, from, id),
            FlowMessage::Datagram(_)
            | FlowMessage::Chunk(_)
            | FlowMessage::End { .. }
            | FlowMessage::Report(_)
            | FlowMessage::Rekey(_)
            | FlowMessage::Body(_) => self.core.counters.stray += 1,
        }
    }

    /// A node has come that may be what held requests wait for.
    pub(super) fn serve_held(&mut self, node: NodeId) {
        for key in self.requests.held_for(self.registry.records(), node) {
            self.with_requests(|requests, turn| requests.retry_held(turn, key));
        }
    }

    /// Has the requests decide something, and other parts hear what it means to them.
    pub(super) fn with_requests<T>(&mut self, decide: impl FnOnce(&mut Requests, &mut RequestTurn<'_>) -> T) -> T {
        let (records, blocks, members) = (self.registry.records(), self.summaries.blocks(), self.members.view());
        let view = RequestView { records, blocks, members };
        let decided = decide(&mut self.requests, &mut RequestTurn { core: &mut self.core, view });
        self.apply_request_effects();
        decided
    }

    /// Other parts hear what requests mean to them.
    fn apply_request_effects(&mut self) {
        while let Some(effect) = self.requests.next_effect() {
            match effect {
                RequestEffect::Provider(node, event) => self.registry.record_provider_event(node, event),
                RequestEffect::NothingIn(service, cell) => self.summaries.note_none(self.core.now, service, cell),
                RequestEffect::Lookup(wanted) => self.look_up_for_request(*wanted),
            }
        }
    }

    fn look_up_for_request(&mut self, WantedLookup { key, query, area, plan, patience }: WantedLookup) {
        let waiter = Waiter::Request { key, query: query.clone() };
        if !self.start_lookup(DirectoryQuery { area, ..query }, plan, waiter, patience) {
            self.requests.decline(&mut self.core, key, Reason::TooMany);
        }
        self.requests.report(&mut self.core, key, HopAction::LookedUp, None, None);
    }

    pub(super) fn on_directory_message(&mut self, from: Sender, message: DirectoryMessage) {
        match message {
            DirectoryMessage::Watch(watch) => {
                self.watches.watch(&mut self.core, self.registry.records(), self.summaries.blocks(), from, watch)
            }
            DirectoryMessage::Unwatch(id) => self.watches.unwatch(&mut self.core, from.node, id),
            DirectoryMessage::WatchChange(change) => {
                self.watches.handle_change(&mut self.core, self.summaries.blocks(), from, change)
            }
            DirectoryMessage::HubLookup(lookup) => self.handle_hub_lookup(from, lookup),
            DirectoryMessage::LookupResult(found) => self.on_lookup_result(from, found),
        }
    }

    pub(super) fn answer_lookup(&mut self, from: Sender, request: &Request) {
        let (names, scope) = (request.spec.provider, request.spec.scope);
        let asked = LookupReply { connection: from.connection, id: request.id };
        let query = DirectoryQuery {
            aim: SearchPurpose::List,
            names,
            judged: Some(Judged { node: from.node, action: Action::Lookup }),
            ..self.registry.records().query(from.node, request, DEFAULT_LISTED)
        };
        let hits = self.registry.search_within(&mut self.core, scope, &query);
        let plan = RoutePlan::from_scope(scope);
        let area =
            plan.and_then(|plan| Some((self.summaries.hub_lookup_area(&mut self.core, request, &query, &hits)?, plan)));
        let cached =
            area.map(|_| self.registry.cached_for(&mut self.core, request.spec.area, &query)).unwrap_or_default();
        if !cached.is_empty() {
            let coverage = self.core.coverage(Coverage::FirstMatch);
            self.registry.answer_merged_lookup(&mut self.core, asked, &query, scope, &cached, coverage);
        } else if let Some((area, plan)) = area {
            let waiter =
                Waiter::Lookup { connection: from.connection, node: from.node, id: request.id, query: query.clone() };
            let patience = self.core.time_to_answer(from.connection, request.deadline_ms);
            if !self.start_lookup(DirectoryQuery { area, ..query }, plan, waiter, patience) {
                self.core.decline_request(from.connection, request, Reason::TooMany);
            }
        } else {
            let are_first =
                request.spec.area.wants_any() && !hits.is_empty() && plan.is_some() && self.core.has_others();
            let coverage = self.core.coverage(if are_first { Coverage::FirstMatch } else { Coverage::Complete });
            if names.is_some() {
                self.registry.give_back(hits);
                return self.registry.answer_merged_lookup(&mut self.core, asked, &query, scope, &[], coverage);
            }
            self.core.count_listed(query.service, hits.len());
            let (directory, core) = (self.registry.records().directory(), &self.core);
            let viewer = Viewer { core, connection: from.connection, query: &query };
            let message = encode_found(directory, request.id, &hits, coverage, viewer);
            self.core.send_encoded(from.connection, message);
            self.core.keeps_timers = true;
        }
        self.registry.give_back(hits);
    }

    /// Another hub asks. It hears what is held here, and what others have that
    /// are to be asked on its way.
    fn handle_hub_lookup(&mut self, from: Sender, seek: HubLookup) {
        self.core.counters.hub_lookups_answered += 1;
        let count = usize::from(seek.count).min(MAX_CANDIDATES);
        let (service, area, names) = (seek.service, seek.area, seek.selector);
        let query = DirectoryQuery::new(service, area, SearchPurpose::List, count);
        let query = DirectoryQuery { filter: seek.filter, names, ..query };
        let enrolled = matches!(self.core.relation(from.node), Some(Relation::Child(_)));
        let way = seek.direction.filter(|way| *way != RouteDirection::Up || enrolled).unwrap_or(RouteDirection::Down);
        let route_plan = RoutePlan { search: seek.search, ..RoutePlan::from(way, from.node) };
        let (connection, id) = (from.connection, seek.id);
        if !self.claim_answer(from, seek.search, way) {
            self.core.counters.hub_lookups_omitted += 1;
            let (candidates, coverage) = (Vec::new(), self.core.coverage(Coverage::Complete));
            let left = LookupResult { id, candidates, coverage, has_omissions: Some(true), has_losses: None };
            return self.core.send_answer(connection, DirectoryMessage::LookupResult(left));
        }
        let plan = self.summaries.search_route(&self.core, service, area, route_plan);
        let (_, asks, coverage) = &plan;
        if asks.is_empty() || (area.wants_any() && self.registry.holds(&mut self.core, &query)) {
            let reach = if asks.is_empty() { *coverage } else { coverage.with(Coverage::FirstMatch) };
            let coverage = self.core.coverage(reach);
            let reply = LookupReply { connection, id };
            return self.registry.answer_hub_lookup(&mut self.core, reply, &query, HubsFound::nothing(coverage));
        }
        self.core.send_answer(connection, RequestMessage::RequestAck { id, requester: None, provider: None });
        let patience = self.core.time_to_answer(connection, seek.timeout_ms.unwrap_or(u32::MAX));
        let waiter = Waiter::Hub { connection, node: from.node, id, query: query.clone() };
        let is_started = self.hub_lookups.start_hub_lookup(&mut self.core, query.clone(), plan, waiter, patience);
        self.answer_waiters();
        if !is_started {
            let (reply, found) = (LookupReply { connection, id }, HubsFound::nothing(Coverage::Partial));
            self.registry.answer_hub_lookup(&mut self.core, reply, &query, found);
        }
    }

    /// False if another hub has asked for the same search, and gets the answer.
    fn claim_answer(&mut self, from: Sender, search: Option<u64>, way: RouteDirection) -> bool {
        let (remotes, now) = (&self.core.remotes, self.core.now);
        let is_up = |hub| hub == self.core.config.node || remotes.is_up(hub);
        let next = AnswerReceiver { hub: from.node, way };
        search.is_none_or(|search| self.hub_lookups.seen.claim_answer(now, search, next, is_up))
    }

    fn on_lookup_result(&mut self, from: Sender, found: LookupResult) {
        for candidate in self.hub_lookups.handle_lookup_result(&mut self.core, from, found) {
            self.registry.cache_candidate(&mut self.core, &candidate);
        }
        self.answer_waiters();
    }

    /// Asks other hubs for what is in the query's area, or joins who has asked
    /// them the same. False if too many wait, of all or of this remote.
    pub(super) fn start_lookup(
        &mut self,
        query: DirectoryQuery,
        route_plan: RoutePlan,
        waiter: Waiter,
        patience: Duration,
    ) -> bool {
        // Other hubs do not know who asks, so some of what they name may not be for the requester.
        let count = if self.core.is_limited(&query) { MAX_CANDIDATES } else { query.count };
        let query = DirectoryQuery { count, ..query };
        let plan = self.summaries.search_route(&self.core, query.service, query.area, route_plan);
        let is_started = self.hub_lookups.start_hub_lookup(&mut self.core, query.clone(), plan, waiter, patience);
        self.answer_waiters();
        is_started
    }

    /// Gives those who wait for lookups at other hubs what was found.
    pub(super) fn answer_waiters(&mut self) {
        while let Some(ConcludedLookup { waiters, scope, found, coverage, has_omissions, has_losses }) =
            self.hub_lookups.next_concluded()
        {
            for waiter in waiters {
                match waiter {
                    Waiter::Lookup { connection, id, query, .. } => {
                        let reply = LookupReply { connection, id };
                        self.registry.answer_merged_lookup(&mut self.core, reply, &query, scope, &found, coverage);
                    }
                    Waiter::Request { key, query } => {
                        self.with_requests(|requests, turn| requests.choose(turn, key, &query, &found, coverage));
                    }
                    Waiter::Hub { connection, id, query, .. } => {
                        let reply = LookupReply { connection, id };
                        let found = HubsFound { candidates: &found, coverage, has_omissions, has_losses };
                        self.registry.answer_hub_lookup(&mut self.core, reply, &query, found);
                    }
                }
            }
        }
    }
}
