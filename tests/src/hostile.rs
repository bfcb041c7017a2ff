//! A small network for attacks on reflected streams, and sockets of strangers in it.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use roost_reflection::Header;
use roost_wait::{all_read, wait_until};

use crate::adversary::Adversary;
use crate::network::{Client, Daemon, Network, PATIENCE};
use crate::streams::Watcher;

/// The most growth of an attacked super node's memory, KiB: a stream's cache, and its threads' buffers.
const GROWTH_KIB: u64 = 32 * 1024;
/// Datagrams that fit the smallest buffer of a socket.
pub const SALVO: usize = 16;

/// A super node, a provider of the video at 5,5, and nodes.
pub struct HostileSetup {
    pub network: Network,
    pub hub: Daemon,
    /// The provider, of a track as well.
    pub provider: Daemon,
    pub nodes: Vec<Daemon>,
    address: SocketAddr,
    memory_kib: u64,
}

impl HostileSetup {
    /// Starts the daemons, without subscribers.
    pub fn new(nodes: &[&str]) -> Self {
        let network = Network::new();
        let hub = network.supernode("sn1", &[]);
        let endpoint = hub.endpoint("udp");
        let provider = network.node("p", "5,5", &["--super", &endpoint, "--services", "video,track"]);
        let nodes = nodes.iter().map(|name| network.node(name, "1,1", &["--super", &endpoint])).collect();
        let address = endpoint.strip_prefix("udp://").and_then(|at| at.parse().ok()).expect("an address");
        let memory_kib = hub.process.resident_kib();
        Self { network, hub, provider, nodes, address, memory_kib }
    }

    /// A member at the super node that sends any message.
    ///
    /// # Panics
    /// Panics if the super node does not admit it.
    pub fn liar(&self) -> Adversary {
        Adversary::at(&self.network.identity("liar", "node"), self.address)
    }

    /// Waits until the super node has read all that came.
    ///
    /// # Panics
    /// Panics if it does not within [`PATIENCE`].
    pub fn await_hub(&self) {
        await_reader(self.address);
    }

    /// Subscribes a node to the video until it is told to end.
    pub fn watch(&self, node: usize) -> Watcher {
        Watcher::endless(&self.network, &self.nodes[node], &format!("file-{node}"))
    }

    /// Subscribes a node to the video for a time.
    pub fn watch_for(&self, node: usize, length: &str) -> Watcher {
        Watcher::start(&self.network, &self.nodes[node], &format!("file-{node}"), "subscribe", length)
    }

    /// Checks that the daemons that still run are well, and that the super node has not grown much.
    ///
    /// # Panics
    /// Panics if that is not so.
    pub fn stands(&self) {
        let grown = self.hub.process.resident_kib().saturating_sub(self.memory_kib);
        assert!(grown < GROWTH_KIB, "{grown} KiB more");
        let all = self.nodes.iter().chain([&self.hub, &self.provider]);
        for daemon in all.filter(|daemon| daemon.process.is_running()) {
            assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
            assert!(daemon.metric("roost_media_up", "") > 0.0, "{}", daemon.log());
        }
    }
}

/// The media address of a daemon.
///
/// # Panics
/// Panics if it has none.
pub fn media(daemon: &Client) -> SocketAddr {
    daemon.json(&["streams"])["media"].as_str().and_then(|at| at.parse().ok()).expect("it has a relay")
}

/// Kills a daemon and takes its media address.
///
/// # Panics
/// Panics if the system does not give the address.
pub fn take_over(daemon: &mut Daemon) -> UdpSocket {
    let address = media(daemon);
    daemon.process.kill();
    UdpSocket::bind(address).expect("the address is free")
}

/// The datagrams that a daemon's relay has rejected, for a reason or, if that is empty, any.
pub fn rejected(daemon: &Client, reason: &str) -> f64 {
    daemon.metric("roost_media_rejected_total", reason)
}

/// Sends datagrams no faster than they are read.
///
/// # Panics
/// Panics if the system refuses one.
pub fn send_all(from: &UdpSocket, datagrams: &[Vec<u8>], to: SocketAddr) {
    for some in datagrams.chunks(SALVO) {
        for datagram in some {
            from.send_to(datagram, to).expect("it is sent");
        }
        await_reader(to);
    }
}

/// Waits until the owner of an address of this host has read all datagrams that came there.
///
/// # Panics
/// Panics if it does not within [`PATIENCE`].
pub fn await_reader(of: SocketAddr) {
    assert!(wait_until(PATIENCE, || all_read(of.port()).then_some(())).is_some(), "{of} is not read");
}

/// The datagrams that come to a socket within `time`.
///
/// # Panics
/// Panics if the system sets no time-out.
pub fn captured(socket: &UdpSocket, time: Duration) -> Vec<Vec<u8>> {
    let (end, mut buffer, mut all) = (Instant::now() + time, [0; 2000], Vec::new());
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    while Instant::now() < end {
        if let Ok(length) = socket.recv(&mut buffer) {
            all.push(buffer[..length].to_vec());
        }
    }
    all
}

pub fn packets_of(datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    datagrams.iter().filter(|datagram| Header::decode(datagram).is_ok()).cloned().collect()
}
