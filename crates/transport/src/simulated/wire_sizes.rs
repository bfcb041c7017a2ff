//! How the packets of each transport look from outside: their sizes.

use roost_proto::Scheme;

use crate::config::Limits;
use crate::udp::SEAL_BYTES;
use crate::udp::session::RELIABLE_HEADER;

/// Headers of IPv4 and UDP.
pub(crate) const UDP_BYTES: u32 = 20 + 8;
/// Headers of IPv4 and TCP, with time stamps.
const TCP_BYTES: u32 = 20 + 32;
/// What the options of a SYN take beyond time stamps.
const OPTIONS: u16 = 8;
/// A segment that only acknowledges, with the header of its frame. The system
/// sends one ahead of its first segments of data; here they are one packet, so
/// that a lost acknowledgement does not hold up a handshake.
const ACK_BYTES: u16 = 14 + TCP_BYTES as u16;
/// A short QUIC header with a connection id of eight bytes, a packet number of
/// one or two, the tag, and what a frame takes more than the head of a packet of ours.
const QUIC_BYTES: u32 = 1 + 8 + 2 + 16 + FRAME_BYTES;
const FRAME_BYTES: u32 = 2;
/// The most that TCP puts into a packet of Ethernet.
pub(super) const SEGMENT_BYTES: usize = 1448;

/// The sizes of a transport's packets.
#[derive(Debug)]
pub(super) struct WireSizes {
    /// The handshake: the dialler's flights and the listener's in turn, and
    /// last that the listener accepts; of each its packets, without headers.
    pub(super) flights: &'static [&'static [u16]],
    /// Headers around packets of the handshake.
    pub(super) bare: u32,
    /// The same around packets of the session, and what sealing adds.
    sealed: u32,
    /// Sealing alone, of a further packet of the session that shares one of UDP.
    pub(super) shared: Option<u32>,
    /// The heads of the session's packets, where others stand for them.
    heads: usize,
    /// The largest packet of the session.
    pub(super) packet_bytes: fn() -> usize,
    /// Whether all travels in one order, and nothing is lost.
    pub(super) is_stream: bool,
}

/// The listener's keepsake, which shares the packet of its last word.
const KEEPSAKE_BYTES: u16 = 44;

/// DTLS 1.3 with certificates of both sides: ClientHello, padded; an echo, and ServerHello to
/// Finished; the client's certificate to Finished, and ready; ready, and the keepsake.
static UDP: WireSizes = WireSizes {
    flights: &[&[1215], &[806], &[610], &[95 + KEEPSAKE_BYTES]],
    bare: UDP_BYTES,
    sealed: UDP_BYTES + SEAL_BYTES as u32,
    shared: Some(SEAL_BYTES as u32),
    heads: 0,
    packet_bytes,
    is_stream: false,
};

/// SYN; SYN and ACK; then TLS 1.3 as above.
static TCP: WireSizes = WireSizes {
    flights: &[&[OPTIONS], &[OPTIONS], &[ACK_BYTES + 194], &[ACK_BYTES + 692], &[ACK_BYTES + 526], &[26]],
    bare: TCP_BYTES,
    sealed: TCP_BYTES,
    shared: None,
    heads: RELIABLE_HEADER,
    packet_bytes: || SEGMENT_BYTES + RELIABLE_HEADER,
    is_stream: true,
};

/// QUIC pads what a client sends first, and whoever answers it.
static QUIC: WireSizes = WireSizes {
    flights: &[&[1200], &[1200, 138], &[1200, 142, 88], &[103]],
    bare: UDP_BYTES,
    sealed: UDP_BYTES + QUIC_BYTES,
    shared: Some(FRAME_BYTES),
    heads: 0,
    packet_bytes,
    is_stream: false,
};

fn packet_bytes() -> usize {
    Limits::default().packet()
}

impl WireSizes {
    pub(super) const fn for_scheme(scheme: Scheme) -> &'static Self {
        match scheme {
            Scheme::Udp => &UDP,
            Scheme::Tcp => &TCP,
            Scheme::Quic => &QUIC,
        }
    }

    /// The bytes that another packet adds to one that it shares; `None` if there is no room.
    pub(super) fn longer_by(&self, length: u32, content: &[u8]) -> Option<u32> {
        let more = self.shared? + content.len() as u32;
        (length + more <= self.sealed + (self.packet_bytes)() as u32).then_some(more)
    }

    /// How long a packet of the session would be.
    pub(super) fn packet_length(&self, content: &[u8]) -> u32 {
        content.len().saturating_sub(self.heads) as u32 + self.sealed
    }
}
