//! What is said of who offers what where: lookups, watches, searches.

use minicbor::{Decode, Encode};

use super::MAX_CANDIDATES;
use super::route::RouteDirection;
use crate::address::{self, Address};
use crate::grid::{Area, Cell};
use crate::ids::{NodeId, RequestId};
use crate::node_selector::{NodeSelector, is_node_name};
use crate::open::open;
use crate::record::{Capacity, Version};
use crate::refusal::{Refusal, check_bound};
use crate::service::{Service, ServiceSet};

/// Lookups and watches.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum DirectoryMessage {
    /// The answer to a lookup.
    #[n(10)]
    LookupResult(#[n(0)] LookupResult),
    /// Wants to hear of changes in an area.
    #[n(16)]
    Watch(#[n(0)] Watch),
    /// What has changed there.
    #[n(17)]
    WatchChange(#[n(0)] WatchChange),
    /// No longer wants to hear.
    #[n(18)]
    Unwatch(#[n(0)] RequestId),
    /// A hub asks other hubs what they know. Answered by `Found`.
    #[n(22)]
    HubLookup(#[n(0)] HubLookup),
}

impl DirectoryMessage {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        match self {
            Self::LookupResult(found) => {
                check_bound(found.candidates.len() <= MAX_CANDIDATES, "too many candidates")?;
                found.candidates.iter().try_for_each(Candidate::check_limits)
            }
            Self::Watch(watch) => check_bound(watch.area.is_valid(), "an area off the grid"),
            Self::WatchChange(change) => change.updated.iter().try_for_each(Candidate::check_limits),
            Self::HubLookup(lookup) => check_bound(lookup.area.is_valid(), "an area off the grid"),
            Self::Unwatch(_) => Ok(()),
        }
    }
}

impl Candidate {
    pub(super) fn check_limits(&self) -> Result<(), Refusal> {
        check_bound(self.name.as_deref().is_none_or(is_node_name), "a name that no certificate has")
    }
}

/// See [`Message::Found`](super::DirectoryMessage::LookupResult).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct LookupResult {
    /// The request.
    #[n(0)]
    pub id: RequestId,
    /// Who offers it, the best first; at most [`MAX_CANDIDATES`](super::MAX_CANDIDATES).
    #[n(1)]
    pub candidates: Vec<Candidate>,
    /// How far the answer reaches.
    #[n(2)]
    pub coverage: Coverage,
}

/// How far the answer to a lookup reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode)]
#[cbor(index_only)]
pub enum Coverage {
    /// Everything that is known.
    #[n(0)]
    Complete,
    /// A hub that started less than a lease ago may not have heard of everyone.
    #[n(1)]
    HubStarting,
    /// A hub did not answer in time.
    #[n(2)]
    Partial,
    /// The way to the hubs above is cut: only what is below the cut is known.
    #[n(3)]
    UnreachableAbove,
    /// Who was found first in the cell that was asked for. Others there may be
    /// known to hubs that were not waited for.
    #[n(4)]
    FirstMatch,
}

open!(Coverage, [Complete, HubStarting, Partial, UnreachableAbove, FirstMatch], else Partial);

impl Coverage {
    /// What two answers together reach.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let weight = |coverage| match coverage {
            Self::Complete => 0,
            Self::FirstMatch => 1,
            Self::HubStarting => 2,
            Self::Partial => 3,
            Self::UnreachableAbove => 4,
        };
        if weight(other) > weight(self) { other } else { self }
    }
}

/// One provider, as a lookup shows it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Candidate {
    /// Who.
    #[n(0)]
    pub node: NodeId,
    /// The version of its record.
    #[n(1)]
    pub version: Version,
    /// Where.
    #[n(2)]
    pub cell: Cell,
    /// What else it offers.
    #[n(3)]
    pub services: ServiceSet,
    /// What it has left.
    #[n(4)]
    pub capacity: Capacity,
    /// Where to dial it.
    #[cbor(n(5), with = "address::list", has_nil)]
    pub addresses: Vec<Address>,
    /// The name in its certificate, at most [`MAX_NAME_BYTES`](super::MAX_NAME_BYTES): where names
    /// were asked for, and a hub knows it.
    #[n(6)]
    pub name: Option<String>,
}

/// See [`DirectoryMessage::Watch`](super::DirectoryMessage::Watch).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Watch {
    /// The watcher's number for it; the same number again renews it.
    #[n(0)]
    pub id: RequestId,
    /// What.
    #[n(1)]
    pub services: ServiceSet,
    /// Where.
    #[n(2)]
    pub area: Area,
    /// The greatest change that the watcher has seen; 0 asks for all there is.
    #[n(3)]
    pub last_seen: u64,
    /// From hub to hub: where it may go on to; `None` is down.
    #[n(4)]
    pub direction: Option<RouteDirection>,
    /// True if changes carry names; `None` is no.
    #[n(5)]
    pub names: Option<bool>,
}

/// See [`DirectoryMessage::WatchChange`](super::DirectoryMessage::WatchChange).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct WatchChange {
    /// The watch.
    #[n(0)]
    pub id: RequestId,
    /// Counts the changes of this watch, from 1.
    #[n(1)]
    pub sequence: u64,
    /// Came, moved or changed.
    #[n(2)]
    pub updated: Vec<Candidate>,
    /// Gone from the area.
    #[n(3)]
    pub removed: Vec<NodeId>,
    /// How far the watch reaches from now on, if that is not the whole area.
    #[n(4)]
    pub coverage: Option<Coverage>,
}

/// See [`DirectoryMessage::HubLookup`](super::DirectoryMessage::HubLookup).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct HubLookup {
    /// The asking hub's number for it.
    #[n(0)]
    pub id: RequestId,
    /// What.
    #[n(1)]
    pub service: Service,
    /// Where.
    #[n(2)]
    pub area: Area,
    /// How many at most.
    #[n(3)]
    pub count: u8,
    /// Where it may go on to; `None` is down.
    #[n(4)]
    pub direction: Option<RouteDirection>,
    /// How long the asking hub waits for the answer, milliseconds.
    #[n(5)]
    pub timeout_ms: Option<u32>,
    /// As in [`Request`](super::Request).
    #[n(6)]
    pub selector: Option<NodeSelector>,
}
