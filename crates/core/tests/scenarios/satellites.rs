//! A tree whose tiers are joined by satellites, 600 ms one way, and everything over round trips
//! of up to ten seconds.

use crate::*;

const SATELLITE: Duration = Duration::from_millis(600);
const ACCESS: Duration = Duration::from_millis(10);

/// Two roots, an area below each, a home below each area; a requester at the
/// first and a provider at the second.
fn tree(seed: u64) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    world.path.delay = SATELLITE;
    let first = world.hosts.len();
    let roots =
        [HostId(first), HostId(first + 1)].map(|_| world.hub_below(2, &[], &[HostId(first), HostId(first + 1)]));
    let areas = roots.map(|root| world.hub_below(1, &[root], &[]));
    let homes = areas.map(|area| world.hub_below(0, &[area], &[]));
    let requester = world.node((0, 0), &[], &[homes[0]]);
    let provider = world.node((500, 500), &Service::ALL, &[homes[1]]);
    world.delays.extend([((requester, homes[0]), ACCESS), ((provider, homes[1]), ACCESS)]);
    world.run_until_attached();
    world.run(70 * SECOND);
    (world, requester, provider)
}

#[test]
fn lookups_cross_satellite_tiers() {
    let (mut world, requester, provider) = tree(1);
    // Five hops, there and back.
    let path = (SATELLITE * 5 + ACCESS) * 2;
    for area in [Area::Exact(Cell::new(500, 500)), Area::Nearest(Cell::new(0, 0)), Area::Anywhere] {
        let began = world.now;
        let ticket = world.lookup(requester, Service::Track, area);
        match world.outcome(requester, ticket) {
            NodeEvent::LookupResult { found, .. } => {
                let nodes: Vec<_> = found.candidates.iter().map(|candidate| candidate.node).collect();
                assert_eq!((nodes, found.coverage), (vec![node_id(provider.0)], Coverage::Complete), "{area}");
            }
            other => panic!("{area}: {other:?}"),
        }
        let took = world.now.since(began);
        assert!(took <= path + 500 * MS, "{area}: {took:?}, the path is {path:?}");
    }
}

#[test]
fn nearest_provider_serves_over_satellites() {
    let (mut world, requester, provider) = tree(2);
    let ticket = world.request_with(requester, Service::Image, Area::Nearest(Cell::new(0, 0)), |wanted| {
        wanted.timeout = Some(30 * SECOND);
    });
    let summary = finished(&mut world, requester, ticket);
    assert_eq!((summary.complete, summary.provider), (true, node_id(provider.0)), "{summary:?}");
}

/// Tenths of a second.
const ROUND_TRIPS: [u32; 8] = [1, 6, 12, 16, 20, 40, 70, 100];

#[test]
fn services_arrive_over_every_rtt() {
    let ways = [
        (Role::SuperNode, RequestMode::Forward),
        (Role::SuperNode, RequestMode::Relay),
        (Role::Server, RequestMode::Forward),
    ];
    for (number, (role, mode)) in ways.into_iter().enumerate() {
        for (tenths, dial_ways) in ROUND_TRIPS.into_iter().flat_map(|tenths| [(tenths, 4), (tenths, 6)]) {
            let case = format!("{role:?} {mode:?}, {tenths} tenths of a second, {dial_ways} ways");
            let (mut world, provider, requester) = far(u64::from(tenths) + number as u64, role, (tenths, dial_ways));
            for service in Service::ALL {
                let ticket = world.request_with(requester, service, ANYWHERE, |wanted| wanted.mode = mode);
                let summary = finished(&mut world, requester, ticket);
                assert!(summary.complete && summary.interruptions == 0, "{case}, {service}: {summary:?}");
                assert_eq!(summary.lost + summary.duplicates, 0, "{case}, {service}");
            }
            world.run(60 * SECOND);
            assert!(world.status(provider).sessions.is_empty(), "{case}");
            assert_eq!(world.hosts[provider.0].opened.len(), Service::ALL.len(), "{case}: asked again in vain");
            for node in [provider, requester] {
                let failovers = world.status(node).counters.failovers;
                assert_eq!(failovers, 0, "{case}: a home that answers was given up");
            }
        }
    }
}

