//! Uplinks of providers: what reflected streams take of them, and what makes room.

use std::net::SocketAddr;

use crate::reflection::PLACE;
use crate::reflection::THERE;
use crate::world::host::Host;
use crate::*;

/// A hub that reflects or does not, a provider with so many streams, and nodes.
fn scene(seed: u64, reflects: bool, streams: u16, nodes: i32) -> (World, HostId, Vec<HostId>) {
    let mut world = World::new(seed);
    let number = world.hosts.len();
    let machine = world.hub_machine_with(number, Role::SuperNode, |config| {
        config.reflection = config.reflection.filter(|_| reflects);
    });
    let hub = world.add(Host::hub(number, Role::SuperNode, machine));
    let provider = world.node_with(&[hub], |config| {
        config.services = [Service::Video].into_iter().collect();
        (config.cell, config.max_streams) = (PLACE, streams);
    });
    let nodes = (0..nodes).map(|x| world.node((x, 0), &[], &[hub])).collect();
    world.run_until_attached();
    (world, provider, nodes)
}

fn request(world: &mut World, node: HostId, reflect: ReflectionPolicy) -> Ticket {
    world.request_with(node, Service::Video, THERE, |wanted| {
        (wanted.reflect, wanted.duration) = (reflect, Some(60 * SECOND));
    })
}

/// Streams that a provider has left, as its record says.
fn streams_left(world: &mut World, provider: HostId) -> Option<u16> {
    world.run_relays(10 * SECOND);
    let records = world.hub_at(world.home(provider)?).index(world.now, None, 9);
    records.iter().find(|record| record.node == node_id(provider.0)).map(|record| record.capacity.streams)
}

#[test]
fn unreflected_subscribers_each_cost_a_stream() {
    let (mut world, provider, nodes) = scene(1, false, 2, 3);
    let subscribe = |world: &mut World, node: usize| {
        let ticket = world.subscribe(nodes[node], Service::Video, THERE);
        world.run_relays(2 * SECOND);
        ticket
    };
    let first = subscribe(&mut world, 0);
    assert_eq!(streams_left(&mut world, provider), Some(1));
    let second = subscribe(&mut world, 1);
    assert_eq!(streams_left(&mut world, provider), Some(0));
    let third = subscribe(&mut world, 2);
    assert_eq!(failed(&mut world, nodes[2], third), Reason::Busy);
    for (node, ticket) in [(0, first), (1, second)] {
        assert!(world.receives_stream(nodes[node], ticket, provider));
    }
    world.cancel(nodes[0], first);
    assert_eq!(streams_left(&mut world, provider), Some(1));
    let third = subscribe(&mut world, 2);
    assert!(world.receives_stream(nodes[2], third, provider));
}

#[test]
fn reflected_subscribers_cost_one_stream() {
    let (mut world, provider, nodes) = scene(2, true, 2, 4);
    for node in nodes {
        let ticket = world.subscribe(node, Service::Video, THERE);
        world.run_relays(2 * SECOND);
        assert!(world.receives_stream(node, ticket, provider));
    }
    assert_eq!(streams_left(&mut world, provider), Some(1));
}

#[test]
fn unreachable_subscriber_ends_no_stream() {
    let (mut world, provider, nodes) = scene(3, true, 1, 2);
    let first = request(&mut world, nodes[0], ReflectionPolicy::IfBusy);
    world.run_relays(2 * SECOND);
    world.cut(provider, nodes[1]);
    request(&mut world, nodes[1], ReflectionPolicy::Always);
    world.run_relays(20 * SECOND);
    assert!(world.hosts[nodes[0].0].reflected(first).is_none());
    let summary = finished(&mut world, nodes[0], first);
    assert!(summary.complete && summary.lost == 0, "{summary:?}");
}

#[test]
fn reserved_publication_capacity_is_kept() {
    for wait in 0..30 {
        let (mut world, provider, nodes) = scene(4, true, 1, 3);
        let first = request(&mut world, nodes[0], ReflectionPolicy::IfBusy);
        world.run_relays(2 * SECOND);
        let second = request(&mut world, nodes[1], ReflectionPolicy::Always);
        world.run(2 * wait * MS);
        let third = request(&mut world, nodes[2], ReflectionPolicy::Never);
        world.run_relays(3 * SECOND);
        for (node, ticket) in [(0, first), (1, second)] {
            assert!(world.receives_stream(nodes[node], ticket, provider), "{wait}, {node}");
        }
        assert!(matches!(world.hosts[nodes[2].0].ending(third), Some(NodeEvent::Failed { reason: Reason::Busy, .. })));
    }
}

/// A requester that has a copy may have another one for a moment: nobody ends the first.
#[test]
fn one_copy_may_exceed_limit() {
    let (mut world, provider, nodes) = scene(1, false, 2, 2);
    for node in &nodes {
        world.subscribe(*node, Service::Video, THERE);
        world.run_relays(2 * SECOND);
    }
    for (number, node) in (1..).zip(&nodes) {
        // The node's machine would leave a stream that it has not asked for.
        world.freeze(*node);
        let to = SocketAddr::new(address(node.0, Scheme::Udp).hosts[0], 9_000);
        let reflect = Some(CopyTarget { to, tag: StreamTag(1), hops: 0, provider: None, is_resuming: None });
        let spec = ServiceRequest::new(Service::Video, THERE);
        let request = Request::new(RequestId(1_000), Nonce::from_u64(number), spec, 10_000);
        let request = Request { copy_target: reflect, ..request };
        assert!(world.inject(*node, provider, Message::Request(RequestMessage::Request(request)).encode()));
        world.run_relays(SECOND);
    }
    assert_eq!(world.status(provider).publications[0].members, 3);
}

#[test]
fn second_home_costs_no_stream() {
    for drains in [true, false] {
        let mut world = World::new(5);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        let provider = world.node_with(&hubs, |config| {
            config.services = [Service::Video].into_iter().collect();
            (config.cell, config.max_streams) = (PLACE, 1);
        });
        let nodes: Vec<HostId> = (0..3).map(|x| world.node((x, 0), &[], &hubs)).collect();
        world.run_until_attached();
        world.run(70 * SECOND);
        let watch = |world: &mut World, node: usize| {
            let ticket = world.subscribe(nodes[node], Service::Video, THERE);
            world.run_relays(2 * SECOND);
            ticket
        };
        let tickets = [0, 1].map(|node| watch(&mut world, node));
        let home = world.home(provider).unwrap();
        if drains {
            world.leave_hub(home)
        } else {
            world.kill(home)
        }
        world.run_relays(20 * SECOND);
        let last = watch(&mut world, 2);
        for (node, ticket) in nodes.iter().zip([tickets[0], tickets[1], last]) {
            assert!(world.receives_stream(*node, ticket, provider), "{drains} {node:?}");
        }
    }
}
