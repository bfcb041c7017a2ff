//! Routes: the shortest path, by cost, from every host to every net.
//!
//! A host with more than one interface forwards. Costs are added up per net
//! crossed; among equal paths the gateway that comes first, in the order of
//! the nets and of their members, is taken, so that routes repeat.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::Ipv4Addr;

use super::addresses::{network, overlap};
use super::topology::{HostIndex, Net, NetIndex, RouteTarget, Routing, Topology};

/// One line of a host's routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to: with `prefix` 0 everywhere.
    pub destination: Ipv4Addr,
    /// The length of its prefix.
    pub prefix: u8,
    /// The gateway; none where the destination is on the net itself, under
    /// another subnet than the host's own.
    pub via: Option<Ipv4Addr>,
    /// The net that the packet leaves by.
    pub net: NetIndex,
    /// The host's place among that net's members.
    pub member: usize,
}

/// The routes of every host, besides those to its own subnets.
///
/// A host whose packets all leave by one gateway on its only interface gets a
/// default route; others get one route for each group of neighbouring
/// subnets. With [`Routing::None`] and [`Routing::Manual`] there are none but
/// those that the file gives, which come first whatever the routing is.
/// Expects every address to be [assigned](super::addresses::assign); an
/// interface without one takes no part.
pub fn compute(topology: &Topology) -> Vec<Vec<Route>> {
    let map = Map::of(topology);
    let mut tables = map.given(topology);
    if matches!(topology.routing, Routing::None | Routing::Manual) {
        return tables;
    }
    let mut remote: Vec<Vec<Route>> = vec![Vec::new(); topology.hosts.len()];
    for target in 0..topology.nets.len() {
        let distances = map.distances(target);
        for (host, routes) in remote.iter_mut().enumerate() {
            if routes.first().is_some_and(|_| map.has_one_way_out(host)) {
                continue;
            }
            let Some(hop) = map.next_hop(host, &distances) else { continue };
            let prefixes = map.prefixes[target].iter();
            routes.extend(prefixes.map(|&(destination, prefix)| Route { destination, prefix, ..hop }));
        }
    }
    for (host, routes) in remote.into_iter().enumerate() {
        let computed = map.own_strangers(host).into_iter().chain(map.compact(host, routes));
        let given: BTreeSet<_> = tables[host].iter().map(|route| (route.destination, route.prefix)).collect();
        tables[host].extend(computed.filter(|route| !given.contains(&(route.destination, route.prefix))));
    }
    tables
}

/// The topology as the search needs it.
struct Map<'a> {
    nets: &'a [Net],
    interfaces: Vec<Vec<(NetIndex, usize)>>,
    /// The places of those who forward, by net.
    gateways: Vec<Vec<usize>>,
    /// What a route to each net has to name.
    prefixes: Vec<Vec<(Ipv4Addr, u8)>>,
}

impl<'a> Map<'a> {
    fn of(topology: &'a Topology) -> Self {
        let subnets: Vec<Vec<(Ipv4Addr, u8)>> = topology.nets.iter().map(subnets).collect();
        let shared = shared_subnets(&subnets);
        let prefixes = topology.nets.iter().zip(subnets).zip(shared);
        let prefixes = prefixes.map(|((net, subnets), shared)| if shared { singly(net) } else { subnets }).collect();
        let interfaces = topology.interfaces();
        let forwards = |net: &Net, place: usize| interfaces[net.members[place].host].len() > 1;
        let gateways = |net: &Net| (0..net.members.len()).filter(|place| forwards(net, *place)).collect();
        let gateways = topology.nets.iter().map(gateways).collect();
        Self { nets: &topology.nets, interfaces, gateways, prefixes }
    }

    /// Whether all that a host sends beyond its net goes through one gateway.
    fn has_one_way_out(&self, host: HostIndex) -> bool {
        matches!(self.interfaces[host].as_slice(), [(net, _)] if self.gateways[*net].len() == 1)
    }

