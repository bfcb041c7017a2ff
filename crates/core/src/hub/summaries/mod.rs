//! Services that each block has, as far as it is known from here: how many entries there are below each child, and,
//! between roots, at each root whose blocks this one owns. A `block` is a service in a block of 8 × 8 cells.
//!
//! Entries stay at their homes; only these counts travel. A hub tells both
//! its parents of its aggregate, a root tells the two owners of each block
//! (`upward`). What moves inside a block changes no count and costs nothing; a record in motion counts in all the blocks
//! of its way (`ways`).

mod negatives;
mod outbox;
mod routing;
#[cfg(test)]
mod tests;
mod upward;
mod ways;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use roost_wire::block::{Block, BlockService};
use roost_wire::messages::{RouteDirection, Summary};
use roost_wire::{Area, Cell, NodeId, Service, ServiceCode, Time};

use super::HubLimit;
use super::relation::Relation;
use super::sender::Sender;
use crate::directory::PreviousEntry;
use crate::hub::core::HubCore;
use crate::hub::registry::Records;
use crate::hub::route::RoutePlan;
use negatives::Negatives;
use outbox::Outbox;
use ways::{Ways, block_services};

/// Number of blocks that a search of a wide area looks at before it takes every
/// hub that has the service anywhere.
const MAX_SCANNED: usize = 4_096;

/// Ways that one wake works out anew, at most; the rest have the next one.
const MAX_RENEWED: usize = 32;

/// Summaries of other hubs, and summaries for them.
#[derive(Debug)]
pub(super) struct Summaries {
    /// This hub's entries and those below it.
    aggregate: BTreeMap<BlockService, u32>,
    sources: BTreeMap<NodeId, SummarySource>,
    outboxes: BTreeMap<NodeId, Outbox>,
    negatives: Negatives,
    ways: Ways,
    /// The hubs of `sources` without a connection, and since when.
    lost: BTreeMap<NodeId, Time>,
    run: u32,
    version: u64,
}

#[derive(Debug, Default)]
struct SummarySource {
    /// True if it is a child: what it has counts as below this hub.
    below: bool,
    run: u32,
    block_services: BTreeMap<BlockService, VersionedCount>,
    /// Number of blocks for each service in them.
    totals: BTreeMap<ServiceCode, u32>,
}

#[derive(Clone, Copy, Debug)]
struct VersionedCount {
    count: u32,
    version: u64,
}

struct CountChange {
    before: u32,
    after: u32,
}

impl Summaries {
    /// Nothing is known. `run` tells this run of the hub from earlier ones.
    pub(super) fn new(run: u32) -> Self {
        let (aggregate, sources, outboxes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (negatives, lost) = (Negatives::default(), BTreeMap::new());
        Self { aggregate, sources, outboxes, negatives, ways: Ways::default(), lost, run, version: 0 }
    }

    /// Number of blocks that are known of other hubs.
    pub(super) fn len(&self) -> usize {
        self.sources.values().map(|source| source.block_services.len()).sum()
    }

    /// In how many blocks there is something here or below.
    pub(super) fn announced(&self) -> usize {
        self.aggregate.len()
    }

    /// The hubs below this one that have something in the block, and how much.
    pub(super) fn below(&self, block_service: BlockService) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.holders(block_service).filter(|(_, source, _)| source.below).map(|(hub, _, count)| (hub, count))
    }

    /// The hubs beside this one that have something in the block.
    pub(super) fn beside(&self, block_service: BlockService) -> impl Iterator<Item = NodeId> + '_ {
        self.holders(block_service).filter(|(_, source, _)| !source.below).map(|(hub, ..)| hub)
    }

    fn holders(&self, block_service: BlockService) -> impl Iterator<Item = (NodeId, &SummarySource, u32)> + '_ {
        let count = move |source: &SummarySource| source.block_services.get(&block_service).map(|told| told.count);
        self.sources.iter().filter_map(move |(hub, source)| Some((*hub, source, count(source)?)))
    }

    /// The children that have something in the area, as far as that is worth
    /// looking up.
    pub(super) fn below_in(&self, service: Service, area: Area) -> Vec<NodeId> {
        let children =
            self.sources.iter().filter(|(_, source)| source.below && source.totals.contains_key(&service.code()));
        children.filter(|(_, source)| source.may_have(service.code(), area)).map(|(hub, _)| *hub).collect()
    }

    pub(super) fn blocks(&self) -> BlockIndex<'_> {
        BlockIndex(self)
    }

    /// Notes that there is none of it in the cell, and that everybody was asked
    /// besides the one who did: so nothing is noted if something is known to be
    /// in the block, which may be that one's and silent for a moment.
    pub(super) fn note_none(&mut self, now: Time, service: Service, cell: Cell) {
        let block_service = BlockService::from_cell(service.code(), cell);
        if self.aggregate.contains_key(&block_service) || self.beside(block_service).next().is_some() {
            return;
        }
        self.negatives.record_absence(now, block_service, cell);
    }

    /// True if there was none a moment ago.
    pub(super) fn is_none(&self, now: Time, service: Service, cell: Cell) -> bool {
        self.negatives.holds(now, BlockService::from_cell(service.code(), cell), cell)
    }

    /// Counts entries in or out. Gives the change if the block was or becomes empty.
    fn count(&mut self, block_service: BlockService, less: u32, more: u32) -> bool {
        let held = self.aggregate.entry(block_service).or_default();
        let before = *held;
        *held = before.saturating_sub(less).saturating_add(more);
        let after = *held;
        if after == 0 {
            self.aggregate.remove(&block_service);
        }
        if after > before {
            self.negatives.forget(block_service);
        }
        (before == 0) != (after == 0)
    }
}

