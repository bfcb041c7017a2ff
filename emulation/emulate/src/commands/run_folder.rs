//! The folders of runs that a command makes one by one: those that are complete are kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use roost_experiment::{Prepared, RunError};
use roost_results::record::RunRecord;
use roost_results::{PLAN_FILE, ReadError, Results, TOPOLOGY_FILE};
use roost_sim::Detail;

use crate::failure::{CommandResult, Failure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunMode {
    Emulated,
    Simulated(Detail),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunFolderState {
    /// Empty, or a run that broke off.
    Open,
    /// A run whose figures cannot be trusted.
    NotValid,
    Complete,
}

impl RunFolderState {
    pub(super) const fn name(self, keep_invalid: bool) -> &'static str {
        match self {
            Self::Open => "to be run",
            Self::NotValid if keep_invalid => "not valid",
            Self::NotValid => "not valid, to be run again",
            Self::Complete => "complete",
        }
    }
}

/// The hash of each installed program, by architecture.
pub(super) type ProgramHashes = BTreeMap<&'static str, BTreeMap<String, String>>;

/// The state of this run's folder. A different run there must not be removed, nor one that cannot be read.
pub(super) fn state(
    folder: &Path,
    prepared: &Prepared,
    how: RunMode,
    programs: &mut ProgramHashes,
) -> CommandResult<RunFolderState> {
    if !has_files_of(folder, prepared)? {
        return Ok(RunFolderState::Open);
    }
    let run = match roost_results::read(folder) {
        Ok(Results { run, .. }) => run,
        Err(ReadError::NotARun { .. } | ReadError::Malformed { .. }) => return Ok(RunFolderState::Open),
        Err(error) => return Err(Failure::failed(error.to_string())),
    };
    if run.interrupted {
        return Ok(RunFolderState::Open);
    }
    match how {
        RunMode::Emulated => check_emulated(folder, &run, prepared, programs)?,
        RunMode::Simulated(detail) => check_simulated(folder, &run, detail)?,
    }
    Ok(if run.verdict.valid { RunFolderState::Complete } else { RunFolderState::NotValid })
}

fn other<T>(folder: &Path, what: &str) -> CommandResult<T> {
    let way_out = "choose another folder with -o, or remove it";
    Err(Failure::bad_input(format!("{} holds {what}: {way_out}", folder.display())))
}

/// True if the plan and the network there are complete and of this run.
fn has_files_of(folder: &Path, prepared: &Prepared) -> CommandResult<bool> {
    let Some(plan) = content(&folder.join(PLAN_FILE))? else {
        return if is_empty(folder)? { Ok(false) } else { other(folder, "something else") };
    };
    let (effective, topology) = (prepared.effective(), content(&folder.join(TOPOLOGY_FILE))?);
    // A run that was killed while it wrote its first file has part of it.
    if plan != effective.as_bytes() {
        let is_part = effective.as_bytes().starts_with(&plan) && topology.is_none();
        return if is_part { Ok(false) } else { other(folder, "a run of another plan") };
    }
    if topology.is_some_and(|topology| !prepared.network_file().as_bytes().starts_with(&topology)) {
        return other(folder, "a run on another network");
    }
    Ok(true)
}

fn check_simulated(folder: &Path, run: &RunRecord, detail: Detail) -> CommandResult {
    // The run had no programs but this one.
    if !run.binaries.is_empty() || !run.is_simulated() {
        return other(folder, "a run with the real daemons");
    }
    check_version(folder, run)?;
    match run.lab.get("detail").is_none_or(|found| found == detail.name()) {
        true => Ok(()),
        false => other(folder, "a run at another level of detail"),
    }
}

fn check_emulated(folder: &Path, run: &RunRecord, prepared: &Prepared, programs: &mut ProgramHashes) -> CommandResult {
    check_version(folder, run)?;
    let architecture = prepared.plan.architecture;
    let present = match programs.entry(architecture.name()) {
        Entry::Vacant(place) => place.insert(roost_experiment::hashes(architecture)?),
        Entry::Occupied(known) => known.into_mut(),
    };
    match run.binaries == *present {
        true => Ok(()),
        false => other(folder, "a run of other programs than those that are here now"),
    }
}

fn check_version(folder: &Path, run: &RunRecord) -> CommandResult {
    let own = env!("CARGO_PKG_VERSION");
    match run.versions.get("emulate") {
        Some(version) if version == own => Ok(()),
        Some(version) => other(folder, &format!("a run of emulate {version}, and this one is {own}")),
        None => other(folder, "a run of an unknown version of emulate"),
    }
}

/// The bytes of a file; `None` if there is none.
fn content(file: &Path) -> CommandResult<Option<Vec<u8>>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::file("read", file, &error).into()),
    }
}

fn is_empty(folder: &Path) -> CommandResult<bool> {
    match folder.read_dir() {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(RunError::file("read", folder, &error).into()),
    }
}

/// Removes a run that broke off or is not valid: its content is useless.
pub(super) fn remove_remains(folder: &Path, run: &str) -> io::Result<()> {
    // `..` and the like have no file name, so the folder of the sweep itself never goes.
    if folder.file_name() != Some(OsStr::new(run)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no folder below that of the sweep"));
    }
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use roost_results::{EVENTS_FILE, RUN_FILE};

    use super::*;

    #[test]
    fn only_folders_of_runs_are_removed() {
        let holder = tempfile::tempdir().unwrap();
        let sweep = holder.path().join("sweep");
        std::fs::create_dir_all(sweep.join("run")).unwrap();
        for name in ["", ".", "..", "run/..", "run/."] {
            assert!(remove_remains(&sweep.join(name), name).is_err(), "{name}");
        }
        assert!(sweep.join("run").is_dir());
        remove_remains(&sweep.join("run"), "run").unwrap();
        remove_remains(&sweep.join("run"), "run").unwrap();
        assert!(!sweep.join("run").exists() && sweep.is_dir());
    }

    #[test]
    fn runs_that_cannot_be_read_stay() {
        let plan = "topology = { star = { nodes = 3 } }\narchitecture = 'super-node'\nduration = '1s'\n";
        let prepared = Prepared::from_text(plan, Path::new("trial.toml")).unwrap();
        let holder = tempfile::tempdir().unwrap();
        let folder = holder.path().join("run");
        let found = || {
            let how = RunMode::Simulated(Detail::Message);
            state(&folder, &prepared, how, &mut ProgramHashes::new()).map_err(|failure| failure.to_string())
        };
        assert_eq!(found(), Ok(RunFolderState::Open));
        roost_sim::simulate_into(&prepared, Detail::Message, &folder).unwrap();
        assert_eq!(found(), Ok(RunFolderState::Complete));
        let (facts, events) = (folder.join(RUN_FILE), folder.join(EVENTS_FILE));
        let whole = std::fs::read_to_string(&facts).unwrap();
        let refused = |text: &str, why: &str| {
            std::fs::write(&facts, text).unwrap();
            assert!(found().is_err_and(|failure| failure.contains(why)), "{:?}", found());
        };
        refused("{\"schema\": 99}", "use a newer");
        let own = format!("\"emulate\": \"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(whole.contains(&own));
        refused(&whole.replace(&own, "\"emulate\": \"0.0.1\""), "a run of emulate 0.0.1");
        std::fs::remove_file(&events).unwrap();
        std::fs::create_dir(&events).unwrap();
        refused(&whole, "cannot read");
        std::fs::write(&facts, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(found(), Ok(RunFolderState::Open));
    }
}
