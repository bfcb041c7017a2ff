//! `emulate run`: a plan with the real daemons on its network, or a network with its own programs.

mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use roost_experiment::{Architecture, FinishedRun, NetworkRun, Plan, Prepared, RunError};
use roost_lab::Interrupt;
use roost_lab::sandbox::{self, SandboxEntry};
use roost_resources::RunOutline;
use roost_results::metrics::{MeasurementSummary, Metrics};
use roost_results::{Results, record};
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::units::{format_duration, parse_length};
use serde::Serialize;
use serde_json::json;

use super::capture::CaptureArgs;
use super::estimate::{self, ForceArgs};
use super::machines::MachineArgs;
use super::report::{failure, require_trusted};
use crate::failure::{CommandResult, Failure, FailureCode};

/// `emulate run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A plan, or a topology (.toml, .ns, .tcl) that runs programs of its own
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder of the results, empty or not there [default: results/NAME-DATE]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Another architecture than the plan's: client-server, super-node, multicast…
    #[arg(long, value_name = "NAME")]
    architecture: Option<Architecture>,
    /// Another seed than the plan's; a topology's is 1
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Another duration than the plan's; a topology runs at most so long
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = parse_length)]
    duration: Option<Duration>,
    /// Do not test the links before
    #[arg(long)]
    no_linktest: bool,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    machines: MachineArgs,
    #[command(flatten)]
    force: ForceArgs,
    /// Say what would run and for how long, and end
    #[arg(long)]
    check: bool,
}

enum RunInput {
    Plan(Box<Prepared>),
    Network(Box<NetworkRun>),
}

/// Runs a plan or a topology, makes its figures and prints a summary.
pub(crate) fn run(args: &RunArgs, output: Output) -> CommandResult {
    let mut subject = subject(args)?;
    if let RunInput::Plan(prepared) = &subject {
        prepared.check_for_daemons()?;
    }
    let topology = match &subject {
        RunInput::Plan(prepared) => &prepared.network,
        RunInput::Network(solo) => &solo.topology,
    };
    roost_lab::check_size(topology)?;
    if args.check {
        args.machines.check(topology)?;
        warnings(&subject).iter().for_each(|warning| output.say(warning));
        return check(&subject, args.machines.count(), output);
    }
    args.machines.check(topology)?;
    args.force.check_run(outline(&subject, args.machines.count()), output)?;
    args.machines.call(topology)?;
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    warnings(&subject).iter().for_each(|warning| output.say(warning));
    let machines = args.machines.greet()?;
    match &mut subject {
        RunInput::Plan(prepared) => prepared.machines.clone_from(&machines),
        RunInput::Network(solo) => solo.machines.clone_from(&machines),
    }
    let interrupt = Interrupt::listen()?;
    let name = match &subject {
        RunInput::Plan(prepared) => &prepared.plan.name,
        RunInput::Network(solo) => &solo.topology.name,
    };
    let free = || free(&Path::new("results").join(format!("{name}-{}", stamp())));
    let folder = args.output.clone().unwrap_or_else(free);
    let finished = match &subject {
        RunInput::Plan(prepared) => roost_experiment::run(prepared, &folder, &BTreeMap::new(), output, &interrupt)?,
        RunInput::Network(solo) => roost_experiment::run_network(solo, &folder, output, &interrupt)?,
    };
    machines.iter().for_each(|machines| output.say(machines.summary()));
    let finished = figures(finished, output)?;
    let results = roost_results::read(&finished.folder).map_err(|error| failure(error.into()))?;
    if output.is_json() || !output.is_quiet() {
        show(&finished, &results, output)?;
    }
    conclude(&finished, &results, output)
}

/// This machine's part of a run that several share.
fn outline(subject: &RunInput, machines: usize) -> RunOutline {
    let whole = match subject {
        RunInput::Plan(prepared) => prepared.outline(),
        RunInput::Network(solo) => solo.outline(),
    };
    whole.shared_by(machines)
}

/// Doubtful parts of the plan and its network.
fn warnings(subject: &RunInput) -> Vec<String> {
    let (topology, of_plan) = match subject {
        RunInput::Plan(prepared) => (&prepared.network, [prepared.warnings(), prepared.unused()].concat()),
        RunInput::Network(solo) => (&solo.topology, Vec::new()),
    };
    let name = &topology.name;
    let of_network = topology.notes.warnings.iter().map(|note| match note.line {
        0 => format!("{name}: warning: {}", note.text),
        line => format!("{name}, line {line}: warning: {}", note.text),
    });
    of_plan.into_iter().map(|text| format!("warning: {text}")).chain(of_network).collect()
}

