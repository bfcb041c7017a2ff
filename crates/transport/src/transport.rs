//! The application's handle, and the state that all transports share.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use roost_identity::{CertificateStatus, GroupKey, Identity, KeyExchange, Policy, Side};
use roost_wire::messages::MAX_MESSAGE_BYTES;
use roost_wire::{
    Address, Channel, Congestion, ConnectionId, Delivery, DialId, Endpoint, NodeId, RoleSet, Scheme, printable,
};
use tokio::net::lookup_host;

use crate::config::{Config, Limits};
use crate::connection::{AnyConnection, ConnectionInfo, Registry};
use crate::counters::Counters;
use crate::dial::{DialRequest, dial};
use crate::error::{BindError, SendError};
use crate::event::{Event, EventQueue, EventSource, Events};
use crate::handshake_timeout::RoundTrips;
use crate::known_remotes::KnownRemote;
use crate::local_addresses::{self, ListenAddress};
use crate::multicast::{Multicast, MulticastConfig, MulticastCounters, MulticastError};
use crate::quic::Quic;
use crate::stateless_reset::ResetTokenKey;
use crate::tcp::Tcp;
use crate::udp::Udp;

/// The time between two checks of a shutting transport for connections that still drain.
const SHUTDOWN_STEP: Duration = Duration::from_millis(5);
/// Connections judged before the task yields, at less than a microsecond each.
const RECHECK_BATCH: usize = 1024;
/// The longest reason that travels with the end of a connection, bytes.
pub(crate) const MAX_REASON: usize = 256;

/// The first [`MAX_REASON`] bytes of a reason, cut between characters.
pub(crate) fn cut(reason: &str) -> &str {
    let fits = (0..=reason.len().min(MAX_REASON)).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..fits.unwrap_or(0)]
}

/// A reason from a remote, made safe to show: cut to [`MAX_REASON`] and without control characters.
pub(crate) fn given(reason: &str) -> String {
    printable(cut(reason)).into_owned()
}

pub(crate) struct Context {
    pub(crate) identity: Arc<Identity>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) key_exchange: KeyExchange,
    pub(crate) admit: RoleSet,
    pub(crate) limits: Limits,
    pub(crate) registry: Registry,
    pub(crate) round_trips: RoundTrips,
    pub(crate) forgotten: ResetTokenKey,
    pub(crate) queue: EventQueue,
    /// Set when the transport shuts down: new remotes are turned away.
    pub(crate) closing: AtomicBool,
}

/// All transports of one [`bind`], and the application's handle to them.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) udp: Udp,
    pub(crate) tcp: Tcp,
    pub(crate) quic: Quic,
    multicast: OnceLock<Multicast>,
    local: Vec<Address>,
}

impl Drop for Shared {
    /// Cuts all connections of a transport that is dropped without [`Transport::shutdown`].
    fn drop(&mut self) {
        self.tcp.stop_listening();
        self.quic.stop_listening();
        for (connection, carrier) in self.context.registry.all() {
            match carrier {
                AnyConnection::Tcp(connection) => connection.close(String::new()),
                AnyConnection::Quic(connection) => connection.close(String::new()),
                // Nobody is left to send a farewell, but the registry must not keep the socket open.
                AnyConnection::Udp(..) => {
                    self.context.registry.remove(connection);
                }
            }
        }
    }
}

