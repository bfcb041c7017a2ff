//! Who runs what where: which hosts take part, where the hubs are, whom each
//! node asks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use roost_proto::Cell;

use super::plan::{Architecture, Locality, Mix, Named, Part, Plan, PlanError, SuperNodes};
use crate::scenario::near::did_you_mean;
use crate::scenario::topology::{Host, HostIndex, Member, Routing, Topology};

/// The class of hosts that have none.
const CLASSLESS: &str = "node";
/// Classes whose hosts run no node unless the plan says so; a host of that
/// name and without a class counts as one.
const PASSIVE: [&str; 3] = ["server", "router", "switch"];
/// Classes in the order in which super nodes are placed: "two hierarchical
/// levels from the edge" is what the publication found best.
const HEIGHT: [&str; 2] = ["x45", "tactical"];

/// Who runs what where.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The nodes, in the topology's order.
    pub nodes: Vec<NodePlace>,
    /// The super nodes, or the server.
    pub hubs: Vec<HubPlace>,
    /// What the hosts of each class do, and whom those that take part ask.
    pub classes: BTreeMap<String, (Part, Locality)>,
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
    pub targets: Vec<usize>,
    /// The hubs that it turns to, the nearest first: places in [`Placement::hubs`].
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
}

/// Places a plan on a topology; `file` is the plan's, for what is wrong.
///
/// # Errors
/// When the two do not fit; with the plan's line where there is one.
pub(super) fn place(plan: &Plan, topology: &Topology, file: &Path) -> Result<Placement, PlanError> {
    let placer = Placer { plan, topology, file, neighbours: neighbours(topology), adjacent: adjacent(topology) };
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

/// For each host those with which it shares a link or LAN.
fn neighbours(topology: &Topology) -> Vec<BTreeSet<HostIndex>> {
    let mut neighbours = vec![BTreeSet::new(); topology.hosts.len()];
    for net in &topology.nets {
        for member in &net.members {
            let others = net.members.iter().map(|other| other.host).filter(|other| *other != member.host);
            neighbours[member.host].extend(others);
        }
    }
    neighbours
}

/// For each host those with which it shares a link or LAN, and the round trip over it.
fn adjacent(topology: &Topology) -> Vec<Vec<(HostIndex, Duration)>> {
    let mut adjacent = vec![Vec::new(); topology.hosts.len()];
    for net in &topology.nets {
        for member in &net.members {
            let legs = |member: &Member| member.to_net.delay + member.from_net.delay;
            let others = net.members.iter().filter(|other| other.host != member.host);
            adjacent[member.host].extend(others.map(|other| (other.host, legs(member) + legs(other))));
        }
    }
    adjacent
}

struct Placer<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    file: &'a Path,
    neighbours: Vec<BTreeSet<HostIndex>>,
    /// For each host those with which it shares a net, and the round trip over it.
    adjacent: Vec<Vec<(HostIndex, Duration)>>,
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

    fn classes(&self) -> Result<BTreeMap<String, (Part, Locality)>, PlanError> {
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
            let Part::Takes(mix) = self.part(class, &description.name)? else { continue };
            nodes.push(NodePlace {
                host,
                name: description.name.clone(),
                class: class.to_owned(),
                cell: Cell::new(0, 0),
                mix,
                targets: Vec::new(),
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

    fn part(&self, class: &str, host: &str) -> Result<Part, PlanError> {
        if let Some(part) = self.plan.classes.get(class).and_then(|class| class.part) {
            return Ok(part);
        }
        match class {
            CLASSLESS => Ok(Part::Takes(Mix::LOW)),
            _ if PASSIVE.contains(&class) => Ok(Part::None),
            _ => Mix::named(class).map(Part::Takes).ok_or_else(|| {
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
        for (place, node) in nodes.iter_mut().enumerate() {
            let locality = self.locality(&node.class);
            let may = |other: &usize| match locality {
                Locality::Link => self.neighbours[node.host].contains(&hosts[*other]),
                Locality::Anywhere => true,
            };
            node.targets = (0..hosts.len()).filter(|other| *other != place).filter(may).collect();
            let line = self.plan.classes.get(&node.class).map_or(0, |class| class.line);
            if node.targets.is_empty() {
                let message = format!("host {} may ask only those one hop away, and no node is", node.name);
                return Err(self.error(line, message));
            }
            let apart = |target: &&usize| !self.neighbours[node.host].contains(&hosts[**target]);
            let apart = node.targets.iter().find(apart).filter(|_| self.plan.architecture == Architecture::Multicast);
            if let Some(apart) = apart {
                let message = format!(
                    "host {} and host {} share no link, and multicast goes no farther: set locality = \"link\" in [classes.{}]",
                    node.name, self.topology.hosts[hosts[*apart]].name, node.class
                );
                return Err(self.error(line, message));
            }
            let far = node.targets.iter().find(|target| !self.reaches(node.host, hosts[**target]));
            if let Some(far) = far {
                return Err(self.unreachable(&node.name, &self.topology.hosts[hosts[*far]].name));
            }
        }
        Ok(())
    }

    fn unreachable(&self, from: &str, to: &str) -> PlanError {
        let why = match self.topology.routing {
            Routing::None => "the topology sets no routes; give it static ones",
            _ => "no links lead from one to the other",
        };
        self.error(0, format!("host {from} cannot reach {to}: {why}"))
    }

    fn reaches(&self, from: HostIndex, to: HostIndex) -> bool {
        from == to
            || match self.topology.routing {
                Routing::None => self.neighbours[from].contains(&to),
                // The experimenter sets them.
                Routing::Manual => true,
                _ => self.distances(from)[to].is_some(),
            }
    }

    fn hubs(&self, nodes: &[NodePlace]) -> Result<Vec<HubPlace>, PlanError> {
        let hosts = match (self.plan.architecture, &self.plan.super_nodes) {
            (Architecture::ClientServer, _) => vec![self.server()?],
            (Architecture::Multicast, _) => Vec::new(),
            (_, SuperNodes::Hosts(names)) => names.iter().map(|name| self.host(name)).collect::<Result<_, _>>()?,
            (_, SuperNodes::Count(count)) => highest(nodes, *count)
                .ok_or_else(|| self.error(0, format!("{count} super nodes do not fit on {} nodes", nodes.len())))?,
        };
        let mut seen = BTreeSet::new();
        if let Some(twice) = hosts.iter().find(|host| !seen.insert(**host)) {
            return Err(self.error(0, format!("host {} has two super nodes", self.topology.hosts[*twice].name)));
        }
        Ok(hosts.into_iter().map(|host| self.hub(host)).collect())
    }

    fn hub(&self, host: HostIndex) -> HubPlace {
        let mut name = format!("{}-hub", self.topology.hosts[host].name);
        while self.topology.host_index(&name).is_some() {
            name.push('x');
        }
        HubPlace { host, name, class: class_of(self.topology, host).to_owned() }
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

    /// Gives every node all hubs, the nearest first; where several are equally
    /// near, first the one that fewest nodes have as their first. Nodes that
    /// have no choice are dealt with first, so that the others even it out.
    fn choose_hubs(&self, nodes: &mut [NodePlace], hubs: &[HubPlace]) -> Result<(), PlanError> {
        let mut far = Vec::with_capacity(nodes.len());
        for node in nodes.iter() {
            if let Some(far) = hubs.iter().find(|hub| !self.reaches(node.host, hub.host)) {
                return Err(self.unreachable(&node.name, &self.topology.hosts[far.host].name));
            }
            let (hops, delays) = (self.distances(node.host), self.round_trips(node.host));
            let distance = |hub: &HubPlace| (delays[hub.host], hops[hub.host]);
            far.push(hubs.iter().map(distance).collect::<Vec<_>>());
        }
        let has_choice = |place: usize| {
            let nearest = far[place].iter().min();
            far[place].iter().filter(|distance| Some(*distance) == nearest).count() > 1
        };
        let (choosing, bound): (Vec<usize>, Vec<usize>) = (0..nodes.len()).partition(|place| has_choice(*place));
        let mut attached = vec![0_usize; hubs.len()];
        for place in bound.into_iter().chain(choosing) {
            let mut order: Vec<usize> = (0..hubs.len()).collect();
            order.sort_by_key(|hub| (far[place][*hub], attached[*hub]));
            if let Some(first) = order.first() {
                attached[*first] += 1;
            }
            nodes[place].hubs = order;
        }
        Ok(())
    }

    /// The shortest round trip to each host, by the delays of legs alone
    /// (Dijkstra's algorithm). Where no links lead it is the longest there is.
    fn round_trips(&self, from: HostIndex) -> Vec<Duration> {
        let mut trips = vec![Duration::MAX; self.topology.hosts.len()];
        trips[from] = Duration::ZERO;
        let mut open = BTreeSet::from([(Duration::ZERO, from)]);
        while let Some((trip, host)) = open.pop_first() {
            if trip > trips[host] {
                continue;
            }
            for (next, more) in &self.adjacent[host] {
                let longer = trip + *more;
                if longer < trips[*next] {
                    trips[*next] = longer;
                    open.insert((longer, *next));
                }
            }
        }
        trips
    }

    /// Hops to each host that links lead to.
    fn distances(&self, from: HostIndex) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.topology.hosts.len()];
        distances[from] = Some(0);
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((host, distance)) = queue.pop_front() {
            for next in &self.neighbours[host] {
                if distances[*next].is_none() {
                    distances[*next] = Some(distance + 1);
                    queue.push_back((*next, distance + 1));
                }
            }
        }
        distances
    }
}

/// The hosts of `count` nodes, those highest in the hierarchy first.
fn highest(nodes: &[NodePlace], count: usize) -> Option<Vec<HostIndex>> {
    let height = |node: &&NodePlace| HEIGHT.iter().position(|class| *class == node.class).unwrap_or(HEIGHT.len());
    let mut order: Vec<&NodePlace> = nodes.iter().collect();
    order.sort_by_key(height);
    (count <= order.len()).then(|| order[..count].iter().map(|node| node.host).collect())
}

#[cfg(test)]
mod tests;
