//! The outbox on disk. `ID.json` describes a file and `ID.data` is its content; the first is written only after the
//! second is on disk, and replaced as a whole. A file that has ended keeps its description, without the content.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roost_api::{OutboxState, Priority};
use roost_core::node::MAX_OUTBOX;
use roost_runtime::clock::Clock;
use roost_wire::messages::MAX_DELIVERY_S;
use roost_wire::{DeliveryId, NodeId, text};
use serde::{Deserialize, Serialize};

use super::elapsed::Elapsed;

/// The most ended files that are remembered.
const MAX_ENDED: usize = 256;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredDelivery {
    pub(super) to: String,
    /// The node that was offered it. It is offered to no other one of the same name.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) addresses: Vec<String>,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    pub(super) priority: Priority,
    pub(super) since_s: u64,
    pub(super) until_s: u64,
    /// The time until then as this was written, seconds, and the [`Elapsed`] seconds of that moment.
    pub(super) left_s: u64,
    #[serde(default)]
    pub(super) left_at_s: u64,
    pub(super) tries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<EndNote>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndNote {
    pub(super) state: OutboxState,
    pub(super) why: Option<String>,
    pub(super) at_s: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    limit: u64,
    elapsed: Elapsed,
    held: Mutex<Held>,
    /// One description is written at a time: an offer that was stopped may still write while the end is noted.
    disk: Mutex<()>,
}

#[derive(Debug, Default)]
struct Held {
    deliveries: BTreeMap<DeliveryId, StoredDelivery>,
    /// Bytes of the files that have not ended, and of those that are being written.
    bytes: u64,
    reserved: usize,
    is_loaded: bool,
}

/// The reason for which no file can be put into the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReserveError {
    Full,
    /// The folder could not be read at the start.
    Unread,
}

impl Store {
    pub(super) fn new(folder: PathBuf, limit: u64, clock: impl Clock + 'static) -> Self {
        Self { folder, limit, elapsed: Elapsed::new(clock), held: Mutex::default(), disk: Mutex::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the folder, and removes what a crash has left. Blocks.
    pub(super) fn load(&self) -> io::Result<Vec<(DeliveryId, StoredDelivery)>> {
        fs::create_dir_all(&self.folder)?;
        let mut held = self.lock();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let described = (path.extension().is_some_and(|end| end == "json")).then(|| described(&path)).flatten();
            if let Some((id, delivery)) = described {
                held.bytes += if delivery.end.is_none() { delivery.bytes } else { 0 };
                held.deliveries.insert(id, delivery);
            }
        }
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let known = id_of(&path).and_then(|id| held.deliveries.get(&id));
            // A description that cannot be read now, as by an older version, may be read after another start.
            let is_waste = known.map_or_else(|| !path.with_extension("json").exists(), |known| known.end.is_some());
            let ends_with = |end| path.extension().is_some_and(|found| found == end);
            if ends_with("new") || ends_with("data") && is_waste {
                // A file that cannot be removed only takes room.
                let _ = fs::remove_file(path);
            }
        }
        self.elapsed.restore(&self.folder, held.deliveries.values().map(|noted| noted.left_at_s).max().unwrap_or(0));
        held.is_loaded = true;
        let waiting = held.deliveries.iter().filter(|(_, delivery)| delivery.end.is_none());
        Ok(waiting.map(|(id, delivery)| (*id, delivery.clone())).collect())
    }

