//! Ways of a question that this hub cannot answer alone: to those below that have something, up to a parent, and from
//! root to root.
//!
//! A question goes up, then across, then down, and never back, so it cannot
//! go round. At the top each block has two owners, chosen by rendezvous
//! hashing among the roots that are up; they know which roots have something
//! in it.

use roost_wire::block::BlockService;
use roost_wire::messages::RouteDirection;
use roost_wire::random::SplitMix64;
use roost_wire::{NodeId, Scope};

use super::core::HubCore;
use super::relation::Relation;

/// To how many hubs a request may go, one after the other.
pub(super) const HOPS: u8 = 8;

/// Number of times that a silent hub is asked, if nobody can be asked in its
/// place: on a path that loses, silence is not death.
pub(super) const ASKS: u8 = 3;

const OWNERS: usize = 2;

/// A hub to ask, and the hubs that are asked in its place if it does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubQuery {
    pub(super) hub: NodeId,
    pub(super) way: RouteDirection,
    pub(super) fallbacks: Vec<NodeId>,
}

/// A question on its way: which way it came, and from which hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoutePlan {
    pub(super) way: RouteDirection,
    pub(super) from: Option<NodeId>,
    /// True if it goes no further than the parent and what is below that.
    pub(super) near: bool,
    /// The number of the search that another hub has begun and of which it is a part.
    pub(super) search: Option<u64>,
}

impl RoutePlan {
    /// Of a question that a node of this hub asks.
    pub(super) const BEGIN: Self = Self { way: RouteDirection::Up, from: None, near: false, search: None };

    /// Of a question that another hub asks.
    pub(super) const fn from(way: RouteDirection, hub: NodeId) -> Self {
        Self { way, from: Some(hub), near: false, search: None }
    }

    /// Of a question of a node of this hub that is to go so far; `None` if it
    /// stays here.
    pub(super) const fn from_scope(scope: Scope) -> Option<Self> {
        match scope {
            Scope::Subnet | Scope::Home => None,
            Scope::Area => Some(Self { near: true, ..Self::BEGIN }),
            Scope::Cell | Scope::Anywhere => Some(Self::BEGIN),
        }
    }

    /// Reach from here, in the words of requests.
    pub(super) const fn scope(self) -> Scope {
        if self.near { Scope::Area } else { Scope::Anywhere }
    }

    /// True if everybody is asked that could have something.
    pub(super) fn is_everywhere(self) -> bool {
        self.way == RouteDirection::Up && !self.near
    }

    /// Direction to the parent.
    pub(super) fn up(self) -> RouteDirection {
        if self.near { RouteDirection::Down } else { RouteDirection::Up }
    }
}

/// The owners of a block among `roots`. When one goes, only its blocks change owners.
pub(super) fn owners(roots: &[NodeId], block_service: BlockService) -> Vec<NodeId> {
    greatest(roots, block_service.number())
}

/// The hubs with the greatest hash of themselves and `number` (highest random weight).
pub(super) fn greatest(roots: &[NodeId], number: u64) -> Vec<NodeId> {
    let weight = |root: &NodeId| {
        let halves = root.as_bytes().chunks_exact(8).map(|half| half.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
        halves.fold(number, |state, half| SplitMix64::new(state ^ half).next_u64())
    };
    let mut first: [Option<(u64, NodeId)>; OWNERS] = [None; OWNERS];
    for root in roots {
        let mut next = Some((weight(root), *root));
        for held in &mut first {
            (*held, next) = ((*held).max(next), (*held).min(next));
        }
    }
    first.into_iter().flatten().map(|(_, root)| root).collect()
}

impl HubCore {
    /// The roots that are up, as this one sees them; it is one of them.
    pub(super) fn roots(&self) -> Vec<NodeId> {
        self.siblings_up().chain([self.config.node]).collect()
    }

    pub(super) fn owners(&self, block_service: BlockService) -> Vec<NodeId> {
        owners(&self.roots(), block_service)
    }

    /// True if there is anybody to ask besides this hub, now or once it is up.
    pub(super) fn has_others(&self) -> bool {
        self.mesh.is_configured() || self.remotes.hub_count() > 0
    }

    /// True if a root is not there that should be: what it has is not known.
    pub(super) fn is_root_missing(&self) -> bool {
        self.is_root() && self.siblings_up().count() < self.mesh.sibling_count().max(self.member_count)
    }

    /// The hubs in their order, those that left a question unanswered last.
    pub(super) fn trusted(&self, mut hubs: Vec<NodeId>) -> impl Iterator<Item = NodeId> + use<> {
        hubs.sort_by_key(|hub| self.remotes.is_unresponsive(*hub));
        hubs.into_iter()
    }

    /// Direction to a provider that a hub nearby has named.
    pub(super) fn way_to(&self, hub: NodeId) -> RouteDirection {
        match self.relation(hub) {
            Some(Relation::Parent) => RouteDirection::Up,
            Some(Relation::Sibling) => RouteDirection::Across,
            Some(Relation::Child(_) | Relation::StandbyOnly) | None => RouteDirection::Down,
        }
    }
}
