//! Commands to a hub, and its events.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use roost_policy::Policy;
use roost_wire::messages::ProtocolVersion;
use roost_wire::{Address, Cell, Labels, NodeId, ReflectionGrant, RemoteIdentity, Service, ServiceSet};

use super::HubLimit;
use crate::allowance::Denial;
use crate::documents::{DocumentVerdict, ReceivedDocument};

/// The most streams of which the owner says that they are carried. What is
/// beyond is not preferred.
pub const MAX_REFLECTED_STREAMS: usize = 256;

/// The most receivers, of all streams together, of which the owner says that they are sent something:
/// a second request of theirs takes no more room. The others are counted again.
pub const MAX_RECEIVERS: usize = 4_096;

/// A command of the driver of a hub.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HubCommand {
    /// Drain: take nothing new, send the nodes to other hubs at once, let
    /// relayed flows end for at most [`DRAIN`](super::DRAIN), then say [`HubEvent::Left`].
    Leave,
    /// Room that the relay has left, told whenever it has changed. Until it is told first there is room for
    /// everything.
    ReflectionCapacity {
        /// Of the uplink for copies of streams, kbit/s; `None` is no limit.
        residual_kbps: Option<u32>,
        subscribers: u32,
    },
    /// The verdict on a [`HubEvent::Document`], or a document that the owner has from elsewhere.
    Document(DocumentVerdict),
    /// The group's policy; `None` allows everything. What it does not allow ends at once.
    Policy(Option<Arc<Policy>>),
    /// The labels in this hub's certificate, which was renewed.
    Labels(Labels),
    /// Streams that the relay carries, told whenever that has changed.
    ReflectedStreams {
        /// Every stream; at most [`MAX_REFLECTED_STREAMS`](super::MAX_REFLECTED_STREAMS) count.
        streams: Vec<ReflectedStream>,
    },
}

impl From<Option<Arc<Policy>>> for HubCommand {
    fn from(policy: Option<Arc<Policy>>) -> Self {
        Self::Policy(policy)
    }
}

impl From<Labels> for HubCommand {
    fn from(labels: Labels) -> Self {
        Self::Labels(labels)
    }
}

impl From<DocumentVerdict> for HubCommand {
    fn from(verdict: DocumentVerdict) -> Self {
        Self::Document(verdict)
    }
}

/// A stream that the hub's relay carries, as its owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectedStream {
    pub service: Service,
    /// Place of its provider, as its grants say.
    pub cell: Option<Cell>,
    pub provider: Option<NodeId>,
    pub kbps: u32,
    /// Receivers of the stream: one that asks again takes no more room.
    pub to: Vec<SocketAddr>,
}

impl ReflectedStream {
    /// Rate of all its copies, kbit/s.
    pub(super) fn all_kbps(&self) -> u32 {
        self.kbps.saturating_mul(u32::try_from(self.to.len()).unwrap_or(u32::MAX))
    }
}

/// News of a hub to its owner: for its relay, and for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubEvent {
    /// The relay may send something on. Comes again when the request for it does.
    Reflect(ReflectionGrant),
    Attached {
        remote: RemoteIdentity,
        address: Address,
    },
    /// A node's last connection is gone. Its entries stay, suspended, for their lease.
    Detached {
        node: NodeId,
        reason: String,
    },
    /// A node's record is held, new or changed.
    Published {
        node: NodeId,
        cell: Cell,
        services: ServiceSet,
    },
    Gone {
        node: NodeId,
        /// Why: `withdrawn`, `expired`, `refused` by one side, or `claimed` by another hub.
        cause: &'static str,
    },
    HubUp {
        remote: RemoteIdentity,
        address: Address,
    },
    HubDown {
        node: NodeId,
        reason: String,
    },
    /// A hub could not be reached; the hub goes on trying.
    HubUnreachable {
        addresses: Vec<Address>,
        reason: String,
        retry_in: Duration,
    },
    /// There is one more super node in the group.
    MemberUp {
        node: NodeId,
        addresses: Vec<Address>,
    },
    /// A super node of the group has left or died, as far as the others know.
    MemberDown {
        node: NodeId,
    },
    /// A remote did what its role or the protocol does not allow.
    Refused {
        node: NodeId,
        what: Cow<'static, str>,
    },
    /// The group's policy does not let a remote do what it wants. Comes as often as the remote tries.
    Denied(Denial),
    /// The hub has declined or dropped something of a remote because of a limit, which the remote has
    /// met for the first time since it is connected.
    OverLimit {
        /// The remote at the other end of the connection.
        node: NodeId,
        /// The limit, of which metrics count each meeting.
        limit: HubLimit,
    },
    /// A remote has said something of a later version for the first time. That
    /// was skipped, as all further such messages are.
    NewerVersion {
        node: NodeId,
        protocol: ProtocolVersion,
        message: u64,
    },
    /// Two daemons show the same identity: one publishes or renews a record
    /// while another, over a connection that is up, holds a newer one.
    DuplicateIdentity {
        node: NodeId,
        name: String,
    },
    /// A daemon at this address shows this hub's own identity: it is this hub, or another one has a
    /// copy of its identity.
    SameIdentity {
        address: Address,
    },
    /// A remote has sent a document of the group, which the owner verifies.
    Document(ReceivedDocument),
    /// The hub has drained and closed its connections.
    Left,
}
