//! `quic://`: QUIC by quinn, one path for each link.
//!
//! The dialler's handshake is over before the listener has looked at its
//! certificate, so the listener greets with a stream: until then the dial may
//! still end in a refusal. Of several hosts, the dialler takes the first that
//! answers.

mod inbox;
mod link;
#[cfg(feature = "simulated")]
mod plain;
mod settings;
#[cfg(feature = "simulated")]
pub(crate) mod simulated;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use quinn::{Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, Runtime, TokioRuntime};
use roost_identity::{Refusal, Side};
use roost_proto::{DialId, RoleSet, Scheme};
use rustls::pki_types::CertificateDer;
use tokio::task::AbortHandle;
use tokio::time::timeout;

pub(crate) use link::QuicLink;
use link::{CLOSED, READY};
use socket::CountedSocket;

use crate::counters::{Live, SchemeCounters};
use crate::crowd::Crowd;
use crate::dial::{TOO_LATE, Wish, unexpected};
use crate::link::{Identified, Passed, seen_at};
use crate::tcp::verified;
use crate::transport::Context;
use crate::udp::{Bucket, can_reach, unspecified};

/// Everything that is QUIC.
pub(crate) struct Quic {
    inner: Arc<Inner>,
    server: quinn::ServerConfig,
    /// The listening ones, then at most one for dialling in each family.
    endpoints: RwLock<Vec<Endpoint>>,
    listeners: Mutex<Vec<AbortHandle>>,
    /// A clone is held by every link that still has to hand over something.
    busy: Arc<()>,
}

/// What tasks share.
struct Inner {
    live: Arc<Live>,
    context: Arc<Context>,
    crowd: Arc<Crowd>,
}

impl Quic {
    /// # Errors
    ///
    /// A sentence, if the identity cannot be used.
    pub(crate) fn new(context: Arc<Context>) -> Result<Self, String> {
        Ok(Self {
            server: settings::server(&context)?,
            endpoints: RwLock::default(),
            listeners: Mutex::default(),
            busy: Arc::default(),
            inner: Arc::new(Inner { live: Arc::default(), crowd: Crowd::new(context.limits.handshakes), context }),
        })
    }

    /// Listens; answers the address.
    pub(crate) fn listen(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let endpoint = self.open(at, Some(self.server.clone()))?;
        let task = tokio::spawn(accept(Arc::clone(&self.inner), endpoint.clone(), Arc::clone(&self.busy)));
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(task.abort_handle());
        endpoint.local_addr()
    }

    fn open(&self, at: SocketAddr, server: Option<quinn::ServerConfig>) -> io::Result<Endpoint> {
        let runtime = Arc::new(TokioRuntime);
        let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind(at)?)?;
        let socket = Arc::new(CountedSocket::new(socket, Arc::clone(&self.inner.live)));
        let endpoint = Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, socket, runtime)?;
        self.endpoints.write().unwrap_or_else(PoisonError::into_inner).push(endpoint.clone());
        Ok(endpoint)
    }

    /// An endpoint from which `to` can be reached.
    fn endpoint_for(&self, to: SocketAddr) -> io::Result<Endpoint> {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner).clone();
        let reaches = |endpoint: &Endpoint| endpoint.local_addr().is_ok_and(|local| can_reach(local, to));
        endpoints.into_iter().find(reaches).map_or_else(|| self.open(unspecified(to), None), Ok)
    }

    /// Reaches a peer; the link is announced on success, the reason comes back otherwise.
    pub(crate) async fn dial(&self, to: SocketAddr, wish: Wish) -> Result<(), String> {
        let limit = self.inner.context.limits.handshake_timeout;
        match timeout(limit, self.connect(to, wish)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer in {} s", limit.as_secs_f32())),
        }
    }

    async fn connect(&self, to: SocketAddr, wish: Wish) -> Result<(), String> {
        let config = settings::client(&self.inner.context, wish.expect)?;
        let endpoint = self.endpoint_for(to).map_err(|error| error.to_string())?;
        let connecting = endpoint.connect_with(config, to, &to.ip().to_string()).map_err(|error| error.to_string())?;
        let connection = connecting.await.map_err(|error| self.inner.failed(&error))?;
        self.inner.await_greeting(&connection).await?;
        let passed = identify(&self.inner.context, &connection, wish.expect)?;
        if wish.node.is_some_and(|node| node != passed.peer.node) {
            connection.close(CLOSED, b"you are not the node that was expected");
            return Err(unexpected(&passed.peer));
        }
        if !wish.win() {
            connection.close(CLOSED, TOO_LATE.as_bytes());
            return Err(TOO_LATE.to_owned());
        }
        self.inner.announce(connection, passed, Some(wish.dial), Arc::clone(&self.busy));
        Ok(())
    }

    pub(crate) fn counters(&self) -> SchemeCounters {
        self.inner.live.snapshot()
    }

    /// Accepts nobody any more.
    pub(crate) fn stop_listening(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|task| task.abort());
    }

    /// Whether every link has handed over what was sent.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.busy) == 1
    }

    /// Closes the sockets once the farewells have left, or after `bound`.
    pub(crate) async fn shutdown(&self, bound: Duration) {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner).clone();
        for endpoint in endpoints {
            endpoint.close(CLOSED, b"the peer is shutting down");
            // The farewell has left at once; only its repetition is cut off.
            let _ = timeout(bound, endpoint.wait_idle()).await;
        }
    }
}

