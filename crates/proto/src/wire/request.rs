//! What is said of a request until data flows: the asking and the answers.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::bytes_codec;
use super::open::{self, open};
use super::reflection::{CopyTarget, StreamKeys};
use crate::address::{Address, SchemeSet};
use crate::delivery::{DeliveryClass, DeliveryPreferences, Profile};
use crate::grid::{Area, Cell};
use crate::ids::{NodeId, Nonce, RequestId};
use crate::node_selector::NodeSelector;
use crate::scope::Scope;
use crate::service::Service;

/// How a request is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode)]
#[cbor(index_only)]
pub enum RequestMode {
    /// Hub → provider → requester directly.
    #[n(0)]
    #[default]
    Forward,
    /// Answer and data come back through the hub.
    #[n(1)]
    Relay,
    /// Only tell who offers it.
    #[n(2)]
    Lookup,
}

open!(RequestMode, [Forward, Relay, Lookup]);

/// What is asked of a provider beyond the service's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct RequestParams {
    /// How long a stream lasts, milliseconds; `None` is the provider's default (10 s).
    #[n(0)]
    pub duration_ms: Option<u32>,
    /// Transports that may serve it; `None` is any.
    #[n(1)]
    pub transports: Option<SchemeSet>,
    /// Whether everybody on the way tells the requester, by
    /// [`Message::Traced`](super::Message::HopReport), what becomes of it; `None` is no.
    #[n(2)]
    pub trace: Option<bool>,
    /// What matters to who asks; `None` is nothing in particular. Who does not
    /// know this field serves without it.
    #[cbor(n(3), with = "open::optional", has_nil)]
    pub profile: Option<Profile>,
    /// What the requester has of an object already; `None` is nothing. Who does
    /// not know this field, or has another object, serves from the beginning.
    #[n(4)]
    pub resume: Option<ResumePoint>,
    /// Whether the object that `resume` names is wanted, because the provider
    /// has offered it by [`Message::Push`](super::Message::Push); `None` is no.
    #[n(5)]
    pub pushed: Option<bool>,
    /// Where a reflected copy of a stream is wanted; `None`: the provider sends
    /// a stream of the requester's own. Who does not know this field does that, too.
    #[n(6)]
    pub copy_target: Option<CopyTarget>,
    /// Whether the provider may end a stream of the requester's own by
    /// [`Reason::Reflected`], so that it asks for the reflected one; `None` is no.
    #[n(7)]
    pub reflectable: Option<bool>,
    /// Over which paths the data shall come; `None` leaves it to the profile and
    /// the provider. Who does not know this field serves without it.
    #[cbor(n(8), with = "open::optional", has_nil)]
    pub delivery_class: Option<DeliveryClass>,
    /// The only node that is meant, of which nothing but a way to it is wanted: it dials the
    /// requester, or what the two say goes [through](super::Message::Tunneled) the hubs. Who does
    /// not know this field would provide the service.
    #[n(9)]
    pub connect_to: Option<NodeId>,
}

/// The beginning of an object that a requester has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ResumePoint {
    /// The object's SHA-256.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub digest: [u8; 32],
    /// How many of its bytes.
    #[n(1)]
    pub offset: u64,
}

impl RequestParams {
    /// Whether the way of the request is to be told.
    pub fn is_traced(this: Option<Self>) -> bool {
        this.and_then(|params| params.trace).unwrap_or(false)
    }

    /// How who asks wants the data delivered.
    pub fn delivery_preferences(this: Option<Self>) -> DeliveryPreferences {
        this.map(|Self { profile, delivery_class: class, .. }| DeliveryPreferences { profile, class })
            .unwrap_or_default()
    }

    /// Whether an object is wanted that was offered.
    pub fn is_pushed(this: Option<Self>) -> bool {
        this.and_then(|params| params.pushed).unwrap_or(false)
    }

    /// Where a reflected copy is wanted.
    pub fn copy_target(this: Option<Self>) -> Option<CopyTarget> {
        this.and_then(|params| params.copy_target)
    }

    /// Whether the requester can do with a reflected stream instead of its own.
    pub fn is_reflectable(this: Option<Self>) -> bool {
        this.and_then(|params| params.reflectable).unwrap_or(false)
    }

    /// The node to which nothing but a way is wanted.
    pub fn connect_to(this: Option<Self>) -> Option<NodeId> {
        this.and_then(|params| params.connect_to)
    }

    /// What the requester has already.
    pub fn resume_point(this: Option<Self>) -> Option<ResumePoint> {
        this.and_then(|params| params.resume)
    }
}

/// See [`Message::Request`](super::Message::Request).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Request {
    /// The requester's number for it. The same number sent again is the same request.
    #[n(0)]
    pub id: RequestId,
    /// The requester's secret for it.
    #[n(1)]
    pub nonce: Nonce,
    /// What.
    #[n(2)]
    pub service: Service,
    /// Where.
    #[n(3)]
    pub area: Area,
    /// How.
    #[n(4)]
    pub mode: RequestMode,
    /// After this long the requester no longer waits for an acceptance, milliseconds.
    #[n(5)]
    pub deadline_ms: u32,
    /// How many providers to consider (`forward`, `relay`) or to list (`lookup`); 0 is the default of the hub.
    #[n(6)]
    pub count: u8,
    /// More.
    #[n(7)]
    pub params: Option<RequestParams>,
    /// How far it may go; `None` is everywhere.
    #[n(8)]
    pub scope: Option<Scope>,
    /// Of a lookup: the answer tells names, and lists nobody but who is called so; `None` lists
    /// everybody without names. Who does not know this field does that, too.
    #[n(9)]
    pub selector: Option<NodeSelector>,
}

