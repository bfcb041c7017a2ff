//! `emulate growth`: the costs of more nodes.

mod figures;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use roost_sim::growth::hub_memory::{self, HubMemory};
use roost_sim::growth::{self, GrowthResult, GrowthSettings, Lookups, Requests};
use roost_terminal::{Output, SCHEMA, Steps, Table};
use roost_topology::units::parse_duration;
use serde_json::json;

use crate::failure::{CommandResult, Failure};

/// `emulate growth`.
#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    /// Number of nodes to simulate, several sizes one after the other; 100000 take gigabytes and minutes
    #[arg(value_name = "NODES", default_values_t = [100, 1_000, 10_000], value_parser = clap::value_parser!(u32).range(2..))]
    sizes: Vec<u32>,
    /// The numbers of nodes for which the memory of a root is measured
    #[arg(long, value_name = "NODES", value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 100_000, 1_000_000])]
    state: Vec<u32>,
    /// Time that nodes move, and ask for nothing, while uplinks are looked at
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    moving: Duration,
    /// Number of lookups at each distance, and of pairs of nodes that request there
    #[arg(long, value_name = "N", default_value_t = 500)]
    lookups: u16,
    /// The seed of moves and lookups
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Leave the figures (SVG) in this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

pub(crate) fn run(args: &GrowthArgs, output: Output) -> CommandResult {
    let settings = GrowthSettings { seed: args.seed, quiet: args.moving, lookups: args.lookups.into() };
    let steps = Steps::start(output, "growth", args.sizes.len() + args.state.len());
    // First, while the process is small, since its growth is measured.
    let home = hub_memory::of_home()
        .map_err(|error| Failure::failed(format!("cannot tell how large this process is: {error}")))?;
    let mut states = Vec::new();
    for nodes in &args.state {
        steps.say(format!("growth: a root of {nodes} nodes"));
        states.push(hub_memory::of_root(*nodes as usize)?);
        steps.advance();
    }
    let mut sizes = Vec::new();
    for nodes in &args.sizes {
        steps.say(format!("growth: {nodes} nodes"));
        sizes.push(growth::measure(*nodes as usize, &settings)?);
        steps.advance();
    }
    drop(steps);
    if let Some(folder) = &args.figures {
        draw(folder, &sizes, &states, output)?;
    }
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "sizes": sizes, "home": home, "roots": states}))?);
    }
    show(&sizes, &[vec![home], states].concat(), output)
}

fn draw(folder: &Path, sizes: &[GrowthResult], states: &[HubMemory], output: Output) -> CommandResult {
    std::fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
    for (name, svg) in figures::growth(sizes, states) {
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, svg).map_err(|error| Failure::file("write", &path, &error))?;
        output.say(format!("Wrote {}", path.display()));
    }
    Ok(())
}

fn show(sizes: &[GrowthResult], states: &[HubMemory], output: Output) -> CommandResult {
    let mut lookups =
        Table::new(&[">NODES", "LOOKUP", ">FOUND", ">HOPS ms", ">p50 ms", ">p99 ms", ">MESSAGES", ">BYTES"]);
    let mut requests =
        Table::new(&[">NODES", "REQUEST", ">ACCEPTED", ">HOPS ms", ">FIRST p50 ms", ">AGAIN p50 ms", ">AGAIN p99 ms"]);
    let mut uplinks = Table::new(&[
        ">NODES",
        "HUB",
        ">SENT bit/s",
        ">MOST bit/s",
        ">LEG UP bit/s",
        ">LEG DOWN bit/s",
        "OF THAT SENT",
    ]);
    let mut runs = Table::new(&[">NODES", ">HUBS", ">JOINED s", ">STEPS", ">WALL s", ">us/STEP", ">VIOLATIONS"]);
    for size in sizes {
        let distances = ["at home", "one tier up", "across the top"];
        for (name, one) in distances.iter().zip(&size.lookups) {
            one.iter().for_each(|one| lookups.row(lookup(size.nodes, name, one)));
        }
        for (name, one) in distances.iter().zip(&size.requests) {
            one.iter().for_each(|one| requests.row(request(size.nodes, name, one)));
        }
        for (name, uplink) in ["home", "middle", "root"].iter().zip(&size.uplinks) {
            let kinds: Vec<String> = uplink.sent.iter().map(|(kind, rate)| format!("{kind} {rate:.0}")).collect();
            let rates = [uplink.mean, uplink.most, uplink.leg_up, uplink.leg_down].map(|rate| format!("{rate:.0}"));
            let names = [size.nodes.to_string(), (*name).to_owned()];
            uplinks.row(names.into_iter().chain(rates).chain([kinds.join(", ")]));
        }
        let per_step = size.wall_s * 1e6 / size.steps.max(1) as f64;
        runs.row([
            size.nodes.to_string(),
            size.hubs.map(|hubs| hubs.to_string()).join("+"),
            format!("{:.1}", size.joined_s),
            size.steps.to_string(),
            format!("{:.1}", size.wall_s),
            format!("{per_step:.2}"),
            size.violations.to_string(),
        ]);
    }
    let mut held = Table::new(&[">NODES", "HUB", ">BELOW", ">PATCHES", ">BYTES"]);
    for (index, state) in states.iter().enumerate() {
        let name = if index == 0 { "home" } else { "root" };
        let numbers = [state.below as u64, state.block_services as u64, state.bytes].map(|number| number.to_string());
        held.row([state.nodes.to_string(), name.to_owned()].into_iter().chain(numbers));
    }
    for table in [lookups, requests, uplinks, held, runs] {
        output.table(&table)?;
        output.data("\n")?;
    }
    Ok(())
}

fn lookup(nodes: usize, name: &str, one: &Lookups) -> Vec<String> {
    vec![
        nodes.to_string(),
        name.to_owned(),
        format!("{} of {}", one.found, one.asked),
        format!("{:.0}", one.hops_ms),
        format!("{:.1}", one.p50_ms),
        format!("{:.1}", one.p99_ms),
        format!("{:.1}", one.messages),
        format!("{:.0}", one.bytes),
    ]
}

fn request(nodes: usize, name: &str, one: &Requests) -> Vec<String> {
    vec![
        nodes.to_string(),
        name.to_owned(),
        format!("{}+{} of {}", one.accepted, one.accepted_again, one.asked),
        format!("{:.0}", one.hops_ms),
        format!("{:.1}", one.first_ms),
        format!("{:.1}", one.p50_ms),
        format!("{:.1}", one.p99_ms),
    ]
}
