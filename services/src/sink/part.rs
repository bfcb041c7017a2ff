//! A large object in progress: `FILE.part`, which survives an interrupted transfer, and `FILE.part.json`, which
//! names the object.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use roost_wire::object::{digest_text, parse_digest};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Finished;
use super::file::{part, sync_folder};
use super::output::blocking;
use crate::SinkError;

/// Smaller objects, in bytes, keep no part: they are requested again from the start.
pub const MIN_PART_BYTES: u64 = 1 << 20;

/// The largest sidecar that is read, bytes.
const MAX_NOTE_BYTES: u64 = 4096;

/// Attempts to open a part that another transfer keeps renaming or removing.
const MAX_TRIES: u32 = 16;

/// Bytes read at once to compute a digest.
const HASH_BYTES: usize = 256 * 1024;

/// Bytes gathered before a write: each write is a task on another thread.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    pub digest: [u8; 32],
    pub length: u64,
}

/// The content of the sidecar `FILE.part.json`.
#[derive(Debug, Serialize, Deserialize)]
struct PartNote {
    sha256: String,
    bytes: u64,
}

/// The first bytes of an object, new or left by an earlier transfer. It holds a lock, so that nobody else
/// writes to the file.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    target: PathBuf,
    path: PathBuf,
    of: ObjectIdentity,
    /// The hash of the first `hashed` bytes.
    hash: Sha256,
    hashed: u64,
    bytes: u64,
    /// Data that follows those bytes and is not written yet.
    gathered: Vec<u8>,
    /// The object whose first data will replace the content.
    anew: Option<ObjectIdentity>,
}

impl PartialFile {
    /// Opens the part of a known object that an earlier transfer left at `path`, if there is one. Hashes it;
    /// `heard` gets the length of each block. Blocks.
    ///
    /// # Errors
    /// Another transfer writes to it, or it cannot be read.
    pub fn find(path: &Path, mut heard: impl FnMut(u64)) -> Result<Option<Self>, SinkError> {
        let target = canonical(path);
        let Some(of) = PartNote::read(&note_path_for(&target)) else { return Ok(None) };
        let at = part(&target);
        let failed = |error: Error| SinkError::unwritable(at.display().to_string(), &error);
        let Some(mut file) = open(&at, MissingPart::Leave)? else { return Ok(None) };
        let mut hash = Sha256::new();
        let bytes = hash_up_to(of.length, &mut file, &mut hash, &mut heard).map_err(failed)?;
        Ok(Some(Self { file, target, path: at, of, hash, hashed: bytes, bytes, gathered: Vec::new(), anew: None }))
    }

    /// Creates a part for `path`, in place of an earlier one. Blocks.
    ///
    /// # Errors
    /// Another transfer writes to it, or it cannot be written.
    pub fn create(path: &Path, of: ObjectIdentity) -> Result<Self, SinkError> {
        let target = canonical(path);
        let at = part(&target);
        let Some(file) = open(&at, MissingPart::Create)? else {
            return Err(SinkError::InUse { path: at.display().to_string() });
        };
        let (hash, gathered) = (Sha256::new(), Vec::new());
        let mut this = Self { file, target, path: at, of, hash, hashed: 0, bytes: 0, gathered, anew: None };
        this.restart(of)?;
        Ok(this)
    }

    /// Expects the object `by` from now on, or none. Its first data replaces the content; without data the
    /// content stays.
    pub const fn replace(&mut self, by: Option<ObjectIdentity>) {
        self.anew = by;
    }

    fn restart(&mut self, of: ObjectIdentity) -> Result<(), SinkError> {
        (self.of, self.hash, self.hashed, self.bytes) = (of, Sha256::new(), 0, 0);
        let note = PartNote { sha256: digest_text(&of.digest), bytes: of.length };
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        // The note has numbers and texts only, which always have a JSON form.
        let json = serde_json::to_vec(&note).unwrap_or_default();
        written.and_then(|()| write_note(&self.note_path(), &json)).map_err(|error| self.unwritable(&error))
    }

    pub const fn object(&self) -> ObjectIdentity {
        self.of
    }

