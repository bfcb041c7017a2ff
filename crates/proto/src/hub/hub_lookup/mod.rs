//! Searching at other hubs, many requesters at once.
//!
//! A search goes to all hubs that may know something at the same time, and
//! each of them asks on in the same way before it answers. Where any will do, as
//! in one cell, the first answer that has somebody ends it. Who needs longer
//! than for a look into its own directory says so (`RequestAck`), so silence is
//! noticed soon however long the way is.

mod silence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::remotes::SEARCH;
use super::requests::RequestKey;
use super::route::{HubQuery, RoutePlan};
use super::tree::Relation;
use super::{Hub, HubLimit, Sender};
use crate::directory::{DirectoryQuery, SearchPurpose};
use crate::grid::{Area, Cell};
use crate::ids::{ConnectionId, NodeId, RequestId};
use crate::machine::{Channel, Traffic};
use crate::node_selector::NodeSelector;
use crate::service::Service;
use crate::time::Time;
use crate::wire::{
    Candidate, Coverage, DirectoryMessage, HubLookup, LookupResult, MAX_CANDIDATES, Message, RequestMessage,
    RouteDirection,
};
pub(super) use silence::ASKS;

/// The most time that a search takes, however long the requester would wait.
const MAX_PATIENCE: Duration = Duration::from_secs(30);

/// When a hub that is searching is asked whether it still does, for the first
/// time; its answer may have been lost. Doubled each time.
const REMINDER: Duration = Duration::from_secs(1);

/// How much of its time a hub keeps for the answer's way back, beyond the round trip.
const MARGIN: Duration = Duration::from_millis(50);

/// How long a search that was answered early is kept for whoever asks the same
/// by another way, so that those below are not asked once more.
const LINGER: Duration = Duration::from_millis(250);

/// How many may wait for the same search.
const MAX_WAITERS: usize = 1_024;

/// Searches at other hubs that are under way.
#[derive(Debug, Default)]
pub(super) struct HubLookups {
    table: BTreeMap<RequestId, PendingLookup>,
    /// The same search for somebody else joins the one under way.
    by_want: BTreeMap<LookupKey, RequestId>,
    timers: BTreeSet<(Time, RequestId)>,
    last: u32,
}

type LookupKey = (Service, Area, usize, Option<NodeSelector>, RoutePlan);

/// How a search goes on: from whom, to whom, and how far that reaches at most.
type LookupPlan = (RoutePlan, Vec<HubQuery>, Coverage);

#[derive(Debug)]
struct PendingLookup {
    want: LookupKey,
    /// When to look after it next, and when it ends at the latest.
    due: Time,
    until: Time,
    /// None once it was answered early; then it lingers.
    waiters: Vec<Waiter>,
    awaited: BTreeMap<NodeId, Awaited>,
    /// With the hub that named each; of a node's records the newest only.
    found: Vec<(NodeId, Candidate)>,
    coverage: Coverage,
}

/// A hub that has not answered yet.
#[derive(Debug)]
struct Awaited {
    way: RouteDirection,
    /// Who is asked in its place.
    instead: Vec<NodeId>,
    /// How often it was asked since it last said that it is searching.
    asked: u8,
    /// When its silence counts, or it is asked whether it is still searching.
    due: Time,
    /// How long it is believed to be searching.
    pause: Duration,
}

/// Who waits for a search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    /// A lookup, which is answered with what was found.
    Lookup { connection: ConnectionId, node: NodeId, id: RequestId, query: DirectoryQuery },
    /// A request, which goes on to what was found.
    Request { key: RequestKey, query: DirectoryQuery },
    /// Another hub's search.
    Hub { connection: ConnectionId, node: NodeId, id: RequestId, query: DirectoryQuery },
}

impl HubLookups {
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn take_lookup(&mut self, id: RequestId) -> Option<PendingLookup> {
        let lookup = self.table.remove(&id)?;
        if self.by_want.get(&lookup.want) == Some(&id) {
            self.by_want.remove(&lookup.want);
        }
        self.timers.remove(&(lookup.due, id));
        Some(lookup)
    }

