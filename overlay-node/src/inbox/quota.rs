//! Accounts for the files in an inbox, and decides what may be added. Touches no disk: its caller reads the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use roost_wire::NodeId;

/// The most files in the inbox, so that its disk has names left for others.
pub(super) const MAX_FILES: usize = 50_000;

/// The most files that one sender has sent since the daemon started.
pub(super) const MAX_FILES_FROM_ONE: usize = 10_000;

/// The most parts that are kept, and those of one sender.
const MAX_PARTS: usize = 64;
const MAX_PARTS_FROM_ONE: usize = 8;

/// Longest time that a part is kept to which nothing is added.
pub(super) const PART_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Space that the smallest file takes on a disk, bytes.
pub(super) const BLOCK: u64 = 4096;

/// Space that is kept free for an object before its first data, bytes. Twice the data that has come is added, so that a
/// sender holds space in proportion to the data that it has sent, not to the length of its offer.
const AHEAD: u64 = 16 << 20;

/// Space that a file of this length takes on a disk, bytes.
pub(super) const fn on_disk(length: u64) -> u64 {
    let blocks = length.div_ceil(BLOCK);
    (if blocks == 0 { 1 } else { blocks }).saturating_mul(BLOCK)
}

#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    /// Space on the disk.
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
    /// The object and its sender, if the file is a part.
    pub(super) part: Option<(String, NodeId)>,
}

/// The part of an object that is not under way.
#[derive(Debug)]
struct Kept {
    from: NodeId,
    bytes: u64,
    modified: SystemTime,
}

/// Space that is kept free for an object under way.
#[derive(Debug)]
struct QuotaClaim {
    from: NodeId,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct InboxQuota {
    limit: u64,
    /// Space that each whole file takes, bytes, by its name.
    files: BTreeMap<String, u64>,
    files_bytes: u64,
    /// Sender of each file that came since the daemon started.
    senders: BTreeMap<String, NodeId>,
    /// Number of those files from each sender.
    sent: BTreeMap<NodeId, usize>,
    parts: BTreeMap<String, Kept>,
    claims: BTreeMap<String, QuotaClaim>,
    /// Files and parts that have come since the folder began to be read, which the reading may have missed.
    fresh: BTreeSet<String>,
}

impl InboxQuota {
    pub(super) const fn new(limit: u64) -> Self {
        Self {
            limit,
            files: BTreeMap::new(),
            files_bytes: 0,
            senders: BTreeMap::new(),
            sent: BTreeMap::new(),
            parts: BTreeMap::new(),
            claims: BTreeMap::new(),
            fresh: BTreeSet::new(),
        }
    }

    /// The folder is about to be read.
    pub(super) fn begin_reading(&mut self) {
        self.fresh.clear();
    }

    /// Takes the entries of the folder, and returns the parts that are older than [`PART_LIFE`].
    pub(super) fn read(&mut self, listed: Vec<Listed>, now: SystemTime) -> Vec<String> {
        let fresh = std::mem::take(&mut self.fresh);
        self.files.retain(|name, _| fresh.contains(name));
        self.parts.retain(|name, _| fresh.contains(name));
        for file in listed {
            match file.part {
                None => drop(self.files.insert(file.name, file.bytes)),
                Some((object, from)) if !self.claims.contains_key(&object) && !fresh.contains(&object) => {
                    let kept = self.parts.entry(object).or_insert(Kept { from, bytes: 0, modified: file.modified });
                    kept.bytes += file.bytes;
                    kept.modified = kept.modified.max(file.modified);
                }
                Some(_) => {}
            }
        }
        self.files_bytes = self.files.values().sum();
        self.senders.retain(|name, _| self.files.contains_key(name));
        self.sent.clear();
        self.senders.values().for_each(|from| *self.sent.entry(*from).or_default() += 1);
        let is_old = |kept: &Kept| now.duration_since(kept.modified).is_ok_and(|age| age > PART_LIFE);
        let old: Vec<String> =
            self.parts.iter().filter(|(_, kept)| is_old(kept)).map(|(name, _)| name.clone()).collect();
        self.parts.retain(|name, _| !old.contains(name));
        old
    }

