//! The runs of a sweep in virtual time, on several processors.

use std::path::{Path, PathBuf};

use roost_experiment::{Prepared, RunError, SweepRun};
use roost_lab::Interrupt;
use roost_sim::SimulateError;
use roost_terminal::Output;

use super::super::jobs::Jobs;
use super::super::run_folder::remove_remains;
use super::tasks::SweepTask;
use super::{SweepArgs, full};
use crate::failure::CommandResult;

enum RunFailure {
    Own(String),
    /// The disk is full or gone: every other run fails as well.
    Disk(String),
}

/// The sentences of one run, or the failure that ended it.
struct SimulatedRun {
    name: String,
    told: Result<Vec<String>, RunFailure>,
}

pub(super) fn run_all(
    args: &SweepArgs,
    open: &[&SweepTask],
    output: Output,
    interrupt: &Interrupt,
) -> CommandResult<Vec<String>> {
    let nodes = open.iter().map(|task| task.nodes).max().unwrap_or(0);
    let jobs = Jobs { threads: args.jobs.count(nodes), output, interrupt };
    let tasks: Vec<(SweepRun, PathBuf)> = open.iter().map(|task| (task.run.clone(), task.folder.clone())).collect();
    let plan = args.plan.clone();
    let work =
        move |(run, folder): (SweepRun, PathBuf)| SimulatedRun { told: simulate(&run, &folder, &plan), name: run.name };
    let mut failures = Vec::new();
    jobs.run(tasks, work, |SimulatedRun { name, told }| {
        match told {
            Ok(told) => told.iter().for_each(|sentence| output.say(format!("{name}: {sentence}"))),
            Err(RunFailure::Own(why)) => failures.push(format!("{name}: {why}")),
            Err(RunFailure::Disk(why)) => return Err(full(&name, &why)),
        }
        Ok(())
    })?;
    Ok(failures)
}

fn simulate(run: &SweepRun, folder: &Path, plan: &Path) -> Result<Vec<String>, RunFailure> {
    let own = |error: &dyn ToString| RunFailure::Own(error.to_string());
    remove_remains(folder, &run.name).map_err(|error| own(&RunError::file("remove", folder, &error)))?;
    let prepared = Prepared::from_text(&run.text, plan).map_err(|error| own(&error))?;
    let seen = roost_sim::simulate_varied(&prepared, folder, &run.varied).map_err(|error| match &error {
        SimulateError::File { .. } => RunFailure::Disk(error.to_string()),
        _ => own(&error),
    })?;
    roost_report::write(folder).map_err(|error| RunFailure::Disk(error.to_string()))?;
    Ok(seen.overflow().into_iter().chain(seen.violations.iter().map(roost_sim::Violation::sentence)).collect())
}
