//! `emulate simulate`: a plan in virtual time.

mod seeds;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use roost_experiment::{Architecture, Plan, Prepared, RunError};
use roost_results::metrics::{self, RoomUse};
use roost_sim::{Detail, ProgressListener, ServiceCounts, SimOutcome as Simulated, SimProgress, SimulateError};
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::units::{format_duration, parse_length};
use serde::Serialize;

use super::jobs::JobArgs;
use super::rooms;
use crate::failure::{CommandResult, Failure};

/// The most violations of a run that are printed.
const MAX_TOLD: usize = 5;

/// `emulate simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// A plan
    #[arg(value_name = "PLAN")]
    file: PathBuf,
    /// Leave what `emulate run` would in this folder, which is empty or not there; of several seeds each in a folder
    /// of its own below, beside a page of all. Seeds that are complete there are not repeated
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The level of detail: packet (QUIC is real), or message (cheaper, for thousands of nodes)
    #[arg(long, value_name = "NAME", default_value_t = Detail::Packet)]
    level: Detail,
    /// Another architecture than the plan's: client-server, client-server-caching, super-node…
    #[arg(long, value_name = "NAME")]
    architecture: Option<Architecture>,
    /// Another seed than the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// The number of seeds, counted from the first; the output names those that fail
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    #[command(flatten)]
    jobs: JobArgs,
    /// Another duration than the plan's
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = parse_length)]
    duration: Option<Duration>,
}

/// The output of `--json` for a run.
#[derive(Serialize)]
struct SimulateJson<'a> {
    schema: u32,
    seed: u64,
    trace_hash: String,
    requested: u64,
    completed: u64,
    virtual_s: f64,
    wall_s: f64,
    nodes: usize,
    /// Unknown of a kept run whose facts lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    by_service: &'a BTreeMap<String, ServiceCounts>,
    #[serde(skip_serializing_if = "<[RoomUse]>::is_empty")]
    rooms: &'a [RoomUse],
    violations: Vec<String>,
    overflows: u64,
}

/// Simulates a plan, with one seed or several.
pub(crate) fn run(args: &SimulateArgs, output: Output) -> CommandResult {
    let prepared = prepare(args)?;
    let warnings = prepared.unused().into_iter().chain(prepared.unused_in_simulation());
    warnings.for_each(|warning| output.say(format!("warning: {warning}")));
    match args.seeds {
        Some(count) if count > 1 => seeds::run(args, prepared, count, output),
        _ => run_one(args, &prepared, output),
    }
}

fn run_one(args: &SimulateArgs, prepared: &Prepared, output: Output) -> CommandResult {
    let (seed, tell) = (prepared.plan.seed, ProgressLog::create_callback(output));
    let simulated = roost_sim::simulate_with_progress(prepared, args.level, args.output.as_deref(), tell)?;
    if let Some(folder) = &args.output {
        let written = roost_report::write(folder).map_err(super::report::failure)?;
        written.remarks.iter().for_each(|remark| output.say(remark));
        look_at(&written.page, output);
    }
    if output.is_json() {
        output.json(&object(seed, &simulated))?;
    } else if !output.is_quiet() {
        show(prepared, &simulated, output)?;
    }
    tell_violations(args, seed, &simulated, output);
    require_sound(u32::from(!simulated.is_sound()), 1)
}

fn require_sound(failed: u32, count: u32) -> CommandResult {
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("invariants were violated with {failed} of {count} seeds"))),
    }
}

/// The plan, with the overrides of the command line.
fn prepare(args: &SimulateArgs) -> CommandResult<Prepared> {
    let text = Plan::text(&args.file).map_err(RunError::from)?;
    let mut values = Vec::new();
    values.extend(args.architecture.map(|architecture| ("architecture".to_owned(), architecture.name().into())));
    values.extend(args.seed.map(|seed| ("seed".to_owned(), (seed as i64).into())));
    values.extend(args.duration.map(|length| ("duration".to_owned(), format_duration(length).into())));
    if values.is_empty() {
        return Ok(Prepared::from_text(&text, &args.file)?);
    }
    // The unchanged plan first, so that mistakes have the right lines.
    Plan::parse(&text, &args.file).map_err(RunError::from)?;
    let text = roost_experiment::with_values(&text, &args.file, &values).map_err(RunError::from)?;
    Ok(Prepared::from_text(&text, &args.file)?)
}

