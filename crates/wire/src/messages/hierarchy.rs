//! Messages of hubs about their tiers, their groups and the services below them.

use std::collections::BTreeMap;

use bytes::Bytes;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::route::RouteDirection;
use super::{MAX_GOSSIP_BYTES, bytes_codec};
use crate::block::BlockService;
use crate::grid::Cell;
use crate::ids::NodeId;
use crate::record::Version;
use crate::refusal::{Refusal, check_bound};
use crate::service::Service;

/// Messages among hubs about the group and its tiers.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum HierarchyMessage {
    /// A hub tells other hubs that a node is with it from this version on:
    /// older entries are void.
    #[n(21)]
    Claim {
        /// The node with a new home.
        #[n(0)]
        node: NodeId,
        /// Entries of older versions are void.
        #[n(1)]
        version: Version,
    },
    /// A hub of this tier takes the other one as its parent.
    #[n(23)]
    RegisterChild {
        /// The tier of the one who says it.
        #[n(0)]
        tier: u8,
    },
    /// The services at a hub and below it: to its parents, and from root to root to the owners of the blocks.
    #[n(24)]
    Summary(#[n(0)] Summary),
    /// The use of this connection: replicas only (true), or all messages of siblings.
    #[n(28)]
    StandbyOnly(#[n(0)] bool),
    /// Membership of the group of super nodes, in the words of the membership protocol; at most
    /// [`MAX_GOSSIP_BYTES`].
    #[n(35)]
    Gossip(#[cbor(n(0), with = "bytes_codec")] Bytes),
    /// A super node tells another one how much it has to do.
    #[n(36)]
    HubLoad {
        /// The nodes that hold a lease of the hub; the greatest number says that it takes none in.
        #[n(0)]
        leases: u32,
        /// The residual capacity of its uplink for copies of reflected streams, kbit/s; the greatest number is
        /// no limit. A hub that reflects for no other hub leaves it out.
        #[n(1)]
        residual_kbps: Option<u32>,
    },
}

impl HierarchyMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::Gossip(bytes) => check_bound(bytes.len() <= MAX_GOSSIP_BYTES, "too long a membership message"),
            Self::Claim { .. }
            | Self::RegisterChild { .. }
            | Self::Summary(_)
            | Self::StandbyOnly(_)
            | Self::HubLoad { .. } => Ok(()),
        }
    }
}

/// The most blocks in one [`Summary`].
pub const MAX_SUMMARY_BLOCKS: usize = 1_024;

/// The content of [`RegistrationMessage::HomeChanged`](super::RegistrationMessage::HomeChanged).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct HomeChanged {
    /// The node with a new home.
    #[n(0)]
    pub node: NodeId,
    /// From which version on it is elsewhere.
    #[n(1)]
    pub version: Version,
    /// The home that is to drop the node's record.
    #[n(2)]
    pub old_home: NodeId,
    /// The home that has the node's record.
    #[n(3)]
    pub new: NodeId,
    /// A service that the node offered at the old home,
    #[n(4)]
    pub service: Service,
    /// and where: how the old home is found.
    #[n(5)]
    pub cell: Cell,
    /// The direction in which the message may go on.
    #[n(6)]
    pub direction: RouteDirection,
    /// To how many further hubs it may go.
    #[n(7)]
    pub hops_left: u8,
}

/// The content of [`HierarchyMessage::Summary`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Summary {
    /// The run of the hub: summaries of an earlier run are void.
    #[n(0)]
    pub run: u32,
    /// Grows with each summary of a run; the greater one wins, block by block.
    #[n(1)]
    pub version: u64,
    /// The number of offers in each block, here and below; 0 if none is left.
    /// At most [`MAX_SUMMARY_BLOCKS`].
    #[cbor(n(2), with = "block_services_codec")]
    pub block_services: BTreeMap<BlockService, u32>,
    /// If set, everything that there is has been told since this version:
    /// what was told before it is void.
    #[n(3)]
    pub since: Option<u64>,
}

/// The blocks as one flat array in ascending order: each one's distance from the one before, then
/// its count. Remotes on the grid are then a few bytes each.
mod block_services_codec {
    use super::*;

    pub(super) fn encode<C, W: Write>(
        block_services: &BTreeMap<BlockService, u32>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        e.array(block_services.len() as u64 * 2)?;
        let mut before = 0;
        for (block, count) in block_services {
            e.u64(block.number().saturating_sub(before))?.u32(*count)?;
            before = block.number();
        }
        Ok(())
    }

    pub(super) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<BTreeMap<BlockService, u32>, DecodeError> {
        let wrong = || DecodeError::message("a summary's blocks are out of order or off the grid");
        let length = d.array()?.filter(|length| length % 2 == 0 && *length <= 2 * MAX_SUMMARY_BLOCKS as u64);
        let length = length.ok_or_else(|| DecodeError::message("a summary of too many blocks"))? / 2;
        let mut block_services = BTreeMap::new();
        for _ in 0..length {
            let distance = d.u64()?;
            let before = block_services.last_key_value().map(|(block, _): (&BlockService, _)| block.number());
            let number = match before {
                Some(_) if distance == 0 => return Err(wrong()),
                before => before.unwrap_or(0).checked_add(distance).ok_or_else(wrong)?,
            };
            block_services.insert(BlockService::from_number(number).ok_or_else(wrong)?, d.u32()?);
        }
        Ok(block_services)
    }
}
