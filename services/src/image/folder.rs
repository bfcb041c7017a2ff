//! Pictures from a folder: the newest, or one after the other.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::{give, jpeg};
use crate::files::blocking;
use crate::stored::Digests;
use crate::{OpenedSource, SourceError, StoredFile, format};

/// The most entries of a folder that are read.
const MAX_ENTRIES: usize = 100_000;

/// The most pictures tried before giving up: more than this are not being written at once.
const MAX_TRIES: usize = 32;

/// Bytes read from a picture's beginning to tell its format.
const HEAD_BYTES: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The picture with the latest change.
    Newest,
    /// The picture whose name follows that of the last one given.
    Next,
}

/// The name of the last picture given; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor(Arc<Mutex<Option<OsString>>>);

impl Cursor {
    fn get(&self) -> Option<OsString> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, name: OsString) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
    }
}

struct Entry {
    name: OsString,
    changed: SystemTime,
}

pub(super) async fn open(
    folder: &Path,
    pick: Pick,
    cursor: &Cursor,
    digests: &Digests,
) -> Result<OpenedSource, SourceError> {
    let listed = blocking(folder, list).await?;
    for name in order(listed, pick, cursor.get()).into_iter().take(MAX_TRIES) {
        if let Some(opened) = picture(&folder.join(&name), digests).await {
            cursor.set(name);
            return Ok(opened);
        }
    }
    Err(SourceError::NoPicture { path: folder.display().to_string() })
}

/// Returns the names in the order in which to try them.
fn order(mut entries: Vec<Entry>, pick: Pick, last: Option<OsString>) -> Vec<OsString> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    match pick {
        Pick::Newest => entries.sort_by_key(|entry| std::cmp::Reverse(entry.changed)),
        Pick::Next => {
            let start = last.map_or(0, |last| entries.partition_point(|entry| entry.name <= last));
            entries.rotate_left(start);
        }
    }
    entries.into_iter().map(|entry| entry.name).collect()
}

fn list(folder: &Path) -> Result<Vec<Entry>, SourceError> {
    let unreadable = |error: std::io::Error| SourceError::unreadable(folder, &error);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)?.take(MAX_ENTRIES) {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !["jpg", "jpeg"].contains(&extension.to_ascii_lowercase().as_str()) {
            continue;
        }
        // The file may be gone by now. Symbolic links are followed.
        let Ok(found) = std::fs::metadata(&path) else { continue };
        if found.is_file() {
            entries
                .push(Entry { name: entry.file_name(), changed: found.modified().unwrap_or(SystemTime::UNIX_EPOCH) });
        }
    }
    Ok(entries)
}

/// Opens the picture if it is a whole JPEG that nobody is writing to.
async fn picture(path: &Path, digests: &Digests) -> Option<OpenedSource> {
    let whole = async {
        let file = StoredFile::open(path, digests).await?;
        let tail = file.length().saturating_sub(HEAD_BYTES).min(jpeg::TAIL_BYTES);
        let ends = [file.read(0, HEAD_BYTES).await?, file.read(file.length() - tail, tail).await?];
        if !jpeg::is_complete(&ends.concat()) {
            return Ok(None);
        }
        give(file, format::JPEG).await.map(Some)
    };
    whole.await.inspect_err(|error: &SourceError| tracing::warn!(%error, "picture passed over")).ok()?
}
