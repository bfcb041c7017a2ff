//! Events for the owner of a node.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::{SessionId, Ticket};
use crate::allowance::Denial;
use crate::documents::ReceivedDocument;
use crate::node::outbox::OutboxEvent;
use roost_wire::RemoteIdentity as Remote;
use roost_wire::messages::{
    FlowDescription, Hop, LookupResult, ProtocolVersion, ProvisionalAccept, Push, PushState, Reason, SealedFile,
    Sentence, ServiceRequest, WatchChange,
};
use roost_wire::room::RoomMember;
use roost_wire::{Address, Cell, Epoch, EpochSecret, NodeId, RequestId, Scheme, Service, StreamId, StreamTag};

/// Events for the owner of a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeEvent {
    /// The node has a home: a hub that holds its record.
    Attached {
        hub: Remote,
        address: Address,
    },
    /// The node has lost its home, or could not make a hub its home, and goes
    /// on to the next one.
    Detached {
        reason: String,
    },
    /// The hub holds a record of this node that this daemon has not published:
    /// another daemon uses its identity.
    IdentityConflict,
    /// The group's policy does not let a remote do what it wants with this node. Comes as often as the remote tries.
    Denied(Denial),
    /// A service of this node is wanted: start its source and answer with
    /// `NodeCommand::SourceOpened`, `NodeCommand::SourceFailed` or `NodeCommand::SourceDeclined`.
    OpenSource {
        /// The number under which to answer.
        session: SessionId,
        /// The request's duration is that of the stream; `None` for an object, and for
        /// a reflected stream, which lasts until the session is over.
        request: Box<ServiceRequest>,
        /// The requester; of a reflected stream the first one.
        requester: NodeId,
        /// The body of a call, whose digest was verified; else empty.
        body: Bytes,
        /// True if the stream is to be sealed and sent where [`NodeEvent::Reflect`] says: answered by
        /// [`SourceOutput::Reflected`](super::SourceOutput::Reflected).
        reflected: bool,
    },
    /// A piece of a session's object is to be read, and handed over by
    /// `NodeCommand::ObjectRead`. One at a time for each session.
    ReadObject {
        session: SessionId,
        /// Of an object that was offered by `NodeCommand::Push`: that one's
        /// number. Of such a session there is neither [`NodeEvent::OpenSource`] nor [`NodeEvent::CloseSource`].
        pushed: Option<Ticket>,
        offset: u64,
        /// At most [`READ_BYTES`](crate::flow::READ_BYTES) and within the object.
        length: u64,
    },
    /// A session's reflected stream is to be offered to somebody who wants it.
    /// Comes again when the request for it does.
    Reflect {
        session: SessionId,
        stream: StreamId,
        to: SocketAddr,
        /// By which it is recognised there.
        tag: StreamTag,
    },
    /// A session's reflected stream has other keys. If it can be sealed so that only nodes of the group open
    /// it, and only as this node's for this service, `NodeCommand::Sealed` says it.
    Seal {
        session: SessionId,
        service: Service,
        opening: ProvisionalAccept,
    },
    /// Somebody who could open a session's reflected stream may read no
    /// further: the next epoch is due (`NodeCommand::Rekey`).
    MemberLeft {
        session: SessionId,
    },
    /// A session is over: stop its source. Comes exactly once for each `Open`,
    /// whoever ended it.
    CloseSource {
        session: SessionId,
        bytes: u64,
        /// Why it ended early; `None` if it served the request.
        reason: Option<Reason>,
    },
    /// A provider has accepted. Comes again if that provider falls silent
    /// before any data and another one accepts, and if another one takes over
    /// a reflected stream. A reflected one that follows from [`NodeEvent::Unseal`] may end with [`NodeEvent::Failed`] yet.
    Accepted {
        ticket: Ticket,
        provider: NodeId,
        cell: Cell,
        /// `inline` is always `None`, the data follows as [`NodeEvent::Data`].
        flow: FlowDescription,
        /// Over which transport, as seen from here.
        scheme: Scheme,
        /// True if a hub carries the data.
        relayed: bool,
        /// True if it is a reflected stream: [`NodeEvent::Reflected`] follows. Another way for
        /// one is not accepted anew.
        reflected: bool,
    },
    /// A stream that is offered under `tag` from now on is for this request.
    ExpectTag {
        ticket: Ticket,
        /// The tag. Those before it are void once [`NodeEvent::Reflected`] has come for it.
        tag: StreamTag,
        /// The home's media address, which is to be called from where the stream is wanted.
        door: Option<SocketAddr>,
    },
    /// The accepted stream comes as a reflected one, whose packets do not pass through the machine. Comes
    /// again when the stream has another way, or is another one. Of such a request the numbers of
    /// [`RequestSummary`] are for the owner to give.
    Reflected {
        ticket: Ticket,
        stream: StreamId,
        /// Nobody else says what opens it.
        provider: NodeId,
        epoch: Epoch,
        secret: EpochSecret,
        /// By which it is recognised.
        tag: StreamTag,
        /// True if its provider says so. If not it follows from [`NodeEvent::Unseal`], and what else
        /// comes under the tag may be what is accepted in the end.
        is_confirmed: bool,
    },
    /// A hub says that this opens a request's stream, which its provider has not accepted yet.
    /// If it does, `NodeCommand::Unsealed` says so.
    Unseal {
        ticket: Ticket,
        service: Service,
        provider: NodeId,
        /// The keys as that provider has sealed them.
        sealed: Bytes,
    },
    /// The key of a further epoch of a reflected stream.
    Key {
        ticket: Ticket,
        epoch: Epoch,
        secret: EpochSecret,
    },
    /// A piece of what was requested: of an object in order and without gaps,
    /// of a stream one datagram as it came. What of an object is done with is
    /// to be told by `NodeCommand::Consumed`, else its provider soon sends no more.
    Data {
        ticket: Ticket,
        payload: Bytes,
    },
    /// A request was served, in whole or in part: see [`RequestSummary::complete`].
    Finished {
        ticket: Ticket,
        summary: RequestSummary,
    },
    /// A request, lookup, watch or ping came to nothing.
    Failed {
        ticket: Ticket,
        reason: Reason,
        detail: String,
        /// The pause after which it may be worth asking again, as those who refused say.
        retry_after: Option<Duration>,
        /// The reason of the provider's program, with [`Reason::SourceFailed`].
        sentence: Option<Sentence>,
    },
    /// The outcome of an object that was offered. The last event of its ticket.
    Pushed {
        ticket: Ticket,
        /// Never [`PushState::InProgress`].
        state: PushState,
    },
    Outbox(OutboxEvent),
    /// A hub brings a file that is sealed for this node. To be answered by `NodeCommand::SealedFileEnded`.
    SealedFile {
        hub: NodeId,
        file: SealedFile,
    },
    /// A node offers an object. To be answered by `NodeCommand::PushEnded`, in the
    /// end; to have it, it is to be requested of that node with
    /// [`ServiceRequest::pushed`](roost_wire::messages::ServiceRequest::pushed).
    PushOffered {
        from: NodeId,
        push: Push,
    },
    /// An object that a node offered is not to be taken after all: the node has not sent it, and
    /// others wait. It may be offered again.
    PushRevoked {
        from: NodeId,
        /// The number of that node for it.
        id: RequestId,
    },
    /// The way of a request that was to be traced. Its last event follows.
    Traced {
        ticket: Ticket,
        trace: Trace,
    },
    LookupResult {
        ticket: Ticket,
        found: LookupResult,
    },
    /// Something has changed where one watches. The first change lists what is
    /// there already.
    Changed {
        ticket: Ticket,
        change: WatchChange,
    },
    /// All other members of a room. To have a member's stream it is to be requested with
    /// [`ReflectionPolicy::Always`](roost_wire::messages::ReflectionPolicy::Always), the member named as its
    /// provider and its cell as the area.
    Roster {
        ticket: Ticket,
        members: Vec<RoomMember>,
    },
    Pong {
        ticket: Ticket,
        rtt: Duration,
        address: Address,
    },
    /// A remote has said something of a later version for the first time. That
    /// was skipped, as all further such messages are.
    LaterVersion {
        node: NodeId,
        protocol: ProtocolVersion,
        message: u64,
    },
    /// A remote has sent a document of the group, which the owner verifies.
    Document(ReceivedDocument),
    /// The node has left. What is asked of it from now on fails at once.
    Left,
}

