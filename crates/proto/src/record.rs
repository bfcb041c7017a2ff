//! What a node says of itself: where it is, what it offers, what it has left.

use minicbor::{Decode, Encode};

use crate::address::Address;
use crate::grid::Cell;
use crate::ids::NodeId;
use crate::service::ServiceSet;

/// The most addresses one record carries.
pub const MAX_ADDRESSES: usize = 8;

/// The age of a record. The greater one wins everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(array)]
pub struct Version {
    /// When the node started, in seconds of the Unix epoch; never goes back on one node.
    #[n(0)]
    pub epoch: u32,
    /// Counts the records of this run, from 1.
    #[n(1)]
    pub sequence: u32,
}

/// What a provider can still take on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Capacity {
    /// Streams it could still start.
    #[n(0)]
    pub streams: u16,
    /// Uplink not yet promised, kbit/s.
    #[n(1)]
    pub uplink_kbps: u32,
}

/// One node's advertisement: all its services at its place, in one version.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Record {
    /// Whose it is. A hub accepts a node's record from that node only.
    #[n(0)]
    pub node: NodeId,
    /// Its age.
    #[n(1)]
    pub version: Version,
    /// Where the node is.
    #[n(2)]
    pub cell: Cell,
    /// What it offers.
    #[n(3)]
    pub services: ServiceSet,
    /// What it has left.
    #[n(4)]
    pub capacity: Capacity,
    /// Where it can be dialled; at most [`MAX_ADDRESSES`]. An unspecified host
    /// (`0.0.0.0`, `::`) means "where you see me": the hub fills it in.
    #[n(5)]
    pub addresses: Vec<Address>,
}
