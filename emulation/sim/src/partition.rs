//! The parts of a large network that are simulated side by side.
//!
//! The parts follow from the network alone, never from the machine that simulates it, so that a run has one result
//! everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_netcore::PartId;
use roost_topology::model::{Action, Event, HostIndex, Net, NetIndex, NetKind, Topology};

/// Networks with fewer hubs and nodes are simulated as a whole: they are done soon.
const MIN_MACHINES: usize = 500;
/// Parts that exchange packets more often gain nothing.
const MIN_LOOKAHEAD: Duration = Duration::from_millis(1);
/// The smaller of the two parts has at least this fraction of the machines.
const MIN_FRACTION: f64 = 0.25;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    parts: Vec<PartId>,
    /// The shortest time from the end of a packet's transmission in one part to its arrival in the other.
    pub(super) lookahead: Option<Duration>,
}

impl Partition {
    pub(super) fn whole(topology: &Topology) -> Self {
        Self { parts: vec![0; topology.hosts.len()], lookahead: None }
    }

    /// The parts of a network with machines on these hosts: one if it is small or cannot be split.
    pub(super) fn of_topology(topology: &Topology, machines: &[HostIndex]) -> Self {
        let halves = (machines.len() >= MIN_MACHINES).then(|| Self::halves(topology, machines)).flatten();
        halves.unwrap_or_else(|| Self::whole(topology))
    }

    /// Two parts with the longest lookahead that splits the machines into similar shares.
    pub(super) fn halves(topology: &Topology, machines: &[HostIndex]) -> Option<Self> {
        if !topology.radios.is_empty() {
            return None;
        }
        let changed: BTreeSet<NetIndex> = topology.events.iter().filter_map(changed_net).collect();
        let delay = |(index, net)| if changed.contains(&index) { Duration::ZERO } else { lookahead(net) };
        let delays: Vec<Duration> = topology.nets.iter().enumerate().map(delay).collect();
        let mut choices: Vec<Duration> = delays.iter().copied().filter(|delay| *delay >= MIN_LOOKAHEAD).collect();
        choices.sort_unstable();
        choices.dedup();
        let split = |lookahead: &Duration| {
            let joined = topology.nets.iter().zip(&delays).filter(|(_, delay)| *delay < lookahead);
            let parts = halves(&components(topology.hosts.len(), joined.map(|(net, _)| net)), machines)?;
            Some(Self { parts, lookahead: Some(*lookahead) })
        };
        // A shorter lookahead joins fewer hosts, so it can split all that a longer one can.
        let possible = choices.partition_point(|lookahead| split(lookahead).is_some());
        split(choices.get(possible.checked_sub(1)?)?)
    }

    pub(super) const fn count(&self) -> PartId {
        if self.lookahead.is_some() { 2 } else { 1 }
    }

    pub(super) fn part(&self, host: HostIndex) -> PartId {
        self.parts[host]
    }
}

fn changed_net(event: &Event) -> Option<NetIndex> {
    match event.action {
        Action::Net { net, .. } => Some(net),
        _ => None,
    }
}

/// The shortest time that a net's packets are in flight before they come to another host or to the switch; zero for a
/// net with a trace.
fn lookahead(net: &Net) -> Duration {
    if net.members.iter().any(|member| member.to_net.trace.is_some() || member.from_net.trace.is_some()) {
        return Duration::ZERO;
    }
    let to_net = net.members.iter().map(|member| member.to_net.delay).min().unwrap_or_default();
    let from_net = net.members.iter().map(|member| member.from_net.delay).min().unwrap_or_default();
    if net.kind == NetKind::Link && net.members.len() == 2 { to_net + from_net } else { to_net }
}

/// The component of each host over these nets, named by one of its hosts.
fn components<'a>(hosts: usize, nets: impl Iterator<Item = &'a Net>) -> Vec<HostIndex> {
    fn root(above: &mut [HostIndex], mut host: HostIndex) -> HostIndex {
        while above[host] != host {
            above[host] = above[above[host]];
            host = above[host];
        }
        host
    }
    let mut above: Vec<HostIndex> = (0..hosts).collect();
    for net in nets {
        for pair in net.members.windows(2) {
            let (a, b) = (root(&mut above, pair[0].host), root(&mut above, pair[1].host));
            above[a.max(b)] = a.min(b);
        }
    }
    (0..hosts).map(|host| root(&mut above, host)).collect()
}

/// Puts each component into the part that has fewer machines so far, the largest first; `None` if one part gets too
/// few.
fn halves(components: &[HostIndex], machines: &[HostIndex]) -> Option<Vec<PartId>> {
    let mut sizes: BTreeMap<HostIndex, usize> = components.iter().map(|component| (*component, 0)).collect();
    for host in machines {
        *sizes.entry(components[*host]).or_default() += 1;
    }
    let mut by_size: Vec<(HostIndex, usize)> = sizes.into_iter().collect();
    by_size.sort_by_key(|(component, size)| (std::cmp::Reverse(*size), *component));
    let mut loads = [0, 0];
    let mut part_of = BTreeMap::new();
    for (component, size) in by_size {
        let part = usize::from(loads[1] < loads[0]);
        loads[part] += size;
        part_of.insert(component, part as PartId);
    }
    let fraction = loads[0].min(loads[1]) as f64 / machines.len() as f64;
    (fraction >= MIN_FRACTION).then(|| components.iter().map(|component| part_of[component]).collect())
}

#[cfg(test)]
mod tests {
    use roost_topology::generate::{Forest, Star};
    use roost_topology::model::TopologyChange;

    use super::*;

    fn all(topology: &Topology) -> Vec<HostIndex> {
        (0..topology.hosts.len()).collect()
    }

    #[test]
    fn forest_is_split_between_its_roots() {
        let forest = Forest::for_nodes(4_000).topology().unwrap();
        let partition = Partition::of_topology(&forest, &all(&forest));
        assert_eq!((partition.count(), partition.lookahead), (2, Some(Duration::from_millis(10))));
        for net in forest.nets.iter().filter(|net| net.name != "core") {
            let first = partition.part(net.members[0].host);
            assert!(net.members.iter().all(|member| partition.part(member.host) == first), "{}", net.name);
        }
        let sizes = [0, 1].map(|part| all(&forest).into_iter().filter(|host| partition.part(*host) == part).count());
        assert!(sizes[0].abs_diff(sizes[1]) < 600, "{sizes:?}");
    }

    #[test]
    fn star_is_split_at_links() {
        let star = Star::published(600).topology().unwrap();
        let partition = Partition::of_topology(&star, &all(&star));
        assert_eq!(partition.count(), 2);
    }

    #[test]
    fn changing_and_small_networks_stay_whole() {
        let small = Forest::for_nodes(400).topology().unwrap();
        assert_eq!(Partition::of_topology(&small, &all(&small)), Partition::whole(&small));
        let mut changing = Forest::for_nodes(4_000).topology().unwrap();
        let core = changing.nets.iter().position(|net| net.name == "core").unwrap();
        let action = Action::Net { net: core, from: None, change: TopologyChange::Down };
        changing.events.push(Event { at: Duration::from_secs(1), after: None, object: String::new(), line: 0, action });
        assert_eq!(Partition::of_topology(&changing, &all(&changing)), Partition::whole(&changing));
    }
}
