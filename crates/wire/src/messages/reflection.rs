//! Messages about a stream that super nodes reflect: the destination of a copy, and the keys of the stream.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::{WireError, bytes_codec, codec};
use crate::grid::Cell;
use crate::ids::{NodeId, RequestId};
use crate::reflection::{Epoch, EpochSecret, StreamId, StreamTag};
use crate::refusal::Refusal;
use crate::service::Service;

/// The longest [`SealedKeys::sealed`], bytes: at least twice what a provider seals.
pub const MAX_SEALED_BYTES: usize = 512;

/// The destination of a copy of a reflected stream: see [`Request::copy_target`](super::Request::copy_target).
/// Each hub on the way puts itself in the place of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct CopyTarget {
    /// The address of the destination. An unspecified host means "where you see me".
    #[cbor(n(0), with = "socket_codec")]
    pub to: SocketAddr,
    /// The tag that the destination has drawn: it takes no stream under another one.
    #[n(1)]
    pub tag: StreamTag,
    /// The number of super nodes that reflect it further on.
    #[n(2)]
    pub hops: u8,
    /// From a requester to its home: the only provider that is meant.
    #[n(3)]
    pub provider: Option<NodeId>,
    /// From a requester to the hub that sends it: whether it has the stream already, by another way,
    /// and needs nothing of before; `None` is no.
    #[n(4)]
    pub is_resuming: Option<bool>,
}

/// Source address of the streams that a hub reflects. An unspecified host means "where you see me".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct MediaAddress(#[cbor(n(0), with = "socket_codec")] pub SocketAddr);

/// An acceptance's part about a reflected stream: what opens its packets, now
/// and soon. Between provider and requester only.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct StreamKeys {
    /// The stream that the keys open.
    #[n(0)]
    pub stream: StreamId,
    /// The epoch of the packets at present.
    #[n(1)]
    pub epoch: Epoch,
    /// The secret that opens packets of `epoch`.
    #[n(2)]
    pub secret: EpochSecret,
    /// The epoch that follows, if it has been drawn already.
    #[n(3)]
    pub next: Option<(Epoch, EpochSecret)>,
}

/// The content of [`FlowMessage::Rekey`](super::FlowMessage::Rekey).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Rekey {
    /// The request by which the stream is had.
    #[n(0)]
    pub id: RequestId,
    /// The stream with a new epoch.
    #[n(1)]
    pub stream: StreamId,
    /// The epoch that begins soon.
    #[n(2)]
    pub epoch: Epoch,
    /// The secret that opens packets of `epoch`.
    #[n(3)]
    pub secret: EpochSecret,
}

/// The content of [`FlowMessage::SealedKeys`](super::FlowMessage::SealedKeys).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct SealedKeys {
    /// The request by which the stream is wanted; to its requester only.
    #[n(0)]
    pub id: Option<RequestId>,
    /// The service that the stream is of.
    #[n(1)]
    pub service: Service,
    /// The node that publishes the stream.
    #[n(2)]
    pub provider: NodeId,
    /// The most further hubs that it may pass.
    #[n(3)]
    pub hops_left: u8,
    /// An [`ProvisionalAccept`], sealed for the group's nodes; at most [`MAX_SEALED_BYTES`].
    #[cbor(n(4), with = "bytes_codec")]
    pub sealed: Bytes,
}

/// An acceptance's part about a reflected stream, as it is left sealed for later requesters.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ProvisionalAccept {
    /// The stream and the secrets that open it.
    #[n(0)]
    pub stream_keys: StreamKeys,
    /// Payload rate to expect, bits per second.
    #[n(1)]
    pub bits_per_second: u32,
    /// Media type or format of the payload.
    #[cbor(n(2), with = "codec::media_type")]
    pub format: String,
    /// The cell of the provider, on the grid.
    #[n(3)]
    pub cell: Cell,
}

impl ProvisionalAccept {
    /// The bytes that the provider seals.
    pub fn encode(&self) -> Vec<u8> {
        match minicbor::to_vec(self) {
            Ok(bytes) => bytes,
            // A `Vec` takes every write, and nothing here has a fallible encoding of its own.
            Err(error) => unreachable!("encoding into memory cannot fail: {error}"),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are none, or its place is off the grid.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        minicbor::decode(bytes).map_err(|error| match Refusal::from_error(&error) {
            Some(Refusal::OutOfBounds(violation)) => WireError::OutOfBounds(violation),
            Some(Refusal::LaterValue) | None => WireError::Malformed(error.to_string()),
        })
    }
}

/// A socket's address as the bytes of its host, 4 or 16, and of its port, 2.
mod socket_codec {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    use super::*;

    pub(super) fn encode<C, W: Write>(
        at: &SocketAddr,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let mut bytes = match at.ip() {
            IpAddr::V4(host) => host.octets().to_vec(),
            IpAddr::V6(host) => host.octets().to_vec(),
        };
        bytes.extend(at.port().to_be_bytes());
        e.bytes(&bytes)?.ok()
    }

    pub(super) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<SocketAddr, DecodeError> {
        let wrong = || DecodeError::message("a socket's address has 6 or 18 bytes");
        let (host, port) = d.bytes()?.split_last_chunk::<2>().ok_or_else(wrong)?;
        let host = match host.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(host).map(Ipv4Addr::from).map_err(|_| wrong())?),
            _ => IpAddr::from(<[u8; 16]>::try_from(host).map(Ipv6Addr::from).map_err(|_| wrong())?),
        };
        Ok(SocketAddr::new(host, u16::from_be_bytes(*port)))
    }
}
