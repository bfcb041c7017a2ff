//! The identity and counts of a connection, and the registry of all connections.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use roost_identity::CertificateStatus;
use roost_wire::{Address, ConnectionId, DialId, RemoteIdentity, Scheme};

use crate::event::{Event, EventSource};
use crate::quic::QuicConnection;
use crate::tcp::TcpConnection;
use crate::udp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    pub connection: ConnectionId,
    pub remote: RemoteIdentity,
    /// The address at which the remote is seen.
    pub address: Address,
    pub scheme: Scheme,
    pub dialled: bool,
    /// Round trip: of the handshake, or smoothed where later traffic measured it.
    pub rtt: Duration,
    /// The time at which the connection came up.
    pub since: SystemTime,
    /// Bytes handed to the socket for this connection: UDP payloads, or TCP bytes with TLS.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    /// Packets sent again because they were taken for lost. Zero for TCP, where the kernel keeps this count.
    pub retransmissions: u64,
    /// Packets sent that the remote acknowledges, of which `retransmissions` were taken for lost. `None` for TCP.
    pub packets_sent: Option<u64>,
    pub certificate_not_after: SystemTime,
    /// Messages given up because their lifetime had ended. Only QUIC gives up messages.
    pub given_up: u64,
    /// Chunks of messages that arrived twice, by different paths, and were dropped.
    pub duplicates: u64,
    /// The paths in order of preference. Empty for TCP and UDP, which have a single path.
    pub paths: Vec<PathInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Our address, if the system reports it.
    pub local: Option<IpAddr>,
    pub remote: SocketAddr,
    pub answers: bool,
    pub rtt: Duration,
    /// Bytes per second that the path was seen to carry; `None` before the first measurement.
    pub rate: Option<u64>,
    /// Bytes sent on the path and not acknowledged yet.
    pub outstanding: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub packets_sent: u64,
    /// Packets that were lost, so that their content was sent again.
    pub retransmissions: u64,
    /// Chunks sent on this path because they were late on another.
    pub repeated: u64,
    /// The number of times that the path stopped answering.
    pub losses: u64,
}

/// The counts of one connection that has tasks of its own.
#[derive(Debug, Default)]
pub(crate) struct LiveConnectionCounters {
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) messages_sent: AtomicU64,
    pub(crate) messages_received: AtomicU64,
}

impl LiveConnectionCounters {
    pub(crate) fn add(count: &AtomicU64, by: u64) {
        count.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn get(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }
}

/// A remote that the policy has accepted.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedRemote {
    pub(crate) remote: RemoteIdentity,
    pub(crate) certificate_status: CertificateStatus,
}

/// The properties of a connection that never change.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionIdentity {
    pub(crate) connection: ConnectionId,
    pub(crate) remote: RemoteIdentity,
    pub(crate) certificate_status: CertificateStatus,
    pub(crate) address: Address,
    pub(crate) dialled: bool,
    pub(crate) rtt: Duration,
    pub(crate) since: SystemTime,
}

impl ConnectionIdentity {
    /// The remote's lane in the event queue.
    pub(crate) fn sender(&self) -> EventSource {
        EventSource::Node(self.remote.node)
    }

    pub(crate) fn up(&self, dial: Option<DialId>) -> Event {
        let Self { connection, remote, address, rtt, .. } = self;
        Event::Up { connection: *connection, dial, remote: remote.clone(), address: address.clone(), rtt: *rtt }
    }

    /// The connection's description, with all counts at zero.
    pub(crate) fn describe(&self, rtt: Duration) -> ConnectionInfo {
        ConnectionInfo {
            connection: self.connection,
            remote: self.remote.clone(),
            address: self.address.clone(),
            scheme: self.address.scheme,
            dialled: self.dialled,
            rtt,
            since: self.since,
            bytes_sent: 0,
            bytes_received: 0,
            messages_sent: 0,
            messages_received: 0,
            retransmissions: 0,
            packets_sent: None,
            certificate_not_after: self.certificate_status.not_after(),
            given_up: 0,
            duplicates: 0,
            paths: Vec::new(),
        }
    }
}

/// The address of a remote that is seen at `socket`. An IPv4 remote has its IPv4 address even if the socket is of IPv6.
pub(crate) fn seen_at(scheme: Scheme, socket: SocketAddr) -> Address {
    Address::single(scheme, SocketAddr::new(socket.ip().to_canonical(), socket.port()))
}

#[derive(Clone)]
pub(crate) enum AnyConnection {
    Udp(Arc<udp::UdpEndpoint>, udp::SessionSlot),
    Tcp(Arc<TcpConnection>),
    Quic(Arc<QuicConnection>),
}

/// Every connection that is up, by its number. At most [`crate::Limits::connections`], plus those that we dialed.
#[derive(Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    /// Counts both the connections that came up and those that ended.
    changes: AtomicU64,
    connections: RwLock<HashMap<ConnectionId, AnyConnection>>,
}

impl Registry {
    /// A number that no connection has had.
    pub(crate) fn allocate(&self) -> ConnectionId {
        ConnectionId(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn insert(&self, connection: ConnectionId, carrier: AnyConnection) {
        self.connections.write().unwrap_or_else(PoisonError::into_inner).insert(connection, carrier);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the connection was there.
    pub(crate) fn remove(&self, connection: ConnectionId) -> bool {
        let was_there = self.connections.write().unwrap_or_else(PoisonError::into_inner).remove(&connection).is_some();
        self.changes.fetch_add(u64::from(was_there), Ordering::Relaxed);
        was_there
    }

    /// The number of connections that came up or ended, so that a caller notices changes cheaply.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, connection: ConnectionId) -> Option<AnyConnection> {
        self.connections.read().unwrap_or_else(PoisonError::into_inner).get(&connection).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All connections in order of their numbers.
    pub(crate) fn all(&self) -> Vec<(ConnectionId, AnyConnection)> {
        let connections = self.connections.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = connections.iter().map(|(connection, carrier)| (*connection, carrier.clone())).collect();
        all.sort_unstable_by_key(|(connection, _)| *connection);
        all
    }
}
