//! The record of a node: position, offers, capacity.

use minicbor::{Decode, Encode};

pub use crate::address::list::MAX_ADDRESSES;
use crate::address::{self, Address};
use crate::grid::Cell;
use crate::ids::NodeId;
use crate::position::{ExactPosition, OrbitElements};
use crate::service::ServiceSet;

/// The age of a record. The greater one wins everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(array)]
pub struct Version {
    /// The start of the node, in seconds of the Unix epoch; never goes back on one node.
    #[n(0)]
    pub epoch: u32,
    /// Counts the records of this run, from 1.
    #[n(1)]
    pub sequence: u32,
}

impl Version {
    /// Most seconds that a node's clock may be ahead of another.
    const MAX_AHEAD: u32 = 24 * 3600;

    /// More records than any run of a node publishes.
    const MAX_SEQUENCE: u32 = u32::MAX / 2;

    /// A node takes over no version of which others, with earlier clocks, may not believe the next one yet.
    const MARGIN: u32 = 3600;

    /// The version that follows, which others believe if they believe this one. Long before the count
    /// ends a new epoch begins.
    pub const fn next(self) -> Self {
        if self.sequence < Self::MAX_SEQUENCE / 2 {
            return Self { sequence: self.sequence + 1, ..self };
        }
        Self { epoch: self.epoch.saturating_add(1), sequence: 1 }
    }

    /// True if the node that is said to be of this version can go on from it.
    pub const fn is_exceedable(self, now: u32) -> bool {
        self.epoch <= now.saturating_add(Self::MAX_AHEAD - Self::MARGIN) && self.sequence <= Self::MAX_SEQUENCE
    }

    /// True if another's word that a node is of this version can be true at `now`, in seconds of
    /// the Unix epoch. The node could not exceed a version beyond that.
    pub const fn is_plausible(self, now: u32) -> bool {
        self.epoch <= now.saturating_add(Self::MAX_AHEAD) && self.sequence <= Self::MAX_SEQUENCE
    }
}

/// The capacity that a provider has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Capacity {
    /// The streams that it could still start.
    #[n(0)]
    pub streams: u16,
    /// Uplink not yet promised, kbit/s.
    #[n(1)]
    pub uplink_kbps: u32,
}

/// The record of a node: all its services at its position, in one version.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Record {
    /// The node of the record. A hub accepts a node's record from that node only.
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub version: Version,
    #[n(2)]
    pub cell: Cell,
    #[n(3)]
    pub services: ServiceSet,
    #[n(4)]
    pub capacity: Capacity,
    /// Addresses to dial; at most [`MAX_ADDRESSES`]. An unspecified host (`0.0.0.0`, `::`) means "where you see
    /// me": the hub fills it in.
    #[cbor(n(5), with = "address::list", has_nil)]
    pub addresses: Vec<Address>,
    /// The exact position, with course and speed if the node moves, at the time at which the record is sent.
    #[n(6)]
    pub position: Option<ExactPosition>,
    /// The orbit of a satellite, by which hubs know its position at any time.
    #[n(7)]
    pub orbit: Option<OrbitElements>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a node goes on from, others believe what follows, with clocks up to an hour earlier.
        #[test]
        fn next_is_greater_and_believed(
            now in 100_000_u32..4_000_000_000,
            ahead in 0_u32..100_000,
            sequence in prop_oneof![any::<u32>(), (Version::MAX_SEQUENCE / 2 - 2)..(Version::MAX_SEQUENCE / 2 + 2)],
        ) {
            let held = Version { epoch: now + ahead, sequence };
            let next = held.next();
            prop_assert!(next > held);
            if held.is_exceedable(now) {
                prop_assert!(next.is_plausible(now + 1 - Version::MARGIN) && next.next().is_plausible(now));
            }
        }
    }
}
