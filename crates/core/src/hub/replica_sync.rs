//! Shared knowledge of a home and a standby of what the home has told, so that it need say only what has changed: the
//! home's [`ReplicaSender`], the standby's [`ReplicaReceiver`].
//!
//! Both hold for one connection, over which what is told comes in order; the
//! standby has one book for each home, whose last one it is. The home gives
//! each node a number, the lowest that is free.

mod told_positions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{
    MAX_REPLICA_CHANGES, MAX_REPLICA_NODES, MAX_REPLICA_RECORDS, ReplicaCapacity, ReplicaMove, ReplicaRecord,
    ReplicaUpdate,
};
use roost_wire::position::Move;
use roost_wire::random::SplitMix64;
use roost_wire::{Capacity, Cell, ConnectionId, NodeId, Record, Time, Version};

use crate::connections::Backoff;
use crate::directory::{Directory, DirectoryEntry};
use told_positions::{PositionChange, ToldPositions};

/// Of so many nodes a standby hears at once; of the others when it has heard of these.
pub(super) const MAX_TOLD: usize = 1_024;

/// Time after which everything is told anew at the earliest; it
/// doubles up to the longest, well before copies end for want of a word.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Records that a home has told one standby.
#[derive(Debug)]
pub(super) struct ReplicaSender {
    /// Of whom the standby is to hear. Bounded, as all here, by the directory.
    pub(super) pending: BTreeSet<NodeId>,
    /// The last node that was told in the present round through the news.
    turn: Option<NodeId>,
    /// Over which it is told; `None`: everything is to be told.
    pub(super) connection: Option<ConnectionId>,
    pub(super) signed: Time,
    /// Of the last message, and of the first one since which all that was told holds.
    number: u32,
    begun: u32,
    /// True if everything has been told since then.
    is_whole: bool,
    not_before: Time,
    backoff: Backoff,
    told: BTreeMap<NodeId, ReplicatedNode>,
    positions: ToldPositions,
    /// Numbers below `next` that nobody has.
    free: BTreeSet<u32>,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct ReplicatedNode {
    number: u32,
    version: Version,
    cell: Cell,
    capacity: Capacity,
    is_missing: bool,
}

/// Changes that a standby is to hear now.
#[derive(Debug, Default)]
pub(super) struct ReplicaChanges {
    shifts: Vec<ReplicaMove>,
    gone: Vec<u32>,
    left: Vec<ReplicaCapacity>,
    records: Vec<ReplicaRecord>,
    heard: Option<Bytes>,
    /// Time before now in which they were heard.
    heard_within: Duration,
}

impl Default for ReplicaSender {
    fn default() -> Self {
        Self {
            pending: BTreeSet::new(),
            turn: None,
            connection: None,
            signed: Time::ZERO,
            number: 0,
            begun: 0,
            is_whole: false,
            not_before: Time::ZERO,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            told: BTreeMap::new(),
            positions: ToldPositions::default(),
            free: BTreeSet::new(),
            next: 0,
        }
    }
}

impl ReplicaSender {
    /// A sender whose messages count on from this number, so that a standby knows them from what an earlier one
    /// has told it.
    pub(super) fn after(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Until when everything cannot be told anew, if that is not now.
    pub(super) fn resync_blocked_until(&self, now: Time) -> Option<Time> {
        Some(self.not_before).filter(|at| *at > now)
    }

    /// Everything is told anew: over another connection, or as a message was lost.
    pub(super) fn begin_resync(
        &mut self,
        now: Time,
        connection: ConnectionId,
        all: BTreeSet<NodeId>,
        random: &mut SplitMix64,
    ) {
        self.not_before = now + self.backoff.record_failure(now, random);
        self.backoff.record_success(now);
        (self.connection, self.signed) = (Some(connection), now);
        (self.pending, self.turn) = (all, None);
        (self.begun, self.is_whole) = (self.number.wrapping_add(1), false);
        (self.told, self.free, self.next) = (BTreeMap::new(), BTreeSet::new(), 0);
        self.positions.clear();
    }

    /// Takes those of whom the standby is to hear now: [`MAX_TOLD`] at most, all in turn.
    pub(super) fn take_batch(&mut self) -> Vec<NodeId> {
        let after = self.turn.map_or(Unbounded, Excluded);
        let batch: Vec<NodeId> = self.pending.range((after, Unbounded)).take(MAX_TOLD).copied().collect();
        self.turn = batch.last().copied().filter(|_| batch.len() == MAX_TOLD);
        for node in &batch {
            self.pending.remove(node);
        }
        batch
    }

    pub(super) fn has_changes(&self) -> bool {
        self.connection.is_none() || !self.pending.is_empty()
    }

    /// True if nothing is told, nor to be told.
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.pending.is_empty()
    }

    /// True if a node has at most moved, or has another capacity, since it was told of.
    pub(super) fn can_send_difference(&self, node: NodeId, entry: &DirectoryEntry<'_>) -> bool {
        self.told.get(&node).is_some_and(|told| told.is_base_of(entry))
            && self.positions.change(node, entry) != PositionChange::Whole
    }

