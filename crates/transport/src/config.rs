//! What a transport is made with.

use std::sync::Arc;
use std::time::Duration;

use roost_identity::{Identity, Policy};
use roost_proto::{Endpoint, LONGEST_ROUND_TRIP, RoleSet};

/// The largest packet that [`Limits::packet_bytes`] may ask for.
pub(crate) const MAX_PACKET: usize = 8000;

/// What [`crate::bind`] needs.
#[derive(Clone)]
pub struct Config {
    /// Who we are: the certificate and key that every handshake presents.
    pub identity: Arc<Identity>,
    /// Whom we accept: the one verification policy of all transports.
    pub policy: Arc<Policy>,
    /// Where to listen. Empty: only dial. Every host of an endpoint is bound;
    /// one that is not there is when it comes, and of each endpoint one must be
    /// there. Port 0 lets the system choose.
    pub listen: Vec<Endpoint>,
    /// The roles of those who may dial us.
    pub admit: RoleSet,
    /// What a stranger or a peer can make us spend.
    pub limits: Limits,
}

/// Bounds on memory and work. The defaults suit a hub of ten thousand nodes;
/// a node may keep them, since nothing is allocated ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections over all transports. A peer that would be one more is
    /// turned away; our own dials are not counted against it. Default 20 000.
    pub connections: usize,
    /// The most handshakes of peers that may be under way at once, for each
    /// transport; one more takes the place of one of the host that has most: of its
    /// oldest that has sent nothing (over UDP: has not proved its address), else of its oldest. Default 512.
    pub handshakes: usize,
    /// New handshakes of peers per second for each transport, sustained; as
    /// many again may come in a burst. Default 1000, about what one core can do.
    pub handshakes_per_second: u32,
    /// Shortest wait of one end of a handshake for the other's next message; it is longer if the
    /// round trip asks for it, see [`Self::longest_round_trip`]. Default 5 s.
    pub handshake_timeout: Duration,
    /// The longest round trip that is allowed for. An address has one and a half of it for
    /// its first answer while no round trip to it or to others is known, who has answered
    /// once three of the round trips measured, and a peer that dials three of these.
    /// Default 10 s.
    pub longest_round_trip: Duration,
    /// The most bytes that wait in a connection to be sent or acknowledged, for
    /// reliable messages, and as many again for datagrams. Default 12 MiB, which
    /// is more than a node's objects and one whole stream have on their way.
    pub connection_queue_bytes: usize,
    /// The most bytes of received messages that wait for
    /// [`crate::Events::recv_many`]. A connection is no longer read once as many of
    /// its node's wait as half of what is free besides. Default 64 MiB.
    pub event_queue_bytes: usize,
    /// The largest packet inside the encryption, bytes, for UDP and QUIC.
    /// 1200 passes every IPv6 path, as in RFC 9000. A network of plain Ethernet
    /// takes 1400, which carries a video packet whole. 1200 to 8000.
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
    /// The packet size within its documented range.
    pub(crate) fn packet(&self) -> usize {
        self.packet_bytes.clamp(1200, MAX_PACKET)
    }
}
