//! `emulate sweep`: runs of a plan with other values.

mod check;
mod simulated;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use roost_experiment::{PlanKey, RunError, parse_variation};
use roost_lab::{Interrupt, sandbox};
use roost_results::Results;
use roost_results::metrics::Metrics;
use roost_sim::Detail;
use roost_terminal::{Output, SCHEMA, Table};
use serde::Serialize;

use self::tasks::{SweepTask, tasks};
use super::estimate::{self, ForceArgs, OutlinedRun};
use super::jobs::{JobArgs, interrupted};
use super::report::{failure, require_trusted};
use super::run::figures;
use super::run_folder::{RunMode, remove_remains};
use crate::failure::{CommandResult, Failure};

/// The most runs that are listed at the end; `runs.csv` has all.
const MAX_LISTED: usize = 200;
const MAX_FAILURES: usize = 20;

/// `emulate sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[allow(rustdoc::broken_intra_doc_links, reason = "it is the help, printed as it stands")]
    /// The plan, with a [sweep] table or with --vary
    plan: PathBuf,
    /// A key of the plan and its values, instead of those in [sweep]: links.net.delay=5ms,50ms
    #[arg(long, value_name = "KEY=V1,V2", value_parser = parse_variation)]
    vary: Vec<(PlanKey, Vec<toml::Value>)>,
    /// Each run with this many seeds, from the plan's on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// The folder for the results of all runs; runs that are complete and valid there are not
    /// repeated [default: results/NAME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do not repeat runs that are complete but not valid
    #[arg(long)]
    keep_invalid: bool,
    /// Make the runs in virtual time, as `emulate simulate` does, instead of with the real daemons
    #[arg(long)]
    simulate: bool,
    #[command(flatten)]
    jobs: JobArgs,
    #[command(flatten)]
    force: ForceArgs,
    /// Say what would run and for how long, and end
    #[arg(long)]
    check: bool,
}

impl SweepArgs {
    fn how(&self) -> RunMode {
        if self.simulate { RunMode::Simulated(Detail::default()) } else { RunMode::Emulated }
    }
}

pub(crate) fn run(args: &SweepArgs, output: Output) -> CommandResult {
    let (folder, tasks) = tasks(args)?;
    for warning in tasks.iter().flat_map(|task| &task.warnings).collect::<BTreeSet<_>>() {
        output.say(format!("warning: {warning}"));
    }
    let open: Vec<&SweepTask> = tasks.iter().filter(|task| task.is_due(args.keep_invalid)).collect();
    let outlined: Vec<OutlinedRun<'_>> = open.iter().filter_map(|task| task.outlined()).collect();
    if args.check {
        estimate::warn(&outlined, output);
        return check::show(args, &tasks, output);
    }
    let mut failures = Vec::new();
    if !open.is_empty() {
        args.force.check(&outlined, output)?;
        if !args.simulate
            && let sandbox::SandboxEntry::Done(code) = sandbox::enter()?
        {
            return Err(Failure::ProgramExit(code));
        }
        let interrupt = Interrupt::listen()?;
        failures = if args.simulate {
            simulated::run_all(args, &open, output, &interrupt)?
        } else {
            emulate_all(&args.plan, &open, output, &interrupt)?
        };
    }
    let failed = (!failures.is_empty()).then(|| Failure::failed(did_not_come(&failures, tasks.len())));
    let page = match roost_report::combine(&folder) {
        Ok(combined) => combined.page,
        // Without any run there is nothing to show; this error has the reason.
        Err(error) => return Err(failed.unwrap_or_else(|| failure(error))),
    };
    let untrusted = show(&tasks, output)?;
    output.say(format!("Look at {}", page.display()));
    failed.map_or_else(|| require_trusted(&untrusted, output), Err)
}

fn did_not_come(failures: &[String], all: usize) -> String {
    let named = failures.iter().take(MAX_FAILURES).map(|failure| format!("\n  {failure}")).collect::<String>();
    let more = failures.len().saturating_sub(MAX_FAILURES);
    let more = if more == 0 { String::new() } else { format!("\n  and {more} more") };
    format!("{} of {all} runs did not come about:{named}{more}", failures.len())
}

