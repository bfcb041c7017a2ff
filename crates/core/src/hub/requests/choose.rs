//! The order in which providers are tried.

use std::time::Duration;

use roost_wire::block::BlockService;
use roost_wire::messages::{Candidate, Coverage, Reason, RouteDirection};
use roost_wire::{Area, NodeId, Scope};

use super::handoff::AnswerWay;
use super::routed_request::{RequestStage, RequestTarget, RoutedRequest};
use crate::directory::{DirectoryQuery, Rank};
use crate::hub::core::HubCore;
use crate::hub::found_candidate::FoundCandidate;
use crate::hub::requests::{RequestEffect, RequestTurn, Requests, WantedLookup};
use crate::hub::route::RoutePlan;
use crate::request_key::RequestKey;

impl Requests {
    /// In one cell the hub tries its own providers, then the other hubs one
    /// after the other: the request travels with the search. In an area it
    /// asks the other hubs first, because something nearer may be theirs. A
    /// cache leaves the choice in a cell to the server, which has to have the
    /// request in any case.
    pub(crate) fn choose_or_lookup(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        area: Area,
        scope: Scope,
        query: DirectoryQuery,
    ) {
        let now = turn.core.now;
        let is_carried = self.table.get(key).is_some_and(RoutedRequest::is_from_hub);
        if turn.core.is_cache()
            && !is_carried
            && matches!(area, Area::Exact(_))
            && RoutePlan::from_scope(scope).is_some()
        {
            return self.advance(turn, key);
        }
        let mut hits = std::mem::take(&mut self.hits);
        turn.view.records.search_within(turn.core, scope, &query, &mut hits);
        hits.sort_unstable_by_key(|hit| hit.rank.by_availability());
        // A full provider may have room for a copy of what it sends already.
        let is_reflected = self.table.get(key).is_some_and(RoutedRequest::is_reflected);
        let is_free = |rank: &Rank| is_reflected || rank.is_free();
        let (free, rest): (Vec<Rank>, Vec<Rank>) = hits.iter().map(|hit| hit.rank).partition(is_free);
        hits.clear();
        self.hits = hits;
        let plan = RoutePlan::from_scope(scope);
        let elsewhere = plan.and_then(|plan| Some((self.area_to_search(turn.core, area, &query, free.first())?, plan)));
        if let Some((area, plan)) = elsewhere {
            // The rest of the time is for handing it on.
            let patience = self.table.get(key).map_or(Duration::ZERO, |asked| asked.until.since(now)) * 3 / 4;
            let wanted = WantedLookup { key, query, area, plan, patience };
            return self.effects.push_back(RequestEffect::Lookup(Box::new(wanted)));
        }
        let choices = |ranks: Vec<Rank>| {
            ranks.iter().map(|rank| self.choice(turn, key, rank.node())).collect::<Vec<RequestTarget>>()
        };
        let (free, rest) = (choices(free), choices(rest));
        let reflected = self.reflected_choice(turn, key, area, scope).filter(|_| is_reflected);
        let Some(asked) = self.table.get_mut(key) else { return };
        let is_other = |choice: &RequestTarget| Some(*choice) != reflected;
        asked.choices.extend(reflected.into_iter().chain(free.into_iter().filter(is_other)));
        asked.rest.extend(rest.into_iter().filter(is_other));
        self.advance(turn, key);
    }

    /// A provider whose stream this hub carries already costs nobody's uplink
    /// a further copy; how it is reached.
    fn reflected_choice(
        &self,
        turn: &RequestTurn<'_>,
        key: RequestKey,
        area: Area,
        scope: Scope,
    ) -> Option<RequestTarget> {
        let asked = self.table.get(key)?;
        let (provider, cell) = self.reflection.find_stream_in(asked.spec.service, area)?;
        if provider == asked.requester {
            return None;
        }
        if turn.view.records.get(provider).is_some() || asked.is_from_hub() {
            let held = turn.view.records.get(provider).filter(|entry| entry.services().contains(asked.spec.service));
            return held.map(|_| self.choice(turn, key, provider));
        }
        let route = turn.view.blocks.route(
            turn.core,
            BlockService::from_cell(asked.spec.service.code(), cell),
            RoutePlan::from_scope(scope)?,
        );
        let (hub, way) = route.into_iter().next()?;
        Some(RequestTarget::Hub { hub, way, named: Some((provider, cell)), silences: 0 })
    }

