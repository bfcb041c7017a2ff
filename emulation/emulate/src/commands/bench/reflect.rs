//! `emulate bench reflect`: the throughput of reflectors.

use std::time::Duration;

use clap::{Args, ValueEnum};
use roost_bench::BenchOptions;
use roost_bench::reflect::{Implementation, ReflectBench, ReflectCase};
use roost_terminal::Output;

use super::capacity::{self, CapacityArgs};
use super::measured::{chosen, run_bench};
use crate::failure::CommandResult;

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
    if args.mesh.capacity {
        return capacity::run(&args.mesh, output);
    }
    let bench = || ReflectBench::new(Duration::from_millis(args.trial.into()));
    run_bench(bench, &args.cells(), &BenchOptions::default(), output)
}

impl ReflectArgs {
    /// The combinations, so that comparable ones are and run side by side.
    fn cells(&self) -> Vec<ReflectCase> {
        let mut cells = Vec::new();
        for offload in self.offload.iter().map(|offload| *offload == Offload::On) {
            for bytes in self.bytes.iter().map(|bytes| usize::from(*bytes)) {
                for &targets in &self.targets {
                    let implementations = chosen(Implementation::ALL, &self.implementation);
                    cells.extend(implementations.map(|implementation| ReflectCase {
                        implementation,
                        targets,
                        bytes,
                        offload,
                    }));
                }
            }
        }
        cells
    }
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
