//! Members that would have super nodes and providers dial hosts of others.

use std::net::IpAddr;
use std::net::SocketAddr;

use crate::*;

/// Fewest bytes that a member has sent for its connection.
const HANDSHAKE_BYTES: usize = 1_200;

/// Most bytes that one dial sends at addresses of which only a hub tells.
const TOLD_BYTES: usize = 36_600;

/// Most bytes that an unanswered handshake sends to one host.
fn cost(scheme: Scheme) -> usize {
    match scheme {
        Scheme::Tcp => 600,
        Scheme::Udp => 2_100,
        Scheme::Quic => 15_600,
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
    world.run_until_attached();
    world.dialed.clear();
    (world, hub, requester, rogue)
}

/// The bytes that come to a victim's hosts.
fn bytes(world: &World) -> usize {
    let dialled = world.dialed.iter().flat_map(|(_, to)| to);
    dialled.map(|to| cost(to.scheme) * to.hosts.iter().filter(|host| is_victim(host)).count()).sum()
}

/// Bytes that a host has sent, of its machine's own accord.
fn said(world: &World, host: HostId) -> usize {
    world.classes.iter().filter(|((from, _), _)| *from == host).map(|(_, bytes)| bytes).sum()
}

/// Counts the dials to a victim's hosts.
fn hits(world: &World) -> usize {
    world.dialed.iter().flat_map(|(_, to)| to).flat_map(|address| &address.hosts).filter(|host| is_victim(host)).count()
}

fn publish(rogue: HostId, sequence: u32, addresses: Vec<Address>) -> Message {
    Message::Registration(RegistrationMessage::Publish(Record {
        node: node_id(rogue.0),
        version: Version { epoch: 5_000, sequence },
        cell: Cell::new(50, 50),
        services: ServiceSet::EMPTY,
        capacity: Capacity { streams: 1, uplink_kbps: 1_000 },
        addresses,
        position: None,
        orbit: None,
    }))
}

fn ask(id: u32, cell: Cell) -> Message {
    let spec = ServiceRequest { count: 8, ..ServiceRequest::new(Service::Sensor, Area::Exact(cell)) };
    Message::Request(RequestMessage::Request(Request::new(RequestId(id), Nonce::from_u64(id.into()), spec, 10_000)))
}

fn standby(round: u8) -> Message {
    let hub = NodeId::from_bytes([round; 16]);
    Message::Registration(RegistrationMessage::SetStandby { hub, addresses: Some(everywhere(Scheme::Quic, round)) })
}

/// The rogue's home, eight providers there or at another hub, a requester, and the rogue.
fn crowd(seed: u64, is_far: bool) -> (World, HostId, HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = world.mesh(2);
    let (home, other) = (hubs[0], hubs[if is_far { 1 } else { 0 }]);
    for _ in 0..8 {
        let provider = world.node((0, 0), &Service::ALL, &[other]);
        if is_far {
            // The home would stand by for the provider, and hand requests to it without another hub.
            world.cut(provider, home);
        }
    }
    let requester = world.node((9, 0), &[], &[home]);
    let rogue = world.node((50, 50), &[], &[home]);
    world.run_until_attached();
    world.run(SECOND);
    world.dialed.clear();
    (world, home, requester, rogue)
}

/// Says something in the rogue's name, and gives its length if it was heard. Its own machine may be on
/// the way to the hub again.
fn say(world: &mut World, rogue: HostId, hub: HostId, message: &Message) -> usize {
    let bytes = message.encode();
    if world.inject(rogue, hub, bytes.clone()) { bytes.len() } else { 0 }
}

/// A single request, said again as often as one likes, brings third hosts thrice the bytes of the rogue at most,
/// through one dial.
#[test]
fn one_request_dials_one_host() {
    for_seeds(2, |seed| {
        for (scheme, is_far) in Scheme::ALL.into_iter().flat_map(|scheme| [(scheme, false), (scheme, true)]) {
            let (mut world, hub, _, rogue) = crowd(seed, is_far);
            let mut sent = say(&mut world, rogue, hub, &publish(rogue, 1, everywhere(scheme, 0)));
            let first = ask(1, Cell::new(0, 0));
            sent += say(&mut world, rogue, hub, &first);
            world.run(30 * SECOND);
            let bytes_of_one = bytes(&world);
            let all = HANDSHAKE_BYTES + said(&world, rogue) + sent;
            assert!(bytes_of_one <= 3 * all, "{scheme}: {bytes_of_one} bytes for {all}");
            for round in 0..150 {
                // The rogue's own machine puts its record right.
                say(&mut world, rogue, hub, &publish(rogue, 10 + 2 * round, everywhere(scheme, 1)));
                say(&mut world, rogue, hub, &ask(2, Cell::new(0, 0)));
                world.run(70 * MS);
            }
            world.run(30 * SECOND);
            assert!(hits(&world) <= 2, "{scheme}, {is_far}: {} dials for two requests", hits(&world));
        }
    });
}

/// Kept up for a minute, it brings third hosts no more bytes than the rogue has sent.
#[test]
fn sustained_requests_amplify_nothing() {
    let all = Scheme::ALL.into_iter().flat_map(|scheme| [100 * MS, 2 * SECOND].map(|pause| (scheme, pause)));
    for (case, (scheme, pause)) in all.enumerate() {
        let (mut world, hub, requester, rogue) = crowd(case as u64, case % 2 == 1);
        let before = said(&world, rogue);
        let (mut sent, end) = (0, world.now + 60 * SECOND);
        let mut round = 0u32;
        while world.now < end {
            round += 1;
            let cell = Cell::new(0, 0);
            let messages = [
                publish(rogue, round, everywhere(scheme, round as u8)),
                ask(2 * round, cell),
                ask(2 * round + 1, cell),
                standby(round as u8),
            ];
            for message in messages {
                sent += say(&mut world, rogue, hub, &message);
                world.run(MS);
            }
            world.run(pause);
        }
        world.run(10 * SECOND);
        sent += said(&world, rogue) - before;
        let (hits, bytes) = (hits(&world), bytes(&world));
        assert!(bytes <= sent, "{scheme}, {pause:?}: {hits} dials of {bytes} bytes for {sent} bytes");
        assert!(hits > 0 || scheme == Scheme::Quic, "{scheme}, {pause:?}: who sends much has something dialled");
        // Nobody else is worse off.
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        assert!(finished(&mut world, requester, ticket).complete);
    }
}

/// Addresses at which nobody and everybody is, and those of many hosts.
fn told_by_hub(round: u8) -> Vec<Address> {
    let groups = [[224, 0, 0, 1], [255, 255, 255, 255], [127, 0, 0, 1], [0, 0, 0, 0]].map(IpAddr::from);
    let mut told = everywhere(Scheme::Quic, round);
    told[0].hosts = groups.to_vec();
    told
}

/// A home that tells a requester of providers which are not there, and that calls it for others.
#[test]
fn a_hostile_home_aims_few_dials() {
    for_seeds(3, |seed| {
        let (mut world, hub, requester, _) = scene(seed);
        world.corpus = Some(Vec::new());
        let (mut round, mut told) = (0_u32, 0);
        for second in 0..60_u32 {
            // The home is still there, and answers in its own way only.
            world.mute(hub, requester);
            let wanted = |wanted: &mut RequestCommand| wanted.timeout = Some(5 * SECOND);
            world.request_with(requester, Service::Sensor, ANYWHERE, wanted);
            world.run(100 * MS);
            let said = world.corpus.replace(Vec::new()).unwrap_or_default();
            let ids = said.iter().filter_map(|message| match Message::decode(message) {
                Ok(Message::Request(RequestMessage::Request(request))) => Some(request.id),
                _ => None,
            });
            for id in ids.collect::<Vec<_>>() {
                for _ in 0..6 {
                    round += 1;
                    let node = NodeId::from_bytes([round as u8; 16]);
                    let provider = Some(ProviderAddress { node, addresses: told_by_hub(round as u8) });
                    let pending = Message::Request(RequestMessage::Pending {
                        id,
                        requester: Some(node_id(requester.0)),
                        provider,
                    });
                    told += u32::from(world.inject(hub, requester, pending.encode()));
                    let spec = ServiceRequest::new(Service::Sensor, ANYWHERE);
                    let call = Request {
                        route: Some(Route { requester: node, reply_to: told_by_hub(round as u8), hop: None }),
                        connect_to: Some(node_id(requester.0)),
                        ..Request::new(RequestId(0x8000_0000 + round), Nonce::from_u64(1), spec, 10_000)
                    };
                    world.inject(hub, requester, Message::Request(RequestMessage::Request(call)).encode());
                    world.run(50 * MS);
                }
            }
            if second == 0 {
                world.run(5 * SECOND);
                assert!(bytes(&world) <= 12 * TOLD_BYTES, "{} bytes for one request", bytes(&world));
            }
            world.heal();
            world.run(SECOND);
        }
        assert!(told >= 300, "{told}");
        let hosts = world.dialed.iter().filter(|(from, _)| *from == requester).flat_map(|(_, to)| to);
        let hosts: Vec<IpAddr> = hosts.flat_map(|address| address.hosts.clone()).collect();
        let is_one = |host: &IpAddr| {
            let IpAddr::V4(v4) = host else { return false };
            !v4.is_multicast() && !v4.is_broadcast() && !v4.is_loopback() && !v4.is_unspecified()
        };
        assert!(!hosts.is_empty() && hosts.iter().all(is_one), "{hosts:?}");
        assert!(bytes(&world) <= 8 * TOLD_BYTES + 120 * 4_000, "{} bytes", bytes(&world));
    });
}

/// A home that makes up requests has few requesters dialed, and a provider serves others meanwhile.
#[test]
fn made_up_requesters_are_dialed_rarely() {
    let (mut world, hub, requester, _) = scene(1);
    let provider = HostId(1);
    for round in 0..600_u32 {
        let mut requester = [7; 16];
        requester[..4].copy_from_slice(&round.to_be_bytes());
        let route = Route { requester: NodeId::from_bytes(requester), reply_to: told_by_hub(round as u8), hop: None };
        let spec = ServiceRequest::new(Service::Image, ANYWHERE);
        let (id, nonce) = (RequestId(0x8000_0000 + round), Nonce::from_u64(1));
        let made_up = Request { route: Some(route), ..Request::new(id, nonce, spec, 1_000) };
        world.inject(hub, provider, Message::Request(RequestMessage::Request(made_up)).encode());
        world.run(100 * MS);
    }
    let bytes = bytes(&world);
    assert!(bytes > 0 && bytes <= 32 * TOLD_BYTES + 60 * 4_000, "{bytes} bytes");
    let ticket = world.request(requester, Service::Image, Area::Exact(Cell::new(0, 0)));
    assert!(finished(&mut world, requester, ticket).complete);
}

/// A host is not dialled because many members name it.
#[test]
fn one_victim_is_dialed_rarely() {
    let mut world = World::new(1);
    let hub = world.hub(Role::SuperNode);
    world.node((0, 0), &Service::ALL, &[hub]);
    let rogues: Vec<HostId> = (0..40).map(|_| world.node((50, 50), &[], &[hub])).collect();
    world.run_until_attached();
    world.dialed.clear();
    let victim = vec![Address::single(Scheme::Tcp, SocketAddr::from(([10, 66, 0, 1], 53)))];
    for rogue in rogues {
        for message in [publish(rogue, 1, victim.clone()), ask(1, Cell::new(0, 0))] {
            assert!(world.inject(rogue, hub, message.encode()));
            world.run(20 * MS);
        }
    }
    world.run(10 * SECOND);
    assert!((1..=8).contains(&hits(&world)), "{} dials", hits(&world));
}

/// Names of standbys that lead nowhere keep out no standby that is there.
#[test]
fn false_standbys_keep_out_none() {
    let mut world = World::new(1);
    let first = world.hub(Role::SuperNode);
    let second = world.hub(Role::SuperNode);
    let rogue = world.node((50, 50), &[], &[first]);
    world.run_until_attached();
    let mut honest = rogue;
    for round in 0..=255 {
        assert!(world.inject(rogue, first, standby(round).encode()));
        world.run(50 * MS);
        if round == 150 {
            honest = world.node((1, 1), &Service::ALL, &[first, second]);
        }
    }
    assert_eq!(world.home(honest), Some(first));
    let copies = world.hub_at(second).status(world.now).replicas;
    assert_eq!(copies, 1, "the home has found the standby");
}

/// An offer of a file that lists the hosts of others leads to none of them.
#[test]
fn push_offer_dials_sender_only() {
    let (mut world, _, _, rogue) = scene(1);
    let receiver = HostId(1);
    let ticket = world.request(rogue, Service::Sensor, Area::Exact(Cell::new(0, 0)));
    finished(&mut world, rogue, ticket);
    let (name, digest) = ("x".to_owned(), [1; 32]);
    let mut named = everywhere(Scheme::Quic, 0);
    named.truncate(6);
    named.extend(addresses(rogue.0).into_iter().take(2));
    for id in 0..10 {
        let push =
            Push { id: RequestId(id), name: name.clone(), bytes: 1, digest, addresses: named.clone(), delivery: None };
        assert!(world.inject(rogue, receiver, Message::Request(RequestMessage::Push(push)).encode()));
        world.run(100 * MS);
    }
    let offered = world.hosts[receiver.0].events.iter().filter_map(|(_, event)| match event {
        NodeEvent::PushOffered { push, .. } => Some(push.addresses.clone()),
        _ => None,
    });
    let offered: Vec<_> = offered.collect();
    assert!(!offered.is_empty());
    assert!(offered.iter().flatten().flat_map(|address| &address.hosts).all(|host| !is_victim(host)));
}