    /// True if a request is for a copy of a stream that this hub has from `node` already.
    pub(crate) fn joins_reflected(&self, key: RequestKey, node: NodeId) -> bool {
        let Some(asked) = self.table.get(key).filter(|asked| asked.is_reflected()) else { return false };
        self.reflection.reflects(asked.spec.service, node)
    }

    /// The way to a node of the directory: a mirrored one that is not connected through its home, as is one of which
    /// a copy is wanted, since it sends one to its home for all; from a cache any through the server, unless that has
    /// carried the request here.
    pub(crate) fn choice(&self, turn: &RequestTurn<'_>, key: RequestKey, node: NodeId) -> RequestTarget {
        let asked = self.table.get(key);
        let is_carried = asked.is_some_and(RoutedRequest::is_from_hub);
        let connected = turn.core.remotes.is_up(node);
        let is_copy_of = |home: &NodeId| {
            let elsewhere = asked.is_some_and(|asked| asked.is_reflected() && asked.remote != *home);
            elsewhere && turn.core.remotes.is_up(*home) && !turn.core.remotes.is_unresponsive(*home)
        };
        let home = turn.view.records.home_of(node).filter(|home| !connected || is_copy_of(home));
        let central = turn.core.central().filter(|_| !is_carried).map(|server| (server, RouteDirection::Up));
        let hub = central.or(home.map(|home| (home, RouteDirection::Down)));
        match (hub, turn.view.records.get(node)) {
            (Some((hub, way)), Some(entry)) => {
                RequestTarget::Hub { hub, way, named: Some((node, entry.cell())), silences: 0 }
            }
            _ => RequestTarget::Node(node),
        }
    }

    /// In which area other hubs are to be asked before the request is handed to
    /// the best own provider that is free.
    fn area_to_search(&self, core: &HubCore, area: Area, query: &DirectoryQuery, best: Option<&Rank>) -> Option<Area> {
        match (area, best) {
            _ if !core.has_others() => None,
            (Area::Exact(_), _) | (Area::Anywhere, Some(_)) => None,
            (_, Some(best)) => query.nearer_than(best),
            (_, None) => Some(query.area),
        }
    }

    /// Ranks what this hub and the other hubs have, which have been asked.
    pub(crate) fn choose(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        query: &DirectoryQuery,
        remote: &[FoundCandidate],
        coverage: Coverage,
    ) {
        let Some(asked) = self.table.get(key).filter(|asked| asked.stage == RequestStage::LookingUp) else { return };
        let scope = asked.route_plan.unwrap_or(RoutePlan::BEGIN).scope();
        let mut ranked = self.rank_own(turn, key, scope, query, remote);
        for FoundCandidate { hub, candidate: Candidate { node, cell, capacity, position, .. } } in remote {
            let known = ranked.iter().any(|(rank, _)| rank.node() == *node);
            if !known && query.except != Some(*node) {
                let rank = Rank::new(query.service.flow_kind(), query.center(), *cell, *capacity, *node);
                let rank = rank.at(query.meters(*cell, *position));
                let (way, named) = (turn.core.way_to(*hub), Some((*node, *cell)));
                ranked.push((rank, RequestTarget::Hub { hub: *hub, way, named, silences: 0 }));
            }
        }
        ranked.sort_unstable_by_key(|(rank, _)| rank.by_availability());
        if let Some(asked) = self.table.get_mut(key) {
            asked.climbed = true;
            asked.choices.extend(ranked.iter().take(query.count).map(|(_, choice)| *choice));
        }
        match coverage {
            Coverage::Complete | Coverage::FirstMatch => {}
            Coverage::HubStarting => self.record_reason(key, Reason::NotYetKnown),
            Coverage::Partial => self.record_reason(key, Reason::Unreachable),
            Coverage::UnreachableAbove => self.record_reason(key, Reason::UnreachableAbove),
        }
        self.advance(turn, key);
    }

