//! Connections of several paths, between the many addresses of the loopback.

// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use roost_identity::{KeyExchange, tls};
use roost_transport::{Event, Limits, PathInfo};
use roost_wait::eventually;
use roost_wire::{Channel, ConnectionId, Delivery, DeliveryClass, Role, RoleSet};
use support::{Node, PATIENCE, TestWorld, send_patiently};
use tokio::time::timeout;

async fn start(world: &TestWorld, name: &str, role: Role, listen: &str) -> Node {
    Node::start(world.member(name, role), None, &[listen], Limits::default()).await
}

/// Waits until the connection has `count` paths.
async fn paths(node: &Node, connection: ConnectionId, count: usize) -> Vec<PathInfo> {
    let paths = || node.transport.connection(connection).map(|info| info.paths);
    eventually(PATIENCE, || paths().filter(|paths| paths.len() == count)).await.expect("the paths in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_listener_addresses_become_two_paths() {
    let world = TestWorld::new();
    let mut hub = start(&world, "hub", Role::SuperNode, "quic://127.0.0.1+127.0.0.2:0").await;
    let mut node = world.node("uav").await;
    let (here, there) = node.connect(&mut hub).await;
    let mut remotes: Vec<_> = paths(&node, here, 2).await.iter().map(|path| path.remote.ip().to_string()).collect();
    remotes.sort();
    assert_eq!(remotes, ["127.0.0.1", "127.0.0.2"]);
    assert_eq!(paths(&hub, there, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_stay_ordered_over_two_paths() {
    let world = TestWorld::new();
    let mut hub = start(&world, "hub", Role::SuperNode, "quic://127.0.0.1+127.0.0.2:0").await;
    let mut node = start(&world, "uav", Role::Node, "quic://127.0.0.3+127.0.0.4:0").await;
    let (here, there) = node.connect(&mut hub).await;
    let mut ours: Vec<_> = paths(&node, here, 2).await.iter().map(|path| path.local.map(|ip| ip.to_string())).collect();
    ours.sort();
    assert_eq!(ours, ["127.0.0.3", "127.0.0.4"].map(|ip| Some(ip.to_owned())));
    paths(&hub, there, 2).await;
    let count = 3000u32;
    for index in 0..count {
        let flow = index % 4;
        let mut message = vec![0; 8 + index as usize * 13 % 20_000];
        message[..4].copy_from_slice(&flow.to_be_bytes());
        message[4..8].copy_from_slice(&index.to_be_bytes());
        let message = Bytes::from(message);
        send_patiently(&node.transport, here, Channel::Reliable { flow }, message).await;
    }
    let mut last = [None; 4];
    for _ in 0..count {
        let (connection, message) = hub.message().await;
        assert_eq!(connection, there);
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("four bytes"));
        let before = last[word(0) as usize].replace(word(4));
        assert!(before.is_none_or(|before| before + 4 == word(4)), "{before:?} before {}", word(4));
    }
    let used: Vec<_> = paths(&node, here, 2).await.iter().map(|path| path.bytes_sent).collect();
    assert!(used.iter().all(|bytes| *bytes > 1_000_000), "{used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_are_delivered_once() {
    let world = TestWorld::new();
    let mut hub = start(&world, "hub", Role::SuperNode, "quic://127.0.0.1+127.0.0.2:0").await;
    let mut node = start(&world, "uav", Role::Node, "quic://127.0.0.3+127.0.0.4:0").await;
    let (here, there) = node.connect(&mut hub).await;
    paths(&node, here, 2).await;
    let (delivery, message) =
        (Delivery { class: DeliveryClass::Duplicate, ..Delivery::default() }, Bytes::from(vec![7; 4000]));
    // On a busy host a path may count as silent for a while, and carries nothing meanwhile.
    for _ in 0..20 {
        for _ in 0..50 {
            let sent = node.transport.send_as(here, support::RELIABLE, &delivery, message.clone());
            assert_eq!(sent, Ok(()));
            assert_eq!(hub.message().await, (there, message.clone()));
        }
        assert!(hub.is_quiet().await);
        if paths(&node, here, 2).await.iter().all(|path| path.bytes_sent > 50 * 4000 / 2) {
            return;
        }
    }
    panic!("{:?}", paths(&node, here, 2).await.iter().map(|path| path.bytes_sent).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_address_delays_no_path() {
    let world = TestWorld::new();
    let mut hub = start(&world, "hub", Role::SuperNode, "quic://127.0.0.1+127.0.0.5:0").await;
    // Longer than this test waits for the paths.
    let limits = Limits { handshake_timeout: 10 * PATIENCE, ..Limits::default() };
    let mut node = Node::start(world.member("uav", Role::Node), None, &[], limits).await;
    let mut address = hub.address();
    // Nothing answers there, and no error is reported.
    let dead: Vec<_> = ["127.0.0.2", "127.0.0.3"].map(|ip| ip.parse().expect("an address")).into();
    let bind = |ip| std::net::UdpSocket::bind(SocketAddr::new(ip, address.port)).expect("a socket");
    let _silent: Vec<_> = dead.iter().copied().map(bind).collect();
    address.hosts.splice(..0, dead);
    node.dial(vec![address], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    let mut remotes: Vec<_> =
        paths(&node, connection, 2).await.iter().map(|path| path.remote.ip().to_string()).collect();
    remotes.sort();
    assert_eq!(remotes, ["127.0.0.1", "127.0.0.5"]);
    assert!(matches!(hub.next().await, Event::Up { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_path_is_rejected() {
    let world = TestWorld::new();
    let mut hub = start(&world, "hub", Role::SuperNode, "quic://127.0.0.1+127.0.0.2:0").await;
    let mut node = start(&world, "uav", Role::Node, "quic://127.0.0.3:0").await;
    let (_, there) = node.connect(&mut hub).await;
    let stranger = world.member("other", Role::Node);
    for (identity, connection) in [(&stranger, there.0), (&node.identity, there.0), (&stranger, 4711)] {
        let reason = add_path(&hub, identity, &node, connection).await;
        assert!(reason.contains("no such connection of yours"), "{reason}");
    }
    // The connection itself stays up.
    assert_eq!(hub.transport.connections().len(), 1);
}

/// Dials as `identity` and asks to add a path to a connection, with a wrong code.
async fn add_path(hub: &Node, identity: &Arc<roost_identity::Identity>, node: &Node, number: u64) -> String {
    let config =
        tls::client_config(identity, &node.policy, RoleSet::ALL, KeyExchange::Hybrid).expect("a configuration");
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).expect("a configuration")));
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a socket");
    let address = hub.address();
    let to = SocketAddr::new(address.hosts[0], address.port);
    let connection = endpoint.connect_with(config, to, "hub").expect("an attempt").await.expect("a handshake");
    let mut hello = vec![0x82, 0x1b];
    hello.extend_from_slice(&number.to_be_bytes());
    hello.extend_from_slice(&[0x58, 32]);
    hello.extend_from_slice(&[0; 32]);
    let mut stream = connection.open_uni().await.expect("a stream");
    stream.write_all(&hello).await.expect("room");
    stream.finish().expect("an open stream");
    timeout(PATIENCE, connection.closed()).await.expect("an end in time").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_announced_host_is_reached() {
    let world = TestWorld::new();
    let hosts: Vec<_> = (1..=4).map(|last| format!("127.0.0.{last}")).collect();
    let mut hub = start(&world, "hub", Role::SuperNode, &format!("quic://{}:0", hosts.join("+"))).await;
    let mut node = world.node("uav").await;
    let first = roost_wire::Address { hosts: vec![[127, 0, 0, 1].into()], ..hub.address() };
    node.dial(vec![first], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    assert!(matches!(hub.next().await, Event::Up { .. }));
    let mut remotes: Vec<_> =
        paths(&node, connection, 4).await.iter().map(|path| path.remote.ip().to_string()).collect();
    remotes.sort();
    assert_eq!(remotes, hosts);
}

/// A list of hosts as a listener reports them: eight from 127.0.0.`first` on, in CBOR.
fn lie(first: u8) -> Vec<u8> {
    (first..first + 8).flat_map(|last| [0x44, 127, 0, 0, last]).collect()
}

/// Hosts that have nothing to do with a connection. Returns the bytes that they received meanwhile.
fn victims(port: u16, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let sockets: Vec<_> = (100..=250)
        .map(|last| {
            let socket = std::net::UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], port))).expect("a socket");
            socket.set_nonblocking(true).expect("a socket");
            socket
        })
        .collect();
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let (mut got, mut datagram) = (0, [0; 2000]);
        while !stop.load(Ordering::Relaxed) {
            got += sockets.iter().filter_map(|socket| socket.recv(&mut datagram).ok()).sum::<usize>() as u64;
            std::thread::yield_now();
        }
        got
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_listener_gains_no_amplification() {
    let world = TestWorld::new();
    let liar = world.member("hub", Role::SuperNode);
    let policy = roost_identity::Policy::new(&liar).expect("a policy");
    let config = tls::server_config(&liar, &policy, RoleSet::ALL, KeyExchange::Hybrid).expect("a configuration");
    let config = QuicServerConfig::try_from(config).expect("a configuration");
    let config = quinn::ServerConfig::with_crypto(Arc::new(config));
    let listener = quinn::Endpoint::server(config, ([127, 0, 0, 1], 0).into()).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let stop = Arc::new(AtomicBool::new(false));
    let victims = victims(port, &stop);
    let mut node = Node::start(world.member("uav", Role::Node), None, &[], Limits::default()).await;
    let hosts = vec![[127, 0, 0, 1].into()];
    node.dial(vec![roost_wire::Address { scheme: roost_wire::Scheme::Quic, port, hosts }], RoleSet::ALL);
    let connection = listener.accept().await.expect("a dial").await.expect("a handshake");
    connection.accept_uni().await.expect("a greeting");
    let say = async |bytes: Vec<u8>| {
        let mut stream = connection.open_uni().await.expect("a stream");
        stream.write_all(&bytes).await.expect("room");
        stream.finish().expect("an open stream");
    };
    // Connection 7 and eight hosts, and after that ever new ones.
    say([&[0x89, 7][..], &lie(100)].concat()).await;
    let mut beats = tokio::time::interval(Duration::from_millis(250));
    for number in 1..=16 {
        beats.tick().await;
        say([&[3, 0x8a, 1, number][..], &lie(100 + 8 * number)].concat()).await;
    }
    let sent = connection.stats().udp_tx.bytes;
    stop.store(true, Ordering::Relaxed);
    let got = victims.join().expect("a count");
    // Some of the reported hosts are tried nevertheless, since they could be the listener's.
    assert!((1..=3 * sent).contains(&got), "{got} bytes reached others for {sent} that were sent");
}

/// The listener may have added the path already, and must not take the connection for closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_path_is_dropped_alone() {
    let world = TestWorld::new();
    let hub = world.member("hub", Role::SuperNode);
    let policy = roost_identity::Policy::new(&hub).expect("a policy");
    let config = tls::server_config(&hub, &policy, RoleSet::ALL, KeyExchange::Hybrid).expect("a configuration");
    let config =
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).expect("a configuration")));
    let first = quinn::Endpoint::server(config.clone(), ([127, 0, 0, 1], 0).into()).expect("a socket");
    let port = first.local_addr().expect("an address").port();
    let second = quinn::Endpoint::server(config, ([127, 0, 0, 2], port).into()).expect("a socket");
    let limits = Limits {
        handshake_timeout: Duration::from_millis(500),
        longest_round_trip: Duration::ZERO,
        ..Limits::default()
    };
    let mut node = Node::start(world.member("uav", Role::Node), None, &[], limits).await;
    let hosts = vec![[127, 0, 0, 1].into()];
    node.dial(vec![roost_wire::Address { scheme: roost_wire::Scheme::Quic, port, hosts }], RoleSet::ALL);
    let connection = first.accept().await.expect("a dial").await.expect("a handshake");
    connection.accept_uni().await.expect("a greeting");
    // Connection 7, and another host.
    let mut welcome = connection.open_uni().await.expect("a stream");
    welcome.write_all(&[0x82, 7, 0x44, 127, 0, 0, 2]).await.expect("room");
    welcome.finish().expect("an open stream");
    let path = second.accept().await.expect("a dial").await.expect("a handshake");
    path.accept_uni().await.expect("a greeting");
    // The dialing side gets no answer.
    let end = timeout(PATIENCE, path.closed()).await.expect("an end in time");
    let quinn::ConnectionError::ApplicationClosed(close) = end else { panic!("{end}") };
    assert_eq!(close.error_code, quinn::VarInt::from_u32(2), "{close}");
}
