//! Searching at other hubs, many requesters at once.
//!
//! A search goes to all hubs that may know something at the same time, and
//! each of them asks on in the same way before it answers. Where any will do, as
//! in one cell, the first answer that has somebody ends it. Who needs longer
//! than for a look into its own directory says so (`RequestAck`), so silence is
//! noticed soon however long the way is.

mod gaps;
mod second_round;
mod seen;
mod silence;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use roost_wire::messages::{Candidate, Coverage, DirectoryMessage, HubLookup, LookupResult, RouteDirection};
use roost_wire::random::{RootSecret, SecretRng};
use roost_wire::{Area, ConnectionId, Metadata, NodeId, NodeSelector, RequestId, Scope, Service, Time};

use super::HubLimit;
use super::found_candidate::FoundCandidate;
use super::remotes::SEARCH;
use super::route::{HubQuery, RoutePlan};
use super::sender::Sender;
use crate::directory::DirectoryQuery;
use crate::hub::core::HubCore;
use crate::request_key::RequestKey;
use gaps::Gaps;
pub(in crate::hub) use seen::{AnswerReceiver, SeenSearches};

/// The most time that a search takes, however long the requester would wait.
const MAX_PATIENCE: Duration = Duration::from_secs(30);

/// Time after which a hub that is searching is asked whether it still does, for the first time; its answer may have
/// been lost. Doubled each time.
const REMINDER: Duration = Duration::from_secs(1);

/// Part of its time that a hub keeps for the answer's way back, beyond the round trip.
const MARGIN: Duration = Duration::from_millis(50);

/// Time for which a search that was answered early is kept for others that join it, so that hubs are not asked once
/// more.
const LINGER: Duration = Duration::from_millis(250);

/// The most that may wait for the same search.
const MAX_WAITERS: usize = 1_024;

/// Searches at other hubs that are under way.
#[derive(Debug)]
pub(super) struct HubLookups {
    table: BTreeMap<RequestId, PendingLookup>,
    /// The lookup under way for each search: the same search of another remote joins it.
    by_want: BTreeMap<LookupKey, RequestId>,
    timers: BTreeSet<(Time, RequestId)>,
    last: u32,
    /// Lookups whose waiters are to be answered.
    concluded: VecDeque<ConcludedLookup>,
    pub(super) seen: SeenSearches,
    numbers: SecretRng,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LookupKey {
    service: Service,
    filter: Metadata,
    area: Area,
    count: usize,
    names: Option<NodeSelector>,
    plan: RoutePlan,
}

/// The course of a search: from whom, to whom, and how far that reaches at most.
type LookupPlan = (RoutePlan, Vec<HubQuery>, Coverage);

#[derive(Debug)]
struct PendingLookup {
    want: LookupKey,
    /// Time to look after it next, and its latest end.
    due: Time,
    until: Time,
    /// None once it was answered early; then it lingers.
    waiters: Vec<Waiter>,
    awaited: BTreeMap<NodeId, Awaited>,
    /// Of a node's records the newest only.
    found: Vec<FoundCandidate>,
    coverage: Coverage,
    gaps: Gaps,
}

/// A hub that has not answered yet.
#[derive(Debug)]
struct Awaited {
    way: RouteDirection,
    fallbacks: Vec<NodeId>,
    /// The number of the search, which reminders keep.
    search: u64,
    /// Questions to the hub since it last said that it is searching.
    asked: u8,
    /// Time at which its silence counts, or it is asked whether it is still searching.
    due: Time,
    /// Time for which it is believed to be searching.
    pause: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum Waiter {
    /// A lookup, which is answered with what was found.
    Lookup { connection: ConnectionId, node: NodeId, id: RequestId, query: DirectoryQuery },
    /// A request, which goes on to what was found.
    Request { key: RequestKey, query: DirectoryQuery },
    /// Another hub's search.
    Hub { connection: ConnectionId, node: NodeId, id: RequestId, query: DirectoryQuery },
}

/// A lookup to which enough hubs have answered.
#[derive(Debug)]
pub(super) struct ConcludedLookup {
    pub(super) waiters: Vec<Waiter>,
    pub(super) scope: Scope,
    pub(super) found: Vec<FoundCandidate>,
    pub(super) coverage: Coverage,
    pub(super) has_omissions: bool,
    pub(super) has_losses: bool,
}

impl HubLookups {
    pub(super) fn new(secret: RootSecret) -> Self {
        Self {
            table: BTreeMap::new(),
            by_want: BTreeMap::new(),
            timers: BTreeSet::new(),
            last: 0,
            concluded: VecDeque::new(),
            seen: SeenSearches::default(),
            numbers: SecretRng::new(secret, "search"),
        }
    }

