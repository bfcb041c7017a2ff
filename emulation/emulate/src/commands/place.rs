//! `emulate place`: the best hosts for super nodes, or for the server.

use std::path::PathBuf;

use clap::Args;
use roost_experiment::plan::{HubSelection, Mix, Participation as Share, SuperNodes};
use roost_experiment::{Architecture, Plan, Prepared, RunError, classes_that_ask};
use roost_placement::{HubsToPlace, LinkForecast, PlacementAdvice, PlacementChoice, PlacementError, advise};
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::Topology;
use serde::Serialize;

use crate::failure::{CommandResult, Failure};

/// `emulate place`.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The network: a topology (.toml, .ns, .tcl), or a plan, which names one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of super nodes; without it as many as the plan has, or those of --at, else one
    #[arg(short = 'k', long, value_name = "K")]
    super_nodes: Option<usize>,
    /// Place the server of the client/server baseline instead
    #[arg(long, conflicts_with = "super_nodes")]
    server: bool,
    /// A choice of your own, to compare: the hosts, separated by commas
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    at: Option<Vec<String>>,
    /// Take who asks for what from this plan, whatever network it names
    #[arg(long, value_name = "PLAN", conflicts_with = "mix")]
    plan: Option<PathBuf>,
    /// Requests of all nodes: low, tactical, x45, or percentages as in video=25,track=65,idle=10
    #[arg(long, value_name = "MIX")]
    mix: Option<Mix>,
}

#[derive(Serialize)]
struct PlaceJson<'a> {
    schema: u32,
    #[serde(flatten)]
    advice: &'a PlacementAdvice,
}

pub(crate) fn run(args: &PlaceArgs, output: Output) -> CommandResult {
    let (prepared, part) = prepare(args)?;
    let advice = advise(&prepared, part, args.at.as_deref())?;
    if output.is_json() {
        return Ok(output.json(&PlaceJson { schema: SCHEMA, advice: &advice })?);
    }
    show(&advice, part, output)
}

/// The plan whose demand counts, on the network of the placement, and the hubs to place.
fn prepare(args: &PlaceArgs) -> CommandResult<(Prepared, HubsToPlace)> {
    let own = Plan::text(&args.file).map_err(RunError::from)?;
    let is_plan = super::run::names_a_topology(&own);
    let mut network =
        if is_plan { Prepared::from_text(&own, &args.file)?.network } else { roost_ns::load(&args.file)? };
    roost_topology::trace::use_means(&mut network);
    let workload = args.plan.as_ref().or(Some(&args.file).filter(|_| is_plan));
    let text = workload.map_or(Ok(PUBLISHED.to_owned()), |file| Plan::text(file)).map_err(RunError::from)?;
    let file = workload.unwrap_or(&args.file);
    let mut plan = Plan::parse(&text, file).map_err(RunError::from)?;
    if let Some(mix) = args.mix {
        ask_for(&mut plan, &network, mix);
    }
    // With caches, requests go through the server as well.
    let is_served = matches!(plan.architecture, Architecture::ClientServer | Architecture::ClientServerCaching);
    let server = args.server || args.super_nodes.is_none() && is_served;
    if is_served {
        plan.architecture = Architecture::SuperNode;
    }
    let named = args.at.as_ref().filter(|_| workload.is_none()).map(Vec::len);
    match args.super_nodes.or(named) {
        _ if server => plan.super_nodes = SuperNodes::Flat(HubSelection::Count(1)),
        Some(0) => return Err(PlacementError::Count(0).into()),
        Some(count) => plan.super_nodes = SuperNodes::Flat(HubSelection::Count(count)),
        None => {}
    }
    let prepared = Prepared::from_plan(plan, network, file)?;
    let count = prepared.placement.hubs.len();
    Ok((prepared, if server { HubsToPlace::Server } else { HubsToPlace::SuperNodes(count) }))
}

/// Gives all classes that take part the same mix.
fn ask_for(plan: &mut Plan, network: &Topology, mix: Mix) {
    for class in classes_that_ask(network) {
        let asked = plan.classes.entry(class).or_default();
        if asked.part != Some(Share::None) {
            asked.part = Some(Share::Active(mix));
        }
    }
}

