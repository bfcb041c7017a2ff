//! Routes: the shortest path, by cost, from every host to every net.
//!
//! A host with more than one interface forwards. Costs are added up for each net crossed. Among equal paths the
//! first gateway, in the order of the nets and their members, is taken, so that routes repeat.

mod host_paths;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::Ipv4Addr;

use super::addresses::{Subnet, network};
use super::model::{HostIndex, Net, NetIndex, RouteTarget, Routing, Topology};

pub use host_paths::{Crossing, HostPaths};

/// A line of a host's routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoute {
    pub destination: Ipv4Addr,
    pub prefix: u8,
    /// The gateway; `None` if the destination is on the net itself, in a subnet that is not the host's own.
    pub via: Option<Ipv4Addr>,
    pub net: NetIndex,
    /// The host's index among that net's members.
    pub member: usize,
}

impl HostRoute {
    pub fn subnet(self) -> Subnet {
        Subnet { address: self.destination, prefix: self.prefix }
    }
}

/// Computes the routes of every host, besides those to its own subnets.
///
/// A host whose packets all leave by one gateway on its only interface gets a default route; others get one
/// route for each group of adjacent subnets. With [`Routing::None`] and [`Routing::Manual`] there are only the
/// explicit routes of the file, which come first with any routing. Every address should be
/// [assigned](super::addresses::assign); an interface without one takes no part.
pub fn compute(topology: &Topology) -> Vec<Vec<HostRoute>> {
    let map = RouteGraph::from_topology(topology);
    let mut tables = map.given(topology);
    if matches!(topology.routing, Routing::None | Routing::Manual) {
        return tables;
    }
    let mut remote: Vec<Vec<HostRoute>> = vec![Vec::new(); topology.hosts.len()];
    for target in 0..topology.nets.len() {
        let distances = map.distances(target);
        for (host, routes) in remote.iter_mut().enumerate() {
            if routes.first().is_some_and(|_| map.has_one_way_out(host)) {
                continue;
            }
            let Some(hop) = map.next_hop(host, &distances) else { continue };
            let prefixes = map.prefixes[target].iter();
            routes.extend(prefixes.map(|to| HostRoute { destination: to.address, prefix: to.prefix, ..hop }));
        }
    }
    for (host, routes) in remote.into_iter().enumerate() {
        let computed = map.own_strangers(host).into_iter().chain(map.compact(host, routes));
        let given: BTreeSet<_> = tables[host].iter().map(|route| (route.destination, route.prefix)).collect();
        tables[host].extend(computed.filter(|route| !given.contains(&(route.destination, route.prefix))));
    }
    tables
}

/// The topology in the form that the search needs.
struct RouteGraph<'a> {
    nets: &'a [Net],
    interfaces: Vec<Vec<(NetIndex, usize)>>,
    /// The indices of members that forward, by net.
    gateways: Vec<Vec<usize>>,
    /// The destinations that a route to each net needs.
    prefixes: Vec<Vec<Subnet>>,
}

impl<'a> RouteGraph<'a> {
    fn from_topology(topology: &'a Topology) -> Self {
        let subnets: Vec<Vec<Subnet>> = topology.nets.iter().map(subnets).collect();
        let shared = shared_subnets(&subnets);
        let prefixes = topology.nets.iter().zip(subnets).zip(shared);
        let prefixes = prefixes.map(|((net, subnets), shared)| if shared { singly(net) } else { subnets }).collect();
        let interfaces = topology.interfaces();
        let forwards = |net: &Net, place: usize| interfaces[net.members[place].host].len() > 1;
        let gateways = |net: &Net| (0..net.members.len()).filter(|place| forwards(net, *place)).collect();
        let gateways = topology.nets.iter().map(gateways).collect();
        Self { nets: &topology.nets, interfaces, gateways, prefixes }
    }

    /// True if all packets of a host beyond its net go through one gateway.
    fn has_one_way_out(&self, host: HostIndex) -> bool {
        matches!(self.interfaces[host].as_slice(), [(net, _)] if self.gateways[*net].len() == 1)
    }

