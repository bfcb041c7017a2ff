//! Remotes of the group that do not keep to the rules.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::SocketAddr;

use roost_core::machine::Input;
use roost_core::machine::Machine;
use roost_core::machine::Transmit;
use roost_wire::random::RootSecret;

use crate::*;

/// A provider, a requester, a rogue node, all with connections to one another.
fn with_rogue(seed: u64) -> (World, [HostId; 4]) {
    let (mut world, hub, provider, requester) = single_hub_world(seed, Role::SuperNode);
    let rogue = world.node((50, 50), &Service::ALL, &[hub]);
    world.run_until_attached();
    for requester in [requester, provider, rogue] {
        let other = if requester == rogue { Area::Exact(Cell::new(27, 92)) } else { Area::Exact(Cell::new(50, 50)) };
        let ticket = world.request(requester, Service::Sensor, other);
        finished(&mut world, requester, ticket);
    }
    world.run(SECOND);
    (world, [hub, provider, requester, rogue])
}

#[test]
fn node_cannot_act_as_hub() {
    let (mut world, [_, provider, _, rogue]) = with_rogue(1);
    let before = world.hosts[provider.0].opened.len();
    let route = Route { requester: node_id(rogue.0), reply_to: vec![address(rogue.0, Scheme::Udp)], hop: None };
    let spec = ServiceRequest::new(Service::Video, ANYWHERE);
    let request = Request::new(RequestId(1), Nonce::from_u64(1), spec, 10_000);
    let forward = Message::Request(RequestMessage::Request(Request { route: Some(route), ..request }));
    assert!(world.inject(rogue, provider, forward.encode()));
    world.run(SECOND);
    assert_eq!(world.hosts[provider.0].opened.len(), before);
    assert_eq!(world.status(provider).counters.refused, 1);
}

#[test]
fn provider_sends_only_to_requester() {
    let ask = |rogue: HostId, to: SocketAddr| {
        let copy_target = Some(CopyTarget { to, tag: StreamTag(1), hops: 0, provider: None, is_resuming: None });
        let spec = ServiceRequest::new(Service::Video, ANYWHERE);
        let request = Request::new(RequestId(1), Nonce::from_u64(1), spec, 10_000);
        let request = Request { copy_target, ..request };
        let route = Route { requester: node_id(rogue.0), reply_to: vec![address(rogue.0, Scheme::Udp)], hop: None };
        let forward = Request { route: Some(route), ..request.clone() };
        [request, forward].map(|request| Message::Request(RequestMessage::Request(request)).encode())
    };
    let cases = [
        (None, 9_000, [true, true]),
        // A hub has seen where the requester is.
        (Some([10, 0, 9, 9]), 9_000, [false, true]),
        (Some([239, 0, 0, 1]), 9_000, [false, false]),
        (Some([127, 0, 0, 1]), 9_000, [false, false]),
        (None, 0, [false, false]),
    ];
    for (host, port, served) in cases {
        for by_hub in [false, true] {
            let (mut world, [hub, provider, _, rogue]) = with_rogue(1);
            let before = world.hosts[provider.0].opened.len();
            let own = address(rogue.0, Scheme::Udp).hosts[0];
            let to = SocketAddr::new(host.map_or(own, IpAddr::from), port);
            let [request, forward] = ask(rogue, to);
            assert!(if by_hub { world.inject(hub, provider, forward) } else { world.inject(rogue, provider, request) });
            world.run(SECOND);
            let is_served = world.hosts[provider.0].opened.len() > before;
            assert_eq!(is_served, served[usize::from(by_hub)], "{to}, {by_hub}");
        }
    }
}

/// The numbers that a requester shows to others, and its nonces.
fn numbers(secrets: u64) -> (Vec<u32>, Vec<Nonce>) {
    let mut world = World::new(3);
    world.secrets = secrets;
    let hub = world.hub(Role::SuperNode);
    let (_, requester) = (world.node((27, 92), &Service::ALL, &[hub]), world.node((20, 20), &[], &[hub]));
    world.run_until_attached();
    world.corpus = Some(Vec::new());
    for service in Service::ALL {
        let ticket = world.request(requester, service, ANYWHERE);
        finished(&mut world, requester, ticket);
    }
    let (mut shown, mut nonces) = (Vec::new(), Vec::new());
    for message in world.corpus.take().unwrap_or_default() {
        match Message::decode(&message) {
            Ok(Message::Probe(ProbeMessage::Ping(token))) => shown.push(token),
            Ok(Message::Request(RequestMessage::Request(request))) => {
                shown.push(request.id.0);
                nonces.push(request.nonce);
            }
            _ => {}
        }
    }
    (shown, nonces)
}

