//! Messages about a request until data flows: the request, its pushes, and the answers.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::push::{MAX_DELIVERY_S, MAX_OBJECT_NAME_BYTES, Push, PushState};
use super::reason::Reason;
use super::reflection::{CopyTarget, StreamKeys};
use super::request_spec::RequestSpec;
use super::route::{HubHop, Route};
use super::sentence::Sentence;
use super::service_request::InvalidRequest;
use super::trace::HopReport;
use super::{bytes_codec, codec};
use crate::address::{self, Address};
use crate::grid::Cell;
use crate::ids::{NodeId, Nonce, RequestId};
use crate::refusal::{Refusal, check_bound};

/// The longest media type, bytes.
const MAX_FORMAT_BYTES: usize = 256;

/// The longest object that travels in an acceptance; providers put shorter ones there.
const MAX_INLINE_BYTES: usize = 4 * 1024;

/// Requests for services and pushed objects, their answers, and the reports on their way.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum RequestMessage {
    /// A node requests a service, of a hub or of a provider; a hub hands the request to a
    /// provider, or passes it on to another hub. A hub answers another hub by `RequestAck`, or by a
    /// refusal; success is for the provider to tell.
    #[n(5)]
    Request(#[n(0)] Request),
    /// The provider serves the request. First data may travel along.
    #[n(7)]
    Accept(#[n(0)] Accept),
    /// A request is not served: a provider to its hub (which tries the next
    /// one), or the final word to the requester.
    #[n(8)]
    Decline(#[n(0)] Decline),
    /// The provider has the request and is reaching for the requester: wait.
    #[n(9)]
    Pending {
        /// The number of the request.
        #[n(0)]
        id: RequestId,
        /// The requester that `id` is a number of. Set towards a hub by a provider that was told to answer the
        /// requester directly (`reply_to` not empty), because two requesters may count alike; `None` everywhere
        /// else.
        #[n(1)]
        requester: Option<NodeId>,
        /// The provider, and where the requester may reach it if it does not reach the requester;
        /// told by the hub that handed the request to it.
        #[n(2)]
        provider: Option<ProviderAddress>,
    },
    /// A hub has a request or a search and takes care of it.
    #[n(26)]
    RequestAck {
        /// The number of the request or the lookup.
        #[n(0)]
        id: RequestId,
        /// The requester that `id` is a number of, if the provider is to answer directly.
        #[n(1)]
        requester: Option<NodeId>,
        /// The provider that has it now, set for a request for a reflected stream only: the hubs on its way may
        /// reflect that provider's stream already.
        #[n(2)]
        provider: Option<NodeId>,
    },
    /// The report of a hub or a provider about a request that is traced. Goes back along the way of the
    /// request.
    #[n(45)]
    HopReport(#[n(0)] HopReport),
    /// A node offers an object to another one, until that says what has become
    /// of it. Answered by `Pushed`, and by a request for the object.
    #[n(50)]
    Push(#[n(0)] Push),
    /// The progress of an object that was offered.
    #[n(51)]
    PushStatus {
        /// The sender's number for its offer.
        #[n(0)]
        id: RequestId,
        /// The progress at the receiver.
        #[n(1)]
        state: PushState,
    },
    /// A message between two nodes that cannot reach each other: hubs pass it on along the way of a
    /// request with [`Request::connect_to`].
    #[n(80)]
    Tunneled {
        /// The number of the request that connects the nodes.
        #[n(0)]
        id: RequestId,
        /// An encoded message for the node at the other end.
        #[cbor(n(1), with = "bytes_codec")]
        message: Bytes,
    },
    /// The provider of a call has it, and asks the requester for its body.
    #[n(81)]
    BodyRequest(#[n(0)] BodyRequest),
}

impl RequestMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::Request(request) => request.check_limits(),
            Self::Accept(accept) => accept.flow.check_limits(),
            Self::HopReport(HopReport { hop, .. }) => hop.check_limits(),
            Self::Push(push) => {
                let left_s = push.delivery.map_or(0, |delivery| delivery.left_s);
                check_bound(push.name.len() <= MAX_OBJECT_NAME_BYTES, "too long a name")?;
                check_bound(left_s <= MAX_DELIVERY_S, "too long a delivery")
            }
            Self::Decline(_)
            | Self::Pending { .. }
            | Self::RequestAck { .. }
            | Self::PushStatus { .. }
            | Self::Tunneled { .. }
            | Self::BodyRequest(_) => Ok(()),
        }
    }
}

impl Request {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        self.spec.check().map_err(|InvalidRequest(why)| Refusal::OutOfBounds(why))?;
        check_bound(self.copy_target.is_none_or(|target| target.to.port() != 0), "a stream to no port")
    }
}

impl FlowDescription {
    fn check_limits(&self) -> Result<(), Refusal> {
        let (format, inline) = match self {
            Self::Stream { format, .. } => (format, 0),
            Self::Object { format, inline, .. } => (format, inline.as_ref().map_or(0, Bytes::len)),
        };
        check_bound(format.len() <= MAX_FORMAT_BYTES, "too long a format")?;
        check_bound(inline <= MAX_INLINE_BYTES, "too long an object for an acceptance")
    }
}

/// A request on its way: see [`RequestMessage::Request`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Request {
    /// The requester's number for it, or the hub's where it relays. The same number sent again is
    /// the same request.
    #[n(0)]
    pub id: RequestId,
    /// The requester's secret for it, which an acceptance has to show.
    #[n(1)]
    pub nonce: Nonce,
    /// The request itself, as the requester wrote it.
    #[n(2)]
    pub spec: RequestSpec,
    /// The requester stops waiting for an acceptance after this time, milliseconds.
    #[n(3)]
    pub deadline_ms: u32,
    /// Added by the hubs; `None` where the requester itself speaks.
    #[n(4)]
    pub route: Option<Route>,
    /// The destination of a reflected copy; `None` asks for a stream of the requester's own.
    #[n(5)]
    pub copy_target: Option<CopyTarget>,
    /// The only node that is meant, of which nothing but a connection is wanted: it dials the
    /// requester, or the two speak through [tunnels](super::RequestMessage::Tunneled) of the hubs.
    #[n(6)]
    pub connect_to: Option<NodeId>,
}

