//! The data of a flow, and what its receiver reports.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::bytes_codec;
use crate::ids::RequestId;

/// See [`Message::Datagram`](super::Message::Datagram).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Datagram {
    /// The flow.
    #[n(0)]
    pub id: RequestId,
    /// Counts the flow's datagrams from 0.
    #[n(1)]
    pub sequence: u64,
    /// When it was sent, microseconds since the acceptance, on the sender's clock.
    #[n(2)]
    pub sent_us: u64,
    /// The payload.
    #[cbor(n(3), with = "bytes_codec")]
    pub payload: Bytes,
}

/// See [`Message::Chunk`](super::Message::Chunk).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Chunk {
    /// The flow.
    #[n(0)]
    pub id: RequestId,
    /// Where in the object it belongs.
    #[n(1)]
    pub offset: u64,
    /// The piece.
    #[cbor(n(2), with = "bytes_codec")]
    pub payload: Bytes,
}

/// See [`Message::Report`](super::Message::Report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Report {
    /// The flow.
    #[n(0)]
    pub id: RequestId,
    /// Payload bytes received; for an object those from its beginning without a gap.
    #[n(1)]
    pub bytes: u64,
    /// Datagrams received, each counted once.
    #[n(2)]
    pub packets: u64,
    /// Datagrams that are missing.
    #[n(3)]
    pub lost: u64,
    /// Interarrival jitter, microseconds (RFC 3550, section 6.4.1).
    #[n(4)]
    pub jitter_us: u32,
}
