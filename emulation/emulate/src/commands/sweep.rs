//! `emulate sweep`: every combination of the values in a plan's `[sweep]` table.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use roost_experiment::{Plan, Prepared, RunError, SweepRun};
use roost_lab::Interrupt;
use roost_lab::sandbox;
use roost_results::metrics::Metrics;
use roost_results::record::SIMULATION;
use roost_results::{PLAN_FILE, Results, TOPOLOGY_FILE};
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::units::format_duration;
use serde::Serialize;
use serde_json::json;

use super::report::{failure, require_trusted};
use super::run::figures;
use crate::failure::{CommandResult, Failure, FailureCode};

/// `emulate sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[allow(rustdoc::broken_intra_doc_links, reason = "it is the help, printed as it stands")]
    /// The plan, with a [sweep] table
    plan: PathBuf,
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
    /// Say what would run and for how long, and end
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunMode {
    Emulated,
    Simulated,
}

impl SweepArgs {
    const fn how(&self) -> RunMode {
        if self.simulate { RunMode::Simulated } else { RunMode::Emulated }
    }
}

struct SweepTask {
    cell: SweepRun,
    prepared: Prepared,
    folder: PathBuf,
    state: RunFolderState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunFolderState {
    /// Empty, or a run that broke off.
    Open,
    /// A run whose figures cannot be trusted.
    NotValid,
    Complete,
}

impl RunFolderState {
    const fn name(self, keep_invalid: bool) -> &'static str {
        match self {
            Self::Open => "to be run",
            Self::NotValid if keep_invalid => "not valid",
            Self::NotValid => "not valid, to be run again",
            Self::Complete => "complete",
        }
    }
}

impl SweepTask {
    fn is_due(&self, keep_invalid: bool) -> bool {
        self.state == RunFolderState::Open || self.state == RunFolderState::NotValid && !keep_invalid
    }
}

pub(crate) fn run(args: &SweepArgs, output: Output) -> CommandResult {
    let (folder, tasks) = tasks(args)?;
    for warning in tasks.iter().flat_map(|task| task.prepared.warnings()).collect::<BTreeSet<_>>() {
        output.say(format!("warning: {warning}"));
    }
    // A sweep over architectures has settings for each of them.
    let of_one = tasks.iter().filter(|task| !task.cell.varied.contains_key("architecture"));
    for warning in of_one.flat_map(|task| task.prepared.unused()).collect::<BTreeSet<_>>() {
        output.say(format!("warning: {warning}"));
    }
    if args.check {
        return check(&tasks, args.keep_invalid, output);
    }
    let open: Vec<&SweepTask> = tasks.iter().filter(|task| task.is_due(args.keep_invalid)).collect();
    let mut failures = Vec::new();
    if !open.is_empty() {
        if args.how() == RunMode::Emulated
            && let sandbox::SandboxEntry::Done(code) = sandbox::enter()?
        {
            return Err(Failure::ProgramExit(code));
        }
        failures = run_all(&open, args.how(), output, &Interrupt::listen()?)?;
    }
    let failed = failures.first().map(|first| {
        let (count, all) = (failures.len(), tasks.len());
        Failure::failed(format!("{count} of {all} runs did not come about; the first: {first}"))
    });
    let page = match roost_report::combine(&folder) {
        Ok(combined) => combined.page,
        // Without any run there is nothing to show; this error has the reason.
        Err(error) => return Err(failed.unwrap_or_else(|| failure(error))),
    };
    let untrusted = show(&tasks, output)?;
    output.say(format!("Look at {}", page.display()));
    failed.map_or_else(|| require_trusted(&untrusted, output), Err)
}

