//! The file of invitations, and its copy in memory: the authority looks at it each second for each device that waits.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::invitations::Invitations;
use super::{GroupError, write};
use crate::error::LoadError;
use crate::files::{INVITATIONS, MAX_INVITATIONS_BYTES, read_private_text, replace_private};

pub(super) struct InvitationFile {
    path: PathBuf,
    copy: Mutex<Option<(FileVersion, Arc<Invitations>)>>,
}

/// The marks of a file that change with its content, its owner and its rights.
#[derive(PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    length: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl InvitationFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join(INVITATIONS), copy: Mutex::default() }
    }

    /// The invitations in the file, which other processes replace.
    pub(super) fn read(&self) -> Result<Arc<Invitations>, GroupError> {
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that is replaced after this look is read again the next time.
        let version = self.version();
        if let Some((known, invitations)) = copy.as_ref()
            && Some(known) == version.as_ref()
        {
            return Ok(Arc::clone(invitations));
        }
        let invitations = Arc::new(self.parse()?);
        *copy = version.map(|version| (version, Arc::clone(&invitations)));
        Ok(invitations)
    }

    pub(super) fn replace(&self, invitations: &Invitations) -> Result<(), GroupError> {
        let text = serde_json::to_string_pretty(invitations).map_err(|error| self.unusable(error))?;
        write(&self.path, |path| replace_private(path, &text))
    }

    fn version(&self) -> Option<FileVersion> {
        let found = fs::metadata(&self.path).ok()?;
        let (changed_s, changed_ns) = (found.ctime(), found.ctime_nsec());
        Some(FileVersion { inode: found.ino(), length: found.len(), changed_s, changed_ns })
    }

    fn parse(&self) -> Result<Invitations, GroupError> {
        match read_private_text(&self.path, MAX_INVITATIONS_BYTES) {
            Err(LoadError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Invitations::default())
            }
            read => serde_json::from_str(&read?).map_err(|error| self.unusable(error)),
        }
    }

    fn unusable(&self, error: serde_json::Error) -> GroupError {
        GroupError::Invitations { path: self.path.clone(), source: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_parsed_once_for_each_change() {
        let dir = tempfile::tempdir().unwrap();
        let [ours, other] = [(); 2].map(|()| InvitationFile::new(dir.path()));
        ours.read().unwrap();
        other.replace(&Invitations::default()).unwrap();
        let first = ours.read().unwrap();
        assert!(Arc::ptr_eq(&first, &ours.read().unwrap()));
        other.replace(&Invitations::default()).unwrap();
        assert!(!Arc::ptr_eq(&first, &ours.read().unwrap()), "another process has replaced it");
    }
}