    /// The explicit routes whose gateway shares a net with the host.
    fn given(&self, topology: &Topology) -> Vec<Vec<HostRoute>> {
        let mut tables = vec![Vec::new(); self.interfaces.len()];
        for route in &topology.manual_routes {
            let Some(hop) = self.hop_to(route.host, route.via) else { continue };
            let targets = match route.to {
                RouteTarget::Net(net) => self.prefixes[net].clone(),
                RouteTarget::Host(host) => {
                    let main = self.interfaces[host].first();
                    let address = main.and_then(|(net, member)| self.nets[*net].members[*member].address);
                    address.map(|address| Subnet { address, prefix: 32 }).into_iter().collect()
                }
            };
            let routes = targets.into_iter().map(|to| HostRoute { destination: to.address, prefix: to.prefix, ..hop });
            tables[route.host].extend(routes);
        }
        tables
    }

    /// The hop to a host on the same net, as a route without a destination.
    fn hop_to(&self, host: HostIndex, neighbour: HostIndex) -> Option<HostRoute> {
        self.interfaces[host].iter().find_map(|&(net, member)| {
            let via =
                self.nets[net].members.iter().find(|other| other.host == neighbour && other.host != host)?.address?;
            Some(HostRoute { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, via: Some(via), net, member })
        })
    }

    /// Routes to members of the host's own nets whose address is outside its subnet.
    fn own_strangers(&self, host: HostIndex) -> Vec<HostRoute> {
        let mut routes = Vec::new();
        for &(net, member) in &self.interfaces[host] {
            let own = &self.nets[net].members[member];
            let Some(address) = own.address else { continue };
            let others =
                self.nets[net].members.iter().filter(|other| other.host != host).filter_map(|other| other.address);
            let subnet = Subnet { address, prefix: own.prefix };
            let strangers = others.filter(|other| !subnet.contains(*other));
            routes.extend(strangers.map(|destination| HostRoute { destination, prefix: 32, via: None, net, member }));
        }
        routes
    }

    /// The cost from each host to the nearest member of `target`; infinite where no path leads there.
    fn distances(&self, target: NetIndex) -> Vec<f64> {
        let mut distances = vec![f64::INFINITY; self.interfaces.len()];
        let mut queue = BinaryHeap::new();
        for member in &self.nets[target].members {
            distances[member.host] = 0.0;
            queue.push(Reverse((RouteCost(0.0), member.host)));
        }
        let mut crossed = vec![false; self.nets.len()];
        crossed[target] = true;
        while let Some(Reverse((RouteCost(cost), host))) = queue.pop() {
            if cost > distances[host] || self.interfaces[host].len() < 2 {
                continue;
            }
            for &(net, _) in &self.interfaces[host] {
                // The first gateway of a net that is visited is the nearest.
                if std::mem::replace(&mut crossed[net], true) {
                    continue;
                }
                for neighbour in self.nets[net].members.iter().map(|member| member.host) {
                    let through = cost + self.nets[net].cost;
                    if through < distances[neighbour] {
                        distances[neighbour] = through;
                        // Hosts with a single interface do not forward.
                        if self.interfaces[neighbour].len() > 1 {
                            queue.push(Reverse((RouteCost(through), neighbour)));
                        }
                    }
                }
            }
        }
        distances
    }

    /// The first hop from a host to a net, as a route without a destination.
    fn next_hop(&self, host: HostIndex, distances: &[f64]) -> Option<HostRoute> {
        let (net, member, gateway) = self.next_gateway(host, distances)?;
        let via = Some(self.nets[net].members[gateway].address?);
        Some(HostRoute { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, via, net, member })
    }

    /// The first hop as the net, the host's index on it and the gateway's.
    fn next_gateway(&self, host: HostIndex, distances: &[f64]) -> Option<(NetIndex, usize, usize)> {
        let own = distances[host];
        if own == 0.0 || own.is_infinite() {
            return None;
        }
        self.interfaces[host].iter().find_map(|&(net, member)| {
            let cost = self.nets[net].cost;
            let host_of = |place: usize| self.nets[net].members[place].host;
            let nearer = |place: &usize| host_of(*place) != host && distances[host_of(*place)] + cost <= own;
            Some((net, member, self.gateways[net].iter().copied().find(nearer)?))
        })
    }