    /// The same search for somebody else, if it lasts until then or has an answer.
    fn under_way(&mut self, want: &LookupKey, until: Time) -> Option<(RequestId, &mut PendingLookup)> {
        let id = *self.by_want.get(want)?;
        let lookup = self.table.get_mut(&id).filter(|seeking| seeking.until >= until || seeking.is_over())?;
        Some((id, lookup))
    }

    /// Keeps a search that was answered before all had answered.
    fn keep(&mut self, now: Time, id: RequestId, mut lookup: PendingLookup) {
        lookup.until = lookup.until.min(now + LINGER);
        lookup.due = lookup.until;
        self.timers.insert((lookup.due, id));
        self.by_want.insert(lookup.want, id);
        self.table.insert(id, lookup);
    }

    /// Notes when to look after a search next.
    fn plan(&mut self, id: RequestId) {
        let Some(lookup) = self.table.get_mut(&id) else { return };
        self.timers.remove(&(lookup.due, id));
        let first = lookup.awaited.values().map(|awaited| awaited.due).min();
        lookup.due = first.map_or(lookup.until, |due| due.min(lookup.until));
        self.timers.insert((lookup.due, id));
    }
}

impl Hub {
    /// Asks other hubs for what is in the query's area, or joins who has asked
    /// them the same. False if too many wait, of all or of this remote.
    pub(super) fn start_lookup(
        &mut self,
        now: Time,
        query: DirectoryQuery,
        route_plan: RoutePlan,
        waiter: Waiter,
        patience: Duration,
    ) -> bool {
        let plan = self.search_route(query.service, query.area, route_plan);
        self.start_hub_lookup(now, query, plan, waiter, patience)
    }

    fn start_hub_lookup(
        &mut self,
        now: Time,
        query: DirectoryQuery,
        plan: LookupPlan,
        waiter: Waiter,
        patience: Duration,
    ) -> bool {
        let (route_plan, asks, coverage) = plan;
        let (patience, node) = (patience.min(MAX_PATIENCE), waiter.node());
        let allowed = self.config.limits.requests_per_node;
        if self.remotes.get(node).is_none_or(|node| node.searches >= node.allowance(allowed)) {
            self.over_limit(node, HubLimit::HubLookupsPerNode);
            return false;
        }
        let want = (query.service, query.area, query.count, query.names, route_plan);
        if let Some((id, lookup)) = self.hub_lookups.under_way(&want, now + patience / 2) {
            self.counters.hub_lookups_merged += 1;
            // A repeated lookup is answered once.
            if !lookup.waiters.iter().any(|other| other.is_same(&waiter)) {
                if lookup.waiters.len() >= MAX_WAITERS {
                    self.over_limit(node, HubLimit::HubLookupWaiters);
                    return false;
                }
                lookup.waiters.push(waiter);
                self.count_search(node);
                self.poll_lookup(now, id);
            }
            return true;
        }
        if self.hub_lookups.table.len() >= self.config.limits.hub_lookups {
            self.over_limit(node, HubLimit::HubLookups);
            return false;
        }
        if !self.remotes.get_mut(node).is_some_and(|node| node.try_charge(now, SEARCH)) {
            self.over_limit(node, HubLimit::WorkRate);
            return false;
        }
        self.count_search(node);
        let id = self.open_hub_lookup(want, now + patience, waiter, coverage);
        for ask in asks {
            self.ask(now, id, ask);
        }
        self.poll_lookup(now, id);
        true
    }

    fn count_search(&mut self, node: NodeId) {
        if let Some(remote) = self.remotes.get_mut(node) {
            remote.searches += 1;
        }
    }

    fn open_hub_lookup(&mut self, want: LookupKey, until: Time, waiter: Waiter, coverage: Coverage) -> RequestId {
        // Relayed requests are numbered from the other half.
        self.hub_lookups.last = (self.hub_lookups.last + 1) % RequestId::FIRST_OF_HUB;
        let id = RequestId(self.hub_lookups.last);
        let (waiters, awaited, found) = (vec![waiter], BTreeMap::new(), Vec::new());
        let lookup = PendingLookup { want, due: until, until, waiters, awaited, found, coverage };
        self.hub_lookups.table.insert(id, lookup);
        self.hub_lookups.by_want.insert(want, id);
        self.hub_lookups.timers.insert((until, id));
        self.counters.hub_lookups_sent += 1;
        id
    }

