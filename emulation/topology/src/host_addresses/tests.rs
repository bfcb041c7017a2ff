use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::addresses::assign;
use crate::testing::{self, address};

fn addresses(topology: Topology) -> HostAddresses {
    HostAddresses::from_topology(&assign(&Topology { routing: Routing::Static, ..topology }).unwrap())
}

#[test]
fn without_routes_all_addresses_count() {
    for (routing, count) in [(Routing::None, 2), (Routing::Manual, 2), (Routing::Static, 1), (Routing::Session, 1)] {
        let topology = Topology { routing, ..testing::nets(3, &[&[0, 1], &[1, 2]]) };
        let found = HostAddresses::from_topology(&assign(&topology).unwrap());
        assert_eq!((found.all(1).len(), found.toward(1, 2).len()), (count, count));
    }
}

#[test]
fn trees_have_main_addresses_alone() {
    let tree = addresses(testing::nets(6, &[&[0, 1], &[1, 2, 3], &[3, 4], &[3, 5]]));
    for (host, main) in [(1, "10.1.1.3"), (3, "10.1.2.4"), (5, "10.1.4.3")] {
        assert_eq!((tree.main(host), tree.all(host)), (Some(address(main)), vec![address(main)]));
    }
    assert_eq!(tree.toward(3, 5), [address("10.1.2.4")]);
}

#[test]
fn shared_net_comes_first() {
    // A link of two hosts, a LAN of both and two more, and one that has another way to the link.
    let cycle = addresses(testing::nets(5, &[&[0, 1], &[0, 1, 2, 3], &[3, 4]]));
    assert_eq!(cycle.toward(1, 2), [address("10.1.2.3"), address("10.1.1.3")]);
    assert_eq!(cycle.toward(1, 0), [address("10.1.1.3"), address("10.1.2.3")]);
    assert_eq!(cycle.toward(1, 4), [address("10.1.1.3"), address("10.1.2.3")]);
    assert_eq!(cycle.all(3), [address("10.1.2.5")]);
    let triangle = addresses(testing::nets(3, &[&[0, 1], &[1, 2], &[2, 0]]));
    assert_eq!(triangle.toward(0, 2), [address("10.1.3.3"), address("10.1.1.2")]);
    assert_eq!((triangle.main(7), triangle.all(7)), (None, Vec::new()));
}

/// True if a way leads from one net to another one of the host, but not through the host.
fn leads_back(nets: &[Vec<usize>], host: usize, net: usize) -> bool {
    let mut seen = BTreeSet::from([net]);
    let mut open = vec![net];
    while let Some(at) = open.pop() {
        for via in nets[at].iter().filter(|via| **via != host) {
            for (next, _) in nets.iter().enumerate().filter(|(_, members)| members.contains(via)) {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    seen.iter().any(|other| *other != net && nets[*other].contains(&host))
}

proptest! {
    #[test]
    fn cycles_are_those_found_by_walking(nets in vec(btree_set(0_usize..9, 2..4), 0..12)) {
        let nets: Vec<Vec<usize>> = nets.into_iter().map(|members| members.into_iter().collect()).collect();
        let members: Vec<&[usize]> = nets.iter().map(Vec::as_slice).collect();
        let topology = assign(&Topology { routing: Routing::Static, ..testing::nets(9, &members) }).unwrap();
        let found = HostAddresses::from_topology(&topology);
        for host in 0..9 {
            let own: Vec<usize> = (0..nets.len()).filter(|net| nets[*net].contains(&host)).collect();
            let needed = own.iter().enumerate().filter(|(place, net)| *place == 0 || leads_back(&nets, host, **net));
            let member = |net: usize| topology.nets[net].members.iter().find(|member| member.host == host).unwrap();
            let expected: Vec<_> = needed.map(|(_, net)| member(*net).address.unwrap()).collect();
            prop_assert_eq!(found.all(host), expected);
        }
    }
}
