//! Messages of the directory: lookups, watches and their answers.

use minicbor::{Decode, Encode};

use super::MAX_CANDIDATES;
use super::route::RouteDirection;
use crate::address::{self, Address};
use crate::grid::{Area, Cell};
use crate::ids::{NodeId, RequestId};
use crate::node_selector::{NodeSelector, is_node_name};
use crate::open::open;
use crate::position::ExactPosition;
use crate::record::{Capacity, Version};
use crate::refusal::{Refusal, check_bound};
use crate::service::{Metadata, Service, ServiceSet};

/// Lookups and watches, from nodes to hubs and between hubs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum DirectoryMessage {
    /// The answer of a hub to a lookup.
    #[n(10)]
    LookupResult(#[n(0)] LookupResult),
    /// Wants to hear of changes in an area.
    #[n(16)]
    Watch(#[n(0)] Watch),
    /// The changes of a watched area since the report before.
    #[n(17)]
    WatchChange(#[n(0)] WatchChange),
    /// Ends a watch before it expires.
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

/// The content of [`DirectoryMessage::LookupResult`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct LookupResult {
    /// The number of the request or the lookup.
    #[n(0)]
    pub id: RequestId,
    /// The providers, the best first; at most [`MAX_CANDIDATES`].
    #[n(1)]
    pub candidates: Vec<Candidate>,
    /// The part of the directory behind the answer.
    #[n(2)]
    pub coverage: Coverage,
    /// True if another hub, which asked for the same search before, gets some of what there is.
    #[n(3)]
    pub has_omissions: Option<bool>,
    /// True if a hub that was asked has not answered, so that what others told it is in no answer.
    #[n(4)]
    pub has_losses: Option<bool>,
}

/// The part of the directory behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode)]
#[cbor(index_only)]
pub enum Coverage {
    /// The whole area, at every hub that may know a provider.
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
    /// The providers that were found first in the cell of the request. Hubs that were not waited for may know
    /// others there.
    #[n(4)]
    FirstMatch,
}

open!(Coverage, [Complete, HubStarting, Partial, UnreachableAbove, FirstMatch], else Partial);

impl Coverage {
    /// The coverage of two answers together: the smaller one.
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

/// A provider, as a lookup shows it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Candidate {
    /// The id of the provider.
    #[n(0)]
    pub node: NodeId,
    /// The version of its record, by which two answers are compared.
    #[n(1)]
    pub version: Version,
    /// The cell of the provider, from its record.
    #[n(2)]
    pub cell: Cell,
    /// All services of the provider, not only that of the lookup.
    #[n(3)]
    pub services: ServiceSet,
    /// The capacity that the provider has left.
    #[n(4)]
    pub capacity: Capacity,
    /// Addresses to dial, the preferred transport first; at most
    /// [`MAX_ADDRESSES`](crate::record::MAX_ADDRESSES).
    #[cbor(n(5), with = "address::list", has_nil)]
    pub addresses: Vec<Address>,
    /// The name in its certificate, at most [`MAX_NAME_BYTES`](super::MAX_NAME_BYTES): where names
    /// were asked for, and a hub knows it.
    #[n(6)]
    pub name: Option<String>,
    /// The exact position of a provider that tells it, at the time of the answer.
    #[n(7)]
    pub position: Option<ExactPosition>,
}

/// The content of [`DirectoryMessage::Watch`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct Watch {
    /// The watcher's number for it; the same number again renews it.
    #[n(0)]
    pub id: RequestId,
    /// The services to watch; an offer of any of them counts.
    #[n(1)]
    pub services: ServiceSet,
    /// The area of the providers; one that leaves it is removed.
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

/// The content of [`DirectoryMessage::WatchChange`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct WatchChange {
    /// The watcher's number for the watch.
    #[n(0)]
    pub id: RequestId,
    /// Counts the changes of this watch, from 1.
    #[n(1)]
    pub sequence: u64,
    /// Providers that came, moved or changed.
    #[n(2)]
    pub updated: Vec<Candidate>,
    /// Providers that are no longer in the area.
    #[n(3)]
    pub removed: Vec<NodeId>,
    /// The new coverage of the watch, if a part of the area is missing.
    #[n(4)]
    pub coverage: Option<Coverage>,
}

/// The content of [`DirectoryMessage::HubLookup`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct HubLookup {
    /// The asking hub's number for the lookup.
    #[n(0)]
    pub id: RequestId,
    /// The service that a provider has to offer.
    #[n(1)]
    pub service: Service,
    /// The area in which a provider has to be.
    #[n(2)]
    pub area: Area,
    /// The most providers in the answer.
    #[n(3)]
    pub count: u8,
    /// The direction in which the lookup may go on; `None` is down.
    #[n(4)]
    pub direction: Option<RouteDirection>,
    /// The asking hub waits so long for the answer, milliseconds.
    #[n(5)]
    pub timeout_ms: Option<u32>,
    /// The only providers that are meant, as in [`ServiceRequest`](super::ServiceRequest); `None` means any.
    #[n(6)]
    pub selector: Option<NodeSelector>,
    /// Metadata that an offer has to carry.
    #[n(7)]
    pub filter: Metadata,
    /// The number that all lookups of one search bear, over whichever hubs they come. It is drawn at random. A hub
    /// that another one, still connected, has asked for the search as far answers that this one gets nothing more.
    #[n(8)]
    pub search: Option<u64>,
}
