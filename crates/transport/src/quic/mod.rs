//! `quic://`: QUIC by quinn, with a QUIC connection for each path of a connection.
//!
//! The dialing side finishes its handshake before the listener has checked the certificate. So the listener answers a
//! greeting: until then the dial may still end in a refusal. If the remote has several hosts, the first that answers
//! carries the first path, and the others become further paths.

mod address_update;
mod addresses;
mod allowance;
mod congestion;
mod connection;
mod endpoints;
mod failure;
mod hello;
#[cfg(feature = "simulated")]
mod null_crypto;
mod path;
mod path_manager;
mod probing;
mod settings;
#[cfg(feature = "simulated")]
pub(crate) mod simulated;
mod socket;
mod state;
mod stateless_reset;
mod unverified_hosts;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use quinn::{Connection, ConnectionError, Endpoint, Incoming};
use roost_identity::Side;
use roost_wire::{Congestion, ConnectionId, DialId, RoleSet, Scheme};
use rustls::pki_types::CertificateDer;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use address_update::AddressUpdate;
use connection::CLOSED;
pub(crate) use connection::QuicConnection;
use failure::{refusal, sentence};
use hello::{ConnectionKey, Hello, HelloAck, HelloError, receive_hello, receive_hello_ack, send_hello, send_hello_ack};
use path_manager::PathManager;
use probing::Probing;
use settings::Flight;
use state::{IncomingId, LocalEnd};
use stateless_reset::{ResetSender, first_id};

use crate::connection::{AnyConnection, ConnectionIdentity, VerifiedRemote, seen_at};
use crate::counters::{LiveSchemeCounters, SchemeCounters};
use crate::dial::{DialRequest, TOO_LATE, unexpected};
use crate::handshake_limiter::{HandshakeLimiter, Stranger};
use crate::multipath::PathId;
use crate::tcp::verified;
use crate::transport::Context;
use crate::udp::Bucket;

pub(crate) struct Quic {
    inner: Arc<QuicShared>,
    listeners: Mutex<Vec<AbortHandle>>,
    /// Every connection that has not ended holds a clone, so its count shows if any is left.
    busy: Arc<()>,
}

struct QuicShared {
    live: Arc<LiveSchemeCounters>,
    context: Arc<Context>,
    handshake_limiter: Arc<HandshakeLimiter>,
    server: quinn::ServerConfig,
    /// The listening ones, then at most one for dialing in each address family.
    endpoints: RwLock<Vec<Endpoint>>,
    /// The congestion control of each address at which we listen.
    congestion: RwLock<HashMap<SocketAddr, Congestion>>,
    /// The listening sockets, which tell remotes of earlier runs that their connections are gone.
    voices: RwLock<HashMap<SocketAddr, ResetSender>>,
    /// The addresses of listening sockets that have disappeared, so that these sockets are of no use.
    gone: RwLock<Vec<SocketAddr>>,
}

/// The way of a dial: from an endpoint of ours to an address, with the remote's further hosts.
struct DialTarget<'a> {
    endpoint: Endpoint,
    to: SocketAddr,
    hosts: &'a [SocketAddr],
}

enum QuicSide {
    /// We dialed, perhaps from one of our addresses in particular.
    Dialler(DialId, LocalEnd),
    /// A remote dialed us at this port.
    Listener(u16, Option<IncomingId>),
}

impl Quic {
    /// Prepares the server's configuration.
    ///
    /// # Errors
    ///
    /// A sentence, if the identity cannot be used.
    pub(crate) fn new(context: Arc<Context>) -> Result<Self, String> {
        let inner = QuicShared {
            server: settings::server(&context)?,
            live: Arc::default(),
            handshake_limiter: HandshakeLimiter::new(context.limits.handshakes),
            context,
            endpoints: RwLock::default(),
            congestion: RwLock::default(),
            voices: RwLock::default(),
            gone: RwLock::default(),
        };
        Ok(Self { inner: Arc::new(inner), listeners: Mutex::default(), busy: Arc::default() })
    }

