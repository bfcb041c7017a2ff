//! The suite of behaviours for all three transports.

// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use std::net::UdpSocket;
use std::time::Duration;

use bytes::Bytes;
use roost_transport::{Event, Limits, SendError};
use roost_wire::{Address, Channel, Delivery, DialId, NodeId, Role, RoleSet, Scheme, Service};
use support::{Node, RELIABLE, TestWorld, until};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

macro_rules! suite {
    ($($behaviour:ident),* $(,)?) => {
        mod udp { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $behaviour() { super::$behaviour(roost_wire::Scheme::Udp).await })* }
        mod tcp { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $behaviour() { super::$behaviour(roost_wire::Scheme::Tcp).await })* }
        mod quic { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $behaviour() { super::$behaviour(roost_wire::Scheme::Quic).await })* }
    };
}

suite!(
    messages_keep_boundaries_at_every_size,
    thousand_reliable_messages_arrive_in_order,
    refused_certificate_learns_the_reason,
    revoked_member_loses_its_connections,
    dialer_rejects_wrong_role,
    dialer_rejects_unexpected_node,
    failed_dial_lists_tried_addresses,
    dial_continues_to_next_address,
    dial_skips_silent_addresses,
    close_reason_reaches_remote,
    sent_data_arrives_before_close,
    urgent_messages_overtake_bulk,
    garbage_disturbs_nobody,
    restarted_remote_gets_new_connection,
    many_nodes_have_connections_at_once,
    a_full_hub_turns_others_away,
    full_queue_is_error_or_drop,
    a_shutdown_says_farewell,
    connections_and_counters_tell_what_went_through,
);

const SIZES: [usize; 10] = [0, 1, 100, 1199, 1200, 1201, 5000, 16_384, 65_535, 65_536];

fn pattern(len: usize) -> Bytes {
    (0..len).map(|index| (index * 7 + len) as u8).collect()
}

async fn messages_keep_boundaries_at_every_size(scheme: Scheme) {
    let world = TestWorld::new();
    let (mut hub, at_hub, mut node, at_node) = world.pair(scheme).await;
    for channel in [Channel::Datagram, RELIABLE] {
        for len in SIZES {
            node.send(at_node, channel, pattern(len));
            assert_eq!(hub.message().await, (at_hub, pattern(len)), "{channel:?} {len}");
            hub.send(at_hub, channel, pattern(len));
            assert_eq!(node.message().await, (at_node, pattern(len)), "{channel:?} {len}");
        }
    }
    let too_long = node.transport.send(at_node, RELIABLE, pattern(65_537));
    assert_eq!(too_long, Err(SendError::TooLong(65_537)));
}

async fn thousand_reliable_messages_arrive_in_order(scheme: Scheme) {
    let world = TestWorld::new();
    let (mut hub, _, node, at_node) = world.pair(scheme).await;
    for index in 0..1000u32 {
        let flow = index % 4;
        let mut message = vec![0; 8 + index as usize * 3 % 4000];
        message[..4].copy_from_slice(&flow.to_be_bytes());
        message[4..8].copy_from_slice(&index.to_be_bytes());
        node.transport.send(at_node, Channel::Reliable { flow }, message.into()).expect("room");
    }
    node.transport.flush();
    let mut last = [None; 4];
    for _ in 0..1000 {
        let (_, message) = hub.message().await;
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("four bytes"));
        let (flow, index) = (word(0), word(4));
        assert_eq!(message.len(), 8 + index as usize * 3 % 4000);
        assert!(last[flow as usize].is_none_or(|last| last + 4 == index), "{last:?} {index}");
        last[flow as usize] = Some(index);
    }
    assert!(hub.is_quiet().await);
}

