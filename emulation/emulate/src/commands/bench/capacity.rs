//! `emulate bench reflect --capacity`: the capacity of a mesh of super nodes.

use std::time::Duration;

use clap::Args;
use roost_bench::capacity::{
    self, CapacityCase, CapacityMode, CapacityReport, CapacityRow, CapacitySample, CapacitySettings, LOST, MAX_HUBS,
    STREAMS,
};
use roost_terminal::{Output, Steps, Table};

use super::measured::{NetworkArgs, all_measured, show_measured, stepping};
use crate::commands::interrupt;
use crate::failure::CommandResult;

/// The part of `emulate bench reflect` that is about a mesh.
#[derive(Debug, Args)]
#[command(next_help_heading = "Capacity of a mesh")]
pub(super) struct CapacityArgs {
    /// Measure how many nodes a mesh of super nodes serves, with the real daemons
    #[arg(long)]
    pub(super) capacity: bool,
    /// With so many super nodes, several numbers one after the other; without it 1 to 16, and 2, 4
    /// and 8 for a track
    #[arg(long, value_name = "M", value_delimiter = ',', requires = "capacity", value_parser = clap::value_parser!(u8).range(1..=MAX_HUBS as i64))]
    mesh: Vec<u8>,
    /// Only this: count, residual or track; may be given more than once
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "capacity")]
    what: Vec<CapacityMode>,
    /// Number of streams that the uplink of a super node carries [default: 905/30]
    #[arg(long, value_name = "L", requires = "capacity", value_parser = uplink)]
    streams: Option<f64>,
    /// For how long losses are counted
    #[arg(long, value_name = "N", default_value_t = 10, requires = "capacity", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    network: NetworkArgs,
}

fn uplink(text: &str) -> Result<f64, String> {
    let streams = text.parse().ok().filter(|streams| (2.0..=100.0).contains(streams));
    streams.ok_or_else(|| "expected 2 to 100 streams, such as 30.17".to_owned())
}

/// Measures inside a sandbox, and prints the results.
pub(super) fn run(args: &CapacityArgs, output: Output) -> CommandResult {
    let interrupted = interrupt::catch_sigint()?;
    let cases = args.cases();
    let settings =
        CapacitySettings { streams: args.streams.unwrap_or(STREAMS), window: Duration::from_secs(args.seconds) };
    let minutes = capacity::duration(&cases, settings).as_secs().div_ceil(60);
    output.say(format!(
        "{} measurements, about {minutes} minutes; Ctrl-C ends it with those that are done.",
        cases.len()
    ));
    let steps = Steps::start(output, "bench reflect --capacity", cases.len());
    let mut stepped = stepping(steps, |case: &CapacityCase| format!("capacity: {case}"));
    let report = capacity::run(&cases, settings, &args.network.options(), interrupted.flag(), &mut stepped)?;
    drop(stepped);
    show(&report, output)?;
    interrupted.check()?;
    all_measured(&report)
}

impl CapacityArgs {
    /// The cases, with comparable ones side by side.
    fn cases(&self) -> Vec<CapacityCase> {
        /// With more hubs a track has more subscribers than a machine can run.
        const TRACKS: [u8; 3] = [2, 4, 8];
        let is_chosen = |what: CapacityMode| self.what.is_empty() || self.what.contains(&what);
        let named = |usual: &[u8]| if self.mesh.is_empty() { usual.to_vec() } else { self.mesh.clone() };
        let all: Vec<u8> = (1..=MAX_HUBS as u8).collect();
        let case = |what| move |hubs: u8| CapacityCase { what, hubs: hubs.into() };
        let rooms = named(&all)
            .into_iter()
            .flat_map(|hubs| [CapacityMode::Count, CapacityMode::Residual].map(|what| case(what)(hubs)));
        let tracks = named(&TRACKS).into_iter().map(case(CapacityMode::Track));
        rooms.chain(tracks).filter(|case| is_chosen(case.what)).collect()
    }
}

fn show(report: &CapacityReport, output: Output) -> CommandResult {
    let mut table = Table::new(&[
        ">HUBS",
        "BY",
        ">TABLE 3",
        ">TABLE 2",
        ">COUNTED",
        ">BALANCED",
        ">MEASURED",
        ">LOST %",
        ">SENT",
        ">ONE MORE",
    ]);
    report.rows.iter().for_each(|row| table.row(cells(row)));
    show_measured(report, &table, "", output)
}

fn cells(row: &CapacityRow) -> [String; 10] {
    let number = |value: Option<usize>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    [
        row.hubs.to_string(),
        row.what.to_owned(),
        number(row.printed),
        number(row.printed_receive_only),
        row.counted.to_string(),
        row.balanced.to_string(),
        row.most.count.to_string(),
        format!("{:.1}", 100.0 * row.most.lost),
        format!("{:.1}", row.most.sent),
        too_many(&row.beyond),
    ]
}

/// Describes why there are too many: missing streams, and losses of the others.
fn too_many(look: &CapacitySample) -> String {
    let lost = format!("{:.1} % lost", 100.0 * look.lost);
    match look.missing {
        0 => lost,
        missing if look.lost < LOST => format!("{missing} refused"),
        missing => format!("{lost}, {missing} missing"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct CapacityTestCli {
        #[command(flatten)]
        args: CapacityArgs,
    }

    fn cases(line: &str) -> Vec<String> {
        let words = ["bench", "--capacity"].into_iter().chain(line.split_whitespace());
        let cases = CapacityTestCli::try_parse_from(words).map(|line| line.args.cases()).unwrap_or_default();
        cases.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn default_selects_all_cases() {
        assert_eq!(cases("").len(), 2 * MAX_HUBS + 3);
        let named = cases("--mesh 2,3 --what residual,track");
        let hubs = ["residual, 2", "residual, 3", "track, 2", "track, 3"].map(|case| format!("{case} super nodes"));
        assert_eq!(named, hubs);
        assert_eq!(cases("--mesh 17").len() + cases("--streams 1").len() + cases("--what room").len(), 0);
    }
}