    pub(super) fn reserve(&self, bytes: u64) -> Result<Reservation<'_>, ReserveError> {
        let mut held = self.lock();
        if !held.is_loaded {
            return Err(ReserveError::Unread);
        }
        let waiting = held.deliveries.values().filter(|delivery| delivery.end.is_none()).count();
        if waiting + held.reserved >= MAX_OUTBOX || held.bytes.saturating_add(bytes) > self.limit {
            return Err(ReserveError::Full);
        }
        held.bytes += bytes;
        held.reserved += 1;
        Ok(Reservation { store: self, bytes, is_kept: false })
    }

    /// A description with the time that is left to it now.
    pub(super) fn noted(&self, delivery: StoredDelivery, left: Duration) -> StoredDelivery {
        StoredDelivery { left_s: left.as_secs(), left_at_s: self.elapsed.seconds(), ..delivery }
    }

    /// The time until the end of a delivery: by the wall clock, but no more than was left and has not passed since.
    pub(super) fn left(&self, delivery: &StoredDelivery) -> Duration {
        let by_date = delivery.until_s.saturating_sub(self.elapsed.unix_s());
        let passed = self.elapsed.seconds().saturating_sub(delivery.left_at_s);
        Duration::from_secs(by_date.min(delivery.left_s.saturating_sub(passed)).min(MAX_DELIVERY_S.into()))
    }

    /// Notes on disk the time for which the daemon has run, if a file needs that. Blocks.
    pub(super) fn note_elapsed(&self) -> io::Result<()> {
        if self.lock().deliveries.values().all(|delivery| delivery.end.is_some()) {
            return Ok(());
        }
        self.replace(Path::new(Elapsed::NAME), self.elapsed.seconds().to_string().as_bytes())
    }

    pub(super) fn data_path(&self, id: DeliveryId) -> PathBuf {
        self.folder.join(format!("{id}.data"))
    }

    pub(super) fn get(&self, id: DeliveryId) -> Option<StoredDelivery> {
        self.lock().deliveries.get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<(DeliveryId, StoredDelivery)> {
        self.lock().deliveries.iter().map(|(id, delivery)| (*id, delivery.clone())).collect()
    }

    /// Writes a description to disk, whole or not at all; not of a file that has ended. Blocks.
    pub(super) fn write(&self, id: DeliveryId, delivery: StoredDelivery) -> io::Result<()> {
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if self.get(id).is_some_and(|held| held.end.is_some()) {
            return Err(io::Error::other("the file has ended"));
        }
        let json = serde_json::to_vec(&delivery).map_err(io::Error::other)?;
        self.replace(Path::new(&format!("{id}.json")), &json)?;
        self.lock().deliveries.insert(id, delivery);
        Ok(())
    }

    /// Replaces a file of the folder as a whole.
    fn replace(&self, name: &Path, content: &[u8]) -> io::Result<()> {
        let (path, new) = (self.folder.join(name), self.folder.join(name.with_extension("new")));
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Removes a file that could not be put into the outbox as a whole, the description first: a content without one
    /// goes with the next start. Blocks.
    pub(super) fn discard(&self, id: DeliveryId) -> io::Result<()> {
        self.lock().deliveries.remove(&id);
        for end in ["json", "data", "new"] {
            match fs::remove_file(self.folder.join(format!("{id}.{end}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        File::open(&self.folder)?.sync_all()
    }

    /// Notes the end of a file, then removes its content. A disk that is full notes nothing: then the receiver, which
    /// has the id, says the same again after the next start. Blocks.
    pub(super) fn end(&self, id: DeliveryId, note: EndNote) -> io::Result<()> {
        let Some(delivery) = self.get(id).filter(|delivery| delivery.end.is_none()) else { return Ok(()) };
        let bytes = delivery.bytes;
        let ended = StoredDelivery { end: Some(note), ..delivery };
        let written = self.write(id, ended.clone());
        let mut held = self.lock();
        held.deliveries.insert(id, ended);
        held.bytes = held.bytes.saturating_sub(bytes);
        drop(held);
        written?;
        fs::remove_file(self.data_path(id))?;
        self.forget();
        Ok(())
    }

    fn forget(&self) {
        let mut held = self.lock();
        let ended = held.deliveries.iter().filter_map(|(id, delivery)| Some((delivery.end.as_ref()?.at_s, *id)));
        let mut ended: Vec<_> = ended.collect();
        ended.sort_unstable();
        for (_, id) in ended.iter().rev().skip(MAX_ENDED) {
            held.deliveries.remove(id);
            // A description that cannot be removed is forgotten after the next start.
            let _ = fs::remove_file(self.folder.join(format!("{id}.json")));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a file that is being written. It is given back unless the file is kept.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    store: &'a Store,
    bytes: u64,
    is_kept: bool,
}

impl Reservation<'_> {
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut held = self.store.lock();
        held.reserved -= 1;
        if !self.is_kept {
            held.bytes = held.bytes.saturating_sub(self.bytes);
        }
    }
}

fn id_of(path: &Path) -> Option<DeliveryId> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn described(path: &Path) -> Option<(DeliveryId, StoredDelivery)> {
    Some((id_of(path)?, serde_json::from_slice(&fs::read(path).ok()?).ok()?))
}

#[cfg(test)]
mod tests;
