//! Requests that are restricted to one transport.

use crate::*;

#[test]
fn every_transport_serves_every_mode() {
    for scheme in Scheme::ALL {
        for (role, mode) in [
            (Role::SuperNode, RequestMode::Forward),
            (Role::SuperNode, RequestMode::Relay),
            (Role::Server, RequestMode::Relay),
        ] {
            let (mut world, _, _, requester) = single_hub_world(1, role);
            let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| {
                wanted.mode = mode;
                wanted.transports = SchemeSet::only(scheme);
            });
            let summary = finished(&mut world, requester, ticket);
            assert!(summary.complete, "{scheme} {mode:?}: {summary:?}");
            assert_eq!(summary.scheme, scheme, "{mode:?}");
        }
    }
}

fn over_tcp(wanted: &mut RequestCommand) {
    wanted.transports = SchemeSet::only(Scheme::Tcp);
}

#[test]
fn unreachable_over_transport_is_relayed() {
    let (mut world, _, provider, requester) = single_hub_world(4, Role::SuperNode);
    world.dial_timeout = 9 * SECOND;
    world.cut(provider, requester);
    assert_eq!(world.status(requester).home.unwrap().address.scheme, Scheme::Udp);
    let ticket = world.request_with(requester, Service::Image, ANYWHERE, over_tcp);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.relayed && summary.scheme == Scheme::Tcp, "{summary:?}");
}

#[test]
fn unreachable_across_hubs_is_relayed() {
    let mut world = World::new(5);
    let hubs = world.mesh(2);
    let provider = world.node((1, 1), &Service::ALL, &hubs[..1]);
    let requester = world.node((0, 0), &[], &hubs[1..]);
    world.run_until_attached();
    world.run(SECOND);
    world.cut(provider, requester);
    let ticket = world.request_with(requester, Service::Image, ANYWHERE, over_tcp);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.relayed && summary.scheme == Scheme::Tcp, "{summary:?}");
}

/// A hub and two nodes, of which the second has no address but for UDP.
fn without_tcp(seed: u64, hub_schemes: SchemeSet) -> (World, HostId) {
    let mut world = World::new(seed);
    let hub = world.hub(Role::SuperNode);
    world.hosts[hub.0].schemes = hub_schemes;
    world.node((1, 1), &Service::ALL, &[hub]);
    let requester = world.node_with(&[hub], |config| {
        config.addresses = vec![address(2, Scheme::Udp)];
        config.hubs = vec![vec![address(0, Scheme::Udp)]];
    });
    world.run_until_attached();
    (world, requester)
}

#[test]
fn requester_without_transport_is_relayed() {
    for mode in [RequestMode::Forward, RequestMode::Relay] {
        // The hub said where else it listens.
        let (mut world, requester) = without_tcp(2, SchemeSet::ALL);
        let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, |wanted| {
            over_tcp(wanted);
            wanted.mode = mode;
        });
        let summary = finished(&mut world, requester, ticket);
        assert_eq!((summary.scheme, summary.relayed), (Scheme::Tcp, true));
    }
}

#[test]
fn hub_without_transport_refuses() {
    let (mut world, requester) = without_tcp(6, SchemeSet::only(Scheme::Udp));
    let ticket = world.request_with(requester, Service::Sensor, ANYWHERE, over_tcp);
    assert_eq!(failed(&mut world, requester, ticket), Reason::NoTransport);
}

#[test]
fn connection_is_reused_until_idle() {
    let (mut world, _, provider, requester) = single_hub_world(3, Role::SuperNode);
    for _ in 0..3 {
        let ticket = world.request(requester, Service::Sensor, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
        world.run(10 * SECOND);
        assert_eq!(world.status(provider).connections, 2, "the hub and the requester");
    }
    world.run(1500 * SECOND);
    assert_eq!(world.status(provider).connections, 2);
    let ticket = world.request(requester, Service::Sensor, ANYWHERE);
    assert!(finished(&mut world, requester, ticket).complete);
    assert_eq!(world.status(provider).connections, 2, "the same one");
    world.run(1850 * SECOND);
    assert_eq!(world.status(provider).connections, 1);
    assert_eq!(world.status(requester).connections, 1);
}

#[test]
fn requests_share_one_server_connection() {
    let (mut world, _, _, requester) = single_hub_world(9, Role::Server);
    let tickets: Vec<_> = (0..20).map(|_| world.request_with(requester, Service::Sensor, ANYWHERE, over_tcp)).collect();
    for ticket in tickets {
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.scheme == Scheme::Tcp, "{summary:?}");
    }
    assert_eq!(world.status(requester).connections, 2);
}
