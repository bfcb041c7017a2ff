//! Where there is something, as far as it is known from here: per patch (a
//! service in a block of 8 × 8 cells) how many entries there are below each
//! child, and, between tops, at each top whose patches this one owns.
//!
//! Entries stay at their homes; only these counts travel. A hub tells both
//! its parents of its aggregate, a top tells the two owners of each patch
//! (`upward`). What moves inside a block changes no count and costs nothing.

#[cfg(test)]
mod tests;
mod upward;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::tree::Relation;
use super::{Hub, Sender};
use crate::block::{Block, Patch};
use crate::directory::Place;
use crate::grid::{Area, Cell};
use crate::ids::NodeId;
use crate::service::Service;
use crate::time::Time;
use crate::wire::Summary;
use upward::Outbox;

/// How long "there is none" is believed.
const NEGATIVE_LIFE: Duration = Duration::from_secs(1);

/// How many of these are remembered; further ones are asked for again.
const MAX_NEGATIVES: usize = 4_096;

/// How many patches a search of a wide area looks at before it takes every
/// hub that has the service anywhere.
const MAX_SCANNED: usize = 4_096;

/// What is known of what other hubs have, and what they are to know.
#[derive(Debug)]
pub(super) struct Summaries {
    /// This hub's entries and those below it.
    aggregate: BTreeMap<Patch, u32>,
    sources: BTreeMap<NodeId, Source>,
    outboxes: BTreeMap<NodeId, Outbox>,
    /// Cells where a service was asked for a moment ago in vain.
    negatives: BTreeMap<(Patch, Cell), Time>,
    run: u32,
    version: u64,
}

/// What another hub has said.
#[derive(Debug, Default)]
struct Source {
    /// Whether it is a child: what it has counts as below this hub.
    below: bool,
    run: u32,
    patches: BTreeMap<Patch, Told>,
    /// Patches of each service.
    totals: [u32; Service::ALL.len()],
    /// Since when its last link is gone.
    lost: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    count: u32,
    version: u64,
}

impl Summaries {
    /// Nothing is known. `run` tells this run of the hub from earlier ones.
    pub(super) fn new(run: u32) -> Self {
        let (sources, outboxes, negatives) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { aggregate: BTreeMap::new(), sources, outboxes, negatives, run, version: 0 }
    }

    /// How many patches are known of other hubs.
    pub(super) fn len(&self) -> usize {
        self.sources.values().map(|source| source.patches.len()).sum()
    }

    /// A hub has become a child: what it said as something else is void.
    pub(super) fn adopt(&mut self, child: NodeId) {
        self.outboxes.remove(&child);
        self.sources.insert(child, Source { below: true, ..Source::default() });
    }

    /// The hubs that have something in the patch, with how much; below this
    /// hub, or beside it.
    pub(super) fn having(&self, patch: Patch, below: bool) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let sources = self.sources.iter().filter(move |(_, source)| source.below == below);
        sources.filter_map(move |(hub, source)| source.patches.get(&patch).map(|told| (*hub, told.count)))
    }

    /// The children that have something in the area, as far as that is worth
    /// looking up.
    pub(super) fn below_in(&self, service: Service, area: Area) -> Vec<NodeId> {
        let children = self.sources.iter().filter(|(_, source)| source.below && source.totals[service as usize] > 0);
        children.filter(|(_, source)| source.may_have(service, area)).map(|(hub, _)| *hub).collect()
    }

    /// Notes that there is none of it in the cell, and that everybody was asked
    /// besides the one who did: so nothing is noted if something is known to be
    /// in the patch, which may be that one's and silent for a moment.
    pub(super) fn note_none(&mut self, now: Time, service: Service, cell: Cell) {
        let patch = Patch::of(service, cell);
        if self.aggregate.contains_key(&patch) || self.having(patch, false).next().is_some() {
            return;
        }
        self.negatives.retain(|_, until| *until > now);
        if self.negatives.len() < MAX_NEGATIVES {
            // What is remembered already lives no longer for being said again.
            self.negatives.entry((patch, cell)).or_insert(now + NEGATIVE_LIFE);
        }
    }

    /// Whether there was none a moment ago.
    pub(super) fn is_none(&self, now: Time, service: Service, cell: Cell) -> bool {
        self.negatives.get(&(Patch::of(service, cell), cell)).is_some_and(|until| *until > now)
    }

    fn forget_none(&mut self, patch: Patch) {
        if !self.negatives.is_empty() {
            self.negatives.retain(|(held, _), _| *held != patch);
        }
    }

    /// Counts entries in or out. Gives the change if the patch was or becomes empty.
    fn count(&mut self, patch: Patch, less: u32, more: u32) -> bool {
        let held = self.aggregate.entry(patch).or_default();
        let before = *held;
        *held = before.saturating_sub(less).saturating_add(more);
        let after = *held;
        if after == 0 {
            self.aggregate.remove(&patch);
        }
        if after > before {
            self.forget_none(patch);
        }
        (before == 0) != (after == 0)
    }
}

impl Source {
    /// Whether something of the service is in the area, or it would take too
    /// long to be sure.
    fn may_have(&self, service: Service, area: Area) -> bool {
        let (rows, columns) = Block::bounds(area);
        let first = Patch::at(service, Block { row: *rows.start(), column: *columns.start() });
        let last = Patch::at(service, Block { row: *rows.end(), column: *columns.end() });
        for (scanned, patch) in self.patches.range(first..=last).map(|(patch, _)| patch).enumerate() {
            if scanned >= MAX_SCANNED || columns.contains(&patch.block().column) {
                return true;
            }
        }
        false
    }

