//! `udp://`: DTLS 1.3, with our own packets inside.
//!
//! A [`UdpEndpoint`] is a socket with a table of sessions by the remote's address. It both listens and dials. One
//! [`entry::Entry`] is a session: its DTLS state, its phase, and its [`session`] machine. None of them has a task:
//! [`crate::Events`] calls [`UdpEndpoint::poll`].
//!
//! The session of a remote whose address changes goes on; see [`migration`]. Two remotes share one session for each
//! pair of socket addresses. If both dial at once, the handshake whose ClientHello has the greater random goes on and
//! answers both dials. If a restarted remote dials, the new session replaces the old one once it has proved itself. A
//! dial to a remote that has a connection already uses another socket and so makes another connection.

mod admission;
mod answers;
mod datagram_queue;
mod endpoint;
mod entry;
mod established;
mod handshake;
mod hello;
mod migration;
mod record_numbers;
mod sealing;
pub(crate) mod session;
mod signing;
mod table;
mod unread;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) use endpoint::{SessionSlot, UdpEndpoint};
pub(crate) use handshake::PendingDial;
pub(crate) use hello::{Bucket, is_classified};

use crate::counters::LiveSchemeCounters;
use crate::known_remotes::KnownRemote;
use crate::transport::Context;

/// The most bytes that DTLS adds around one of our packets: header (5), content type (1), tag (16).
pub(crate) const SEAL_BYTES: usize = 22;

/// The most bytes in a datagram of the handshake. With a cookie before it, the request for an echo after it, and the
/// headers of IPv6 and UDP, it has 1280 bytes, which every path carries. No datagram of ours may be fragmented on the
/// way. Larger contents, such as a certificate chain or a message, are split into fragments here.
const HANDSHAKE_BYTES: usize = 1280 - 40 - 8 - 1 - hello::COOKIE - hello::ASKS.len();

// A packet of the usual size also fits into 1280 bytes.
const _: () = assert!(1200 + SEAL_BYTES <= 1280 - 40 - 8);

/// Repetitions of a flight of the handshake. The last is a minute after the first, longer than any handshake waits for
/// the answer.
const FLIGHT_RETRIES: usize = 6;

/// The most sockets for dialing the same address, since each further connection to a remote needs a socket of its own.
/// After that, a new connection replaces an old one.
const MAX_SOCKETS: usize = 4;

pub(crate) struct Udp {
    pub(crate) live: Arc<LiveSchemeCounters>,
    context: Arc<Context>,
    config: Arc<dimpl::Config>,
    /// The listening ones, then those that were needed for dialing.
    endpoints: RwLock<Arc<[Arc<UdpEndpoint>]>>,
}

impl Udp {
    /// Prepares the DTLS configuration.
    ///
    /// # Errors
    ///
    /// A sentence, if the identity cannot be used.
    pub(crate) fn new(context: Arc<Context>) -> Result<Self, String> {
        let config = dimpl::Config::builder()
            .with_crypto_provider(signing::provider())
            .mtu(HANDSHAKE_BYTES)
            .require_client_certificate(true)
            // Our own cookies are cheaper: they need no state, and are used under load only.
            .use_server_cookie(false)
            .dtls12_cipher_suites(&[])
            .flight_start_rto(std::time::Duration::from_millis(500))
            // Our own time limits end a handshake earlier, with a better sentence.
            .flight_retries(FLIGHT_RETRIES)
            .handshake_timeout(4 * context.limits.incoming_handshake_timeout())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { live: Arc::default(), config: Arc::new(config), endpoints: RwLock::new(Arc::new([])), context })
    }

    /// Opens a socket to listen on and returns its address.
    pub(crate) fn listen(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        self.open(at).map(|endpoint| endpoint.local())
    }

    fn open(&self, at: SocketAddr) -> io::Result<Arc<UdpEndpoint>> {
        let endpoint = UdpEndpoint::bind(at, self)?;
        let mut endpoints = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        *endpoints = endpoints.iter().cloned().chain([Arc::clone(&endpoint)]).collect();
        drop(endpoints);
        self.context.queue.waker.wake();
        Ok(endpoint)
    }

    pub(crate) fn endpoints(&self) -> Arc<[Arc<UdpEndpoint>]> {
        Arc::clone(&self.endpoints.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`crate::Transport::send_reset`], for a remote that dialed over UDP.
    pub(crate) fn send_reset(&self, known: &KnownRemote) -> bool {
        let endpoints = self.endpoints();
        let endpoint = endpoints.iter().find(|endpoint| endpoint.local() == known.at);
        endpoint.is_none_or(|endpoint| endpoint.send_reset(known))
    }

    /// Begins a handshake with `to`. `dialling` gets the outcome.
    pub(crate) fn dial(&self, to: SocketAddr, dialling: PendingDial) {
        let endpoints = self.endpoints();
        let able: Vec<&Arc<UdpEndpoint>> =
            endpoints.iter().filter(|endpoint| can_reach(endpoint.local(), to)).collect();
        let fitting = from_source(&able, to);
        let is_wide = |endpoint: &&&Arc<UdpEndpoint>| endpoint.local().ip().is_unspecified();
        let chosen = match fitting.iter().find(|endpoint| !endpoint.has_connection_to(to)) {
            Some(endpoint) => Ok(Arc::clone(endpoint)),
            None if able.iter().filter(is_wide).count() < MAX_SOCKETS => self.open(unspecified(to)),
            None => able.first().map(|first| Arc::clone(first)).ok_or_else(|| io::Error::other("no socket reaches it")),
        };
        match chosen {
            Ok(endpoint) => endpoint.dial(to, dialling),
            Err(error) => {
                let _ = dialling.done.send(Err(error.to_string()));
            }
        }
    }
}

/// Of several sockets those that send to `to` from the address that the system chooses: answers to another address may
/// take another way. If none does, all.
fn from_source<'a>(able: &[&'a Arc<UdpEndpoint>], to: SocketAddr) -> Vec<&'a Arc<UdpEndpoint>> {
    let source = if able.len() > 1 { migration::source_for(to) } else { None };
    let is_fitting = |own: IpAddr| source.is_none_or(|source| own.is_unspecified() || own == source);
    let fitting: Vec<_> = able.iter().copied().filter(|endpoint| is_fitting(endpoint.local().ip())).collect();
    if fitting.is_empty() { able.to_vec() } else { fitting }
}

/// True if a socket bound to `local` can send to `to`.
pub(crate) fn can_reach(local: SocketAddr, to: SocketAddr) -> bool {
    let wide = local.ip().is_unspecified() || local.ip().is_loopback() == to.ip().is_loopback();
    local.is_ipv4() == to.is_ipv4() && wide
}

/// The unspecified address and port of the same family as `like`.
pub(crate) fn unspecified(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}
