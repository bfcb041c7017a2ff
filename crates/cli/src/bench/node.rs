//! A node of a bench: an identity, a transport, a connection to the hub.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_identity::group::Group;
use roost_identity::{Identity, KeyExchange, Policy};
use roost_transport::{Config, Event, Events, Limits, Transport, bind};
use roost_wire::messages::{Hello, Message, ProbeMessage, RegistrationMessage, Renew};
use roost_wire::{
    Address, Capacity, Cell, Channel, ConnectionId, DialId, Endpoint, NodeId, Record, Role, RoleSet, Scheme, Service,
    ServiceSet, Version,
};

use crate::failure::{Code, Failure, Outcome};

/// The longest wait for a handshake, or for an answer that must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

const FAREWELL: Duration = Duration::from_millis(100);

/// The time after which a message without an answer is sent again.
pub(super) const RETRY: Duration = Duration::from_millis(300);

/// Events taken from the transport at once.
const BATCH: usize = 256;

/// The four services of each node, of which the last one is an object.
pub(super) type BenchServices = [Service; 4];

pub(super) struct NodeFactory {
    group: Group,
    hub: Address,
    key_exchange: KeyExchange,
    services: BenchServices,
    made: AtomicU64,
    /// The start of the bench, Unix seconds, which distinguishes its records and cells from those of other benches.
    pub(super) epoch: u32,
}

pub(super) struct BenchNode {
    pub(super) id: NodeId,
    pub(super) identity: Arc<Identity>,
    pub(super) transport: Transport,
    pub(super) hub: ConnectionId,
    pub(super) version: Version,
    pub(super) services: BenchServices,
    events: Events,
    inbox: VecDeque<Event>,
    taken: Vec<Event>,
    scheme: Scheme,
}

impl NodeFactory {
    pub(super) fn new(group: Group, hub: Address, key_exchange: KeyExchange, services: BenchServices) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        Self { group, hub, key_exchange, services, made: AtomicU64::new(0), epoch }
    }

    /// Makes a node and attaches it. A node that listens at a host dials the hub from there, too.
    pub(super) async fn attach(&self, host: Option<String>) -> Outcome<BenchNode> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let identity = self.group.issue_in_memory(&format!("bench-{number}"), Role::Node)?;
        self.attach_as(Arc::new(identity), host).await
    }

    /// Attaches a node with a given identity.
    pub(super) async fn attach_as(&self, identity: Arc<Identity>, host: Option<String>) -> Outcome<BenchNode> {
        let policy = Policy::new(&identity).map_err(|error| Failure::failed(error.to_string()))?;
        let id = identity.node();
        let scheme = self.hub.scheme;
        let listen =
            host.map(|host| Endpoint { scheme, hosts: vec![host], port: 0, congestion: None }).into_iter().collect();
        let limits = Limits::default();
        let admit = RoleSet::only(Role::Node);
        let config =
            Config { identity: Arc::clone(&identity), policy, key_exchange: self.key_exchange, listen, admit, limits };
        let (transport, events) = bind(config).await.map_err(|error| Failure::failed(error.to_string()))?;
        let version = Version { epoch: self.epoch, sequence: 1 };
        let (inbox, taken) = (VecDeque::new(), Vec::with_capacity(BATCH));
        let mut node = BenchNode {
            id,
            identity,
            transport,
            hub: ConnectionId(0),
            version,
            services: self.services,
            events,
            inbox,
            taken,
            scheme,
        };
        let hubs = RoleSet::only(Role::SuperNode).with(Role::Server);
        node.hub = node.dial(self.hub.clone(), hubs).await?;
        Ok(node)
    }

    /// The address on which a node listens: the one from which this machine reaches the hub.
    pub(super) fn host(&self) -> Outcome<String> {
        let hub = self.hub.primary().ok_or_else(|| Failure::failed("the hub has no address"))?;
        let any: IpAddr = if hub.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // Connecting a UDP socket sends nothing; it makes the system choose the way.
        let way = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(hub).and_then(|()| socket.local_addr()));
        let way = way.map_err(|error| Failure::new(Code::Unreachable, format!("there is no way to {hub}: {error}")))?;
        Ok(way.ip().to_string())
    }

    /// A loopback address for the node with this number alone, so that no later node has the same address and port;
    /// only for a hub on this machine.
    pub(super) fn lonely_host(&self, number: u32) -> Option<String> {
        let [_, high, middle, low] = number.to_be_bytes();
        self.hub_is_local().then(|| format!("127.{}.{middle}.{low}", high.saturating_add(1)))
    }

    fn hub_is_local(&self) -> bool {
        self.hub.hosts.first().is_some_and(|host| host.is_ipv4() && host.is_loopback())
    }
}

