//! Messages of a node and its home about the node's record.

use minicbor::{Decode, Encode};

use super::hierarchy::HomeChanged;
use super::reflection::MediaAddress;
use super::replication::Adopt;
use crate::address::{self, Address};
use crate::ids::NodeId;
use crate::record::{Capacity, Record, Version};
use crate::refusal::{Refusal, check_bound};

/// The life of a record at its home, and the change of homes.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum RegistrationMessage {
    /// A node's record, new or changed. Answered by `Lease`.
    #[n(0)]
    Publish(#[n(0)] Record),
    /// The hub holds this version until `lease_ms` from now.
    #[n(1)]
    Lease {
        /// The version of the record that the hub holds.
        #[n(0)]
        version: Version,
        /// The lease ends so long after the last message of the node, milliseconds.
        #[n(1)]
        lease_ms: u32,
        /// Other hubs that the node may turn to, as long as it has no standby: at most eight addresses.
        #[cbor(n(2), with = "address::list", has_nil)]
        siblings: Option<Vec<Address>>,
        /// Addresses of the hub itself, beside `siblings`. An unspecified host means "where you see me".
        #[cbor(n(3), with = "address::list", has_nil)]
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
    /// A node has come to this hub from another home, which is to hear of it:
    /// a node to its new home, and on from hub to hub.
    #[n(27)]
    HomeChanged(#[n(0)] HomeChanged),
    /// A node tells its home which hub stands by: one with which it has an
    /// connection as well, and which the home keeps up to date.
    #[n(30)]
    SetStandby {
        /// The standby that the node has chosen.
        #[n(0)]
        hub: NodeId,
        /// Addresses at which the node has found it, so that the home does, too.
        #[cbor(n(1), with = "address::list", has_nil)]
        addresses: Option<Vec<Address>>,
    },
    /// A node tells its standby that it is the home now. Answered by `Lease`,
    /// or by `UnknownVersion` if the version that is meant is not held.
    #[n(31)]
    Adopt(#[n(0)] Adopt),
    /// Too many publish at once: publish again after so many milliseconds.
    #[n(33)]
    RetryAfter(#[n(0)] u32),
    /// The hub is leaving: turn to the standby, within a second, so that not all do
    /// at once. What is under way goes on over this connection until the hub closes it.
    #[n(34)]
    Handover,
    /// A hub tells a node to make another one its home: a new node instead of
    /// a `Lease`, one that is here so that all have about as many. The node
    /// follows twice a minute and otherwise publishes again.
    #[n(37)]
    Redirect(#[cbor(n(0), with = "address::list", has_nil)] Vec<Address>),
}

impl RegistrationMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::Redirect(addresses) => check_bound(!addresses.is_empty(), "a redirect to no address"),
            Self::Publish(record) => check_bound(record.services.has_forms(), "an offer without a form"),
            Self::Lease { .. }
            | Self::SetStandby { .. }
            | Self::HomeChanged(_)
            | Self::Renew(_)
            | Self::UnknownVersion
            | Self::Withdraw(_)
            | Self::Adopt(_)
            | Self::RetryAfter(_)
            | Self::Handover => Ok(()),
        }
    }
}

/// The content of [`RegistrationMessage::Renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Renew {
    /// The version that the lease is of.
    #[n(0)]
    pub version: Version,
    /// The node's capacity, if that has changed since the last message about it.
    #[n(1)]
    pub capacity: Option<Capacity>,
}
