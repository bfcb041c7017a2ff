//! Who runs what where: which hosts take part, where the hubs are, whom each
//! node asks.

mod map;
mod targets;
mod tiers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use roost_proto::node::MAX_HUBS;
use roost_proto::{Cell, Role};

use super::plan::{Architecture, HubSelection, Locality, Mix, Named, Participation, Plan, PlanError, SuperNodes};
use crate::topology::model::{Host, HostIndex, Routing, Topology};
use crate::topology::suggest::did_you_mean;
use map::DistanceMap;
pub use targets::Targets;

/// The class of hosts that have none.
const CLASSLESS: &str = "node";
/// Classes whose hosts run no node unless the plan says so; a host without a
/// class that is called after one of them counts as one.
const PASSIVE: [&str; 6] = ["server", "router", "switch", "top", "middle", "home"];
/// Classes in the order in which super nodes are placed: "two hierarchical
/// levels from the edge" is what the publication found best.
const HEIGHT: [&str; 5] = ["top", "middle", "home", "x45", "tactical"];

/// Who runs what where.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The nodes, in the topology's order.
    pub nodes: Vec<NodePlace>,
    /// The super nodes, those of the highest tier first; or the server and then
    /// its caches, which are the tier below it.
    pub hubs: Vec<HubPlace>,
    /// What the hosts of each class do, and whom those that take part ask.
    pub classes: BTreeMap<String, (Participation, Locality)>,
}

/// A node and what it does.
#[derive(Clone, Debug)]
pub struct NodePlace {
    /// Its host.
    pub host: HostIndex,
    /// The host's name, which is the node's.
    pub name: String,
    /// The host's class.
    pub class: String,
    /// Where it stands on the grid; nobody else stands there.
    pub cell: Cell,
    /// What it asks for.
    pub mix: Mix,
    /// Whom it asks: places in [`Placement::nodes`].
    pub targets: Targets,
    /// The hubs that it turns to, the super nodes of the lowest tier, or the
    /// server and its caches; the nearest first: places in [`Placement::hubs`],
    /// at most [`MAX_HUBS`].
    pub hubs: Vec<usize>,
}

/// A hub and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubPlace {
    /// Its host.
    pub host: HostIndex,
    /// Its own name, which no host has.
    pub name: String,
    /// The host's class.
    pub class: String,
    /// Its tier, counted from the lowest, 0.
    pub tier: u8,
    /// The hubs above it, the nearest first; none at the top.
    pub parents: Vec<usize>,
}

impl Placement {
    /// How many tiers the hubs form; 0 without hubs.
    pub fn tiers(&self) -> usize {
        self.hubs.first().map_or(0, |highest| usize::from(highest.tier) + 1)
    }

    /// The earlier ones of the hubs beside one: the other tops of a top,
    /// elsewhere those that have the same parent.
    pub fn earlier_siblings(&self, hub: usize) -> impl Iterator<Item = usize> + '_ {
        let HubPlace { tier, parents, .. } = &self.hubs[hub];
        let beside = move |other: &HubPlace| other.tier == *tier && other.parents.first() == parents.first();
        (0..hub).filter(move |earlier| beside(&self.hubs[*earlier]))
    }
}

/// Places a plan on a topology; `file` is the plan's, for what is wrong.
///
/// # Errors
/// When the two do not fit; with the plan's line where there is one.
pub(super) fn place(plan: &Plan, topology: &Topology, file: &Path) -> Result<Placement, PlanError> {
    let placer = Placer { plan, topology, file, map: DistanceMap::from_topology(topology) };
    placer.check_classes()?;
    let mut nodes = placer.nodes()?;
    let hubs = placer.hubs(&nodes)?;
    placer.choose_targets(&mut nodes)?;
    placer.choose_hubs(&mut nodes, &hubs)?;
    Ok(Placement { nodes, hubs, classes: placer.classes()? })
}

