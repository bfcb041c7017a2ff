//! `emulate run`: a plan, with the real daemons on its network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use roost_emulation::experiment::{self, Finished, Interrupt, Plan, Prepared, RunError};
use roost_emulation::lab::sandbox::{self, Entry};
use roost_emulation::report::metrics::Metrics;
use roost_emulation::report::{self, record};
use roost_emulation::units::{format_duration, parse_duration};
use roost_terminal::{Output, SCHEMA, Table};
use serde::Serialize;

use crate::failure::{Code, Failure, Outcome};

/// How long a run takes before nodes ask, roughly: the network, its test, and
/// the daemons.
const SET_UP: Duration = Duration::from_secs(10);

/// `emulate run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The plan
    plan: PathBuf,
    /// Where the results go, a folder that is empty or not there [default: results/NAME-DATE]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Another seed than the plan's
    #[arg(long, value_name = "N")]
    seed: Option<i64>,
    /// Another duration than the plan's
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Say what would run and for how long, and end
    #[arg(long)]
    check: bool,
}

/// Runs a plan, makes its figures and says how it went.
pub(crate) fn run(args: &RunArgs, output: Output) -> Outcome {
    let prepared = prepare(args)?;
    if args.check {
        return check(&prepared, output);
    }
    if let Entry::Done(code) = sandbox::enter().map_err(RunError::from)? {
        return Err(Failure::Passed(code));
    }
    let interrupt = Interrupt::listen()?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => free(&Path::new("results").join(format!("{}-{}", prepared.plan.name, stamp()))),
    };
    let finished = execute(&prepared, &folder, &BTreeMap::new(), output, &interrupt)?;
    show(&finished, output)?;
    conclude(&finished)
}

fn prepare(args: &RunArgs) -> Outcome<Prepared> {
    let text = Plan::text(&args.plan).map_err(RunError::from)?;
    let mut values = Vec::new();
    values.extend(args.seed.map(|seed| ("seed".to_owned(), seed.into())));
    values.extend(args.duration.map(|length| ("duration".to_owned(), format_duration(length).into())));
    // The plan as it stands first, so that what is wrong has its line.
    let prepared = Prepared::from_text(&text, &args.plan)?;
    if values.is_empty() {
        return Ok(prepared);
    }
    let text = experiment::with_values(&text, &args.plan, &values).map_err(RunError::from)?;
    Ok(Prepared::from_text(&text, &args.plan)?)
}

/// Runs a plan and makes its figures.
pub(crate) fn execute(
    prepared: &Prepared,
    folder: &Path,
    varied: &BTreeMap<String, String>,
    output: Output,
    interrupt: &Interrupt,
) -> Outcome<Finished> {
    let finished = experiment::run(prepared, folder, varied, output, interrupt)?;
    let written = report::write(&finished.folder);
    let cannot = |error| Failure::failed(format!("the run is in {}, but: {error}", finished.folder.display()));
    for remark in written.map_err(cannot)?.remarks {
        output.say(remark);
    }
    Ok(finished)
}

/// What would run.
fn check(prepared: &Prepared, output: Output) -> Outcome {
    let mut table = Table::new(&["WHAT", "IS"]);
    for (what, is) in prepared.describe() {
        table.row([what.to_owned(), is]);
    }
    let longest = SET_UP + prepared.longest();
    table.row(["takes".to_owned(), format!("at most {} in all", format_duration(longest))]);
    Ok(output.table(&table)?)
}

/// How a run went, as JSON.
#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    folder: &'a Path,
    completed: u64,
    failed: u64,
    cut: u64,
    run: &'a record::Run,
}

fn show(finished: &Finished, output: Output) -> Outcome {
    let Finished { folder, run, tally } = finished;
    if output.is_json() {
        let (completed, failed, cut) = (tally.completed, tally.failed, tally.cut);
        return Ok(output.json(&Object { schema: SCHEMA, folder, completed, failed, cut, run })?);
    }
    let results = report::read(folder).map_err(|error| Failure::failed(error.to_string()))?;
    let metrics = Metrics::of(&results);
    output.table(&services(&metrics))?;
    let traffic = match (metrics.traffic.offered_bytes, metrics.traffic.offered_per_service) {
        (Some(bytes), Some(each)) => {
            format!("; {:.1} MB offered by hosts, {:.0} kB a service", bytes as f64 / 1e6, each / 1e3)
        }
        _ => String::new(),
    };
    let word = output.verdict(run.verdict.valid, if run.verdict.valid { "Valid." } else { "Not valid." });
    output.data(&format!(
        "\n{}, {} over {}: {} services completed by {} nodes in {:.0} s{traffic}.\n{word} {}\nResults: {}\n",
        run.name,
        run.architecture,
        run.transport,
        tally.completed,
        run.nodes,
        run.ran_s,
        trust(run),
        folder.join("index.html").display(),
    ))?;
    Ok(())
}

fn services(metrics: &Metrics) -> Table {
    let mut table = Table::new(&["SERVICE", ">COMPLETED", ">FAILED", ">TIMED OUT", ">p50 ms", ">p95 ms", ">p99 ms"]);
    let ms = |value: Option<f64>| value.map(|value| format!("{value:.1}")).unwrap_or_default();
    for service in &metrics.services {
        table.row([
            service.service.clone(),
            service.requests.completed.to_string(),
            service.requests.failed.to_string(),
            service.requests.timed_out.to_string(),
            ms(service.latency.p50),
            ms(service.latency.p95),
            ms(service.latency.p99),
        ]);
    }
    table
}

/// Whether the emulation kept up, in a sentence.
fn trust(run: &record::Run) -> String {
    let verdict = &run.verdict;
    if !verdict.valid {
        return verdict.reasons.join("; ");
    }
    format!(
        "99 % of the packets were at most {:.0} us late, none was lost by the emulator, {:.0} % of the processors were in use.",
        verdict.lateness_p99_us,
        verdict.cpu_busy * 100.0
    )
}

/// The end of a run as the end of the command.
fn conclude(finished: &Finished) -> Outcome {
    if finished.run.interrupted {
        return Err(Failure::new(Code::Interrupted, "interrupted; what had been measured is in the results"));
    }
    if !finished.run.verdict.valid {
        return Err(Failure::new(Code::Invalid, "the figures of this run cannot be trusted: its verdict says why"));
    }
    Ok(())
}

/// The time, for names of folders: `20261121-103025`.
fn stamp() -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at(digits.len().min(8));
    format!("{date}-{time}")
}

/// The folder, or the same with a number if it is taken.
fn free(folder: &Path) -> PathBuf {
    let numbered = |number| PathBuf::from(format!("{}-{number}", folder.display()));
    let mut names = std::iter::once(folder.to_owned()).chain((2..).map(numbered));
    names.find(|name| !name.exists()).unwrap_or_else(|| folder.to_owned())
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match &error {
            RunError::Plan(_) | RunError::Topology(_) => Code::BadInput,
            RunError::Missing(_) => Code::Missing,
            RunError::Lab(error) if error.is_of_the_system() => Code::Missing,
            RunError::Interrupted => Code::Interrupted,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}
