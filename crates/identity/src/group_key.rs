//! The secret that the nodes of a group share, for messages that go to all of them.
//!
//! The secret proves that a message comes from some node of the group, not from which one, and a revoked node still has it. So
//! a multicast message only leads to dials, where certificates decide. Super nodes keep the stream keys that it seals;
//! they cannot open these, and give them only to the nodes that they admit.
//!
//! The secret stays the same for the life of the group. To replace it, remove `multicast.key` from the group's
//! directory, issue any bundle, which makes a new one, and give all nodes new bundles.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aws_lc_rs::rand;

use crate::error::LoadError;
use crate::files::create_private;

/// The length of a [`GroupKey`], in bytes.
pub const KEY_BYTES: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey([u8; KEY_BYTES]);

impl GroupKey {
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Makes a key of given bytes, for tests.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key in `path`; `None` if there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, LoadError> {
        let failed = |source| LoadError::Read { path: path.to_owned(), source };
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(LoadError::KeyExposed { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(4 * KEY_BYTES as u64).read_to_string(&mut text).map_err(failed)?;
        let key = parse(text.trim()).ok_or_else(|| LoadError::NotHex { path: path.to_owned(), bytes: KEY_BYTES })?;
        Ok(Some(key))
    }

    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        rand::fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(Self(bytes))
    }

    pub(crate) fn text(&self) -> String {
        hex(&self.0)
    }

    pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
        create_private(to, &fs::read_to_string(from)?)
    }
}

impl fmt::Debug for GroupKey {
    /// Leaves out the key, so that it never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey")
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push('\n');
    text
}

fn parse(text: &str) -> Option<GroupKey> {
    let mut bytes = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(GroupKey(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_key_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("multicast.key");
        assert_eq!(GroupKey::read(&path).unwrap(), None);
        let made = GroupKey::random().unwrap();
        create_private(&path, &made.text()).unwrap();
        assert_eq!(GroupKey::read(&path).unwrap(), Some(made.clone()));
        assert!(!format!("{made:?}").contains(&hex(made.bytes())[..8]));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(GroupKey::read(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32), &"0".repeat(66)] {
            let path = dir.path().join("k");
            create_private(&path, text).unwrap();
            assert!(GroupKey::read(&path).is_err(), "{text}");
            fs::remove_file(&path).unwrap();
        }
    }
}