#[test]
fn shown_numbers_do_not_determine_nonces() {
    let ((shown, nonces), (same, others)) = (numbers(0), numbers(1));
    assert!(nonces.len() >= Service::ALL.len());
    assert_eq!(shown, same);
    assert!(nonces.iter().all(|nonce| !others.contains(nonce)));
    assert_eq!(numbers(0), (shown, nonces));
}

/// A member that knows a request's number tries nonces: it is left, and nobody else.
#[test]
fn who_guesses_nonces_is_left() {
    let (mut world, [hub, provider, requester, rogue]) = with_rogue(2);
    world.freeze(provider);
    world.corpus = Some(Vec::new());
    world.request(requester, Service::Video, Area::Exact(Cell::new(27, 92)));
    world.run(20 * MS);
    let said = world.corpus.take().unwrap_or_default();
    let id = said.iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) => Some(request.id),
        _ => None,
    });
    let accept = |number| Accept {
        id: id.unwrap(),
        nonce: Nonce::from_u64(number),
        flow: FlowDescription::Stream { duration_ms: 1000, bits_per_second: 1000, format: "fake".to_owned() },
        cell: Cell::new(0, 0),
        provider: None,
        stream_keys: None,
    };
    let tries = (0..100).take_while(|number| {
        let said = world.inject(rogue, requester, Message::Request(RequestMessage::Accept(accept(*number))).encode());
        world.run(MS);
        said
    });
    assert!((3..20).contains(&tries.count()));
    assert!(world.is_attached(requester) && world.home(requester) == Some(hub));
}

#[test]
fn accept_without_nonce_is_refused() {
    let (mut world, [hub, provider, requester, rogue]) = with_rogue(2);
    world.corpus = Some(Vec::new());
    let before = world.hosts[provider.0].opened.len();
    let ticket = world.request(requester, Service::Video, Area::Exact(Cell::new(27, 92)));
    // The rogue guesses the id while the request is on its way.
    assert!(world.run_while(SECOND, |world| world.hosts[provider.0].opened.len() > before));
    let ids = world.corpus.take().unwrap_or_default();
    let id = ids.iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) => Some(request.id),
        _ => None,
    });
    let id = id.unwrap();
    let offer = FlowDescription::Stream { duration_ms: 1000, bits_per_second: 1000, format: "fake".to_owned() };
    let accept =
        Accept { id, nonce: Nonce::from_u64(7), flow: offer, cell: Cell::new(0, 0), provider: None, stream_keys: None };
    assert!(world.inject(rogue, requester, Message::Request(RequestMessage::Accept(accept)).encode()));
    let packet = Datagram { id, sequence: 0, sent_us: 0, payload: Bytes::from_static(b"a lie") };
    world.inject(rogue, requester, Message::Flow(FlowMessage::Datagram(packet.clone())).encode());
    world.run(200 * MS);
    world.inject(rogue, requester, Message::Flow(FlowMessage::Datagram(packet)).encode());
    let stop = Message::Flow(FlowMessage::Stop { id, reason: Reason::Leaving });
    world.inject(rogue, requester, stop.encode());
    world.inject(rogue, provider, stop.encode());
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.lost == 0, "{summary:?}");
    assert_eq!(summary.provider, node_id(provider.0));
    assert!(!world.hosts[requester.0].payloads(ticket).any(|payload| payload.as_ref() == b"a lie"));
    assert!(world.is_attached(requester) && world.home(requester) == Some(hub));
}