    fn compact(&self, host: HostIndex, routes: Vec<HostRoute>) -> Vec<HostRoute> {
        let Some(first) = routes.first().copied() else { return routes };
        let one_way = routes.iter().all(|route| (route.via, route.net) == (first.via, first.net));
        if one_way && self.interfaces[host].len() == 1 {
            return vec![HostRoute { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, ..first }];
        }
        let own = self.interfaces[host].iter().flat_map(|(net, _)| &self.prefixes[*net]);
        merge(routes, own.copied())
    }
}

/// A cost with a total order; never NaN.
#[derive(Clone, Copy, PartialEq)]
struct RouteCost(f64);

impl Eq for RouteCost {}

impl PartialOrd for RouteCost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RouteCost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

fn subnets(net: &Net) -> Vec<Subnet> {
    let mut subnets: Vec<Subnet> = Vec::new();
    for member in &net.members {
        let Some(address) = member.address else { continue };
        let subnet = Subnet { address: network(address, member.prefix), prefix: member.prefix };
        if !subnets.contains(&subnet) {
            subnets.push(subnet);
        }
    }
    subnets
}

/// True for each net with a subnet that overlaps one of another net.
fn shared_subnets(subnets: &[Vec<Subnet>]) -> Vec<bool> {
    let mut sorted: Vec<(Subnet, NetIndex)> = Vec::new();
    for (net, of_net) in subnets.iter().enumerate() {
        sorted.extend(of_net.iter().map(|subnet| (*subnet, net)));
    }
    // After sorting, a subnet comes right before those that it contains.
    sorted.sort_unstable();
    let mut shared = vec![false; subnets.len()];
    let mut widest: Option<(Subnet, NetIndex)> = None;
    for &(subnet, net) in &sorted {
        match widest {
            Some((wide, other)) if wide.overlaps(subnet) => {
                shared[net] |= other != net;
                shared[other] |= other != net;
            }
            _ => widest = Some((subnet, net)),
        }
    }
    shared
}

fn singly(net: &Net) -> Vec<Subnet> {
    net.members.iter().filter_map(|member| Some(Subnet { address: member.address?, prefix: 32 })).collect()
}

/// Joins adjacent subnets with the same gateway into shorter prefixes. A host's `own` subnets may be covered:
/// its direct routes to them are longer, and win.
fn merge(routes: Vec<HostRoute>, own: impl Iterator<Item = Subnet>) -> Vec<HostRoute> {
    let mut table: BTreeMap<(u8, u32), Option<HostRoute>> = BTreeMap::new();
    table.extend(own.map(|subnet| ((subnet.prefix, subnet.address.to_bits()), None)));
    table.extend(routes.into_iter().map(|route| ((route.prefix, route.destination.to_bits()), Some(route))));
    for prefix in (1..=32).rev() {
        let bit = 1_u32 << (32 - u32::from(prefix));
        let lower: Vec<u32> = table.range((prefix, 0)..=(prefix, u32::MAX)).map(|((_, at), _)| *at).collect();
        for at in lower.into_iter().filter(|at| at & bit == 0) {
            let (Some(left), Some(right)) = (table.get(&(prefix, at)), table.get(&(prefix, at | bit))) else {
                continue;
            };
            let same = |a: &HostRoute, b: &HostRoute| (a.via, a.net, a.member) == (b.via, b.net, b.member);
            let joined = match (*left, *right) {
                (Some(a), Some(b)) if !same(&a, &b) => continue,
                (a, b) => a.or(b),
            };
            if table.contains_key(&(prefix - 1, at)) {
                continue;
            }
            table.remove(&(prefix, at));
            table.remove(&(prefix, at | bit));
            let destination = Ipv4Addr::from_bits(at);
            table.insert((prefix - 1, at), joined.map(|route| HostRoute { destination, prefix: prefix - 1, ..route }));
        }
    }
    let mut routes: Vec<HostRoute> = table.into_values().flatten().collect();
    routes.sort_unstable_by_key(|route| (route.destination, route.prefix));
    routes
}

#[cfg(test)]
mod tests;