impl NodeEvent {
    /// A failure with nothing more to tell.
    pub fn failed(ticket: Ticket, reason: Reason, detail: impl Into<String>) -> Self {
        Self::Failed { ticket, reason, detail: detail.into(), retry_after: None, sentence: None }
    }
}

/// The way that a request took.
///
/// The clocks of hosts differ, so no two times of different hosts are compared:
/// there are times that passed at one host, and round trips measured by the
/// host that asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// In the order of their coming; at most [`MAX_REPORTS`](crate::node::MAX_REPORTS).
    pub hops: Vec<TracedHop>,
    /// Sendings of the request, to the home and to the standby.
    pub sent: u32,
    /// From the command to the first acceptance.
    pub accepted: Option<Duration>,
}

/// A report of one hub, or of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedHop {
    pub hop: Hop,
    /// The name of who said it, if there is a connection with it.
    pub name: Option<String>,
    /// From the command to the coming of the report.
    pub heard: Duration,
}

#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RequestSummary {
    pub provider: NodeId,
    pub cell: Cell,
    /// Over which transport, as seen from here.
    pub scheme: Scheme,
    /// True if a hub carried the data.
    pub relayed: bool,
    /// True if it was a reflected stream.
    pub reflected: bool,
    pub bytes: u64,
    /// Datagrams delivered; 0 for an object.
    pub packets: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams of a stream to steer by ([`Profile::Piloting`](roost_wire::Profile::Piloting))
    /// that were not there in time, whether they came afterwards or never; dropped.
    pub late: u64,
    /// Datagrams that came after one with a greater number; delivered nevertheless.
    pub reordered: u64,
    /// Datagrams that came once more; dropped.
    pub duplicates: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1).
    pub jitter: Duration,
    /// From the command to the first payload.
    pub first_byte: Duration,
    /// From the command to the end.
    pub elapsed: Duration,
    /// Payload rate between the first payload and the end; 0 if both came at once.
    pub bits_per_second: u64,
    /// Pauses of a stream of two seconds or more after which it went on.
    pub interruptions: u32,
    /// The sum of those pauses.
    pub interrupted: Duration,
    /// True if its provider was there to the end and brought next to nothing.
    pub stalled: bool,
    /// True if the payload has the digest that the provider announced; `None`
    /// if it cannot be said, because datagrams were lost or overtaken or the
    /// end was never heard of.
    pub digest_ok: Option<bool>,
    /// True if the provider's end was reached: of an object every byte with the
    /// right digest, of a stream the announced end (datagrams may have been lost).
    pub complete: bool,
    /// Why it ended early.
    pub reason: Option<Reason>,
    /// Why the connection over which it came had gone, if it had, in a
    /// sentence for people.
    pub broken: Option<String>,
}
