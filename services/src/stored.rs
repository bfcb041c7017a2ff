//! Files of any size that are sent from disk, chunk by chunk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::SourceError;
use crate::files::{self, blocking};

/// Bytes read at once to compute a digest.
const HASH_BYTES: usize = 256 * 1024;

const MAX_DIGESTS: usize = 16;

/// A file is settled if nobody changed it for this long. A younger one is checked once more after this time:
/// somebody may still be writing to it.
pub(crate) const SETTLED: Duration = Duration::from_millis(200);

/// The identity of a file on disk, and the marks of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl Stamp {
    fn from_file(file: &File) -> std::io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            length: found.len(),
            modified_ns: (found.mtime(), found.mtime_nsec()),
            changed_ns: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// A cache of the digests of the last files, so that a large file is not read through for every request. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests(Arc<Mutex<DigestCache>>);

#[derive(Debug, Default)]
struct DigestCache {
    /// The newest first, with those under way among them.
    answers: VecDeque<(Stamp, Answer)>,
    /// Serializes hashing: one file is read through at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A digest or the error, once it is known.
type Answer = watch::Receiver<Option<Result<[u8; 32], (ErrorKind, String)>>>;

impl Digests {
    /// Returns the digest of a file. Concurrent calls for the same file share one computation, and waiting
    /// blocks no thread.
    async fn get(&self, file: &Arc<File>, stamp: Stamp) -> std::io::Result<[u8; 32]> {
        let mut answer = self.ask(file, stamp);
        let answered = answer.wait_for(Option::is_some).await.map(|known| known.clone());
        match answered {
            Ok(Some(known)) => known.map_err(|(kind, reason)| Error::new(kind, reason)),
            Ok(None) | Err(_) => Err(unwanted()),
        }
    }

    /// Returns a channel that gets the file's digest. A digest that is neither known nor under way is started.
    fn ask(&self, file: &Arc<File>, stamp: Stamp) -> Answer {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.answers.retain(|(_, answer)| !has_failed(answer));
        if let Some((_, answer)) = known.answers.iter().find(|(of, _)| *of == stamp) {
            return answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        let (file, source, turn) = (Arc::clone(file), Arc::downgrade(&self.0), Arc::clone(&known.turn));
        // The computation goes on when its caller is gone: the next request is for the same file.
        tokio::spawn(async move {
            let _turn = turn.lock().await;
            let compute = move || hash(&file, stamp.length, || source.strong_count() > 0);
            let computed = tokio::task::spawn_blocking(compute).await.unwrap_or_else(|_| Err(unwanted()));
            tell.send_replace(Some(computed.map_err(|error| (error.kind(), error.to_string()))));
        });
        known.answers.truncate(MAX_DIGESTS - 1);
        known.answers.push_front((stamp, answer.clone()));
        answer
    }
}

/// True if the computation failed, so that the next call starts another.
fn has_failed(answer: &Answer) -> bool {
    match &*answer.borrow() {
        Some(known) => known.is_err(),
        None => answer.has_changed().is_err(),
    }
}

fn unwanted() -> Error {
    Error::new(ErrorKind::Interrupted, "the digest is no longer needed")
}

/// Hashes the first `length` bytes of a file; stops early when `is_wanted` says no.
fn hash(file: &File, length: u64, is_wanted: impl Fn() -> bool) -> std::io::Result<[u8; 32]> {
    let (mut hash, mut buffer, mut offset) = (Sha256::new(), vec![0; HASH_BYTES], 0);
    while offset < length {
        if !is_wanted() {
            return Err(unwanted());
        }
        let piece = &mut buffer[..(length - offset).min(HASH_BYTES as u64) as usize];
        file.read_exact_at(piece, offset)?;
        hash.update(&piece);
        offset += piece.len() as u64;
    }
    Ok(hash.finalize().into())
}

/// Returns the length and the SHA-256 of a file; calls `heard` with the length of each block read. Blocks.
///
/// # Errors
/// It is no regular file or cannot be read.
pub fn digest_of(path: &Path, mut heard: impl FnMut(u64)) -> Result<(u64, [u8; 32]), SourceError> {
    let mut file = files::open(path)?;
    let (mut hash, mut buffer, mut length) = (Sha256::new(), vec![0; HASH_BYTES], 0);
    loop {
        let read = file.read(&mut buffer).map_err(|error| SourceError::unreadable(path, &error))?;
        if read == 0 {
            return Ok((length, hash.finalize().into()));
        }
        hash.update(&buffer[..read]);
        length += read as u64;
        heard(read as u64);
    }
}

/// A file that must not change while it is read. It is held open, so that replacing it under its name does no
/// harm.
#[derive(Clone, Debug)]
pub struct StoredFile {
    file: Arc<File>,
    path: PathBuf,
    stamp: Stamp,
    digest: [u8; 32],
}

impl StoredFile {
    /// Opens a file that nobody is writing to, and gets its digest.
    pub(crate) async fn open(path: &Path, digests: &Digests) -> Result<Self, SourceError> {
        let before = blocking(path, opened).await?;
        if !before.2 {
            tokio::time::sleep(SETTLED).await;
        }
        let (file, stamp, _) = blocking(path, opened).await?;
        if stamp != before.1 {
            return Err(changed(path));
        }
        let file = Arc::new(file);
        let digest = digests.get(&file, stamp).await.map_err(|error| SourceError::unreadable(path, &error))?;
        let stored = Self { file, path: path.to_owned(), stamp, digest };
        blocking(path, move |_| stored.check().map(|()| stored)).await
    }

