//! What is said so that a node loses nothing with its home.

use bytes::Bytes;
use minicbor::{Decode, Encode};

use super::bytes_codec;
use crate::ids::NodeId;
use crate::record::{Capacity, Record, Version};

/// The most records in one [`Mirror`]: with eight addresses of four hosts each
/// they still fit into one message.
pub const MAX_MIRRORED: usize = 32;

/// See [`Message::Adopt`](super::Message::Adopt).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Adopt {
    /// The version that the home has mirrored.
    #[n(0)]
    pub held: Version,
    /// What it counts as from now on: greater, so that the old home gives way.
    #[n(1)]
    pub version: Version,
    /// What the node has left.
    #[n(2)]
    pub capacity: Capacity,
}

/// See [`Message::Mirror`](super::Message::Mirror).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Mirror {
    /// New or changed; at most [`MAX_MIRRORED`].
    #[n(0)]
    pub records: Vec<Record>,
    /// No longer with the sender.
    #[n(1)]
    pub gone: Vec<NodeId>,
    /// Heard since the sender last said so: the first four bytes of each
    /// node's id, one after the other. Should two nodes share them, one entry
    /// lives for a lease too long.
    #[cbor(n(2), with = "bytes_codec")]
    pub heard: Option<Bytes>,
}

/// What stands for a node in [`Mirror::heard`].
pub const HEARD_BYTES: usize = 4;
