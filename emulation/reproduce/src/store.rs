//! Stored results of runs, one small file each, from which the same command resumes.
//!
//! ```text
//! DIR/runs/STUDY/POINT/plan.toml      repeated by `emulate simulate` with --seed
//! DIR/runs/STUDY/POINT/seed-1.json    the results
//! ```
//!
//! A file is written beside its place and moved there, so that none is partial. It names the inputs of the run;
//! a run with other inputs is repeated.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::measures::Measures;

const SCHEMA: u32 = 1;
/// The largest file that is read, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// The digest of the programs that make runs now.
    programs: String,
    /// True if runs of other programs count as well.
    any_programs: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    pub(super) schema: u32,
    /// A digest of the run's plan, network and seed.
    pub made_of: String,
    /// SHA-256 of the programs that made it.
    pub programs: String,
    /// The SHA-256 of the daemons that it ran, if it did.
    #[serde(default)]
    pub(super) daemons: String,
    /// True if its figures can be trusted.
    pub valid: bool,
    pub reasons: Vec<String>,
    /// The fingerprint of all packets and messages, for a run in virtual time.
    pub trace_hash: Option<String>,
    /// Parts that this machine could not measure.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// True if it has records in a folder beside this file.
    #[serde(default)]
    pub(super) has_records: bool,
    pub measures: Measures,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}", path.display())]
pub struct StoreError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl StoredRun {
    pub(super) fn new(made_of: String, measures: Measures) -> Self {
        Self {
            schema: SCHEMA,
            made_of,
            programs: String::new(),
            daemons: String::new(),
            valid: true,
            reasons: Vec::new(),
            trace_hash: None,
            lacks: Vec::new(),
            has_records: false,
            measures,
        }
    }

    /// Marks it as not trusted if there are reasons.
    pub(super) fn doubted(self, reasons: Vec<String>) -> Self {
        Self { valid: reasons.is_empty(), reasons, ..self }
    }

    /// True if it can be trusted and is complete.
    pub(super) fn is_whole(&self) -> bool {
        self.valid && self.lacks.is_empty()
    }
}

impl Store {
    /// A store below `folder` for runs of programs with this digest; with `any_programs` runs of others count
    /// too.
    pub fn new(folder: &Path, programs: &str, any_programs: bool) -> Self {
        Self { folder: folder.to_owned(), programs: programs.to_owned(), any_programs }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a point, relative to the store's.
    pub fn point(study: &str, point: &str) -> PathBuf {
        Path::new("runs").join(study).join(point)
    }

    fn file(&self, study: &str, point: &str, seed: u64) -> PathBuf {
        self.folder.join(Self::point(study, point)).join(format!("seed-{seed}.json"))
    }

    /// The run, if it is stored with the same inputs and daemons.
    pub fn find(&self, study: &str, point: &str, seed: u64, (made_of, daemons): (&str, &str)) -> Option<StoredRun> {
        let path = self.file(study, point, seed);
        let is_small = fs::metadata(&path).is_ok_and(|about| about.len() <= MAX_FILE_BYTES);
        let kept: StoredRun = serde_json::from_slice(&is_small.then(|| fs::read(&path).ok()).flatten()?).ok()?;
        let is_of_these = self.any_programs || kept.programs == self.programs && kept.daemons == daemons;
        (kept.schema == SCHEMA && kept.made_of == made_of && is_of_these).then_some(kept)
    }

    /// Stores a run; returns it with the programs' digest in it.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn keep(&self, study: &str, point: &str, seed: u64, kept: StoredRun) -> Result<StoredRun, StoreError> {
        let kept = StoredRun { programs: self.programs.clone(), ..kept };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        put(&self.file(study, point, seed), &text)?;
        Ok(kept)
    }

    /// Writes a file below the folder.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn put(&self, name: &str, text: &str) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(name);
        put(&path, text)?;
        Ok(path)
    }
}

fn put(path: &Path, text: &str) -> Result<(), StoreError> {
    let error = |doing| move |source| StoreError { doing, path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(error("make the folder of"))?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    fs::write(&beside, text).map_err(error("write"))?;
    fs::rename(&beside, path).map_err(error("write"))
}

/// A digest of a run's inputs, in 16 letters.
pub(super) fn made_of(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut text = String::with_capacity(16);
    for byte in hasher.finalize().iter().take(8) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> StoredRun {
        StoredRun::new(made_of(&["plan"]), Measures::from([("completed".to_owned(), 0.1 + 0.2)]))
    }

    #[test]
    fn stored_run_is_found_exactly() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "a", false);
        let written = store.keep("s", "p", 1, kept()).unwrap();
        assert_eq!(store.find("s", "p", 1, (&kept().made_of, "")), Some(written));
        assert_eq!(store.find("s", "p", 2, (&kept().made_of, "")), None);
    }

    #[test]
    fn other_plan_or_programs_invalidate_run() {
        let folder = tempfile::tempdir().unwrap();
        let kept = StoredRun { daemons: "d".to_owned(), ..kept() };
        Store::new(folder.path(), "a", false).keep("s", "p", 1, kept).unwrap();
        let find = |(programs, daemons), any, plan| {
            Store::new(folder.path(), programs, any).find("s", "p", 1, (&made_of(&[plan]), daemons)).is_some()
        };
        assert!(find(("a", "d"), false, "plan"));
        for other in [("b", "d"), ("a", "e")] {
            assert!(!find(other, false, "plan") && find(other, true, "plan"), "{other:?}");
        }
        assert!(!find(("a", "d"), true, "other"));
    }

    #[test]
    fn incomplete_run_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), "a", false);
        store.keep("s", "p", 1, kept()).unwrap();
        let path = store.file("s", "p", 1);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(store.find("s", "p", 1, (&kept().made_of, "")), None);
    }
}
