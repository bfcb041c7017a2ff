//! Divisions of small networks made by hand, and of any topology.

use proptest::prelude::*;

use super::*;
use crate::testing;

const HOLD: Duration = Duration::from_millis(2);

/// Links with these delays in milliseconds, one way.
fn links(hosts: usize, links: &[(usize, usize, u64)]) -> Topology {
    let pairs: Vec<[usize; 2]> = links.iter().map(|(a, b, _)| [*a, *b]).collect();
    let mut topology = testing::nets(hosts, &pairs.iter().map(|pair| &pair[..]).collect::<Vec<_>>());
    for (net, (_, _, ms)) in topology.nets.iter_mut().zip(links) {
        net.kind = NetKind::Link;
        for member in &mut net.members {
            member.to_net.delay = Duration::from_millis(*ms);
            member.from_net.delay = Duration::ZERO;
        }
    }
    topology
}

fn request(machines: usize, placed: &[(HostIndex, usize)]) -> ShareRequest {
    ShareRequest { machines, placed: placed.iter().copied().collect(), hold: HOLD }
}

#[test]
fn short_links_stay_on_a_machine() {
    // Two sites of three hosts with 1 ms inside, 20 ms between.
    let topology = links(6, &[(0, 1, 1), (1, 2, 1), (3, 4, 1), (4, 5, 1), (2, 3, 20)]);
    let shares = divide(&topology, &request(2, &[(0, 1)])).unwrap();
    assert_eq!(shares.hosts, [1, 1, 1, 0, 0, 0]);
    assert_eq!(shares.carriers[..4], [1, 1, 0, 0]);
}

#[test]
fn tree_is_cut_at_one_link() {
    // Two hubs with three leaves each, all far.
    let topology = links(8, &[(0, 1, 20), (0, 2, 20), (0, 3, 20), (4, 5, 20), (4, 6, 20), (4, 7, 20), (0, 4, 20)]);
    let shares = divide(&topology, &request(2, &[])).unwrap();
    let cut = topology.nets.iter().filter(|net| shares.hosts[net.members[0].host] != shares.hosts[net.members[1].host]);
    assert_eq!(cut.count(), 1, "{shares:?}");
    assert_eq!(shares.hosts.iter().filter(|machine| **machine == 0).count(), 4);
}

#[test]
fn near_hosts_placed_apart_are_refused() {
    let topology = links(3, &[(0, 1, 1), (1, 2, 20)]);
    let error = divide(&topology, &request(2, &[(0, 0), (1, 1)])).unwrap_err().to_string();
    assert!(error.contains("at least 2ms") && error.contains("net0"), "{error}");
    assert!(divide(&topology, &request(2, &[(0, 0), (2, 1)])).is_ok());
}

#[test]
fn network_without_delay_is_refused() {
    let topology = links(3, &[(0, 1, 1), (1, 2, 1)]);
    assert!(matches!(
        divide(&topology, &request(2, &[])),
        Err(ShareError::TooFewGroups { groups: 1, machines: 2, .. })
    ));
}

#[test]
fn scheduled_short_delay_counts() {
    let mut topology = links(2, &[(0, 1, 20)]);
    let action = Action::Net { net: 0, from: None, change: TopologyChange::Delay(Duration::from_millis(1)) };
    topology.events.push(crate::model::Event {
        at: Duration::ZERO,
        after: None,
        object: String::new(),
        line: 0,
        action,
    });
    assert!(divide(&topology, &request(2, &[])).is_err());
}

#[test]
fn near_legs_are_with_their_carrier() {
    let mut topology = testing::nets(4, &[&[0, 1, 2, 3]]);
    for (place, member) in topology.nets[0].members.iter_mut().enumerate() {
        let delay = Duration::from_millis(if place < 2 { 1 } else { 10 });
        (member.to_net.delay, member.from_net.delay) = (delay, delay);
    }
    let shares = divide(&topology, &request(2, &[(0, 1)])).unwrap();
    assert_eq!((shares.hosts[0], shares.hosts[1], shares.carriers[0]), (1, 1, 1));
    assert_eq!(shares.hosts[2..], [0, 0]);
}

proptest! {
    #[test]
    fn division_fits_any_topology(topology in testing::any_topology(), machines in 1_usize..4) {
        if let Ok(shares) = divide(&topology, &request(machines, &[])) {
            prop_assert_eq!(shares.hosts.len(), topology.hosts.len());
            for (net, (found, carrier)) in topology.nets.iter().zip(&shares.carriers).enumerate() {
                let near = near_members(&topology, net, HOLD);
                for (member, near) in found.members.iter().zip(near) {
                    prop_assert!(!near || shares.hosts[member.host] == *carrier);
                }
            }
        }
    }
}
