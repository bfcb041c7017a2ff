//! `emulate bench bulk`: goodput of an object on long and lossy paths.

use clap::Args;
use roost_bench::bulk::{BulkBench, BulkCase, BulkSender, PathProfile};
use roost_terminal::Output;

use super::measured::{NetworkArgs, chosen, run_bench};
use crate::failure::CommandResult;

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
    run_bench(|| BulkBench::new(args.seconds, args.seeds), &args.cells(), &args.network.options(), output)
}

impl BulkArgs {
    /// The combinations by path, so that comparable ones are and run side by side.
    fn cells(&self) -> Vec<BulkCase> {
        let senders: Vec<BulkSender> = chosen(BulkSender::ALL, &self.sender).collect();
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
