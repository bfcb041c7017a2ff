//! The folders of an identity and of the one that is to take its place.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid, chownat, fchown, open, renameat_with};
use rustix::io::Errno;

use super::{DOCUMENTS, EnrolmentError};
use crate::files::{LEAF_KEY, sync_parent};

/// The user and the group to whom a new identity belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub user: u32,
    pub group: u32,
}

pub(super) fn staging(dir: &Path) -> Result<PathBuf, EnrolmentError> {
    let unnamed = || io::Error::new(io::ErrorKind::InvalidInput, "the folder has no name");
    let failed = |source| EnrolmentError::Write { path: dir.to_owned(), source };
    let mut name = dir.file_name().ok_or_else(|| failed(unnamed()))?.to_owned();
    name.push(".joining");
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    Ok(dir.with_file_name(name))
}

/// True if `dir` does not exist, or is an empty folder.
pub(super) fn is_vacant(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

pub(super) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The owner of a folder that is there and not this process's user's.
pub(super) fn owner_of(dir: &Path) -> Option<Owner> {
    let found = fs::metadata(dir).ok()?;
    (found.uid() != rustix::process::geteuid().as_raw()).then(|| Owner { user: found.uid(), group: found.gid() })
}

/// Opens a folder that this process's user owns, and no link to one.
pub(super) fn open_own(dir: &Path) -> Result<File, EnrolmentError> {
    let failed = |source| EnrolmentError::Write { path: dir.to_owned(), source };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(dir, flags, Mode::empty()).map(File::from).map_err(|error| failed(error.into()))?;
    let is_own = folder.metadata().map_err(failed)?.uid() == rustix::process::geteuid().as_raw();
    if is_own { Ok(folder) } else { Err(EnrolmentError::Foreign { path: dir.to_owned() }) }
}

/// Gives the identity away by the open folder: the owner of the folder around could exchange what a path names.
pub(super) fn give(dir: &Path, owner: Owner) -> Result<(), EnrolmentError> {
    let folder = open_own(dir)?;
    let (user, group) = (Some(Uid::from_raw(owner.user)), Some(Gid::from_raw(owner.group)));
    for file in DOCUMENTS.into_iter().chain([LEAF_KEY]) {
        match chownat(&folder, file, user, group, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return write(&dir.join(file), |_| Err(error.into())),
        }
    }
    write(dir, |_| Ok(fchown(&folder, user, group)?))
}

pub(super) fn write(path: &Path, action: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), EnrolmentError> {
    action(path).map_err(|source| EnrolmentError::Write { path: path.to_owned(), source })
}

/// Exchanges two folders in one step. All files that the new one does not have are taken over, with their owners.
pub(super) fn exchange(old: &Path, new: &Path) -> io::Result<()> {
    for entry in fs::read_dir(old)? {
        let from = entry?.path();
        let Some(to) = from.file_name().map(|name| new.join(name)) else { continue };
        if from.is_file() && !to.exists() {
            fs::copy(&from, &to)?;
            if rustix::process::geteuid().is_root() {
                let found = fs::metadata(&from)?;
                chown(&to, Some(found.uid()), Some(found.gid()))?;
            }
        }
    }
    renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE)?;
    sync_parent(old)
}

pub(super) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