/// A view of the blocks in which other hubs have something.
#[derive(Clone, Copy)]
pub(super) struct BlockIndex<'a>(&'a Summaries);

impl BlockIndex<'_> {
    /// The children that have something in an area.
    pub(super) fn holders_in(self, service: Service, area: Area) -> Vec<NodeId> {
        self.0.below_in(service, area)
    }

    /// True if there was none in the cell a moment ago.
    pub(super) fn is_none(self, now: Time, service: Service, cell: Cell) -> bool {
        self.0.is_none(now, service, cell)
    }

    pub(super) fn route(
        self,
        core: &HubCore,
        block_service: BlockService,
        plan: RoutePlan,
    ) -> Vec<(NodeId, RouteDirection)> {
        self.0.route(core, block_service, plan)
    }
}

impl SummarySource {
    /// True if something of the service is in the area, or it would take too
    /// long to be sure.
    fn may_have(&self, service: ServiceCode, area: Area) -> bool {
        let (rows, columns) = Block::bounds(area);
        let first = BlockService::at(service, Block { row: *rows.start(), column: *columns.start() });
        let last = BlockService::at(service, Block { row: *rows.end(), column: *columns.end() });
        for (scanned, block_service) in
            self.block_services.range(first..=last).map(|(block_service, _)| block_service).enumerate()
        {
            if scanned >= MAX_SCANNED || columns.contains(&block_service.block().column) {
                return true;
            }
        }
        false
    }

    fn forget_block(&mut self, block_service: BlockService) {
        if let Entry::Occupied(mut total) = self.totals.entry(block_service.service()) {
            *total.get_mut() -= 1;
            if *total.get() == 0 {
                total.remove();
            }
        }
    }

    /// Takes in what was told of one block; gives the change, unless nothing was news.
    fn update_count(&mut self, block_service: BlockService, told: VersionedCount, limit: usize) -> Option<CountChange> {
        let before = self.block_services.get(&block_service).copied();
        if before.is_some_and(|before| before.version >= told.version) {
            return None;
        }
        match (before, told.count) {
            (None, 0) => return None,
            (Some(_), 0) => {
                self.block_services.remove(&block_service);
                self.forget_block(block_service);
            }
            (None, _) if self.block_services.len() >= limit => return None,
            (before, _) => {
                self.block_services.insert(block_service, told);
                *self.totals.entry(block_service.service()).or_default() += u32::from(before.is_none());
            }
        }
        Some(CountChange { before: before.map_or(0, |before| before.count), after: told.count })
    }
}

impl Summaries {
    /// A node's record has come, changed or gone: `before` is what it was.
    pub(super) fn summarize(
        &mut self,
        core: &mut HubCore,
        records: Records<'_>,
        node: NodeId,
        before: Option<&PreviousEntry>,
    ) {
        let entry = records.get(node);
        let way = self.ways.forget(node);
        let stays = entry.zip(before).is_some_and(|(entry, before)| entry.is_at(before) && !entry.is_followed());
        if stays && way.is_none() {
            return;
        }
        let before = || before.map(|place| block_services(&place.services, place.cell).collect());
        let gone: BTreeSet<BlockService> = way.or_else(before).unwrap_or_default();
        let here: BTreeSet<BlockService> = match entry {
            Some(entry) if entry.is_followed() => self.ways.record(core.now, &entry),
            Some(entry) => block_services(entry.services(), entry.cell()).collect(),
            None => BTreeSet::new(),
        };
        for block_service in gone.symmetric_difference(&here) {
            let (less, more) = if gone.contains(block_service) { (1, 0) } else { (0, 1) };
            if self.count(*block_service, less, more) {
                self.announce(core, *block_service);
            }
        }
        for block_service in here {
            self.negatives.forget(block_service);
        }
    }

