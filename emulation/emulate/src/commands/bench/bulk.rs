//! `emulate bench bulk`: goodput of an object on long and lossy paths.

use clap::Args;
use roost_bench::bulk::{self, BulkCase, BulkReport, BulkRow, BulkSender, PathProfile};
use roost_lab::sandbox::{self, SandboxEntry};
use roost_terminal::{Output, Steps, Table};

use super::measured::{NetworkArgs, all_measured, show_measured, stepping};
use crate::commands::interrupt;
use crate::failure::{CommandResult, Failure, FailureCode};

/// Published measurements of TCP cubic, TCP BBR and UDT4: goodput over link rate.
const ELSEWHERE: [(&str, [f64; 3]); 5] = [
    ("thin", [0.19, 0.86, 0.37]),
    ("regional", [0.27, 0.92, 0.15]),
    ("satellite", [0.18, 0.70, 0.35]),
    ("clean", [0.88, 0.88, 0.70]),
    ("nearly-clean", [0.42, 0.87, 0.60]),
];

/// `emulate bench bulk`.
#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    /// Only this path: thin, regional, the same two without losses as thin-clean and regional-clean,
    /// satellite, clean, nearly-clean, or shared for two at once; may be given more than once
    #[arg(long, value_name = "PATH", value_delimiter = ',', value_parser = routes)]
    path: Vec<PathProfile>,
    /// Only this sender: tcp-cubic, tcp-bbr, tcp-32k whose window is no larger, udt4, or
    /// quic with cubic, rate, udt, bbr; may be given more than once
    #[arg(long, value_name = "SENDER", value_delimiter = ',')]
    sender: Vec<BulkSender>,
    /// Time that each run sends; two at once at least 20 s. Without it 45 on paths that lose much, 16 on the
    /// clean ones, 30 on the others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: Option<u32>,
    /// Number of runs that each row is made of, whose losses differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    #[command(flatten)]
    network: NetworkArgs,
}

fn routes(text: &str) -> Result<PathProfile, String> {
    let mut all = PathProfile::ALL.into_iter().chain([PathProfile::SHARED]);
    all.find(|route| route.name == text).ok_or_else(|| {
        let names = PathProfile::ALL.map(|route| route.name).join(", ");
        format!("`{text}` is no path: write {names}, shared")
    })
}

pub(crate) fn run(args: &BulkArgs, output: Output) -> CommandResult {
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    let interrupted = interrupt::catch_sigint()?;
    let cells = args.cells();
    let steps = Steps::start(output, "bench bulk", cells.len() * args.seeds as usize);
    let mut watch = stepping(steps, |cell: &BulkCase| format!("bench bulk: {}, {}", cell.route.name, cell.name()));
    let report =
        bulk::run(&cells, args.seconds, args.seeds.into(), &args.network.options(), interrupted.flag(), &mut watch)?;
    drop(watch);
    show(&report, output)?;
    interrupted.check()?;
    all_measured(&report)?;
    match report.rows.iter().map(|row| row.aborted).sum::<usize>() {
        0 => Ok(()),
        aborted => Err(Failure::new(FailureCode::Invalid, format!("{aborted} runs did not come to an end, see above"))),
    }
}

impl BulkArgs {
    /// The combinations by path, so that comparable ones are and run side by side.
    fn cells(&self) -> Vec<BulkCase> {
        let senders: Vec<BulkSender> =
            BulkSender::ALL.into_iter().filter(|one| self.sender.is_empty() || self.sender.contains(one)).collect();
        let is_chosen = |route: &PathProfile| self.path.is_empty() || self.path.contains(route);
        let mut cells = Vec::new();
        for route in PathProfile::ALL.into_iter().filter(is_chosen) {
            cells.extend(senders.iter().map(|sender| BulkCase { route, sender: *sender, competitor: None }));
        }
        for route in [PathProfile::SHARED].into_iter().filter(is_chosen) {
            cells.extend(senders.iter().map(|sender| BulkCase { route, sender: *sender, competitor: Some(*sender) }));
            let others = senders.iter().filter(|sender| **sender != BulkSender::TcpCubic);
            cells.extend(others.map(|sender| BulkCase {
                route,
                sender: BulkSender::TcpCubic,
                competitor: Some(*sender),
            }));
        }
        cells
    }
}

fn show(report: &BulkReport, output: Output) -> CommandResult {
    let mut table = Table::new(&[
        "PATH",
        "SENDER",
        ">GOODPUT",
        ">ELSEWHERE",
        ">STEADY",
        ">WASTE %",
        ">QUEUE ms",
        ">p95 ms",
        ">JAIN",
        ">LATER",
    ]);
    report.rows.iter().for_each(|row| table.row(cells(row)));
    show_measured(report, &table, "", output)
}

/// Published goodput of a sender on a path.
fn published_goodput(row: &BulkRow) -> Option<f64> {
    let (_, seen) = ELSEWHERE.iter().find(|(path, _)| *path == row.path)?;
    let sender = ["tcp-cubic", "tcp-bbr", "udt4"].iter().position(|one| *one == row.sender)?;
    Some(seen[sender])
}

fn cells(row: &BulkRow) -> [String; 10] {
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    [
        row.path.to_owned(),
        row.sender.clone(),
        ratio(Some(row.goodput_ratio)),
        ratio(published_goodput(row)),
        ratio(Some(row.steady_ratio)),
        format!("{:.1}", row.waste * 100.0),
        format!("{:.0}", row.mean_queue_ms),
        format!("{:.0}", row.p95_queue_ms),
        ratio(row.jain),
        ratio(row.later_share),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct BulkTestCli {
        #[command(flatten)]
        args: BulkArgs,
    }

    fn chosen(line: &str) -> Vec<String> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        let cells = BulkTestCli::try_parse_from(words).map(|line| line.args.cells()).unwrap_or_default();
        cells.iter().map(|cell| format!("{} {}", cell.route.name, cell.name())).collect()
    }

    #[test]
    fn default_selects_all_cases() {
        assert_eq!(chosen("").len(), 7 * 8 + 8 + 7);
        assert_eq!(chosen("--path thin,clean --sender rate"), ["thin rate", "clean rate"]);
        assert_eq!(chosen("--path shared --sender rate"), ["shared rate+rate", "shared tcp-cubic+rate"]);
        assert_eq!(chosen("--path moon").len() + chosen("--sender sctp").len(), 0);
    }
}
