//! The runs of a sweep, each with its plan, its folder and its state.

use std::path::{Path, PathBuf};
use std::time::Duration;

use roost_experiment::{Plan, Prepared, RunError, Sweep, SweepExtras, SweepMistakes, SweepRun, read_sweep};
use roost_resources::RunOutline;
use roost_sim::SimulateError;

use super::super::estimate::OutlinedRun;
use super::super::run_folder::{ProgramHashes, RunFolderState, RunMode, state};
use super::SweepArgs;
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
    /// None of a run that will not use the daemons.
    outline: Option<RunOutline>,
}

impl SweepTask {
    pub(super) fn is_due(&self, keep_invalid: bool) -> bool {
        is_due(self.state, keep_invalid)
    }

    pub(super) fn outlined(&self) -> Option<OutlinedRun<'_>> {
        Some(OutlinedRun { name: Some(&self.run.name), outline: self.outline? })
    }

    pub(super) fn prepare(&self, plan: &Path) -> Result<Prepared, RunError> {
        Prepared::from_text(&self.run.text, plan)
    }
}

fn is_due(state: RunFolderState, keep_invalid: bool) -> bool {
    state == RunFolderState::Open || state == RunFolderState::NotValid && !keep_invalid
}

/// The folder of the sweep, and its runs. All mistakes are told before any run.
pub(super) fn tasks(args: &SweepArgs) -> CommandResult<(PathBuf, Vec<SweepTask>)> {
    let text = Plan::text(&args.plan).map_err(RunError::from)?;
    let extras = SweepExtras { vary: args.vary.clone(), seeds: args.seeds };
    let Sweep { runs, factors } = read_sweep(&text, &args.plan, &extras).map_err(RunError::from)?;
    let mut mistakes = SweepMistakes::new(&text, runs.len());
    let (mut tasks, mut all, mut programs) =
        (Vec::with_capacity(runs.len()), args.output.clone(), ProgramHashes::new());
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
        if args.simulate {
            warnings.extend(prepared.unused_in_simulation());
        }
        let is_real = !args.simulate && is_due(state, args.keep_invalid);
        tasks.push(SweepTask {
            folder,
            state,
            nodes: prepared.placement.nodes.len(),
            architecture: prepared.plan.architecture.name(),
            longest: prepared.longest(),
            warnings,
            outline: is_real.then(|| prepared.outline()),
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
        RunMode::Emulated => {
            prepared.check_for_daemons()?;
            roost_lab::check_size(&prepared.network)?;
        }
        RunMode::Simulated(_) => {
            prepared.check_for_simulation()?;
            roost_sim::check_settings(&prepared).map_err(|error| match error {
                SimulateError::Run(error) => error,
                other => RunError::Failed(other.to_string()),
            })?;
        }
    }
    Ok(prepared)
}
