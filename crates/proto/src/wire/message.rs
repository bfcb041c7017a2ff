//! The messages.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::{MAX_CANDIDATES, MAX_MESSAGE_BYTES, WireError};
use crate::address::{Address, SchemeSet};
use crate::grid::{Area, Cell};
use crate::ids::{NodeId, Nonce, RequestId};
use crate::record::{Capacity, MAX_ADDRESSES, Record, Version};
use crate::service::{Service, ServiceSet};

/// Everything that neighbours say to one another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Message {
    /// A node's record, new or changed. Answered by `Lease`.
    #[n(0)]
    Publish(#[n(0)] Record),
    /// The hub holds this version until `lease_ms` from now.
    #[n(1)]
    Lease {
        /// The version held.
        #[n(0)]
        version: Version,
        /// How long without a word from the node, milliseconds.
        #[n(1)]
        lease_ms: u32,
        /// Other hubs that the node may turn to; in the answer to `Publish` only.
        #[n(2)]
        siblings: Option<Vec<Address>>,
        /// Where the hub itself listens; in the answer to `Publish` only. An
        /// unspecified host means "where you see me".
        #[n(3)]
        addresses: Option<Vec<Address>>,
    },
    /// Keeps all of a node's entries. Answered by `Lease` or `Anew`.
    #[n(2)]
    Renew(#[n(0)] Renew),
    /// The hub does not hold the version that was renewed: publish it.
    #[n(3)]
    Anew,
    /// The node leaves: its entries of this version and older are gone at once.
    #[n(4)]
    Withdraw(#[n(0)] Version),
    /// A service is wanted.
    #[n(5)]
    Request(#[n(0)] Request),
    /// A hub hands a request to a provider, or to the hub at which the provider is.
    #[n(6)]
    Forward(#[n(0)] Forward),
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
        /// The request.
        #[n(0)]
        id: RequestId,
        /// Whose number `id` is. Set towards a hub by a provider that was told
        /// to answer the requester directly (`reply_to` not empty), because
        /// two requesters may count alike; `None` everywhere else.
        #[n(1)]
        requester: Option<NodeId>,
    },
    /// The answer to a lookup.
    #[n(10)]
    Found(#[n(0)] Found),
    /// One datagram of a stream.
    #[n(11)]
    Packet(#[n(0)] Packet),
    /// One piece of an object.
    #[n(12)]
    Chunk(#[n(0)] Chunk),
    /// A flow is complete: how much it was.
    #[n(13)]
    End {
        /// The flow.
        #[n(0)]
        id: RequestId,
        /// Datagrams sent; 0 for an object.
        #[n(1)]
        packets: u64,
        /// Payload bytes sent.
        #[n(2)]
        bytes: u64,
        /// SHA-256 over all payload in order.
        #[cbor(n(3), with = "minicbor::bytes")]
        digest: [u8; 32],
    },
    /// What the receiver has: keeps a stream alive, gives an object credit.
    #[n(14)]
    Report(#[n(0)] Report),
    /// One side ends a flow early.
    #[n(15)]
    Stop {
        /// The flow.
        #[n(0)]
        id: RequestId,
        /// Why.
        #[n(1)]
        reason: Reason,
    },
    /// Wants to hear of changes in an area.
    #[n(16)]
    Watch(#[n(0)] Watch),
    /// What has changed there.
    #[n(17)]
    Change(#[n(0)] Change),
    /// No longer wants to hear.
    #[n(18)]
    Unwatch(#[n(0)] RequestId),
    /// Is anybody there? Answered by `Pong` with the same token.
    #[n(19)]
    Ping(#[n(0)] u32),
    /// Yes.
    #[n(20)]
    Pong(#[n(0)] u32),
    /// A hub tells its peers that a node is with it from this version on:
    /// older entries are void.
    #[n(21)]
    Claim {
        /// The node.
        #[n(0)]
        node: NodeId,
        /// From which version on.
        #[n(1)]
        version: Version,
    },
    /// A hub looks into its peers' directories. Answered by `Found`.
    #[n(22)]
    Seek(#[n(0)] Seek),
}

/// How a request is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Mode {
    /// Hub → provider → requester directly.
    #[n(0)]
    #[default]
    Forward,
    /// Answer and data come back through the hub.
    #[n(1)]
    Relay,
    /// Only tell who offers it.
    #[n(2)]
    Locate,
}

/// What is asked of a provider beyond the service's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Params {
    /// How long a stream lasts, milliseconds; `None` is the provider's default (10 s).
    #[n(0)]
    pub duration_ms: Option<u32>,
    /// Transports that may serve it; `None` is any.
    #[n(1)]
    pub transports: Option<SchemeSet>,
}

/// See [`Message::Request`].
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
    pub mode: Mode,
    /// After this long the requester no longer waits for an acceptance, milliseconds.
    #[n(5)]
    pub deadline_ms: u32,
    /// How many providers to consider (`forward`, `relay`) or to list (`locate`); 0 is the default of the hub.
    #[n(6)]
    pub count: u8,
    /// More.
    #[n(7)]
    pub params: Option<Params>,
}

/// See [`Message::Forward`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Forward {
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
    #[n(4)]
    pub reply_to: Vec<Address>,
    /// How long the requester still waits for an acceptance, milliseconds.
    #[n(5)]
    pub deadline_ms: u32,
    /// From hub to hub: the provider that is meant.
    #[n(6)]
    pub provider: Option<NodeId>,
    /// More.
    #[n(7)]
    pub params: Option<Params>,
}

/// See [`Message::Accept`].
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
    pub offer: Offer,
    /// Where the provider is.
    #[n(3)]
    pub cell: Cell,
    /// Who provides; only where a hub relays, else the link says it.
    #[n(4)]
    pub provider: Option<NodeId>,
}

/// What an acceptance promises.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Offer {
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
    },
}

/// See [`Message::Decline`].
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

/// Why a request is not served, or a flow ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
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
    /// A limit on requests per neighbour.
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
}

/// See [`Message::Found`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Found {
    /// The request.
    #[n(0)]
    pub id: RequestId,
    /// Who offers it, the best first; at most [`MAX_CANDIDATES`].
    #[n(1)]
    pub candidates: Vec<Candidate>,
    /// How far the answer reaches.
    #[n(2)]
    pub coverage: Coverage,
}

/// How far the answer to a lookup reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Coverage {
    /// Everything that is known.
    #[n(0)]
    Whole,
    /// A hub that started less than a lease ago may not have heard of everyone.
    #[n(1)]
    Young,
    /// A hub did not answer in time.
    #[n(2)]
    Partial,
}

/// One provider, as a lookup shows it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Candidate {
    /// Who.
    #[n(0)]
    pub node: NodeId,
    /// The version of its record.
    #[n(1)]
    pub version: Version,
    /// Where.
    #[n(2)]
    pub cell: Cell,
    /// What else it offers.
    #[n(3)]
    pub services: ServiceSet,
    /// What it has left.
    #[n(4)]
    pub capacity: Capacity,
    /// Where to dial it.
    #[n(5)]
    pub addresses: Vec<Address>,
}

/// See [`Message::Renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Renew {
    /// The version to keep.
    #[n(0)]
    pub version: Version,
    /// What the node has left, if that has changed since it last said so.
    #[n(1)]
    pub capacity: Option<Capacity>,
}

/// See [`Message::Packet`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Packet {
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

/// See [`Message::Chunk`].
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

/// See [`Message::Report`].
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

/// See [`Message::Watch`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Watch {
    /// The watcher's number for it; the same number again renews it.
    #[n(0)]
    pub id: RequestId,
    /// What.
    #[n(1)]
    pub services: ServiceSet,
    /// Where.
    #[n(2)]
    pub area: Area,
    /// The greatest change that the watcher has seen; 0 asks for all there is.
    #[n(3)]
    pub seen: u64,
}

