//! The directory: the records of the nodes that a hub serves.
//!
//! A record lies in a slot. An ordered index of eight-byte keys (service,
//! block of 8 × 8 cells, cell, slot) answers every kind of area, and each own
//! service has such an index, under its hash: an exact cell
//! is one range of it, and the nearest ones are found by going outwards row by
//! row of blocks. A lease is kept by noting when the node was last heard; the
//! ordered list of expiries is put right only when one comes due. Exact positions lie beside the slots, and records in
//! motion change their cells by themselves.

mod entry;
mod follow;
mod key;
mod motion;
mod provider_health;
mod query;
mod search;
mod service_sets;
#[cfg(test)]
mod tests;
mod viewpoint;
mod work_allowance;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::{Capacity, Cell, NodeId, Record, Service, ServiceCode, ServiceSet, Time, Version};

use entry::Slot;
pub use entry::{DirectoryEntry, PreviousEntry};
use key::IndexKey;
use motion::Motions;
pub use motion::NOWHERE;
pub use provider_health::LONGEST_HOLD;
pub use query::{DirectoryQuery, Hit, Judged, Rank, SearchPurpose};
pub(crate) use search::Admits;
use service_sets::ServiceSets;
pub use viewpoint::Viewpoint;
pub(crate) use work_allowance::WorkAllowance;

/// The most nodes that a directory can hold, whatever its configured limit.
/// Each has at most one entry per service.
pub const MAX_NODES: u32 = key::MAX_SLOTS;

/// The records of a hub's nodes, indexed by service and place.
#[derive(Debug)]
pub struct Directory {
    lease: Duration,
    limit: u32,
    by_node: BTreeMap<NodeId, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    index: BTreeSet<IndexKey>,
    own: BTreeMap<ServiceCode, BTreeSet<IndexKey>>,
    own_entries: usize,
    sets: ServiceSets,
    motions: Motions,
    /// No later than the node's lease ends, and never missing for a node.
    expiry: BTreeSet<(Time, u32)>,
    heap_bytes: usize,
    /// The time of the last call: failures are forgiven with time.
    now: Time,
}

/// The outcome of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The node was not known.
    New,
    /// An older record makes way.
    Replaced(PreviousEntry),
    /// The directory held it already, word for word.
    Same,
    /// A newer one is held.
    Stale,
    /// There is no room for another node.
    Full,
}

impl Directory {
    /// An empty directory for at most `limit` nodes (and never more than [`MAX_NODES`]).
    pub fn new(limit: u32, lease: Duration) -> Self {
        Self {
            lease,
            limit: limit.min(MAX_NODES),
            by_node: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            index: BTreeSet::new(),
            own: BTreeMap::new(),
            own_entries: 0,
            sets: ServiceSets::default(),
            motions: Motions::default(),
            expiry: BTreeSet::new(),
            heap_bytes: 0,
            now: Time::ZERO,
        }
    }

    /// Takes note of the time: what a provider has failed at counts for a while only.
    pub fn tick(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub fn nodes(&self) -> usize {
        self.by_node.len()
    }

    pub(crate) fn room(&self) -> usize {
        (self.limit as usize).saturating_sub(self.nodes())
    }

    /// Counts the entries: a service at a position each.
    pub fn entries(&self) -> usize {
        self.index.len() + self.own_entries
    }

    /// The record of `node`.
    pub fn get(&self, node: NodeId) -> Option<DirectoryEntry<'_>> {
        self.by_node.get(&node).map(|slot| self.entry(*slot))
    }