    /// The routes that the file gives, as far as they lead over a neighbour.
    fn given(&self, topology: &Topology) -> Vec<Vec<Route>> {
        let mut tables = vec![Vec::new(); self.interfaces.len()];
        for route in &topology.manual_routes {
            let Some(hop) = self.hop_to(route.host, route.via) else { continue };
            let targets = match route.to {
                RouteTarget::Net(net) => self.prefixes[net].clone(),
                RouteTarget::Host(host) => {
                    let main = self.interfaces[host].first();
                    let address = main.and_then(|(net, member)| self.nets[*net].members[*member].address);
                    address.map(|address| (address, 32)).into_iter().collect()
                }
            };
            let routes = targets.into_iter().map(|(destination, prefix)| Route { destination, prefix, ..hop });
            tables[route.host].extend(routes);
        }
        tables
    }

    /// The step to a neighbour, as a route without its destination.
    fn hop_to(&self, host: HostIndex, neighbour: HostIndex) -> Option<Route> {
        self.interfaces[host].iter().find_map(|&(net, member)| {
            let via =
                self.nets[net].members.iter().find(|other| other.host == neighbour && other.host != host)?.address?;
            Some(Route { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, via: Some(via), net, member })
        })
    }

    /// Routes to those on the host's own nets whose address is not of its subnet.
    fn own_strangers(&self, host: HostIndex) -> Vec<Route> {
        let mut routes = Vec::new();
        for &(net, member) in &self.interfaces[host] {
            let own = &self.nets[net].members[member];
            let Some(address) = own.address else { continue };
            let others =
                self.nets[net].members.iter().filter(|other| other.host != host).filter_map(|other| other.address);
            let strangers = others.filter(|other| !overlap((*other, 32), (address, own.prefix)));
            routes.extend(strangers.map(|destination| Route { destination, prefix: 32, via: None, net, member }));
        }
        routes
    }

    /// What it costs each host to reach the nearest member of `target`;
    /// infinite where no path leads there.
    fn distances(&self, target: NetIndex) -> Vec<f64> {
        let mut distances = vec![f64::INFINITY; self.interfaces.len()];
        let mut queue = BinaryHeap::new();
        for member in &self.nets[target].members {
            distances[member.host] = 0.0;
            queue.push(Reverse((Cost(0.0), member.host)));
        }
        let mut crossed = vec![false; self.nets.len()];
        crossed[target] = true;
        while let Some(Reverse((Cost(cost), host))) = queue.pop() {
            if cost > distances[host] || self.interfaces[host].len() < 2 {
                continue;
            }
            for &(net, _) in &self.interfaces[host] {
                // The first to come by is the nearest gateway of that net.
                if std::mem::replace(&mut crossed[net], true) {
                    continue;
                }
                for neighbour in self.nets[net].members.iter().map(|member| member.host) {
                    let through = cost + self.nets[net].cost;
                    if through < distances[neighbour] {
                        distances[neighbour] = through;
                        queue.push(Reverse((Cost(through), neighbour)));
                    }
                }
            }
        }
        distances
    }

    /// The first step of a host's way to a net, as a route without its destination.
    fn next_hop(&self, host: HostIndex, distances: &[f64]) -> Option<Route> {
        let own = distances[host];
        if own == 0.0 || own.is_infinite() {
            return None;
        }
        self.interfaces[host].iter().find_map(|&(net, member)| {
            let cost = self.nets[net].cost;
            let gateway = self.gateways[net].iter().map(|place| &self.nets[net].members[*place]);
            let gateway = gateway.filter(|gateway| gateway.host != host).find(|it| distances[it.host] + cost <= own)?;
            Some(Route { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, via: Some(gateway.address?), net, member })
        })
    }