    /// Asks one hub, and plans to see whether it answers.
    fn ask(&mut self, now: Time, id: RequestId, HubQuery { hub, way, fallbacks: instead }: HubQuery) {
        let wait = self.connection_to(hub).map_or(Duration::ZERO, |connection| self.remotes.answer_timeout(connection));
        let Some(lookup) = self.hub_lookups.table.get_mut(&id) else { return };
        let awaited = Awaited { way, instead, asked: 0, due: now, pause: REMINDER };
        let awaited = lookup.awaited.entry(hub).or_insert(awaited);
        (awaited.asked, awaited.due) = (awaited.asked + 1, now + wait);
        self.hub_lookups.plan(id);
        self.send_hub_lookup(now, id, hub, way);
    }

    fn send_hub_lookup(&mut self, now: Time, id: RequestId, hub: NodeId, way: RouteDirection) {
        let (Some(connection), Some(lookup)) = (self.connection_to(hub), self.hub_lookups.table.get(&id)) else {
            return;
        };
        let (service, area, count, names, _) = lookup.want;
        let left = u32::try_from(lookup.until.since(now).as_millis()).unwrap_or(u32::MAX);
        let count = u8::try_from(count).unwrap_or(u8::MAX);
        let seek =
            HubLookup { id, service, area, count, direction: Some(way), timeout_ms: Some(left), selector: names };
        self.send(
            connection,
            Channel::Datagram,
            Traffic::Lookup,
            &Message::Directory(DirectoryMessage::HubLookup(seek)),
        );
    }

    /// Another hub asks. It hears what is held here, and what others have that
    /// are to be asked on its way.
    pub(super) fn handle_hub_lookup(&mut self, now: Time, from: Sender, seek: HubLookup) {
        self.counters.hub_lookups_answered += 1;
        let count = usize::from(seek.count).min(MAX_CANDIDATES);
        let (service, area, origin) = (seek.service, seek.area, Cell::new(0, 0));
        let query = DirectoryQuery {
            service,
            area,
            origin,
            count,
            except: None,
            aim: SearchPurpose::List,
            names: seek.selector,
        };
        let enrolled = matches!(self.relation(from.node), Some(Relation::Child(_)));
        let way = seek.direction.filter(|way| *way != RouteDirection::Up || enrolled).unwrap_or(RouteDirection::Down);
        let route_plan = RoutePlan::from(way, from.node);
        let (connection, id) = (from.connection, seek.id);
        let plan = self.search_route(service, area, route_plan);
        let (_, asks, coverage) = &plan;
        if asks.is_empty() || (area.wants_any() && self.holds(&query)) {
            let reach = if asks.is_empty() { *coverage } else { coverage.with(Coverage::FirstMatch) };
            let coverage = self.coverage(now, reach);
            return self.answer_hub_lookup((connection, id), &query, &[], coverage);
        }
        self.send(
            connection,
            Channel::Datagram,
            Traffic::Lookup,
            &Message::Request(RequestMessage::RequestAck { id, requester: None, provider: None }),
        );
        let patience = self.time_to_answer(connection, seek.timeout_ms.unwrap_or(u32::MAX));
        let waiter = Waiter::Hub { connection, node: from.node, id, query };
        if !self.start_hub_lookup(now, query, plan, waiter, patience) {
            self.answer_hub_lookup((connection, id), &query, &[], Coverage::Partial);
        }
    }

    /// How much of the time that the requester at the connection's other end waits is
    /// left here, if the answer is to be there in time.
    pub(super) fn time_to_answer(&self, connection: ConnectionId, waits_ms: u32) -> Duration {
        let back =
            self.remotes.connections.get(&connection).map_or(Duration::ZERO, |connection| connection.rtt.smoothed())
                + MARGIN;
        let waits = Duration::from_millis(waits_ms.into()).min(MAX_PATIENCE);
        waits.saturating_sub(back).max(MARGIN)
    }

    /// A hub says that it is searching. False if nobody waits for it.
    pub(super) fn confirm_hub_lookup(&mut self, now: Time, hub: NodeId, id: RequestId) -> bool {
        let awaited = self.hub_lookups.table.get_mut(&id).and_then(|lookup| lookup.awaited.get_mut(&hub));
        let Some(awaited) = awaited else { return false };
        if awaited.asked > 0 {
            (awaited.asked, awaited.due) = (0, now + awaited.pause);
            awaited.pause *= 2;
            self.hub_lookups.plan(id);
        }
        true
    }

