//! The receipts of deliveries on disk: a line for each change, each on disk before the next step.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roost_core::node::{Receipt, ReceiptState, Receipts};
use roost_runtime::clock::{Clock as _, SystemClock};
use roost_wire::messages::{DeliveryTerms, PushState};
use roost_wire::{DeliveryId, NodeId, text};
use serde::{Deserialize, Serialize};

/// The file in the inbox. No other file there may begin with a dot.
const NAME: &str = ".deliveries";

/// The lines that are added before the file is written anew.
const MAX_LINES: usize = 50_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    #[serde(with = "text")]
    from: NodeId,
    #[serde(with = "text")]
    id: DeliveryId,
    until_s: u64,
    state: LineState,
    /// The part of the object that is about to get its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LineState {
    Storing,
    Stored,
    Withdrawn,
    /// The sender was told that it is not stored. A hub may bring it later.
    Expired,
}

#[derive(Debug, Default)]
pub(super) struct ReceiptLog(Mutex<Option<Open>>);

#[derive(Debug)]
struct Open {
    folder: PathBuf,
    receipts: Receipts,
    file: Option<File>,
    lines: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TakenDelivery {
    pub(super) id: DeliveryId,
    from: NodeId,
    until_s: u64,
    /// The end, by the clock that goes on in suspend.
    deadline: Duration,
}

impl TakenDelivery {
    fn is_over(&self) -> bool {
        SystemClock.passed() >= self.deadline
    }
}

impl ReceiptLog {
    /// Reads the file after a start, before any part is removed. Blocks.
    pub(super) fn load(&self, folder: &Path) -> io::Result<()> {
        let mut open = self.lock();
        if open.is_none() {
            *open = Some(Open::load(folder)?);
        }
        Ok(())
    }

    /// Answers an offer. Blocks while another object gets its name, and while a denial goes to disk.
    pub(super) fn offer(&self, from: NodeId, terms: &DeliveryTerms) -> Result<TakenDelivery, PushState> {
        let mut open = self.lock();
        let Some(open) = open.as_mut() else { return Err(PushState::Unwritable) };
        let is_known = open.receipts.holds(from, terms.id);
        let answer = open.receipts.offer(from, terms, SystemClock.date().as_secs());
        if !is_known && open.receipts.holds(from, terms.id) {
            let (id, until_s) = (terms.id, terms.until_s);
            let line = Line { from, id, until_s, state: LineState::Expired, part: None };
            if let Err(error) = open.add(&line) {
                tracing::warn!(%error, "the receipt of a file is not on disk");
                open.receipts.withdraw(from, id);
                return Err(PushState::Unwritable);
            }
        }
        let until_s = answer?;
        let deadline = SystemClock.passed() + Duration::from_secs(terms.left_s.into());
        Ok(TakenDelivery { id: terms.id, from, until_s, deadline })
    }

    /// Gives the object of a delivery its name by `name`, unless the delivery is over. Blocks.
    ///
    /// # Errors
    /// As `name`, or if the receipt cannot be written.
    pub(super) fn store(
        &self,
        delivery: &TakenDelivery,
        part: &Path,
        name: impl FnOnce() -> io::Result<PathBuf>,
    ) -> io::Result<Result<PathBuf, PushState>> {
        let TakenDelivery { id, from, until_s, .. } = *delivery;
        if delivery.is_over() {
            return Ok(Err(PushState::Expired));
        }
        let part = part.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut open = self.lock();
        let Some(open) = open.as_mut() else { return Ok(Err(PushState::Unwritable)) };
        if let Err(state) = open.receipts.begin(from, id, until_s) {
            return Ok(Err(state));
        }
        let line = |state, part| Line { from, id, until_s, state, part };
        let written = open.add(&line(LineState::Storing, part));
        // The disk may have been slow.
        let named =
            written.and_then(|()| if delivery.is_over() { Ok(Err(PushState::Expired)) } else { name().map(Ok) });
        if !matches!(named, Ok(Ok(_))) {
            open.receipts.withdraw(from, id);
            open.add(&line(LineState::Withdrawn, None))?;
            return named;
        }
        open.receipts.complete(from, id);
        // The file has its name: without this line a start finds that out from its part.
        if let Err(error) = open.add(&line(LineState::Stored, None)) {
            tracing::warn!(%error, "the receipt of a file is not on disk");
        }
        named
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn load(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let receipts = Receipts::default();
                return Ok(Self { folder: folder.to_owned(), receipts, file: None, lines: 0 });
            }
            read => read?,
        };
        let mut last = BTreeMap::new();
        // A last line that was cut is of a step that did not follow.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            last.insert((line.from, line.id), line);
        }
        let mut receipts = Receipts::default();
        for ((from, id), line) in last {
            let state = match line.state {
                LineState::Stored => Some(ReceiptState::Stored),
                LineState::Storing => {
                    let is_stored = line.part.is_none_or(|part| has_name(&folder.join(part)));
                    is_stored.then_some(ReceiptState::Stored)
                }
                LineState::Withdrawn => None,
                LineState::Expired => Some(ReceiptState::Expired),
            };
            if let Some(state) = state {
                receipts.restore(from, id, Receipt { state, until_s: line.until_s });
            }
        }
        let (file, lines) = Self::write(folder, &receipts)?;
        Ok(Self { folder: folder.to_owned(), receipts, file: Some(file), lines })
    }

    /// Writes all receipts into a new file in place of the old one.
    fn write(folder: &Path, receipts: &Receipts) -> io::Result<(File, usize)> {
        let (path, new) = (folder.join(NAME), folder.join(format!("{NAME}.new")));
        let mut text = Vec::new();
        let mut lines = 0;
        for (from, id, receipt) in receipts.iter() {
            let state = match receipt.state {
                ReceiptState::Storing => continue,
                ReceiptState::Stored => LineState::Stored,
                ReceiptState::Expired => LineState::Expired,
            };
            let line = Line { from, id, until_s: receipt.until_s, state, part: None };
            serde_json::to_writer(&mut text, &line).map_err(io::Error::other)?;
            text.push(b'\n');
            lines += 1;
        }
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok((file, lines))
    }

    fn add(&mut self, line: &Line) -> io::Result<()> {
        if self.file.is_none() || self.lines >= MAX_LINES {
            let (file, lines) = Self::write(&self.folder, &self.receipts)?;
            (self.file, self.lines) = (Some(file), lines);
        }
        let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
        text.push(b'\n');
        self.lines += 1;
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let added = file.write_all(&text).and_then(|()| file.sync_data());
        if added.is_err() {
            // The next line must not follow a part of this one: all lines are written anew then.
            self.file = None;
        }
        added
    }
}

