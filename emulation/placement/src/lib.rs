//! Advice on the placement of super nodes, or of the server, and a prediction of its costs, without running
//! anything.
//!
//! | file | its part |
//! |---|---|
//! | `distances` | distances from host to host, along the routes of packets |
//! | `demand` | the requests between nodes: the plan's workload in the long run |
//! | `request_costs` | bytes and round trips of one request, measured on the real messages and connections |
//! | `forecast` | latencies, bytes and loads with given hosts |
//! | `search` | the hosts of least cost |
//! | `latency_bounds` | the least time that a request can take |
//!
//! The prediction assumes a network without queues and losses: a link that is nearly full makes all its traffic
//! slower, and the advice names it. Unsolicited messages between nodes and hubs (leases, probes, gossip) are
//! left out; they are few beside the data.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod demand;
mod distances;
mod forecast;
mod latency_bounds;
mod request_costs;
mod search;
#[cfg(test)]
mod tests;

use roost_experiment::plan::{Mix, TransportChoice};
use roost_experiment::{Architecture, Plan, Prepared};
use roost_topology::model::HostIndex;
use roost_topology::suggest::did_you_mean;
use roost_wire::Service;
use serde::Serialize;

use self::demand::Demand;
use self::distances::HostDistances;
use self::forecast::{Forecast, ForecastModel, there_and_back};
pub use self::latency_bounds::LatencyBounds;
use self::request_costs::RequestCosts;
use self::search::search;

/// The most super nodes that can be placed: roots form a full mesh.
pub const MAX_SUPER_NODES: usize = 64;
/// The links that the advice lists for a choice.
const TOLD_LINKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubsToPlace {
    SuperNodes(usize),
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The plan has no hubs to place.
    #[error("multicast alone needs no super nodes: choose a plan with super-node or client-server")]
    Multicast,
    #[error("the nodes of this plan request nothing, so no place is better than another: name a plan with requests")]
    Idle,
    #[error("the plan has super nodes in {0} tiers, and one tier can be placed: say how many with --super-nodes")]
    Tiers(usize),
    /// Zero, or more than allowed.
    #[error("{0} super nodes cannot be placed: choose 1 to {MAX_SUPER_NODES}")]
    Count(usize),
    #[error("the topology has no host `{name}`{near}")]
    NoHost { name: String, near: String },
    #[error("host {0} is named twice: a host has one super node")]
    Twice(String),
    #[error("there is one server: name one host")]
    OneServer,
    #[error("not all nodes reach host {0}: nothing can be placed there")]
    OutOfReach(String),
    #[error("{wanted} super nodes do not fit on {hosts} hosts that all nodes reach")]
    TooFew { wanted: usize, hosts: usize },
}

/// The best choices of hosts, with others for comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementAdvice {
    pub topology: String,
    /// Hosts of the network; `nodes` of them are nodes.
    pub hosts: usize,
    pub nodes: usize,
    /// `super-node` or `client-server`.
    pub architecture: &'static str,
    /// True if every choice was evaluated, so that no other is better.
    pub exact: bool,
    /// The choices, best first; then the plan's and the user's own.
    pub choices: Vec<PlacementChoice>,
}

/// Hosts, and the predicted costs with super nodes on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementChoice {
    /// `best`, `second`, `third`; `plan` and `yours`.
    pub name: &'static str,
    pub hosts: Vec<String>,
    /// The mean time of requests from requester to provider, milliseconds; with a server the path back as well.
    pub way_ms: f64,
    pub services: Vec<ServiceForecast>,
    /// Bytes of requests over all links together, per second.
    pub bytes_per_s: f64,
    pub links: Vec<LinkForecast>,
}

/// Predictions about the requests for one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceForecast {
    pub service: &'static str,
    /// Requests of all nodes, a second.
    pub requests_per_s: f64,
    /// Median latency, milliseconds: to the first byte of a stream, to the end of an object. Links without
    /// queues.
    pub median_ms: f64,
    /// Mean of the same.
    pub mean_ms: f64,
    /// Bytes of a request, summed over each link or LAN that they cross.
    pub bytes_per_request: f64,
}

/// The predicted load of one direction of a link or LAN.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkForecast {
    pub link: String,
    /// The host of the leg, or the sending end of a link.
    pub host: String,
    /// `to-net` or `from-net`.
    pub direction: &'static str,
    /// The fraction of its rate in use. Above 1 nodes get less than they request.
    pub load: f64,
}

