//! `emulate bench reflect`: the throughput of reflectors.

use std::time::Duration;

use clap::{Args, ValueEnum};
use roost_bench::reflect::{self, Implementation, ReflectCase, ReflectReport, ReflectRow};
use roost_lab::sandbox::{self, SandboxEntry};
use roost_terminal::{Output, Steps, Table};

use super::capacity::{self, CapacityArgs};
use super::measured::{all_measured, show_measured, stepping};
use crate::commands::interrupt;
use crate::failure::{CommandResult, Failure};

/// `emulate bench reflect`.
#[derive(Debug, Args)]
pub(crate) struct ReflectArgs {
    /// Only this: ours, ours-sealed, ours-single, c-gso, c-sendmmsg or c-naive; may be given more
    /// than once
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    implementation: Vec<Implementation>,
    /// To so many targets, several numbers one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 10, 50], value_parser = clap::value_parser!(u16).range(1..=256))]
    targets: Vec<u16>,
    /// Datagrams of so many bytes, several sizes one after the other
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [1440, 200], value_parser = clap::value_parser!(u16).range(64..=1452))]
    bytes: Vec<u16>,
    /// With a network card that cuts messages into datagrams, or with one that leaves that to the
    /// kernel; `on,off` for both
    #[arg(long, value_name = "WHICH", value_delimiter = ',', default_value = "on")]
    offload: Vec<Offload>,
    /// Time that each trial takes
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 700, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    trial: u32,
    #[command(flatten)]
    mesh: CapacityArgs,
}

/// The part that cuts messages of several datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Offload {
    /// The network card
    On,
    /// The kernel
    Off,
}

pub(crate) fn run(args: &ReflectArgs, output: Output) -> CommandResult {
    if let SandboxEntry::Done(code) = sandbox::enter()? {
        return Err(Failure::ProgramExit(code));
    }
    if args.mesh.capacity {
        return capacity::run(&args.mesh, output);
    }
    let interrupted = interrupt::catch_sigint()?;
    let cells = args.cells();
    let steps = Steps::start(output, "bench reflect", cells.len());
    let mut watch = stepping(steps, |cell: &ReflectCase| format!("bench reflect: {cell}"));
    let time = Duration::from_millis(args.trial.into());
    let report = reflect::run(&cells, time, interrupted.flag(), &mut watch)?;
    drop(watch);
    show(&report, output)?;
    interrupted.check()?;
    all_measured(&report)
}

impl ReflectArgs {
    /// The combinations, so that comparable ones are and run side by side.
    fn cells(&self) -> Vec<ReflectCase> {
        let is_chosen = |one: &Implementation| self.implementation.is_empty() || self.implementation.contains(one);
        let mut cells = Vec::new();
        for offload in self.offload.iter().map(|offload| *offload == Offload::On) {
            for bytes in self.bytes.iter().map(|bytes| usize::from(*bytes)) {
                for &targets in &self.targets {
                    let chosen = Implementation::ALL.into_iter().filter(is_chosen);
                    cells.extend(chosen.map(|implementation| ReflectCase { implementation, targets, bytes, offload }));
                }
            }
        }
        cells
    }
}

fn show(report: &ReflectReport, output: Output) -> CommandResult {
    let mut table = Table::new(&[
        ">BYTES",
        ">TARGETS",
        "OFFLOAD",
        "BY",
        ">kpps",
        ">OF C GSO",
        ">ns EACH",
        ">FIRST p50 µs",
        ">LAST p50 µs",
        ">p99 µs",
        ">LOST %",
        ">30M FIRST p50 µs",
        ">LAST p50 µs",
        ">p99 µs",
    ]);
    report.rows.iter().for_each(|row| table.row(cells(row, &report.rows)));
    let moved: u64 = report.rows.iter().map(|row| row.reordered).sum();
    let moved = if moved == 0 { "No datagram".to_owned() } else { format!("{moved} datagrams") };
    show_measured(report, &table, &format!("{moved} came after later ones; "), output)
}

fn cells(row: &ReflectRow, all: &[ReflectRow]) -> [String; 14] {
    let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let is_beside = |other: &&ReflectRow| {
        (other.implementation, other.targets, other.bytes, other.offload)
            == (Implementation::Gso, row.targets, row.bytes, row.offload)
    };
    let part = all.iter().find(is_beside).map(|other| row.delivered_pps / other.delivered_pps.max(1.0));
    [
        row.bytes.to_string(),
        row.targets.to_string(),
        if row.offload { "on" } else { "off" }.to_owned(),
        row.implementation.to_string(),
        format!("{:.1}", row.delivered_pps / 1e3),
        part.map_or_else(|| "-".to_owned(), |part| format!("{part:.2}")),
        format!("{:.0}", row.ns_per_packet),
        number(row.first_p50_us),
        number(row.p50_us),
        number(row.p99_us),
        format!("{:.3}", 100.0 * row.lost),
        number(row.video.as_ref().and_then(|video| video.first_p50_us)),
        number(row.video.as_ref().and_then(|video| video.last_p50_us)),
        number(row.video.as_ref().and_then(|video| video.last_p99_us)),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct ReflectTestCli {
        #[command(flatten)]
        args: ReflectArgs,
    }

    fn cells(line: &str) -> Vec<String> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        let cells = ReflectTestCli::try_parse_from(words).map(|line| line.args.cells()).unwrap_or_default();
        cells.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn default_selects_all_cases() {
        assert_eq!(cells("").len(), 6 * 3 * 2);
        let named = cells("--implementation ours,c-gso --targets 5 --bytes 300");
        assert_eq!(named, ["c-gso, 300 bytes to 5", "ours, 300 bytes to 5"]);
        let both = cells("--implementation ours --targets 5 --bytes 300 --offload on,off");
        assert_eq!(both, ["ours, 300 bytes to 5", "ours, 300 bytes to 5 without offload"]);
        assert_eq!(cells("--bytes 1500").len() + cells("--implementation tee").len() + cells("--targets 0").len(), 0);
    }
}