impl Request {
    /// A request as its requester says it.
    pub fn new(id: RequestId, nonce: Nonce, spec: impl Into<RequestSpec>, deadline_ms: u32) -> Self {
        Self { id, nonce, spec: spec.into(), deadline_ms, route: None, copy_target: None, connect_to: None }
    }

    /// The addresses of the requester, where a hub tells them.
    pub fn reply_to(&self) -> &[Address] {
        self.route.as_ref().map_or(&[], |route| &route.reply_to)
    }

    /// The hub's instruction to another hub; `None` from and to nodes.
    pub fn hop(&self) -> Option<HubHop> {
        self.route.as_ref().and_then(|route| route.hop)
    }
}

/// The content of [`RequestMessage::Accept`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Accept {
    /// The number of the request.
    #[n(0)]
    pub id: RequestId,
    /// The secret of the request: an acceptance without it is dropped.
    #[n(1)]
    pub nonce: Nonce,
    /// The flow that the provider begins.
    #[n(2)]
    pub flow: FlowDescription,
    /// The cell of the provider, on the grid.
    #[n(3)]
    pub cell: Cell,
    /// The provider; only from a hub that relays, as otherwise the connection tells.
    #[n(4)]
    pub provider: Option<NodeId>,
    /// The keys of the packets of a reflected stream; `None`: its packets come as
    /// [`FlowMessage::Datagram`](super::FlowMessage::Datagram).
    #[n(5)]
    pub stream_keys: Option<StreamKeys>,
}

/// The flow that an acceptance promises, with its format.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum FlowDescription {
    /// A stream: datagrams until `duration_ms` have passed.
    #[n(0)]
    Stream {
        /// The stream ends after this time, milliseconds.
        #[n(0)]
        duration_ms: u32,
        /// Payload rate to expect, bits per second.
        #[n(1)]
        bits_per_second: u32,
        /// Media type or format of the payload; for the receiver's choice of a sink.
        #[cbor(n(2), with = "codec::media_type")]
        format: String,
    },
    /// An object: so many bytes with a digest.
    #[n(1)]
    Object {
        /// The size of the whole object, bytes.
        #[n(0)]
        bytes: u64,
        /// The SHA-256 of the whole object.
        #[cbor(n(1), with = "minicbor::bytes")]
        digest: [u8; 32],
        /// The media type of the object, at most 256 bytes long.
        #[cbor(n(2), with = "codec::media_type")]
        format: String,
        /// The whole of it, if it is small enough to travel here.
        #[cbor(n(3), with = "bytes_codec")]
        inline: Option<Bytes>,
        /// The beginning of the data, if the requester has the bytes before it; `None` is the beginning of the
        /// object.
        #[n(4)]
        offset: Option<u64>,
    },
}

/// The content of [`RequestMessage::BodyRequest`]. Answered by [`FlowMessage::Body`](super::FlowMessage::Body).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct BodyRequest {
    /// The number of the request, or the hub's where it relays.
    #[n(0)]
    pub id: RequestId,
    /// The secret of the request: without it no body is given.
    #[n(1)]
    pub nonce: Nonce,
    /// Drawn by the provider for this call. A requester gives the body for one run of each provider, so that none
    /// runs a call twice.
    #[n(2)]
    pub run: u64,
    /// The provider has so many bytes of the body.
    #[n(3)]
    pub offset: u32,
    /// The cell of the provider, on the grid.
    #[n(4)]
    pub cell: Cell,
    /// The provider; only from a hub that relays, as otherwise the connection tells.
    #[n(5)]
    pub provider: Option<NodeId>,
}

/// The content of [`RequestMessage::Decline`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Decline {
    /// The number of the request.
    #[n(0)]
    pub id: RequestId,
    /// The reason of the provider or the hub.
    #[n(1)]
    pub reason: Reason,
    /// The requester may try again after this time, milliseconds.
    #[n(2)]
    pub retry_after_ms: Option<u32>,
    /// The requester that `id` is a number of. Set towards a hub by a provider that was told to answer the
    /// requester directly (`reply_to` not empty), because two requesters may count alike; `None` everywhere
    /// else.
    #[n(3)]
    pub requester: Option<NodeId>,
    /// The reason of the provider's program in its own words, with [`Reason::SourceFailed`]. Hubs pass it on.
    #[n(4)]
    pub sentence: Option<Sentence>,
}

impl Decline {
    /// A decline without anything more.
    pub const fn new(id: RequestId, reason: Reason) -> Self {
        Self { id, reason, retry_after_ms: None, requester: None, sentence: None }
    }
}

/// A provider that has a request, and where it can be dialled.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ProviderAddress {
    /// The provider that has the request.
    #[n(0)]
    pub node: NodeId,
    /// Addresses to dial, the preferred transport first; at most
    /// [`MAX_ADDRESSES`](crate::record::MAX_ADDRESSES).
    #[cbor(n(1), with = "address::list", has_nil)]
    pub addresses: Vec<Address>,
}
