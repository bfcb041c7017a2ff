//! The sealed files that a hub keeps, and who has to give way.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::SealedFile;
use roost_wire::{DeliveryId, NodeId, Time};

/// The most bytes of all files. The files are in memory alone.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The most bytes of one sender. A hub, which hands over files of many senders, may have as much as all.
pub(super) const MAX_BYTES_OF_SENDER: usize = 2 << 20;

/// The most bytes for one receiver, whoever has left them.
pub(super) const MAX_BYTES_FOR_RECEIVER: usize = 4 << 20;

/// A small file counts as so many bytes, so that there are at most 4,096.
const LEAST_BYTES: usize = 4 << 10;

/// The receiver, the sender and the sender's number.
pub(super) type FileKey = (NodeId, NodeId, DeliveryId);

#[derive(Debug)]
struct HeldFile {
    /// The remote that left it, whose quota it takes.
    owner: NodeId,
    sealed: Bytes,
    until: Time,
    arrival: u64,
    /// Number of the last try; the file that waits for longest is next.
    tried: u64,
}

impl HeldFile {
    fn bytes(&self) -> usize {
        self.sealed.len().max(LEAST_BYTES)
    }
}

#[derive(Debug, Default)]
pub(super) struct FileTable {
    files: BTreeMap<FileKey, HeldFile>,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FileOwner {
    pub(super) node: NodeId,
    pub(super) most_bytes: usize,
}

pub(super) fn key_of(file: &SealedFile) -> FileKey {
    (file.to, file.from, file.id)
}

fn keys_for(to: NodeId) -> RangeInclusive<FileKey> {
    let least = (to, NodeId::from_bytes([0; 16]), DeliveryId::from_bytes([0; 8]));
    least..=(to, NodeId::from_bytes([255; 16]), DeliveryId::from_bytes([255; 8]))
}

impl FileTable {
    /// Keeps a file, for which others may have to go; `None` if it has to give way itself.
    pub(super) fn keep(&mut self, now: Time, owner: FileOwner, file: SealedFile) -> Option<Vec<(NodeId, FileKey)>> {
        let key = key_of(&file);
        if let Some(held) = self.files.get(&key) {
            // Another remote than the sender cannot replace the file by something else.
            if owner.node != file.from || held.sealed == file.sealed {
                return Some(Vec::new());
            }
            self.files.remove(&key);
        }
        self.clock += 1;
        let until = now + Duration::from_secs(file.left_s.into());
        let held = HeldFile { owner: owner.node, sealed: file.sealed, until, arrival: self.clock, tried: 0 };
        let gone = self.make_room(owner, key.0, held.bytes())?;
        self.files.insert(key, held);
        Some(gone)
    }

    fn make_room(&mut self, owner: FileOwner, to: NodeId, bytes: usize) -> Option<Vec<(NodeId, FileKey)>> {
        let mut gone = Vec::new();
        if self.bytes(|_, held| held.owner == owner.node) + bytes > owner.most_bytes {
            return None;
        }
        loop {
            let is_for = |key: &FileKey| key.0 == to;
            let key = if self.bytes(|key, _| is_for(key)) + bytes > MAX_BYTES_FOR_RECEIVER {
                self.loser(owner.node, bytes, is_for)
            } else if self.bytes(|_, _| true) + bytes > MAX_BYTES {
                self.loser(owner.node, bytes, |_| true)
            } else {
                return Some(gone);
            };
            let held = self.files.remove(&key?)?;
            gone.push((held.owner, key?));
        }
    }

    /// The youngest file of the owner that has most in a full part of the table, unless `by` would have as much.
    fn loser(&self, by: NodeId, bytes: usize, is_in: impl Fn(&FileKey) -> bool) -> Option<FileKey> {
        let mut totals = BTreeMap::<NodeId, usize>::new();
        let files = || self.files.iter().filter(|(key, _)| is_in(key));
        files().for_each(|(_, held)| *totals.entry(held.owner).or_default() += held.bytes());
        let own = totals.get(&by).copied().unwrap_or(0) + bytes;
        let (greedy, _) = totals.into_iter().max_by_key(|(_, total)| *total).filter(|(_, total)| *total > own)?;
        let of_greedy = files().filter(|(_, held)| held.owner == greedy);
        of_greedy.max_by_key(|(_, held)| held.arrival).map(|(key, _)| *key)
    }

    fn bytes(&self, counts: impl Fn(&FileKey, &HeldFile) -> bool) -> usize {
        self.files.iter().filter(|(key, held)| counts(key, held)).map(|(_, held)| held.bytes()).sum()
    }

    pub(super) fn load(&self) -> (usize, usize) {
        (self.files.len(), self.files.values().map(|held| held.sealed.len()).sum())
    }

    /// The file whose turn it is at a receiver, as it leaves now.
    pub(super) fn next_for(&mut self, now: Time, to: NodeId) -> Option<SealedFile> {
        let waiting = self.files.range_mut(keys_for(to)).filter(|(_, held)| held.left_s(now) > 0);
        let (key, held) = waiting.min_by_key(|(_, held)| (held.tried, held.arrival))?;
        self.clock += 1;
        held.tried = self.clock;
        let ((to, from, id), left_s, sealed) = (*key, held.left_s(now), held.sealed.clone());
        Some(SealedFile { from, to, id, left_s, sealed })
    }

    pub(super) fn has_for(&self, to: NodeId) -> bool {
        self.files.range(keys_for(to)).next().is_some()
    }

    /// True if the remote left the file itself.
    pub(super) fn is_owned(&self, key: FileKey, by: NodeId) -> bool {
        self.files.get(&key).is_some_and(|held| held.owner == by)
    }

    pub(super) fn remove(&mut self, key: FileKey) -> bool {
        self.files.remove(&key).is_some()
    }

    /// Removes the files whose end has come, and counts them.
    pub(super) fn expire(&mut self, now: Time) -> u64 {
        let before = self.files.len();
        self.files.retain(|_, held| held.until > now);
        (before - self.files.len()) as u64
    }

    pub(super) fn first_end(&self) -> Option<Time> {
        self.files.values().map(|held| held.until).min()
    }
}

impl HeldFile {
    /// Rounded down: nothing is delivered after the end.
    fn left_s(&self, now: Time) -> u32 {
        u32::try_from(self.until.since(now).as_secs()).unwrap_or(u32::MAX)
    }
}