#[test]
fn garbled_messages_harm_nobody() {
    for seed in 0..20 {
        let (mut world, [hub, provider, requester, rogue]) = with_rogue(seed);
        world.corpus = Some(Vec::new());
        for service in Service::ALL {
            let ticket = world.request(requester, service, ANYWHERE);
            finished(&mut world, requester, ticket);
        }
        let corpus = world.corpus.take().unwrap();
        let mut random = SplitMix64::new(seed);
        for _ in 0..2_000 {
            let mut message = corpus[random.below(corpus.len() as u64) as usize].to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(message.len() as u64) as usize;
                message[at] = random.next_u64() as u8;
            }
            if random.below(8) == 0 {
                message.truncate(random.below(message.len() as u64 + 1) as usize);
            }
            let to = [provider, requester][random.below(2) as usize];
            world.inject(rogue, to, message.into());
            world.run(MS);
        }
        world.run(60 * SECOND);
        for host in [provider, requester] {
            let status = world.status(host);
            assert!(status.sessions.is_empty() && status.requests.is_empty(), "seed {seed}: {status:?}");
            assert!(status.counters.malformed > 0);
            let opened = world.hosts[host.0].opened.len();
            let closed =
                world.events(host).iter().filter(|(_, event)| matches!(event, NodeEvent::CloseSource { .. })).count();
            assert_eq!(opened, closed, "seed {seed}");
        }
        assert_eq!(world.home(requester), Some(hub));
        let ticket = world.request(requester, Service::Image, Area::Exact(Cell::new(27, 92)));
        assert!(finished(&mut world, requester, ticket).complete, "seed {seed}");
    }
}

#[test]
fn forged_direct_request_is_stopped() {
    let (mut world, [_, provider, _, rogue]) = with_rogue(3);
    let opened = world.hosts[provider.0].opened.len();
    let spec = ServiceRequest::new(Service::Video, ANYWHERE);
    let request =
        Message::Request(RequestMessage::Request(Request::new(RequestId(77), Nonce::from_u64(1), spec, 10_000)));
    for _ in 0..3 {
        assert!(world.inject(rogue, provider, request.encode()));
    }
    assert_eq!(world.hosts[provider.0].opened.len(), opened + 1, "repetitions are not served");
    // The rogue's machine did not ask: it says so, and the provider stops.
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty());
    assert!(world.status(rogue).counters.stale > 0);
}

#[test]
fn node_cannot_end_others_watch() {
    let (mut world, [_, _, requester, rogue]) = with_rogue(4);
    world.corpus = Some(Vec::new());
    let ticket = world.ticket(requester);
    world.command(requester, NodeCommand::Watch { ticket, services: ServiceSet::ALL, area: ANYWHERE, names: false });
    world.run(SECOND);
    let id = world.corpus.take().unwrap().iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Directory(DirectoryMessage::Watch(watch))) => Some(watch.id),
        _ => None,
    });
    let decline = Decline::new(id.unwrap(), Reason::TooMany);
    assert!(world.inject(rogue, requester, Message::Request(RequestMessage::Decline(decline)).encode()));
    assert!(world.hosts[requester.0].ending(ticket).is_none());
}

#[test]
fn accept_stop_loop_backs_off() {
    let (mut world, [_, _, requester, rogue]) = with_rogue(5);
    world.freeze(rogue);
    world.corpus = Some(Vec::new());
    let ticket = world.request(requester, Service::Video, Area::Exact(Cell::new(50, 50)));
    let mut answered = BTreeSet::new();
    for _ in 0..2_000 {
        world.run(MS);
        for message in world.corpus.take().unwrap() {
            let Ok(Message::Request(RequestMessage::Request(Request { id, nonce, .. }))) = Message::decode(&message)
            else {
                continue;
            };
            if answered.insert(id) {
                let offer = FlowDescription::Stream { duration_ms: 1000, bits_per_second: 1000, format: String::new() };
                let accept =
                    Accept { id, nonce, flow: offer, cell: Cell::new(0, 0), provider: None, stream_keys: None };
                world.inject(rogue, requester, Message::Request(RequestMessage::Accept(accept)).encode());
                world.inject(
                    rogue,
                    requester,
                    Message::Flow(FlowMessage::Stop { id, reason: Reason::SourceFailed }).encode(),
                );
            }
        }
        world.corpus = Some(Vec::new());
    }
    assert!((2..=10).contains(&answered.len()), "{}", answered.len());
    assert!(world.hosts[requester.0].ending(ticket).is_none());
}

