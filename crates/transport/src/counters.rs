//! Counts for metrics: traffic of the sockets, handshakes and refusals.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use roost_identity::Refusal;
use roost_wire::Scheme;

/// The counts of all transports at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// In the order of [`Scheme::ALL`].
    pub schemes: [SchemeCounters; 3],
}

impl Counters {
    pub fn for_scheme(&self, scheme: Scheme) -> &SchemeCounters {
        &self.schemes[scheme as usize]
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeCounters {
    /// Bytes handed to the socket: UDP payloads, or TCP bytes with TLS.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Datagrams handed to the socket; for TCP, TLS writes.
    pub datagrams_sent: u64,
    /// Datagrams that came from the socket; for TCP, TLS reads.
    pub datagrams_received: u64,
    /// Messages and packets dropped because a queue was full, or over UDP because the system refused to send them.
    pub dropped: u64,
    /// Input that was not one of our packets, or came from an unknown sender.
    pub malformed: u64,
    pub handshakes: u64,
    /// Handshakes that a remote began and that led to no connection: aborted, too slow, refused, or no handshake at
    /// all.
    pub failed_handshakes: u64,
    pub turned_away: u64,
    /// Paths that stopped answering, of connections that have several paths.
    pub paths_lost: u64,
    /// Paths among [`Self::paths_lost`] that answered again later.
    pub paths_restored: u64,
    /// Remotes that we refused, by the label of [`Refusal`].
    pub refused: Vec<(&'static str, u64)>,
    /// The address of the remote that we refused last.
    pub last_refused: Option<SocketAddr>,
}

/// The counts of one transport, which all its tasks add to.
#[derive(Debug, Default)]
pub(crate) struct LiveSchemeCounters {
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) datagrams_sent: AtomicU64,
    pub(crate) datagrams_received: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) paths_lost: AtomicU64,
    pub(crate) paths_restored: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    last_refused: Mutex<Option<SocketAddr>>,
}

impl LiveSchemeCounters {
    pub(crate) fn add(count: &AtomicU64, by: u64) {
        count.fetch_add(by, Ordering::Relaxed);
    }

    /// Counts a remote that we refused, and keeps its address.
    pub(crate) fn refuse(&self, at: SocketAddr, refusal: Refusal) {
        *self.last_refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        if let Some(index) = Refusal::ALL.iter().position(|kind| *kind == refusal) {
            Self::add(&self.refused[index], 1);
        }
    }

    pub(crate) fn snapshot(&self) -> SchemeCounters {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SchemeCounters {
            bytes_sent: get(&self.bytes_sent),
            bytes_received: get(&self.bytes_received),
            datagrams_sent: get(&self.datagrams_sent),
            datagrams_received: get(&self.datagrams_received),
            dropped: get(&self.dropped),
            malformed: get(&self.malformed),
            handshakes: get(&self.handshakes),
            failed_handshakes: get(&self.failed_handshakes),
            turned_away: get(&self.turned_away),
            paths_lost: get(&self.paths_lost),
            paths_restored: get(&self.paths_restored),
            last_refused: *self.last_refused.lock().unwrap_or_else(PoisonError::into_inner),
            refused: Refusal::ALL.iter().zip(&self.refused).map(|(kind, count)| (kind.label(), get(count))).collect(),
        }
    }
}