    /// Notes what is to be told of a node whose entry is this one now; `whole`
    /// gives the record that the standby gets to see. False if there are too many.
    pub(super) fn record_change(
        &mut self,
        now: Time,
        node: NodeId,
        entry: Option<&DirectoryEntry<'_>>,
        changes: &mut ReplicaChanges,
        whole: impl FnOnce(Record) -> Record,
    ) -> bool {
        let told = self.told.get(&node).copied();
        let base = told.filter(|told| entry.is_some_and(|entry| entry.version() >= told.version));
        if let Some(told) = told.filter(|_| base.is_none()) {
            changes.gone.push(told.number);
            self.told.remove(&node);
            self.positions.remove(node);
        }
        let Some(entry) = entry else { return true };
        let number = base.map_or_else(|| self.take_number(), |told| told.number);
        if number >= MAX_REPLICA_NODES {
            return false;
        }
        let step = self.positions.change(node, entry);
        let (version, mut cell, capacity) = (entry.version(), entry.cell(), entry.told_capacity());
        match base.filter(|told| told.is_base_of(entry) && step != PositionChange::Whole) {
            // A node that has published nothing new is where its way leads from what was told.
            Some(told) if version == told.version => {
                changes.add_difference(&told, entry, None);
                cell = told.cell;
            }
            Some(told) => {
                let step = if let PositionChange::Move(step) = step { Some(step) } else { None };
                changes.add_difference(&told, entry, step);
                self.positions.apply(node, step);
            }
            None => {
                let record = whole(entry.record());
                self.positions.record(node, record.position);
                let silent_s = seconds(entry.silence(now).as_secs());
                changes.records.push(ReplicaRecord { node: number, record, silent_s });
            }
        }
        self.told.insert(node, ReplicatedNode { number, version, cell, capacity, is_missing: false });
        true
    }

    fn take_number(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next = self.next.saturating_add(1).min(MAX_REPLICA_NODES + 1);
            self.next - 1
        })
    }

    /// Notes who of those who were told of was heard since the last time.
    pub(super) fn add_liveness(&mut self, now: Time, directory: &Directory, changes: &mut ReplicaChanges) {
        let since = std::mem::replace(&mut self.signed, now);
        let mut signs: Vec<u8> = Vec::new();
        for (node, told) in &self.told {
            let lives = |entry: &DirectoryEntry<'_>| entry.is_heard_since(since) && !entry.is_suspended();
            if directory.get(*node).as_ref().is_some_and(lives) {
                let byte = told.number as usize / 8;
                signs.resize(signs.len().max(byte + 1), 0);
                signs[byte] |= 1 << (told.number % 8);
            }
        }
        changes.heard = (!signs.is_empty()).then(|| Bytes::from(signs));
        changes.heard_within = now.since(since);
    }

    /// The messages that tell the changes. Whether these `are_all` nodes the
    /// standby hears when it has heard of everyone.
    pub(super) fn messages(&mut self, changes: ReplicaChanges, are_all: bool) -> Vec<ReplicaUpdate> {
        let ReplicaChanges { shifts, gone, left, records, heard, heard_within } = changes;
        let within_s = seconds(heard_within.as_millis().div_ceil(1_000) as u64);
        let mut messages: Vec<ReplicaUpdate> = Vec::new();
        let parts = [shifts.len(), gone.len(), left.len()].map(|count| count.div_ceil(MAX_REPLICA_CHANGES));
        for part in 0..parts.into_iter().fold(usize::from(heard.is_some()), usize::max) {
            let (shifts, gone, left) = (nth(&shifts, part), nth(&gone, part), nth(&left, part));
            let heard = heard.clone().filter(|_| part == 0);
            let alive_within_s = within_s.filter(|_| heard.is_some());
            messages.push(ReplicaUpdate {
                moves: shifts,
                removed: gone,
                capacities: left,
                alive: heard,
                alive_within_s,
                ..ReplicaUpdate::default()
            });
        }
        let whole = records.chunks(MAX_REPLICA_RECORDS);
        messages.extend(whole.map(|part| ReplicaUpdate { records: part.to_vec(), ..ReplicaUpdate::default() }));
        // Removed nodes are told first: their numbers are free in what follows on this connection.
        self.free.extend(gone);
        let ends = !self.is_whole && self.turn.is_none();
        if ends && messages.is_empty() {
            messages.push(ReplicaUpdate::default());
        }
        for message in &mut messages {
            self.number = self.number.wrapping_add(1);
            message.sequence = self.number;
            message.starts_resync = (self.number == self.begun).then_some(true);
        }
        self.is_whole |= ends;
        if let Some(last) = messages.last_mut().filter(|_| ends && are_all) {
            last.ends_resync = Some(true);
        }
        messages
    }

    /// The standby could not follow message `number`: it lacks these nodes, or
    /// all if none is named.
    pub(super) fn mark_missing(&mut self, number: u32, nodes: &[u32]) {
        if nodes.is_empty() {
            // A resync that has begun since is whole already.
            let stale = number.wrapping_sub(self.begun) > u32::MAX / 2;
            self.connection = self.connection.filter(|_| stale);
            return;
        }
        let nodes: BTreeSet<u32> = nodes.iter().copied().collect();
        for (node, told) in self.told.iter_mut().filter(|(_, told)| nodes.contains(&told.number)) {
            told.is_missing = true;
            self.pending.insert(*node);
        }
    }
}