/// Opens every endpoint to listen on. Must be called in a tokio runtime with time and I/O.
///
/// # Errors
///
/// A host has no address, the system refuses a socket, or the identity cannot be used. Then no socket stays open.
pub async fn bind(config: Config) -> Result<(Transport, Events), BindError> {
    let context = Arc::new(Context {
        forgotten: ResetTokenKey::new(&config.identity),
        identity: config.identity,
        policy: config.policy,
        key_exchange: config.key_exchange,
        admit: config.admit,
        limits: config.limits,
        registry: Registry::default(),
        round_trips: RoundTrips::default(),
        queue: EventQueue::new(config.limits.event_queue_bytes),
        closing: AtomicBool::new(false),
    });
    let mut shared = Shared {
        udp: Udp::new(Arc::clone(&context)).map_err(BindError::Identity)?,
        tcp: Tcp::new(Arc::clone(&context)).map_err(BindError::Identity)?,
        quic: Quic::new(Arc::clone(&context)).map_err(BindError::Identity)?,
        multicast: OnceLock::new(),
        local: Vec::new(),
        context,
    };
    let mut places = Vec::new();
    for endpoint in config.listen {
        let address = listen(&shared, &endpoint, &mut places).await?;
        shared.local.push(address);
    }
    let shared = Arc::new(shared);
    tokio::spawn(local_addresses::monitor_addresses(Arc::downgrade(&shared), places));
    Ok((Transport { shared: Arc::clone(&shared) }, Events::new(shared)))
}

impl Shared {
    /// Listens at an address and returns the one that the socket got.
    pub(crate) fn listen_at(&self, scheme: Scheme, at: SocketAddr, congestion: Congestion) -> io::Result<SocketAddr> {
        match scheme {
            Scheme::Udp => self.udp.listen(at),
            Scheme::Tcp => self.tcp.listen(at),
            Scheme::Quic => self.quic.listen(at, congestion),
        }
    }
}

/// Binds every host of an endpoint to the same port. If at least one exists now, the others are listened on when they
/// appear.
async fn listen(shared: &Shared, endpoint: &Endpoint, places: &mut Vec<ListenAddress>) -> Result<Address, BindError> {
    let mut address = Address { scheme: endpoint.scheme, port: endpoint.port, hosts: Vec::new() };
    let (mut opened, mut missing) = (Vec::new(), None);
    let congestion = endpoint.congestion.unwrap_or_default();
    for host in &endpoint.hosts {
        let at = resolve(host, address.port).await.map_err(|source| BindError::Resolve {
            endpoint: endpoint.clone(),
            host: host.clone(),
            source,
        })?;
        match shared.listen_at(endpoint.scheme, at, congestion) {
            Ok(bound) => {
                address.port = bound.port();
                opened.push(bound.ip());
            }
            Err(source) if source.kind() == ErrorKind::AddrNotAvailable => missing = Some(source),
            Err(source) => return Err(BindError::Listen { endpoint: endpoint.clone(), source }),
        }
        address.hosts.push(at.ip());
    }
    if let Some(source) = missing {
        if opened.is_empty() {
            return Err(BindError::Listen { endpoint: endpoint.clone(), source });
        }
        tracing::warn!(%endpoint, "some listening addresses do not exist; they will be used when they appear");
    }
    places.extend(address.hosts.iter().map(|host| {
        let (scheme, at, is_open) = (endpoint.scheme, SocketAddr::new(*host, address.port), opened.contains(host));
        ListenAddress { scheme, at, congestion, is_open, is_there: is_open }
    }));
    Ok(address)
}

async fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let none = || io::Error::new(ErrorKind::NotFound, "the name is not known");
    lookup_host((host, port)).await?.next().ok_or_else(none)
}

/// The sending end of a transport. All clones are the same transport.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
}

impl Transport {
    /// The addresses of the listening sockets, also of those that will be bound when their address appears, in the
    /// order of [`Config::listen`], with the ports that the system chose. Hosts are unspecified where the endpoint
    /// named none in particular.
    pub fn local_addresses(&self) -> &[Address] {
        &self.shared.local
    }

    /// Tries to reach a remote at the addresses, in their order, until one leads to a remote of an expected role that
    /// is `node`, if that is given. The other attempts end then. Each address has a head start of 250 ms on the next,
    /// and as much time as its round trip requires ([`Limits::longest_round_trip`] if that is not known).
    /// [`crate::Event::Up`] or [`crate::Event::DialFailed`] with this number follows.
    pub fn dial(&self, id: DialId, addresses: Vec<Address>, expect: RoleSet, node: Option<NodeId>) {
        tokio::spawn(dial(Arc::clone(&self.shared), DialRequest::new(id, expect, node), addresses));
    }

