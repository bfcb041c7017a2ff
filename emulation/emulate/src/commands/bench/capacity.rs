//! `emulate bench reflect --capacity`: the capacity of a mesh of super nodes.

use std::time::Duration;

use clap::Args;
use roost_bench::capacity::{self, CapacityBench, CapacityCase, CapacityMode, CapacitySettings, MAX_HUBS, STREAMS};
use roost_terminal::Output;

use super::measured::{NetworkArgs, run_bench};
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
    #[arg(long, alias = "what", value_name = "MODE", value_delimiter = ',', requires = "capacity")]
    mode: Vec<CapacityMode>,
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
    let cases = args.cases();
    let settings =
        CapacitySettings { streams: args.streams.unwrap_or(STREAMS), window: Duration::from_secs(args.seconds) };
    let minutes = capacity::duration(&cases, settings).as_secs().div_ceil(60);
    output.say(format!(
        "{} measurements, about {minutes} minutes; Ctrl-C ends it with those that are done.",
        cases.len()
    ));
    run_bench(|| Ok(CapacityBench { settings }), &cases, &args.network.options(), output)
}

impl CapacityArgs {
    /// The cases, with comparable ones side by side.
    fn cases(&self) -> Vec<CapacityCase> {
        /// With more hubs a track has more subscribers than a machine can run.
        const TRACKS: [u8; 3] = [2, 4, 8];
        let is_chosen = |what: CapacityMode| self.mode.is_empty() || self.mode.contains(&what);
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
        assert_eq!(cases("--mesh 2,3 --mode residual,track"), hubs);
        assert_eq!(cases("--mesh 17").len() + cases("--streams 1").len() + cases("--what room").len(), 0);
    }
}
