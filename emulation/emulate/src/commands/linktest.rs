//! `emulate linktest`: tests whether the network matches its description.

use std::time::Duration;

use clap::{Args, ValueEnum};
use roost_lab::Lab;
use roost_lab::linktest::criteria::DELAY_ERROR_MS;
use roost_lab::linktest::{
    self, LinktestKind, LinktestMeasurement, LinktestOptions, LinktestOutcome as Ending, LinktestReport,
};
use roost_terminal::{Output, SCHEMA, Steps, Table};
use roost_topology::Topology;
use serde_json::json;

use super::interrupt::{self, Interrupted};
use super::lab::{self, LabArgs};
use crate::failure::{CommandResult, Failure, FailureCode};

/// `emulate linktest`.
#[derive(Debug, Args)]
pub(crate) struct LinktestArgs {
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    what: LinktestSelection,
}

/// Tests to run; the shell's `linktest` takes the same.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinktestSelection {
    /// A few seconds instead of a minute: fewer probes, and delay between adjacent hosts only
    #[arg(long)]
    quick: bool,
    /// Only this; may be given more than once
    #[arg(long, value_name = "TEST", value_enum)]
    only: Vec<LinktestCheck>,
    /// Only this link or LAN; may be given more than once
    #[arg(long, value_name = "NAME")]
    net: Vec<String>,
}

/// See [`LinktestSelection::only`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LinktestCheck {
    /// Connectivity between all hosts
    Routes,
    /// Delay of one way
    Delay,
    /// Loss
    Loss,
    /// Rate
    Rate,
}

/// Brings the network up and measures it.
pub(crate) fn run(args: &LinktestArgs, output: Output) -> CommandResult {
    let lab = lab::open(&args.lab, output)?;
    let interrupted = interrupt::catch_sigint()?;
    let report = measure(&lab, lab.topology(), &args.what, &interrupted, output)?;
    lab.stop(Duration::ZERO)?;
    show(&report, output)?;
    interrupted.check()?;
    verdict(&report)
}

pub(crate) fn measure(
    lab: &Lab,
    described: &Topology,
    what: &LinktestSelection,
    interrupted: &Interrupted,
    output: Output,
) -> CommandResult<LinktestReport> {
    let options = what.options(described)?;
    let steps = Steps::start(output, "linktest", 4);
    let mut watch = |test: &'static str| {
        steps.say(format!("linktest: {test}"));
        steps.advance();
    };
    Ok(linktest::run(lab, described, &options, interrupted.flag(), &mut watch)?)
}

impl LinktestSelection {
    fn options(&self, topology: &Topology) -> CommandResult<LinktestOptions> {
        let place = |name: &String| {
            let place = topology.nets.iter().position(|net| net.name == *name);
            place.ok_or_else(|| Failure::bad_input(format!("there is no link or LAN `{name}`")))
        };
        let test = |only: &LinktestCheck| match only {
            LinktestCheck::Routes => None,
            LinktestCheck::Delay => Some(LinktestKind::Delay),
            LinktestCheck::Loss => Some(LinktestKind::Loss),
            LinktestCheck::Rate => Some(LinktestKind::Rate),
        };
        let tests: Vec<LinktestKind> = self.only.iter().filter_map(test).collect();
        Ok(LinktestOptions {
            quick: self.quick,
            tests: if self.only.is_empty() { LinktestKind::ALL.to_vec() } else { tests },
            reach: (self.only.is_empty() && self.net.is_empty()) || self.only.contains(&LinktestCheck::Routes),
            nets: self.net.iter().map(place).collect::<CommandResult<_>>()?,
        })
    }
}