/// Ten segments, as TCP has them under way at first.
const FIRST_WINDOW: usize = 14_480;

#[test]
fn all_services_outlast_a_slow_start() {
    let ways = [
        (Role::SuperNode, RequestMode::Forward),
        (Role::SuperNode, RequestMode::Relay),
        (Role::Server, RequestMode::Forward),
    ];
    for (role, mode) in ways {
        for tenths in ROUND_TRIPS {
            let case = format!("{role:?} {mode:?}, {tenths} tenths of a second");
            let (mut world, provider, requester) = far(u64::from(tenths), role, (tenths, 6));
            world.first_window = Some(FIRST_WINDOW);
            let ask = |service| world.request_with(requester, service, ANYWHERE, |wanted| wanted.mode = mode);
            for (service, ticket) in Service::ALL.into_iter().zip(Service::ALL.map(ask)) {
                let summary = finished(&mut world, requester, ticket);
                assert!(summary.complete && summary.lost == 0, "{case}, {service}: {summary:?}");
            }
            world.run(60 * SECOND);
            assert!(world.status(provider).sessions.is_empty(), "{case}");
        }
    }
}

/// A hub, a provider of everything and a requester, so far from one another.
fn far(seed: u64, role: Role, (tenths, dial_ways): (u32, u32)) -> (World, HostId, HostId) {
    let mut world = World::new(seed);
    world.path.delay = MS * 50 * tenths;
    (world.dial_ways, world.dial_timeout) = (dial_ways, 15 * SECOND);
    let hub = world.hub(role);
    let provider = world.node((27, 92), &Service::ALL, &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    let all = |world: &World| [provider, requester].iter().all(|node| world.is_attached(*node));
    assert!(world.run_while(120 * SECOND, all), "seed {seed}: not attached");
    (world, provider, requester)
}

#[test]
fn hubs_stay_connected_over_every_rtt() {
    for tenths in ROUND_TRIPS {
        let mut world = World::new(u64::from(tenths));
        world.path.delay = MS * 50 * tenths;
        let hubs = world.mesh(3);
        world.run(200 * SECOND);
        let before = hubs.iter().map(|hub| world.connections_at(*hub)).collect::<Vec<_>>();
        world.run(600 * SECOND);
        let after = hubs.iter().map(|hub| world.connections_at(*hub)).collect::<Vec<_>>();
        assert_eq!(before, after, "{tenths} tenths of a second: connections came and went");
        assert!(after.iter().all(|connections| connections.len() >= 2), "{tenths} tenths of a second: {after:?}");
    }
}

/// A node that knows a dead hub first, and another one so far away.
fn node_beside_a_dead_hub(tenths: u32, is_first_dead: bool) -> (World, HostId, HostId) {
    let mut world = World::new(u64::from(tenths));
    world.dial_timeout = 15 * SECOND;
    let hubs = [0, 1].map(|_| world.hub(Role::SuperNode));
    let (dead, lives) = if is_first_dead { (hubs[0], hubs[1]) } else { (hubs[1], hubs[0]) };
    world.kill(dead);
    let node = world.node((0, 0), &[], &hubs);
    world.delays.insert((node, lives), MS * 50 * tenths);
    (world, node, lives)
}

#[test]
fn dead_hub_delays_no_other() {
    let (mut world, node, lives) = node_beside_a_dead_hub(1, true);
    assert!(world.run_while(6 * SECOND, |world| world.is_attached(node)));
    assert_eq!(world.home(node), Some(lives));
}

#[test]
fn far_hub_found_beside_dead_ones() {
    for tenths in ROUND_TRIPS {
        for is_first_dead in [true, false] {
            let (mut world, node, lives) = node_beside_a_dead_hub(tenths, is_first_dead);
            // The time covers the hub's turn, a handshake of two round trips, and a publication.
            let within = 6 * SECOND + MS * 100 * tenths * 3;
            assert!(world.run_while(within, |world| world.is_attached(node)), "{tenths} tenths, {is_first_dead}");
            assert_eq!(world.home(node), Some(lives));
        }
    }
}
