//! Reads and writes a group's files. Reads are bounded, secrets are private to their owner, and no file is overwritten
//! by accident.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustls_pki_types::pem::PemObject;

use crate::error::LoadError;

/// The largest file with a certificate or a key, in bytes.
pub(crate) const MAX_PEM_BYTES: u64 = 64 * 1024;
/// The largest revocation list file, in bytes. It has room for [`crate::revocation::MAX_REVOKED`] entries.
pub(crate) const MAX_LIST_BYTES: u64 = 4 * 1024 * 1024;

/// The largest file with invitations, in bytes: all invitations with all their uses, of 1 KB each.
pub(crate) const MAX_INVITATIONS_BYTES: u64 = 128 * 1024 * 1024;

/// The files of a group directory and of a bundle, without their directory.
pub(crate) const GROUP_CERTIFICATE: &str = "group.pem";
pub(crate) const GROUP_KEY: &str = "group.key";
pub(crate) const GROUP_INDEX: &str = "issued.tsv";
pub(crate) const INVITATIONS: &str = "invitations.json";
pub(crate) const HUBS: &str = "hubs";
pub(crate) const AUDIT_LOG: &str = "audit.log";
pub(crate) const AUTHORITY_ADDRESS: &str = "authority";
pub(crate) const LEAF_CERTIFICATE: &str = "identity.pem";
pub(crate) const LEAF_KEY: &str = "identity.key";
pub(crate) const MULTICAST_KEY: &str = "multicast.key";
pub(crate) const REVOCATION_LIST: &str = "revoked.pem";
pub(crate) const TRUST: &str = "trust.cbor";
/// The next authority of a group, until the change is finished.
pub(crate) const NEXT_CERTIFICATE: &str = "next.pem";
pub(crate) const NEXT_KEY: &str = "next.key";
pub(crate) const POLICY: &str = "policy.cbor";

/// The largest signed policy, bytes: its text has at most 60 KiB.
pub(crate) const MAX_POLICY_FILE_BYTES: u64 = 64 * 1024;

const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Reads the file at `path`, which must hold exactly one PEM section of type `T`.
pub(crate) fn read_pem<T: PemObject>(path: &Path, limit: u64, expected: &'static str) -> Result<T, LoadError> {
    let file = File::open(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    parse_pem(file, path, limit, expected)
}

/// Like [`read_pem`], and refuses a key that others than its owner can read or write.
pub(crate) fn read_key<T: PemObject>(path: &Path) -> Result<T, LoadError> {
    parse_pem(open_private(path)?, path, MAX_PEM_BYTES, "private key")
}

/// The content of a file; `None` if it does not exist.
pub(crate) fn read_optional(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, LoadError> {
    let mut content = Vec::new();
    match File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut content)) {
        Ok(_) if content.len() as u64 > limit => Err(LoadError::TooLarge { path: path.to_owned(), limit }),
        Ok(_) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Read { path: path.to_owned(), source }),
    }
}

/// The text of a file that only its owner may read or write.
pub(crate) fn read_private_text(path: &Path, limit: u64) -> Result<String, LoadError> {
    let mut text = String::new();
    let read = open_private(path)?.take(limit + 1).read_to_string(&mut text);
    read.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    if text.len() as u64 > limit { Err(LoadError::TooLarge { path: path.to_owned(), limit }) } else { Ok(text) }
}

/// Checks the open file, so that nobody can exchange the file after the check.
fn open_private(path: &Path) -> Result<File, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(LoadError::KeyExposed { path: path.to_owned(), mode });
    }
    Ok(file)
}

/// The lines of a file that an operator may have written; none if it does not exist.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<String>, LoadError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_PEM_BYTES).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(LoadError::Read { path: path.to_owned(), source }),
        Ok(_) => Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()),
    }
}

fn parse_pem<T: PemObject>(file: File, path: &Path, limit: u64, expected: &'static str) -> Result<T, LoadError> {
    let mut text = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut text);
    read.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    if text.len() as u64 > limit {
        return Err(LoadError::TooLarge { path: path.to_owned(), limit });
    }
    let mut sections = T::pem_slice_iter(&text);
    match (sections.next(), sections.next()) {
        (Some(Ok(section)), None) => Ok(section),
        _ => Err(LoadError::NotPem { path: path.to_owned(), expected }),
    }
}

/// Makes a directory that only its owner can enter. An empty one that exists already is reused.
pub(crate) fn make_private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::read_dir(path)?.next().is_some() {
                return Err(io::Error::new(error.kind(), "it exists and is not empty"));
            }
            fs::set_permissions(path, Permissions::from_mode(0o700))
        }
        done => done,
    }
}

/// Writes a new file that only its owner can read. An existing file is an error.
pub(crate) fn create_private(path: &Path, content: &str) -> io::Result<()> {
    create(path, content.as_bytes(), PRIVATE)
}

/// Writes a new file that everybody can read. An existing file is an error.
pub(crate) fn create_public(path: &Path, content: &str) -> io::Result<()> {
    create(path, content.as_bytes(), PUBLIC)
}

fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    if rustix::process::geteuid().is_root() {
        // Root may invite and approve beside an authority that runs as another user and has to read the file.
        let folder = fs::metadata(parent(path))?;
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// Replaces a file's content in one step. A reader sees the old content or the new, even if the host fails in between.
pub(crate) fn replace_public(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace(path, content.as_ref(), PUBLIC)
}

/// Like [`replace_public`], for a file that only its owner can read.
pub(crate) fn replace_private(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace(path, content.as_ref(), PRIVATE)
}

/// Several daemons of a host share a folder, so each writer has a file of its own until the end.
fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut next = path.as_os_str().to_owned();
    next.push(format!(".next-{}-{write}", std::process::id()));
    let next = PathBuf::from(next);
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create(&next, content, mode)
        .and_then(|()| fs::rename(&next, path))
        .inspect_err(|_| drop(fs::remove_file(&next)))?;
    sync_parent(path)
}

/// Writes the entries of the folder around `path` to the disk.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// The folder around `path`, which may be relative and a bare name.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    /// Only root can give files away.
    #[test]
    fn roots_files_belong_to_folders_owner() {
        let dir = tempfile::tempdir().unwrap();
        if chown(dir.path(), Some(65534), Some(65534)).is_err() {
            return;
        }
        let path = dir.path().join("invitations.json");
        for _ in 0..2 {
            replace_private(&path, "{}").unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (65534, 65534, 0o600));
        }
    }

    #[test]
    fn writers_of_one_file_all_succeed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|turn| replace_public(&path, turn.to_string()).unwrap()));
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
