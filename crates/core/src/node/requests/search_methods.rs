//! The ways in which a request looks for a provider, and how far the search by multicast has come.

use std::time::Duration;

use roost_wire::messages::Candidate;
use roost_wire::{NodeId, Time};

use super::discovery_policy::DiscoveryMethod;

/// The ways in which a request looks for a provider.
#[derive(Debug, Default)]
pub(super) struct SearchMethods {
    /// A hub, or the provider that the request names, is asked or will be.
    pub(super) hub: bool,
    /// The connection is, or was, asked.
    pub(super) multicast: Option<MulticastSearch>,
    /// The method tried first, if that was a choice from which to learn.
    pub(super) first: Option<DiscoveryMethod>,
}

/// An inquiry under way, or over.
#[derive(Debug, Default)]
pub(super) struct MulticastSearch {
    pub(super) attempts: u8,
    /// Time at which it was last put, and the time of the others to answer it.
    pub(super) sent: Time,
    pub(super) window: Duration,
    /// The provider that says that it answers.
    pub(super) taken: Option<NodeId>,
    /// Nobody did.
    pub(super) over: bool,
    /// Of a lookup: who said to be there.
    pub(super) present: Vec<Candidate>,
}

impl SearchMethods {
    /// True if somebody in the subnet may still answer.
    pub(super) fn is_inquiring(&self) -> bool {
        self.multicast.as_ref().is_some_and(|inquiring| !inquiring.over)
    }

    /// True if nobody is asked, since the search is to begin again.
    pub(super) fn is_idle(&self) -> bool {
        !self.hub && self.multicast.is_none()
    }

    /// True if only the connection was asked.
    pub(super) fn is_multicast_only(&self) -> bool {
        self.multicast.is_some() && !self.hub
    }
}