    /// The length of the part so far, bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes + self.gathered.len() as u64
    }

    /// Tells the part that the caller has verified the digest, so that it is not hashed again.
    pub const fn mark_verified(&mut self) {
        self.hashed = u64::MAX;
    }

    /// Appends data. Blocks.
    ///
    /// # Errors
    /// It cannot be written, as when the disk is full, or the object is shorter; the earlier content stays.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        if let Some(of) = self.anew.take() {
            self.restart(of)?;
        }
        if self.bytes + bytes.len() as u64 > self.of.length {
            return Err(SinkError::Overlong { path: self.path.display().to_string(), length: self.of.length });
        }
        self.file.write_all(bytes).map_err(|error| self.unwritable(&error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Appends like [`Self::write`], in large blocks and off the runtime. If the call is dropped while it
    /// writes, `slot` stays empty and the file stays on disk.
    ///
    /// # Errors
    /// As for [`Self::write`], perhaps about earlier data.
    pub async fn add(slot: &mut Option<Self>, bytes: &[u8]) -> Result<(), SinkError> {
        let Some(part) = slot.as_mut() else { return Ok(()) };
        let fits = part.bytes() + bytes.len() as u64 <= part.of.length;
        if fits && part.anew.is_none() && part.gathered.len() + bytes.len() <= PIECE_BYTES {
            part.gathered.extend_from_slice(bytes);
            return Ok(());
        }
        let Some(mut part) = slot.take() else { return Ok(()) };
        let bytes = bytes.to_vec();
        let work = move || {
            let written = part.write_gathered().and_then(|()| part.write(&bytes));
            Ok((part, written))
        };
        let (part, written) = blocking(work).await?;
        *slot = Some(part);
        written
    }

    fn write_gathered(&mut self) -> Result<(), SinkError> {
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() { Ok(()) } else { self.write(&gathered) }
    }

    /// True if the file has the object's digest, or the caller has verified it.
    fn is_sound(&mut self) -> std::io::Result<bool> {
        if self.hashed > self.of.length {
            return Ok(true);
        }
        self.file.seek(SeekFrom::Start(self.hashed))?;
        hash_up_to(self.of.length - self.hashed, &mut self.file, &mut self.hash, &mut |_| {})?;
        Ok(<[u8; 32]>::from(std::mem::take(&mut self.hash).finalize()) == self.of.digest)
    }

    /// Ends the transfer. A whole part with the right digest is synced and renamed, one with another digest is
    /// removed, and an incomplete one is kept. Blocks.
    ///
    /// # Errors
    /// It is damaged, or the last steps failed.
    pub fn finish(self) -> Result<Finished, SinkError> {
        self.finish_as(|part, target| std::fs::rename(part, target).map(|()| target.to_owned()))
    }

    /// Ends the transfer like [`Self::finish`]. `name` moves the first path to the second, or to a name beside
    /// it, and returns the path.
    ///
    /// # Errors
    /// As for [`Self::finish`].
    pub fn finish_as(
        mut self,
        name: impl FnOnce(&Path, &Path) -> std::io::Result<PathBuf>,
    ) -> Result<Finished, SinkError> {
        self.write_gathered()?;
        let bytes = self.bytes;
        if bytes < self.of.length || self.anew.is_some() {
            return Ok(Finished::KeptPart { path: self.path.clone(), bytes });
        }
        if !self.is_sound().map_err(|error| self.unwritable(&error))? {
            self.discard();
            return Err(SinkError::Damaged { path: self.path.display().to_string() });
        }
        // An earlier part may be longer than the object.
        let named = self.file.set_len(bytes).and_then(|()| self.file.sync_all());
        let named = named.and_then(|()| name(&self.path, &self.target)).map_err(|error| self.unwritable(&error))?;
        let _ = std::fs::remove_file(self.note_path());
        sync_folder(&named);
        Ok(Finished::Written { bytes, path: Some(named) })
    }

    pub fn discard(&self) {
        // A file that cannot be removed stays; its name tells that it is a part.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.note_path());
    }

    fn note_path(&self) -> PathBuf {
        note_path_for(&self.target)
    }

    fn unwritable(&self, error: &Error) -> SinkError {
        SinkError::unwritable(self.path.display().to_string(), error)
    }
}

/// Hashes at most `most` bytes and returns the number read.
fn hash_up_to(most: u64, file: &mut File, hash: &mut Sha256, heard: &mut impl FnMut(u64)) -> std::io::Result<u64> {
    let (mut buffer, mut bytes) = (vec![0; HASH_BYTES], 0);
    while bytes < most {
        let next = usize::try_from(most - bytes).unwrap_or(HASH_BYTES).min(HASH_BYTES);
        let read = file.read(&mut buffer[..next])?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
        heard(read as u64);
    }
    Ok(bytes)
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // The next transfer continues from here; data that cannot be written is requested again.
        let _ = self.write_gathered();
    }
}

impl PartNote {
    fn read(path: &Path) -> Option<ObjectIdentity> {
        let mut json = Vec::new();
        let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(path).ok()?;
        file.take(MAX_NOTE_BYTES).read_to_end(&mut json).ok()?;
        let Self { sha256, bytes } = serde_json::from_slice(&json).ok()?;
        Some(ObjectIdentity { digest: parse_digest(&sha256)?, length: bytes })
    }
}

/// Resolves symbolic links, so that the file is replaced and the link stays.
fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn note_path_for(target: &Path) -> PathBuf {
    let mut name = part(target).into_os_string();
    name.push(".json");
    PathBuf::from(name)
}

/// Symbolic links are not followed: another user may have put one there.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

fn write_note(path: &Path, json: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(NO_FOLLOW).open(path)?.write_all(json)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingPart {
    Create,
    Leave,
}

/// Opens the file at `path` and locks it; `None` if there is none and none is created. Blocks.
fn open(path: &Path, missing: MissingPart) -> Result<Option<File>, SinkError> {
    let creates = missing == MissingPart::Create;
    for _ in 0..MAX_TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(creates).truncate(false).custom_flags(NO_FOLLOW);
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && !creates => return Ok(None),
            Err(error) => return Err(SinkError::unwritable(path.display().to_string(), &error)),
        };
        if claim(&file, path)? {
            return Ok(Some(file));
        }
    }
    Err(SinkError::InUse { path: path.display().to_string() })
}

/// Locks a file that was opened at `path`. Returns false if the path names another file by now: before the lock
/// was taken, another transfer may have renamed or removed the file.
fn claim(file: &File, path: &Path) -> Result<bool, SinkError> {
    let failed = |error: &Error| SinkError::unwritable(path.display().to_string(), error);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(SinkError::InUse { path: path.display().to_string() }),
        Err(TryLockError::Error(error)) => {
            return Err(failed(&Error::new(error.kind(), format!("its file system gives no lock ({error})"))));
        }
    }
    let held = file.metadata().map_err(|error| failed(&error))?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(test)]
mod tests;
