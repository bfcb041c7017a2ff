//! `roost bench`: load for a running hub, over the real transports.
//!
//! The nodes of a bench are no daemons. They speak the wire format directly, so that thousands of them fit beside the
//! hub on one machine and the bench measures the hub.

mod lookups;
mod node;
mod population;
mod probe;
mod report;
mod warm;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use roost_identity::Identity;
use roost_identity::group::Group;
use roost_terminal::{Output, Steps};
use roost_wire::{Address, Endpoint, Scheme, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::{BenchArgs, BenchCommand, BenchHubArgs};
use crate::failure::{Code, Failure, Outcome};
use lookups::LookupLoad;
use node::{BenchNode, BenchServices, NodeFactory};
use population::Population;
use probe::Probe;
use report::{BenchReport, Memory};

const SERVICES_PER_NODE: u32 = 4;

/// Open files that are not sockets of the population.
const SPARE_FILES: u64 = 256;

/// The time for traffic to calm down between two measurements.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: &BenchArgs, output: Output) -> Outcome {
    match &args.command {
        BenchCommand::Hub(args) => hub(args, output).await,
    }
}

/// Nodes and identities that the bench removes from the hub, also after an error or Ctrl-C.
struct BenchNodes {
    sample: Vec<BenchNode>,
    population: Population,
    silent: Vec<Arc<Identity>>,
}

async fn hub(args: &BenchHubArgs, output: Output) -> Outcome {
    let group = Group::open(&args.group)?;
    let address = resolve(args).await?;
    let nodes = args.entries.div_ceil(SERVICES_PER_NODE);
    let kept = kept(nodes, address.scheme, raise_file_limit())?;
    let maker = Arc::new(NodeFactory::new(group, address, args.key_exchange, services(args)?));
    let steps = Steps::start(output, "attaching nodes", nodes as usize);
    let mut bench = BenchNodes { sample: Vec::new(), population: Population::new(), silent: Vec::new() };
    let measured = tokio::select! {
        measured = measure(args, &maker, nodes, kept, &mut bench, &steps) => measured,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Code::Interrupted, "interrupted; its nodes have left the hub")),
    };
    steps.say("leaving");
    for node in bench.sample {
        node.leave().await;
    }
    bench.population.leave().await;
    population::recall(&maker, bench.silent).await;
    steps.end();
    measured?.print(output)
}

async fn measure(
    args: &BenchHubArgs,
    maker: &Arc<NodeFactory>,
    nodes: u32,
    kept: u32,
    bench: &mut BenchNodes,
    steps: &Steps,
) -> Outcome<BenchReport> {
    let probe = args.pid.map(Probe::new).transpose()?;
    let seconds = Duration::from_secs(args.seconds);
    lookups::check(maker, nodes, args.in_flight).await?;
    let join = population::sample_joins(maker, kept, &mut bench.sample).await?;
    let before = probe.as_ref().map(Probe::memory).transpose()?;
    let sample = std::mem::take(&mut bench.sample);
    let sampled = sample.len() as u64;
    bench.population.attach(maker, sample, kept, steps).await?;
    let attached = probe.as_ref().map(Probe::memory).transpose()?;
    steps.say("publishing");
    bench.population.publish().await?;
    let published = probe.as_ref().map(Probe::memory).transpose()?;

    population::publish_and_fall_silent(maker, kept..nodes, &mut bench.silent, steps).await?;

    steps.say("measuring");
    tokio::time::sleep(SETTLE).await;
    let idle = bench.population.idle_rate(seconds).await;
    let load = |in_flight, requesters| LookupLoad { in_flight, requesters, duration: seconds };
    let single = lookups::run(maker, nodes, load(1, 1), None).await?;
    let few = load(args.in_flight, lookups::FEW_REQUESTERS);
    let batched = lookups::run(maker, nodes, few, probe.as_ref()).await?;
    let spread = lookups::run(maker, nodes, load(args.in_flight, args.in_flight), probe.as_ref()).await?;
    let warm = warm::run(maker).await?;
    let lost = bench.population.lost();

    let fresh = u64::from(kept) - sampled;
    let memory = match (before, attached, published) {
        (Some(before), Some(attached), Some(published)) => {
            Some(Memory::new(before, attached, published, fresh, fresh * u64::from(SERVICES_PER_NODE)))
        }
        _ => None,
    };
    let (hub, silent) = (args.hub.to_string(), nodes - kept);
    Ok(BenchReport { hub, nodes, silent, join, idle, single, batched, spread, warm, memory, lost })
}

/// The services that every node knows, or as many of people's own with the same forms.
fn services(args: &BenchHubArgs) -> Outcome<BenchServices> {
    let mut services = Service::ALL;
    for service in services.iter_mut().filter(|_| args.own_services) {
        let own = format!("acme/{service}:{}", service.form());
        *service = own.parse().map_err(|error| Failure::failed(format!("{own}: {error}")))?;
    }
    Ok(services)
}

async fn resolve(args: &BenchHubArgs) -> Outcome<Address> {
    let Endpoint { scheme, hosts, port, .. } = &args.hub;
    if args.transport.is_some_and(|transport| transport != *scheme) {
        return Err(Failure::usage(format!(
            "--transport differs from that of {}: give the hub's other endpoint",
            args.hub
        )));
    }
    let [host] = hosts.as_slice() else {
        return Err(Failure::usage(format!("{} names several hosts: give one", args.hub)));
    };
    let found = tokio::net::lookup_host((host.as_str(), *port)).await;
    let unknown = |why: String| Failure::new(Code::Unreachable, format!("{host} has no address: {why}"));
    let mut found = found.map_err(|error| unknown(error.to_string()))?;
    let socket: SocketAddr = found.next().ok_or_else(|| unknown("the name is not known".to_owned()))?;
    Ok(Address::single(*scheme, socket))
}

/// The number of nodes that can keep their socket.
fn kept(nodes: u32, scheme: Scheme, files: u64) -> Outcome<u32> {
    let most = u32::try_from(files.saturating_sub(SPARE_FILES)).unwrap_or(u32::MAX);
    if nodes > most && scheme != Scheme::Udp {
        let advice = "raise ulimit -n, ask for fewer entries, or use the hub's udp:// endpoint";
        return Err(Failure::usage(format!(
            "{nodes} nodes need more than the {files} open files allowed here: {advice}"
        )));
    }
    Ok(nodes.min(most))
}

/// Raises the limit on open files as far as it goes, as each node has its own socket, and returns it.
fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, the present limit counts.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