async fn refused_certificate_learns_the_reason(scheme: Scheme) {
    let world = TestWorld::new();
    let (impostors, remotes) = (TestWorld::named("alpha"), TestWorld::named("beta"));
    let revoked = world.revoked();
    let member = world.member("judge", Role::Node);
    let mut hub = world.hub(scheme).await;
    let cases = [
        (impostors.member("stranger", Role::Node), "stranger", "it "),
        (remotes.member("remote", Role::Node), "wrong_group", "it belongs to another group"),
        (world.expired(), "expired", "it has expired"),
        (revoked, "revoked", "it was revoked"),
    ];
    for (identity, label, why) in cases {
        let mut node = Node::start(identity, Some(&member), &[], Limits::default()).await;
        node.dial(vec![hub.address()], RoleSet::ALL);
        let (reason, refused) = node.unreached().await;
        assert_eq!(refused, matches!(label, "revoked" | "expired"), "{label}");
        let expected = format!("{}: the remote refused our certificate because {why}", hub.address());
        assert!(reason.starts_with(&expected), "{label}: {reason}");
        hub.await_refusal(scheme, label).await;
    }
    assert!(hub.is_quiet().await);
}

async fn revoked_member_loses_its_connections(scheme: Scheme) {
    let world = TestWorld::new();
    let suspect = world.issued("suspect");
    let mut hub = world.hub(scheme).await;
    let (mut node, mut other) = (Node::start(suspect, None, &[], Limits::default()).await, world.node("other").await);
    let (at_node, at_hub) = node.connect(&mut hub).await;
    other.connect(&mut hub).await;
    assert_eq!(hub.transport.recheck().await, 0);
    world.group.revoke("suspect").expect("a list");
    hub.policy.reload().expect("the new list");
    assert_eq!(hub.transport.recheck().await, 1);
    assert_eq!(hub.lost().await, (at_hub, "we refused the remote's certificate because it was revoked".into(), true));
    assert_eq!(node.lost().await, (at_node, "the remote refused our certificate because it was revoked".into(), true));
    assert!(other.is_quiet().await);
}

async fn dialer_rejects_wrong_role(scheme: Scheme) {
    let world = TestWorld::new();
    let mut hub = world.hub(scheme).await;
    let mut node = world.node("uav").await;
    node.dial(vec![hub.address()], RoleSet::only(Role::Server));
    let reason = node.dial_failed().await;
    assert!(reason.contains("we refused the remote's certificate because its role"), "{reason}");
    assert_eq!(node.refused(scheme, "wrong_role"), 1);
    assert!(hub.is_quiet().await);
}

async fn dialer_rejects_unexpected_node(scheme: Scheme) {
    let world = TestWorld::new();
    let hub = world.hub(scheme).await;
    let mut node = world.node("uav").await;
    let other = NodeId::from_bytes([7; 16]);
    node.transport.dial(DialId(9), vec![hub.address()], RoleSet::ALL, Some(other));
    let reason = node.dial_failed().await;
    assert!(reason.contains("not the expected node but hub"), "{reason}");
}

/// An address of the loopback at which nobody listens.
fn nobody(scheme: Scheme) -> Address {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    Address::single(scheme, socket.local_addr().expect("its address"))
}

async fn impatient_node(world: &TestWorld) -> Node {
    let limits = Limits {
        handshake_timeout: Duration::from_millis(600),
        longest_round_trip: Duration::ZERO,
        ..Limits::default()
    };
    Node::start(world.member("uav", Role::Node), None, &[], limits).await
}

async fn failed_dial_lists_tried_addresses(scheme: Scheme) {
    let world = TestWorld::new();
    let mut node = impatient_node(&world).await;
    let (first, second) = (nobody(scheme), nobody(scheme));
    node.dial(vec![first.clone(), second.clone()], RoleSet::ALL);
    let why = if scheme == Scheme::Tcp { "connection refused" } else { "no answer in 0.6 s" };
    assert_eq!(node.dial_failed().await, format!("{first}, {second}: {why}"));
    node.dial(vec![], RoleSet::ALL);
    assert_eq!(node.dial_failed().await, "there is no address to dial");
}

