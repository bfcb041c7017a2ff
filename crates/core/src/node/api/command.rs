//! Commands of the owner of a node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

#[cfg(doc)]
use super::{NodeConfig, NodeEvent};
use super::{Provider, SessionId, Ticket};
use roost_policy::Policy;
use roost_wire::messages::{MailboxStatus, ProvisionalAccept, PushState, Sentence, ServiceRequest};
use roost_wire::{
    Area, Cell, DeliveryId, Epoch, EpochSecret, ExactPosition, Labels, Metadata, NodeId, NodeSelector, OrbitElements,
    RequestId, RoomId, Service, ServiceSet, StreamId,
};

use crate::documents::DocumentVerdict;
use crate::node::outbox::OutboxCommand;

/// The terms of an object from an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedDelivery {
    pub id: DeliveryId,
    /// The end by the wall clock, Unix seconds.
    pub until_s: u64,
    /// The time until then. Zero only asks what has become of it.
    pub left: Duration,
}

/// The position of a node as its owner says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    pub cell: Cell,
    pub position: Option<ExactPosition>,
    pub orbit: Option<OrbitElements>,
}

impl From<Cell> for NodePlace {
    fn from(cell: Cell) -> Self {
        Self { cell, position: None, orbit: None }
    }
}

/// Commands of the owner of a node.
///
/// Every [`Ticket`] but a watch's and a room's ends with exactly one of [`NodeEvent::Finished`],
/// [`NodeEvent::Failed`], [`NodeEvent::LookupResult`] and [`NodeEvent::Pong`]; those end with
/// [`NodeEvent::Failed`] when they are cancelled or cannot be kept.
#[derive(Clone, Debug)]
pub enum NodeCommand {
    /// Get a service.
    Request {
        ticket: Ticket,
        /// [`ServiceRequest::provider`] is for the caller to resolve, and
        /// [`RequestMode::Lookup`](roost_wire::messages::RequestMode::Lookup) is declined here.
        request: ServiceRequest,
        /// The provider to ask without a hub; `None` leaves the choice to the hub. It goes with
        /// [`RequestMode::Forward`](roost_wire::messages::RequestMode::Forward) only, and not in the
        /// client/server baseline. With [`ReflectionPolicy::Always`](roost_wire::messages::ReflectionPolicy::Always)
        /// the hub is asked for this provider's stream, which it searches in the request's area.
        provider: Option<Provider>,
        /// The body of a call, at most [`MAX_BODY_BYTES`](roost_wire::messages::MAX_BODY_BYTES); else empty.
        body: Bytes,
    },
    /// Offer an object to a node, which asks for it. Ends with [`NodeEvent::Pushed`]
    /// or [`NodeEvent::Failed`].
    Push {
        ticket: Ticket,
        to: Provider,
        /// A service that it offers and where, by which hubs find it should it not be reached;
        /// `None` if no hub knows it.
        published_service: Option<(Service, Cell)>,
        /// At most [`MAX_OBJECT_NAME_BYTES`](roost_wire::messages::MAX_OBJECT_NAME_BYTES).
        name: String,
        length: u64,
        digest: [u8; 32],
        /// The longest wait for an answer.
        deadline: Duration,
        /// Set if the object comes from an outbox.
        delivery: Option<PushedDelivery>,
    },
    Outbox(OutboxCommand),
    /// The answer to [`OutboxEvent::Leave`](crate::node::OutboxEvent::Leave): the receiver and the sealed file, or the
    /// reason for which there is none.
    SealedForHome {
        id: DeliveryId,
        sealed: Result<(NodeId, Bytes), String>,
    },
    SealedFileEnded {
        hub: NodeId,
        status: MailboxStatus,
    },
    /// An object that a node offered has begun to come.
    PushStarted {
        from: NodeId,
        /// The number of that node for it.
        id: RequestId,
    },
    /// The outcome of an object that a node offered: see [`NodeEvent::PushOffered`].
    PushEnded {
        from: NodeId,
        /// The number of that node for it.
        id: RequestId,
        state: PushState,
    },
    /// Tell who offers a service.
    Lookup {
        ticket: Ticket,
        service: Service,
        area: Area,
        /// The limit of the list; 0 leaves it to the hub.
        count: u8,
        /// Adds names to the answer and limits it to the nodes meant; `None` lists everybody without names.
        names: Option<NodeSelector>,
        /// The metadata that offers have to carry.
        filter: Metadata,
    },
    /// Tell of every change in an area until cancelled.
    Watch {
        ticket: Ticket,
        services: ServiceSet,
        area: Area,
        /// True if changes carry names.
        names: bool,
    },
    /// Be in a room until cancelled: [`NodeEvent::Roster`] says who else is.
    JoinRoom {
        ticket: Ticket,
        room: RoomId,
    },
    /// Measure the round trip to a remote.
    Ping {
        ticket: Ticket,
        /// A node to which there is a connection; `None` is the home hub.
        node: Option<NodeId>,
    },
    /// No longer wanted.
    Cancel {
        ticket: Ticket,
    },
    /// There is enough of a stream that super nodes reflect: it ends well, as if its time were over.
    /// Anything else is no longer wanted.
    EndSubscription {
        ticket: Ticket,
    },
    /// The node is elsewhere now.
    Move(NodePlace),
    /// A receiver tells the position: the node publishes it when others would be wrong. Needs a datum.
    Fix(ExactPosition),
    /// A session's source has started.
    SourceOpened {
        session: SessionId,
        opened: SourceOutput,
    },
    /// The piece asked for by [`NodeEvent::ReadObject`].
    ObjectRead {
        session: SessionId,
        offset: u64,
        bytes: Bytes,
    },
    /// So many more bytes of an object have been taken by whoever wants it: its
    /// provider may send as many.
    Consumed {
        ticket: Ticket,
        bytes: u64,
    },
    /// A session's source has nothing to give, or broke off in the middle.
    SourceFailed {
        session: SessionId,
        reason: String,
    },
    /// The program behind a session's source declines. The requester gets to read the sentence.
    SourceDeclined {
        session: SessionId,
        sentence: Sentence,
    },
    /// A datagram's worth of a stream, at most [`crate::flow::MAX_PACKET_BYTES`] (what is longer is sent in
    /// pieces).
    Data {
        session: SessionId,
        payload: Bytes,
    },
    /// The next epoch of a reflected stream has been drawn: everybody who has
    /// the stream is told, and who comes later, too.
    Rekey {
        session: SessionId,
        /// Greater than all before.
        epoch: Epoch,
        secret: EpochSecret,
    },
    /// The answer to [`NodeEvent::Seal`]: any node of the group can open it, and no hub. It is left with the
    /// hubs that send the stream on.
    Sealed {
        session: SessionId,
        /// At most [`MAX_SEALED_BYTES`](roost_wire::messages::MAX_SEALED_BYTES); more is not left.
        sealed: Bytes,
    },
    /// The answer to [`NodeEvent::Unseal`].
    Unsealed {
        ticket: Ticket,
        provider: NodeId,
        opening: ProvisionalAccept,
    },
    /// Nobody has taken a reflected stream for a while: its source is to stop.
    Idle {
        session: SessionId,
    },
    /// A reflected stream wants another way: the same is asked for again while
    /// the old way, if there is one, goes on. Answered by [`NodeEvent::Reflected`];
    /// if that is in vain and nothing comes any more, the ticket ends.
    Resubscribe {
        ticket: Ticket,
        /// True if nothing comes any more.
        lost: bool,
    },
    /// A hub that takes a reflected stream from here has fallen silent: it may be the home, which is asked at once
    /// for a sign of life.
    Suspect,
    /// A stream is over.
    SourceEnded {
        session: SessionId,
    },
    /// The node offers something else from now on.
    Reconfigure {
        services: ServiceSet,
        /// As in [`NodeConfig`].
        max_streams: u16,
        /// As in [`NodeConfig`].
        uplink_kbps: Option<u32>,
    },
    /// The verdict on a [`NodeEvent::Document`], or a document that the owner has from elsewhere.
    Document(DocumentVerdict),
    /// The group's policy; `None` allows everything. What it does not allow ends at once.
    Policy(Option<Arc<Policy>>),
    /// The labels in this node's certificate, which was renewed.
    Labels(Labels),
    /// Withdraw, end everything, close every connection. [`NodeEvent::Left`] is
    /// the last event.
    Leave,
}