/// True if the object of a part has its name: the part is gone, or is a second name of the file, and goes now.
fn has_name(part: &Path) -> bool {
    match fs::symlink_metadata(part) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(found) if found.nlink() > 1 => {
            // A part that stays goes with the old ones.
            let _ = fs::remove_file(part);
            true
        }
        Ok(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: DeliveryTerms = DeliveryTerms { id: DeliveryId::from_bytes([1; 8]), until_s: u64::MAX, left_s: 60 };

    fn sender() -> NodeId {
        NodeId::from_bytes([7; 16])
    }

    fn open(folder: &Path) -> ReceiptLog {
        let log = ReceiptLog::default();
        log.load(folder).unwrap();
        log
    }

    /// The answer after a restart to a delivery whose storing ended with `name`, in panic or not.
    fn after_crash(leave: impl FnOnce(&Path, &Path)) -> Result<(), PushState> {
        let folder = tempfile::tempdir().unwrap();
        let (part, file) = (folder.path().join(".x.part"), folder.path().join("x"));
        fs::write(&part, "x").unwrap();
        let log = open(folder.path());
        let taken = log.offer(sender(), &TERMS).unwrap();
        let crash = std::panic::AssertUnwindSafe(|| {
            log.store(&taken, &part, || {
                leave(&part, &file);
                panic!("a crash");
            })
        });
        assert!(std::panic::catch_unwind(crash).is_err());
        open(folder.path()).offer(sender(), &TERMS).map(drop)
    }

    #[test]
    fn crash_at_any_step_stores_once() {
        assert_eq!(after_crash(|_, _| {}), Ok(()));
        assert_eq!(after_crash(|part, file| fs::hard_link(part, file).unwrap()), Err(PushState::Stored));
        assert_eq!(after_crash(|part, file| fs::rename(part, file).unwrap()), Err(PushState::Stored));
    }

    #[test]
    fn stored_delivery_is_known_after_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (log, part) = (open(folder.path()), folder.path().join(".x.part"));
        let taken = log.offer(sender(), &TERMS).unwrap();
        assert!(log.store(&taken, &part, || Ok(part.clone())).unwrap().is_ok());
        // The next delivery of the same file has a part of the same name.
        fs::write(&part, "x").unwrap();
        assert_eq!(open(folder.path()).offer(sender(), &TERMS).map(drop), Err(PushState::Stored));
    }

    #[test]
    fn denied_delivery_is_denied_after_restart() {
        let folder = tempfile::tempdir().unwrap();
        let asked = open(folder.path()).offer(sender(), &DeliveryTerms { left_s: 0, ..TERMS });
        assert_eq!(asked.map(drop), Err(PushState::Expired));
        assert_eq!(open(folder.path()).offer(sender(), &TERMS).map(drop), Err(PushState::Expired));
    }

    #[test]
    fn file_without_name_leaves_no_receipt() {
        let folder = tempfile::tempdir().unwrap();
        let (log, part) = (open(folder.path()), folder.path().join(".x.part"));
        let taken = log.offer(sender(), &TERMS).unwrap();
        assert!(log.store(&taken, &part, || Err(io::ErrorKind::StorageFull.into())).is_err());
        assert!(log.offer(sender(), &TERMS).is_ok());
        assert!(open(folder.path()).offer(sender(), &TERMS).is_ok());
    }
}
