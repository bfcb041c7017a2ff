//! The sizes of each transport's packets, by which a simulated connection looks real from outside.

use roost_wire::Scheme;

use crate::config::Limits;
use crate::udp::SEAL_BYTES;
use crate::udp::session::RELIABLE_HEADER;

pub(crate) const UDP_BYTES: u32 = 20 + 8;
/// Headers of IPv4 and TCP, with time stamps.
const TCP_BYTES: u32 = 20 + 32;
/// Bytes of a SYN's options besides time stamps.
const OPTIONS: u16 = 8;
/// A segment that only acknowledges, with the header of its Ethernet frame. The system sends one before its first
/// segments of data. Here they are one packet, so that a lost acknowledgement does not delay a handshake.
const ACK_BYTES: u16 = 14 + TCP_BYTES as u16;
/// A short QUIC header with a connection id of eight bytes, a packet number of one or two, the tag, and the bytes by
/// which a frame's header is longer than that of one of our packets.
const QUIC_BYTES: u32 = 1 + 8 + 2 + 16 + FRAME_BYTES;
const FRAME_BYTES: u32 = 2;
/// The most payload that TCP puts into a packet of Ethernet.
pub(super) const SEGMENT_BYTES: usize = 1448;

#[derive(Debug)]
pub(super) struct WireSizes {
    /// The flights of the handshake, of the dialing side and the listener in turn; the last says that the listener
    /// accepts. Each has its packets, without headers.
    pub(super) flights: &'static [&'static [u16]],
    /// Bytes of headers around packets of the handshake.
    pub(super) bare: u32,
    /// Bytes of headers around packets of the session, with the bytes that sealing adds.
    sealed: u32,
    /// Bytes that sealing adds for a further packet in the same UDP datagram.
    pub(super) shared: Option<u32>,
    /// Bytes of the session's own packet headers, where those of the transport replace them.
    heads: usize,
    /// The largest packet of the session.
    pub(super) packet_bytes: fn() -> usize,
    /// True if the transport delivers everything, in one order.
    pub(super) is_stream: bool,
}

/// The listener's reset token, which shares a packet with its last flight.
const KEEPSAKE_BYTES: u16 = 44;

/// DTLS 1.3 with certificates of both sides: a padded ClientHello; an echo, and ServerHello to Finished; the client's
/// certificate to Finished, and ready; ready, and the reset token.
static UDP: WireSizes = WireSizes {
    flights: &[&[1215], &[806], &[610], &[95 + KEEPSAKE_BYTES]],
    bare: UDP_BYTES,
    sealed: UDP_BYTES + SEAL_BYTES as u32,
    shared: Some(SEAL_BYTES as u32),
    heads: 0,
    packet_bytes,
    is_stream: false,
};

/// SYN; SYN and ACK; then TLS 1.3 with the same messages, and the hybrid key exchange in both hellos. The listener's
/// flight takes two segments.
static TCP: WireSizes = WireSizes {
    flights: &[
        &[OPTIONS],
        &[OPTIONS],
        &[ACK_BYTES + 194 + 1222],
        &[ACK_BYTES + 1448, 692 + 1088 - 1448],
        &[ACK_BYTES + 526],
        &[26],
    ],
    bare: TCP_BYTES,
    sealed: TCP_BYTES,
    shared: None,
    heads: RELIABLE_HEADER,
    packet_bytes: || SEGMENT_BYTES + RELIABLE_HEADER,
    is_stream: true,
};

/// QUIC pads the first packets of a client, and the answer to them.
static QUIC: WireSizes = WireSizes {
    flights: &[&[1200, 1200], &[1200, 1200, 26], &[1200, 142, 88], &[103]],
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

    /// The bytes that another packet adds to a shared datagram; `None` if there is no room.
    pub(super) fn longer_by(&self, length: u32, content: &[u8]) -> Option<u32> {
        let more = self.shared? + content.len() as u32;
        (length + more <= self.sealed + (self.packet_bytes)() as u32).then_some(more)
    }

    /// The length of a packet of the session, with all headers.
    pub(super) fn packet_length(&self, content: &[u8]) -> u32 {
        content.len().saturating_sub(self.heads) as u32 + self.sealed
    }
}