fn show(advice: &PlacementAdvice, part: HubsToPlace, output: Output) -> CommandResult {
    let PlacementAdvice { topology, hosts, nodes, choices, exact, .. } = advice;
    let what = match part {
        HubsToPlace::Server => "The server".to_owned(),
        HubsToPlace::SuperNodes(1) => "One super node".to_owned(),
        HubsToPlace::SuperNodes(count) => format!("{count} super nodes"),
    };
    let how = if *exact {
        "every choice was compared"
    } else {
        "too many choices to compare them all: a slightly better one is possible"
    };
    output.data(&format!("{what} for the {nodes} nodes on the {hosts} hosts of {topology}; {how}.\n\n"))?;
    output.table(&overview(choices))?;
    let Some(best) = choices.first() else { return Ok(()) };
    output.data("\nWith the best, on links that are not busy:\n\n")?;
    output.table(&services(best))?;
    output.data(&format!("\n{}", conclusions(choices, best, part)))?;
    Ok(())
}

/// A row for each choice, with the mean latency of all requests.
fn overview(choices: &[PlacementChoice]) -> Table {
    let mut table = Table::new(&["CHOICE", "ON", ">WAY ms", ">LATENCY ms", ">FULLEST"]);
    for choice in choices {
        let asked: f64 = choice.services.iter().map(|service| service.requests_per_s).sum();
        let mean: f64 = choice.services.iter().map(|service| service.requests_per_s * service.mean_ms).sum();
        table.row([
            choice.name.to_owned(),
            choice.hosts.join(", "),
            format!("{:.1}", choice.way_ms),
            format!("{:.1}", mean / asked.max(f64::MIN_POSITIVE)),
            choice.links.first().map(|link| format!("{:.0} %", link.load * 100.0)).unwrap_or_default(),
        ]);
    }
    table
}

fn services(choice: &PlacementChoice) -> Table {
    let mut table = Table::new(&["SERVICE", ">ASKED/s", ">MEDIAN ms", ">MEAN ms", ">KB ON LINKS"]);
    for service in &choice.services {
        table.row([
            service.service.to_owned(),
            format!("{:.2}", service.requests_per_s),
            format!("{:.1}", service.median_ms),
            format!("{:.1}", service.mean_ms),
            format!("{:.1}", service.bytes_per_request / 1e3),
        ]);
    }
    table
}

/// The gain, the fullest link, and the lines for a plan.
fn conclusions(choices: &[PlacementChoice], best: &PlacementChoice, part: HubsToPlace) -> String {
    let mut text = String::new();
    for other in choices.iter().filter(|choice| matches!(choice.name, "plan" | "yours")) {
        let whose = if other.name == "plan" { "Where the plan has it" } else { "Where you have it" };
        let more = (other.way_ms / best.way_ms.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
        text.push_str(&match more {
            more if more >= 0.05 => format!("{whose}, requests are {more:.1} % longer on their way.\n"),
            more if more <= -0.05 => format!("{whose}, requests are {:.1} % shorter on their way.\n", -more),
            _ => format!("{whose}, requests are as long on their way.\n"),
        });
    }
    if let Some(LinkForecast { link, host, direction, load }) = best.links.first() {
        let side = if direction == &"to-net" { "from" } else { "to" };
        let when = if *load < 1.0 {
            format!("it is full when nodes ask {:.1} times as often", 1.0 / load)
        } else {
            "nodes will get less than they ask for, and wait longer than this says".to_owned()
        };
        text.push_str(&format!("The fullest link is {link} {side} {host}, to {:.0} %: {when}.\n", load * 100.0));
    }
    let quoted: Vec<String> = best.hosts.iter().map(|host| format!("\"{host}\"")).collect();
    text.push_str(&match part {
        HubsToPlace::Server => format!("For a plan:  server = {}\n", quoted.join("")),
        HubsToPlace::SuperNodes(_) => format!("For a plan:  super_nodes = [{}]\n", quoted.join(", ")),
    });
    text
}

/// The published workload, in the long run, for a user without a plan.
const PUBLISHED: &str = "topology = 'it'\narchitecture = 'super-node'\nduration = '15m'\n";

impl From<PlacementError> for Failure {
    fn from(error: PlacementError) -> Self {
        Self::bad_input(error.to_string())
    }
}