    /// Opens a file of known length and digest.
    ///
    /// # Errors
    /// It cannot be read, or has another length.
    pub async fn known(path: &Path, length: u64, digest: [u8; 32]) -> Result<Self, SourceError> {
        blocking(path, move |path| {
            let (file, stamp, _) = opened(path)?;
            if stamp.length != length {
                return Err(changed(path));
            }
            Ok(Self { file: Arc::new(file), path: path.to_owned(), stamp, digest })
        })
        .await
    }

    pub const fn length(&self) -> u64 {
        self.stamp.length
    }

    pub const fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Reads `length` bytes from `offset` on.
    ///
    /// # Errors
    /// They cannot be read, or the file has changed.
    pub async fn read(&self, offset: u64, length: u64) -> Result<Bytes, SourceError> {
        let this = self.clone();
        let read = move |path: &Path| {
            let length = length.min(this.stamp.length.saturating_sub(offset));
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            match this.file.read_exact_at(&mut bytes, offset) {
                Ok(()) => this.check().map(|()| bytes.into()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(changed(path)),
                Err(error) => Err(SourceError::unreadable(path, &error)),
            }
        };
        blocking(&self.path, read).await
    }

    /// Fails if the file has changed since it was opened. Blocks.
    fn check(&self) -> Result<(), SourceError> {
        let now = Stamp::from_file(&self.file).map_err(|error| SourceError::unreadable(&self.path, &error))?;
        // Adding or removing a hard link alters the change time but not the content.
        let same = Stamp { changed_ns: self.stamp.changed_ns, ..now } == self.stamp;
        if same { Ok(()) } else { Err(changed(&self.path)) }
    }
}

/// Opens a regular file; returns its stamp and true if nobody changed it for [`SETTLED`].
pub(crate) fn opened(path: &Path) -> Result<(File, Stamp, bool), SourceError> {
    let unreadable = |error: Error| SourceError::unreadable(path, &error);
    let file = files::open(path)?;
    let stamp = Stamp::from_file(&file).map_err(unreadable)?;
    let age = file.metadata().and_then(|found| found.modified()).map_err(unreadable)?.elapsed();
    // After a clock was set back, files have times in the future. They count as settled.
    let settled = age.map_or(true, |age| age >= SETTLED);
    Ok((file, stamp, settled))
}

fn changed(path: &Path) -> SourceError {
    SourceError::Changed { path: path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::SystemTime;

    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("survey.tif");
        std::fs::write(&path, bytes).unwrap();
        let old = SystemTime::now() - Duration::from_secs(10);
        File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
        (folder, path)
    }

    #[tokio::test]
    async fn digest_covers_whole_file() {
        let content: Vec<u8> = (0..600_000_u32).map(|n| (n % 251) as u8).collect();
        let (_folder, path) = file(&content);
        let digests = Digests::default();
        let stored = StoredFile::open(&path, &digests).await.unwrap();
        let expected = roost_wire::object::digest(&content.clone().into());
        assert_eq!((stored.length(), stored.digest()), (600_000, expected));
        assert_eq!(stored.read(599_990, 100).await.unwrap(), content[599_990..]);
        assert_eq!(digests.0.lock().unwrap().answers.len(), 1);
        let mut heard = 0;
        assert_eq!(digest_of(&path, |bytes| heard += bytes).unwrap(), (600_000, expected));
        assert_eq!(heard, 600_000);
    }

    #[tokio::test]
    async fn changed_file_fails_replaced_file_continues() {
        let (folder, path) = file(&[1; 1000]);
        let digests = Digests::default();
        let stored = StoredFile::open(&path, &digests).await.unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, [2; 1000]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(stored.read(0, 3).await.unwrap(), [1, 1, 1][..], "what was opened is still there");
        let stored = StoredFile::open(&path, &digests).await.unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"more").unwrap();
        let error = stored.read(0, 3).await.unwrap_err();
        assert!(matches!(error, SourceError::Changed { .. }), "{error}");
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert!(matches!(stored.read(500, 3).await, Err(SourceError::Changed { .. })));
    }

    #[test]
    fn waiting_for_digest_blocks_no_thread() {
        let (_folder, path) = file(&[1; 1000]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let (digests, other) = (Digests::default(), Digests::default());
            let stored = StoredFile::open(&path, &other).await.unwrap();
            let turn = Arc::clone(&digests.0.lock().unwrap().turn);
            let before = turn.lock().await;
            let open = || {
                let (path, digests) = (path.clone(), digests.clone());
                tokio::spawn(async move { StoredFile::open(&path, &digests).await.map(|stored| stored.digest()) })
            };
            let waiting: Vec<_> = (0..20).map(|_| open()).collect();
            for _ in 0..100 {
                assert_eq!(stored.read(0, 1).await.unwrap(), [1][..]);
            }
            // Five of the waiting callers give up; the others still get the digest.
            waiting.iter().take(5).for_each(tokio::task::JoinHandle::abort);
            drop(before);
            for waiting in waiting.into_iter().skip(5) {
                assert_eq!(waiting.await.unwrap().unwrap(), stored.digest());
            }
            assert_eq!(digests.0.lock().unwrap().answers.len(), 1, "computed once");
        });
    }

    #[test]
    fn unwanted_digest_is_cancelled() {
        let (_folder, path) = file(&[1; 1000]);
        let file = File::open(path).unwrap();
        assert_eq!(hash(&file, 1000, || false).unwrap_err().kind(), ErrorKind::Interrupted);
    }
}
