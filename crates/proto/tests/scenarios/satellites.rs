//! A tree whose tiers are joined by satellites: 600 ms one way.

use std::time::Duration;

use roost_proto::peer::Event;
use roost_proto::wire::Coverage;
use roost_proto::{Area, Cell, Service};

use crate::finished;
use crate::world::{HostId, MS, SECOND, World, node_id};

const SATELLITE: Duration = Duration::from_millis(600);
const ACCESS: Duration = Duration::from_millis(10);

/// Two tops, an area below each, a home below each area; a requester at the
/// first and a provider at the second.
fn tree(seed: u64) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    world.path.delay = SATELLITE;
    let first = world.hosts.len();
    let tops = [HostId(first), HostId(first + 1)].map(|_| world.hub_below(2, &[], &[HostId(first), HostId(first + 1)]));
    let areas = tops.map(|top| world.hub_below(1, &[top], &[]));
    let homes = areas.map(|area| world.hub_below(0, &[area], &[]));
    let requester = world.node((0, 0), &[], &[homes[0]]);
    let provider = world.node((500, 500), &Service::ALL, &[homes[1]]);
    world.delays.extend([((requester, homes[0]), ACCESS), ((provider, homes[1]), ACCESS)]);
    world.settle();
    world.run(70 * SECOND);
    (world, requester, provider)
}

#[test]
fn everything_is_found_over_three_tiers_of_satellites() {
    let (mut world, requester, provider) = tree(1);
    // Five hops, there and back.
    let path = (SATELLITE * 5 + ACCESS) * 2;
    for area in [Area::At(Cell::new(500, 500)), Area::Near(Cell::new(0, 0)), Area::Anywhere] {
        let began = world.now;
        let ticket = world.lookup(requester, Service::Track, area);
        match world.outcome(requester, ticket) {
            Event::Found { found, .. } => {
                let nodes: Vec<_> = found.candidates.iter().map(|candidate| candidate.node).collect();
                assert_eq!((nodes, found.coverage), (vec![node_id(provider.0)], Coverage::Whole), "{area}");
            }
            other => panic!("{area}: {other:?}"),
        }
        let took = world.now.since(began);
        assert!(took <= path + 500 * MS, "{area}: {took:?}, the path is {path:?}");
    }
}

#[test]
fn what_is_nearest_is_served_over_three_tiers_of_satellites() {
    let (mut world, requester, provider) = tree(2);
    let ticket = world.request_with(requester, Service::Image, Area::Near(Cell::new(0, 0)), |wanted| {
        wanted.deadline = 30 * SECOND;
    });
    let summary = finished(&mut world, requester, ticket);
    assert_eq!((summary.complete, summary.provider), (true, node_id(provider.0)), "{summary:?}");
}
