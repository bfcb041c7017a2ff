//! The bytes of a packet: one datagram.
//!
//! ```text
//! hop 1 | flags 1 | frame 2 | stream 8 | epoch 4 | counter 8 | sealed payload | tag 16
//!       └─────────────── authenticated, in clear ───────────┘
//! ```
//!
//! The first byte belongs to the hop: reflectors count hops in it and mark what
//! they send from their cache. It begins with the bits `10`, which neither
//! DTLS nor QUIC packets begin with (RFC 9443), so that all can share a port.
//! Everything after it stays as the publisher has sealed it.

pub use roost_wire::reflection::{Epoch, StreamId};

/// Largest packet, bytes: the payload of UDP over IPv6 on Ethernet.
pub const MAX_PACKET_BYTES: usize = 1452;
/// Bytes of a packet beside its payload.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
const _: () = assert!(OVERHEAD_BYTES == roost_wire::reflection::OVERHEAD_BYTES);
/// The largest payload, bytes. Packets with up to 1160 (six of MPEG-TS are 1128)
/// stay within the 1200 that every path takes whole.
pub const MAX_PAYLOAD_BYTES: usize = MAX_PACKET_BYTES - OVERHEAD_BYTES;
/// The most hops of a packet: publisher to home, to a second super node, to a
/// third in a mesh of two layers, to a subscriber.
pub const MAX_HOPS: u8 = 3;

/// Bytes of the header: the hop's byte and the authenticated part.
pub const HEADER_BYTES: usize = 24;
/// Bytes of the seal's tag.
pub const TAG_BYTES: usize = 16;

/// The upper four bits of a packet's first byte.
const KIND: u8 = 0b1000_0000;
const KIND_MASK: u8 = 0b1111_0000;
const HOPS_SHIFT: u8 = 2;
const HOPS_MASK: u8 = 0b0000_1100;
const CATCH_UP: u8 = 0b0000_0010;

/// Properties of a packet that reflectors may read. Unknown bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// A key frame begins here: decoding can start with this packet, after the parameter sets.
    pub const KEY_FRAME: Self = Self(1);
    /// The packet has parameter sets or tables that later packets need.
    pub const PARAMETERS: Self = Self(2);
    /// The packet is the last of its frame.
    pub const FRAME_END: Self = Self(4);

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Set of a wire form; every byte is valid.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

/// Part of a packet that each hop may change: the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Hops behind the packet; more than [`MAX_HOPS`] are written as that many.
    pub hops: u8,
    /// True if the packet comes from a reflector's cache.
    pub catch_up: bool,
}

impl Hop {
    pub const fn byte(self) -> u8 {
        let hops = if self.hops > MAX_HOPS { MAX_HOPS } else { self.hops };
        KIND | hops << HOPS_SHIFT | if self.catch_up { CATCH_UP } else { 0 }
    }

    /// Hop of a packet's first byte; `None` if the byte begins something else.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        if byte & KIND_MASK != KIND {
            return None;
        }
        Some(Self { hops: (byte & HOPS_MASK) >> HOPS_SHIFT, catch_up: byte & CATCH_UP != 0 })
    }
}

/// A packet of which the header has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPacket<'a> {
    pub(crate) hop: Hop,
    pub(crate) header: &'a Header,
    pub(crate) datagram: &'a [u8],
}

/// Authenticated header of a packet, in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The properties of the payload that reflectors act on: frames, key frames, parameter sets.
    pub flags: Flags,
    /// Number of the frame, wrapping at 2^16; reflectors drop whole frames.
    pub frame: u16,
    pub stream: StreamId,
    /// Epoch of the key that seals the payload.
    pub epoch: Epoch,
    /// Number of the packet in its stream, without gap across epochs.
    pub counter: u64,
}

