//! Roost's further programs, which are installed in the folder of this one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::RunError;
use super::plan::Architecture;

/// The running program, even if its file has been replaced.
const OWN: &str = "/proc/self/exe";

#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Finds the programs in this program's folder.
    pub fn beside_this() -> Result<Self, RunError> {
        let own = std::env::current_exe();
        let own = own.map_err(|error| RunError::Failed(format!("cannot tell where I am: {error}")))?;
        Ok(Self { folder: own.parent().unwrap_or(Path::new("/")).to_owned() })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, name: &str) -> Result<PathBuf, RunError> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(RunError::Missing(format!(
            "{name} is not in {}, where this program is: install it there, or build all of them with `cargo build --bins`",
            self.folder.display()
        )))
    }
}

/// The SHA-256 of every program that takes part in a run of this architecture, this one included, by name:
/// programs of one version may still differ.
///
/// # Errors
/// Fails when a program is missing.
pub fn hashes(architecture: Architecture) -> Result<BTreeMap<String, String>, RunError> {
    if !architecture.has_daemons() {
        return own_hash();
    }
    let binaries = Binaries::beside_this()?;
    let mut paths = vec![("emulate", OWN.into())];
    for name in ["roost", "overlay-node", architecture.hub_program()] {
        paths.push((name, binaries.path(name)?));
    }
    // In parallel: debug builds are large, and slow at hashing.
    std::thread::scope(|scope| {
        let threads: Vec<_> = paths.iter().map(|(name, path)| (*name, scope.spawn(move || hash(path)))).collect();
        let hashes = threads.into_iter().map(|(name, thread)| {
            let hash = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((name.to_owned(), hash))
        });
        hashes.collect()
    })
}

/// The SHA-256 of this program.
///
/// # Errors
/// Fails when it cannot be read.
pub fn own_digest() -> Result<String, RunError> {
    hash(Path::new(OWN))
}

/// The SHA-256 of this program alone, by name.
pub(super) fn own_hash() -> Result<BTreeMap<String, String>, RunError> {
    Ok(BTreeMap::from([("emulate".to_owned(), hash(Path::new(OWN))?)]))
}

fn hash(path: &Path) -> Result<String, RunError> {
    let failed = |error| RunError::file("read", path, &error);
    let mut hasher = Sha256::new();
    std::io::copy(&mut File::open(path).map_err(failed)?, &mut hasher).map_err(failed)?;
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_file_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(file.path()).unwrap(), expected);
    }
}