async fn dial_continues_to_next_address(scheme: Scheme) {
    let world = TestWorld::new();
    let hub = world.hub(scheme).await;
    let mut node = impatient_node(&world).await;
    let dialled = node.dial(vec![nobody(scheme), hub.address()], RoleSet::ALL);
    let Event::Up { dial, address, rtt, .. } = node.next().await else { panic!("the dial failed") };
    assert_eq!((dial, address), (Some(dialled), hub.address()));
    assert!(rtt > Duration::ZERO);
}

async fn dial_skips_silent_addresses(scheme: Scheme) {
    let world = TestWorld::new();
    let hub = world.hub(scheme).await;
    // Nothing answers there, and no error is reported.
    let silent = ["udp", "quic"].map(|scheme| nobody(scheme.parse().expect("a scheme")));
    // The handshakes last longer than this test may take.
    let limits = Limits { handshake_timeout: Duration::from_secs(3600), ..Limits::default() };
    let mut node = Node::start(world.member("uav", Role::Node), None, &[], limits).await;
    let dialled = node.dial(silent.into_iter().chain([hub.address()]).collect(), RoleSet::ALL);
    let Event::Up { dial, address, .. } = node.next().await else { panic!("the dial failed") };
    assert_eq!((dial, address), (Some(dialled), hub.address()));
}

async fn close_reason_reaches_remote(scheme: Scheme) {
    let world = TestWorld::new();
    let (mut hub, at_hub, mut node, at_node) = world.pair(scheme).await;
    node.transport.close(at_node, "the battery is empty".into());
    assert_eq!(hub.down().await, (at_hub, "the battery is empty".into()));
    assert!(node.is_quiet().await);
    assert_eq!(node.transport.send(at_node, RELIABLE, Bytes::new()), Err(SendError::NoConnection(at_node)));
    assert_eq!(hub.transport.send(at_hub, RELIABLE, Bytes::new()), Err(SendError::NoConnection(at_hub)));
    assert!(hub.transport.connections().is_empty() && node.transport.connections().is_empty());
}

async fn sent_data_arrives_before_close(scheme: Scheme) {
    let world = TestWorld::new();
    let (mut hub, at_hub, node, at_node) = world.pair(scheme).await;
    for _ in 0..40 {
        node.transport.send(at_node, RELIABLE, pattern(60_000)).expect("room");
    }
    node.transport.close(at_node, "done".into());
    for _ in 0..40 {
        assert_eq!(hub.message().await.1.len(), 60_000);
    }
    assert_eq!(hub.down().await, (at_hub, "done".into()));
}