/// The folder of the sweep, and its runs.
fn tasks(args: &SweepArgs) -> CommandResult<(PathBuf, Vec<SweepTask>)> {
    let text = Plan::text(&args.plan).map_err(RunError::from)?;
    let cells = roost_experiment::sweep_runs(&text, &args.plan).map_err(RunError::from)?;
    // The default is the plan's name, which a sweep does not vary.
    let name = Prepared::from_text(&text, &args.plan)?.plan.name;
    let all = args.output.clone().unwrap_or_else(|| Path::new("results").join(name));
    let (mut tasks, mut programs) = (Vec::with_capacity(cells.len()), Hashes::new());
    for cell in cells {
        let prepared = Prepared::from_text(&cell.text, &args.plan)
            .map_err(|error| Failure::bad_input(format!("the run {}: {error}", cell.name)))?;
        let folder = all.join(&cell.name);
        let state = state(&folder, &prepared, args.how(), &mut programs)?;
        tasks.push(SweepTask { cell, prepared, folder, state });
    }
    Ok((all, tasks))
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
    if plan != prepared.effective() {
        return other("a run of another plan");
    }
    if read(TOPOLOGY_FILE).is_some_and(|topology| topology != prepared.network_file()) {
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

/// Makes open runs; returns the failures of those that did not start.
fn run_all(open: &[&SweepTask], how: RunMode, output: Output, interrupt: &Interrupt) -> CommandResult<Vec<String>> {
    let mut failures = Vec::new();
    for (index, task) in open.iter().enumerate() {
        if interrupt.is_set() {
            return Err(interrupted());
        }
        output.say(format!("{} of {}: {}", index + 1, open.len(), task.cell.name));
        if task.folder.exists() {
            // The run broke off, or is not valid: its content is useless.
            std::fs::remove_dir_all(&task.folder).map_err(|error| Failure::file("remove", &task.folder, &error))?;
        }
        if how == RunMode::Simulated {
            simulated(task, output)?;
            continue;
        }
        match roost_experiment::run(&task.prepared, &task.folder, &task.cell.varied, output, interrupt) {
            Ok(finished) => {
                if figures(finished, output)?.run.interrupted {
                    return Err(interrupted());
                }
            }
            // Further runs may succeed.
            Err(RunError::Failed(message)) => failures.push(format!("{}: {message}", task.cell.name)),
            Err(RunError::Records(message)) => return Err(full(&task.cell.name, &message)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(failures)
}

/// Simulates a run, and makes its page.
fn simulated(task: &SweepTask, output: Output) -> CommandResult {
    let seen = roost_sim::simulate_varied(&task.prepared, &task.folder, &task.cell.varied)?;
    seen.violations.iter().for_each(|violation| output.say(violation.sentence()));
    roost_report::write(&task.folder).map_err(failure).map(drop)
}

fn interrupted() -> Failure {
    Failure::new(FailureCode::Interrupted, "interrupted; the same command goes on with the runs that are not complete")
}

/// A full disk would stop the other runs as well.
fn full(run: &str, message: &str) -> Failure {
    Failure::failed(format!("{run}: {message}; the sweep ends here, and the same command goes on when there is room"))
}

fn check(tasks: &[SweepTask], keep_invalid: bool, output: Output) -> CommandResult {
    if output.is_json() {
        let run = |task: &SweepTask| {
            json!({
                "run": task.cell.name,
                "varied": task.cell.varied,
                "nodes": task.prepared.placement.nodes.len(),
                "architecture": task.prepared.plan.architecture.name(),
                "at_most_s": task.prepared.longest().as_secs_f64(),
                "is": task.state.name(keep_invalid),
                "due": task.is_due(keep_invalid),
            })
        };
        return Ok(output.json(&json!({ "schema": SCHEMA, "runs": tasks.iter().map(run).collect::<Vec<_>>() }))?);
    }
    let mut table = Table::new(&["RUN", ">NODES", "ARCHITECTURE", ">AT MOST", "IS"]);
    for SweepTask { cell, prepared, state, .. } in tasks {
        table.row([
            cell.name.clone(),
            prepared.placement.nodes.len().to_string(),
            prepared.plan.architecture.name().to_owned(),
            format_duration(prepared.longest()),
            state.name(keep_invalid).to_owned(),
        ]);
    }
    Ok(output.table(&table)?)
}

/// A run of the sweep, as JSON.
#[derive(Serialize)]
struct SweepRow<'a> {
    run: &'a str,
    varied: &'a BTreeMap<String, String>,
    completed: u64,
    failed: u64,
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
    // Runs that did not start are reported separately.
    let all = tasks.iter().filter_map(|task| Some((task, roost_results::read(&task.folder).ok()?)));
    let all: Vec<(&SweepTask, Results)> = all.collect();
    let rows: Vec<SweepRow<'_>> = all.iter().map(|(task, results)| row(task, results)).collect();
    let (invalid, count) = (rows.iter().filter(|row| !row.valid).count(), rows.len());
    if output.is_json() {
        output.json(&SweepJson { schema: SCHEMA, runs: rows })?;
    } else {
        output.table(&table(&rows))?;
    }
    let reason = (invalid > 0).then(|| format!("{invalid} of {count} runs are not valid; their pages say why"));
    Ok(reason.into_iter().collect())
}

fn row<'a>(task: &'a SweepTask, results: &Results) -> SweepRow<'a> {
    let metrics = Metrics::from_results(results);
    let requests = &metrics.requests;
    SweepRow {
        run: &task.cell.name,
        varied: &task.cell.varied,
        completed: requests.completed,
        failed: requests.failed + requests.timed_out,
        offered_bytes: metrics.traffic.offered_bytes,
        valid: results.run.verdict.valid,
        folder: &task.folder,
    }
}

fn table(rows: &[SweepRow<'_>]) -> Table {
    let mut table = Table::new(&["RUN", ">COMPLETED", ">FAILED", ">MB OFFERED", ">kB A SERVICE", "VALID"]);
    for row in rows {
        let bytes = row.offered_bytes.map(|bytes| bytes as f64);
        let each = bytes.filter(|_| row.completed > 0).map(|bytes| bytes / row.completed as f64 / 1e3);
        table.row([
            row.run.to_owned(),
            row.completed.to_string(),
            row.failed.to_string(),
            bytes.map(|bytes| format!("{:.1}", bytes / 1e6)).unwrap_or_default(),
            each.map(|each| format!("{each:.0}")).unwrap_or_default(),
            if row.valid { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}
