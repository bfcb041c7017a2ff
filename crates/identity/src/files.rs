//! Reads and writes a group's files. Reads are bounded, secrets are private to their owner, and no file is overwritten
//! by accident.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustls_pki_types::pem::PemObject;

use crate::error::LoadError;

/// The largest file with a certificate or a key, in bytes.
pub(crate) const MAX_PEM_BYTES: u64 = 64 * 1024;
/// The largest revocation list file, in bytes. It has room for [`crate::revocation::MAX_REVOKED`] entries.
pub(crate) const MAX_LIST_BYTES: u64 = 4 * 1024 * 1024;

/// The files of a group directory and of a bundle, without their directory.
pub(crate) const GROUP_CERTIFICATE: &str = "group.pem";
pub(crate) const GROUP_KEY: &str = "group.key";
pub(crate) const GROUP_INDEX: &str = "issued.tsv";
pub(crate) const LEAF_CERTIFICATE: &str = "identity.pem";
pub(crate) const LEAF_KEY: &str = "identity.key";
pub(crate) const MULTICAST_KEY: &str = "multicast.key";
pub(crate) const REVOCATION_LIST: &str = "revoked.pem";

const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Reads the file at `path`, which must hold exactly one PEM section of type `T`.
pub(crate) fn read_pem<T: PemObject>(path: &Path, limit: u64, expected: &'static str) -> Result<T, LoadError> {
    let file = File::open(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    parse_pem(file, path, limit, expected)
}

/// Like [`read_pem`], and refuses a key that others than its owner can read or write. It checks the open file, so that
/// nobody can exchange the file after the check.
pub(crate) fn read_key<T: PemObject>(path: &Path) -> Result<T, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(LoadError::KeyExposed { path: path.to_owned(), mode });
    }
    parse_pem(file, path, MAX_PEM_BYTES, "private key")
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
    file.write_all(content)?;
    file.sync_all()
}

/// Replaces a file's content in one step. A reader sees the old content or the new, even if the host fails in between.
pub(crate) fn replace_public(path: &Path, content: &str) -> io::Result<()> {
    replace_bytes(path, content.as_bytes())
}

/// Like [`replace_public`], for content that is no text.
pub(crate) fn replace_bytes(path: &Path, content: &[u8]) -> io::Result<()> {
    let next = path.with_extension("next");
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create(&next, content, PUBLIC)?;
    fs::rename(&next, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