#[test]
fn endless_dials_take_no_slots() {
    let config = NodeConfig {
        node: node_id(1),
        name: "n1".to_owned(),
        labels: Labels::default(),
        epoch: 1,
        cell: Cell::new(0, 0),
        position: None,
        datum: None,
        services: ServiceSet::ALL,
        hubs: vec![addresses(0)],
        hub_role: Role::SuperNode,
        addresses: addresses(1),
        max_streams: 8,
        uplink_kbps: None,
        stream_duration: SECOND,
        media: None,
        classes: DeliveryClasses::default(),
        multicast: false,
        discovery: Discovery::SuperNode,
        seed: 1,
        secret: RootSecret::of_seed(1),
    };
    let mut node = Node::new(config);
    let mut closed = 0;
    for number in 0..10_000 {
        let up = Input::ConnectionUp {
            connection: ConnectionId(number),
            dial: None,
            remote: remote(2, Role::Node),
            address: address(2, Scheme::Udp),
            rtt: MS,
        };
        node.handle(Time::from_nanos(number), up);
        closed +=
            std::iter::from_fn(|| node.poll_transmit()).filter(|sent| matches!(sent, Transmit::Close { .. })).count();
    }
    assert!(node.status(Time::from_nanos(10_000)).connections <= 8);
    assert_eq!(closed, 10_000 - 8);
    // The node's own dial to that remote makes no exception.
    let provider = Some(Provider { node: node_id(2), addresses: vec![address(2, Scheme::Tcp)] });
    let wanted = ServiceRequest {
        transports: SchemeSet::only(Scheme::Tcp),
        timeout: Some(SECOND),
        ..ServiceRequest::new(Service::Sensor, ANYWHERE)
    };
    node.handle(
        Time::from_nanos(10_001),
        Input::Command(NodeCommand::Request { ticket: Ticket(1), request: wanted, provider, body: Bytes::new() }),
    );
    let dial = std::iter::from_fn(|| node.poll_transmit()).find_map(|sent| match sent {
        Transmit::Dial { dial, .. } => Some(dial),
        _ => None,
    });
    let (connection, there, address) = (ConnectionId(10_001), remote(2, Role::Node), address(2, Scheme::Tcp));
    assert!(dial.is_some());
    node.handle(Time::from_nanos(10_002), Input::ConnectionUp { connection, dial, remote: there, address, rtt: MS });
    assert_eq!(node.status(Time::from_nanos(10_002)).connections, 8);
}

/// Requests something of a rogue, whose machine does nothing, and gives back
/// what the rogue needs to know for an answer.
fn request_of_rogue(world: &mut World, requester: HostId, rogue: HostId, service: Service) -> (Ticket, Request) {
    world.freeze(rogue);
    world.corpus = Some(Vec::new());
    let ticket = world.request(requester, service, Area::Exact(Cell::new(50, 50)));
    world.run(50 * MS);
    let request = world.corpus.take().unwrap_or_default().iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Request(request))) => Some(request),
        _ => None,
    });
    (ticket, request.unwrap_or_else(|| panic!("nothing was requested")))
}

#[test]
fn stalled_object_is_given_up() {
    let (mut world, [_, _, requester, rogue]) = with_rogue(7);
    let (ticket, request) = request_of_rogue(&mut world, requester, rogue, Service::Image);
    let Request { id, nonce, .. } = request;
    let offer =
        FlowDescription::Object { bytes: 100_000, digest: [0; 32], format: String::new(), inline: None, offset: None };
    let accept = Message::Request(RequestMessage::Accept(Accept {
        id,
        nonce,
        flow: offer,
        cell: Cell::new(0, 0),
        provider: None,
        stream_keys: None,
    }));
    for _ in 0..60 {
        world.inject(rogue, requester, accept.encode());
        world.run(SECOND);
    }
    assert!(world.hosts[requester.0].ending(ticket).is_some());
}

#[test]
fn endless_stream_is_ended() {
    let (mut world, [_, _, requester, rogue]) = with_rogue(6);
    let (ticket, request) = request_of_rogue(&mut world, requester, rogue, Service::Track);
    let Request { id, nonce, .. } = request;
    let offer = FlowDescription::Stream { duration_ms: 2_000, bits_per_second: 1000, format: String::new() };
    let accept = Accept { id, nonce, flow: offer, cell: Cell::new(0, 0), provider: None, stream_keys: None };
    world.inject(rogue, requester, Message::Request(RequestMessage::Accept(accept)).encode());
    let ended = |world: &World| world.hosts[requester.0].ending(ticket).is_some();
    let lasted = (0..100).take_while(|sequence| {
        let packet = Datagram { id, sequence: *sequence, sent_us: 0, payload: Bytes::from_static(b"and on") };
        world.inject(rogue, requester, Message::Flow(FlowMessage::Datagram(packet)).encode());
        world.run(SECOND);
        !ended(&world)
    });
    assert!((2..60).contains(&lasted.count()));
    assert!(!finished(&mut world, requester, ticket).complete);
}