/// Advises on the hosts of hubs for a plan's workload, and compares them with `own`, the user's own choice, if
/// there is one.
///
/// Every host on `prepared`'s network is considered, whatever hubs it has. This takes memory for each pair of
/// hosts: 170 MB for 4 096 of them.
///
/// # Errors
/// Fails when the number or the user's choice does not fit the network.
pub fn advise(
    prepared: &Prepared,
    part: HubsToPlace,
    own: Option<&[String]>,
) -> Result<PlacementAdvice, PlacementError> {
    if prepared.plan.architecture == Architecture::Multicast {
        return Err(PlacementError::Multicast);
    }
    if prepared.placement.nodes.iter().all(|node| node.mix == Mix::IDLE) {
        return Err(PlacementError::Idle);
    }
    let tiers = prepared.placement.tiers();
    if tiers > 1 {
        return Err(PlacementError::Tiers(tiers));
    }
    let relayed = part == HubsToPlace::Server;
    let count = if let HubsToPlace::SuperNodes(count) = part { count } else { 1 };
    if !(1..=MAX_SUPER_NODES).contains(&count) {
        return Err(PlacementError::Count(count));
    }
    let own = own.map(|names| hosts(prepared, names, part)).transpose()?;
    let ground = HostDistances::from_topology(&prepared.network);
    let exchanges = RequestCosts::measure(&prepared.plan, relayed);
    let demand = Demand::from_places(&prepared.plan, &prepared.placement.nodes);
    let candidates = candidates(&ground, &demand);
    if let Some(out) = own.iter().flatten().find(|host| !candidates.contains(host)) {
        return Err(PlacementError::OutOfReach(prepared.network.hosts[*out].name.clone()));
    }
    if candidates.len() < count {
        return Err(PlacementError::TooFew { wanted: count, hosts: candidates.len() });
    }
    let ways = demand.pairs.iter().filter(|_| !relayed);
    let host = |node: usize| demand.nodes[node].host;
    let direct = ways.map(|pair| there_and_back(&ground, host(pair.to), host(pair.from))).collect();
    let one_transport = prepared.plan.transport != TransportChoice::Paper;
    let effort = demand.nodes.len() * if relayed { 16 } else { count } + count.pow(3) + demand.near().count();
    let mut field = ForecastModel { ground: &ground, demand, exchanges: &exchanges, relayed, one_transport, direct };
    // The request rates hardly depend on the hubs.
    field.update_demand(&candidates[..count]);
    let found = search(&candidates, count, effort as f64, |hubs| field.cost(hubs));
    let named = ["best", "second", "third"].into_iter().zip(found.best.into_iter().map(|(_, hosts)| hosts));
    let plans = of_plan(prepared, part).filter(|hosts| hosts.iter().all(|host| candidates.contains(host)));
    let others = plans.map(|hosts| ("plan", hosts)).into_iter().chain(own.map(|hosts| ("yours", hosts)));
    // All are compared under one demand; the demand that each leads to differs a little.
    let all: Vec<_> = named.chain(others).map(|(name, hosts)| (name, field.cost(&hosts).seconds, hosts)).collect();
    let choices = all.into_iter().map(|(name, way, hosts)| {
        let forecast = field.forecast(&hosts);
        choice(&ground, name, &hosts, way, &forecast)
    });
    Ok(PlacementAdvice {
        topology: prepared.network.name.clone(),
        hosts: prepared.network.hosts.len(),
        nodes: prepared.placement.nodes.len(),
        architecture: if relayed { Architecture::ClientServer.name() } else { Architecture::SuperNode.name() },
        exact: found.exact,
        choices: choices.collect(),
    })
}

fn hosts(prepared: &Prepared, names: &[String], part: HubsToPlace) -> Result<Vec<HostIndex>, PlacementError> {
    if part == HubsToPlace::Server && names.len() != 1 {
        return Err(PlacementError::OneServer);
    }
    if !(1..=MAX_SUPER_NODES).contains(&names.len()) {
        return Err(PlacementError::Count(names.len()));
    }
    let mut hosts = Vec::with_capacity(names.len());
    for name in names {
        let unknown = || {
            let near = did_you_mean(name, prepared.network.hosts.iter().map(|host| host.name.as_str()));
            PlacementError::NoHost { name: name.clone(), near }
        };
        let host = prepared.network.host_index(name).ok_or_else(unknown)?;
        if hosts.contains(&host) {
            return Err(PlacementError::Twice(name.clone()));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// The hosts that every node reaches, and that reach every node.
fn candidates(ground: &HostDistances<'_>, demand: &Demand<'_>) -> Vec<HostIndex> {
    let fits = |host: &HostIndex| {
        demand.nodes.iter().all(|node| ground.leads(node.host, *host) && ground.leads(*host, node.host))
    };
    (0..ground.topology.hosts.len()).filter(fits).collect()
}

/// The plan's own choice; `None` if it has none.
fn of_plan(prepared: &Prepared, part: HubsToPlace) -> Option<Vec<HostIndex>> {
    let hosts = |prepared: &Prepared| prepared.placement.hubs.iter().map(|hub| hub.host).collect();
    if part != HubsToPlace::Server {
        return Some(hosts(prepared));
    }
    let plan = Plan { architecture: Architecture::ClientServer, ..prepared.plan.clone() };
    Prepared::from_plan(plan, prepared.network.clone(), &prepared.file).ok().map(|prepared| hosts(&prepared))
}

fn choice(
    ground: &HostDistances<'_>,
    name: &'static str,
    hosts: &[HostIndex],
    way: f64,
    forecast: &Forecast,
) -> PlacementChoice {
    let topology = ground.topology;
    let service = |service: Service| {
        let at = service.row();
        ServiceForecast {
            service: service.metric_name(),
            requests_per_s: forecast.asked[at],
            median_ms: forecast.median[at] * 1e3,
            mean_ms: forecast.mean[at] * 1e3,
            bytes_per_request: forecast.bytes[at],
        }
    };
    let asked = Service::ALL.into_iter().filter(|service| forecast.asked[service.row()] > 0.0);
    let services: Vec<ServiceForecast> = asked.map(service).collect();
    let link = |(pipe, load): &(distances::NetDirection, f64)| LinkForecast {
        link: topology.nets[pipe.net].name.clone(),
        host: topology.hosts[topology.nets[pipe.net].members[pipe.member].host].name.clone(),
        direction: if pipe.to_net { "to-net" } else { "from-net" },
        load: *load,
    };
    PlacementChoice {
        name,
        hosts: hosts.iter().map(|host| topology.hosts[*host].name.clone()).collect(),
        way_ms: way * 1e3,
        bytes_per_s: services.iter().map(|service| service.requests_per_s * service.bytes_per_request).sum(),
        services,
        links: forecast.shares.iter().take(TOLD_LINKS).filter(|(_, load)| *load > 0.0).map(link).collect(),
    }
}
