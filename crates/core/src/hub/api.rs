//! What a hub and its owner say to each other.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::messages::ProtocolVersion;
use roost_wire::{Address, Cell, NodeId, ReflectionGrant, RemoteIdentity, Service, ServiceSet};

use super::HubLimit;

/// The most streams of which the owner says that they are carried. What is
/// beyond is not preferred.
pub const MAX_REFLECTED_STREAMS: usize = 256;

/// The most receivers, of all streams together, of which the owner says that they are sent something:
/// a second request of theirs takes no more room. The others are counted again.
pub const MAX_RECEIVERS: usize = 4_096;

/// What the owner of a hub asks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubCommand {
    /// Drain: take nothing new, send the nodes to other hubs at once, let
    /// relayed flows end for at most [`DRAIN`](super::DRAIN), then say [`HubEvent::Left`].
    Leave,
    /// What the relay has left, told whenever it has changed. Until it is told
    /// first there is room for everything.
    ReflectionCapacity {
        /// Of the uplink for copies of streams, kbit/s; `None` is no limit.
        residual_kbps: Option<u32>,
        /// How many nodes it sends something.
        subscribers: u32,
    },
    /// What the relay carries, told whenever that has changed.
    ReflectedStreams {
        /// Every stream; at most [`MAX_REFLECTED_STREAMS`](super::MAX_REFLECTED_STREAMS) count.
        streams: Vec<ReflectedStream>,
    },
}

/// A stream that the hub's relay carries, as its owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectedStream {
    /// What.
    pub service: Service,
    /// Where its provider is, as its grants say.
    pub cell: Option<Cell>,
    /// Whose it is, as they say.
    pub provider: Option<NodeId>,
    /// Its rate.
    pub kbps: u32,
    /// Who is sent it: one that asks again takes no more room.
    pub to: Vec<SocketAddr>,
}

impl ReflectedStream {
    /// What all its copies take, kbit/s.
    pub(super) fn all_kbps(&self) -> u32 {
        self.kbps.saturating_mul(u32::try_from(self.to.len()).unwrap_or(u32::MAX))
    }
}

/// What a hub tells its owner: for its relay, and for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HubEvent {
    /// The relay may send something on. Comes again when the request for it does.
    Reflect(ReflectionGrant),
    /// A node's first connection is up.
    Attached {
        /// Who.
        remote: RemoteIdentity,
        /// From where.
        address: Address,
    },
    /// A node's last connection is gone. Its entries stay, suspended, for their lease.
    Detached {
        /// Who.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// A node's record is held, new or changed.
    Published {
        /// Whose.
        node: NodeId,
        /// Where.
        cell: Cell,
        /// What it offers.
        services: ServiceSet,
    },
    /// A node's record is gone.
    Gone {
        /// Whose.
        node: NodeId,
        /// Why: `withdrawn`, `expired` or `claimed` by another hub.
        cause: &'static str,
    },
    /// A peer's first connection is up.
    HubUp {
        /// Who.
        remote: RemoteIdentity,
        /// Where.
        address: Address,
    },
    /// A peer's last connection is gone.
    HubDown {
        /// Who.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// A peer could not be reached; the hub goes on trying.
    HubUnreachable {
        /// Where it should be.
        addresses: Vec<Address>,
        /// Why.
        reason: String,
        /// When the next attempt comes.
        retry_in: Duration,
    },
    /// There is one more super node in the group.
    MemberUp {
        /// Who.
        node: NodeId,
        /// Where, by its own word.
        addresses: Vec<Address>,
    },
    /// A super node of the group has left or died, as far as the others know.
    MemberDown {
        /// Who.
        node: NodeId,
    },
    /// A remote did what its role or the protocol does not allow.
    Refused {
        /// Who.
        node: NodeId,
        /// What, in words.
        what: &'static str,
    },
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
        /// The remote.
        node: NodeId,
        /// The version that it speaks.
        protocol: ProtocolVersion,
        /// The message's number.
        message: u64,
    },
    /// Two daemons show the same identity: one publishes or renews a record
    /// while another, over a connection that is up, holds a newer one.
    DuplicateIdentity {
        /// Whose.
        node: NodeId,
        /// The name in its certificate.
        name: String,
    },
    /// A daemon at this address shows this hub's own identity: it is this hub, or another one has a
    /// copy of its identity.
    SameIdentity {
        /// An address of the connection.
        address: Address,
    },
    /// The hub has drained and closed its connections.
    Left,
}