/// Prints the results: one line for each test of each link or LAN, then every path that failed.
pub(crate) fn show(report: &LinktestReport, output: Output) -> CommandResult {
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "passed": report.passed(), "linktest": report}))?);
    }
    let mut table = Table::new(&["NET", "TEST", ">PATHS", "WORST", ">EXPECTED", ">MEASURED", ">ERROR", "RESULT"]);
    for summary in report.summaries() {
        let worst = summary.worst;
        let mut cells = row(worst);
        if summary.failed > 0 {
            cells[6] = format!("{} FAILED", summary.failed);
        }
        if summary.measured > 0 && summary.skipped > 0 {
            cells[6].push_str(&format!(", {} not measured", summary.skipped));
        }
        cells.insert(2, (summary.measured + summary.skipped).to_string());
        table.row(cells);
    }
    if !report.measurements.is_empty() {
        output.table(&table)?;
    }
    let failures: Vec<&LinktestMeasurement> = report.failures().collect();
    if !failures.is_empty() {
        output.data("\nEvery path that failed, each measured three times:\n")?;
        let mut table = Table::new(&["NET", "TEST", "PATH", ">EXPECTED", ">MEASURED", ">ERROR", "RESULT", ">ARRIVED"]);
        for failure in failures {
            let mut cells = row(failure);
            cells.push(format!("{} of {}", failure.received, failure.sent));
            table.row(cells);
        }
        output.table(&table)?;
    }
    show_reach(report, output)?;
    output.say(closing(report));
    Ok(())
}

fn row(one: &LinktestMeasurement) -> Vec<String> {
    let nothing = || "-".to_owned();
    let result = match (one.outcome, &one.why) {
        (Ending::Passed, _) if is_noise(one) => "passed: within its noise".to_owned(),
        (Ending::Passed, _) => "passed".to_owned(),
        (Ending::Failed, _) => "FAILED".to_owned(),
        (Ending::Skipped, Some(why)) => format!("not measured: {why}"),
        (Ending::Skipped, None) => "not measured".to_owned(),
    };
    vec![
        one.net.clone(),
        one.test.name().to_owned(),
        format!("{} → {}", one.from, one.to),
        if one.outcome == Ending::Skipped { nothing() } else { one.test.show(one.expected) },
        one.measured.map_or_else(nothing, |value| one.test.show(value)),
        one.error.map_or_else(nothing, |error| one.test.show_error(error)),
        result,
    ]
}

/// True if a delay with an error passed only because of its large variance.
fn is_noise(one: &LinktestMeasurement) -> bool {
    let (low, high) = DELAY_ERROR_MS;
    one.test == LinktestKind::Delay && one.error.is_some_and(|error| error <= low || error >= high)
}

fn show_reach(report: &LinktestReport, output: Output) -> CommandResult {
    const NAMED: usize = 10;
    let Some(reach) = &report.reach else { return Ok(()) };
    let tried = match reach.tried == reach.pairs {
        true => format!("all {} pairs of hosts", reach.pairs),
        false => format!("{} of {} pairs of hosts", reach.tried, reach.pairs),
    };
    output.data(&format!("routes: {tried} tried, {} out of reach\n", reach.failed))?;
    for (from, to) in reach.unreached.iter().take(NAMED) {
        output.data(&format!("  {from} does not reach {to}\n"))?;
    }
    Ok(())
}

fn closing(report: &LinktestReport) -> String {
    let measured = report.measurements.iter().filter(|one| one.outcome != Ending::Skipped).count();
    let errors = report.measurements.iter().filter(|one| one.test == LinktestKind::Delay);
    let mut errors: Vec<f64> = errors.filter_map(|one| one.error.map(f64::abs)).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).map_or_else(String::new, |error| {
        format!("; half of the mean delays are within {error:.3} ms of the description")
    });
    let late = match report.lateness_p99_ms {
        0.0 => String::new(),
        late => format!("; the core delivered 99 % of packets within {late:.3} ms of their time"),
    };
    let overruns = match report.overruns {
        0 => String::new(),
        count => format!("; {count} packets were lost because this machine was too slow"),
    };
    format!("{measured} measurements in {:.1} s{median}{late}{overruns}", report.seconds)
}

/// Fails if the test found a deviation.
pub(crate) fn verdict(report: &LinktestReport) -> CommandResult {
    let paths = report.failures().count();
    let pairs = report.reach.as_ref().map_or(0, |reach| reach.failed);
    let what = match (paths, pairs) {
        (0, 0) => return Ok(()),
        (0, pairs) => format!("{pairs} pairs of hosts are out of reach of one another"),
        (1, 0) => "one path is not as described".to_owned(),
        (paths, 0) => format!("{paths} paths are not as described"),
        (paths, pairs) => format!("{paths} paths are not as described, and {pairs} pairs of hosts are out of reach"),
    };
    let busy = if report.overruns > 0 { "; the machine was too busy to be sure" } else { "" };
    Err(Failure::new(FailureCode::Linktest, format!("{what}{busy}")))
}