impl From<Labels> for NodeCommand {
    fn from(labels: Labels) -> Self {
        Self::Labels(labels)
    }
}

impl From<Option<Arc<Policy>>> for NodeCommand {
    fn from(policy: Option<Arc<Policy>>) -> Self {
        Self::Policy(policy)
    }
}

impl From<DocumentVerdict> for NodeCommand {
    fn from(verdict: DocumentVerdict) -> Self {
        Self::Document(verdict)
    }
}

#[derive(Clone, Debug)]
pub enum SourceOutput {
    /// Datagrams, by [`NodeCommand::Data`], until [`NodeCommand::SourceEnded`] or [`NodeEvent::CloseSource`].
    Stream {
        /// Payload rate to expect.
        bits_per_second: u32,
        /// Media type or format of the payload.
        format: String,
    },
    /// A stream that the owner seals and sends where [`NodeEvent::Reflect`] says, until
    /// [`NodeCommand::SourceEnded`] or [`NodeEvent::CloseSource`]. The answer to an [`NodeEvent::OpenSource`]
    /// that says so, and to no other.
    Reflected {
        /// Payload rate to expect.
        bits_per_second: u32,
        /// Media type or format of the payload.
        format: String,
        stream: StreamId,
        epoch: Epoch,
        secret: EpochSecret,
    },
    /// A whole object; at most [`roost_wire::object::MAX_HELD_BYTES`].
    Object {
        bytes: Bytes,
        /// The SHA-256, which takes too long for a machine to compute.
        digest: [u8; 32],
        format: String,
    },
    /// An object of any size, to be read by [`NodeEvent::ReadObject`] piece by piece. As long as it is sent
    /// it must stay what it is; if it does not, the session is to be ended by [`NodeCommand::SourceFailed`].
    Stored { length: u64, digest: [u8; 32], format: String },
}