    /// Listens at an address and returns the one that the socket got. `congestion` applies to the connections from this
    /// address and to it.
    pub(crate) fn listen(&self, at: SocketAddr, congestion: Congestion) -> io::Result<SocketAddr> {
        let endpoint = self.inner.open(at, Some(self.inner.server.clone()))?;
        let chosen = &self.inner.congestion;
        chosen.write().unwrap_or_else(PoisonError::into_inner).insert(endpoint.local_addr()?, congestion);
        let task = tokio::spawn(accept(Arc::clone(&self.inner), endpoint.clone(), Arc::clone(&self.busy)));
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(task.abort_handle());
        endpoint.local_addr()
    }

    /// Dials a remote, at `to` first. On success the connection is announced, otherwise the reason is returned. The
    /// other addresses in `hosts` become further paths.
    pub(crate) async fn dial(&self, to: SocketAddr, hosts: &[SocketAddr], request: DialRequest) -> Result<(), String> {
        let inner = &self.inner;
        let endpoint = inner.endpoint_for(to, hosts).map_err(|error| error.to_string())?;
        let has_several = hosts.len() > 1 || inner.addressed().count() > 1;
        let (limits, trips) = (&inner.context.limits, &inner.context.round_trips);
        let limit = limits.first_answer(trips.expected_rtt(to.ip(), request.node));
        let Ok(connected) =
            timeout(limit, inner.connect(&endpoint, to, request.expect, Flight { has_several, ..Flight::DEFAULT }))
                .await
        else {
            trips.mark_unresponsive(to.ip(), request.node);
            return Err(format!("no answer in {} s", limit.as_secs_f32()));
        };
        let (quinn_connection, probing) = connected?;
        let limit = limits.next_answer(quinn_connection.rtt());
        match timeout(limit, self.begin(DialTarget { endpoint, to, hosts }, quinn_connection, probing, request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("the handshake was not done in {} s", limit.as_secs_f32())),
        }
    }

    /// Exchanges the greetings after QUIC's own handshake.
    async fn begin(
        &self,
        target: DialTarget<'_>,
        quinn_connection: Connection,
        probing: Probing,
        request: DialRequest,
    ) -> Result<(), String> {
        let DialTarget { endpoint, to, hosts } = target;
        let inner = &self.inner;
        send_hello(&quinn_connection, &Hello::Connection).await.map_err(|error| inner.failed(to, &error))?;
        let welcome = receive_hello_ack(&quinn_connection).await.map_err(|error| inner.hello_failure(to, &error))?;
        let passed = identify(&inner.context, &quinn_connection, request.expect)?;
        if request.node.is_some_and(|node| node != passed.remote.node) {
            quinn_connection.close(CLOSED, b"you are not the node that was expected");
            return Err(unexpected(&passed.remote));
        }
        if !request.try_win() {
            quinn_connection.close(CLOSED, TOO_LATE.as_bytes());
            return Err(TOO_LATE.to_owned());
        }
        let expect = request.expect;
        let (connection, first) = inner.announce(
            inner.context.registry.allocate(),
            quinn_connection,
            probing,
            passed,
            QuicSide::Dialler(request.dial, inner.dialed_local_end(&endpoint, to, hosts)),
            &self.busy,
        );
        let from = endpoint.local_addr().map_err(|error| error.to_string())?;
        let (inner, busy, dialled) = (Arc::clone(inner), Arc::clone(&self.busy), hosts.to_vec());
        let keeper = PathManager { inner, connection, welcome, dialled, port: to.port(), expect, busy };
        if let Some(first) = first {
            tokio::spawn(keeper.maintain_paths((from, to), first));
        }
        Ok(())
    }

    /// Handles an address at which we listen that has appeared or disappeared.
    pub(crate) fn note_presence(&self, at: SocketAddr, is_there: bool) {
        let mut gone = self.inner.gone.write().unwrap_or_else(PoisonError::into_inner);
        gone.retain(|other| *other != at);
        gone.extend(Some(at).filter(|_| !is_there));
        drop(gone);
        let hosts: Vec<_> = self.inner.at_port(at.port()).collect();
        for (_, carrier) in self.inner.context.registry.all() {
            let AnyConnection::Quic(connection) = carrier else { continue };
            if !is_there {
                connection.leave(at.ip().to_canonical());
            }
            connection.tell_hosts(at.port(), &hosts);
            connection.changed.notify_one();
        }
    }

    pub(crate) fn counters(&self) -> SchemeCounters {
        self.inner.live.snapshot()
    }

