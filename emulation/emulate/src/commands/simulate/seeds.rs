//! A plan in virtual time with several seeds. Complete runs in its folder are kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use roost_experiment::{Prepared, RunError};
use roost_lab::Interrupt;
use roost_results::metrics::{Metrics, Service};
use roost_sim::{Detail, ServiceCounts, SimOutcome};
use roost_terminal::{Output, SCHEMA};

use super::super::jobs::Jobs;
use super::super::run_folder::{ProgramHashes, RunFolderState, RunMode, remove_remains, state};
use super::{SimulateArgs, SimulateJson, look_at, object, require_sound, tell_violations};
use crate::failure::{CommandResult, Failure};

/// A seed, with the folder for its run.
#[derive(Clone, Debug)]
struct SeedTask {
    seed: u64,
    folder: Option<PathBuf>,
    is_kept: bool,
}

/// The run of a seed, and remarks about its files.
struct SeedRun {
    task: SeedTask,
    simulated: Option<SimOutcome>,
    remarks: Vec<String>,
}

/// Simulates a plan with this many seeds, as many at once as there are processors.
pub(super) fn run(args: &SimulateArgs, prepared: Prepared, count: u32, output: Output) -> CommandResult {
    let first = prepared.plan.seed;
    let seeds = first..first.saturating_add(count.into());
    let tasks: Vec<SeedTask> = seeds.map(|seed| task(args, &prepared, seed)).collect::<CommandResult<_>>()?;
    let interrupt = Interrupt::listen()?;
    let jobs = Jobs { threads: args.jobs.count(prepared.placement.nodes.len()), output, interrupt: &interrupt };
    let kept = tasks.iter().filter(|task| task.is_kept).count();
    if kept > 0 {
        output.say(format!("{kept} of {count} seeds are complete there and are kept"));
    }
    let level = args.level;
    let mut failed = 0;
    jobs.run(
        tasks,
        move |task| simulate(&prepared, level, task),
        |ended| {
            let SeedRun { task, simulated, remarks } = ended?;
            remarks.iter().for_each(|remark| output.say(remark));
            match &simulated {
                Some(simulated) if output.is_json() => output.json(&object(task.seed, simulated))?,
                None if output.is_json() => show_kept(&task, output)?,
                _ => {}
            }
            if let Some(simulated) = &simulated {
                failed += u32::from(!simulated.is_sound());
                tell_violations(args, task.seed, simulated, output);
            }
            Ok(())
        },
    )?;
    if let Some(folder) = &args.output {
        let written = roost_report::combine(folder).map_err(super::super::report::failure)?;
        written.remarks.iter().for_each(|remark| output.say(remark));
        look_at(&written.page, output);
    }
    if !output.is_json() && !output.is_quiet() {
        output.data(&format!("{} of {count} seeds passed.\n", count - failed))?;
    }
    require_sound(failed, count)
}

fn with_seed(prepared: &Prepared, seed: u64) -> Prepared {
    // No other part of a prepared plan depends on its seed.
    let mut prepared = prepared.clone();
    prepared.plan.seed = seed;
    prepared
}

fn folder_name(seed: u64) -> String {
    format!("seed-{seed}")
}

/// The task of a seed. A run that is not valid is due again, and one of another plan is refused.
fn task(args: &SimulateArgs, prepared: &Prepared, seed: u64) -> CommandResult<SeedTask> {
    let Some(all) = &args.output else { return Ok(SeedTask { seed, folder: None, is_kept: false }) };
    let (folder, mode) = (all.join(folder_name(seed)), RunMode::Simulated(args.level));
    let found = state(&folder, &with_seed(prepared, seed), mode, &mut ProgramHashes::new())?;
    Ok(SeedTask { seed, folder: Some(folder), is_kept: found == RunFolderState::Complete })
}

fn simulate(prepared: &Prepared, level: Detail, task: SeedTask) -> CommandResult<SeedRun> {
    if task.is_kept {
        let remarks = task.folder.as_deref().map_or_else(|| Ok(Vec::new()), complete_page)?;
        return Ok(SeedRun { task, simulated: None, remarks });
    }
    let prepared = with_seed(prepared, task.seed);
    let Some(folder) = &task.folder else {
        let simulated = Some(roost_sim::simulate(&prepared, level)?);
        return Ok(SeedRun { task, simulated, remarks: Vec::new() });
    };
    remove_remains(folder, &folder_name(task.seed)).map_err(|error| RunError::file("remove", folder, &error))?;
    let simulated = Some(roost_sim::simulate_into(&prepared, level, folder)?);
    let written = roost_report::write(folder).map_err(super::super::report::failure)?;
    Ok(SeedRun { task, simulated, remarks: written.remarks })
}

/// Writes the page of a kept run that was stopped between its records and its page.
fn complete_page(folder: &Path) -> CommandResult<Vec<String>> {
    if folder.join("index.html").exists() {
        return Ok(Vec::new());
    }
    Ok(roost_report::write(folder).map_err(super::super::report::failure)?.remarks)
}

/// The JSON of a run that was kept, out of its records.
fn show_kept(task: &SeedTask, output: Output) -> CommandResult {
    let folder = task.folder.as_deref().unwrap_or(Path::new(""));
    let results = roost_results::read(folder).map_err(|error| Failure::failed(error.to_string()))?;
    let metrics = Metrics::from_results(&results);
    let fact = |name: &str| results.run.lab.get(name).cloned().unwrap_or_default();
    let by_service: BTreeMap<String, ServiceCounts> =
        metrics.services.iter().map(|service| (service.service.clone(), counts(service))).collect();
    output.json(&SimulateJson {
        schema: SCHEMA,
        seed: task.seed,
        trace_hash: fact("trace_hash"),
        requested: metrics.requests.asked,
        completed: metrics.requests.completed,
        virtual_s: results.run.ran_s + results.run.drain_s,
        wall_s: fact("wall_s").parse().unwrap_or(0.0),
        nodes: results.run.nodes as usize,
        steps: fact("steps").parse().ok(),
        by_service: &by_service,
        rooms: &metrics.rooms,
        violations: Vec::new(),
        overflows: 0,
    })?;
    Ok(())
}

fn counts(service: &Service) -> ServiceCounts {
    ServiceCounts {
        requested: service.requests.asked,
        completed: service.requests.completed,
        failed: service.requests.failed + service.requests.timed_out,
        timed_out: service.requests.timed_out,
        cut: service.requests.cut,
        p50_ms: service.latency.p50,
        p95_ms: service.latency.p95,
        p99_ms: service.latency.p99,
    }
}
