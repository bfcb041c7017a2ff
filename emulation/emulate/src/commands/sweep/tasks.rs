//! The runs of a sweep, and the states of their folders.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roost_experiment::{Plan, Prepared, RunError, Sweep, SweepExtras, SweepMistakes, SweepRun, read_sweep};
use roost_resources::RunOutline;
use roost_results::record::SIMULATION;
use roost_results::{PLAN_FILE, Results, TOPOLOGY_FILE};
use roost_sim::SimulateError;

use super::super::estimate::OutlinedRun;
use super::{RunMode, SweepArgs};
use crate::failure::{CommandResult, Failure};

/// A run of a sweep. It is prepared again when its turn comes: ten thousand prepared runs take too much memory.
pub(super) struct SweepTask {
    pub(super) run: SweepRun,
    pub(super) folder: PathBuf,
    pub(super) state: RunFolderState,
    pub(super) nodes: usize,
    pub(super) architecture: &'static str,
    pub(super) longest: Duration,
    pub(super) warnings: Vec<String>,
    pub(super) outline: RunOutline,
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

impl SweepTask {
    pub(super) fn is_due(&self, keep_invalid: bool) -> bool {
        self.state == RunFolderState::Open || self.state == RunFolderState::NotValid && !keep_invalid
    }

    pub(super) fn outlined(&self) -> OutlinedRun<'_> {
        OutlinedRun { name: Some(&self.run.name), outline: self.outline }
    }

    pub(super) fn prepare(&self, plan: &Path) -> Result<Prepared, RunError> {
        Prepared::from_text(&self.run.text, plan)
    }
}

/// The folder of the sweep, and its runs. All mistakes are told before any run.
pub(super) fn tasks(args: &SweepArgs) -> CommandResult<(PathBuf, Vec<SweepTask>)> {
    let text = Plan::text(&args.plan).map_err(RunError::from)?;
    let extras = SweepExtras { vary: args.vary.clone(), seeds: args.seeds };
    let Sweep { runs, factors } = read_sweep(&text, &args.plan, &extras).map_err(RunError::from)?;
    let mut mistakes = SweepMistakes::new(&text, runs.len());
    let (mut tasks, mut all, mut programs) = (Vec::with_capacity(runs.len()), args.output.clone(), Hashes::new());
    // A sweep over architectures has settings for each of them.
    let is_of_one = !factors.iter().any(|factor| factor == "architecture" || factor == "case");
    for run in runs {
        let prepared = match prepare(&run, args) {
            Ok(prepared) => prepared,
            Err(error) => {
                mistakes.add(&run, &error);
                continue;
            }
        };
        let all = all.get_or_insert_with(|| Path::new("results").join(&prepared.plan.name));
        let folder = all.join(&run.name);
        let state = state(&folder, &prepared, args.how(), &mut programs)?;
        let mut warnings = prepared.warnings();
        warnings.extend(is_of_one.then(|| prepared.unused()).into_iter().flatten());
        if args.how() == RunMode::Simulated {
            warnings.extend(prepared.unused_in_simulation());
        }
        tasks.push(SweepTask {
            folder,
            state,
            nodes: prepared.placement.nodes.len(),
            architecture: prepared.plan.architecture.name(),
            longest: prepared.longest(),
            warnings,
            outline: prepared.outline(),
            run,
        });
    }
    if !mistakes.is_empty() {
        return Err(Failure::bad_input(mistakes.told(&args.plan)));
    }
    Ok((all.unwrap_or_default(), tasks))
}

/// Prepares a run and checks that it can be made in this way.
fn prepare(run: &SweepRun, args: &SweepArgs) -> Result<Prepared, RunError> {
    let prepared = Prepared::from_text(&run.text, &args.plan)?;
    match args.how() {
        RunMode::Emulated => prepared.check_for_daemons()?,
        RunMode::Simulated => {
            prepared.check_for_simulation()?;
            roost_sim::check_settings(&prepared).map_err(|error| match error {
                SimulateError::Run(error) => error,
                other => RunError::Failed(other.to_string()),
            })?;
        }
    }
    Ok(prepared)
}

/// The hash of each installed program, by architecture.
type Hashes = BTreeMap<&'static str, BTreeMap<String, String>>;

/// The state of this run's folder. A different run there must not be removed.
fn state(folder: &Path, prepared: &Prepared, how: RunMode, programs: &mut Hashes) -> CommandResult<RunFolderState> {
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
    if how == RunMode::Simulated {
        // The run had no programs but this one.
        let is_simulated = run.binaries.is_empty() && run.lab.get("backend").is_some_and(|how| how == SIMULATION);
        return match is_simulated {
            false => other("a run with the real daemons"),
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