    /// Accepts no more connections. The present ones stay.
    pub(crate) fn stop_listening(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|task| task.abort());
    }

    /// True if no connection has messages left to deliver.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.busy) == 1
    }

    /// Closes the sockets once the farewells have left, or after `bound`.
    pub(crate) async fn shutdown(&self, bound: Duration) {
        for endpoint in self.inner.endpoints() {
            endpoint.close(CLOSED, b"the remote is shutting down");
            // The farewell has left at once; only its repetition is cut off.
            let _ = timeout(bound, endpoint.wait_idle()).await;
        }
    }
}

/// Accepts the remotes that dial us, within the limits on handshakes.
async fn accept(inner: Arc<QuicShared>, endpoint: Endpoint, busy: Arc<()>) {
    let limits = inner.context.limits;
    let mut bucket = Bucket::new(limits.handshakes_per_second, Instant::now());
    while let Some(incoming) = endpoint.accept().await {
        if inner.handshake_limiter.len() * 4 >= limits.handshakes
            && incoming.may_retry()
            && !incoming.remote_address_validated()
        {
            // This cannot fail, since `may_retry` is true.
            let _ = incoming.retry();
            continue;
        }
        let has_room = inner.context.registry.len() < limits.connections && bucket.try_take_token(Instant::now());
        // Heard, since the stranger has sent a ClientHello.
        let place = if has_room {
            inner.handshake_limiter.acquire_slot(incoming.remote_address().ip(), Stranger::Heard)
        } else {
            None
        };
        let Some((mut place, displaced)) = place else {
            LiveSchemeCounters::add(&inner.live.turned_away, 1);
            incoming.refuse();
            continue;
        };
        LiveSchemeCounters::add(&inner.live.turned_away, u64::from(displaced));
        let (inner, busy) = (Arc::clone(&inner), Arc::clone(&busy));
        let Ok(at) = endpoint.local_addr() else { return };
        let probing = inner.probing(&endpoint);
        tokio::spawn(async move {
            let from = incoming.remote_address();
            let greeting = timeout(limits.incoming_handshake_timeout(), inner.greet(incoming, probing, at, &busy));
            // The loss of a slot was counted when another stranger took it.
            let Some(greeted) = place.hold(greeting).await else { return };
            LiveSchemeCounters::add(&inner.live.failed_handshakes, u64::from(!matches!(greeted, Ok(Ok(())))));
            if let Ok(Err(reason)) = greeted {
                tracing::debug!(remote = %from, reason, "handshake failed");
            }
        });
    }
}

impl QuicShared {
    /// Runs QUIC's own handshake with a remote, without the greetings.
    async fn connect(
        &self,
        endpoint: &Endpoint,
        to: SocketAddr,
        expect: RoleSet,
        flight: Flight,
    ) -> Result<(Connection, Probing), String> {
        let probing = self.probing(endpoint);
        let config = settings::client(&self.context, expect, &probing, flight)?;
        let connecting = endpoint.connect_with(config, to, &to.ip().to_string()).map_err(|error| error.to_string())?;
        Ok((connecting.await.map_err(|error| self.failed(to, &error))?, probing))
    }

    /// Runs the handshake with a remote that dialed us.
    async fn greet(&self, incoming: Incoming, probing: Probing, at: SocketAddr, busy: &Arc<()>) -> Result<(), String> {
        let (from, hosts) = (incoming.remote_address(), self.hosts(at.port()));
        let server = settings::accepting(&self.server, &self.context, &probing, hosts.len() > 1);
        let (connecting, name) = first_id(|| incoming.accept_with(server));
        let connecting = connecting.map_err(|error| self.failed(from, &error))?;
        let called = name.map(|name| IncomingId { at, wire_id: name });
        let quinn_connection = connecting.await.map_err(|error| self.failed(from, &error))?;
        let passed = identify(&self.context, &quinn_connection, self.context.admit)?;
        let hello = receive_hello(&quinn_connection).await.map_err(|error| self.hello_failure(from, &error))?;
        let connection = match hello {
            Hello::Connection => self.context.registry.allocate(),
            Hello::Path { connection, .. } => ConnectionId(connection),
        };
        let welcome = HelloAck { connection: connection.0, hosts };
        if let Hello::Path { code, .. } = hello {
            let connection = self.connection_to_extend(connection, &quinn_connection, &passed, &code)?;
            send_hello_ack(&quinn_connection, &welcome).await.map_err(|error| sentence(&error))?;
            let here = self.accepted_local_end(&quinn_connection, called);
            let added = connection.add_path(quinn_connection, probing, here, busy);
            return added.map(drop).ok_or_else(|| "more paths than a connection may have".to_owned());
        }
        send_hello_ack(&quinn_connection, &welcome).await.map_err(|error| sentence(&error))?;
        self.announce(connection, quinn_connection, probing, passed, QuicSide::Listener(at.port(), called), busy);
        Ok(())
    }