fn subject(args: &RunArgs) -> CommandResult<RunInput> {
    if is_plan(&args.file)? {
        return Ok(RunInput::Plan(Box::new(prepare(args)?)));
    }
    if args.architecture.is_some() {
        let file = args.file.display();
        return Err(Failure::bad_input(format!("{file} is a topology: only a plan has an --architecture")));
    }
    let mut solo = NetworkRun::load(&args.file)?;
    solo.seed = args.seed.map_or(solo.seed, u64::from);
    solo.length = args.duration;
    solo.linktest = !args.no_linktest;
    solo.capture = args.capture.plan();
    solo.check()?;
    Ok(RunInput::Network(Box::new(solo)))
}

/// The keys that a plan must have, and that no topology has.
const PLAN_KEYS: [&str; 3] = ["topology", "architecture", "duration"];

/// True if a text is TOML with a key of plans.
pub(super) fn names_a_topology(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| PLAN_KEYS.iter().any(|key| table.contains_key(*key)))
}

/// True if a file is a plan: TOML that names a topology rather than being one.
///
/// A file with neither's keys is refused here: either reader would only report that its own keys are missing.
fn is_plan(file: &Path) -> CommandResult<bool> {
    if file.extension().is_none_or(|extension| extension != "toml") {
        return Ok(false);
    }
    let text = Plan::text(file).map_err(RunError::from)?;
    // Invalid TOML is reported by the reader of plans.
    let Ok(table) = toml::from_str::<toml::Table>(&text) else { return Ok(true) };
    let has_any = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
    let is_plan = has_any(&PLAN_KEYS);
    if !is_plan && !has_any(&["host", "link", "lan"]) {
        let file = file.display();
        return Err(Failure::bad_input(format!(
            "{file} is neither a plan nor a topology: a plan has topology, architecture and duration, \
             a topology [[host]] and [[link]] or [[lan]]"
        )));
    }
    Ok(is_plan)
}

fn prepare(args: &RunArgs) -> CommandResult<Prepared> {
    let text = Plan::text(&args.file).map_err(RunError::from)?;
    let mut values = Vec::new();
    values.extend(args.architecture.map(|architecture| ("architecture".to_owned(), architecture.name().into())));
    values.extend(args.seed.map(|seed| ("seed".to_owned(), seed.into())));
    values.extend(args.duration.map(|length| ("duration".to_owned(), format_duration(length).into())));
    values.extend(args.no_linktest.then(|| ("linktest".to_owned(), false.into())));
    values.extend(args.capture.plan().map(|capture| ("capture".to_owned(), capture.to_toml())));
    // The unchanged plan first, so that mistakes have the right lines.
    let prepared = Prepared::from_text(&text, &args.file)?;
    if values.is_empty() {
        return Ok(prepared);
    }
    let text = roost_experiment::with_values(&text, &args.file, &values).map_err(RunError::from)?;
    Ok(Prepared::from_text(&text, &args.file)?)
}

pub(crate) fn figures(finished: FinishedRun, output: Output) -> CommandResult<FinishedRun> {
    let cannot = |error| Failure::failed(format!("the run is in {}, but: {error}", finished.folder.display()));
    for remark in roost_report::write(&finished.folder).map_err(cannot)?.remarks {
        output.say(remark);
    }
    Ok(finished)
}

fn check(subject: &RunInput, machines: usize, output: Output) -> CommandResult {
    let mut table = Table::new(&["WHAT", "IS"]);
    let (mut rows, longest) = match subject {
        RunInput::Plan(prepared) => (prepared.describe(), Some(prepared.longest())),
        RunInput::Network(solo) => (solo.describe(), solo.longest()),
    };
    let estimate = estimate::now(&outline(subject, machines));
    rows.push(("needs", if estimate.shortages.is_empty() { estimate.needs() } else { estimate.explain() }));
    if output.is_json() {
        let would: BTreeMap<&str, String> = rows.into_iter().collect();
        let at_most_s = longest.map(|longest| longest.as_secs_f64());
        return Ok(output.json(&json!({ "schema": SCHEMA, "would": would, "at_most_s": at_most_s }))?);
    }
    for (what, is) in rows {
        table.row([what.to_owned(), is]);
    }
    let takes = longest.map_or_else(
        || "until its schedule or its programs end".to_owned(),
        |longest| format!("at most {} in all", format_duration(longest)),
    );
    table.row(["takes".to_owned(), takes]);
    Ok(output.table(&table)?)
}