    /// A record in motion is in another cell, most likely one of its way.
    pub(super) fn summarize_motion(&mut self, core: &mut HubCore, records: Records<'_>, before: &PreviousEntry) {
        if !self.ways.knows(before.node) {
            self.summarize(core, records, before.node, Some(before));
        }
    }

    /// Looks again at the ways that have come to their half.
    pub(super) fn renew_ways(&mut self, core: &mut HubCore, records: Records<'_>) {
        for _ in 0..MAX_RENEWED {
            let Some(node) = self.ways.first_due(core.now) else { return };
            self.summarize(core, records, node, None);
        }
    }

    pub(super) fn next_way(&self) -> Option<Time> {
        self.ways.next_due()
    }

    /// A child, or another root, says what it has. Gives where something has come.
    pub(super) fn summary(&mut self, core: &mut HubCore, from: Sender, summary: Summary) -> Vec<BlockService> {
        let (relation, limit) = (core.relation(from.node), core.config.limits.block_services_per_hub);
        if matches!(relation, Some(Relation::StandbyOnly | Relation::Parent)) {
            // The hub took this one for a sibling before it heard better: a parent hears of its children later
            // than it sees them come.
            core.counters.stray += 1;
            return Vec::new();
        }
        if relation == Some(Relation::Sibling) && !core.is_root() {
            core.refused(from.node, "it sent a summary to a hub that is not its parent");
            return Vec::new();
        }
        let mut filled = Vec::new();
        core.counters.summaries_heard += 1;
        let Summary { run, version, block_services, since } = summary;
        let below = matches!(relation, Some(Relation::Child(_)));
        // A child that comes back goes on where it was: its next round voids what is over.
        let is_same = |source: &SummarySource| (source.run, source.below) == (run, below);
        if self.sources.get(&from.node).is_some_and(|source| !is_same(source)) {
            self.void_summaries(core, from.node, |_| true);
        }
        let source = self.sources.entry(from.node).or_default();
        (source.run, source.below) = (run, below);
        self.lost.remove(&from.node);
        for (block_service, count) in block_services {
            let source = self.sources.entry(from.node).or_default();
            let is_full = source.block_services.len() >= limit;
            let change = source.update_count(block_service, VersionedCount { count, version }, limit);
            if is_full {
                core.over_limit(from.node, HubLimit::Summaries);
            }
            if change.is_some_and(|change| self.source_changed(core, from.node, block_service, change)) {
                filled.push(block_service);
            }
        }
        if let Some(since) = since {
            self.void_summaries(core, from.node, |told| told.version < since);
        }
        filled
    }

    /// Returns whether something has come where the hub had nothing.
    fn source_changed(
        &mut self,
        core: &mut HubCore,
        hub: NodeId,
        block_service: BlockService,
        CountChange { before, after }: CountChange,
    ) -> bool {
        let below = self.sources.get(&hub).is_some_and(|source| source.below);
        if below && self.count(block_service, before, after) {
            self.announce(core, block_service);
        }
        let has_come = before == 0 && after > 0;
        if has_come {
            self.negatives.forget(block_service);
        }
        has_come
    }

    /// Forgets what a hub has said and `is_void` holds of.
    fn void_summaries(&mut self, core: &mut HubCore, hub: NodeId, is_void: impl Fn(&VersionedCount) -> bool) {
        let Some(source) = self.sources.get_mut(&hub) else { return };
        let void = source.block_services.iter().filter(|(_, told)| is_void(told));
        let void: Vec<(BlockService, u32)> = void.map(|(block_service, told)| (*block_service, told.count)).collect();
        for (block_service, _) in &void {
            source.block_services.remove(block_service);
            source.forget_block(*block_service);
        }
        for (block_service, count) in void {
            self.source_changed(core, hub, block_service, CountChange { before: count, after: 0 });
        }
    }

    /// A hub's last connection is gone: what it said stays for a lease, because it
    /// may come back, and because "cannot be reached" is not "there is none".
    pub(super) fn summaries_lost_hub(&mut self, core: &mut HubCore, hub: NodeId) {
        let now = core.now;
        self.outboxes.remove(&hub);
        if self.sources.contains_key(&hub) {
            self.lost.insert(hub, now);
        }
    }

    pub(super) fn expire_summaries(&mut self, core: &mut HubCore) {
        let now = core.now;
        let lease = core.config.lease;
        let gone = self.lost.iter().filter(|(_, lost)| **lost + lease <= now).map(|(hub, _)| *hub);
        for hub in gone.collect::<Vec<_>>() {
            self.void_summaries(core, hub, |_| true);
            self.sources.remove(&hub);
            self.lost.remove(&hub);
        }
    }

    /// Time to expire or to send something.
    pub(super) fn summaries_due(&self, core: &HubCore) -> Option<Time> {
        let expiry = self.lost.values().map(|lost| *lost + core.config.lease);
        expiry.chain(self.outboxes.values().map(Outbox::due)).min()
    }
}