    /// Finds the connection to which a remote wants to add a path, and checks its proof.
    fn connection_to_extend(
        &self,
        connection: ConnectionId,
        quinn_connection: &Connection,
        passed: &VerifiedRemote,
        code: &[u8],
    ) -> Result<Arc<QuicConnection>, String> {
        let refused = || {
            quinn_connection.close(CLOSED, b"there is no such connection of yours");
            "a path for a connection that the remote does not have".to_owned()
        };
        let Some(AnyConnection::Quic(connection)) = self.context.registry.get(connection) else {
            return Err(refused());
        };
        let is_its_own = connection.identified.remote.node == passed.remote.node
            && connection.key.as_ref().is_some_and(|key| key.verify(quinn_connection, code));
        if !is_its_own {
            return Err(refused());
        }
        Ok(connection)
    }

    fn announce(
        &self,
        id: ConnectionId,
        quinn_connection: Connection,
        probing: Probing,
        passed: VerifiedRemote,
        end: QuicSide,
        busy: &Arc<()>,
    ) -> (Arc<QuicConnection>, Option<PathId>) {
        let (dial, here, port) = match end {
            QuicSide::Dialler(dial, here) => (Some(dial), here, None),
            QuicSide::Listener(port, called) => (None, self.accepted_local_end(&quinn_connection, called), Some(port)),
        };
        let identified = ConnectionIdentity {
            connection: id,
            remote: passed.remote,
            certificate_status: passed.certificate_status,
            address: seen_at(Scheme::Quic, quinn_connection.remote_address()),
            dialled: dial.is_some(),
            rtt: quinn_connection.rtt(),
            since: SystemTime::now(),
        };
        self.context.round_trips.record_rtt(
            Some(quinn_connection.remote_address().ip()),
            identified.remote.node,
            identified.rtt,
        );
        let up = identified.up(dial);
        LiveSchemeCounters::add(&self.live.handshakes, 1);
        let key = ConnectionKey::from_connection(&quinn_connection);
        let connection = QuicConnection::new(identified, Arc::clone(&self.context), Arc::clone(&self.live), key, port);
        let first = connection.start(up, quinn_connection, probing, here, busy);
        (connection, first)
    }

    /// The sentence about a greeting that did not arrive.
    fn hello_failure(&self, at: SocketAddr, why: &HelloError) -> String {
        match why {
            HelloError::Lost(error) => self.failed(at, error),
            HelloError::Nonsense => "the remote does not speak our protocol".to_owned(),
        }
    }

    /// The sentence about a handshake that failed. Counts a refusal of ours.
    fn failed(&self, at: SocketAddr, error: &ConnectionError) -> String {
        if let Some((Side::Local, refusal)) = refusal(error) {
            self.live.refuse(at, refusal);
        }
        sentence(error)
    }
}

/// For the fuzz target: true if each greeting or notice in `bytes` reads the same after it is written again.
pub(crate) fn messages_round_trip(bytes: &[u8]) -> bool {
    let hello = Hello::read(bytes).is_none_or(|hello| Hello::read(&hello.write()) == Some(hello));
    let welcome = HelloAck::read(bytes).is_none_or(|welcome| HelloAck::read(&welcome.write()) == Some(welcome));
    let notice = AddressUpdate::read(bytes).is_none_or(|notice| AddressUpdate::read(&notice.write()) == Some(notice));
    hello && welcome && notice
}

/// Verifies the certificate of a finished handshake and returns its holder.
fn identify(context: &Context, quinn_connection: &Connection, expect: RoleSet) -> Result<VerifiedRemote, String> {
    let shown =
        quinn_connection.peer_identity().and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    verified(context, shown.as_deref().map(Vec::as_slice), expect)
}
