//! Where a question goes that this hub cannot answer alone: to those below
//! that have something, up to a parent, and from top to top.
//!
//! A question goes up, then across, then down, and never back, so it cannot
//! go round. At the top each patch has two owners, chosen by rendezvous
//! hashing among the tops that are up; they know which tops have something
//! in it.

use std::cmp::Reverse;

use roost_wire::block::BlockService;
use roost_wire::messages::{Coverage, RouteDirection};
use roost_wire::random::SplitMix64;
use roost_wire::{Area, NodeId, Scope, Service};

use super::core::HubCore;
use super::relation::Relation;
use super::summaries::Summaries;

/// To how many hubs a request may go, one after the other.
pub(super) const HOPS: u8 = 8;

/// How many tops own a patch.
const OWNERS: usize = 2;

/// An area of more blocks is asked for at all tops: its owners would be most
/// of them.
const FEW: usize = 16;

/// One hub to ask, and who is asked in its place if it does not answer.
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
    /// Whether it goes no further than the parent and what is below that.
    pub(super) near: bool,
}

impl RoutePlan {
    /// Of a question that a node of this hub asks.
    pub(super) const BEGIN: Self = Self { way: RouteDirection::Up, from: None, near: false };

    /// Of a question that another hub asks.
    pub(super) const fn from(way: RouteDirection, hub: NodeId) -> Self {
        Self { way, from: Some(hub), near: false }
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

    /// How far it goes from here, in the words of requests.
    pub(super) const fn scope(self) -> Scope {
        if self.near { Scope::Area } else { Scope::Anywhere }
    }

    /// Whether everybody is asked that could have something.
    pub(super) fn is_everywhere(self) -> bool {
        self.way == RouteDirection::Up && !self.near
    }

    /// Which way it goes to the parent.
    fn up(self) -> RouteDirection {
        if self.near { RouteDirection::Down } else { RouteDirection::Up }
    }
}

/// The owners of a patch among `tops`. When one goes, only its patches change owners.
pub(super) fn owners(roots: &[NodeId], block_service: BlockService) -> Vec<NodeId> {
    greatest(roots, block_service.number())
}

/// The hubs with the greatest hash of themselves and `number` (highest random weight).
pub(super) fn greatest(roots: &[NodeId], number: u64) -> Vec<NodeId> {
    let weight = |top: &NodeId| {
        let halves = top.as_bytes().chunks_exact(8).map(|half| half.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
        halves.fold(number, |state, half| SplitMix64::new(state ^ half).next_u64())
    };
    let mut first: [Option<(u64, NodeId)>; OWNERS] = [None; OWNERS];
    for top in roots {
        let mut next = Some((weight(top), *top));
        for held in &mut first {
            (*held, next) = ((*held).max(next), (*held).min(next));
        }
    }
    first.into_iter().flatten().map(|(_, top)| top).collect()
}

impl HubCore {
    /// The tops that are up, as this one sees them; it is one of them.
    pub(super) fn roots(&self) -> Vec<NodeId> {
        self.siblings_up().chain([self.config.node]).collect()
    }

    pub(super) fn owners(&self, block_service: BlockService) -> Vec<NodeId> {
        owners(&self.roots(), block_service)
    }

    /// Whether there is anybody to ask besides this hub, now or once it is up.
    pub(super) fn has_others(&self) -> bool {
        self.mesh.is_configured() || self.remotes.hub_count() > 0
    }

    /// Whether a top is not there that should be: what it has is not known.
    pub(super) fn is_root_missing(&self) -> bool {
        self.is_root() && self.siblings_up().count() < self.mesh.sibling_count().max(self.member_count)
    }

    /// The hubs in their order, those that left a question unanswered last.
    fn trusted(&self, mut hubs: Vec<NodeId>) -> impl Iterator<Item = NodeId> + use<> {
        hubs.sort_by_key(|hub| self.remotes.is_unresponsive(*hub));
        hubs.into_iter()
    }

    /// How a request reaches a provider that a neighbouring hub has named.
    pub(super) fn way_to(&self, hub: NodeId) -> RouteDirection {
        match self.relation(hub) {
            Some(Relation::Parent) => RouteDirection::Up,
            Some(Relation::Sibling) => RouteDirection::Across,
            Some(Relation::Child(_) | Relation::StandbyOnly) | None => RouteDirection::Down,
        }
    }
}

impl Summaries {
    /// The hubs to which a request for a patch goes on, one after the other.
    pub(super) fn route(
        &self,
        core: &HubCore,
        block_service: BlockService,
        plan: RoutePlan,
    ) -> Vec<(NodeId, RouteDirection)> {
        let mut below: Vec<(NodeId, u32)> = self.having(block_service, true).collect();
        below.sort_unstable_by_key(|(hub, count)| (Reverse(*count), *hub));
        let mut route: Vec<(NodeId, RouteDirection)> =
            below.into_iter().map(|(hub, _)| (hub, RouteDirection::Down)).collect();
        match plan.way {
            RouteDirection::Down | RouteDirection::Overflow => {}
            RouteDirection::Up if !core.is_root() => {
                route.extend(core.parents().into_iter().map(|hub| (hub, plan.up())))
            }
            RouteDirection::Up if plan.near => {}
            RouteDirection::Up => {
                let owners = core.owners(block_service);
                if owners.contains(&core.config.node) {
                    route.extend(self.roots_holding(block_service));
                }
                route.extend(core.trusted(owners).map(|hub| (hub, RouteDirection::Across)));
            }
            RouteDirection::Across => route.extend(self.roots_holding(block_service)),
        }
        // A top that has the patch and owns it, too, is asked once.
        let mut asked = vec![core.config.node];
        route.retain(|(hub, _)| {
            let fresh = Some(*hub) != plan.from && !asked.contains(hub) && core.remotes.is_up(*hub);
            asked.push(*hub);
            fresh
        });
        route
    }

    /// The tops that have something in a patch, as far as this one owns it.
    fn roots_holding(&self, block_service: BlockService) -> impl Iterator<Item = (NodeId, RouteDirection)> + '_ {
        self.having(block_service, false).map(|(hub, _)| (hub, RouteDirection::Down))
    }

    /// The hubs that are asked at the same time for what there is in an area,
    /// and how far the answer reaches because of those that cannot be asked.
    /// The course says from whom it comes only if that matters: whoever else
    /// asks the same gets the same answer.
    pub(super) fn search_route(
        &self,
        core: &HubCore,
        service: Service,
        area: Area,
        plan: RoutePlan,
    ) -> (RoutePlan, Vec<HubQuery>, Coverage) {
        let mut asks = HubQueryBuilder { core, summaries: self, list: Vec::new() };
        let below = self.below_in(service, area);
        let unreachable = below.iter().any(|hub| !core.remotes.is_up(*hub));
        let mut coverage = if unreachable { Coverage::Partial } else { Coverage::Complete };
        below.into_iter().for_each(|hub| asks.add(hub, RouteDirection::Down, Vec::new()));
        // Without a top that should be there its patches may have owners that
        // do not know them yet: then all that are left are asked.
        let few = BlockService::few(service, area, FEW)
            .filter(|_| plan.way == RouteDirection::Across || !core.is_root_missing());
        match (plan.way, few) {
            (RouteDirection::Up, _) if !core.is_root() => match core.parents().split_first() {
                Some((primary, others)) => asks.add(*primary, plan.up(), others.to_vec()),
                None => coverage = coverage.with(Coverage::UnreachableAbove),
            },
            (RouteDirection::Up, _) if plan.near => {}
            (RouteDirection::Up, None) => {
                core.siblings_up().for_each(|hub| asks.add(hub, RouteDirection::Down, Vec::new()))
            }
            (RouteDirection::Up, Some(block_services)) => {
                block_services.into_iter().for_each(|block_service| asks.owners_of(block_service))
            }
            (RouteDirection::Across, Some(block_services)) => {
                block_services.into_iter().for_each(|block_service| asks.holders_of(block_service))
            }
            (RouteDirection::Across, None) | (RouteDirection::Down | RouteDirection::Overflow, _) => {}
        }
        if plan.is_everywhere() && core.is_root_missing() {
            coverage = coverage.with(Coverage::Partial);
        }
        let mut asks = asks.list;
        let all = asks.len();
        asks.retain(|ask| Some(ask.hub) != plan.from);
        let from = plan.from.filter(|_| asks.len() < all);
        (RoutePlan { from, ..plan }, asks, coverage)
    }
}

/// Whom to ask, each once.
struct HubQueryBuilder<'a> {
    core: &'a HubCore,
    summaries: &'a Summaries,
    list: Vec<HubQuery>,
}

impl HubQueryBuilder<'_> {
    fn add(&mut self, hub: NodeId, way: RouteDirection, instead: Vec<NodeId>) {
        let meant = hub != self.core.config.node && self.core.remotes.is_up(hub);
        match self.list.iter_mut().find(|ask| ask.hub == hub) {
            // Who is asked as an owner looks at its own as well.
            Some(ask) => ask.way = ask.way.min(way),
            None if meant => self.list.push(HubQuery { hub, way, fallbacks: instead }),
            None => {}
        }
    }

    fn owners_of(&mut self, block_service: BlockService) {
        let owners = self.core.owners(block_service);
        if owners.contains(&self.core.config.node) {
            return self.holders_of(block_service);
        }
        let mut owners = self.core.trusted(owners);
        if let Some(first) = owners.next() {
            self.add(first, RouteDirection::Across, owners.collect());
        }
    }

    fn holders_of(&mut self, block_service: BlockService) {
        for (hub, way) in self.summaries.roots_holding(block_service) {
            self.add(hub, way, Vec::new());
        }
    }
}