/// Makes open runs with the daemons; returns the failures of those that did not start.
fn emulate_all(plan: &Path, open: &[&SweepTask], output: Output, interrupt: &Interrupt) -> CommandResult<Vec<String>> {
    let mut failures = Vec::new();
    for (index, task) in open.iter().enumerate() {
        if interrupt.is_set() {
            return Err(interrupted());
        }
        output.say(format!("{} of {}: {}", index + 1, open.len(), task.run.name));
        remove_remains(&task.folder, &task.run.name).map_err(|error| Failure::file("remove", &task.folder, &error))?;
        let prepared = task.prepare(plan)?;
        match roost_experiment::run(&prepared, &task.folder, &task.run.varied, output, interrupt) {
            Ok(finished) => {
                if figures(finished, output)?.run.interrupted {
                    return Err(interrupted());
                }
            }
            // Further runs may succeed.
            Err(RunError::Failed(message)) => failures.push(format!("{}: {message}", task.run.name)),
            Err(RunError::Records(message)) => return Err(full(&task.run.name, &message)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(failures)
}

/// A full disk would stop the other runs as well.
fn full(run: &str, message: &str) -> Failure {
    Failure::failed(format!("{run}: {message}; the sweep ends here, and the same command goes on when there is room"))
}

/// A run of the sweep, as JSON.
#[derive(Serialize)]
struct SweepRow<'a> {
    run: &'a str,
    varied: &'a BTreeMap<String, String>,
    completed: u64,
    /// Requests that failed or timed out; the table has these apart.
    failed: u64,
    timed_out: u64,
    offered_bytes: Option<u64>,
    valid: bool,
    folder: &'a Path,
}

#[derive(Serialize)]
struct SweepJson<'a> {
    schema: u32,
    runs: Vec<SweepRow<'a>>,
}

/// Shows all runs; returns the reasons to distrust some.
fn show(tasks: &[SweepTask], output: Output) -> CommandResult<Vec<String>> {
    // Runs that did not start are reported separately. The records of one run are in memory at a time.
    let rows: Vec<SweepRow<'_>> =
        tasks.iter().filter_map(|task| Some(row(task, &roost_results::read(&task.folder).ok()?))).collect();
    let (invalid, count) = (rows.iter().filter(|row| !row.valid).count(), rows.len());
    if output.is_json() {
        output.json(&SweepJson { schema: SCHEMA, runs: rows })?;
    } else {
        output.table(&table(&rows[..count.min(MAX_LISTED)]))?;
        if count > MAX_LISTED {
            output.say(format!("and {} runs more: runs.csv has all", count - MAX_LISTED));
        }
    }
    let reason = (invalid > 0).then(|| format!("{invalid} of {count} runs are not valid; their pages say why"));
    Ok(reason.into_iter().collect())
}

fn row<'a>(task: &'a SweepTask, results: &Results) -> SweepRow<'a> {
    let metrics = Metrics::from_results(results);
    let requests = &metrics.requests;
    SweepRow {
        run: &task.run.name,
        varied: &task.run.varied,
        completed: requests.completed,
        failed: requests.failed + requests.timed_out,
        timed_out: requests.timed_out,
        offered_bytes: metrics.traffic.offered_bytes,
        valid: results.run.verdict.valid,
        folder: &task.folder,
    }
}

fn table(rows: &[SweepRow<'_>]) -> Table {
    let mut table =
        Table::new(&["RUN", ">COMPLETED", ">FAILED", ">TIMED OUT", ">MB OFFERED", ">kB A SERVICE", "VALID"]);
    for row in rows {
        let bytes = row.offered_bytes.map(|bytes| bytes as f64);
        let each = bytes.filter(|_| row.completed > 0).map(|bytes| bytes / row.completed as f64 / 1e3);
        table.row([
            row.run.to_owned(),
            row.completed.to_string(),
            row.failed.saturating_sub(row.timed_out).to_string(),
            row.timed_out.to_string(),
            bytes.map(|bytes| format!("{:.1}", bytes / 1e6)).unwrap_or_default(),
            each.map(|each| format!("{each:.0}")).unwrap_or_default(),
            if row.valid { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_have_their_own_column() {
        let varied = BTreeMap::new();
        let row = SweepRow {
            run: "near",
            varied: &varied,
            completed: 4,
            failed: 5,
            timed_out: 3,
            offered_bytes: Some(2_000_000),
            valid: true,
            folder: Path::new("near"),
        };
        let text = table(&[row]).render(str::to_owned);
        let cells: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(cells, ["near", "4", "2", "3", "2.0", "500", "yes"], "{text}");
    }
}
