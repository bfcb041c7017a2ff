//! `emulate topo`: the topologies of the published experiments, and forests, of any size.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use roost_terminal::Output;
use roost_topology::generate::{Forest, LegParameters, Star, Tree, TreeShape};
use roost_topology::units::{Rate, UnitError, parse_duration};

use super::format::{ExportFormat, write_output};
use crate::failure::{CommandResult, Failure};

/// `emulate topo`.
#[derive(Debug, Args)]
pub(crate) struct TopoArgs {
    #[command(subcommand)]
    shape: TopoShape,
}

#[derive(Debug, Subcommand)]
enum TopoShape {
    /// A star: one switch with a leg to every node and to the server
    #[command(before_help = "Examples:
  emulate topo star --nodes 11 -o star.toml
  emulate topo star --nodes 51 --server-delay 300ms --server-rate 50Mbit
")]
    Star(StarArgs),
    /// A hierarchy: low-flying nodes behind tactical UAVs behind X-45s
    #[command(before_help = "Examples:
  emulate topo tree --nodes 92 -o tree.toml
  emulate topo tree --x45 2 --tactical 6 --low 40 --low-rate 2Mbit
", after_help = INFERRED)]
    Tree(TreeArgs),
    /// Trees of any size whose roots are on one LAN: nodes behind homes behind middles behind roots
    #[command(before_help = "Examples:
  emulate topo forest --nodes 1000 -o forest.toml
  emulate topo forest --nodes 500 --per-home 50 --roots 2
")]
    Forest(ForestArgs),
}

const INFERRED: &str = "\
The published text gives the number of nodes of all classes (11, 31, 54, 75, 92) and of machines
(19 for 11 nodes, 147 for 92), but neither how many nodes each class has nor who is behind whom.
Inferred from the machines, each beyond the nodes having shaped two legs: 5 of 11 nodes route
(2 X-45s, 3 tactical), 18 of 92 (3 and 15); from 54 nodes on only the edges grow. Rates and
delays are taken to be those of every leg of a class. --x45, --tactical, --low and the legs'
flags make other trees.";

#[derive(Debug, Args)]
struct StarArgs {
    /// Number of hosts, the server included
    #[arg(long, value_name = "N")]
    nodes: usize,
    /// The delay of each node's leg, one way
    #[arg(long, value_name = "DELAY", default_value = "50ms", value_parser = parse_duration)]
    delay: Duration,
    /// The delay of the server's leg, one way
    #[arg(long, value_name = "DELAY", default_value = "125ms", value_parser = parse_duration)]
    server_delay: Duration,
    /// The rate of every leg, each way
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = rate)]
    rate: Rate,
    /// The rate of the server's leg, if it is another
    #[arg(long, value_name = "RATE", value_parser = rate)]
    server_rate: Option<Rate>,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, Args)]
struct TreeArgs {
    /// Number of nodes of all classes; the server comes in addition
    #[arg(long, value_name = "N", required_unless_present = "low")]
    nodes: Option<usize>,
    /// Number of X-45s, the uppermost
    #[arg(long, value_name = "N")]
    x45: Option<usize>,
    /// Number of tactical UAVs, spread evenly behind the X-45s
    #[arg(long, value_name = "N")]
    tactical: Option<usize>,
    /// Number of low-flying nodes, spread evenly behind the tactical UAVs
    #[arg(long, value_name = "N", requires = "x45", requires = "tactical")]
    low: Option<usize>,
    /// The rate of a low-flying node's leg
    #[arg(long, value_name = "RATE", default_value = "1Mbit", value_parser = rate)]
    low_rate: Rate,
    /// The delay of a low-flying node's leg, one way
    #[arg(long, value_name = "DELAY", default_value = "40ms", value_parser = parse_duration)]
    low_delay: Duration,
    /// The rate of a tactical UAV's legs
    #[arg(long, value_name = "RATE", default_value = "10Mbit", value_parser = rate)]
    tactical_rate: Rate,
    /// The delay of a tactical UAV's legs, one way
    #[arg(long, value_name = "DELAY", default_value = "40ms", value_parser = parse_duration)]
    tactical_delay: Duration,
    /// The rate of an X-45's legs
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = rate)]
    x45_rate: Rate,
    /// The delay of an X-45's legs, one way
    #[arg(long, value_name = "DELAY", default_value = "20ms", value_parser = parse_duration)]
    x45_delay: Duration,
    /// The rate of the server's leg
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = rate)]
    server_rate: Rate,
    /// The delay of the server's leg, one way
    #[arg(long, value_name = "DELAY", default_value = "600ms", value_parser = parse_duration)]
    server_delay: Duration,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, Args)]
struct ForestArgs {
    /// Nodes; homes, middles and roots come in addition
    #[arg(long, value_name = "N")]
    nodes: usize,
    /// Number of nodes behind a home
    #[arg(long, value_name = "N", default_value_t = 100)]
    per_home: usize,
    /// Number of homes behind a middle
    #[arg(long, value_name = "N", default_value_t = 5)]
    per_middle: usize,
    /// Roots; no more than middles
    #[arg(long, value_name = "N", default_value_t = 4)]
    roots: usize,
    /// The nodes of a home stand in a square of so many cells a side
    #[arg(long, value_name = "CELLS", default_value_t = 16)]
    area: usize,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, Args)]
struct To {
    /// The format; without it the file's name tells, else toml
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// The file to write instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &TopoArgs, output: Output) -> CommandResult {
    let (made, comment, to) = match &args.shape {
        TopoShape::Star(args) => {
            let star = star(args);
            (star.topology(), star.comment(), &args.to)
        }
        TopoShape::Tree(args) => {
            let tree = tree(args)?;
            (tree.topology(), tree.comment(), &args.to)
        }
        TopoShape::Forest(args) => {
            let ForestArgs { nodes, per_home, per_middle, roots, area, .. } = *args;
            let forest = Forest { per_home, per_middle, roots, area, ..Forest::for_nodes(nodes) };
            (forest.topology(), forest.comment(), &args.to)
        }
    };
    let topology = made.map_err(|error| Failure::bad_input(error.to_string()))?;
    let file = to.output.as_deref();
    let format = to.format.or_else(|| file.and_then(ExportFormat::from_path)).unwrap_or(ExportFormat::Toml);
    write_output(&format.text(&topology, &comment, output)?, file, output)
}

fn star(args: &StarArgs) -> Star {
    Star {
        nodes: args.nodes,
        node: LegParameters { rate: args.rate, delay: args.delay },
        server: LegParameters { rate: args.server_rate.unwrap_or(args.rate), delay: args.server_delay },
    }
}

fn tree(args: &TreeArgs) -> CommandResult<Tree> {
    let shape = TreeShape::from_classes(args.nodes, args.x45, args.tactical, args.low);
    Ok(Tree {
        shape: shape.map_err(|error| Failure::bad_input(error.to_string()))?,
        low: LegParameters { rate: args.low_rate, delay: args.low_delay },
        tactical: LegParameters { rate: args.tactical_rate, delay: args.tactical_delay },
        x45: LegParameters { rate: args.x45_rate, delay: args.x45_delay },
        server: LegParameters { rate: args.server_rate, delay: args.server_delay },
    })
}

fn rate(text: &str) -> Result<Rate, UnitError> {
    text.parse()
}
