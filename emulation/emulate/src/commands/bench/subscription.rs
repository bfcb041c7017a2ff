//! `emulate bench subscription`: a reflected stream as its receivers see it.

use clap::Args;
use roost_bench::subscription::{self, SubscriptionCase, SubscriptionReport, SubscriptionRow};
use roost_lab::sandbox::{self, SandboxEntry};
use roost_terminal::{Output, Steps, Table};

use super::measured::{NetworkArgs, all_measured, show_measured, stepping};
use crate::commands::interrupt;
use crate::failure::{CommandResult, Failure};

/// `emulate bench subscription`.
#[derive(Debug, Args)]
pub(crate) struct SubscriptionArgs {
    /// Only this: join-first, join-reflected, join-again, leave-subscribers, leave-providers, uplink-1,
    /// uplink-4, uplink-8, direct-4 or direct-8; may be given more than once
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    case: Vec<SubscriptionCase>,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(crate) fn run(args: &SubscriptionArgs, output: Output) -> CommandResult {
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    let interrupted = interrupt::catch_sigint()?;
    let cases: Vec<SubscriptionCase> =
        SubscriptionCase::ALL.into_iter().filter(|case| args.case.is_empty() || args.case.contains(case)).collect();
    let steps = Steps::start(output, "bench subscription", cases.len());
    let mut stepped = stepping(steps, |case: &SubscriptionCase| format!("bench subscription: {case}"));
    let report = subscription::run(&cases, &args.network.options(), interrupted.flag(), &mut stepped)?;
    drop(stepped);
    show(&report, output)?;
    interrupted.check()?;
    all_measured(&report)
}

fn show(report: &SubscriptionReport, output: Output) -> CommandResult {
    let mut table = Table::new(&[
        "CASE",
        ">WATCHERS",
        ">RTT ms",
        ">PICTURE ms",
        ">GAP ms",
        ">BEFORE ms",
        ">LOST",
        ">TWICE",
        ">COPIES",
        "RESULT",
    ]);
    report.rows.iter().for_each(|row| table.row(cells(row)));
    show_measured(report, &table, "", output)
}

fn cells(row: &SubscriptionRow) -> [String; 10] {
    let dash = || "-".to_owned();
    let number = |value: Option<f64>, digits: usize| value.map_or_else(dash, |value| format!("{value:.digits$}"));
    let count = |value: Option<u64>| value.map_or_else(dash, |value| value.to_string());
    let result = match row.met {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "",
    };
    [
        row.case.to_owned(),
        row.watchers.to_string(),
        number(Some(row.round_trip_ms), 0),
        number(row.picture_ms, 1),
        number(row.gap_ms, 1),
        number(row.gap_before_ms, 1),
        count(row.lost),
        count(row.twice),
        number(row.copies, 2),
        result.to_owned(),
    ]
}