    /// True if an object of this sender has room once parts give way to it. Nothing is kept free for it yet.
    pub(super) fn has_place(&self, from: NodeId, object: &str, length: u64) -> bool {
        let held = self.files_bytes + self.claimed(object);
        let sent = self.sent.get(&from).copied().unwrap_or(0) + self.claims_of(from, object);
        held.saturating_add(on_disk(length)) <= self.limit
            && self.files.len() + self.claims.len() < MAX_FILES
            && sent < MAX_FILES_FROM_ONE
    }

    /// Marks an object of this sender as under way. Returns false if it is already.
    pub(super) fn enter(&mut self, from: NodeId, object: &str) -> bool {
        if self.claims.contains_key(object) {
            return false;
        }
        let bytes = self.parts.remove(object).map_or(0, |kept| kept.bytes);
        self.claims.insert(object.to_owned(), QuotaClaim { from, bytes });
        true
    }

    /// Claims room for an object of `length` bytes of which `come` have come. Returns the parts that have to go for it;
    /// `None` if there is no room even so.
    pub(super) fn claim(&mut self, from: NodeId, object: &str, length: u64, come: u64) -> Option<Vec<String>> {
        let bytes = on_disk(length.min(come.saturating_mul(2).saturating_add(AHEAD)));
        if self.claims.get(object).is_some_and(|claim| claim.bytes >= bytes) {
            return Some(Vec::new());
        }
        let used = self.files_bytes + self.claimed(object);
        let fits = |bytes: u64| used.saturating_add(bytes) <= self.limit;
        // Less will do, as long as the data that has come fits.
        let bytes = if fits(bytes) { bytes } else { on_disk(come) };
        if !fits(bytes) {
            return None;
        }
        self.claims.insert(object.to_owned(), QuotaClaim { from, bytes });
        Some(self.make_way(used + bytes, from))
    }

    /// Gives up parts until `used` fits and there are not too many.
    fn make_way(&mut self, used: u64, from: NodeId) -> Vec<String> {
        let mut gone = Vec::new();
        loop {
            let of_sender = self.parts.values().filter(|kept| kept.from == from).count() + self.claims_of(from, "");
            let kept: u64 = self.parts.values().map(|kept| kept.bytes).sum();
            let is_full = used.saturating_add(kept) > self.limit || self.parts.len() + self.claims.len() > MAX_PARTS;
            let is_greedy = of_sender > MAX_PARTS_FROM_ONE;
            if !is_full && !is_greedy {
                return gone;
            }
            // Parts of a sender with too many go first, then the oldest.
            let losers = self.parts.iter().filter(|(_, kept)| !is_greedy || kept.from == from);
            let Some(name) = losers.min_by_key(|(_, kept)| kept.modified).map(|(name, _)| name.clone()) else {
                return gone;
            };
            self.parts.remove(&name);
            gone.push(name);
        }
    }

    /// Ends an object's claim. `left` bytes of it stay on the disk, if any.
    pub(super) fn release(&mut self, from: NodeId, object: &str, left: Option<u64>, now: SystemTime) {
        self.claims.remove(object);
        if let Some(bytes) = left {
            self.fresh.insert(object.to_owned());
            self.parts.insert(object.to_owned(), Kept { from, bytes, modified: now });
        }
    }

    /// Counts an object that has become a file of this name.
    pub(super) fn store(&mut self, from: NodeId, name: String, length: u64) {
        let bytes = on_disk(length);
        let replaced = self.files.insert(name.clone(), bytes).unwrap_or(0);
        self.files_bytes = (self.files_bytes - replaced).saturating_add(bytes);
        self.fresh.insert(name.clone());
        if self.senders.insert(name, from).is_none() {
            *self.sent.entry(from).or_default() += 1;
        }
    }

    /// Space that is kept free for the other objects, bytes.
    fn claimed(&self, but: &str) -> u64 {
        self.claims.iter().filter(|(object, _)| object.as_str() != but).map(|(_, claim)| claim.bytes).sum()
    }

    fn claims_of(&self, from: NodeId, but: &str) -> usize {
        self.claims.iter().filter(|(object, claim)| claim.from == from && object.as_str() != but).count()
    }
}

#[cfg(test)]
mod tests;