/// See [`Message::Change`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Change {
    /// The watch.
    #[n(0)]
    pub id: RequestId,
    /// Counts the changes of this watch, from 1.
    #[n(1)]
    pub number: u64,
    /// Came, moved or changed.
    #[n(2)]
    pub present: Vec<Candidate>,
    /// Gone from the area.
    #[n(3)]
    pub gone: Vec<NodeId>,
}

/// See [`Message::Seek`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Seek {
    /// The asking hub's number for it.
    #[n(0)]
    pub id: RequestId,
    /// What.
    #[n(1)]
    pub service: Service,
    /// Where.
    #[n(2)]
    pub area: Area,
    /// How many at most.
    #[n(3)]
    pub count: u8,
}

impl Message {
    /// Reads one message.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are no message of this version or a field
    /// is outside its limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(WireError::OutOfBounds("longer than a message may be"));
        }
        let mut decoder = minicbor::Decoder::new(bytes);
        let message: Self = decoder.decode().map_err(|error| WireError::Malformed(error.to_string()))?;
        if decoder.position() != bytes.len() {
            return Err(WireError::Malformed("bytes after the end".to_owned()));
        }
        message.check()?;
        Ok(message)
    }

    /// The message as bytes.
    pub fn encode(&self) -> Bytes {
        let mut buffer = Vec::with_capacity(64);
        match minicbor::encode(self, &mut buffer) {
            Ok(()) => Bytes::from(buffer),
            // A `Vec` takes every write, and no message has a fallible encoding of its own.
            Err(error) => unreachable!("encoding into memory cannot fail: {error}"),
        }
    }

    /// Whether every field is within its limits.
    fn check(&self) -> Result<(), WireError> {
        let bounded = |holds: bool, what| if holds { Ok(()) } else { Err(WireError::OutOfBounds(what)) };
        match self {
            Self::Publish(record) => {
                bounded(record.cell.is_on_grid(), "a cell off the grid")?;
                bounded(record.addresses.len() <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Lease { siblings, addresses, .. } => {
                let count = |list: &Option<Vec<Address>>| list.as_ref().map_or(0, Vec::len);
                bounded(count(siblings) <= MAX_CANDIDATES, "too many siblings")?;
                bounded(count(addresses) <= MAX_ADDRESSES, "too many addresses")
            }
            Self::Request(request) => bounded(request.area.is_valid(), "an area off the grid"),
            Self::Forward(forward) => bounded(forward.reply_to.len() <= MAX_ADDRESSES, "too many addresses"),
            Self::Accept(accept) => bounded(accept.cell.is_on_grid(), "a cell off the grid"),
            Self::Found(found) => {
                bounded(found.candidates.len() <= MAX_CANDIDATES, "too many candidates")?;
                check_candidates(&found.candidates)
            }
            Self::Watch(watch) => bounded(watch.area.is_valid(), "an area off the grid"),
            Self::Change(change) => check_candidates(&change.present),
            Self::Seek(seek) => bounded(seek.area.is_valid(), "an area off the grid"),
            _ => Ok(()),
        }
    }
}

fn check_candidates(candidates: &[Candidate]) -> Result<(), WireError> {
    let sound = |candidate: &Candidate| candidate.cell.is_on_grid() && candidate.addresses.len() <= MAX_ADDRESSES;
    if candidates.iter().all(sound) { Ok(()) } else { Err(WireError::OutOfBounds("a candidate off the grid")) }
}

/// `Bytes` (or an absent one) as a CBOR byte string.
mod bytes_codec {
    use bytes::Bytes;
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    /// `Bytes` and `Option<Bytes>`, which differ in whether `null` is allowed.
    pub(super) trait Blob: Sized {
        fn as_slice(&self) -> Option<&[u8]>;
        fn from_slice(slice: Option<&[u8]>) -> Option<Self>;
    }

    impl Blob for Bytes {
        fn as_slice(&self) -> Option<&[u8]> {
            Some(self)
        }

        fn from_slice(slice: Option<&[u8]>) -> Option<Self> {
            slice.map(Self::copy_from_slice)
        }
    }

    impl Blob for Option<Bytes> {
        fn as_slice(&self) -> Option<&[u8]> {
            self.as_deref()
        }

        fn from_slice(slice: Option<&[u8]>) -> Option<Self> {
            Some(slice.map(Bytes::copy_from_slice))
        }
    }

    pub(super) fn encode<B: Blob, C, W: Write>(
        blob: &B,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match blob.as_slice() {
            Some(slice) => e.bytes(slice)?.ok(),
            None => e.null()?.ok(),
        }
    }

    pub(super) fn decode<'b, B: Blob, C>(d: &mut Decoder<'b>, _: &mut C) -> Result<B, DecodeError> {
        let slice = if d.datatype()? == minicbor::data::Type::Null {
            d.null()?;
            None
        } else {
            Some(d.bytes()?)
        };
        B::from_slice(slice).ok_or_else(|| DecodeError::message("a byte string is missing"))
    }
}