    /// Fewer routes to the same effect.
    fn compact(&self, host: HostIndex, routes: Vec<Route>) -> Vec<Route> {
        let Some(first) = routes.first().copied() else { return routes };
        let one_way = routes.iter().all(|route| (route.via, route.net) == (first.via, first.net));
        if one_way && self.interfaces[host].len() == 1 {
            return vec![Route { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, ..first }];
        }
        let own = self.interfaces[host].iter().flat_map(|(net, _)| &self.prefixes[*net]);
        merge(routes, own.copied())
    }
}

/// A cost that can be ordered; never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Cost(f64);

impl Eq for Cost {}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The subnets of a net's members, each once.
fn subnets(net: &Net) -> Vec<(Ipv4Addr, u8)> {
    let mut subnets: Vec<(Ipv4Addr, u8)> = Vec::new();
    for member in &net.members {
        let Some(address) = member.address else { continue };
        let subnet = (network(address, member.prefix), member.prefix);
        if !subnets.contains(&subnet) {
            subnets.push(subnet);
        }
    }
    subnets
}

/// Which nets have a subnet that overlaps one of another net.
fn shared_subnets(subnets: &[Vec<(Ipv4Addr, u8)>]) -> Vec<bool> {
    let mut sorted: Vec<(Ipv4Addr, u8, NetIndex)> = Vec::new();
    for (net, of_net) in subnets.iter().enumerate() {
        sorted.extend(of_net.iter().map(|(address, prefix)| (*address, *prefix, net)));
    }
    // A subnet comes right before those that it holds.
    sorted.sort_unstable();
    let mut shared = vec![false; subnets.len()];
    let mut widest: Option<(Ipv4Addr, u8, NetIndex)> = None;
    for &(address, prefix, net) in &sorted {
        match widest {
            Some(wide) if overlap((wide.0, wide.1), (address, prefix)) => {
                shared[net] |= wide.2 != net;
                shared[wide.2] |= wide.2 != net;
            }
            _ => widest = Some((address, prefix, net)),
        }
    }
    shared
}

/// Every member's address on its own.
fn singly(net: &Net) -> Vec<(Ipv4Addr, u8)> {
    net.members.iter().filter_map(|member| Some((member.address?, 32))).collect()
}