async fn urgent_messages_overtake_bulk(scheme: Scheme) {
    const PIECE: usize = 16 * 1024;
    const PIECES: usize = 512;
    let world = TestWorld::new();
    let mut hub = world.hub(scheme).await;
    let limits = Limits { connection_queue_bytes: 16 << 20, ..Limits::default() };
    let mut node = Node::start(world.member("uav", Role::Node), None, &[], limits).await;
    node.dial(vec![support::slow::way_to(&hub.address(), 1e6).await], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    assert!(matches!(hub.next().await, Event::Up { .. }));
    let send = |flow, delivery, message: Bytes| {
        node.transport.send_as(connection, Channel::Reliable { flow }, &delivery, message).expect("room");
        node.transport.flush();
    };
    (0..PIECES).for_each(|_| send(5, Delivery::for_service(Service::Image), pattern(PIECE)));
    // By then the link holds as much as it can.
    for _ in 0..PIECES / 10 {
        assert_eq!(hub.message().await.1.len(), PIECE);
    }
    send(0, Delivery::CONTROL, pattern(100));
    let mut before = 0;
    while hub.message().await.1.len() == PIECE {
        before += 1;
    }
    // At most the bytes in the link and in the systems of both sides, and one write.
    assert!(before * PIECE <= 4 * support::slow::QUEUE_BYTES, "{before} of {PIECES} pieces went before");
}

/// Repeatable bytes with many shapes that may break a parser.
fn noise(seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let first = [22, 23, 47, 1, 2, 0, 0xc3, 0x40][seed as usize % 8];
    let len = next() as usize % 1300;
    std::iter::once(first).chain((0..len).map(|_| next() as u8)).collect()
}

async fn throw_garbage(at: &Address) {
    let to = at.primary().expect("a host");
    if at.scheme == Scheme::Tcp {
        for seed in 0..20 {
            let mut stream = TcpStream::connect(to).await.expect("a connection");
            // The listener may hang up at any moment.
            let _ = stream.write_all(&noise(seed)).await;
        }
        return;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for seed in 0..500 {
        socket.send_to(&noise(seed), to).expect("room");
    }
}

async fn garbage_disturbs_nobody(scheme: Scheme) {
    let world = TestWorld::new();
    let mut hub = world.hub(scheme).await;
    throw_garbage(&hub.address()).await;
    let mut node = world.node("uav").await;
    let (at_node, at_hub) = node.connect(&mut hub).await;
    throw_garbage(&hub.address()).await;
    node.send(at_node, RELIABLE, pattern(100));
    assert_eq!(hub.message().await, (at_hub, pattern(100)));
    assert!(hub.is_quiet().await && node.is_quiet().await);
    let counters = hub.transport.counters().for_scheme(scheme).clone();
    match scheme {
        Scheme::Tcp => assert_eq!(counters.failed_handshakes, 40),
        // The system decides how much of a burst the socket's buffer holds.
        Scheme::Udp | Scheme::Quic => assert!(counters.malformed > 0, "{counters:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_connects_past_held_handshakes() {
    let world = TestWorld::new();
    let mut hub = world.hub_with(Scheme::Tcp, Limits { handshakes: 8, ..Limits::default() }).await;
    let to = hub.address().primary().expect("a host");
    let mut crowd = Vec::new();
    for index in 0..60 {
        let mut stream = TcpStream::connect(to).await.expect("a connection");
        if index % 2 == 0 {
            stream.write_all(&[22]).await.expect("room");
        }
        crowd.push(stream);
    }
    world.node("uav").await.connect(&mut hub).await;
    assert!(hub.transport.counters().for_scheme(Scheme::Tcp).turned_away >= 50);
}

async fn restarted_remote_gets_new_connection(scheme: Scheme) {
    let world = TestWorld::new();
    let mut hub = world.hub(scheme).await;
    let identity = world.member("uav", Role::Node);
    let here = [format!("{scheme}://127.0.0.1:0")];
    let mut before = Node::start(identity.clone(), None, &[&here[0]], Limits::default()).await;
    let (_, old) = before.connect(&mut hub).await;
    let address = before.address();
    drop(before);
    let is_free = || UdpSocket::bind(("127.0.0.1", address.port)).is_ok();
    until("its port is free", || scheme != Scheme::Udp || is_free()).await;
    if scheme != Scheme::Udp {
        assert_eq!(hub.down().await.0, old);
    }
    let there = if scheme == Scheme::Udp { address.to_string() } else { here[0].clone() };
    let mut after = Node::start(identity, None, &[&there], Limits::default()).await;
    after.dial(vec![hub.address()], RoleSet::ALL);
    let Event::Up { connection, .. } = after.next().await else { panic!("the dial failed") };
    if scheme == Scheme::Udp {
        assert_eq!(hub.down().await, (old, "the remote has begun anew".into()));
    }
    let Event::Up { connection: new, .. } = hub.next().await else { panic!("no connection came up") };
    assert_ne!(new, old);
    hub.send(new, RELIABLE, pattern(3000));
    assert_eq!(after.message().await, (connection, pattern(3000)));
    assert_eq!(hub.transport.connections().len(), 1);
}

async fn many_nodes_have_connections_at_once(scheme: Scheme) {
    const NODES: usize = 60;
    let world = TestWorld::new();
    let mut hub = world.hub(scheme).await;
    let mut nodes = Vec::new();
    for index in 0..NODES {
        let mut node = world.node(&format!("uav{index}")).await;
        node.dial(vec![hub.address()], RoleSet::ALL);
        nodes.push(node);
    }
    let mut connections = Vec::new();
    for _ in 0..NODES {
        let Event::Up { connection, .. } = hub.next().await else { panic!("no connection came up") };
        connections.push(connection);
    }
    for node in &mut nodes {
        let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
        node.send(connection, RELIABLE, pattern(2000));
    }
    for _ in 0..NODES {
        assert_eq!(hub.message().await.1, pattern(2000));
    }
    for connection in &connections {
        hub.transport.send(*connection, Channel::Datagram, pattern(64)).expect("a link");
    }
    hub.transport.flush();
    for node in &mut nodes {
        assert_eq!(node.message().await.1, pattern(64));
    }
    assert_eq!(hub.transport.connections().len(), NODES);
}

async fn a_full_hub_turns_others_away(scheme: Scheme) {
    let world = TestWorld::new();
    let mut hub = world.hub_with(scheme, Limits { connections: 1, ..Limits::default() }).await;
    let (mut first, mut second) = (world.node("first").await, world.node("second").await);
    first.connect(&mut hub).await;
    second.dial(vec![hub.address()], RoleSet::ALL);
    let reason = second.dial_failed().await;
    assert!(!reason.contains("no answer"), "{reason}");
    assert_eq!(hub.transport.counters().for_scheme(scheme).turned_away, 1);
    assert_eq!(hub.transport.connections().len(), 1);
}

async fn full_queue_is_error_or_drop(scheme: Scheme) {
    let world = TestWorld::new();
    let limits = Limits { connection_queue_bytes: 200_000, ..Limits::default() };
    let mut hub = world.hub_with(scheme, limits).await;
    let mut node = world.node("uav").await;
    let (_, at_hub) = node.connect(&mut hub).await;
    let message = pattern(50_000);
    let refused = (0..100_000).find_map(|_| hub.transport.send(at_hub, RELIABLE, message.clone()).err());
    assert_eq!(refused, Some(SendError::Full(at_hub)));
    let message = pattern(1000);
    for _ in 0..20 {
        for _ in 0..5000 {
            hub.transport.send(at_hub, Channel::Datagram, message.clone()).expect("datagrams are dropped instead");
        }
        if hub.transport.counters().for_scheme(scheme).dropped > 0 {
            break;
        }
    }
    assert!(hub.transport.counters().for_scheme(scheme).dropped > 0);
    hub.transport.flush();
    assert!(!node.is_quiet().await);
}

async fn a_shutdown_says_farewell(scheme: Scheme) {
    let world = TestWorld::new();
    let (hub, _, mut node, at_node) = world.pair(scheme).await;
    let address = hub.address();
    hub.transport.clone().shutdown(Duration::from_secs(5)).await;
    assert_eq!(node.down().await, (at_node, "the remote is shutting down".into()));
    assert!(hub.transport.connections().is_empty());
    if scheme == Scheme::Tcp {
        node.dial(vec![address], RoleSet::ALL);
        assert!(node.dial_failed().await.contains("connection refused"));
    }
}

async fn connections_and_counters_tell_what_went_through(scheme: Scheme) {
    let world = TestWorld::new();
    let (mut hub, at_hub, mut node, at_node) = world.pair(scheme).await;
    for _ in 0..10 {
        node.send(at_node, RELIABLE, pattern(1000));
        hub.message().await;
    }
    hub.send(at_hub, Channel::Datagram, pattern(10));
    node.message().await;
    let (here, there) =
        (node.transport.connection(at_node).expect("a link"), hub.transport.connection(at_hub).expect("a link"));
    assert_eq!((here.scheme, here.dialled, there.dialled), (scheme, true, false));
    assert_eq!((here.messages_sent, there.messages_received), (10, 10));
    assert_eq!((here.messages_received, there.messages_sent), (1, 1));
    assert_eq!(here.remote.node, hub.identity.node());
    assert!(here.bytes_sent > 10_000 && there.bytes_received > 10_000, "{here:?} {there:?}");
    let counters = node.transport.counters();
    assert_eq!(counters.for_scheme(scheme).handshakes, 1);
    assert!(counters.for_scheme(scheme).bytes_sent >= here.bytes_sent);
}
