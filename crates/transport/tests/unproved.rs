//! Hosts that have not proved their address: limits on the bytes that they get.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod support;

use std::time::Duration;

use roost_transport::Event;
use roost_wire::{Address, RoleSet, Scheme};
use support::TestWorld;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// By then a hub has repeated unanswered packets.
const REPEATED: Duration = Duration::from_secs(5);

/// The time in which all packets of a first flight arrive.
const FLIGHT: Duration = Duration::from_millis(50);

/// The bytes that a hub sends to a host from which one first flight came, for each byte of that flight.
async fn share(scheme: Scheme) -> f64 {
    let world = TestWorld::new();
    let (hub, mut node) = (world.hub(scheme).await, world.node("uav").await);
    let listener = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    node.dial(vec![Address::single(scheme, listener.local_addr().unwrap())], RoleSet::ALL);
    let (mut packet, mut flight) = ([0; 2048], Vec::new());
    let mut patience = REPEATED;
    while let Ok(Ok((length, _))) = timeout(patience, listener.recv_from(&mut packet)).await {
        flight.push(packet[..length].to_vec());
        patience = FLIGHT;
    }

    let victim = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = hub.address();
    for packet in &flight {
        victim.send_to(packet, (at.hosts[0], at.port)).await.unwrap();
    }
    let (mut come, sent) = (0, flight.iter().map(Vec::len).sum::<usize>());
    while let Ok(Ok((more, _))) = timeout(REPEATED, victim.recv_from(&mut packet)).await {
        come += more;
    }
    assert!(come > 0, "{scheme}: the hub answers a first flight of {sent} bytes");
    come as f64 / sent as f64
}

/// The source of a packet is easily forged. QUIC's library begins its last packet while a single byte of the three
/// times that RFC 9000, section 8.1, allows is left.
#[tokio::test]
async fn unproved_host_gets_threefold_at_most() {
    for (scheme, most) in [(Scheme::Udp, 3.0), (Scheme::Quic, 3.2)] {
        let share = share(scheme).await;
        println!("{scheme}: {share:.2} × what came");
        assert!(share <= most, "{scheme}: {share:.2} × what came");
    }
}

/// The kernel sends to the broadcast address of a subnet only for sockets that have asked for it.
#[tokio::test]
async fn a_subnets_broadcast_is_not_dialled() {
    let world = TestWorld::new();
    let everybody = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    let port = everybody.local_addr().unwrap().port();
    let mut node = world.node("uav").await;
    for scheme in [Scheme::Udp, Scheme::Quic] {
        node.dial(vec![Address::single(scheme, ([127, 255, 255, 255], port).into())], RoleSet::ALL);
    }
    for _ in 0..2 {
        let ended = timeout(Duration::from_secs(30), node.next()).await.unwrap();
        assert!(matches!(ended, Event::DialFailed { .. }), "{ended:?}");
    }
    // The first packet that arrives there is one from a socket that may broadcast.
    let mut packet = [0; 2048];
    let announcer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    announcer.set_broadcast(true).unwrap();
    announcer.send_to(b"here", ("127.255.255.255", port)).await.unwrap();
    let (length, _) = everybody.recv_from(&mut packet).await.unwrap();
    assert_eq!(&packet[..length], b"here");
}