    /// Takes in what was told of one patch; gives the counts before and after.
    fn tell(&mut self, patch: Patch, told: Told, limit: usize) -> Option<(u32, u32)> {
        let before = self.patches.get(&patch).copied();
        if before.is_some_and(|before| before.version >= told.version) {
            return None;
        }
        let total = &mut self.totals[patch.service() as usize];
        match (before, told.count) {
            (None, 0) => return None,
            (Some(_), 0) => {
                self.patches.remove(&patch);
                *total -= 1;
            }
            (None, _) if self.patches.len() >= limit => return None,
            (before, _) => {
                self.patches.insert(patch, told);
                *total += u32::from(before.is_none());
            }
        }
        Some((before.map_or(0, |before| before.count), told.count))
    }
}

impl Hub {
    /// A node's record has come, changed or gone: `before` is what it was.
    pub(super) fn summarize(&mut self, node: NodeId, before: Option<Place>) {
        let patches = |place: Place| place.services.iter().map(move |service| Patch::of(service, place.cell));
        let now = self.directory.get(node);
        let now = now.map(|entry| Place { node, cell: entry.cell(), services: entry.services() });
        if before == now {
            return;
        }
        let gone: BTreeSet<Patch> = before.into_iter().flat_map(patches).collect();
        let here: BTreeSet<Patch> = now.into_iter().flat_map(patches).collect();
        for patch in gone.symmetric_difference(&here) {
            let (less, more) = if gone.contains(patch) { (1, 0) } else { (0, 1) };
            if self.summaries.count(*patch, less, more) {
                self.announce(*patch);
            }
        }
        for patch in here {
            self.summaries.forget_none(patch);
        }
    }

    /// A child, or another top, says what it has.
    pub(super) fn summary(&mut self, from: Sender, summary: Summary) {
        let (relation, limit) = (self.relation(from.node), self.config.limits.patches_per_hub);
        if relation == Some(Relation::Parent) || relation == Some(Relation::Peer) && !self.is_top() {
            return self.refused(from.node, "it told what it has to a hub that is not above it");
        }
        self.counters.summaries_heard += 1;
        let Summary { run, version, patches, since } = summary;
        if self.summaries.sources.get(&from.node).is_some_and(|source| source.run != run) {
            self.void_summaries(from.node, |_| true);
        }
        let source = self.summaries.sources.entry(from.node).or_default();
        (source.run, source.lost) = (run, None);
        for (patch, count) in patches {
            let source = self.summaries.sources.entry(from.node).or_default();
            if source.patches.len() >= limit {
                self.counters.over_limit += 1;
            }
            if let Some(change) = source.tell(patch, Told { count, version }, limit) {
                self.source_changed(from.node, patch, change);
            }
        }
        if let Some(since) = since {
            self.void_summaries(from.node, |told| told.version < since);
        }
    }

    fn source_changed(&mut self, hub: NodeId, patch: Patch, (before, after): (u32, u32)) {
        let below = self.summaries.sources.get(&hub).is_some_and(|source| source.below);
        if below && self.summaries.count(patch, before, after) {
            self.announce(patch);
        }
        if before == 0 && after > 0 {
            self.summaries.forget_none(patch);
            self.watch_patch_of(hub, patch);
        }
    }

    /// Forgets what a hub has said and `is_void` holds of.
    fn void_summaries(&mut self, hub: NodeId, is_void: impl Fn(&Told) -> bool) {
        let Some(source) = self.summaries.sources.get_mut(&hub) else { return };
        let void = source.patches.iter().filter(|(_, told)| is_void(told));
        let void: Vec<(Patch, u32)> = void.map(|(patch, told)| (*patch, told.count)).collect();
        for (patch, _) in &void {
            source.patches.remove(patch);
            source.totals[patch.service() as usize] -= 1;
        }
        for (patch, count) in void {
            self.source_changed(hub, patch, (count, 0));
        }
    }

    /// A hub's last link is gone: what it said stays for a lease, because it
    /// may come back, and because "cannot be reached" is not "there is none".
    pub(super) fn summaries_lost_hub(&mut self, now: Time, hub: NodeId) {
        self.summaries.outboxes.remove(&hub);
        if let Some(source) = self.summaries.sources.get_mut(&hub) {
            source.lost = Some(now);
        }
    }

    pub(super) fn expire_summaries(&mut self, now: Time) {
        let lease = self.config.lease;
        let over = |source: &Source| source.lost.is_some_and(|lost| lost + lease <= now);
        let gone = self.summaries.sources.iter().filter(|(_, source)| over(source)).map(|(hub, _)| *hub);
        for hub in gone.collect::<Vec<_>>() {
            self.void_summaries(hub, |_| true);
            self.summaries.sources.remove(&hub);
        }
    }

    /// When to expire or to send something.
    pub(super) fn summaries_due(&self) -> Option<Time> {
        let expiry = self.summaries.sources.values().filter_map(|source| source.lost);
        let expiry = expiry.map(|lost| lost + self.config.lease);
        expiry.chain(self.summaries.outboxes.values().map(Outbox::due)).min()
    }
}