    /// The next lookup whose waiters are to be answered.
    pub(super) fn next_concluded(&mut self) -> Option<ConcludedLookup> {
        self.concluded.pop_front()
    }

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

    /// A lookup under way that another remote may join: it lasts until then or has an answer.
    fn under_way(&mut self, want: &LookupKey, until: Time) -> Option<(RequestId, &mut PendingLookup)> {
        let id = *self.by_want.get(want)?;
        let lookup = self.table.get_mut(&id).filter(|seeking| seeking.until >= until || seeking.is_over())?;
        Some((id, lookup))
    }

    /// Keeps a search that was answered before all had answered.
    fn keep(&mut self, now: Time, id: RequestId, mut lookup: PendingLookup) {
        lookup.until = lookup.until.min(now + LINGER);
        lookup.due = lookup.until;
        self.insert_lookup(id, lookup);
    }

    fn insert_lookup(&mut self, id: RequestId, lookup: PendingLookup) {
        self.timers.insert((lookup.due, id));
        let joined = self.by_want.get(&lookup.want).and_then(|id| self.table.get(id));
        if joined.is_none_or(|joined| joined.until <= lookup.until) {
            self.by_want.insert(lookup.want.clone(), id);
        }
        self.table.insert(id, lookup);
    }

    fn next_id(&mut self) -> RequestId {
        // Relayed requests are numbered from the other half.
        self.last = (self.last + 1) % RequestId::FIRST_OF_HUB;
        RequestId(self.last)
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

impl HubLookups {
    fn conclude(&mut self, core: &mut HubCore, id: RequestId) {
        let now = core.now;
        let Some(mut lookup) = self.take_lookup(id) else { return };
        let coverage = core.coverage(lookup.reach());
        let plan = lookup.want.plan;
        let waiters = std::mem::take(&mut lookup.waiters);
        for waiter in &waiters {
            core.remotes.end_search(waiter.node());
        }
        let found = if lookup.awaited.is_empty() { std::mem::take(&mut lookup.found) } else { lookup.found.clone() };
        self.concluded.push_back(ConcludedLookup {
            waiters,
            scope: plan.scope(),
            found,
            coverage,
            has_omissions: lookup.gaps.has_omissions(),
            has_losses: lookup.gaps.has_losses(),
        });
        if !lookup.awaited.is_empty() {
            self.keep(now, id, lookup);
        }
    }

    pub(super) fn start_hub_lookup(
        &mut self,
        core: &mut HubCore,
        query: DirectoryQuery,
        plan: LookupPlan,
        waiter: Waiter,
        patience: Duration,
    ) -> bool {
        let now = core.now;
        let (route_plan, asks, coverage) = plan;
        let (patience, node) = (patience.min(MAX_PATIENCE), waiter.node());
        let allowed = core.config.limits.requests_per_node;
        if core.remotes.get(node).is_none_or(|node| node.searches >= node.allowance(allowed)) {
            core.over_limit(node, HubLimit::HubLookupsPerNode);
            return false;
        }
        let DirectoryQuery { service, filter, area, count, names, .. } = query;
        // A search that goes up can be joined by others: it brings all that its hubs have told, unless one of these
        // is lost meanwhile. One that goes down cannot, since hubs there may tell others on its way.
        let joinable = route_plan.search.filter(|_| route_plan.way != RouteDirection::Up);
        let plan = RoutePlan { search: joinable, ..route_plan };
        let want = LookupKey { service, filter, area, count, names, plan };
        if let Some(is_joined) = self.join_lookup(core, &want, now + patience / 2, &waiter) {
            return is_joined;
        }
        if self.table.len() >= core.config.limits.hub_lookups {
            core.over_limit(node, HubLimit::HubLookups);
            return false;
        }
        if !core.remotes.get_mut(node).is_some_and(|node| node.try_charge(now, SEARCH)) {
            core.over_limit(node, HubLimit::WorkRate);
            return false;
        }
        core.remotes.count_search(node);
        let search = route_plan.search.unwrap_or_else(|| self.begin_search(core));
        let id = self.open_hub_lookup(core, want, now + patience, waiter, coverage);
        for ask in asks {
            self.ask(core, id, ask, search);
        }
        self.poll_lookup(core, id);
        true
    }

    /// The number of a search that this hub begins.
    fn begin_search(&mut self, core: &mut HubCore) -> u64 {
        let search = self.numbers.next_u64();
        self.seen.begin(core.now, search, core.config.node);
        search
    }

    /// Joins the same lookup if one is under way. False if too many wait for it.
    fn join_lookup(&mut self, core: &mut HubCore, want: &LookupKey, until: Time, waiter: &Waiter) -> Option<bool> {
        let node = waiter.node();
        let (id, lookup) = self.under_way(want, until)?;
        core.counters.hub_lookups_merged += 1;
        // A repeated lookup is answered once.
        if !lookup.waiters.iter().any(|other| other.is_same(waiter)) {
            if lookup.waiters.len() >= MAX_WAITERS {
                core.over_limit(node, HubLimit::HubLookupWaiters);
                return Some(false);
            }
            lookup.waiters.push(waiter.clone());
            core.remotes.count_search(node);
            self.poll_lookup(core, id);
        }
        Some(true)
    }

    fn open_hub_lookup(
        &mut self,
        core: &mut HubCore,
        want: LookupKey,
        until: Time,
        waiter: Waiter,
        coverage: Coverage,
    ) -> RequestId {
        let id = self.next_id();
        let lookup = PendingLookup {
            want,
            due: until,
            until,
            waiters: vec![waiter],
            awaited: BTreeMap::new(),
            found: Vec::new(),
            coverage,
            gaps: Gaps::default(),
        };
        self.insert_lookup(id, lookup);
        core.counters.hub_lookups_sent += 1;
        id
    }

    /// Asks one hub that is not awaited, and plans to see whether it answers.
    pub(super) fn ask(&mut self, core: &mut HubCore, id: RequestId, query: HubQuery, search: u64) {
        let HubQuery { hub, way, fallbacks } = query;
        let Some(lookup) = self.table.get_mut(&id) else { return };
        let awaited = Awaited { way, fallbacks, search, asked: 0, due: core.now, pause: REMINDER };
        if let Entry::Vacant(entry) = lookup.awaited.entry(hub) {
            entry.insert(awaited);
            self.remind(core, id, hub);
        }
    }

    /// Asks a hub that is awaited, perhaps once more.
    fn remind(&mut self, core: &mut HubCore, id: RequestId, hub: NodeId) {
        let now = core.now;
        let wait = core.connection_to(hub).map_or(Duration::ZERO, |connection| core.remotes.answer_timeout(connection));
        let awaited = self.table.get_mut(&id).and_then(|lookup| lookup.awaited.get_mut(&hub));
        let Some(awaited) = awaited else { return };
        (awaited.asked, awaited.due) = (awaited.asked + 1, now + wait);
        self.plan(id);
        self.send_hub_lookup(core, id, hub);
    }

    fn send_hub_lookup(&mut self, core: &mut HubCore, id: RequestId, hub: NodeId) {
        let now = core.now;
        let (Some(connection), Some(lookup)) = (core.connection_to(hub), self.table.get(&id)) else {
            return;
        };
        let Some(Awaited { way, search, .. }) = lookup.awaited.get(&hub) else { return };
        let LookupKey { service, filter, area, count, names, .. } = lookup.want.clone();
        let left = u32::try_from(lookup.until.since(now).as_millis()).unwrap_or(u32::MAX);
        let count = u8::try_from(count).unwrap_or(u8::MAX);
        let seek = HubLookup {
            id,
            service,
            area,
            count,
            direction: Some(*way),
            timeout_ms: Some(left),
            selector: names,
            filter,
            search: Some(*search),
        };
        core.send_answer(connection, DirectoryMessage::HubLookup(seek));
    }

    /// A hub says that it is searching. False if nobody waits for it.
    pub(super) fn confirm_hub_lookup(&mut self, core: &mut HubCore, hub: NodeId, id: RequestId) -> bool {
        let now = core.now;
        let awaited = self.table.get_mut(&id).and_then(|lookup| lookup.awaited.get_mut(&hub));
        let Some(awaited) = awaited else { return false };
        if awaited.asked > 0 {
            (awaited.asked, awaited.due) = (0, now + awaited.pause);
            awaited.pause *= 2;
            self.plan(id);
        }
        true
    }

    /// A hub has answered. Gives whom it has named that was asked for.
    pub(super) fn handle_lookup_result(
        &mut self,
        core: &mut HubCore,
        from: Sender,
        found: LookupResult,
    ) -> Vec<Candidate> {
        let Some(lookup) = self.table.get_mut(&found.id) else {
            core.counters.stray += 1;
            return Vec::new();
        };
        let Some(Awaited { way, fallbacks, .. }) = lookup.awaited.remove(&from.node) else {
            core.counters.stray += 1;
            return Vec::new();
        };
        lookup.gaps.record_answer(HubQuery { hub: from.node, way, fallbacks: fallbacks.clone() }, &found);
        let LookupKey { service, filter, area, names, .. } = lookup.want.clone();
        let fits = |candidate: &Candidate| {
            let is_meant = names.is_none_or(|selector| selector.matches(candidate.node, candidate.name.as_deref()));
            // A node that is called is wanted whatever it offers.
            let is_called = names.is_some_and(|selector| !selector.is_everybody());
            is_meant && (is_called || candidate.services.has(service, &filter)) && area.contains(candidate.cell)
        };
        let fitting: Vec<Candidate> = found.candidates.into_iter().filter(fits).collect();
        for candidate in &fitting {
            lookup.add(from.node, candidate.clone());
        }
        // Another parent may have a way up.
        let is_cut_off = found.coverage == Coverage::UnreachableAbove && !fallbacks.is_empty() && lookup.is_of_use();
        if !(is_cut_off && self.ask_next(core, found.id, way, fallbacks))
            && let Some(lookup) = self.table.get_mut(&found.id)
        {
            lookup.limit_coverage(found.coverage);
        }
        self.poll_lookup(core, found.id);
        fitting
    }

    pub(super) fn poll_lookup(&mut self, core: &mut HubCore, id: RequestId) {
        if self.table.get(&id).is_some_and(PendingLookup::is_over) && !self.begin_second_round(core, id) {
            self.conclude(core, id);
        }
    }
}

impl HubCore {
    /// Time left for a search: the requester at the other end of the connection waits for `waits_ms`, and the answer
    /// needs its way back.
    pub(super) fn time_to_answer(&self, connection: ConnectionId, waits_ms: u32) -> Duration {
        let back =
            self.remotes.connections.get(&connection).map_or(Duration::ZERO, |connection| connection.rtt.smoothed())
                + MARGIN;
        let waits = Duration::from_millis(waits_ms.into()).min(MAX_PATIENCE);
        waits.saturating_sub(back).max(MARGIN)
    }

    /// Coverage of an answer in which this hub has a part.
    pub(super) fn coverage(&self, others: Coverage) -> Coverage {
        if self.is_young() { others.with(Coverage::HubStarting) } else { others }
    }
}

impl PendingLookup {
    /// True if all have answered, or where any will do, anybody was found.
    fn is_over(&self) -> bool {
        self.awaited.is_empty() || self.has_enough()
    }

    /// True if any will do, and one was found.
    fn has_enough(&self) -> bool {
        self.want.area.wants_any() && !self.found.is_empty()
    }

    /// True if somebody waits for more than was found.
    fn is_of_use(&self) -> bool {
        !self.waiters.is_empty() && !self.has_enough()
    }

    fn limit_coverage(&mut self, coverage: Coverage) {
        self.coverage = self.coverage.with(coverage);
    }

    /// Coverage of the answers that were waited for.
    fn reach(&self) -> Coverage {
        if self.awaited.is_empty() { self.coverage } else { self.coverage.with(Coverage::FirstMatch) }
    }

    /// Keeps the newest record of each node, at most as many as all hubs may send.
    fn add(&mut self, hub: NodeId, candidate: Candidate) {
        let found = FoundCandidate { hub, candidate };
        match self.found.iter_mut().find(|held| held.candidate.node == found.candidate.node) {
            Some(held) if held.candidate.version >= found.candidate.version => {}
            Some(held) => *held = found,
            None => self.found.push(found),
        }
    }
}

impl Waiter {
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