/// Seconds as they are told; `None` for none.
fn seconds(count: u64) -> Option<u16> {
    u16::try_from(count.min(u16::MAX.into())).ok().filter(|count| *count > 0)
}

fn nth<T: Clone>(list: &[T], part: usize) -> Vec<T> {
    list.chunks(MAX_REPLICA_CHANGES).nth(part).unwrap_or_default().to_vec()
}

impl ReplicatedNode {
    /// True if a node's entry differs from it in place and capacity at most.
    fn is_base_of(&self, entry: &DirectoryEntry<'_>) -> bool {
        let (old, new) = (self.version, entry.version());
        !self.is_missing && old.epoch == new.epoch && old <= new && entry.unchanged_since() <= old
    }
}

impl ReplicaChanges {
    fn add_difference(&mut self, told: &ReplicatedNode, entry: &DirectoryEntry<'_>, step: Option<Move>) {
        let versions = entry.version().sequence - told.version.sequence;
        if versions > 0 {
            let (x, y) = (entry.cell().x - told.cell.x, entry.cell().y - told.cell.y);
            self.shifts.push(ReplicaMove { node: told.number, versions, x, y, step });
        }
        if entry.told_capacity() != told.capacity {
            self.left.push(ReplicaCapacity { node: told.number, capacity: entry.told_capacity() });
        }
    }
}

/// Records that a standby has been told by one home.
#[derive(Debug)]
pub(super) struct ReplicaReceiver {
    connection: ConnectionId,
    number: u32,
    /// True if nothing was missed since all was told.
    open: bool,
    entries: BTreeMap<u32, ReplicaEntry>,
    /// The most lines, for the time being.
    limit: usize,
}

/// Of which node was told last, and in which version.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicaEntry {
    pub(super) node: NodeId,
    pub(super) version: Version,
}

impl ReplicaReceiver {
    pub(super) const fn new(connection: ConnectionId) -> Self {
        Self { connection, number: 0, open: false, entries: BTreeMap::new(), limit: 0 }
    }

    /// True if a message that has come over `connection` follows on what was told before.
    pub(super) fn accept_next(&mut self, connection: ConnectionId, update: &ReplicaUpdate) -> bool {
        if update.starts_resync == Some(true) && !self.is_late(connection, update.sequence) {
            self.entries.clear();
            (self.connection, self.open) = (connection, true);
        } else if connection != self.connection {
            return false;
        } else {
            self.open &= update.sequence == self.number.wrapping_add(1);
        }
        self.number = update.sequence;
        self.open
    }

    /// True if a message was overtaken by what was told over a later
    /// connection. A home that starts again counts anew, but not over an old one.
    fn is_late(&self, connection: ConnectionId, number: u32) -> bool {
        connection < self.connection && number.wrapping_sub(self.number) > u32::MAX / 2
    }

    /// The connection is gone, and with it all that was told over it.
    pub(super) fn close(&mut self, connection: ConnectionId) {
        if self.connection == connection {
            self.entries.clear();
            self.open = false;
        }
    }

    /// Sets the most lines that it may have.
    pub(super) fn limit(&mut self, lines: usize) {
        self.limit = lines;
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if another node can get a number.
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.limit
    }

    /// Takes note of a node with its number; false if there is no room for it.
    pub(super) fn insert(&mut self, number: u32, line: ReplicaEntry) -> bool {
        let fits = self.has_room() || self.entries.contains_key(&number);
        if fits {
            self.entries.insert(number, line);
        }
        fits
    }

    /// Takes a node out, whatever its number is.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        self.entries.retain(|_, line| line.node != node);
    }

    pub(super) fn get(&self, number: u32) -> Option<ReplicaEntry> {
        self.entries.get(&number).copied()
    }

    /// A node has moved on by so many versions: what was told of it before, and
    /// its version now.
    pub(super) fn advance_version(&mut self, number: u32, versions: u32) -> Option<(ReplicaEntry, Version)> {
        let line = self.entries.get_mut(&number)?;
        let before = *line;
        line.version.sequence = line.version.sequence.checked_add(versions)?;
        Some((before, line.version))
    }

    /// The number is nobody's any more.
    pub(super) fn remove(&mut self, number: u32) -> Option<ReplicaEntry> {
        self.entries.remove(&number)
    }

    /// Everybody who has a number.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        self.entries.values().map(|line| line.node).collect()
    }
}

#[cfg(test)]
mod tests;
