//! Behaviour that only `udp://` has.

// Only tests and their helpers are in this file.
#![allow(clippy::expect_used)]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use roost_transport::{Event, Limits};
use roost_wire::{Address, Channel, ConnectionId, Role, RoleSet, Scheme};
use support::middle::{Middle, To};
use support::{Node, RELIABLE, TestWorld};

async fn listening(world: &TestWorld, name: &str) -> Node {
    Node::start(world.member(name, Role::SuperNode), None, &["udp://127.0.0.1:0"], Limits::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_dials_both_succeed() {
    let world = TestWorld::new();
    for _ in 0..20 {
        let (mut left, mut right) = (listening(&world, "left").await, listening(&world, "right").await);
        left.dial(vec![right.address()], RoleSet::ALL);
        right.dial(vec![left.address()], RoleSet::ALL);
        let (at_left, at_right) = (dialled(&mut left).await, dialled(&mut right).await);
        left.send(at_left, RELIABLE, Bytes::from_static(b"from the left"));
        right.send(at_right, RELIABLE, Bytes::from_static(b"from the right"));
        assert_eq!(only_message(&mut left).await, "from the right");
        assert_eq!(only_message(&mut right).await, "from the left");
        assert_eq!(left.transport.connections().len(), right.transport.connections().len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dial_leaves_from_address_of_route() {
    // A wildcard socket leaves from the right address too, and follows the route later.
    let cases = [("127.0.0.2", "127.0.0.1", 1), ("127.0.0.2", "0.0.0.0", 1), ("0.0.0.0", "127.0.0.1", 0)];
    for (first, second, leaves_from) in cases {
        let world = TestWorld::new();
        let listen = [first, second].map(|host| format!("udp://{host}:0"));
        let several = listen.each_ref().map(String::as_str);
        let mut dialing = Node::start(world.member("left", Role::Node), None, &several, Limits::default()).await;
        let mut called = listening(&world, "right").await;
        dialing.dial(vec![called.address()], RoleSet::ALL);
        let Event::Up { address, .. } = called.next().await else { panic!("no connection") };
        let port = dialing.transport.local_addresses()[leaves_from].port;
        assert_eq!((address.port, address.hosts[0].to_string()), (port, "127.0.0.1".to_owned()), "{first} {second}");
    }
}

/// The connection that the node's own dial has led to.
async fn dialled(node: &mut Node) -> ConnectionId {
    loop {
        match node.next().await {
            Event::Up { connection, dial: Some(_), .. } => return connection,
            Event::Up { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The next message. A connection that goes down before it is an error.
async fn only_message(node: &mut Node) -> Bytes {
    loop {
        match node.next().await {
            Event::Message { message, .. } => return message,
            Event::Up { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_messages_share_a_datagram() {
    let world = TestWorld::new();
    let (mut hub, at_hub, node, at_node) = world.pair(Scheme::Udp).await;
    let sent = || node.transport.counters().for_scheme(Scheme::Udp).datagrams_sent;
    let before = sent();
    let messages: Vec<Bytes> = (0..8).map(|number| Bytes::from(vec![number; 100])).collect();
    for message in &messages {
        node.transport.send(at_node, Channel::Datagram, message.clone()).unwrap();
    }
    node.transport.flush();
    for message in messages {
        assert_eq!(hub.message().await, (at_hub, message));
    }
    assert_eq!(sent() - before, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_dial_opens_second_connection() {
    let world = TestWorld::new();
    let (mut hub, at_hub, mut node, at_node) = world.pair(Scheme::Udp).await;
    let (second, second_at_hub) = node.connect(&mut hub).await;
    for (connection, other) in [(at_node, at_hub), (second, second_at_hub)] {
        node.send(connection, RELIABLE, Bytes::from_static(b"here"));
        assert_eq!(hub.message().await, (other, Bytes::from_static(b"here")));
    }
}

/// The time that a datagram takes on [`long_way`], in each direction.
const LATE: Duration = Duration::from_millis(200);

/// A route to `to` on which datagrams come late.
async fn long_way(to: SocketAddr) -> Address {
    let [front, back] = [(); 2].map(|()| async { tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket") });
    let (front, back) = (Arc::new(front.await), Arc::new(back.await));
    let address = Address::single(Scheme::Udp, front.local_addr().expect("its address"));
    tokio::spawn(async move {
        let (mut out, mut home, mut dialler) = ([0; 2000], [0; 2000], None);
        loop {
            let (datagram, socket, to) = tokio::select! {
                got = front.recv_from(&mut out) => {
                    let (len, from) = got.expect("a datagram");
                    dialler = Some(from);
                    (out[..len].to_vec(), Arc::clone(&back), to)
                }
                got = back.recv_from(&mut home) => {
                    let (len, _) = got.expect("a datagram");
                    (home[..len].to_vec(), Arc::clone(&front), dialler.expect("it spoke first"))
                }
            };
            tokio::spawn(async move {
                tokio::time::sleep(LATE).await;
                socket.send_to(&datagram, to).await.expect("room");
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_handshake_opens_no_connection() {
    let world = TestWorld::new();
    let (hub, other) = (listening(&world, "hub").await, listening(&world, "other").await);
    let mut node = world.node("uav").await;
    let slow = long_way(hub.address().primary().expect("a host")).await;
    let dialled = node.dial(vec![slow, other.address()], RoleSet::ALL);
    let Event::Up { dial, address, .. } = node.next().await else { panic!("the dial failed") };
    assert_eq!((dial, address), (Some(dialled), other.address()));
    for _ in 0..6 {
        assert!(node.is_quiet().await);
    }
    assert_eq!((node.transport.connections().len(), hub.transport.connections().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_fit_every_path() {
    // IPv6 carries 1280 bytes on every path, including its header and that of UDP.
    const MOST: usize = 1280 - 40 - 8;
    let world = TestWorld::new();
    // With no handshakes allowed without proof, every ClientHello needs a cookie, which makes its datagram longest. The
    // certificates follow in the same handshake.
    let mut hub = world.hub_with(Scheme::Udp, Limits { handshakes: 0, ..Limits::default() }).await;
    let (mut node, middle) = (world.node("uav").await, Middle::before(&hub).await);
    node.dial(vec![middle.at.clone()], RoleSet::ALL);
    let Event::Up { connection: at_node, .. } = node.next().await else { panic!("the dial failed") };
    let Event::Up { connection: at_hub, .. } = hub.next().await else { panic!("no connection came up") };
    for channel in [Channel::Datagram, RELIABLE] {
        for len in [1199, 1200, 1201, 40_000, 65_536] {
            node.send(at_node, channel, vec![1; len]);
            assert_eq!(hub.message().await.1.len(), len);
            hub.send(at_hub, channel, vec![1; len]);
            assert_eq!(node.message().await.1.len(), len);
        }
    }
    for to in [To::Hub, To::Node] {
        let sizes: Vec<_> = middle.passed(to).iter().map(Vec::len).collect();
        assert!(sizes.iter().max().is_some_and(|largest| (1200..=MOST).contains(largest)), "{sizes:?}");
    }
    // The longest datagram has a cookie before the ClientHello.
    assert_eq!(middle.passed(To::Hub).iter().find(|datagram| datagram[0] == 1).map(Vec::len), Some(MOST));
}

/// The first datagram of a handshake, as much of it as can be made without a key.
fn hello(random: u8) -> Vec<u8> {
    let mut datagram = vec![random; 120];
    datagram[..13].copy_from_slice(&[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 107]);
    datagram[13..27].copy_from_slice(&[1, 0, 0, 95, 0, 0, 0, 0, 0, 0, 0, 95, 0xfe, 0xfd]);
    datagram
}

fn knock(at: &Address, times: u8) {
    for index in 0..times {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.send_to(&hello(index), at.primary().expect("a host")).expect("room");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dial_times_out_despite_restarts() {
    let world = TestWorld::new();
    let limits = Limits {
        handshake_timeout: Duration::from_millis(300),
        longest_round_trip: Duration::ZERO,
        ..Limits::default()
    };
    let mut node = Node::start(world.member("uav", Role::Node), None, &[], limits).await;
    let fickle = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    node.dial(vec![Address::single(Scheme::Udp, fickle.local_addr().expect("its address"))], RoleSet::ALL);
    let (_, dialler) = fickle.recv_from(&mut [0; 2000]).expect("a ClientHello");
    let beginning_anew = tokio::spawn(async move {
        // The greater random goes on. Those after that replace it.
        let mut beats = tokio::time::interval(Duration::from_millis(50));
        for random in (200..=255).cycle() {
            beats.tick().await;
            fickle.send_to(&hello(random), dialler).expect("room");
        }
    });
    assert!(node.dial_failed().await.contains("0.3 s"));
    beginning_anew.abort();
}

/// A delay that is longer than the interval between two forgeries.
const SOON: Duration = Duration::from_millis(50);

/// A forged datagram of a sender that does not see the datagrams of the real one. The number makes each one different.
type Forgery = fn(u8) -> Vec<u8>;

/// An unencrypted record.
fn record(content: u8, number: u8, body: &[u8]) -> Vec<u8> {
    let head = [content, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number];
    [&head[..], &(body.len() as u16).to_be_bytes(), body].concat()
}

fn forged_hello(number: u8) -> Vec<u8> {
    let mut forged = hello(255 - number);
    forged.resize(1200, 0);
    forged
}

/// A fragment of a ServerHello, or of a later message.
fn forged_piece(number: u8) -> Vec<u8> {
    let (sequence, offset) = (number % 31, number);
    let piece = [2, 0, 1, 0, 0, sequence, 0, 0, offset, 0, 0, 40];
    record(22, number, &[&piece[..], &[number; 40]].concat())
}

/// A whole ServerHello, which dimpl refuses.
fn forged_answer(number: u8) -> Vec<u8> {
    let body = [&[0xfe, 0xfd][..], &[number; 32], &[0, 0x13, 0x01, 0, 0, 0]].concat();
    let length = body.len() as u8;
    record(22, number, &[&[2, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, length][..], &body].concat())
}

/// A whole ServerHello of another handshake, which dimpl accepts for this one: a key of X25519.
fn stolen_answer(number: u8) -> Vec<u8> {
    let extensions = [&[0, 43, 0, 2, 0xfe, 0xfc, 0, 51, 0, 36, 0, 29, 0, 32][..], &[9; 32]].concat();
    let fixed = [&[0xfe, 0xfd][..], &[number; 32], &[0, 0x13, 0x01, 0, 0, extensions.len() as u8]].concat();
    let length = (fixed.len() + extensions.len()) as u8;
    record(22, number, &[&[2, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, length][..], &fixed, &extensions].concat())
}

const FORGERIES: [(&str, Forgery); 9] = [
    ("stolen answers", stolen_answer),
    ("ClientHellos", forged_hello),
    ("fatal alerts", |number| record(21, number, &[2, 40])),
    ("farewells", |number| record(21, number, &[1, 0])),
    ("acknowledgements", |number| {
        record(26, number, &[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number % 4])
    }),
    ("pieces", forged_piece),
    ("answers", forged_answer),
    ("large records", |number| [&[0x2e, 0, number, 4, 0][..], &[number; 1024]].concat()),
    ("cookies", |number| [&[2][..], &[number; 16]].concat()),
];

/// Carries datagrams between a node and a hub with `delay` in each direction, and every 2 ms a forgery to each with the
/// other's address.
async fn forge(way: ForgingRoute, delay: Duration, forgery: Forgery, count: Arc<AtomicU8>) {
    let ForgingRoute { front, back, node } = way;
    let (mut there, mut here) = ([0; 2000], [0; 2000]);
    let mut ticks = tokio::time::interval(Duration::from_millis(2));
    let later = |socket: &Arc<tokio::net::UdpSocket>, to: Option<SocketAddr>, datagram: Vec<u8>| {
        let socket = Arc::clone(socket);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            match to {
                Some(to) => socket.send_to(&datagram, to).await.map(drop),
                None => socket.send(&datagram).await.map(drop),
            }
        });
    };
    loop {
        tokio::select! {
            Ok((len, _)) = front.recv_from(&mut there) => later(&back, None, there[..len].to_vec()),
            Ok(len) = back.recv(&mut here) => later(&front, Some(node), here[..len].to_vec()),
            _ = ticks.tick() => {
                let forged = forgery(count.fetch_add(1, Ordering::Relaxed));
                front.send_to(&forged, node).await.map(drop).expect("room");
                back.send(&forged).await.map(drop).expect("room");
            }
        }
    }
}

/// A node that sees the hub at `front`, and a hub that sees the node at `back`.
struct ForgingRoute {
    front: Arc<tokio::net::UdpSocket>,
    back: Arc<tokio::net::UdpSocket>,
    node: SocketAddr,
}

/// Dials a hub while forgeries arrive that began before.
async fn dial_beside(what: &str, forgery: Forgery, delay: Duration, limits: Limits) {
    let world = TestWorld::new();
    let (mut node, hub) = (listening(&world, "uav").await, world.hub_with(Scheme::Udp, limits).await);
    let [front, back] = [(); 2].map(|()| async { tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket") });
    let (front, back) = (Arc::new(front.await), Arc::new(back.await));
    back.connect(hub.address().primary().expect("a host")).await.expect("a route");
    let at = Address::single(Scheme::Udp, front.local_addr().expect("its address"));
    let way = ForgingRoute { front, back, node: node.address().primary().expect("a host") };
    let count = Arc::new(AtomicU8::new(0));
    let forging = tokio::spawn(forge(way, delay, forgery, Arc::clone(&count)));
    while count.load(Ordering::Relaxed) < 5 {
        tokio::task::yield_now().await;
    }
    let dialled = node.dial(vec![at], RoleSet::ALL);
    loop {
        match node.next().await {
            Event::Up { dial, .. } if dial == Some(dialled) => break,
            Event::Up { .. } => {}
            other => panic!("{what}: {other:?}"),
        }
    }
    forging.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_forged_ends_a_handshake() {
    let beside = |(what, forgery)| (what, tokio::spawn(dial_beside(what, forgery, SOON, Limits::default())));
    let mut ended = Vec::new();
    for (what, dialling) in FORGERIES.map(beside) {
        if dialling.await.is_err() {
            ended.push(what);
        }
    }
    assert!(ended.is_empty(), "handshakes ended by {ended:?}");
}

/// An answer without an echo is used after a while, since an older hub may have sent it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_older_answer_only_delays() {
    let late = Duration::from_millis(1200);
    let dialling = [("answers", forged_answer as Forgery), ("stolen answers", stolen_answer)];
    for dialling in dialling.map(|(what, forgery)| tokio::spawn(dial_beside(what, forgery, late, Limits::default()))) {
        dialling.await.expect("a link");
    }
}

/// A hub that demands proof of every address answers with a genuine cookie as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_cookie_takes_no_place() {
    let (what, forgery) = FORGERIES[FORGERIES.len() - 1];
    dial_beside(what, forgery, SOON, Limits { handshakes: 0, ..Limits::default() }).await;
}

/// A hub of the previous version does not know the request for an echo.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_hub_is_dialled() {
    let world = TestWorld::new();
    let (mut node, hub) = (listening(&world, "uav").await, world.hub(Scheme::Udp).await);
    let front = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let back = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    back.connect(hub.address().primary().expect("a host")).await.expect("a route");
    let at = Address::single(Scheme::Udp, front.local_addr().expect("its address"));
    let to = node.address().primary().expect("a host");
    let carrying = tokio::spawn(async move {
        let (mut there, mut here) = ([0; 2000], [0; 2000]);
        loop {
            tokio::select! {
                Ok((len, _)) = front.recv_from(&mut there) => {
                    let asked = there[..len].strip_suffix(&[20, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
                    back.send(asked.unwrap_or(&there[..len])).await.map(drop).expect("room");
                }
                Ok(len) = back.recv(&mut here) => {
                    assert_ne!(here[0], 6, "nobody has asked for an echo");
                    front.send_to(&here[..len], to).await.map(drop).expect("room");
                }
            }
        }
    });
    node.dial(vec![at], RoleSet::ALL);
    let rtt = loop {
        if let Event::Up { dial: Some(_), rtt, .. } = node.next().await {
            break rtt;
        }
    };
    assert!(rtt < Duration::from_millis(500), "{rtt:?}: the time for which its answer was held is none of the path's");
    carrying.abort();
}

/// The forgeries after a datagram, from a sender that can forge both addresses but has no key: the datagram again,
/// damaged copies, and datagrams that need no key.
fn forged(datagram: &[u8]) -> Vec<Vec<u8>> {
    let damaged = |at: usize| {
        let mut copy = datagram.to_vec();
        copy[at] ^= 1;
        copy
    };
    let alert = vec![21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40];
    let half = datagram[..datagram.len() / 2].to_vec();
    let mut forged = vec![datagram.to_vec(), alert, half, hello(0), vec![datagram[0]], vec![2; 17]];
    forged.extend([0, 1, datagram.len() / 2, datagram.len() - 1].map(damaged));
    forged
}

/// Carries datagrams between the host that dials `front` and the remote of `back`. Once it is `hostile`, forged ones
/// follow each.
async fn meddle(front: tokio::net::UdpSocket, back: tokio::net::UdpSocket, hostile: Arc<AtomicBool>) {
    let (mut there, mut here) = ([0; 2000], [0; 2000]);
    let mut dialler = None;
    // A forged ClientHello is answered by a cookie. With another forgery after the cookie they would multiply forever,
    // until there is no room for genuine datagrams.
    let is_cookie = |datagram: &[u8]| datagram.len() == 17 && datagram[0] == 2;
    let is_followed = |datagram: &[u8]| hostile.load(Ordering::Relaxed) && !is_cookie(datagram);
    let follow = |datagram: &[u8]| if is_followed(datagram) { forged(datagram) } else { Vec::new() };
    loop {
        tokio::select! {
            Ok((len, from)) = front.recv_from(&mut there) => {
                dialler = Some(from);
                for datagram in std::iter::once(there[..len].to_vec()).chain(follow(&there[..len])) {
                    back.send(&datagram).await.expect("room");
                }
            }
            Ok(len) = back.recv(&mut here) => {
                let Some(dialler) = dialler else { continue };
                for datagram in std::iter::once(here[..len].to_vec()).chain(follow(&here[..len])) {
                    front.send_to(&datagram, dialler).await.expect("room");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keyless_attacker_changes_nothing() {
    let world = TestWorld::new();
    let (mut hub, mut node) = (world.hub(Scheme::Udp).await, world.node("uav").await);
    let front = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let back = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    back.connect(hub.address().primary().expect("a host")).await.expect("a route");
    let at = Address::single(Scheme::Udp, front.local_addr().expect("its address"));
    let hostile = Arc::new(AtomicBool::new(false));
    let meddling = tokio::spawn(meddle(front, back, Arc::clone(&hostile)));
    node.dial(vec![at], RoleSet::ALL);
    let Event::Up { connection: at_node, .. } = node.next().await else { panic!("the dial failed") };
    let Event::Up { connection: at_hub, .. } = hub.next().await else { panic!("no connection came up") };
    hostile.store(true, Ordering::Relaxed);
    for index in 0..30u8 {
        for channel in [Channel::Datagram, RELIABLE] {
            node.send(at_node, channel, vec![index; 100]);
            assert_eq!(hub.message().await, (at_hub, vec![index; 100].into()));
            hub.send(at_hub, channel, vec![index; 100]);
            assert_eq!(node.message().await, (at_node, vec![index; 100].into()));
        }
    }
    assert!(hub.is_quiet().await && node.is_quiet().await);
    meddling.abort();
}

/// Carries datagrams between a node and a hub whose `Ready` is held, until the node has repeated its own. Then that one
/// and a large message reach the hub as one datagram.
async fn join(front: tokio::net::UdpSocket, back: tokio::net::UdpSocket) {
    const RECORD: u8 = 0x2f;
    let (mut there, mut here) = ([0; 2000], [0; 2000]);
    let (mut node, mut late, mut joined) = (None, Some(Vec::<Vec<u8>>::new()), Vec::new());
    loop {
        tokio::select! {
            Ok((len, from)) = front.recv_from(&mut there) => {
                node = Some(from);
                if there[0] != RECORD {
                    back.send(&there[..len]).await.expect("room");
                    continue;
                }
                joined.extend_from_slice(&there[..len]);
                for datagram in late.take().into_iter().flatten() {
                    front.send_to(&datagram, from).await.expect("room");
                }
                if len > 900 {
                    back.send(&joined).await.expect("room");
                    joined.clear();
                }
            }
            Ok(len) = back.recv(&mut here) => match &mut late {
                Some(late) if here[0] == RECORD => late.push(here[..len].to_vec()),
                _ => drop(front.send_to(&here[..len], node.expect("it spoke first")).await.expect("room")),
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_beside_a_late_greeting_arrives() {
    let world = TestWorld::new();
    let (mut hub, mut node) = (world.hub(Scheme::Udp).await, world.node("uav").await);
    let front = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let back = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    back.connect(hub.address().primary().expect("a host")).await.expect("a route");
    let at = Address::single(Scheme::Udp, front.local_addr().expect("its address"));
    let joining = tokio::spawn(join(front, back));
    node.dial(vec![at], RoleSet::ALL);
    let Event::Up { connection, .. } = node.next().await else { panic!("the dial failed") };
    let Event::Up { connection: there, .. } = hub.next().await else { panic!("no connection came up") };
    // Nothing repeats a lost datagram.
    node.send(connection, Channel::Datagram, vec![7; 1000]);
    assert_eq!(hub.message().await, (there, vec![7; 1000].into()));
    joining.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_hello_gets_only_a_cookie() {
    let world = TestWorld::new();
    let hub = world.hub(Scheme::Udp).await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    socket.send_to(&hello(1), hub.address().primary().expect("a host")).await.expect("room");
    let mut answer = [0; 2000];
    let (len, _) = socket.recv_from(&mut answer).await.expect("a cookie");
    assert_eq!((len, answer[0]), (17, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flooded_hub_requires_address_proof() {
    let world = TestWorld::new();
    let mut hub = world.hub_with(Scheme::Udp, Limits { handshakes: 8, ..Limits::default() }).await;
    knock(&hub.address(), 200);
    let mut node = world.node("uav").await;
    node.connect(&mut hub).await;
    let counters = hub.transport.counters();
    // Each gets a cookie of 17 bytes.
    assert!(counters.for_scheme(Scheme::Udp).datagrams_sent >= 190, "{counters:?}");
    assert_eq!(counters.for_scheme(Scheme::Udp).turned_away, 0);
}

/// Begins handshakes from `count` addresses, which it proves, and stays silent after that.
fn linger(at: &Address, count: u8) -> Vec<UdpSocket> {
    let proved = |index| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(at.primary().expect("a host")).expect("a route");
        socket.send(&hello(index)).expect("room");
        let mut answer = [0; 2000];
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
        if matches!(socket.recv(&mut answer), Ok(17)) {
            // Byte 1 says that a cookie stands before the ClientHello.
            let datagram = [&[1], &answer[1..17], &hello(index)[..]].concat();
            socket.send(&datagram).expect("room");
        }
        socket
    };
    (0..count).map(proved).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_connect_past_proved_flood() {
    let world = TestWorld::new();
    let mut hub = world.hub_with(Scheme::Udp, Limits { handshakes: 8, ..Limits::default() }).await;
    let address = hub.address();
    let _crowd = tokio::task::spawn_blocking(move || linger(&address, 30)).await.expect("the crowd");
    let mut node = world.node("uav").await;
    node.connect(&mut hub).await;
    assert!(hub.transport.counters().for_scheme(Scheme::Udp).turned_away > 0);
}
