//! Replicas of records at a standby, so that a node loses nothing with its home.
//!
//! A home numbers each node when it sends the record; from then on it sends the number and the
//! changes. Numbers hold for one connection, over which messages come in order, and are counted: a
//! standby that misses one asks for everything again.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::bytes_codec;
use crate::position::Move;
use crate::record::{Capacity, Record, Version};
use crate::refusal::{Refusal, check_bound};

/// Replicas of records, from a home to a standby.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum ReplicationMessage {
    /// A standby cannot follow what a home tells it: it wants whole records.
    #[n(29)]
    ResyncRequest(#[n(0)] ResyncRequest),
    /// A home tells a standby about the nodes that have named it. Answered by
    /// `ResyncRequest` when it cannot be followed.
    #[n(32)]
    ReplicaUpdate(#[n(0)] ReplicaUpdate),
}

impl ReplicationMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::ReplicaUpdate(update) => update.check_limits(),
            Self::ResyncRequest(resync) => {
                check_bound(resync.nodes.len() <= MAX_REPLICA_CHANGES, "too many records requested")
            }
        }
    }
}

impl ReplicaUpdate {
    fn check_limits(&self) -> Result<(), Refusal> {
        let Self { moves, removed, capacities, records, alive, .. } = self;
        check_bound(records.len() <= MAX_REPLICA_RECORDS, "too many records")?;
        let changes = moves.len().max(removed.len()).max(capacities.len());
        check_bound(changes <= MAX_REPLICA_CHANGES, "too many changes")?;
        check_bound(moves.iter().all(|one| one.versions > 0), "a move without a new version")?;
        let greatest = records.iter().map(|numbered| numbered.node).max();
        check_bound(greatest.is_none_or(|most| most < MAX_REPLICA_NODES), "too great a number for a node")?;
        let bits = alive.as_ref().map_or(0, Bytes::len) * 8;
        check_bound(bits <= MAX_REPLICA_NODES as usize, "signs of life of too many nodes")
    }
}

/// The most records in one [`ReplicaUpdate`]: with eight addresses of four hosts each
/// they still fit into one message.
pub const MAX_REPLICA_RECORDS: usize = 32;

/// The most changes of one kind in one [`ReplicaUpdate`], and nodes in one [`ResyncRequest`].
pub const MAX_REPLICA_CHANGES: usize = 512;

/// Nodes are numbered below this, so that the signs of life of all are half a message.
pub const MAX_REPLICA_NODES: u32 = 256 * 1024;

/// The content of [`RegistrationMessage::Adopt`](super::RegistrationMessage::Adopt).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Adopt {
    /// The version that the home has mirrored.
    #[n(0)]
    pub held_version: Version,
    /// The version from now on: greater, so that the old home gives way.
    #[n(1)]
    pub version: Version,
    /// The capacity that the node has left.
    #[n(2)]
    pub capacity: Capacity,
    /// True if it comes back, from a home that lives.
    #[n(3)]
    pub is_failback: Option<bool>,
}

/// See [`ReplicationMessage::ReplicaUpdate`]. What is gone comes first,
/// then records, then shifts and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ReplicaUpdate {
    /// The number of the message, by one more than that of the message before on this connection.
    #[n(0)]
    pub sequence: u32,
    /// Nodes that have moved; at most [`MAX_REPLICA_CHANGES`].
    #[n(1)]
    pub moves: Vec<ReplicaMove>,
    /// No longer with the sender, by their numbers, which are free again; at most [`MAX_REPLICA_CHANGES`].
    #[n(2)]
    pub removed: Vec<u32>,
    /// Nodes of another capacity than before; at most [`MAX_REPLICA_CHANGES`].
    #[n(3)]
    pub capacities: Vec<ReplicaCapacity>,
    /// New, or changed in more than that; at most [`MAX_REPLICA_RECORDS`].
    #[n(4)]
    pub records: Vec<ReplicaRecord>,
    /// Heard since the sender last said so: bit n of byte m, from the lowest, is node 8 m + n.
    #[cbor(n(5), with = "bytes_codec")]
    pub alive: Option<Bytes>,
    /// The sender tells everything from here on: numbers that it gave are void.
    #[n(6)]
    pub starts_resync: Option<bool>,
    /// The resync that began with `starts_resync` is complete.
    #[n(7)]
    pub ends_resync: Option<bool>,
    /// Seconds before this message within which the nodes in `alive` were heard, rounded up; none: just now.
    #[n(8)]
    pub alive_within_s: Option<u16>,
}

/// A record, and the number of its node from now on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ReplicaRecord {
    /// The number of the node, below [`MAX_REPLICA_NODES`].
    #[n(0)]
    pub node: u32,
    /// The record as the home holds it.
    #[n(1)]
    pub record: Record,
    /// Whole seconds for which the home has not heard the node; none: less than one.
    #[n(2)]
    pub silent_s: Option<u16>,
}

/// A node is elsewhere and otherwise as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ReplicaMove {
    /// The number of the node at this connection.
    #[n(0)]
    pub node: u32,
    /// By how much its sequence number has grown.
    #[n(1)]
    pub versions: u32,
    /// By how many cells it is further east,
    #[n(2)]
    pub x: i32,
    /// and by how many further north.
    #[n(3)]
    pub y: i32,
    /// The move from the position that was told last; none of a node whose position is not known.
    #[n(4)]
    pub step: Option<Move>,
}

/// The capacity of a node, if nothing else has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ReplicaCapacity {
    /// The number of the node at this connection.
    #[n(0)]
    pub node: u32,
    /// The capacity that the node has left.
    #[n(1)]
    pub capacity: Capacity,
}

/// The content of [`ReplicationMessage::ResyncRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct ResyncRequest {
    /// The number of the [`ReplicaUpdate`] that could not be followed.
    #[n(0)]
    pub number: u32,
    /// The nodes of the records, at most [`MAX_REPLICA_CHANGES`]; none: all nodes.
    #[n(1)]
    pub nodes: Vec<u32>,
}
