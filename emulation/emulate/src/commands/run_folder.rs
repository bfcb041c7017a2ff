//! The folders of runs that a command makes one by one: those that are complete are kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use roost_experiment::Prepared;
use roost_results::record::SIMULATION;
use roost_results::{PLAN_FILE, Results, TOPOLOGY_FILE};
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

/// The state of this run's folder. A different run there must not be removed.
pub(super) fn state(
    folder: &Path,
    prepared: &Prepared,
    how: RunMode,
    programs: &mut ProgramHashes,
) -> CommandResult<RunFolderState> {
    let other = |what: &str| {
        let way_out = "choose another folder with -o, or remove it";
        Err(Failure::bad_input(format!("{} holds {what}: {way_out}", folder.display())))
    };
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    let Some(plan) = read(PLAN_FILE) else {
        let is_taken = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        return if is_taken { other("something else") } else { Ok(RunFolderState::Open) };
    };
    // A run that was killed while it wrote its first file has part of it.
    let effective = prepared.effective();
    if plan != effective {
        let is_part = effective.starts_with(&plan) && read(TOPOLOGY_FILE).is_none();
        return if is_part { Ok(RunFolderState::Open) } else { other("a run of another plan") };
    }
    if read(TOPOLOGY_FILE).is_some_and(|topology| !prepared.network_file().starts_with(&topology)) {
        return other("a run on another network");
    }
    let Ok(Results { run, .. }) = roost_results::read(folder) else { return Ok(RunFolderState::Open) };
    if run.interrupted {
        return Ok(RunFolderState::Open);
    }
    if let RunMode::Simulated(detail) = how {
        // The run had no programs but this one.
        let is_simulated = run.binaries.is_empty() && run.lab.get("backend").is_some_and(|how| how == SIMULATION);
        let is_at_detail = run.lab.get("detail").is_none_or(|found| found == detail.name());
        return match is_simulated {
            false => other("a run with the real daemons"),
            true if !is_at_detail => other("a run at another level of detail"),
            true => Ok(if run.verdict.valid { RunFolderState::Complete } else { RunFolderState::NotValid }),
        };
    }
    let architecture = prepared.plan.architecture;
    let present = match programs.entry(architecture.name()) {
        Entry::Vacant(place) => place.insert(roost_experiment::hashes(architecture)?),
        Entry::Occupied(known) => known.into_mut(),
    };
    if run.binaries != *present {
        return other("a run of other programs than those that are here now");
    }
    Ok(if run.verdict.valid { RunFolderState::Complete } else { RunFolderState::NotValid })
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
}