fn object(seed: u64, simulated: &Simulated) -> SimulateJson<'_> {
    SimulateJson {
        schema: SCHEMA,
        seed,
        trace_hash: format!("{:016x}", simulated.trace_hash),
        requested: simulated.requested,
        completed: simulated.completed,
        virtual_s: simulated.virtual_s,
        wall_s: simulated.wall_s,
        nodes: simulated.nodes,
        steps: Some(simulated.steps),
        by_service: &simulated.by_service,
        rooms: &simulated.rooms,
        violations: simulated.violations.iter().map(roost_sim::Violation::sentence).collect(),
        overflows: simulated.overflows,
    }
}

fn show(prepared: &Prepared, simulated: &Simulated, output: Output) -> CommandResult {
    let table = services(&simulated.by_service);
    let rooms = rooms::table(&simulated.rooms);
    if rooms.is_none() || !simulated.by_service.is_empty() {
        output.table(&table)?;
        output.data(if rooms.is_some() { "\n" } else { "" })?;
    }
    rooms.map_or(Ok(()), |table| output.table(&table))?;
    let Simulated { completed, requested, nodes, virtual_s, wall_s, trace_hash, .. } = simulated;
    let services =
        if *requested > 0 { format!("{completed} of {requested} services completed by ") } else { String::new() };
    output.data(&format!(
        "\n{}, {} over {}: {services}{nodes} nodes in {virtual_s:.1} s, \
         computed in {wall_s:.2} s ({} times as fast).\nTrace {trace_hash:016x} of seed {}.\n",
        prepared.plan.name,
        prepared.plan.architecture.name(),
        prepared.plan.transport.name(),
        speed(virtual_s / wall_s.max(1e-9)),
        prepared.plan.seed,
    ))?;
    Ok(())
}

/// The services, each request in one column of outcomes.
fn services(by_service: &BTreeMap<String, ServiceCounts>) -> Table {
    let outcomes = [">ASKED", ">COMPLETED", ">FAILED", ">TIMED OUT", ">CUT"];
    let mut table = Table::new(&[&["SERVICE"], &outcomes[..], &[">p50 ms", ">p95 ms", ">p99 ms"]].concat());
    // In brackets, as in the report, if too few requests lie beyond it.
    let ms = |value: Option<f64>, completed: u64, thousandths: u32| match value {
        Some(value) if metrics::has_enough_values(completed, thousandths) => format!("{value:.1}"),
        Some(value) => format!("({value:.1})"),
        None => String::new(),
    };
    for (name, service) in by_service {
        let ServiceCounts { requested, completed, failed, timed_out, cut, .. } = *service;
        let counts = [requested, completed, failed.saturating_sub(timed_out), timed_out, cut];
        let latencies = [(service.p50_ms, 500), (service.p95_ms, 950), (service.p99_ms, 990)]
            .map(|(value, thousandths)| ms(value, completed, thousandths));
        table.row(std::iter::once(name.clone()).chain(counts.map(|count| count.to_string())).chain(latencies));
    }
    table
}

/// A factor with at least two digits: it may be less than one.
fn speed(factor: f64) -> String {
    let decimals = if factor < 0.1 { 3 } else { usize::from(factor < 10.0) };
    format!("{factor:.decimals$}")
}

/// Prints violations, and the command that reproduces them.
fn tell_violations(args: &SimulateArgs, seed: u64, simulated: &Simulated, output: Output) {
    if simulated.is_sound() {
        return;
    }
    simulated.overflow().into_iter().for_each(|sentence| output.say(sentence));
    for violation in simulated.violations.iter().take(MAX_TOLD) {
        output.say(violation.sentence());
    }
    let more = simulated.violations.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        output.say(format!("and {more} more"));
    }
    output.say(format!("see it again: {}", replay(args, seed)));
}