/// The host that a plan names.
pub(super) fn host(topology: &Topology, named: &Named, file: &Path) -> Result<HostIndex, PlanError> {
    let Named { name, line } = named;
    topology.host_index(name).ok_or_else(|| {
        let near = did_you_mean(name, topology.hosts.iter().map(|host| host.name.as_str()));
        PlanError::new(file, *line, format!("the topology has no host `{name}`{near}"))
    })
}

/// The class of a host; hosts without one are of class `node`, but for those
/// that are called `server`, `router` or `switch`.
fn class_of(topology: &Topology, host: HostIndex) -> &str {
    let host = &topology.hosts[host];
    let by_name = || PASSIVE.into_iter().find(|name| *name == host.name).unwrap_or(CLASSLESS);
    host.class.as_deref().unwrap_or_else(by_name)
}

/// The classes of a topology whose hosts take part unless a plan says otherwise.
pub fn classes_that_ask(topology: &Topology) -> BTreeSet<String> {
    let classes = (0..topology.hosts.len()).map(|host| class_of(topology, host));
    classes.filter(|class| !PASSIVE.contains(class)).map(str::to_owned).collect()
}

struct Placer<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    file: &'a Path,
    map: DistanceMap<'a>,
}

impl Placer<'_> {
    fn error(&self, line: usize, message: impl Into<String>) -> PlanError {
        PlanError::new(self.file, line, message)
    }

    fn check_classes(&self) -> Result<(), PlanError> {
        let known: BTreeSet<&str> = (0..self.topology.hosts.len()).map(|host| class_of(self.topology, host)).collect();
        for (name, class) in &self.plan.classes {
            if !known.contains(name.as_str()) {
                let known: Vec<&str> = known.into_iter().collect();
                let message = format!("no host is of class `{name}`; this topology has {}", known.join(", "));
                return Err(self.error(class.line, message));
            }
        }
        Ok(())
    }

    fn classes(&self) -> Result<BTreeMap<String, (Participation, Locality)>, PlanError> {
        let hosts = self.topology.hosts.iter().enumerate();
        let of = |(index, host): (HostIndex, &Host)| {
            let class = class_of(self.topology, index);
            Ok((class.to_owned(), (self.part(class, &host.name)?, self.locality(class))))
        };
        hosts.map(of).collect()
    }

    fn locality(&self, class: &str) -> Locality {
        let default = if class == "low" { Locality::Link } else { Locality::Anywhere };
        self.plan.classes.get(class).and_then(|class| class.locality).unwrap_or(default)
    }

    fn nodes(&self) -> Result<Vec<NodePlace>, PlanError> {
        let mut nodes = Vec::new();
        for (host, description) in self.topology.hosts.iter().enumerate() {
            let class = class_of(self.topology, host);
            let Participation::Active(mix) = self.part(class, &description.name)? else { continue };
            nodes.push(NodePlace {
                host,
                name: description.name.clone(),
                class: class.to_owned(),
                cell: Cell::new(0, 0),
                mix,
                targets: Targets::from_iter([]),
                hubs: Vec::new(),
            });
        }
        if nodes.len() < 2 {
            let message = format!("its topology has {} hosts that take part; two are needed at least", nodes.len());
            return Err(self.error(0, message));
        }
        self.choose_cells(&mut nodes)?;
        Ok(nodes)
    }

    fn part(&self, class: &str, host: &str) -> Result<Participation, PlanError> {
        if let Some(part) = self.plan.classes.get(class).and_then(|class| class.part) {
            return Ok(part);
        }
        match class {
            CLASSLESS => Ok(Participation::Active(Mix::LOW)),
            _ if PASSIVE.contains(&class) => Ok(Participation::None),
            _ => Mix::named(class).map(Participation::Active).ok_or_else(|| {
                let message = format!(
                    "host {host} is of class `{class}`, and nothing says what it asks for: add [classes.{class}] with a mix"
                );
                self.error(0, message)
            }),
        }
    }

    /// Each node stands where the topology puts it; the others on a grid of their own.
    fn choose_cells(&self, nodes: &mut [NodePlace]) -> Result<(), PlanError> {
        let mut taken: BTreeMap<Cell, &str> = BTreeMap::new();
        for node in nodes.iter() {
            let host = &self.topology.hosts[node.host];
            let Some((x, y)) = host.cell else { continue };
            let cell = Cell::new(x, y);
            if !cell.is_on_grid() {
                return Err(self.error(0, format!("host {} stands at {cell}, which is not on the grid", host.name)));
            }
            if let Some(other) = taken.insert(cell, &host.name) {
                let message =
                    format!("hosts {other} and {} both stand at {cell}: requests name one by its cell", host.name);
                return Err(self.error(0, message));
            }
        }
        // As wide as it is high, and enough of it: at most as many cells are taken as there are nodes.
        let side = (1..).find(|side| side * side >= nodes.len()).unwrap_or(1);
        let mut free = (0_i32..).flat_map(|y| (0..side as i32).map(move |x| Cell::new(x, y)));
        for node in nodes {
            let given = self.topology.hosts[node.host].cell.map(|(x, y)| Cell::new(x, y));
            let next = || free.find(|cell| !taken.contains_key(cell)).unwrap_or(Cell::new(0, 0));
            node.cell = given.unwrap_or_else(next);
        }
        Ok(())
    }

    fn choose_targets(&self, nodes: &mut [NodePlace]) -> Result<(), PlanError> {
        let hosts: Vec<HostIndex> = nodes.iter().map(|node| node.host).collect();
        let places: BTreeMap<HostIndex, usize> = hosts.iter().enumerate().map(|(place, host)| (*host, place)).collect();
        let all_reach = self.map.all_reach(hosts.iter().copied());
        let count = nodes.len();
        for (place, node) in nodes.iter_mut().enumerate() {
            node.targets = match self.locality(&node.class) {
                // Hosts and nodes have the same order.
                Locality::Link => {
                    self.map.adjacent_hosts(node.host).iter().filter_map(|host| places.get(host).copied()).collect()
                }
                Locality::Anywhere => Targets::Others { own: place, nodes: count },
            };
            self.check_targets(node, &hosts)?;
            let far = || node.targets.iter().find(|target| !self.map.reaches(node.host, hosts[*target]));
            if let Some(far) = (!all_reach).then(far).flatten() {
                return Err(self.unreachable(&node.name, &self.topology.hosts[hosts[far]].name));
            }
        }
        Ok(())
    }

    fn check_targets(&self, node: &NodePlace, hosts: &[HostIndex]) -> Result<(), PlanError> {
        let line = self.plan.classes.get(&node.class).map_or(0, |class| class.line);
        if node.targets.is_empty() {
            let message = format!("host {} may ask only those one hop away, and no node is", node.name);
            return Err(self.error(line, message));
        }
        if self.plan.architecture != Architecture::Multicast {
            return Ok(());
        }
        let apart = node.targets.iter().find(|target| !self.map.share_a_net(node.host, hosts[*target]));
        apart.map_or(Ok(()), |apart| {
            let message = format!(
                "host {} and host {} share no link, and multicast goes no farther: set locality = \"link\" in [classes.{}]",
                node.name, self.topology.hosts[hosts[apart]].name, node.class
            );
            Err(self.error(line, message))
        })
    }

    fn unreachable(&self, from: &str, to: &str) -> PlanError {
        let why = match self.topology.routing {
            Routing::None => "the topology sets no routes; give it static ones",
            _ => "no links lead from one to the other",
        };
        self.error(0, format!("host {from} cannot reach {to}: {why}"))
    }

    fn server(&self) -> Result<HostIndex, PlanError> {
        if let Some(named) = &self.plan.server {
            return self.host(named);
        }
        (0..self.topology.hosts.len()).find(|host| class_of(self.topology, *host) == "server").ok_or_else(|| {
            self.error(0, "no host of its topology is of class `server`: say which one it is with server = \"HOST\"")
        })
    }

    fn host(&self, named: &Named) -> Result<HostIndex, PlanError> {
        host(self.topology, named, self.file)
    }
}

#[cfg(test)]
mod tests;