    /// Ends a dial for which there is no address to try: [`crate::Event::DialFailed`] follows.
    pub fn fail_dial(&self, dial: DialId, reason: String) {
        self.shared.context.queue.push(EventSource::Host, Event::DialFailed { dial, reason, refused: false });
    }

    /// Queues a message and never waits. Call [`Self::flush`] when there is no more to send for now.
    ///
    /// A datagram that finds its queue full is dropped and counted.
    ///
    /// # Errors
    ///
    /// There is no such connection, the message is too long, or the queue for reliable messages is full.
    pub fn send(&self, connection: ConnectionId, channel: Channel, message: Bytes) -> Result<(), SendError> {
        self.send_as(connection, channel, &Delivery::default(), message)
    }

    /// Like [`Self::send`], with the given [`Delivery`].
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn send_as(
        &self,
        connection: ConnectionId,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
    ) -> Result<(), SendError> {
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(SendError::TooLong(message.len()));
        }
        match self.shared.context.registry.get(connection).ok_or(SendError::NoConnection(connection))? {
            AnyConnection::Udp(endpoint, slot) => endpoint.send(slot, connection, channel, delivery, message),
            AnyConnection::Tcp(tcp) => tcp.send(channel, delivery, message),
            AnyConnection::Quic(quic) => quic.send(channel, delivery, message),
        }
    }

    /// Takes part in multicast from now on, on the present interfaces and on those that appear. The messages of others
    /// arrive as [`crate::Event::Multicast`]. Must be called in a tokio runtime, and once.
    ///
    /// # Errors
    ///
    /// The system gives no random numbers.
    pub fn join_multicast(&self, config: &MulticastConfig, key: &GroupKey) -> Result<(), MulticastError> {
        let joined = Multicast::join(config, key, &self.shared.context)?;
        // A second call changes nothing: its sockets close again.
        let _ = self.shared.multicast.set(joined);
        Ok(())
    }

    /// Sends a message of at most [`crate::MAX_MULTICAST_BYTES`] to all nodes of the group in the subnet, at most once.
    /// Without [`Self::join_multicast`] it is dropped.
    pub fn multicast(&self, message: Bytes) {
        if let Some(multicast) = self.shared.multicast.get() {
            multicast.send(&message);
        }
    }

    /// The counts of multicast; `None` without [`Self::join_multicast`].
    pub fn multicast_counters(&self) -> Option<MulticastCounters> {
        self.shared.multicast.get().map(Multicast::counters)
    }

    /// Hands the queued UDP packets to the sockets. TCP and QUIC need no flush.
    pub fn flush(&self) {
        for endpoint in self.shared.udp.endpoints().iter() {
            endpoint.flush();
        }
    }

    /// Ends a connection after all queued messages have left. The remote receives the first 256 bytes of `reason`. No
    /// [`crate::Event::Down`] follows.
    pub fn close(&self, connection: ConnectionId, reason: String) {
        match self.shared.context.registry.get(connection) {
            Some(AnyConnection::Udp(endpoint, slot)) => endpoint.close(slot, connection, reason),
            Some(AnyConnection::Tcp(tcp)) => tcp.close(reason),
            Some(AnyConnection::Quic(quic)) => quic.close(reason),
            None => {}
        }
    }

    /// Judges the remotes of all connections again and ends the connections of those that no longer pass. Call it when
    /// the revocation list was read again, and from time to time, since certificates expire. The remote receives the
    /// reason, and [`crate::Event::Down`] follows. Returns the number of connections that have ended.
    pub async fn recheck(&self) -> usize {
        let context = &self.shared.context;
        let mut ended = 0;
        for (index, (connection, carrier)) in context.registry.all().into_iter().enumerate() {
            if index % RECHECK_BATCH == RECHECK_BATCH - 1 {
                tokio::task::yield_now().await;
            }
            let Some(certificate_status) = certificate_status(connection, &carrier) else { continue };
            let Err(refusal) = context.policy.recheck(&certificate_status, SystemTime::now()) else { continue };
            let Some(ConnectionInfo { remote, .. }) = describe(connection, &carrier) else { continue };
            let sender = EventSource::Node(remote.node);
            self.close(connection, Side::Remote.sentence(refusal));
            context.queue.discard_messages(sender, connection);
            context.queue.push(sender, Event::down(connection, Side::Local.sentence(refusal)));
            ended += 1;
        }
        ended
    }

    pub fn connection(&self, connection: ConnectionId) -> Option<ConnectionInfo> {
        self.shared.context.registry.get(connection).and_then(|carrier| describe(connection, &carrier))
    }

    /// All connections in order of their numbers.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let connections = self.shared.context.registry.all();
        connections.iter().filter_map(|(connection, carrier)| describe(*connection, carrier)).collect()
    }

    /// The number of connections that came up or ended so far.
    pub fn changes(&self) -> u64 {
        self.shared.context.registry.changes()
    }

    /// The remotes that dialed us over `udp://` and `quic://`, those of the newest connections last.
    pub fn known_remotes(&self) -> Vec<KnownRemote> {
        let connections = self.shared.context.registry.all();
        let known = connections.iter().flat_map(|(connection, carrier)| match carrier {
            AnyConnection::Udp(endpoint, slot) => endpoint.known_remote(*slot, *connection).into_iter().collect(),
            AnyConnection::Tcp(_) => Vec::new(),
            AnyConnection::Quic(quic) => quic.known_remotes(),
        });
        known.collect()
    }

    /// Tells a remote of an earlier run that its connection is gone, with one datagram from the address that it dialed,
    /// if a socket listens there. Returns `false` if the socket is not ready.
    pub fn send_reset(&self, known: &KnownRemote) -> bool {
        match known.scheme {
            Scheme::Udp => self.shared.udp.send_reset(known),
            Scheme::Tcp => true,
            Scheme::Quic => self.shared.quic.send_reset(known),
        }
    }

    pub fn counters(&self) -> Counters {
        let Shared { udp, tcp, quic, .. } = &*self.shared;
        Counters { schemes: [udp.live.snapshot(), tcp.live.snapshot(), quic.counters()] }
    }

    /// Closes every connection and waits, no longer than `bound`, until all messages are acknowledged and the farewells
    /// have left. No remote can dial us from then on.
    pub async fn shutdown(self, bound: Duration) {
        let Shared { context, udp, tcp, quic, .. } = &*self.shared;
        context.closing.store(true, Ordering::Relaxed);
        tcp.stop_listening();
        quic.stop_listening();
        for (connection, _) in context.registry.all() {
            self.close(connection, "the remote is shutting down".to_owned());
        }
        let drained = async {
            loop {
                let udp_busy = udp.endpoints().iter().filter(|endpoint| endpoint.wind_down()).count() > 0;
                if !udp_busy && tcp.is_idle() && quic.is_idle() {
                    return;
                }
                tokio::time::sleep(SHUTDOWN_STEP).await;
            }
        };
        // Connections that are not done by then are cut off.
        let _ = tokio::time::timeout(bound, drained).await;
        quic.shutdown(SHUTDOWN_STEP * 20).await;
    }
}

fn certificate_status(connection: ConnectionId, carrier: &AnyConnection) -> Option<CertificateStatus> {
    match carrier {
        AnyConnection::Udp(endpoint, slot) => endpoint.certificate_status(*slot, connection),
        AnyConnection::Tcp(tcp) => Some(tcp.certificate_status().clone()),
        AnyConnection::Quic(quic) => Some(quic.certificate_status().clone()),
    }
}

fn describe(connection: ConnectionId, carrier: &AnyConnection) -> Option<ConnectionInfo> {
    match carrier {
        AnyConnection::Udp(endpoint, slot) => endpoint.info(*slot, connection),
        AnyConnection::Tcp(tcp) => Some(tcp.info()),
        AnyConnection::Quic(quic) => Some(quic.info()),
    }
}