/// A home that holds its nodes in two hands: where the directory has a node, if it does.
fn place_of(world: &World, hub: HostId, node: HostId) -> Option<Cell> {
    let index = world.hub_at(hub).index(world.now, None, 100);
    index.into_iter().find(|entry| entry.node == node_id(node.0)).map(|entry| entry.cell)
}

/// A hostile hub's messages about another hub's node: a record of this version, elsewhere.
fn forged(node: HostId, version: Version) -> [Message; 2] {
    let node = node_id(node.0);
    let record = Record {
        node,
        version,
        cell: Cell::new(-7, -7),
        services: ServiceSet::EMPTY,
        capacity: Capacity { streams: 1, uplink_kbps: 1 },
        addresses: vec![address(9, Scheme::Udp)],
        position: None,
        orbit: None,
    };
    let records = vec![ReplicaRecord { node: 0, record, silent_s: None }];
    let mirror = ReplicaUpdate {
        sequence: 1,
        records,
        starts_resync: Some(true),
        ends_resync: Some(true),
        ..ReplicaUpdate::default()
    };
    [
        Message::Hierarchy(HierarchyMessage::Claim { node, version }),
        Message::Replication(ReplicationMessage::ReplicaUpdate(mirror)),
    ]
}

const NEVER: [Version; 3] = [
    Version { epoch: u32::MAX, sequence: u32::MAX },
    Version { epoch: u32::MAX, sequence: 1 },
    Version { epoch: 90_000, sequence: u32::MAX },
];

/// The greatest count and the latest epoch that somebody believes, and those beside them. The hubs' clocks
/// say 1 at the start, the nodes' some 1000.
fn edges() -> impl Iterator<Item = Version> {
    const DAY: u32 = 24 * 3600;
    let epochs = [80_000, DAY - 3600, DAY - 3590, DAY - 1, DAY, DAY + 1, DAY + 7, DAY + 900, DAY + 1_100];
    let counts = [1, u32::MAX / 4 - 1, u32::MAX / 4, u32::MAX / 2 - 1, u32::MAX / 2, u32::MAX / 2 + 1];
    epochs.into_iter().flat_map(move |epoch| counts.map(|sequence| Version { epoch, sequence }))
}

/// A home, a standby that is a hub of its own, a provider, and a requester at the standby.
fn pair(seed: u64) -> (World, [HostId; 2], HostId, HostId) {
    let mut world = World::new(seed);
    let hubs = world.mesh(2);
    world.run(SECOND);
    let provider = world.node((27, 92), &Service::ALL, &hubs[..1]);
    let requester = world.node((0, 0), &[], &hubs[1..]);
    world.run_until_attached();
    world.run(10 * SECOND);
    assert_eq!(world.home(provider), Some(hubs[0]));
    (world, [hubs[0], hubs[1]], provider, requester)
}

/// Whatever version a home says that a node has, the node is known everywhere as it is now.
#[test]
fn extreme_lease_version_freezes_no_record() {
    for version in edges() {
        let (mut world, [home, other], provider, requester) = pair(1);
        for round in 0..3 {
            let lease = Message::Registration(RegistrationMessage::Lease {
                version,
                lease_ms: 60_000,
                siblings: None,
                addresses: None,
                media: None,
            });
            assert!(world.inject(home, provider, lease.encode()));
            world.run(5 * SECOND);
            let cell = Cell::new(round, 1);
            world.command(provider, NodeCommand::Move(cell.into()));
            world.run(10 * SECOND);
            for hub in [home, other] {
                assert_eq!(place_of(&world, hub, provider), Some(cell), "{version:?} at {hub:?} in round {round}");
            }
        }
        let ticket = world.request(requester, Service::Sensor, Area::Exact(Cell::new(2, 1)));
        assert!(finished(&mut world, requester, ticket).complete, "{version:?}");
    }
}

