//! The configuration of a transport and its limits.

use std::sync::Arc;
use std::time::Duration;

use roost_identity::{Identity, KeyExchange, Policy};
use roost_wire::{Endpoint, LONGEST_ROUND_TRIP, RoleSet};

/// The largest packet that [`Limits::packet_bytes`] may ask for.
pub(crate) const MAX_PACKET: usize = 8000;

#[derive(Clone)]
pub struct Config {
    /// The certificate and key that every handshake presents.
    pub identity: Arc<Identity>,
    /// The one verification policy of all transports.
    pub policy: Arc<Policy>,
    pub key_exchange: KeyExchange,
    /// The endpoints to listen on; none for a transport that only dials. Every host of an endpoint is bound. A host
    /// whose address does not exist is bound once it appears, but one host of each endpoint must exist. With port 0 the
    /// system chooses the port.
    pub listen: Vec<Endpoint>,
    /// The roles of the remotes that may dial us.
    pub admit: RoleSet,
    /// Bounds on the memory and work that strangers and remotes can cause.
    pub limits: Limits,
}

/// Bounds on memory and work. The defaults suit a hub of ten thousand nodes. A node may keep them, since nothing is
/// allocated ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections over all transports. A remote that dials us beyond that is turned away. Our own dials are
    /// always allowed. Default 20 000.
    pub connections: usize,
    /// The most incoming handshakes at once, for each transport. One more takes the place of another, of the host that
    /// has the most: of its oldest that has sent nothing (over UDP: has not proved its address), or else of its oldest.
    /// Default 512.
    pub handshakes: usize,
    /// New incoming handshakes per second for each transport, sustained; as many again may come in a burst. Default
    /// 1000, about as many as one core completes.
    pub handshakes_per_second: u32,
    /// Shortest wait of one end of a handshake for the other's next message. The wait is longer where the round trip
    /// requires it, see [`Self::longest_round_trip`]. Default 5 s.
    pub handshake_timeout: Duration,
    /// The longest round trip for which handshakes wait. An address has one and a half of it for its first answer while
    /// no round trip is known. A remote that has answered once has three of the measured round trips for its next
    /// message, and a remote that dials us has three of these. Default 10 s.
    pub longest_round_trip: Duration,
    /// The most bytes that wait in a connection to be sent or acknowledged, for reliable messages, and as many again
    /// for datagrams. Default 12 MiB, which is more than a node's objects and one whole stream have under way.
    pub connection_queue_bytes: usize,
    /// The most bytes of received messages that wait for [`crate::Events::recv_many`]. A connection is not read while
    /// the waiting messages of its node are more than half of the remaining room. Default 64 MiB.
    pub event_queue_bytes: usize,
    /// The largest packet inside the encryption, bytes, for UDP and QUIC. 1200 passes every IPv6 path, as in RFC 9000.
    /// A network of plain Ethernet takes 1400, which carries a video packet whole. 1200 to 8000.
    pub packet_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            handshakes: 512,
            handshakes_per_second: 1000,
            handshake_timeout: Duration::from_secs(5),
            longest_round_trip: LONGEST_ROUND_TRIP,
            connection_queue_bytes: 12 << 20,
            event_queue_bytes: 64 << 20,
            packet_bytes: 1200,
        }
    }
}

impl Limits {
    /// The packet size, forced into its documented range.
    pub(crate) fn packet(&self) -> usize {
        self.packet_bytes.clamp(1200, MAX_PACKET)
    }
}
