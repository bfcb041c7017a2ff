//! A draft file, which gets its final name when it is complete.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};

use super::{Finished, TransferEnd};
use crate::SinkError;

/// Bytes gathered before a write: each write is a task on another thread.
const PIECE_BYTES: usize = 256 << 10;

/// The longest time that gathered bytes wait, so that somebody who looks at the file sees a slow stream grow.
const PIECE_TIME: Duration = Duration::from_secs(1);

/// A file under a hidden name that no other transfer uses, in the folder of the final one.
#[derive(Debug)]
pub(super) struct Draft {
    file: Option<BufWriter<File>>,
    /// The time of the last write; `None` before the first.
    written: Option<Instant>,
    draft: PathBuf,
    target: PathBuf,
    /// True if an incomplete file is worth keeping, as `TARGET.part`.
    keep_part: bool,
    /// True once the draft was renamed or removed.
    settled: bool,
}

impl Draft {
    pub(super) async fn create(path: &Path, keep_part: bool) -> Result<Self, SinkError> {
        // A symbolic link is kept: the file it points to is replaced.
        let target = tokio::fs::canonicalize(path).await.unwrap_or_else(|_| path.to_owned());
        let draft = hidden(&target);
        let file = tokio::fs::OpenOptions::new().write(true).create_new(true).open(&draft).await;
        let file = file.map_err(|error| SinkError::unwritable(path.display().to_string(), &error))?;
        let file = Some(BufWriter::with_capacity(PIECE_BYTES, file));
        Ok(Self { file, written: None, draft, target, keep_part, settled: false })
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let result = file.write_all(bytes).await;
        result.map_err(|error| self.unwritable(&error))?;
        self.flush_if_due().await
    }

    /// Writes the gathered bytes once they have waited for [`PIECE_TIME`].
    pub(super) async fn flush_if_due(&mut self) -> Result<(), SinkError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.buffer().is_empty() || self.written.is_some_and(|written| written.elapsed() < PIECE_TIME) {
            return Ok(());
        }
        self.written = Some(Instant::now());
        let result = file.flush().await;
        result.map_err(|error| self.unwritable(&error))
    }

    /// Describes a failed write by the path that the user finds in the end: the part or the target.
    fn unwritable(&self, error: &std::io::Error) -> SinkError {
        let name = if self.keep_part { part(&self.target) } else { self.target.clone() };
        SinkError::unwritable(name.display().to_string(), error)
    }

    /// Syncs the draft to disk and gives it its final name, if it is complete.
    pub(super) async fn finish(mut self, end: TransferEnd, bytes: u64) -> Result<Finished, SinkError> {
        let Some(mut file) = self.file.take() else { return Ok(Finished::Discarded) };
        let unwritable = |path: &Path, error: std::io::Error| SinkError::unwritable(path.display().to_string(), &error);
        if self.keep_part && bytes == 0 {
            // A stream without data must not replace an earlier file.
            self.keep_part = false;
            return Ok(Finished::Discarded);
        }
        if end == TransferEnd::BrokenOff && !self.keep_part {
            return Ok(Finished::Discarded); // dropping it removes it
        }
        file.flush().await.map_err(|error| self.unwritable(&error))?;
        if end == TransferEnd::BrokenOff {
            let path = part(&self.target);
            tokio::fs::rename(&self.draft, &path).await.map_err(|error| unwritable(&path, error))?;
            self.settled = true;
            return Ok(Finished::KeptPart { path, bytes });
        }
        file.get_ref().sync_all().await.map_err(|error| self.unwritable(&error))?;
        tokio::fs::rename(&self.draft, &self.target).await.map_err(|error| unwritable(&self.target, error))?;
        self.settled = true;
        if self.keep_part {
            // The part of an earlier attempt is obsolete now.
            let _ = tokio::fs::remove_file(part(&self.target)).await;
        }
        let target = self.target.clone();
        let _ = tokio::task::spawn_blocking(move || sync_folder(&target)).await;
        Ok(Finished::Written { bytes, path: Some(self.target.clone()) })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // An empty part is worthless and must not replace an earlier one.
        let is_worth = self.keep_part && std::fs::metadata(&self.draft).is_ok_and(|found| found.len() > 0);
        // A file that can be neither moved nor removed stays; its name tells that it is a part.
        let _ = match (self.settled, is_worth) {
            (true, _) => Ok(()),
            (false, true) => std::fs::rename(&self.draft, part(&self.target)),
            (false, false) => std::fs::remove_file(&self.draft),
        };
    }
}

/// Makes the new name survive a power cut. Some file systems cannot, and the content is on disk already, so a
/// failure is ignored.
pub(super) fn sync_folder(target: &Path) {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = std::fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// `NAME.part`, the name under which the last broken transfer is kept.
pub(super) fn part(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn hidden(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn disk_full_error_names_target() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.ts");
        for (keep_part, name) in [(true, "clip.ts.part"), (false, "clip.ts")] {
            let draft = Draft::create(&path, keep_part).await.unwrap();
            let full = draft.unwritable(&std::io::ErrorKind::StorageFull.into());
            assert!(matches!(&full, SinkError::Full { path } if Path::new(path).ends_with(name)), "{full}");
        }
    }
}