    /// Providers of this hub's directory, unless another hub has named a newer record of the same node.
    fn rank_own(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        scope: Scope,
        query: &DirectoryQuery,
        remote: &[FoundCandidate],
    ) -> Vec<(Rank, RequestTarget)> {
        let mut hits = std::mem::take(&mut self.hits);
        turn.view.records.search_within(turn.core, scope, query, &mut hits);
        let mut ranked = Vec::with_capacity(hits.len() + remote.len());
        for hit in &hits {
            let entry = turn.view.records.directory().hit(*hit);
            let node = entry.node();
            let newer = |FoundCandidate { candidate, .. }: &FoundCandidate| {
                candidate.node == node && candidate.version > entry.version()
            };
            if !remote.iter().any(newer) {
                ranked.push((hit.rank, self.choice(turn, key, node)));
            }
        }
        self.hits = hits;
        ranked
    }

    /// Hands the request to the next provider or hub that can be had.
    pub(crate) fn advance(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey) {
        loop {
            let Some(asked) = self.table.get_mut(key) else { return };
            let Some(choice) = asked.choices.pop_front() else {
                if asked.climbed {
                    break;
                }
                self.queue_hub_targets(turn, key);
                continue;
            };
            let way = if asked.is_relay() { AnswerWay::Relayed } else { AnswerWay::Direct };
            match self.hand(turn, key, choice, way) {
                Ok(()) => return,
                Err(reason) => self.record_reason(key, reason),
            }
        }
        self.conclude_request(turn.core, key);
    }

    /// No own provider that is free serves it: the other hubs are next.
    fn queue_hub_targets(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey) {
        let now = turn.core.now;
        let Some(asked) = self.table.get_mut(key) else { return };
        asked.climbed = true;
        let rest = std::mem::take(&mut asked.rest);
        let (plan, cell, service, meant) = (asked.route_plan, asked.cell, asked.spec.service, asked.named_provider());
        let mut route = Vec::new();
        if let (Some(plan), Some(cell)) = (plan.filter(|_| asked.may_go_on()), cell) {
            if meant.is_none() && turn.view.blocks.is_none(now, service, cell) {
                turn.core.counters.negatives += 1;
            } else {
                route = turn.view.blocks.route(turn.core, BlockService::from_cell(service.code(), cell), plan);
            }
            self.note_absence(turn.core, key, plan);
        }
        if let Some(asked) = self.table.get_mut(key) {
            asked.choices.extend(
                route
                    .into_iter()
                    .map(|(hub, way)| RequestTarget::Hub { hub, way, named: None, silences: 0 })
                    .chain(rest),
            );
        }
    }

    /// Notes which hubs cannot be asked that should be.
    fn note_absence(&mut self, core: &mut HubCore, key: RequestKey, plan: RoutePlan) {
        if plan.way == RouteDirection::Up && core.is_cut_off() {
            self.record_reason(key, Reason::UnreachableAbove);
        } else if plan.is_everywhere() && core.is_root_missing() {
            self.record_reason(key, Reason::Unreachable);
        }
    }

    /// There is nobody left to try.
    fn conclude_request(&mut self, core: &mut HubCore, key: RequestKey) {
        let Some(asked) = self.table.get(key) else { return };
        let none = asked.reason == Reason::NotFound;
        let reason = if none && core.is_young() { Reason::NotYetKnown } else { asked.reason };
        let (service, cell) = (asked.spec.service, asked.cell.filter(|_| asked.named_provider().is_none()));
        // Only the first hub remembers, and for no longer than it did when it asked:
        // the word of one that remembers would prolong the life of its own.
        if reason == Reason::NotFound
            && !asked.spec.is_narrow()
            && !asked.is_from_hub()
            && asked.route_plan.is_some_and(RoutePlan::is_everywhere)
            && let Some(cell) = cell
        {
            self.effects.push_back(RequestEffect::NothingIn(service, cell));
        }
        if reason != Reason::NotYetKnown || !self.hold(core, key) {
            self.decline(core, key, reason);
        }
    }

    /// Keeps the gravest reason: what the requester can do most about.
    pub(crate) fn record_reason(&mut self, key: RequestKey, reason: Reason) {
        let weight = |reason| match reason {
            Reason::Busy | Reason::Saturated => 6,
            Reason::TooMany => 5,
            Reason::NoTransport => 4,
            Reason::UnreachableAbove => 2,
            Reason::NotYetKnown => 1,
            Reason::NotFound => 0,
            _ => 3,
        };
        if let Some(asked) = self.table.get_mut(key)
            && weight(reason) > weight(asked.reason)
        {
            asked.reason = reason;
        }
    }
}