/// Error of a datagram that is no packet of a reflected stream, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a packet of a reflected stream: {0}")]
pub struct Malformed(pub(crate) &'static str);

impl Header {
    /// Encodes the header behind the byte of `hop`.
    pub fn encode(&self, hop: Hop) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = hop.byte();
        bytes[1] = self.flags.0;
        bytes[2..4].copy_from_slice(&self.frame.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.stream.0.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.epoch.0.to_be_bytes());
        bytes[16..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// Decodes a datagram's header without verifying it; only [`Subscriber`](crate::Subscriber) verifies.
    ///
    /// # Errors
    /// Returns an error if the first byte or the length is not a packet's.
    pub fn decode(datagram: &[u8]) -> Result<(Hop, Self), Malformed> {
        let hop = datagram.first().and_then(|byte| Hop::from_byte(*byte)).ok_or(Malformed("another first byte"))?;
        if datagram.len() > MAX_PACKET_BYTES {
            return Err(Malformed("too long"));
        }
        if datagram.len() < OVERHEAD_BYTES {
            return Err(Malformed("too short"));
        }
        let header = Self {
            flags: Flags(datagram[1]),
            frame: u16::from_be_bytes(array(&datagram[2..])),
            stream: StreamId(u64::from_be_bytes(array(&datagram[4..]))),
            epoch: Epoch(u32::from_be_bytes(array(&datagram[12..]))),
            counter: u64::from_be_bytes(array(&datagram[16..])),
        };
        Ok((hop, header))
    }
}

/// First `N` bytes. Panics if there are fewer: the caller has checked the length.
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers() -> impl Strategy<Value = (Hop, Header)> {
        let hop = (0..=MAX_HOPS, any::<bool>()).prop_map(|(hops, catch_up)| Hop { hops, catch_up });
        let rest = (any::<u8>(), any::<u16>(), any::<u64>(), any::<u32>(), any::<u64>());
        let header = rest.prop_map(|(flags, frame, stream, epoch, counter)| Header {
            flags: Flags(flags),
            frame,
            stream: StreamId(stream),
            epoch: Epoch(epoch),
            counter,
        });
        (hop, header)
    }

    /// Six transport packets fit the smallest path.
    const _: () = assert!(6 * 188 + OVERHEAD_BYTES <= 1200 && 1200 - OVERHEAD_BYTES == 1160);

    #[test]
    fn packet_layout_matches_docs() {
        let header = Header {
            flags: Flags::KEY_FRAME.with(Flags::FRAME_END),
            frame: 0x0102,
            stream: StreamId(0x0304_0506_0708_090a),
            epoch: Epoch(0x0b0c_0d0e),
            counter: 0x0f10_1112_1314_1516,
        };
        let bytes = header.encode(Hop { hops: 2, catch_up: true });
        assert_eq!(bytes[..2], [0b1000_1010, 0b101]);
        assert_eq!(bytes[2..], std::array::from_fn::<u8, 22, _>(|place| place as u8 + 1));
    }

    #[test]
    fn dtls_and_quic_bytes_are_rejected() {
        // RFC 9443: DTLS records begin with 20 to 63, QUIC packets with 64 to 127 or 192 to 255.
        let others = (20..=127).chain(192..=255);
        assert!(others.into_iter().all(|byte| Hop::from_byte(byte).is_none()));
    }

    proptest! {
        #[test]
        fn headers_survive((hop, header) in headers(), payload in OVERHEAD_BYTES..=MAX_PACKET_BYTES) {
            let mut datagram = header.encode(hop).to_vec();
            datagram.resize(payload, 0);
            prop_assert_eq!(Header::decode(&datagram), Ok((hop, header)));
        }

        #[test]
        fn lengths_are_kept((hop, header) in headers(), length in 0..OVERHEAD_BYTES) {
            let mut datagram = header.encode(hop).to_vec();
            datagram.resize(length, 0);
            prop_assert!(Header::decode(&datagram).is_err());
            datagram.resize(MAX_PACKET_BYTES + 1, 0);
            prop_assert!(Header::decode(&datagram).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok((hop, header)) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(hop)[1..].to_vec(), bytes[1..HEADER_BYTES].to_vec());
                prop_assert_eq!(Hop::from_byte(hop.byte()), Some(hop));
            }
        }
    }
}