    /// The record that a search hit.
    pub fn hit(&self, hit: Hit) -> DirectoryEntry<'_> {
        self.entry(hit.slot)
    }

    /// The records in the order of their nodes' ids, beginning after `after`.
    pub fn entries_after(&self, after: Option<NodeId>) -> impl Iterator<Item = DirectoryEntry<'_>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = after.map_or(Unbounded, Excluded);
        self.by_node.range((start, Unbounded)).map(|(_, slot)| self.entry(*slot))
    }

    /// Takes a record in unless a newer one is held, and starts its lease anew.
    /// The caller has checked that the record comes from its node.
    pub fn publish(&mut self, now: Time, record: &Record) -> PublishOutcome {
        self.publish_until(now, now + self.lease, record)
    }

    /// Like [`publish`](Self::publish), for a lease that has begun before now.
    pub fn publish_until(&mut self, now: Time, expires: Time, record: &Record) -> PublishOutcome {
        match self.by_node.get(&record.node) {
            Some(slot) => self.replace(now, expires, *slot, record),
            None if self.room() == 0 => PublishOutcome::Full,
            None => {
                self.insert(now, expires, record);
                PublishOutcome::New
            }
        }
    }

    fn insert(&mut self, now: Time, expires: Time, record: &Record) {
        let slot = Slot::new(expires, record);
        self.heap_bytes += slot.addresses.len();
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.by_node.insert(record.node, number);
        self.expiry.insert((expires, number));
        let cell = self.motions.insert(now, number, record);
        self.slots[number as usize].cell = cell;
        self.list(&record.services, cell, number);
    }

    fn replace(&mut self, now: Time, expires: Time, number: u32, record: &Record) -> PublishOutcome {
        let before = self.entry(number).place();
        let slot = &mut self.slots[number as usize];
        if record.version < slot.version {
            return PublishOutcome::Stale;
        }
        slot.extend_lease(expires);
        let is_placed_alike = self.motions.says(number, record);
        let is_alike = before.services == record.services && is_placed_alike;
        // A position is that of the time of sending, and so is the cell beside it.
        let says_cell = slot.cell == record.cell || self.motions.get(number).is_some();
        if record.version == slot.version && is_alike && says_cell && slot.says(record) {
            return PublishOutcome::Same;
        }
        self.heap_bytes -= slot.addresses.len();
        slot.replace(&before.services, record);
        if !is_placed_alike {
            slot.settled = record.version.sequence;
        }
        self.heap_bytes += slot.addresses.len();
        slot.cell = self.motions.insert(now, number, record);
        let cell = slot.cell;
        if (before.cell, &before.services) != (cell, &record.services) {
            self.unlist(&before, number);
            self.list(&record.services, cell, number);
        }
        PublishOutcome::Replaced(before)
    }

    /// Keeps the record of `node` if it is of this very version, and takes
    /// note of what the node has left. False if it is not held.
    pub fn renew(&mut self, now: Time, node: NodeId, version: Version, capacity: Option<Capacity>) -> bool {
        self.renew_until(now + self.lease, node, version, capacity)
    }

    /// Like [`renew`](Self::renew), for a lease that has begun before now.
    pub fn renew_until(&mut self, expires: Time, node: NodeId, version: Version, capacity: Option<Capacity>) -> bool {
        let Some(slot) = self.slot_mut(node).filter(|slot| slot.version == version) else {
            return false;
        };
        slot.extend_lease(expires);
        slot.told = capacity.unwrap_or(slot.told);
        slot.left = slot.told;
        true
    }

    /// Makes of the record of `node`, which must be of the version `held`, one
    /// of the greater `version`, and takes note of what the node has left.
    /// False if that version is not held.
    pub fn adopt(&mut self, now: Time, node: NodeId, held: Version, version: Version, left: Capacity) -> bool {
        if !self.renew(now, node, held, Some(left)) {
            return false;
        }
        if let Some(slot) = self.slot_mut(node).filter(|slot| slot.version < version) {
            if slot.version.epoch != version.epoch {
                slot.settled = version.sequence;
            }
            slot.version = version;
        }
        true
    }

    /// Takes any word from a node as a sign of life.
    pub fn mark_heard(&mut self, now: Time, node: NodeId) {
        self.extend_lease(now + self.lease, node);
    }

    /// Keeps the record of `node` until then at least.
    pub fn extend_lease(&mut self, expires: Time, node: NodeId) {
        if let Some(slot) = self.slot_mut(node) {
            slot.extend_lease(expires);
        }
    }

    /// Offers the node to nobody, if there is another, until it speaks again.
    pub fn suspend(&mut self, node: NodeId) {
        if let Some(slot) = self.slot_mut(node) {
            slot.health.suspended = true;
        }
    }

    /// Deducts what a stream of `service` takes from what `node` has left,
    /// until the node says what it really has.
    pub fn deduct(&mut self, node: NodeId, service: Service) {
        let form = self.get(node).map(|entry| entry.services().flow_kind(service));
        if let (Some(slot), Some(form)) = (self.slot_mut(node), form) {
            slot.deduct(form);
        }
    }

    /// Takes it from `node` that it has no stream left.
    pub fn mark_busy(&mut self, node: NodeId) {
        if let Some(slot) = self.slot_mut(node) {
            slot.left.streams = 0;
        }
    }

    /// The provider did not do what it was asked for: for a while, at most
    /// [`LONGEST_HOLD`], it is tried after the others.
    pub fn record_failure(&mut self, node: NodeId) {
        let now = self.now;
        if let Some(slot) = self.slot_mut(node) {
            slot.health.record_failure(now);
        }
    }

    /// The provider has done what it was asked for: its failures are forgotten.
    pub fn record_success(&mut self, node: NodeId) {
        if let Some(slot) = self.slot_mut(node) {
            slot.health.record_success();
        }
    }

    /// The provider has answered after this long.
    pub fn record_response_time(&mut self, node: NodeId, after: Duration) {
        if let Some(slot) = self.slot_mut(node) {
            slot.health.record_response_time(after);
        }
    }

    /// Removes the record of `node` if it is of this version or older.
    pub fn withdraw(&mut self, node: NodeId, version: Version) -> Option<PreviousEntry> {
        self.remove_if(node, |held| held <= version)
    }

    /// Removes the record of `node` if it is older than this version, which
    /// another hub says it holds.
    pub fn claim(&mut self, node: NodeId, version: Version) -> Option<PreviousEntry> {
        self.remove_if(node, |held| held < version)
    }

    /// Removes the record of `node`, whatever its version.
    pub fn remove(&mut self, node: NodeId) -> Option<PreviousEntry> {
        self.remove_if(node, |_| true)
    }

    /// The time of the next [`expire`](Self::expire).
    pub fn next_expiry(&self) -> Option<Time> {
        self.expiry.first().map(|(at, _)| *at)
    }

    /// Removes one record whose lease has ended. Call it until it says `None`;
    /// each call does a bounded amount of work besides putting right the
    /// expiry of the nodes that were heard in the meantime.
    pub fn expire(&mut self, now: Time) -> Option<PreviousEntry> {
        while let Some((at, number)) = self.expiry.first().copied().filter(|(at, _)| *at <= now) {
            let slot = &mut self.slots[number as usize];
            if slot.expires <= now {
                let node = slot.node;
                return self.remove_if(node, |_| true);
            }
            slot.listed = slot.expires;
            self.expiry.remove(&(at, number));
            self.expiry.insert((slot.listed, number));
        }
        None
    }

    /// The memory of the directory, bytes, by computation: its slots with their encoded addresses, and its
    /// ordered structures at two thirds of their nodes' capacity, which is what random insertion leads to.
    pub fn bytes(&self) -> usize {
        const ORDERED_OVERHEAD: usize = 3;
        let heap_block = |bytes: usize| (bytes + 8).next_multiple_of(16);
        let heap = self.heap_bytes + self.nodes() * (heap_block(1) - 1);
        let ordered = self.nodes() * (size_of::<(NodeId, u32)>() + size_of::<(Time, u32)>())
            + self.entries() * size_of::<IndexKey>();
        self.slots.capacity() * size_of::<Slot>()
            + self.free.capacity() * size_of::<u32>()
            + heap
            + self.sets.bytes()
            + (ordered + self.motions.bytes()) * ORDERED_OVERHEAD / 2
    }

    /// The index of a service, and the number that its keys have there.
    fn index_of(&self, code: ServiceCode) -> Option<(&BTreeSet<IndexKey>, u8)> {
        match code.known() {
            Some(known) => Some((&self.index, known)),
            None => self.own.get(&code).map(|index| (index, 0)),
        }
    }

    fn list(&mut self, services: &ServiceSet, cell: Cell, number: u32) {
        self.slots[number as usize].services = self.sets.add(services);
        for code in services.codes() {
            if let Some(known) = code.known() {
                self.index.insert(IndexKey::new(known, cell, number));
            } else {
                let is_new = self.own.entry(code).or_default().insert(IndexKey::new(0, cell, number));
                self.own_entries += usize::from(is_new);
            }
        }
    }

    fn unlist(&mut self, place: &PreviousEntry, number: u32) {
        self.sets.remove(std::mem::take(&mut self.slots[number as usize].services));
        for code in place.services.codes() {
            if let Some(known) = code.known() {
                self.index.remove(&IndexKey::new(known, place.cell, number));
            } else if let Entry::Occupied(mut index) = self.own.entry(code) {
                self.own_entries -= usize::from(index.get_mut().remove(&IndexKey::new(0, place.cell, number)));
                if index.get().is_empty() {
                    index.remove();
                }
            }
        }
    }

    fn entry(&self, slot: u32) -> DirectoryEntry<'_> {
        let held = &self.slots[slot as usize];
        let services = self.sets.get(held.services);
        DirectoryEntry { slot: held, services, motions: &self.motions, number: slot, lease: self.lease, now: self.now }
    }

    fn slot_mut(&mut self, node: NodeId) -> Option<&mut Slot> {
        self.by_node.get(&node).map(|number| &mut self.slots[*number as usize])
    }

    fn remove_if(&mut self, node: NodeId, condition: impl Fn(Version) -> bool) -> Option<PreviousEntry> {
        let number = *self.by_node.get(&node)?;
        let place = self.entry(number).place();
        let slot = &mut self.slots[number as usize];
        if !condition(slot.version) {
            return None;
        }
        self.heap_bytes -= std::mem::take(&mut slot.addresses).len();
        self.expiry.remove(&(slot.listed, number));
        self.by_node.remove(&node);
        self.unlist(&place, number);
        self.motions.remove(number);
        self.free.push(number);
        Some(place)
    }
}
