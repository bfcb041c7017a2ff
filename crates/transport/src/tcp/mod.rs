//! `tcp://`: TLS 1.3 with frames inside.
//!
//! The dialing side finishes its TLS handshake before the listener has checked the certificate. So the listener then
//! sends a `Ready` frame: until it arrives, the dial may still end in a refusal.

mod connection;
mod counted;
pub(crate) mod frame;
pub(crate) mod queue;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use roost_identity::Side;
use roost_identity::tls::{self, refusal_from_tls_error};
use roost_wire::{DialId, RoleSet, Scheme};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub(crate) use connection::TcpConnection;
use connection::{sentence, tls_error};
use counted::Counted;
use frame::Frame;

use crate::connection::{ConnectionIdentity, LiveConnectionCounters, VerifiedRemote, seen_at};
use crate::counters::LiveSchemeCounters;
use crate::dial::{DialRequest, TOO_LATE, unexpected};
use crate::handshake_limiter::{HandshakeLimiter, HandshakeSlot, Stranger};
use crate::transport::{Context, given};
use crate::udp::Bucket;

/// Connections that the system keeps for us until we accept them.
const BACKLOG: i32 = 1024;
/// The pause when the system has no file descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that may wait in the system before they are sent. An urgent message waits for no more than these, besides the
/// bytes that are under way.
const UNSENT: u32 = 32 * 1024;

pub(crate) struct Tcp {
    pub(crate) live: Arc<LiveSchemeCounters>,
    context: Arc<Context>,
    acceptor: TlsAcceptor,
    handshake_limiter: Arc<HandshakeLimiter>,
    listeners: Mutex<Vec<AbortHandle>>,
    /// Every task of every connection holds a clone, so its count shows if any is left.
    busy: Arc<()>,
}

/// The state that a listener's tasks need.
struct Listener {
    live: Arc<LiveSchemeCounters>,
    context: Arc<Context>,
    acceptor: TlsAcceptor,
    handshake_limiter: Arc<HandshakeLimiter>,
    busy: Arc<()>,
}

impl Tcp {
    /// Prepares the server's TLS configuration.
    ///
    /// # Errors
    ///
    /// A sentence, if the identity cannot be used.
    pub(crate) fn new(context: Arc<Context>) -> Result<Self, String> {
        let server = tls::server_config(&context.identity, &context.policy, context.admit, context.key_exchange);
        Ok(Self {
            live: Arc::default(),
            acceptor: TlsAcceptor::from(server.map_err(|error| error.to_string())?),
            handshake_limiter: HandshakeLimiter::new(context.limits.handshakes),
            listeners: Mutex::default(),
            busy: Arc::default(),
            context,
        })
    }

    /// Listens at an address and returns the one that the socket got.
    pub(crate) fn listen(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(at), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        let sockets = TcpListener::from_std(socket.into())?;
        let local = sockets.local_addr()?;
        let listener = Arc::new(Listener {
            live: Arc::clone(&self.live),
            context: Arc::clone(&self.context),
            acceptor: self.acceptor.clone(),
            handshake_limiter: Arc::clone(&self.handshake_limiter),
            busy: Arc::clone(&self.busy),
        });
        let task = tokio::spawn(listener.accept(sockets));
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(task.abort_handle());
        Ok(local)
    }

    /// Accepts no more connections. The present ones stay.
    pub(crate) fn stop_listening(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|task| task.abort());
    }

    pub(crate) fn is_idle(&self) -> bool {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).len();
        Arc::strong_count(&self.busy) <= 1 + listeners
    }

    /// Dials a remote. On success the connection is announced, otherwise the reason is returned.
    pub(crate) async fn dial(&self, to: SocketAddr, request: DialRequest) -> Result<(), String> {
        let (limits, trips) = (&self.context.limits, &self.context.round_trips);
        let limit = limits.first_answer(trips.expected_rtt(to.ip(), request.node));
        let started = Instant::now();
        let Ok(connected) = timeout(limit, TcpStream::connect(to)).await else {
            trips.mark_unresponsive(to.ip(), request.node);
            return Err(format!("no answer in {} s", limit.as_secs_f32()));
        };
        let stream = connected.map_err(|error| sentence(&error))?;
        let rtt = started.elapsed();
        // The TLS handshake takes one round trip, and the greeting another.
        let limit = 2 * limits.next_answer(rtt);
        match timeout(limit, self.shake_hands(stream, rtt, to, request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("the handshake was not done in {} s", limit.as_secs_f32())),
        }
    }

    async fn shake_hands(
        &self,
        stream: TcpStream,
        rtt: Duration,
        to: SocketAddr,
        request: DialRequest,
    ) -> Result<(), String> {
        let context = &self.context;
        let config = tls::client_config(&context.identity, &context.policy, request.expect, context.key_exchange);
        let config = config.map_err(|error| error.to_string())?;
        be_prompt(&stream);
        let tally = Arc::<LiveConnectionCounters>::default();
        let stream = Counted::new(stream, Arc::clone(&tally), Arc::clone(&self.live));
        let connected = TlsConnector::from(config).connect(to.ip().into(), stream).await;
        let mut stream = connected.map_err(|error| {
            count_refusal(&self.live, to, &error);
            sentence(&error)
        })?;
        match frame::read(&mut stream).await.map_err(|error| sentence(&error))? {
            Some(Frame::Ready) => {}
            Some(Frame::Close(reason)) => return Err(given(&reason)),
            Some(Frame::Message(_)) => return Err("the remote does not speak our protocol".to_owned()),
            None => return Err("the remote closed the connection".to_owned()),
        }
        let passed = verified(context, stream.get_ref().1.peer_certificates(), request.expect)?;
        if request.node.is_some_and(|node| node != passed.remote.node) {
            return Err(unexpected(&passed.remote));
        }
        if !request.try_win() {
            return Err(TOO_LATE.to_owned());
        }
        let parts = Parts { context, live: &self.live, busy: &self.busy };
        parts.announce(stream, tally, passed, to, rtt, Some(request.dial));
        Ok(())
    }
}

