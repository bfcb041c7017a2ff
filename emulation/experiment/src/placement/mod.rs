//! Placement: the hosts that take part, the hosts of hubs, and the providers of each node.

mod map;
mod targets;
mod tiers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use roost_core::node::MAX_HUBS;
use roost_topology::model::{Host, HostIndex, Routing, Topology};
use roost_topology::suggest::did_you_mean;
use roost_wire::{Cell, Role};

use super::plan::{
    Architecture, HubSelection, Locality, Mix, Named, Participation, Plan, PlanError, PlanErrors, SuperNodes,
};
use map::DistanceMap;
pub use targets::Targets;

const CLASSLESS: &str = "node";
/// Classes whose hosts run no node unless the plan says so. A host without a class counts as one of them if it
/// has its name.
const PASSIVE: [&str; 6] = ["server", "router", "switch", "root", "middle", "home"];
/// Classes in the order in which super nodes are placed. The paper found "two hierarchical levels from the
/// edge" to be best.
const HEIGHT: [&str; 5] = ["root", "middle", "home", "x45", "tactical"];

/// The nodes, the hubs, and their hosts.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The nodes, in the topology's order.
    pub nodes: Vec<PlacedNode>,
    /// The super nodes, highest tier first; or the server, followed by its caches, which form the tier below
    /// it.
    pub hubs: Vec<PlacedHub>,
    /// The participation of each class of hosts, and the targets of its requests.
    pub classes: BTreeMap<String, (Participation, Locality)>,
}

#[derive(Clone, Debug)]
pub struct PlacedNode {
    pub host: HostIndex,
    /// The name of the host and of the node.
    pub name: String,
    pub class: String,
    /// The cell of the grid, which no other node shares.
    pub cell: Cell,
    pub mix: Mix,
    /// Targets of requests, as indices into [`Placement::nodes`].
    pub targets: Targets,
    /// Indices into [`Placement::hubs`] of the hubs that it uses, nearest first, at most [`MAX_HUBS`]: super
    /// nodes of the lowest tier, or the server and its caches.
    pub hubs: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedHub {
    pub host: HostIndex,
    pub name: String,
    pub class: String,
    /// The tier; the lowest is 0.
    pub tier: u8,
    /// The hubs above it, nearest first; empty for a root.
    pub parents: Vec<usize>,
}

impl Placement {
    /// The number of tiers; 0 without hubs.
    pub fn tiers(&self) -> usize {
        self.hubs.first().map_or(0, |highest| usize::from(highest.tier) + 1)
    }

    /// The siblings before a hub: other roots for a root, else hubs with the same parent.
    pub fn earlier_siblings(&self, hub: usize) -> impl Iterator<Item = usize> + '_ {
        let PlacedHub { tier, parents, .. } = &self.hubs[hub];
        let beside = move |other: &PlacedHub| other.tier == *tier && other.parents.first() == parents.first();
        (0..hub).filter(move |earlier| beside(&self.hubs[*earlier]))
    }
}

/// Places a plan on a topology; `file` is the plan's, for messages.
///
/// # Errors
/// Fails when the two do not fit; with the plan's line where there is one.
pub(super) fn place(plan: &Plan, topology: &Topology, file: &Path) -> Result<Placement, PlanError> {
    let placer = Placer { plan, topology, file, map: DistanceMap::from_topology(topology) };
    let mut wrong = PlanErrors::default();
    placer.check_classes(&mut wrong);
    placer.check_mixes(&mut wrong);
    wrong.into_result()?;
    if !plan.architecture.has_daemons() {
        return Ok(Placement { nodes: Vec::new(), hubs: Vec::new(), classes: BTreeMap::new() });
    }
    let mut nodes = placer.nodes()?;
    let hubs = placer.hubs(&nodes)?;
    placer.choose_targets(&mut nodes)?;
    placer.choose_hubs(&mut nodes, &hubs)?;
    placer.choose_homes(&mut nodes, &hubs)?;
    Ok(Placement { nodes, hubs, classes: placer.classes()? })
}

pub(super) fn host(topology: &Topology, named: &Named, file: &Path) -> Result<HostIndex, PlanError> {
    let Named { name, line } = named;
    topology.host_index(name).ok_or_else(|| {
        let near = did_you_mean(name, topology.hosts.iter().map(|host| host.name.as_str()));
        PlanError::new(file, *line, format!("the topology has no host `{name}`{near}"))
    })
}

/// The class of a host. A host without one is of class `node`, except for one whose name is a passive class.
pub(super) fn class_of(topology: &Topology, host: HostIndex) -> &str {
    let host = &topology.hosts[host];
    let by_name = || PASSIVE.into_iter().find(|name| *name == host.name).unwrap_or(CLASSLESS);
    host.class.as_deref().unwrap_or_else(by_name)
}

/// The classes of a topology whose hosts take part by default.
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

    /// Records the classes of the plan of which there is no host.
    fn check_classes(&self, wrong: &mut PlanErrors) {
        let known: BTreeSet<&str> = (0..self.topology.hosts.len()).map(|host| class_of(self.topology, host)).collect();
        for (name, class) in self.plan.classes.iter().filter(|(name, _)| !known.contains(name.as_str())) {
            let known: Vec<&str> = known.iter().copied().collect();
            let near = did_you_mean(name, known.iter().copied());
            let message = format!("no host is of class `{name}`; this topology has {}{near}", known.join(", "));
            wrong.record_error(Err(self.error(class.line, message)));
        }
    }

    /// Records the classes of hosts of which nothing says the mix, each with its first host.
    fn check_mixes(&self, wrong: &mut PlanErrors) {
        if !self.plan.architecture.has_daemons() {
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, host) in self.topology.hosts.iter().enumerate() {
            let class = class_of(self.topology, index);
            if seen.insert(class) {
                wrong.record_error(self.part(class, &host.name).map(drop));
            }
        }
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

    fn nodes(&self) -> Result<Vec<PlacedNode>, PlanError> {
        let mut nodes = Vec::new();
        for (host, description) in self.topology.hosts.iter().enumerate() {
            let class = class_of(self.topology, host);
            let Participation::Active(mix) = self.part(class, &description.name)? else { continue };
            nodes.push(PlacedNode {
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

    /// Puts each node into its cell in the topology, or all on a grid of their own.
    fn choose_cells(&self, nodes: &mut [PlacedNode]) -> Result<(), PlanError> {
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
        // A square grid with a cell for every node.
        let side = (1..).find(|side| side * side >= nodes.len()).unwrap_or(1);
        let mut free = (0_i32..).flat_map(|y| (0..side as i32).map(move |x| Cell::new(x, y)));
        for node in nodes {
            let given = self.topology.hosts[node.host].cell.map(|(x, y)| Cell::new(x, y));
            let next = || free.find(|cell| !taken.contains_key(cell)).unwrap_or(Cell::new(0, 0));
            node.cell = given.unwrap_or_else(next);
        }
        Ok(())
    }

    fn choose_targets(&self, nodes: &mut [PlacedNode]) -> Result<(), PlanError> {
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

    fn check_targets(&self, node: &PlacedNode, hosts: &[HostIndex]) -> Result<(), PlanError> {
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
