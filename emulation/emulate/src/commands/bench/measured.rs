//! Common parts of the comparisons: their sandbox, and the display of results.

use clap::Args;
use roost_bench::{Bench, BenchError, BenchOptions, Measured, Row};
use roost_lab::DeviceBackend;
use roost_terminal::{Output, SCHEMA, Steps, Table};
use serde_json::json;

use super::surroundings;
use crate::commands::interrupt::{self, Interrupted};
use crate::failure::{CommandResult, Failure, FailureCode};

/// The lab in which it is measured.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Network")]
pub(super) struct NetworkArgs {
    /// Seed of losses and of probe times; each further run has the next one
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Device that takes packets to the core: auto, tap or veth
    #[arg(long, value_name = "HOW", default_value = "auto")]
    backend: DeviceBackend,
    /// Never ask for real-time priority, nor for processors that stay awake
    #[arg(long)]
    no_realtime: bool,
}

impl NetworkArgs {
    pub(super) fn options(&self) -> BenchOptions {
        BenchOptions { seed: self.seed, backend: self.backend, realtime: !self.no_realtime, ..BenchOptions::default() }
    }
}

/// Keeps the values that are named, or all if none is.
pub(super) fn chosen<T: Copy + PartialEq>(all: &[T], named: &[T]) -> impl Iterator<Item = T> {
    all.iter().copied().filter(|one| named.is_empty() || named.contains(one))
}

/// Measures and prints rows; fails if one is missing.
pub(super) fn run_bench<B: Bench>(
    bench: impl FnOnce() -> Result<B, BenchError>,
    cases: &[B::Case],
    options: &BenchOptions,
    output: Output,
) -> CommandResult {
    let (report, interrupted) = measured(bench, cases, options, output)?;
    show_all(&report, &interrupted, output)
}

/// Prints rows; fails if one is missing.
pub(super) fn show_all<R: Row>(report: &Measured<R>, interrupted: &Interrupted, output: Output) -> CommandResult {
    show(report, output)?;
    interrupted.check()?;
    all_measured(report)
}

/// Measures with a display of progress, until it is done or interrupted.
pub(super) fn measured<B: Bench>(
    bench: impl FnOnce() -> Result<B, BenchError>,
    cases: &[B::Case],
    options: &BenchOptions,
    output: Output,
) -> CommandResult<(Measured<B::Row>, Interrupted)> {
    let interrupted = interrupt::catch_sigint()?;
    let mut bench = bench()?;
    let steps = Steps::start(output, B::NAME, cases.len() * bench.runs() as usize);
    let mut begun = false;
    let mut watch = |case: &B::Case| {
        steps.say(format!("{}: {case}", B::NAME));
        if std::mem::replace(&mut begun, true) {
            steps.advance();
        }
    };
    let report = roost_bench::measure(&mut bench, cases, options, interrupted.flag(), &mut watch)?;
    Ok((report, interrupted))
}

/// Prints results and the facts of the machine.
fn show<R: Row>(report: &Measured<R>, output: Output) -> CommandResult {
    if output.is_json() {
        let mut value = json!(report);
        value["schema"] = SCHEMA.into();
        return Ok(output.json(&value)?);
    }
    output.table(&table(&report.rows))?;
    report.notes.iter().for_each(|note| output.say(note));
    output.say(format!("{}{}", R::remark(&report.rows), surroundings(&report.machine, report.seconds)));
    if let Some(part) = report.beside.filter(|part| *part >= super::BUSY) {
        output.say(format!("Other programs, and the kernel, used {:.0} % of this machine meanwhile.", part * 100.0));
    }
    Ok(())
}

pub(super) fn table<R: Row>(rows: &[R]) -> Table {
    let headings: Vec<&str> = R::COLUMNS.iter().map(|column| column.0).collect();
    let mut table = Table::new(&headings);
    rows.iter().for_each(|row| table.row(R::COLUMNS.iter().map(|column| column.1(row, rows))));
    table
}

fn all_measured<R>(report: &Measured<R>) -> CommandResult {
    let (code, what) = match (report.unmeasured, report.aborted) {
        (0, 0) => return Ok(()),
        (0, aborted) => (FailureCode::Invalid, format!("{aborted} runs did not come to an end")),
        (1, _) => (FailureCode::Missing, "one combination could not be measured".to_owned()),
        (several, _) => (FailureCode::Missing, format!("{several} combinations could not be measured")),
    };
    Err(Failure::new(code, format!("{what}, see above")))
}