impl Listener {
    async fn accept(self: Arc<Self>, sockets: TcpListener) {
        let bucket = Arc::new(Mutex::new(Bucket::new(self.context.limits.handshakes_per_second, Instant::now())));
        loop {
            let (stream, from) = match sockets.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if self.context.registry.len() >= self.context.limits.connections {
                LiveSchemeCounters::add(&self.live.turned_away, 1);
                continue;
            }
            let Some((place, displaced)) = self.handshake_limiter.acquire_slot(from.ip(), Stranger::Silent) else {
                LiveSchemeCounters::add(&self.live.turned_away, 1);
                continue;
            };
            LiveSchemeCounters::add(&self.live.turned_away, u64::from(displaced));
            let (listener, bucket) = (Arc::clone(&self), Arc::clone(&bucket));
            tokio::spawn(async move { listener.attend(stream, from, place, &bucket).await });
        }
    }

    /// Waits for a first byte, which costs nothing, and only then runs the handshake. Counts failures.
    async fn attend(&self, stream: TcpStream, from: SocketAddr, mut place: HandshakeSlot, bucket: &Mutex<Bucket>) {
        // The loss of a slot was counted when another stranger took it.
        let limit = self.context.limits.incoming_handshake_timeout();
        let Some(spoke) = place.hold(timeout(limit, stream.readable())).await else { return };
        if !matches!(spoke, Ok(Ok(()))) {
            return LiveSchemeCounters::add(&self.live.failed_handshakes, 1);
        }
        place.mark_active();
        if !bucket.lock().unwrap_or_else(PoisonError::into_inner).try_take_token(Instant::now()) {
            return LiveSchemeCounters::add(&self.live.turned_away, 1);
        }
        let Some(greeted) = place.hold(timeout(limit, self.greet(stream, from))).await else { return };
        LiveSchemeCounters::add(&self.live.failed_handshakes, u64::from(!matches!(greeted, Ok(Ok(())))));
        if let Ok(Err(error)) = greeted {
            count_refusal(&self.live, from, &error);
            tracing::debug!(remote = %from, reason = sentence(&error), "handshake failed");
        }
    }

    /// Runs the handshake with a remote that dialed us.
    async fn greet(&self, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        be_prompt(&stream);
        let tally = Arc::<LiveConnectionCounters>::default();
        let stream = Counted::new(stream, Arc::clone(&tally), Arc::clone(&self.live));
        let started = Instant::now();
        let mut stream = self.acceptor.accept(stream).await?;
        let rtt = started.elapsed();
        let passed = verified(&self.context, stream.get_ref().1.peer_certificates(), self.context.admit);
        let passed = passed.map_err(io::Error::other)?;
        let mut ready = Vec::new();
        Frame::Ready.write(&mut ready);
        stream.write_all(&ready).await?;
        stream.flush().await?;
        let parts = Parts { context: &self.context, live: &self.live, busy: &self.busy };
        parts.announce(stream, tally, passed, from, rtt, None);
        Ok(())
    }
}

/// Makes the system send small messages at once and queue little. If it does not support that, messages are only
/// slower.
fn be_prompt(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
}

/// The state that a new connection needs.
struct Parts<'a> {
    context: &'a Arc<Context>,
    live: &'a Arc<LiveSchemeCounters>,
    busy: &'a Arc<()>,
}

impl Parts<'_> {
    fn announce<S>(
        &self,
        stream: S,
        tally: Arc<LiveConnectionCounters>,
        passed: VerifiedRemote,
        at: SocketAddr,
        rtt: Duration,
        dial: Option<DialId>,
    ) where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let identified = ConnectionIdentity {
            connection: self.context.registry.allocate(),
            remote: passed.remote,
            certificate_status: passed.certificate_status,
            address: seen_at(Scheme::Tcp, at),
            dialled: dial.is_some(),
            rtt,
            since: SystemTime::now(),
        };
        self.context.round_trips.record_rtt(Some(at.ip()), identified.remote.node, rtt);
        let up = identified.up(dial);
        LiveSchemeCounters::add(&self.live.handshakes, 1);
        let connection = TcpConnection::new(identified, Arc::clone(self.context), Arc::clone(self.live), tally);
        connection.start(stream, up, Arc::clone(self.busy));
    }
}

/// Verifies the certificate of a finished handshake and returns its holder.
pub(crate) fn verified<C: AsRef<[u8]>>(
    context: &Context,
    certificates: Option<&[C]>,
    expect: RoleSet,
) -> Result<VerifiedRemote, String> {
    let leaf = certificates.and_then(<[C]>::first).ok_or("the remote showed no certificate")?.as_ref();
    let verdict = context.policy.admit(leaf, expect, SystemTime::now());
    let (remote, certificate_status) = verdict.map_err(|refusal| Side::Local.sentence(refusal))?;
    Ok(VerifiedRemote { remote, certificate_status })
}

/// Counts our refusal, if that made a handshake fail.
fn count_refusal(live: &LiveSchemeCounters, at: SocketAddr, error: &io::Error) {
    if let Some((Side::Local, refusal)) = tls_error(error).and_then(refusal_from_tls_error) {
        live.refuse(at, refusal);
    }
}
