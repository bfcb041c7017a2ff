//! The hybrid and the classic key exchange: members with either meet, and the larger first flight costs bytes alone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_identity::{KeyExchange, Policy};
use roost_transport::{Config, Event, Limits};
use roost_wire::{Address, Role, RoleSet, Scheme};
use support::{Node, RELIABLE, TestWorld};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

const BOTH: [KeyExchange; 2] = [KeyExchange::Hybrid, KeyExchange::Classic];

/// One way of [`delayed`], far above the time of the handshake's computations in a debug build.
const DELAY: Duration = Duration::from_millis(200);

async fn member(world: &TestWorld, role: Role, key_exchange: KeyExchange, listen: &[&str]) -> Node {
    let identity = world.member(role.name(), role);
    let policy = Policy::new(&identity).unwrap();
    let listen = listen.iter().map(|text| text.parse().unwrap()).collect();
    let limits = Limits::default();
    Node::start_with(Config { identity, policy, key_exchange, listen, admit: RoleSet::ALL, limits }).await
}

async fn hub(world: &TestWorld, scheme: Scheme, key_exchange: KeyExchange) -> Node {
    member(world, Role::SuperNode, key_exchange, &[&format!("{scheme}://127.0.0.1:0")]).await
}

#[tokio::test]
async fn different_exchanges_connect() {
    let world = TestWorld::new();
    for (ours, theirs) in BOTH.into_iter().flat_map(|ours| BOTH.map(|theirs| (ours, theirs))) {
        for scheme in [Scheme::Udp, Scheme::Tcp, Scheme::Quic] {
            let mut hub = hub(&world, scheme, theirs).await;
            let mut node = member(&world, Role::Node, ours, &[]).await;
            let (connection, _) = node.connect(&mut hub).await;
            node.send(connection, RELIABLE, "hello");
            assert_eq!(hub.message().await.1, "hello", "{scheme}: {ours:?} dials {theirs:?}");
        }
    }
}

/// An address before a UDP socket, with [`DELAY`] in both directions.
async fn delayed(to: SocketAddr) -> SocketAddr {
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    far.connect(to).await.unwrap();
    let at = near.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut there, mut here, mut node) = ([0; 2000], [0; 2000], None);
        loop {
            tokio::select! {
                Ok((length, from)) = near.recv_from(&mut there) => {
                    node = Some(from);
                    let (far, packet) = (Arc::clone(&far), there[..length].to_vec());
                    tokio::spawn(async move { sleep(DELAY).await; far.send(&packet).await });
                }
                Ok(length) = far.recv(&mut here) => {
                    let (near, packet) = (Arc::clone(&near), here[..length].to_vec());
                    let Some(node) = node else { continue };
                    tokio::spawn(async move { sleep(DELAY).await; near.send_to(&packet, node).await });
                }
            }
        }
    });
    at
}

/// The round trips of a dial over QUIC, on a path whose delay decides.
async fn dial_round_trips(key_exchange: KeyExchange) -> f64 {
    let world = TestWorld::new();
    let hub = hub(&world, Scheme::Quic, key_exchange).await;
    let mut node = member(&world, Role::Node, key_exchange, &[]).await;
    let at = delayed(hub.address().primary().unwrap()).await;
    let begun = Instant::now();
    node.dial(vec![Address::single(Scheme::Quic, at)], RoleSet::ALL);
    let up = node.next().await;
    assert!(matches!(up, Event::Up { .. }), "{up:?}");
    begun.elapsed().as_secs_f64() / (2.0 * DELAY.as_secs_f64())
}

/// The hybrid ClientHello fills two packets, which leave together. The listener may answer as much as before.
#[tokio::test]
async fn hybrid_dial_takes_no_more_round_trips() {
    for key_exchange in BOTH {
        let trips = dial_round_trips(key_exchange).await;
        println!("{key_exchange:?}: {trips:.2} round trips");
        assert!(trips < 2.5, "{key_exchange:?}: {trips:.2} round trips");
    }
}

/// The most bytes of a dial in vain. `address_filter` of the core counts with as many.
const MOST_IN_VAIN: usize = 15_600;

#[tokio::test]
async fn silent_host_gets_limited_bytes() {
    for key_exchange in BOTH {
        let world = TestWorld::new();
        let mut node = member(&world, Role::Node, key_exchange, &[]).await;
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        node.dial(vec![Address::single(Scheme::Quic, silent.local_addr().unwrap())], RoleSet::ALL);
        let (mut come, mut packet) = (0, [0; 2048]);
        while let Ok(Ok((length, _))) = timeout(Duration::from_secs(9), silent.recv_from(&mut packet)).await {
            come += length;
        }
        println!("{key_exchange:?}: {come} bytes");
        assert!(come <= MOST_IN_VAIN, "{key_exchange:?}: {come} bytes");
    }
}
