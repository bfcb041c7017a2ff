//! Placement help: where to put super nodes, or the server, before anything is
//! started, and what it costs.
//!
//! | file | its part |
//! |---|---|
//! | `distances` | how far it is from host to host, by the routes that packets take |
//! | `demand` | who asks whom how often: the plan's workload in the long run |
//! | `request_costs` | bytes and round trips of one request, measured on the real messages and links |
//! | `forecast` | latencies, bytes and loads with given hosts |
//! | `search` | which hosts cost least |
//! | `latency_bounds` | the least time that a request can take |
//!
//! What is predicted is a network without queues and losses: a link that is
//! nearly full makes everything on it slower, and the advice says which one
//! that is. What nodes and hubs say to one another without being asked (leases,
//! probes, gossip) is left out; it is little beside data.

mod demand;
mod distances;
mod forecast;
mod latency_bounds;
mod request_costs;
mod search;
#[cfg(test)]
mod tests;

use roost_proto::Service;
use serde::Serialize;

use self::demand::Demand;
use self::distances::HostDistances;
use self::forecast::{Forecast, ForecastModel, there_and_back};
pub use self::latency_bounds::LatencyBounds;
use self::request_costs::RequestCosts;
use self::search::search;
use crate::experiment::plan::TransportChoice;
use crate::experiment::{Architecture, Plan, Prepared};
use crate::topology::model::HostIndex;
use crate::topology::suggest::did_you_mean;

/// The most super nodes that a place is looked for: tops are a full mesh.
pub const MAX_SUPER_NODES: usize = 64;
/// How many links of a choice are told.
const TOLD_LINKS: usize = 3;

/// What is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubsToPlace {
    /// So many super nodes.
    SuperNodes(usize),
    /// The server of the client/server baseline.
    Server,
}

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The plan has no hubs to place.
    #[error("multicast alone needs no super nodes: choose a plan with super-node or client-server")]
    Multicast,
    /// Super nodes in tiers.
    #[error("the plan has super nodes in {0} tiers, and one tier can be placed: say how many with --super-nodes")]
    Tiers(usize),
    /// More than there may be, or none.
    #[error("{0} super nodes cannot be placed: choose 1 to {MAX_SUPER_NODES}")]
    Count(usize),
    /// A host that is not there.
    #[error("the topology has no host `{name}`{near}")]
    NoHost {
        /// Its name.
        name: String,
        /// Which may be meant.
        near: String,
    },
    /// A host that is named twice.
    #[error("host {0} is named twice: a host has one super node")]
    Twice(String),
    /// One server, several hosts.
    #[error("there is one server: name one host")]
    OneServer,
    /// A host that nodes cannot reach.
    #[error("not all nodes reach host {0}: nothing can be placed there")]
    OutOfReach(String),
    /// Fewer hosts than that.
    #[error("{wanted} super nodes do not fit on {hosts} hosts that all nodes reach")]
    TooFew {
        /// Super nodes.
        wanted: usize,
        /// Hosts.
        hosts: usize,
    },
}

/// Where to put what, and what else there would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementAdvice {
    /// The network's name.
    pub topology: String,
    /// Its hosts, and those of them that are nodes.
    pub hosts: usize,
    /// See [`Self::hosts`].
    pub nodes: usize,
    /// `super-node` or `client-server`.
    pub architecture: &'static str,
    /// Whether every choice was looked at, so that no other is better.
    pub exact: bool,
    /// The choices, the best first; then the plan's and one's own.
    pub choices: Vec<PlacementChoice>,
}

/// Hosts, and what is to be expected with super nodes on them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementChoice {
    /// `best`, `second`, `third`; `plan` and `yours`.
    pub name: &'static str,
    /// The hosts' names.
    pub hosts: Vec<String>,
    /// How long requests are on their way from requester to provider, on
    /// average, milliseconds; through a server the way back as well.
    pub way_ms: f64,
    /// By service.
    pub services: Vec<ServiceForecast>,
    /// Bytes that requests put on all links together, a second.
    pub bytes_per_s: f64,
    /// The fullest links.
    pub links: Vec<LinkForecast>,
}

/// What is to be expected of the requests for one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceForecast {
    /// Its name.
    pub service: &'static str,
    /// Requests of all nodes, a second.
    pub requests_per_s: f64,
    /// Median latency, milliseconds: to the first byte of a stream, to the end
    /// of an object. Links without queues.
    pub median_ms: f64,
    /// Mean of the same.
    pub mean_ms: f64,
    /// Bytes that a request puts on links: each link or LAN that they cross counts.
    pub bytes_per_request: f64,
}

/// How full one direction of a link or LAN is to be expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkForecast {
    /// The link or LAN.
    pub link: String,
    /// Whose leg, or the sender's end of a link.
    pub host: String,
    /// `to-net` or `from-net`.
    pub direction: &'static str,
    /// Share of its rate, 1 is all of it. Above, nodes get less than they ask for.
    pub load: f64,
}

/// Says where to place a part for the workload of a plan, and what is gained
/// over `own`, if one has a choice of one's own.
///
/// Everything on `prepared`'s network is looked at, whatever hubs it has. It
/// takes memory for each pair of hosts: 170 MB for 4 096 of them.
///
/// # Errors
/// When the part or one's own choice does not fit the network.
pub fn advise(
    prepared: &Prepared,
    part: HubsToPlace,
    own: Option<&[String]>,
) -> Result<PlacementAdvice, PlacementError> {
    if prepared.plan.architecture == Architecture::Multicast {
        return Err(PlacementError::Multicast);
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
    // How often nodes ask hardly depends on where hubs are.
    field.update_demand(&candidates[..count]);
    let found = search(&candidates, count, effort as f64, |hubs| field.cost(hubs));
    let named = ["best", "second", "third"].into_iter().zip(found.best.into_iter().map(|(_, hosts)| hosts));
    let plans = of_plan(prepared, part).filter(|hosts| hosts.iter().all(|host| candidates.contains(host)));
    let others = plans.map(|hosts| ("plan", hosts)).into_iter().chain(own.map(|hosts| ("yours", hosts)));
    // All are compared under one demand; what each then leads to differs a little.
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

/// The hosts of these names.
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

/// The hosts from which all nodes are reached, and which they reach.
fn candidates(ground: &HostDistances<'_>, demand: &Demand<'_>) -> Vec<HostIndex> {
    let fits = |host: &HostIndex| {
        demand.nodes.iter().all(|node| ground.leads(node.host, *host) && ground.leads(*host, node.host))
    };
    (0..ground.topology.hosts.len()).filter(fits).collect()
}

/// Where the plan puts them without advice; nothing if it cannot tell.
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
        let at = service as usize;
        ServiceForecast {
            service: service.name(),
            requests_per_s: forecast.asked[at],
            median_ms: forecast.median[at] * 1e3,
            mean_ms: forecast.mean[at] * 1e3,
            bytes_per_request: forecast.bytes[at],
        }
    };
    let asked = Service::ALL.into_iter().filter(|service| forecast.asked[*service as usize] > 0.0);
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