/// Greets those who dial us.
async fn accept(inner: Arc<Inner>, endpoint: Endpoint, busy: Arc<()>) {
    let limits = inner.context.limits;
    let mut bucket = Bucket::new(limits.handshakes_per_second, Instant::now());
    while let Some(incoming) = endpoint.accept().await {
        if inner.crowd.len() * 4 >= limits.handshakes && incoming.may_retry() && !incoming.remote_address_validated() {
            // It may retry, so this does not fail.
            let _ = incoming.retry();
            continue;
        }
        if inner.context.registry.len() >= limits.links || !bucket.take(Instant::now()) {
            Live::add(&inner.live.turned_away, 1);
            incoming.refuse();
            continue;
        }
        // It has sent a ClientHello.
        let (mut place, displaced) = inner.crowd.enter(true);
        Live::add(&inner.live.turned_away, u64::from(displaced));
        let (inner, busy) = (Arc::clone(&inner), Arc::clone(&busy));
        tokio::spawn(async move {
            let from = incoming.remote_address();
            let greeting = timeout(limits.handshake_timeout, inner.greet(incoming, busy));
            // Who has lost the place was counted by the one that took it.
            let Some(greeted) = place.hold(greeting).await else { return };
            Live::add(&inner.live.failed_handshakes, u64::from(!matches!(greeted, Ok(Ok(())))));
            if let Ok(Err(reason)) = greeted {
                tracing::debug!(peer = %from, reason, "handshake failed");
            }
        });
    }
}

impl Inner {
    /// The handshake with somebody who dialled us.
    async fn greet(&self, incoming: Incoming, busy: Arc<()>) -> Result<(), String> {
        let connecting = incoming.accept().map_err(|error| self.failed(&error))?;
        let connection = connecting.await.map_err(|error| self.failed(&error))?;
        let passed = identify(&self.context, &connection, self.context.admit)?;
        let mut greeting = connection.open_uni().await.map_err(|error| sentence(&error))?;
        let written = greeting.write_all(&[READY]).await;
        written.map_err(|error| error.to_string())?;
        greeting.finish().map_err(|error| error.to_string())?;
        self.announce(connection, passed, None, busy);
        Ok(())
    }

    /// Waits until the listener has accepted us.
    async fn await_greeting(&self, connection: &Connection) -> Result<(), String> {
        let mut greeting = connection.accept_uni().await.map_err(|error| self.failed(&error))?;
        match greeting.read_to_end(1).await {
            Ok(bytes) if bytes == [READY] => Ok(()),
            Err(quinn::ReadToEndError::Read(quinn::ReadError::ConnectionLost(error))) => Err(self.failed(&error)),
            Ok(_) | Err(_) => Err("the peer does not speak our protocol".to_owned()),
        }
    }

    fn announce(&self, connection: Connection, passed: Passed, dial: Option<DialId>, busy: Arc<()>) {
        let identified = Identified {
            link: self.context.registry.allocate(),
            peer: passed.peer,
            standing: passed.standing,
            address: seen_at(Scheme::Quic, connection.remote_address()),
            dialled: dial.is_some(),
            rtt: connection.rtt(),
            since: SystemTime::now(),
        };
        let up = identified.up(dial);
        Live::add(&self.live.handshakes, 1);
        QuicLink::new(identified, Arc::clone(&self.context), Arc::clone(&self.live), connection).start(up, busy);
    }

    /// Why a handshake failed, in a sentence; counts a refusal of ours.
    fn failed(&self, error: &ConnectionError) -> String {
        if let Some((Side::Us, refusal)) = refusal(error) {
            self.live.refuse(refusal);
        }
        sentence(error)
    }
}

/// Who the certificate of a finished handshake names.
fn identify(context: &Context, connection: &Connection, expect: RoleSet) -> Result<Passed, String> {
    let shown =
        connection.peer_identity().and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    verified(context, shown.as_deref().map(Vec::as_slice), expect)
}

/// The refusal behind the end of a connection, and whose it is.
fn refusal(error: &ConnectionError) -> Option<(Side, Refusal)> {
    let (side, code, words) = match error {
        ConnectionError::TransportError(error) => (Side::Us, error.code, &*error.reason),
        ConnectionError::ConnectionClosed(close) => (Side::Peer, close.error_code, ""),
        _ => return None,
    };
    // RFC 9001, section 4.8: an alert is a code of 0x100 and more.
    let alert = u64::from(code).checked_sub(0x100).and_then(|alert| u8::try_from(alert).ok())?;
    // Two refusals share an alert; our own error says which one it is.
    let stranger = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer).to_string();
    if words.contains(&stranger) {
        return Some((side, Refusal::Stranger));
    }
    Refusal::from_alert(alert).map(|refusal| (side, refusal))
}

/// Why a connection ended, in a sentence.
fn sentence(error: &ConnectionError) -> String {
    if let Some((side, refusal)) = refusal(error) {
        return side.sentence(refusal);
    }
    match error {
        ConnectionError::ApplicationClosed(close) if !close.reason.is_empty() => {
            String::from_utf8_lossy(&close.reason).into_owned()
        }
        ConnectionError::ApplicationClosed(_) => "the peer closed the link".to_owned(),
        ConnectionError::TimedOut => "the peer has not been heard for too long".to_owned(),
        ConnectionError::Reset => "the peer no longer knows the link".to_owned(),
        ConnectionError::LocallyClosed => "the peer broke the protocol".to_owned(),
        other => other.to_string(),
    }
}
