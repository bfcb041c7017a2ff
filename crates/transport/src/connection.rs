//! What is known about a connection, and where it is kept.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use roost_identity::CertificateStatus;
use roost_proto::machine::RemoteIdentity;
use roost_proto::{Address, ConnectionId, DialId, Scheme};

use crate::event::{Event, EventSource};
use crate::quic::QuicConnection;
use crate::tcp::TcpConnection;
use crate::udp;

/// A connection as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number.
    pub connection: ConnectionId,
    /// Who is there.
    pub remote: RemoteIdentity,
    /// The address the peer is seen at.
    pub address: Address,
    /// The transport.
    pub scheme: Scheme,
    /// Whether we dialled.
    pub dialled: bool,
    /// Round trip: of the handshake, or smoothed where later traffic measured it.
    pub rtt: Duration,
    /// Since when.
    pub since: SystemTime,
    /// Bytes handed to the socket for this connection (UDP payloads; TCP bytes with TLS).
    pub bytes_sent: u64,
    /// Bytes that came from the socket for this connection.
    pub bytes_received: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages delivered.
    pub messages_received: u64,
    /// Packets sent again because they were taken for lost. Zero for TCP, where
    /// the system keeps that to itself.
    pub retransmissions: u64,
    /// Messages given up because their time was over; over QUIC only.
    pub given_up: u64,
    /// Pieces of messages that came twice, by different paths, and were dropped.
    pub duplicates: u64,
    /// Its paths, in the order of preference; none for TCP and UDP, which have one.
    pub paths: Vec<PathInfo>,
}

/// One path of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Our address, where the system tells it.
    pub local: Option<IpAddr>,
    /// The peer's.
    pub remote: SocketAddr,
    /// Whether it answers.
    pub answers: bool,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Bytes per second that it was seen to carry; none before the first.
    pub rate: Option<u64>,
    /// Bytes that are under way on it.
    pub outstanding: u64,
    /// Bytes handed to the socket.
    pub bytes_sent: u64,
    /// Bytes that came from the socket.
    pub bytes_received: u64,
    /// Packets that were lost, and their content sent again.
    pub retransmissions: u64,
    /// Chunks sent on it because they were late elsewhere.
    pub repeated: u64,
    /// How often it stopped answering.
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
    /// Adds to one of the counts.
    pub(crate) fn add(count: &AtomicU64, by: u64) {
        count.fetch_add(by, Ordering::Relaxed);
    }

    /// Reads one of the counts.
    pub(crate) fn get(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }
}

/// A peer that the policy lets pass.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedRemote {
    pub(crate) remote: RemoteIdentity,
    pub(crate) standing: CertificateStatus,
}

/// What never changes in a connection's life.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionIdentity {
    pub(crate) connection: ConnectionId,
    pub(crate) remote: RemoteIdentity,
    pub(crate) standing: CertificateStatus,
    pub(crate) address: Address,
    pub(crate) dialled: bool,
    pub(crate) rtt: Duration,
    pub(crate) since: SystemTime,
}

impl ConnectionIdentity {
    /// The lane of what comes from there.
    pub(crate) fn sender(&self) -> EventSource {
        EventSource::Node(self.remote.node)
    }

    /// The event that makes the connection known.
    pub(crate) fn up(&self, dial: Option<DialId>) -> Event {
        let Self { connection, remote: peer, address, rtt, .. } = self;
        Event::Up { connection: *connection, dial, remote: peer.clone(), address: address.clone(), rtt: *rtt }
    }

    /// The description of a connection without any traffic.
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
            given_up: 0,
            duplicates: 0,
            paths: Vec::new(),
        }
    }
}

/// The address of a peer that is seen at `socket`; an IPv4 peer of an IPv6
/// socket has its IPv4 address.
pub(crate) fn seen_at(scheme: Scheme, socket: SocketAddr) -> Address {
    Address::single(scheme, SocketAddr::new(socket.ip().to_canonical(), socket.port()))
}

/// Who carries a connection.
#[derive(Clone)]
pub(crate) enum AnyConnection {
    Udp(Arc<udp::Endpoint>, udp::SessionSlot),
    Tcp(Arc<TcpConnection>),
    Quic(Arc<QuicConnection>),
}

/// Every connection that is up, by its number. At most [`crate::Limits::connections`],
/// plus those that we dialled.
#[derive(Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    /// Connections that came and went.
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

    /// Whether the connection was there.
    pub(crate) fn remove(&self, connection: ConnectionId) -> bool {
        let was_there = self.connections.write().unwrap_or_else(PoisonError::into_inner).remove(&connection).is_some();
        self.changes.fetch_add(u64::from(was_there), Ordering::Relaxed);
        was_there
    }

    /// The number of connections that came and went.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, connection: ConnectionId) -> Option<AnyConnection> {
        self.connections.read().unwrap_or_else(PoisonError::into_inner).get(&connection).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All of them, by number.
    pub(crate) fn all(&self) -> Vec<(ConnectionId, AnyConnection)> {
        let connections = self.connections.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = connections.iter().map(|(connection, carrier)| (*connection, carrier.clone())).collect();
        all.sort_unstable_by_key(|(connection, _)| *connection);
        all
    }
}
