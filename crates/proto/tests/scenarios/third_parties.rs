//! Members that would have super nodes and providers dial hosts of others.

use std::net::{IpAddr, SocketAddr};

use roost_proto::wire::{Message, Mode, Push, Request};
use roost_proto::{
    Address, Area, Capacity, Cell, NodeId, Nonce, Record, RequestId, Role, Scheme, Service, ServiceSet, Version,
};

use crate::world::{HostId, MS, SECOND, World, addresses, node_id};
use crate::{ANYWHERE, finished};

/// Bytes to victims that a member may cause without having sent any.
const FREE_BYTES: usize = 2_400;

/// Most bytes that an unanswered handshake sends to one host.
fn cost(scheme: Scheme) -> usize {
    match scheme {
        Scheme::Tcp => 600,
        Scheme::Udp => 2_100,
        Scheme::Quic => 14_400,
    }
}

fn is_victim(host: &IpAddr) -> bool {
    matches!(host, IpAddr::V4(host) if host.octets()[..2] == [10, 66])
}

/// As many hosts as addresses can name.
fn everywhere(scheme: Scheme, round: u8) -> Vec<Address> {
    let hosts = |place: u8| (0..4).map(|host| IpAddr::from([10, 66, round, place * 4 + host])).collect();
    (0..8).map(|place| Address { scheme, port: 9_000 + u16::from(place), hosts: hosts(place) }).collect()
}

/// A hub, three providers, a requester, and a rogue node that has not said anything but that it is there.
fn scene(seed: u64) -> (World, HostId, HostId, HostId) {
    let mut world = World::new(seed);
    let hub = world.hub(Role::SuperNode);
    for place in 0..3 {
        world.node((place, 0), &Service::ALL, &[hub]);
    }
    let requester = world.node((9, 0), &[], &[hub]);
    let rogue = world.node((50, 50), &[], &[hub]);
    world.settle();
    world.dialled.clear();
    (world, hub, requester, rogue)
}

/// The bytes that come to a victim's hosts.
fn bytes(world: &World) -> usize {
    let dialled = world.dialled.iter().flat_map(|(_, to)| to);
    dialled.map(|to| cost(to.scheme) * to.hosts.iter().filter(|host| is_victim(host)).count()).sum()
}

/// Counts the dials to a victim's hosts.
fn hits(world: &World) -> usize {
    world
        .dialled
        .iter()
        .flat_map(|(_, to)| to)
        .flat_map(|address| &address.hosts)
        .filter(|host| is_victim(host))
        .count()
}

fn publish(rogue: HostId, sequence: u32, addresses: Vec<Address>) -> Message {
    Message::Publish(Record {
        node: node_id(rogue.0),
        version: Version { epoch: 5_000, sequence },
        cell: Cell::new(50, 50),
        services: ServiceSet::EMPTY,
        capacity: Capacity { streams: 1, uplink_kbps: 1_000 },
        addresses,
    })
}

fn ask(id: u32) -> Message {
    Message::Request(Request {
        id: RequestId(id),
        nonce: Nonce::from_u64(id.into()),
        service: Service::Sensor,
        area: ANYWHERE,
        mode: Mode::Forward,
        deadline_ms: 10_000,
        count: 3,
        params: None,
        scope: None,
        names: None,
    })
}

fn stand_by(round: u8) -> Message {
    let hub = NodeId::from_bytes([round; 16]);
    Message::StandBy { hub, addresses: Some(everywhere(Scheme::Quic, round)) }
}

#[test]
fn one_request_dials_one_host() {
    for scheme in Scheme::ALL {
        let (mut world, hub, _, rogue) = scene(1);
        for message in [publish(rogue, 1, everywhere(scheme, 0)), ask(1)] {
            assert!(world.inject(rogue, hub, message.encode()));
            world.run(20 * MS);
        }
        world.run(30 * SECOND);
        assert!(hits(&world) <= 1, "{scheme}: {} dials", hits(&world));
    }
}