/// A hub that has nothing to do with a node does not take it from its home at the standby.
#[test]
fn false_claim_takes_no_replica() {
    for (seed, ahead) in [(1, 1), (2, 2), (3, 1_000)] {
        let mut world = World::new(seed);
        let hubs = world.mesh(3);
        world.run(SECOND);
        let provider = world.node((27, 92), &Service::ALL, &hubs[..1]);
        world.run_until_attached();
        world.run(10 * SECOND);
        let standby = world.standby(provider).unwrap();
        let hostile = *hubs[1..].iter().find(|hub| **hub != standby).unwrap();
        assert_eq!(place_of(&world, standby, provider), Some(Cell::new(27, 92)));
        for _ in 0..20 {
            let Version { epoch, sequence } = world.status(provider).version;
            for message in forged(provider, Version { epoch, sequence: sequence + ahead }) {
                assert!(world.inject(hostile, standby, message.encode()));
            }
            for _ in 0..100 {
                world.run(10 * MS);
                assert_eq!(place_of(&world, standby, provider), Some(Cell::new(27, 92)), "seed {seed}");
            }
        }
        // The home moves the provider, and goes: the standby has it right.
        world.command(provider, NodeCommand::Move(Cell::new(3, 3).into()));
        world.run(10 * SECOND);
        assert_eq!(place_of(&world, standby, provider), Some(Cell::new(3, 3)));
        world.kill(hubs[0]);
        world.run(60 * SECOND);
        assert!(world.is_attached(provider));
        let home = world.home(provider).unwrap();
        assert_eq!(place_of(&world, home, provider), Some(Cell::new(3, 3)));
    }
}

#[test]
fn no_forged_lease_freezes_a_record() {
    for version in NEVER {
        let (mut world, hub, provider, _) = single_hub_world(1, Role::SuperNode);
        for round in 0..20 {
            let lease = Message::Registration(RegistrationMessage::Lease {
                version,
                lease_ms: 60_000,
                siblings: None,
                addresses: None,
                media: None,
            });
            assert!(world.inject(hub, provider, lease.encode()));
            let cell = Cell::new(round, 1);
            world.command(provider, NodeCommand::Move(cell.into()));
            world.run(3 * SECOND);
            assert_eq!(place_of(&world, hub, provider), Some(cell), "{version:?}");
        }
        assert!(world.status(provider).version < version);
    }
}

#[test]
fn no_forged_copy_replaces_a_record() {
    let later = Version { epoch: 80_000, sequence: 9 };
    for version in NEVER.into_iter().chain([later]) {
        let mut world = World::new(2);
        let home = world.hub(Role::SuperNode);
        let hostile = world.hub_beside(&[home]);
        let provider = world.node((27, 92), &Service::ALL, &[home]);
        world.run_until_attached();
        world.run(SECOND);
        for round in 0..5 {
            for message in forged(provider, version) {
                assert!(world.inject(hostile, home, message.encode()));
            }
            world.run(2 * SECOND);
            let cell = Cell::new(round, 1);
            world.command(provider, NodeCommand::Move(cell.into()));
            world.run(5 * SECOND);
            assert_eq!(place_of(&world, home, provider), Some(cell), "{version:?} in round {round}");
        }
    }
}

/// Of one version the node's own word counts, not what another hub says that it was.
#[test]
fn node_corrects_forged_record() {
    let mut world = World::new(3);
    let home = world.hub(Role::SuperNode);
    let hostile = world.hub_beside(&[home]);
    world.run(SECOND);
    let provider = world.node((27, 92), &Service::ALL, &[home]);
    let own = Version { epoch: 1_000 + provider.0 as u32, sequence: 1 };
    let [_, mirror] = forged(provider, own);
    assert!(world.inject(hostile, home, mirror.encode()));
    world.run(30 * MS);
    assert_eq!(place_of(&world, home, provider), Some(Cell::new(-7, -7)), "nobody has said anything else yet");
    world.run_until_attached();
    world.run(2 * SECOND);
    assert_eq!(place_of(&world, home, provider), Some(Cell::new(27, 92)));
}

/// A word of another hub that is false makes nobody miss a node that is here.
#[test]
fn no_false_claim_hides_a_node() {
    for (seed, sequence) in [(1, 2), (2, 3), (3, 9)] {
        let mut world = World::new(seed);
        let home = world.hub(Role::SuperNode);
        let hostile = world.hub_beside(&[home]);
        let provider = world.node((27, 92), &Service::ALL, &[home]);
        world.run_until_attached();
        world.run(SECOND);
        let epoch = 1_000 + provider.0 as u32;
        for round in 0..20 {
            let version = Version { epoch: epoch + round, sequence };
            for message in forged(provider, version) {
                assert!(world.inject(hostile, home, message.encode()));
            }
            for _ in 0..3_000 {
                world.run(MS);
                assert_eq!(place_of(&world, home, provider), Some(Cell::new(27, 92)), "{version:?}");
            }
            assert_eq!(world.home(provider), Some(home));
        }
    }
}