#[derive(Serialize)]
struct RunJson<'a> {
    schema: u32,
    folder: &'a Path,
    completed: u64,
    failed: u64,
    cut: u64,
    programs: &'a [record::ProgramRecord],
    measurements: &'a [MeasurementSummary],
    traffic: &'a [record::TrafficRecord],
    run: &'a record::RunRecord,
}

fn show(finished: &FinishedRun, results: &Results, output: Output) -> CommandResult {
    let FinishedRun { folder, run, tally } = finished;
    let metrics = Metrics::from_results(results);
    if output.is_json() {
        let (completed, failed, cut) = (tally.completed, tally.failed + tally.timed_out, tally.cut);
        let (programs, traffic) = (&results.programs, &results.traffic);
        let measurements = &metrics.measurements;
        let object = RunJson { schema: SCHEMA, folder, completed, failed, cut, programs, measurements, traffic, run };
        return Ok(output.json(&object)?);
    }
    for table in tables::all(results, &metrics) {
        output.table(&table)?;
        output.data("\n")?;
    }
    output.data(&format!("{}\n", sentence(finished, &metrics)))?;
    if run.verdict.valid {
        output.painted(&format!("{} ", output.good("Valid:")))?;
        output.data(&format!("{}\n", trust(run)))?;
    }
    Ok(output.data(&format!("Look at {}\n", folder.join("index.html").display()))?)
}

fn sentence(finished: &FinishedRun, metrics: &Metrics) -> String {
    let FinishedRun { run, tally, .. } = finished;
    let offered = metrics.traffic.offered_bytes.map(|bytes| format!("; {:.1} MB offered by hosts", bytes as f64 / 1e6));
    let offered = offered.unwrap_or_default();
    if run.nodes == 0 {
        return format!("{} ran for {:.1} s{offered}.", run.name, run.ran_s);
    }
    let each = metrics.traffic.offered_per_service.map(|each| format!(", {:.0} kB a service", each / 1e3));
    let has_requests = metrics.requests.asked > 0;
    let services = if has_requests { format!("{} services completed by ", tally.completed) } else { String::new() };
    format!(
        "{}, {} over {}: {services}{} nodes in {:.0} s{offered}{}.",
        run.name,
        run.architecture,
        run.transport,
        run.nodes,
        run.ran_s,
        each.unwrap_or_default(),
    )
}

/// The quality of the emulation, in a sentence.
fn trust(run: &record::RunRecord) -> String {
    let verdict = &run.verdict;
    let known = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"));
    let mut text = format!(
        "99 % of the packets were at most {:.0} us late and read within {} us, none was lost by the emulator, at most {} % of the processors were in use.",
        verdict.lateness_p99_us,
        known(verdict.read_wait_p99_us),
        known(verdict.cpu_busy.map(|busy| busy * 100.0))
    );
    for unknown in &verdict.not_measured {
        text.push_str(&format!(" Not measured: {unknown}."));
    }
    text
}

/// Turns the verdict of a run into the command's exit.
fn conclude(finished: &FinishedRun, results: &Results, output: Output) -> CommandResult {
    let unexpected = results.programs.iter().filter(|program| !program.as_expected).count();
    if finished.run.interrupted {
        let doubt = match finished.run.verdict.reasons.as_slice() {
            [] => String::new(),
            reasons => format!(", and cannot be trusted: {}", reasons.join("; ")),
        };
        let said = format!("interrupted; what had been measured is in the results{doubt}");
        return Err(Failure::new(FailureCode::Interrupted, said));
    }
    if unexpected > 0 {
        let all = results.programs.len();
        return Err(Failure::failed(format!("{unexpected} of {all} programs did not end as expected")));
    }
    require_trusted(&finished.run.verdict.reasons, output)
}

/// The time for names of folders: `20261121-103025`.
fn stamp() -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at(digits.len().min(8));
    format!("{date}-{time}")
}

/// The folder, or one with a number appended if it exists.
fn free(folder: &Path) -> PathBuf {
    let numbered = |number| PathBuf::from(format!("{}-{number}", folder.display()));
    let mut names = std::iter::once(folder.to_owned()).chain((2..).map(numbered));
    names.find(|name| !name.exists()).unwrap_or_else(|| folder.to_owned())
}
