//! The messages.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::flow::{Chunk, Datagram, Report};
use super::hello::Hello;
use super::hierarchy::{HomeChanged, Summary};
use super::lookup::{HubLookup, LookupResult, Watch, WatchChange};
use super::multicast::{MulticastCandidate, MulticastRequest, MulticastSuppression};
use super::open;
use super::push::{Push, PushState};
use super::reflection::{MediaAddress, Rekey, SealedKeys};
use super::replication::{Adopt, ReplicaUpdate, ResyncRequest};
use super::request::{Accept, Decline, ProviderAddress, Reason, Request};
use super::room::{JoinRoom, LeaveRoom, Roster};
use super::trace::HopReport;
use super::{MAX_MESSAGE_BYTES, WireError, bytes_codec, codec};
use crate::address::Address;
use crate::ids::{NodeId, RequestId};
use crate::record::{Capacity, Record, Version};

/// Everything that remotes say to one another.
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
        /// Other hubs that the node may turn to, as long as it has no standby.
        #[cbor(n(2), with = "open::addresses", has_nil)]
        siblings: Option<Vec<Address>>,
        /// Where the hub itself listens, beside `siblings`. An unspecified host means "where you see me".
        #[cbor(n(3), with = "open::addresses", has_nil)]
        addresses: Option<Vec<Address>>,
        /// The address from which the hub sends the streams that it reflects; in the answers to
        /// `Publish` and `Adopt` only. An unspecified host means "where you see me".
        #[n(4)]
        media: Option<MediaAddress>,
    },
    /// Keeps all of a node's entries. Answered by `Lease` or `UnknownVersion`.
    #[n(2)]
    Renew(#[n(0)] Renew),
    /// The hub does not hold the version that was renewed: publish it.
    #[n(3)]
    UnknownVersion,
    /// The node leaves: its entries of this version and older are gone at once.
    #[n(4)]
    Withdraw(#[n(0)] Version),
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
        /// The request.
        #[n(0)]
        id: RequestId,
        /// Whose number `id` is. Set towards a hub by a provider that was told
        /// to answer the requester directly (`reply_to` not empty), because
        /// two requesters may count alike; `None` everywhere else.
        #[n(1)]
        requester: Option<NodeId>,
        /// The provider, and where the requester may reach it if it does not reach the requester;
        /// told by the hub that handed the request to it.
        #[n(2)]
        provider: Option<ProviderAddress>,
    },
    /// The answer to a lookup.
    #[n(10)]
    LookupResult(#[n(0)] LookupResult),
    /// One datagram of a stream.
    #[n(11)]
    Datagram(#[n(0)] Datagram),
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
    WatchChange(#[n(0)] WatchChange),
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
    /// A hub asks other hubs what they know. Answered by `Found`.
    #[n(22)]
    HubLookup(#[n(0)] HubLookup),
    /// A hub of this tier takes the other one as its parent.
    #[n(23)]
    RegisterChild {
        /// The tier of the one who says it.
        #[n(0)]
        tier: u8,
    },
    /// Where a hub has something, itself or below it: to its parents, and from
    /// top to top to those who own the patches.
    #[n(24)]
    Summary(#[n(0)] Summary),
    /// A hub has a request or a search and takes care of it.
    #[n(26)]
    RequestAck {
        /// The request, or the search.
        #[n(0)]
        id: RequestId,
        /// Whose number `id` is, where the provider is to answer directly.
        #[n(1)]
        requester: Option<NodeId>,
        /// Which provider has it now, said of a request for a reflected stream
        /// only: the hubs on its way may carry that provider's stream already.
        #[n(2)]
        provider: Option<NodeId>,
    },
    /// A node has come to this hub from another home, which is to hear of it:
    /// a node to its new home, and on from hub to hub.
    #[n(27)]
    HomeChanged(#[n(0)] HomeChanged),
    /// What this connection is for: copies of records only (true), or all
    /// that peers say to one another.
    #[n(28)]
    StandbyOnly(#[n(0)] bool),
    /// A standby cannot follow what a home tells it: it wants whole records.
    #[n(29)]
    ResyncRequest(#[n(0)] ResyncRequest),
    /// A node tells its home which hub stands by: one with which it has an
    /// connection as well, and which the home keeps up to date.
    #[n(30)]
    SetStandby {
        /// The hub.
        #[n(0)]
        hub: NodeId,
        /// Where the node has found it, so that the home does, too.
        #[cbor(n(1), with = "open::addresses", has_nil)]
        addresses: Option<Vec<Address>>,
    },
    /// A node tells its standby that it is the home now. Answered by `Lease`,
    /// or by `UnknownVersion` if the version that is meant is not held.
    #[n(31)]
    Adopt(#[n(0)] Adopt),
    /// A home tells a standby about the nodes that have named it. Answered by
    /// `ResyncRequest` when it cannot be followed.
    #[n(32)]
    ReplicaUpdate(#[n(0)] ReplicaUpdate),
    /// Too many publish at once: publish again after so many milliseconds.
    #[n(33)]
    RetryAfter(#[n(0)] u32),
    /// The hub is leaving: turn to the standby, within a second, so that not all do
    /// at once. What is under way goes on over this connection until the hub closes it.
    #[n(34)]
    Handover,
    /// Who is in the group of super nodes, in the words of the membership
    /// protocol; at most [`MAX_GOSSIP_BYTES`](super::MAX_GOSSIP_BYTES).
    #[n(35)]
    Gossip(#[cbor(n(0), with = "bytes_codec")] Bytes),
    /// A super node tells another one how much it has to do.
    #[n(36)]
    HubLoad {
        /// How many nodes it has; the greatest number says that it takes none in.
        #[n(0)]
        leases: u32,
        /// What is left of its uplink for copies of reflected streams, kbit/s;
        /// the greatest number is no limit. Not said by one that sends none in
        /// the place of others.
        #[n(1)]
        residual_kbps: Option<u32>,
    },
    /// A hub tells a node to make another one its home: a new node instead of
    /// a `Lease`, one that is here so that all have about as many. The node
    /// follows twice a minute and otherwise publishes again.
    #[n(37)]
    Redirect(#[cbor(n(0), with = "open::addresses", has_nil)] Vec<Address>),
    /// Who on this link offers a service? By multicast only.
    #[n(40)]
    MulticastRequest(#[n(0)] MulticastRequest),
    /// An inquiry is being answered: the others need not. By multicast only.
    #[n(41)]
    MulticastSuppression(#[n(0)] MulticastSuppression),
    /// Here is one who offers what an inquiry only wants to know of. By
    /// multicast only.
    #[n(42)]
    MulticastCandidate(#[n(0)] MulticastCandidate),
    /// What became of a request that is traced, at one hub or provider. Goes
    /// back along the way of the request.
    #[n(45)]
    HopReport(#[n(0)] HopReport),
    /// A node offers an object to another one, until that says what has become
    /// of it. Answered by `Pushed`, and by a request for the object.
    #[n(50)]
    Push(#[n(0)] Push),
    /// What has become of an object that was offered.
    #[n(51)]
    PushStatus {
        /// The offer.
        #[n(0)]
        id: RequestId,
        /// What.
        #[n(1)]
        state: PushState,
    },
    /// The next epoch of a reflected stream has been drawn: what will open it.
    #[n(52)]
    Rekey(#[n(0)] Rekey),
    /// A node is in a room, for the next minute: to its home, and from hub to
    /// hub to the owners of the room. Answered by `Roster`.
    #[n(53)]
    JoinRoom(#[n(0)] JoinRoom),
    /// A node has left a room; goes the same way.
    #[n(54)]
    LeaveRoom(#[n(0)] LeaveRoom),
    /// Who is in a room.
    #[n(55)]
    Roster(#[n(0)] Roster),
    /// What opens a reflected stream, sealed for the group's nodes: from its provider
    /// back along the way of the requests for it, and from a hub that sends the
    /// stream to whom it sends it.
    #[n(56)]
    SealedKeys(#[n(0)] SealedKeys),
    /// The version and capabilities of its sender: the first message of each end of a connection.
    #[n(57)]
    Hello(#[n(0)] Hello),
    /// A message between two nodes that cannot reach each other: hubs pass it on along the way of a
    /// request with [`Request::connect_to`].
    #[n(80)]
    Tunneled {
        /// The request.
        #[n(0)]
        id: RequestId,
        /// A message.
        #[cbor(n(1), with = "bytes_codec")]
        message: Bytes,
    },
}

/// The number of [`Message::Request`].
const REQUEST: u64 = 5;

/// The number of a message; `None` of what is none.
fn message_number(bytes: &[u8]) -> Option<u64> {
    let mut decoder = minicbor::Decoder::new(bytes);
    decoder.array().ok()?;
    decoder.u64().ok()
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
        let message: Self = decoder.decode().map_err(|error| match message_number(bytes) {
            Some(number) if open::is_later(&error) => WireError::LaterVersion(number),
            _ => WireError::Malformed(error.to_string()),
        })?;
        if decoder.position() != bytes.len() {
            return Err(WireError::Malformed("bytes after the end".to_owned()));
        }
        message.check_limits()?;
        Ok(message)
    }

    /// The request that cannot be read because it is about something of a later
    /// version, so that it can be declined.
    pub(crate) fn unsupported_request_id(bytes: &[u8]) -> Option<RequestId> {
        let mut decoder = minicbor::Decoder::new(bytes);
        decoder.array().ok()?;
        let is_request = decoder.u64().ok()? == REQUEST;
        decoder.array().ok()?;
        decoder.decode().ok().filter(|_| is_request)
    }

    /// The message as bytes.
    pub fn encode(&self) -> Bytes {
        codec::to_bytes(self)
    }
}