/// Kept up for a minute, whatever is sent brings third hosts no more than was sent.
#[test]
fn a_minute_of_it_brings_no_more() {
    for (seed, pause) in [(1, 50 * MS), (2, 300 * MS), (3, 2 * SECOND)] {
        let (mut world, hub, requester, rogue) = scene(seed);
        let (mut sent, end) = (0, world.now + 60 * SECOND);
        let mut round = 0u32;
        while world.now < end {
            round += 1;
            let scheme = Scheme::ALL[round as usize % 3];
            for message in
                [publish(rogue, round, everywhere(scheme, round as u8)), ask(round), ask(round), stand_by(round as u8)]
            {
                // Its own machine may be on the way to the hub again.
                if world.inject(rogue, hub, message.encode()) {
                    sent += message.encode().len();
                }
                world.run(MS);
            }
            world.run(pause);
        }
        world.run(10 * SECOND);
        let (hits, bytes) = (hits(&world), bytes(&world));
        assert!(hits > 0 && bytes <= FREE_BYTES + sent / 2, "{hits} dials of {bytes} bytes for {sent} bytes");
        // Nobody else is worse off.
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
    }
}

/// One host is not dialled because many members name it.
#[test]
fn many_members_have_one_host_dialled_little() {
    let mut world = World::new(1);
    let hub = world.hub(Role::SuperNode);
    world.node((0, 0), &Service::ALL, &[hub]);
    let rogues: Vec<HostId> = (0..40).map(|_| world.node((50, 50), &[], &[hub])).collect();
    world.settle();
    world.dialled.clear();
    let victim = vec![Address::single(Scheme::Udp, SocketAddr::from(([10, 66, 0, 1], 53)))];
    for rogue in rogues {
        for message in [publish(rogue, 1, victim.clone()), ask(1)] {
            assert!(world.inject(rogue, hub, message.encode()));
            world.run(20 * MS);
        }
    }
    world.run(10 * SECOND);
    assert!((1..=8).contains(&hits(&world)), "{} dials", hits(&world));
}

/// Names of stand-bys that lead nowhere keep out no stand-by that is there.
#[test]
fn false_stand_bys_leave_room_for_true_ones() {
    let mut world = World::new(1);
    let first = world.hub(Role::SuperNode);
    let second = world.hub(Role::SuperNode);
    let rogue = world.node((50, 50), &[], &[first]);
    world.settle();
    let mut honest = rogue;
    for round in 0..=255 {
        assert!(world.inject(rogue, first, stand_by(round).encode()));
        world.run(50 * MS);
        if round == 150 {
            honest = world.node((1, 1), &Service::ALL, &[first, second]);
        }
    }
    assert_eq!(world.home(honest), Some(first));
    let copies = world.hub_at(second).status(world.now).mirrored;
    assert_eq!(copies, 1, "the home has found the stand-by");
}

/// An offer of a file that lists the hosts of others leads to none of them.
#[test]
fn an_offer_leads_to_its_sender_only() {
    let (mut world, _, _, rogue) = scene(1);
    let receiver = HostId(1);
    let ticket = world.request(rogue, Service::Sensor, Area::At(Cell::new(0, 0)));
    finished(&mut world, rogue, ticket);
    let (name, digest) = ("x".to_owned(), [1; 32]);
    let mut named = everywhere(Scheme::Quic, 0);
    named.truncate(6);
    named.extend(addresses(rogue.0).into_iter().take(2));
    for id in 0..10 {
        let push = Push { id: RequestId(id), name: name.clone(), bytes: 1, digest, addresses: named.clone() };
        assert!(world.inject(rogue, receiver, Message::Push(push).encode()));
        world.run(100 * MS);
    }
    let offered = world.hosts[receiver.0].events.iter().filter_map(|(_, event)| match event {
        roost_proto::peer::Event::Offered { push, .. } => Some(push.addresses.clone()),
        _ => None,
    });
    let offered: Vec<_> = offered.collect();
    assert!(!offered.is_empty());
    assert!(offered.iter().flatten().flat_map(|address| &address.hosts).all(|host| !is_victim(host)));
}
