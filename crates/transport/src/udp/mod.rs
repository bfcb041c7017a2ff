//! `udp://`: DTLS 1.3, with our own packets inside.
//!
//! An [`Endpoint`] is a socket with a table of sessions by the peer's address,
//! used for listening and for dialling alike. One [`entry::Entry`] is a
//! session: its DTLS state, its phase, and its [`session`] machine. Nothing in
//! here has a task: [`crate::Events`] calls [`Endpoint::poll`].
//!
//! A peer that has another address all at once goes on with its session; see
//! [`migration`]. Two peers share one session for each pair of socket addresses: where both
//! dial at once, the ClientHello with the greater random goes on and answers
//! both dials; where one dials that has restarted, the new session replaces the
//! old one once it has proved itself. A dial to a peer to which there is a connection
//! takes another socket and so leads to another connection.

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
pub(crate) mod session;
mod signing;
mod table;
mod unread;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) use endpoint::{Endpoint, SessionSlot};
pub(crate) use handshake::PendingDial;
pub(crate) use hello::{Bucket, is_classified};

use crate::counters::LiveSchemeCounters;
use crate::known_remotes::KnownRemote;
use crate::transport::Context;

/// The largest datagram that DTLS adds around a packet of ours: header (5),
/// content type (1), tag (16).
pub(crate) const SEAL_BYTES: usize = 22;

/// The most bytes in a datagram of the handshake: with a cookie in front, the
/// question for an echo behind, and headers of IPv6 and UDP, it is of the size that
/// every path carries, 1280. Like all of ours it is not to be cut on the way, and what is larger (a chain
/// of certificates, a message) goes in pieces.
const HANDSHAKE_BYTES: usize = 1280 - 40 - 8 - 1 - hello::COOKIE - hello::ASKS.len();

// So does a packet of the usual size.
const _: () = assert!(1200 + SEAL_BYTES <= 1280 - 40 - 8);

/// Times that a flight of the handshake is repeated: until a minute after it, which is longer than
/// anybody waits for the answer.
const FLIGHT_RETRIES: usize = 6;

/// Sockets from which one peer can be reached: a further connection to a peer that has
/// one needs a socket of its own. With these used up, the connection is replaced.
const MAX_SOCKETS: usize = 4;

/// Everything that is UDP.
pub(crate) struct Udp {
    pub(crate) live: Arc<LiveSchemeCounters>,
    context: Arc<Context>,
    config: Arc<dimpl::Config>,
    /// The listening ones, then those for dialling that were needed.
    endpoints: RwLock<Arc<[Arc<Endpoint>]>>,
}

impl Udp {
    /// # Errors
    ///
    /// A sentence, if the identity cannot be used.
    pub(crate) fn new(context: Arc<Context>) -> Result<Self, String> {
        let config = dimpl::Config::builder()
            .with_crypto_provider(signing::provider())
            .mtu(HANDSHAKE_BYTES)
            .require_client_certificate(true)
            // Ours is cheaper: it keeps nothing, and is asked for under load only.
            .use_server_cookie(false)
            .dtls12_cipher_suites(&[])
            .flight_start_rto(std::time::Duration::from_millis(500))
            // Ours comes first and has the better words.
            .flight_retries(FLIGHT_RETRIES)
            .handshake_timeout(4 * context.limits.incoming_handshake_timeout())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { live: Arc::default(), config: Arc::new(config), endpoints: RwLock::new(Arc::new([])), context })
    }

    /// Opens a socket to listen on; answers its address.
    pub(crate) fn listen(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        self.open(at).map(|endpoint| endpoint.local())
    }

    fn open(&self, at: SocketAddr) -> io::Result<Arc<Endpoint>> {
        let endpoint = Endpoint::bind(at, self)?;
        let mut endpoints = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        *endpoints = endpoints.iter().cloned().chain([Arc::clone(&endpoint)]).collect();
        drop(endpoints);
        self.context.queue.waker.wake();
        Ok(endpoint)
    }

    /// Every socket.
    pub(crate) fn endpoints(&self) -> Arc<[Arc<Endpoint>]> {
        Arc::clone(&self.endpoints.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`crate::Transport::send_reset`].
    pub(crate) fn send_reset(&self, known: &KnownRemote) -> bool {
        let endpoints = self.endpoints();
        let endpoint = endpoints.iter().find(|endpoint| endpoint.local() == known.at);
        endpoint.is_none_or(|endpoint| endpoint.send_reset(known))
    }

    /// Begins a handshake with `to`; `dialling` hears how it went.
    pub(crate) fn dial(&self, to: SocketAddr, dialling: PendingDial) {
        let endpoints = self.endpoints();
        let mut able = endpoints.iter().filter(|endpoint| can_reach(endpoint.local(), to));
        let unused = able.clone().find(|endpoint| !endpoint.has_connection_to(to));
        let chosen = match unused {
            Some(endpoint) => Ok(Arc::clone(endpoint)),
            None if able.clone().count() < MAX_SOCKETS => self.open(unspecified(to)),
            None => able.next().cloned().ok_or_else(|| io::Error::other("no socket reaches it")),
        };
        match chosen {
            Ok(endpoint) => endpoint.dial(to, dialling),
            Err(error) => {
                let _ = dialling.done.send(Err(error.to_string()));
            }
        }
    }
}

/// Whether a socket bound to `local` can send to `to`.
pub(crate) fn can_reach(local: SocketAddr, to: SocketAddr) -> bool {
    let wide = local.ip().is_unspecified() || local.ip().is_loopback() == to.ip().is_loopback();
    local.is_ipv4() == to.is_ipv4() && wide
}

/// Any address and port of the family of `like`.
pub(crate) fn unspecified(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}