impl BenchNode {
    /// Dials a remote and returns the connection.
    pub(super) async fn dial(&mut self, address: Address, expect: RoleSet) -> Outcome<ConnectionId> {
        let shown = address.to_string();
        self.transport.dial(DialId(1), vec![address], expect, None);
        let end = Instant::now() + PATIENCE;
        while let Some(event) = self.next(end).await {
            match event {
                Event::Up { connection, dial: Some(_), .. } => {
                    let hello = Message::Probe(ProbeMessage::Hello(Hello::OWN)).encode();
                    // A connection that has gone shows by its silence.
                    let _ = self.transport.send(connection, Channel::Reliable { flow: 0 }, hello);
                    return Ok(connection);
                }
                Event::DialFailed { reason, .. } => {
                    return Err(Failure::new(Code::Unreachable, format!("cannot reach {shown}: {reason}")));
                }
                other => self.inbox.push_back(other),
            }
        }
        Err(Failure::new(Code::TimedOut, format!("{shown} did not answer within {} s", PATIENCE.as_secs())))
    }

    /// Returns the next event; `None` when `end` has come.
    pub(super) async fn next(&mut self, end: Instant) -> Option<Event> {
        if let Some(event) = self.inbox.pop_front() {
            return Some(event);
        }
        let wait = self.events.recv_many(&mut self.taken, BATCH);
        tokio::time::timeout_at(end.into(), wait).await.ok()?;
        self.inbox.extend(self.taken.drain(..));
        self.inbox.pop_front()
    }

    /// True if an event is at hand without waiting.
    pub(super) fn has_more(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Returns the next message of any connection; `None` when `end` has come.
    pub(super) async fn message(&mut self, end: Instant) -> Option<(ConnectionId, Message)> {
        while let Some(event) = self.next(end).await {
            if let Event::Message { connection, message } = event
                && let Ok(message) = Message::decode(&message)
                && !matches!(message, Message::Probe(ProbeMessage::Hello(_)))
            {
                return Some((connection, message));
            }
        }
        None
    }

    pub(super) fn send(&self, connection: ConnectionId, message: &Message) {
        // A connection that has gone shows by its silence.
        let _ = self.transport.send(connection, Channel::Datagram, message.encode());
    }

    /// Publishes all services of a node of the bench.
    pub(super) async fn publish_all(&mut self, cell: Cell) -> Outcome {
        self.publish(cell, self.services.into_iter().collect()).await
    }

    /// Publishes a record until the hub confirms it.
    pub(super) async fn publish(&mut self, cell: Cell, services: ServiceSet) -> Outcome {
        let record = Record {
            node: self.id,
            version: self.version,
            cell,
            services,
            capacity: Capacity { streams: 100, uplink_kbps: 1_000_000 },
            addresses: self.addresses(),
            position: None,
            orbit: None,
        };
        let publish = Message::Registration(RegistrationMessage::Publish(record));
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            self.send(self.hub, &publish);
            self.transport.flush();
            let mut retry = Instant::now() + RETRY;
            while let Some((_, message)) = self.message(retry).await {
                match message {
                    Message::Registration(RegistrationMessage::Lease { version, .. }) if version == self.version => {
                        return Ok(());
                    }
                    Message::Registration(RegistrationMessage::RetryAfter(after_ms)) => {
                        retry = Instant::now() + Duration::from_millis(after_ms.into())
                    }
                    _ => {}
                }
            }
        }
        Err(Failure::new(Code::TimedOut, "the hub did not confirm a record: it is overloaded or refuses it"))
    }

    /// The node's endpoints; for a node that does not listen, the usual ones of a record.
    fn addresses(&self) -> Vec<Address> {
        let local = self.transport.local_addresses();
        if !local.is_empty() {
            return local.to_vec();
        }
        let unspecified = |scheme| Address { scheme, port: 7702, hosts: vec![[0, 0, 0, 0].into()] };
        Scheme::ALL.map(unspecified).to_vec()
    }

    /// Renews the lease.
    pub(super) fn renew(&self) {
        self.send(
            self.hub,
            &Message::Registration(RegistrationMessage::Renew(Renew { version: self.version, capacity: None })),
        );
        self.transport.flush();
    }

    /// Withdraws the record and ends all connections.
    pub(super) async fn leave(self) {
        self.send(self.hub, &Message::Registration(RegistrationMessage::Withdraw(self.version)));
        self.transport.flush();
        self.transport.clone().shutdown(FAREWELL).await;
    }

    pub(super) const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Bytes sent and received on the wire.
    pub(super) fn bytes(&self) -> u64 {
        wire_bytes(&self.transport, self.scheme)
    }
}

/// Bytes that a transport's sockets of one scheme have sent and received on the wire, with the headers of IPv4 and UDP.
/// Those of TCP are the system's own and are not counted.
pub(super) fn wire_bytes(transport: &Transport, scheme: Scheme) -> u64 {
    let counters = transport.counters();
    let of = counters.for_scheme(scheme);
    of.bytes_sent + of.bytes_received + header_bytes(scheme) * (of.datagrams_sent + of.datagrams_received)
}

/// The bytes that IPv4 (20, RFC 791) and UDP (8, RFC 768) add to a datagram.
pub(super) const fn header_bytes(scheme: Scheme) -> u64 {
    match scheme {
        Scheme::Udp | Scheme::Quic => 28,
        Scheme::Tcp => 0,
    }
}