fn replay(args: &SimulateArgs, seed: u64) -> String {
    let mut command = format!("emulate simulate {} --seed {seed}", quoted(&args.file.to_string_lossy()));
    if args.level != Detail::default() {
        command.push_str(&format!(" --level {}", args.level));
    }
    if let Some(architecture) = args.architecture {
        command.push_str(&format!(" --architecture {}", architecture.name()));
    }
    if let Some(duration) = args.duration {
        command.push_str(&format!(" --duration {}", format_duration(duration)));
    }
    command
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match word {
        "" => "''".to_owned(),
        _ if word.chars().all(is_plain) && !word.starts_with('-') => word.to_owned(),
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn look_at(page: &Path, output: Output) {
    if !output.is_json() {
        output.say(format!("Look at {}", page.display()));
    }
}

/// The time before a run's first progress line, and between two lines.
const SILENCE: Duration = Duration::from_secs(3);
const PACE: Duration = Duration::from_secs(10);

/// Prints progress lines now and then, even without a terminal.
struct ProgressLog {
    output: Output,
    began: Instant,
    next: Duration,
}

impl ProgressLog {
    fn create_callback(output: Output) -> ProgressListener {
        let mut sparse = Self { output, began: Instant::now(), next: SILENCE };
        Box::new(move |at| {
            if let Some(line) = sparse.line(at, sparse.began.elapsed()) {
                sparse.output.say(line);
            }
        })
    }

    /// The progress line, if one is due after this time.
    fn line(&mut self, at: SimProgress, passed: Duration) -> Option<String> {
        if passed < self.next {
            return None;
        }
        self.next = passed + PACE;
        let seconds = passed.as_secs();
        Some(match at {
            SimProgress::Joining { joined, of: all } => format!("{seconds} s: {joined} of {all} nodes have a home"),
            SimProgress::Running { now, of: all } if now > all => format!("{seconds} s: draining"),
            SimProgress::Running { now, of: all } => {
                let part = now.as_secs_f64() / all.as_secs_f64().max(1e-9);
                format!("{seconds} s: {:.0} % of {} simulated", part * 100.0, format_duration(all))
            }
        })
    }
}

impl From<SimulateError> for Failure {
    fn from(error: SimulateError) -> Self {
        match error {
            SimulateError::Run(error) => error.into(),
            SimulateError::File { .. } => Self::failed(error.to_string()),
            _ => Self::bad_input(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use roost_terminal::OutputArgs;

    use super::*;

    #[derive(Parser)]
    struct SimulateTestCli {
        #[command(flatten)]
        args: SimulateArgs,
    }

    fn args(words: &[String]) -> SimulateArgs {
        SimulateTestCli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args
    }

    /// Splits a command into words like `sh`.
    fn words(command: &str) -> Vec<String> {
        let shell = std::process::Command::new("sh").args(["-c", &format!("printf '%s\\n' {command}")]).output();
        String::from_utf8(shell.unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn progress_is_told_now_and_then() {
        let mut sparse = ProgressLog {
            output: OutputArgs { quiet: true, no_color: true, ..OutputArgs::default() }.output(),
            began: Instant::now(),
            next: SILENCE,
        };
        let running = |now| SimProgress::Running { now: Duration::from_secs(now), of: Duration::from_secs(60) };
        let said = [1, 3, 4, 12, 13].map(|s| sparse.line(running(30), Duration::from_secs(s)).unwrap_or_default());
        assert_eq!(said, ["", "3 s: 50 % of 60s simulated", "", "", "13 s: 50 % of 60s simulated"]);
        let joining = sparse.line(SimProgress::Joining { joined: 5, of: 9 }, Duration::from_secs(60));
        assert_eq!(joining.unwrap(), "60 s: 5 of 9 nodes have a home");
    }

    #[test]
    fn outcomes_of_requests_are_apart() {
        let counts =
            ServiceCounts { requested: 10, completed: 4, failed: 5, timed_out: 3, cut: 1, ..ServiceCounts::default() };
        let text = services(&[("image".to_owned(), counts)].into()).render(str::to_owned);
        let cells: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(cells[0][..6], ["SERVICE", "ASKED", "COMPLETED", "FAILED", "TIMED OUT", "CUT"]);
        assert_eq!(cells[1], ["image", "10", "4", "2", "3", "1"]);
    }

    #[test]
    fn slow_simulation_is_not_zero() {
        assert_eq!([speed(0.04), speed(0.4), speed(2.34), speed(512.3)], ["0.040", "0.4", "2.3", "512"]);
    }

    #[test]
    fn replay_command_repeats_same_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("somebody's plan $1.toml");
        let plan = "topology = { star = { nodes = 4, delay = '5ms' } }\narchitecture = 'super-node'\nduration = '9s'\n";
        std::fs::write(&file, format!("{plan}seed = 5000000000\n")).unwrap();
        for more in [
            &["--seeds", "3"][..],
            &["--level", "message", "--architecture", "client-server", "--for", "1500ms"],
            &["--seed", "7", "--seeds", "2", "--architecture", "multicast"],
        ] {
            let given: Vec<String> =
                ["simulate", &file.to_string_lossy()].iter().chain(more).map(|word| (*word).to_owned()).collect();
            let given = args(&given);
            let mut first = prepare(&given).unwrap();
            // Not the first of the seeds.
            first.plan.seed += 1;
            let told = words(&replay(&given, first.plan.seed));
            assert_eq!(told[..2], ["emulate", "simulate"]);
            let again = args(&told[1..]);
            let second = prepare(&again).unwrap();
            let of = |prepared, level| roost_sim::simulate(prepared, level).unwrap();
            let (first, second) = (of(&first, given.level), of(&second, again.level));
            assert!(first.requested > 0, "{told:?}");
            assert_eq!((first.trace_hash, first.requested), (second.trace_hash, second.requested), "{told:?}");
        }
    }
}
