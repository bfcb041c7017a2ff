//! A host that floods a listener of `udp://` with handshakes, and others that connect meanwhile.
#![allow(clippy::expect_used, reason = "every test here is a test, its helpers too")]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use roost_transport::{Event, Limits};
use roost_wait::beats;
use roost_wire::{Address, Role, Scheme};
use support::{Node, TestWorld, until};

/// The first datagram of a handshake, as much of it as can be made without a key.
fn hello(random: u32) -> Vec<u8> {
    let mut datagram = vec![7; 120];
    datagram[..13].copy_from_slice(&[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 107]);
    datagram[13..27].copy_from_slice(&[1, 0, 0, 95, 0, 0, 0, 0, 0, 0, 0, 95, 0xfe, 0xfd]);
    datagram[27..31].copy_from_slice(&random.to_be_bytes());
    datagram
}

/// A socket of 127.0.0.1, with the cookie that proves its address.
fn proved(at: SocketAddr) -> (UdpSocket, [u8; 16]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(at).expect("a route");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    socket.send(&hello(0)).expect("room");
    let mut answer = [0; 2000];
    assert_eq!(socket.recv(&mut answer).expect("a cookie"), 17);
    let mut cookie = [0; 16];
    cookie.copy_from_slice(&answer[1..17]);
    (socket, cookie)
}

/// Begins far more handshakes than are admitted, from one host, until `ends` is set.
fn flood(at: &Address, ends: &AtomicBool) {
    let at = at.primary().expect("a host");
    let sockets: Vec<_> = (0..100).map(|_| proved(at)).collect();
    let mut random = 0;
    for _ in beats(Duration::from_millis(2)).take_while(|_| !ends.load(Ordering::Relaxed)) {
        for (socket, cookie) in &sockets {
            random += 1;
            // Byte 1 says that a cookie stands before the ClientHello.
            let _ = socket.send(&[&[1], &cookie[..], &hello(random)].concat());
        }
    }
}

/// Ends the flood with the test, even if it fails.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flooding_host_excludes_no_other() {
    let world = TestWorld::new();
    let limits = Limits { handshakes: 64, handshakes_per_second: 64, ..Limits::default() };
    let mut hub = world.hub_with(Scheme::Udp, limits).await;
    let (address, ends) = (hub.address(), Arc::<AtomicBool>::default());
    let told = Arc::clone(&ends);
    let _flooding = (Ends(ends), std::thread::spawn(move || flood(&address, &told)));
    let turned_away = || hub.transport.counters().for_scheme(Scheme::Udp).turned_away;
    until("a crowd is turned away", || turned_away() >= 1000).await;
    for host in 2..=9 {
        let identity = world.member(&format!("uav{host}"), Role::Node);
        let listen = format!("udp://127.0.0.{host}:0");
        let mut node = Node::start(identity, None, &[&listen], Limits::default()).await;
        let began = Instant::now();
        node.dial(vec![hub.address()], roost_wire::RoleSet::ALL);
        let Event::Up { .. } = node.next().await else { panic!("the dial failed") };
        let Event::Up { address, .. } = hub.next().await else { panic!("no connection came up") };
        assert_eq!(address.primary().map(|at| at.ip().to_string()), Some(format!("127.0.0.{host}")));
        assert!(began.elapsed() < Duration::from_secs(1), "host {host} waited {:?}", began.elapsed());
    }
}
