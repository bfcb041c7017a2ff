use proptest::prelude::*;

use super::*;
use crate::addresses::assign;
use crate::model::ManualRoute;
use crate::testing::{self, address};

fn table(topology: &Topology, host: usize) -> Vec<String> {
    let assigned = assign(topology).unwrap();
    let text = |route: &HostRoute| {
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
fn leaf_gets_default_router_every_net() {
    // 0 - 1 - 2 - 3 - 4
    let chain = with_routing(testing::nets(5, &[&[0, 1], &[1, 2], &[2, 3], &[3, 4]]), Routing::Static);
    assert_eq!(table(&chain, 0), ["0.0.0.0/0 via 10.1.1.3 net0"]);
    assert_eq!(table(&chain, 2), ["10.1.1.0/24 via 10.1.2.2 net1", "10.1.4.0/24 via 10.1.3.3 net2"]);
    assert!(table(&with_routing(chain.clone(), Routing::None), 0).is_empty());
    assert!(table(&with_routing(chain, Routing::Manual), 2).is_empty());
}

#[test]
fn manual_routes_survive_any_routing() {
    let mut chain = with_routing(testing::nets(4, &[&[0, 1], &[1, 2], &[2, 3]]), Routing::Manual);
    let route = |host, to, via| ManualRoute { host, to, via };
    chain.manual_routes =
        vec![route(0, RouteTarget::Net(1), 1), route(0, RouteTarget::Host(3), 1), route(0, RouteTarget::Net(2), 3)];
    assert_eq!(table(&chain, 0), ["10.1.2.0/24 via 10.1.1.3 net0", "10.1.3.3/32 via 10.1.1.3 net0"]);
    chain.routing = Routing::Static;
    assert_eq!(table(&chain, 0)[2], "0.0.0.0/0 via 10.1.1.3 net0");
}

#[test]
fn adjacent_subnets_merge_per_gateway() {
    // 0 - 1 (10.1.1), 1 - 2 (10.1.2), and 2 has leaves on 10.1.3 to 10.1.7.
    let nets: &[&[usize]] = &[&[0, 1], &[1, 2], &[2, 3], &[2, 4], &[2, 5], &[2, 6], &[2, 7]];
    let star = with_routing(testing::nets(8, nets), Routing::Static);
    assert_eq!(table(&star, 1), ["10.1.2.0/23 via 10.1.2.3 net1", "10.1.4.0/22 via 10.1.2.3 net1"]);
}

#[test]
fn cost_selects_path_order_breaks_ties() {
    // A square: 0-1, 1-3, 0-2, 2-3. The route to 10.1.2 may cover 10.1.3, the host's own.
    let mut square = with_routing(testing::nets(4, &[&[0, 1], &[1, 3], &[0, 2], &[2, 3]]), Routing::Session);
    assert_eq!(table(&square, 0), ["10.1.2.0/23 via 10.1.1.3 net0", "10.1.4.0/24 via 10.1.3.3 net2"]);
    square.nets[1].cost = 5.0;
    assert_eq!(table(&square, 0), ["10.1.2.0/23 via 10.1.1.3 net0", "10.1.4.0/24 via 10.1.3.3 net2"]);
    square.nets[0].cost = 5.0;
    assert_eq!(table(&square, 0), ["10.1.2.0/23 via 10.1.3.3 net2", "10.1.4.0/24 via 10.1.3.3 net2"]);
}

#[test]
fn foreign_subnet_on_link_is_direct() {
    let mut topology = with_routing(testing::nets(2, &[&[0, 1]]), Routing::Static);
    topology.nets[0].members[0].address = Some(address("1.0.4.1"));
    topology.nets[0].members[1].address = Some(address("1.0.0.1"));
    assert_eq!(table(&topology, 0), ["1.0.0.1/32 on link net0"]);
}

#[test]
fn shared_subnets_route_by_address() {
    let mut topology = with_routing(testing::nets(3, &[&[0, 1], &[1, 2]]), Routing::Static);
    for (net, place, text) in [(0, 0, "10.9.0.2"), (0, 1, "10.9.0.3"), (1, 0, "10.9.0.4"), (1, 1, "10.9.0.5")] {
        topology.nets[net].members[place].address = Some(address(text));
    }
    assert_eq!(table(&topology, 0), ["0.0.0.0/0 via 10.9.0.3 net0"]);
    topology = with_routing(testing::nets(4, &[&[0, 1], &[1, 2], &[0, 3]]), Routing::Static);
    topology.nets[0].members[0].address = Some(address("10.9.0.2"));
    topology.nets[1].members[1].address = Some(address("10.9.0.5"));
    assert_eq!(table(&topology, 0), ["10.9.0.4/31 via 10.9.0.3 net0"]);
}

/// Follows the routes like a kernel: the longest prefix wins.
fn walk(topology: &Topology, tables: &[Vec<HostRoute>], from: usize, to: Ipv4Addr) -> Option<(usize, f64)> {
    let (mut host, mut cost) = (from, 0.0);
    let interfaces = topology.interfaces();
    for _ in 0..64 {
        let own = interfaces[host].iter().map(|(net, member)| &topology.nets[*net].members[*member]);
        if own.clone().any(|member| member.address == Some(to)) {
            return Some((host, cost));
        }
        let connected = own.zip(&interfaces[host]).map(|(member, (net, place))| HostRoute {
            destination: network(member.address.unwrap(), member.prefix),
            prefix: member.prefix,
            via: None,
            net: *net,
            member: *place,
        });
        let all = connected.chain(tables[host].iter().copied());
        let matching = all.filter(|route| route.subnet().contains(to));
        let route = matching.max_by_key(|route| route.prefix)?;
        let next = route.via.unwrap_or(to);
        let there = topology.nets[route.net].members.iter().find(|member| member.address == Some(next))?;
        (host, cost) = (there.host, cost + topology.nets[route.net].cost);
    }
    None
}

/// The cost of the cheapest path from a host to an interface of another, by brute force.
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
    fn every_address_uses_cheapest_path(topology in testing::any_topology()) {
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
                    // The cost is less if the path leads through the host itself.
                    prop_assert!(cost <= expected + net.cost + 1e-9, "{cost} for {expected}");
                }
            }
        }
    }
}
