//! `emulate sweep --check`: the runs, and the time that they take.

use std::time::{Duration, Instant};

use roost_sim::Detail;
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::units::format_duration;
use serde_json::json;

use super::super::jobs::span;
use super::SweepArgs;
use super::tasks::SweepTask;
use crate::failure::{CommandResult, Failure};

/// The longest run that is simulated for an estimate, in nodes × seconds.
const MAX_TRIAL: f64 = 20_000.0;

pub(super) fn show(args: &SweepArgs, tasks: &[SweepTask], output: Output) -> CommandResult {
    let keep_invalid = args.keep_invalid;
    let due: Vec<&SweepTask> = tasks.iter().filter(|task| task.is_due(keep_invalid)).collect();
    let estimate = estimate(args, &due);
    if output.is_json() {
        let run = |task: &SweepTask| {
            json!({
                "run": task.run.name,
                "varied": task.run.varied,
                "nodes": task.nodes,
                "architecture": task.architecture,
                "at_most_s": task.longest.as_secs_f64(),
                "is": task.state.name(keep_invalid),
                "due": task.is_due(keep_invalid),
            })
        };
        let runs: Vec<_> = tasks.iter().map(run).collect();
        let (expected, trial_error) = match &estimate {
            Estimate::Seconds(seconds) => (Some(*seconds), None),
            Estimate::TooLarge => (None, None),
            Estimate::Failed { run, error } => (None, Some(json!({ "run": run, "error": error }))),
        };
        let check = json!({ "schema": SCHEMA, "runs": runs, "expected_s": expected, "trial_error": trial_error });
        return Ok(output.json(&check)?);
    }
    let mut table = Table::new(&["RUN", ">NODES", "ARCHITECTURE", ">AT MOST", "IS"]);
    for task in tasks {
        table.row([
            task.run.name.clone(),
            task.nodes.to_string(),
            task.architecture.to_owned(),
            format_duration(task.longest),
            task.state.name(keep_invalid).to_owned(),
        ]);
    }
    output.table(&table)?;
    let time = match &estimate {
        _ if due.is_empty() => "nothing is left to run".to_owned(),
        Estimate::Seconds(seconds) if args.simulate => {
            format!("{} at once, about {}, as one of them tells", jobs(args, &due), span(*seconds))
        }
        Estimate::Seconds(seconds) => format!("one after the other, at most {}", span(*seconds)),
        Estimate::TooLarge => format!("{} at once; they are too large for an estimate", jobs(args, &due)),
        Estimate::Failed { .. } => format!("{} at once", jobs(args, &due)),
    };
    output.data(&format!("\n{} of {} runs to make: {time}.\n", due.len(), tasks.len()))?;
    match estimate {
        Estimate::Failed { run, error } => Err(Failure::failed(format!("{run} was tried and failed: {error}"))),
        _ => Ok(()),
    }
}

fn jobs(args: &SweepArgs, due: &[&SweepTask]) -> usize {
    let nodes = due.iter().map(|task| task.nodes).max().unwrap_or(0);
    args.jobs.count(nodes).min(due.len())
}

/// The time for all due runs, in seconds of real time.
enum Estimate {
    Seconds(f64),
    TooLarge,
    Failed { run: String, error: String },
}

/// Runs in virtual time take as long for a node and second as one of them, which is tried.
fn estimate(args: &SweepArgs, due: &[&SweepTask]) -> Estimate {
    if !args.simulate || due.is_empty() {
        return Estimate::Seconds(due.iter().map(|task| task.longest).sum::<Duration>().as_secs_f64());
    }
    let cost = |task: &SweepTask| task.nodes as f64 * task.longest.as_secs_f64();
    let mut by_cost: Vec<&SweepTask> = due.to_vec();
    by_cost.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let trial = by_cost[by_cost.len() / 2];
    if cost(trial) > MAX_TRIAL {
        return Estimate::TooLarge;
    }
    let began = Instant::now();
    if let Err(error) = simulate(trial, args) {
        return Estimate::Failed { run: trial.run.name.clone(), error };
    }
    let each = began.elapsed().as_secs_f64() / cost(trial).max(1e-9);
    Estimate::Seconds(due.iter().map(|task| cost(task)).sum::<f64>() * each / jobs(args, due) as f64)
}

fn simulate(task: &SweepTask, args: &SweepArgs) -> Result<(), String> {
    let prepared = task.prepare(&args.plan).map_err(|error| error.to_string())?;
    roost_sim::simulate(&prepared, Detail::default()).map(drop).map_err(|error| error.to_string())
}
