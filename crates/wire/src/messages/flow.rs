//! The data of a flow, and what its receiver reports.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::bytes_codec;
use super::reason::Reason;
use super::reflection::{MAX_SEALED_BYTES, Rekey, SealedKeys};
use crate::ids::RequestId;
use crate::refusal::{Refusal, check_bound};

/// The data of flows, and the keys of reflected streams.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum FlowMessage {
    /// A datagram of a stream; a lost one is not repeated.
    #[n(11)]
    Datagram(#[n(0)] Datagram),
    /// A piece of an object; the transport repeats what is lost.
    #[n(12)]
    Chunk(#[n(0)] Chunk),
    /// A flow is complete: how much it was.
    #[n(13)]
    End {
        /// The number of the request that the flow serves.
        #[n(0)]
        id: RequestId,
        /// Datagrams sent; 0 for an object.
        #[n(1)]
        packets: u64,
        /// Payload bytes sent, without repetitions.
        #[n(2)]
        bytes: u64,
        /// SHA-256 over all payload in order.
        #[cbor(n(3), with = "minicbor::bytes")]
        digest: [u8; 32],
    },
    /// The receiver's counts: they keep a stream alive and give an object credit.
    #[n(14)]
    Report(#[n(0)] Report),
    /// An end of the flow ends it early.
    #[n(15)]
    Stop {
        /// The number of the request that the flow serves.
        #[n(0)]
        id: RequestId,
        /// The reason of the end that stops it.
        #[n(1)]
        reason: Reason,
    },
    /// The next epoch of a reflected stream has been drawn: what will open it.
    #[n(52)]
    Rekey(#[n(0)] Rekey),
    /// The keys of a reflected stream, sealed for the group's nodes: from its provider back along the way of
    /// the requests for it, and from a hub to each downstream of the stream.
    #[n(56)]
    SealedKeys(#[n(0)] SealedKeys),
    /// A piece of the body of a call, from its requester to its provider; the transport repeats what is lost. One
    /// without bytes is an empty body.
    #[n(82)]
    Body(#[n(0)] Chunk),
}

impl FlowMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::SealedKeys(keys) => check_bound(keys.sealed.len() <= MAX_SEALED_BYTES, "too long a sealed key"),
            Self::Datagram(_)
            | Self::Chunk(_)
            | Self::End { .. }
            | Self::Report(_)
            | Self::Stop { .. }
            | Self::Rekey(_)
            | Self::Body(_) => Ok(()),
        }
    }
}

/// The content of [`FlowMessage::Datagram`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Datagram {
    /// The number of the request that the flow serves.
    #[n(0)]
    pub id: RequestId,
    /// Counts the flow's datagrams from 0.
    #[n(1)]
    pub sequence: u64,
    /// The time of sending, microseconds since the acceptance, on the sender's clock.
    #[n(2)]
    pub sent_us: u64,
    /// The datagram as its source gave it.
    #[cbor(n(3), with = "bytes_codec")]
    pub payload: Bytes,
}

/// The content of [`FlowMessage::Chunk`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Chunk {
    /// The number of the request that the flow serves.
    #[n(0)]
    pub id: RequestId,
    /// The place of the piece in the object, bytes from its beginning.
    #[n(1)]
    pub offset: u64,
    /// The bytes of the piece.
    #[cbor(n(2), with = "bytes_codec")]
    pub payload: Bytes,
}

/// The content of [`FlowMessage::Report`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Report {
    /// The number of the request that the flow serves.
    #[n(0)]
    pub id: RequestId,
    /// Payload bytes received; for an object those from its beginning without a gap.
    #[n(1)]
    pub bytes: u64,
    /// Datagrams received, each counted once.
    #[n(2)]
    pub packets: u64,
    /// Datagrams missing between those received.
    #[n(3)]
    pub lost: u64,
    /// Interarrival jitter, microseconds (RFC 3550, section 6.4.1).
    #[n(4)]
    pub jitter_us: u32,
}