    /// A hub has answered.
    pub(super) fn handle_lookup_result(&mut self, now: Time, from: Sender, found: LookupResult) {
        let Some(lookup) = self.hub_lookups.table.get_mut(&found.id) else {
            self.counters.stray += 1;
            return;
        };
        if lookup.awaited.remove(&from.node).is_none() {
            self.counters.stray += 1;
            return;
        }
        lookup.coverage = lookup.coverage.with(found.coverage);
        let (service, area, _, names, _) = lookup.want;
        let fits = |candidate: &Candidate| {
            let is_meant = names.is_none_or(|selector| selector.matches(candidate.node, candidate.name.as_deref()));
            // A node that is called is wanted whatever it offers.
            let is_called = names.is_some_and(|selector| !selector.is_everybody());
            is_meant && (is_called || candidate.services.contains(service)) && area.contains(candidate.cell)
        };
        let fitting: Vec<Candidate> = found.candidates.into_iter().filter(fits).collect();
        for candidate in &fitting {
            lookup.add(from.node, candidate.clone());
        }
        fitting.iter().for_each(|candidate| self.cache_candidate(now, candidate));
        self.poll_lookup(now, found.id);
    }

    fn poll_lookup(&mut self, now: Time, id: RequestId) {
        if self.hub_lookups.table.get(&id).is_some_and(PendingLookup::is_over) {
            self.conclude(now, id);
        }
    }

    /// How far an answer reaches in which this hub has a part.
    pub(super) fn coverage(&self, now: Time, others: Coverage) -> Coverage {
        if self.is_young(now) { others.with(Coverage::HubStarting) } else { others }
    }

    fn conclude(&mut self, now: Time, id: RequestId) {
        let Some(mut lookup) = self.hub_lookups.take_lookup(id) else { return };
        let coverage = self.coverage(now, lookup.reach());
        let (.., plan) = lookup.want;
        for waiter in std::mem::take(&mut lookup.waiters) {
            if let Some(remote) = self.remotes.get_mut(waiter.node()) {
                remote.searches = remote.searches.saturating_sub(1);
            }
            match waiter {
                Waiter::Lookup { connection, id, query, .. } => {
                    self.answer_merged_lookup(now, (connection, id), (&query, plan.scope()), &lookup.found, coverage);
                }
                Waiter::Request { key, query } => self.choose(now, key, &query, &lookup.found, coverage),
                Waiter::Hub { connection, id, query, .. } => {
                    self.answer_hub_lookup((connection, id), &query, &lookup.found, coverage)
                }
            }
        }
        if !lookup.awaited.is_empty() {
            self.hub_lookups.keep(now, id, lookup);
        }
    }
}

impl PendingLookup {
    /// Whether all have answered, or where any will do, anybody was found.
    fn is_over(&self) -> bool {
        let (_, area, ..) = self.want;
        self.awaited.is_empty() || (area.wants_any() && !self.found.is_empty())
    }

    /// How far the answers reach that were waited for.
    fn reach(&self) -> Coverage {
        if self.awaited.is_empty() { self.coverage } else { self.coverage.with(Coverage::FirstMatch) }
    }

    /// Keeps the newest record of each node, at most as many as all hubs may send.
    fn add(&mut self, hub: NodeId, candidate: Candidate) {
        match self.found.iter_mut().find(|(_, held)| held.node == candidate.node) {
            Some((_, held)) if held.version >= candidate.version => {}
            Some(held) => *held = (hub, candidate),
            None => self.found.push((hub, candidate)),
        }
    }
}

impl Waiter {
    /// Who waits.
    fn node(&self) -> NodeId {
        match self {
            Self::Lookup { node, .. } | Self::Hub { node, .. } => *node,
            Self::Request { key, .. } => key.requester,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lookup { node: a, id: x, .. }, Self::Lookup { node: b, id: y, .. })
            | (Self::Hub { node: a, id: x, .. }, Self::Hub { node: b, id: y, .. }) => (a, x) == (b, y),
            (Self::Request { key: a, .. }, Self::Request { key: b, .. }) => a == b,
            _ => false,
        }
    }
}