/// Joins neighbouring subnets that are reached the same way into shorter
/// prefixes. A host's `own` subnets may be covered: its direct routes to them
/// are longer, and win.
fn merge(routes: Vec<Route>, own: impl Iterator<Item = (Ipv4Addr, u8)>) -> Vec<Route> {
    let mut table: BTreeMap<(u8, u32), Option<Route>> = BTreeMap::new();
    table.extend(own.map(|(address, prefix)| ((prefix, address.to_bits()), None)));
    table.extend(routes.into_iter().map(|route| ((route.prefix, route.destination.to_bits()), Some(route))));
    for prefix in (1..=32).rev() {
        let bit = 1_u32 << (32 - u32::from(prefix));
        let lower: Vec<u32> = table.range((prefix, 0)..=(prefix, u32::MAX)).map(|((_, at), _)| *at).collect();
        for at in lower.into_iter().filter(|at| at & bit == 0) {
            let (Some(left), Some(right)) = (table.get(&(prefix, at)), table.get(&(prefix, at | bit))) else {
                continue;
            };
            let same = |a: &Route, b: &Route| (a.via, a.net, a.member) == (b.via, b.net, b.member);
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
            table.insert((prefix - 1, at), joined.map(|route| Route { destination, prefix: prefix - 1, ..route }));
        }
    }
    let mut routes: Vec<Route> = table.into_values().flatten().collect();
    routes.sort_unstable_by_key(|route| (route.destination, route.prefix));
    routes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::addresses::assign;
    use super::super::fixture::{self, address};
    use super::super::topology::ManualRoute;
    use super::*;

    fn table(topology: &Topology, host: usize) -> Vec<String> {
        let assigned = assign(topology).unwrap();
        let text = |route: &Route| {
            let via = route.via.map_or("on link".to_owned(), |via| format!("via {via}"));
            format!("{}/{} {via} net{}", route.destination, route.prefix, route.net)
        };
        compute(&assigned)[host].iter().map(text).collect()
    }

    fn with_routing(mut topology: Topology, routing: Routing) -> Topology {
        topology.routing = routing;
        topology
    }

    #[test]
    fn a_leaf_gets_a_default_route_and_a_router_one_for_each_far_net() {
        // 0 - 1 - 2 - 3 - 4
        let chain = with_routing(fixture::nets(5, &[&[0, 1], &[1, 2], &[2, 3], &[3, 4]]), Routing::Static);
        assert_eq!(table(&chain, 0), ["0.0.0.0/0 via 10.1.1.3 net0"]);
        assert_eq!(table(&chain, 2), ["10.1.1.0/24 via 10.1.2.2 net1", "10.1.4.0/24 via 10.1.3.3 net2"]);
        assert!(table(&with_routing(chain.clone(), Routing::None), 0).is_empty());
        assert!(table(&with_routing(chain, Routing::Manual), 2).is_empty());
    }

    #[test]
    fn routes_that_a_file_gives_are_there_whatever_the_routing() {
        let mut chain = with_routing(fixture::nets(4, &[&[0, 1], &[1, 2], &[2, 3]]), Routing::Manual);
        let route = |host, to, via| ManualRoute { host, to, via };
        chain.manual_routes =
            vec![route(0, RouteTarget::Net(1), 1), route(0, RouteTarget::Host(3), 1), route(0, RouteTarget::Net(2), 3)];
        assert_eq!(table(&chain, 0), ["10.1.2.0/24 via 10.1.1.3 net0", "10.1.3.3/32 via 10.1.1.3 net0"]);
        chain.routing = Routing::Static;
        assert_eq!(table(&chain, 0)[2], "0.0.0.0/0 via 10.1.1.3 net0");
    }

    #[test]
    fn neighbouring_subnets_behind_one_gateway_become_one_route() {
        // 0 - 1 (10.1.1), 1 - 2 (10.1.2), and 2 has leaves on 10.1.3 to 10.1.7.
        let nets: &[&[usize]] = &[&[0, 1], &[1, 2], &[2, 3], &[2, 4], &[2, 5], &[2, 6], &[2, 7]];
        let star = with_routing(fixture::nets(8, nets), Routing::Static);
        assert_eq!(table(&star, 1), ["10.1.2.0/23 via 10.1.2.3 net1", "10.1.4.0/22 via 10.1.2.3 net1"]);
    }

    #[test]
    fn costs_choose_the_path_and_the_order_breaks_ties() {
        // A square: 0-1, 1-3, 0-2, 2-3. The route to 10.1.2 may cover 10.1.3, the host's own.
        let mut square = with_routing(fixture::nets(4, &[&[0, 1], &[1, 3], &[0, 2], &[2, 3]]), Routing::Session);
        assert_eq!(table(&square, 0), ["10.1.2.0/23 via 10.1.1.3 net0", "10.1.4.0/24 via 10.1.3.3 net2"]);
        square.nets[1].cost = 5.0;
        assert_eq!(table(&square, 0), ["10.1.2.0/23 via 10.1.1.3 net0", "10.1.4.0/24 via 10.1.3.3 net2"]);
        square.nets[0].cost = 5.0;
        assert_eq!(table(&square, 0), ["10.1.2.0/23 via 10.1.3.3 net2", "10.1.4.0/24 via 10.1.3.3 net2"]);
    }

    #[test]
    fn a_stranger_on_the_same_link_is_reached_without_a_gateway() {
        let mut topology = with_routing(fixture::nets(2, &[&[0, 1]]), Routing::Static);
        topology.nets[0].members[0].address = Some(address("1.0.4.1"));
        topology.nets[0].members[1].address = Some(address("1.0.0.1"));
        assert_eq!(table(&topology, 0), ["1.0.0.1/32 on link net0"]);
    }

    #[test]
    fn nets_that_share_a_subnet_are_told_apart_by_address() {
        let mut topology = with_routing(fixture::nets(3, &[&[0, 1], &[1, 2]]), Routing::Static);
        for (net, place, text) in [(0, 0, "10.9.0.2"), (0, 1, "10.9.0.3"), (1, 0, "10.9.0.4"), (1, 1, "10.9.0.5")] {
            topology.nets[net].members[place].address = Some(address(text));
        }
        assert_eq!(table(&topology, 0), ["0.0.0.0/0 via 10.9.0.3 net0"]);
        topology = with_routing(fixture::nets(4, &[&[0, 1], &[1, 2], &[0, 3]]), Routing::Static);
        topology.nets[0].members[0].address = Some(address("10.9.0.2"));
        topology.nets[1].members[1].address = Some(address("10.9.0.5"));
        assert_eq!(table(&topology, 0), ["10.9.0.4/31 via 10.9.0.3 net0"]);
    }

    /// Follows the routes as a kernel does: the longest prefix wins.
    fn walk(topology: &Topology, tables: &[Vec<Route>], from: usize, to: Ipv4Addr) -> Option<(usize, f64)> {
        let (mut host, mut cost) = (from, 0.0);
        let interfaces = topology.interfaces();
        for _ in 0..64 {
            let own = interfaces[host].iter().map(|(net, member)| &topology.nets[*net].members[*member]);
            if own.clone().any(|member| member.address == Some(to)) {
                return Some((host, cost));
            }
            let connected = own.zip(&interfaces[host]).map(|(member, (net, place))| Route {
                destination: network(member.address.unwrap(), member.prefix),
                prefix: member.prefix,
                via: None,
                net: *net,
                member: *place,
            });
            let all = connected.chain(tables[host].iter().copied());
            let matching = all.filter(|route| overlap((route.destination, route.prefix), (to, 32)));
            let route = matching.max_by_key(|route| route.prefix)?;
            let next = route.via.unwrap_or(to);
            let there = topology.nets[route.net].members.iter().find(|member| member.address == Some(next))?;
            (host, cost) = (there.host, cost + topology.nets[route.net].cost);
        }
        None
    }

    /// What the cheapest way from a host to an interface of another costs, by brute force.
    fn cheapest(topology: &Topology, from: usize, net: usize) -> Option<f64> {
        let interfaces = topology.interfaces();
        let mut best = vec![f64::INFINITY; topology.hosts.len()];
        best[from] = 0.0;
        for _ in 0..topology.hosts.len() {
            for of in &topology.nets {
                let start = of.members.iter().filter(|m| m.host == from || interfaces[m.host].len() > 1);
                let through = start.map(|m| best[m.host]).fold(f64::INFINITY, f64::min) + of.cost;
                of.members.iter().for_each(|m| best[m.host] = best[m.host].min(through));
            }
        }
        let last = topology.nets[net].members.iter().filter(|m| m.host == from || interfaces[m.host].len() > 1);
        Some(last.map(|m| best[m.host]).fold(f64::INFINITY, f64::min)).filter(|cost| cost.is_finite())
    }

    proptest! {
        #[test]
        fn every_address_is_reached_by_a_cheapest_path(topology in fixture::any_topology()) {
            let topology = Topology { manual_routes: Vec::new(), ..topology };
            let topology = assign(&with_routing(topology, Routing::Static)).unwrap();
            let tables = compute(&topology);
            for from in 0..topology.hosts.len() {
                for (index, net) in topology.nets.iter().enumerate() {
                    for member in net.members.iter().filter(|member| member.host != from) {
                        let walked = walk(&topology, &tables, from, member.address.unwrap());
                        let expected = cheapest(&topology, from, index);
                        prop_assert_eq!(walked.map(|(host, _)| host), expected.map(|_| member.host));
                        let (Some((_, cost)), Some(expected)) = (walked, expected) else { continue };
                        // Less if the way leads through the host itself.
                        prop_assert!(cost <= expected + net.cost + 1e-9, "{cost} for {expected}");
                    }
                }
            }
        }
    }
}