/// See [`Message::Forward`](super::Message::ProviderRequest).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ProviderRequest {
    /// The number under which to answer.
    #[n(0)]
    pub id: RequestId,
    /// The secret to show.
    #[n(1)]
    pub nonce: Nonce,
    /// What.
    #[n(2)]
    pub service: Service,
    /// Who asked.
    #[n(3)]
    pub requester: NodeId,
    /// Where to answer, the requester's preferred transport first; empty:
    /// answer to the hub, which relays.
    #[cbor(n(4), with = "open::addresses", has_nil)]
    pub reply_to: Vec<Address>,
    /// How long the requester still waits for an acceptance, milliseconds.
    #[n(5)]
    pub deadline_ms: u32,
    /// More. (Field 6 is reserved.)
    #[n(7)]
    pub params: Option<RequestParams>,
}

/// See [`Message::Accept`](super::Message::Accept).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Accept {
    /// The request.
    #[n(0)]
    pub id: RequestId,
    /// Its secret.
    #[n(1)]
    pub nonce: Nonce,
    /// What comes.
    #[n(2)]
    pub flow: FlowDescription,
    /// Where the provider is.
    #[n(3)]
    pub cell: Cell,
    /// Who provides; only where a hub relays, else the connection says it.
    #[n(4)]
    pub provider: Option<NodeId>,
    /// What opens the packets, where a stream is reflected; `None`: its
    /// packets come as [`Message::Datagram`](super::Message::Datagram).
    #[n(5)]
    pub stream_keys: Option<StreamKeys>,
}

/// What an acceptance promises.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum FlowDescription {
    /// Datagrams until `duration_ms` have passed.
    #[n(0)]
    Stream {
        /// How long, milliseconds.
        #[n(0)]
        duration_ms: u32,
        /// Payload rate to expect, bits per second.
        #[n(1)]
        bits_per_second: u32,
        /// Media type or format of the payload; for the receiver's choice of a sink.
        #[n(2)]
        format: String,
    },
    /// One object.
    #[n(1)]
    Object {
        /// Its size.
        #[n(0)]
        bytes: u64,
        /// Its SHA-256.
        #[cbor(n(1), with = "minicbor::bytes")]
        digest: [u8; 32],
        /// Its media type.
        #[n(2)]
        format: String,
        /// The whole of it, if it is small enough to travel here.
        #[cbor(n(3), with = "bytes_codec")]
        inline: Option<Bytes>,
        /// Where its data begins, because the requester has what comes before;
        /// `None` is at the beginning.
        #[n(4)]
        offset: Option<u64>,
    },
}

/// See [`Message::Decline`](super::Message::Decline).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Decline {
    /// The request.
    #[n(0)]
    pub id: RequestId,
    /// Why.
    #[n(1)]
    pub reason: Reason,
    /// When it may be worth asking again, milliseconds.
    #[n(2)]
    pub retry_after_ms: Option<u32>,
    /// Whose number `id` is. Set towards a hub by a provider that was told to
    /// answer the requester directly (`reply_to` not empty), because two
    /// requesters may count alike; `None` everywhere else.
    #[n(3)]
    pub requester: Option<NodeId>,
}

/// A provider that has a request, and where it can be dialled.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ProviderAddress {
    /// The provider.
    #[n(0)]
    pub node: NodeId,
    /// At most [`MAX_ADDRESSES`](crate::record::MAX_ADDRESSES).
    #[cbor(n(1), with = "open::addresses", has_nil)]
    pub addresses: Vec<Address>,
}

/// Why a request is not served, or a flow ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
#[non_exhaustive]
pub enum Reason {
    /// Nobody offers it there.
    #[n(0)]
    NotFound,
    /// The hub started less than a lease ago and may not have heard of everyone.
    #[n(1)]
    NotYetKnown,
    /// Every provider there is at its limit.
    #[n(2)]
    Busy,
    /// No transport that both ends have and the request allows.
    #[n(3)]
    NoTransport,
    /// The other end could not be reached.
    #[n(4)]
    Unreachable,
    /// The provider's source gave nothing.
    #[n(5)]
    SourceFailed,
    /// The deadline has passed.
    #[n(6)]
    TimedOut,
    /// The one who says it is leaving.
    #[n(7)]
    Leaving,
    /// A limit on requests per remote.
    #[n(8)]
    TooMany,
    /// The sender's role or state does not allow it.
    #[n(9)]
    NotAllowed,
    /// The requester no longer wants it.
    #[n(10)]
    Cancelled,
    /// The other end broke the protocol's rules.
    #[n(11)]
    Protocol,
    /// Nobody offers it in the part of the network that is left: the way to
    /// the hubs above is cut.
    #[n(12)]
    UnreachableAbove,
    /// A super node has no room to reflect it.
    #[n(13)]
    Saturated,
    /// It is reflected from now on: ask for that.
    #[n(14)]
    Reflected,
    /// One that only later versions tell.
    #[n(15)]
    Unspecified,
    /// It is of a later version than who was asked.
    #[n(16)]
    UnsupportedVersion,
}

open!(Reason, [NotFound, NotYetKnown, Busy, NoTransport, Unreachable, SourceFailed, TimedOut, Leaving, TooMany, NotAllowed, Cancelled, Protocol, UnreachableAbove, Saturated, Reflected, Unspecified, UnsupportedVersion], else Unspecified);
