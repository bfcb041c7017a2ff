//! The hubs to which a question goes on: those below that have something, a parent, or other roots.

use std::cmp::Reverse;

use roost_wire::block::BlockService;
use roost_wire::messages::{Coverage, HomeChanged, RegistrationMessage, RouteDirection};
use roost_wire::{Area, NodeId, Service};

use super::Summaries;
use crate::hub::core::HubCore;
use crate::hub::route::{HubQuery, RoutePlan};

/// An area of more blocks is asked for at all roots: its owners would be most
/// of them.
const FEW: usize = 16;

impl Summaries {
    /// The hubs to which a request for a block goes on, one after the other.
    pub(crate) fn route(
        &self,
        core: &HubCore,
        block_service: BlockService,
        plan: RoutePlan,
    ) -> Vec<(NodeId, RouteDirection)> {
        let mut below: Vec<(NodeId, u32)> = self.below(block_service).collect();
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
        // A root that has the block and owns it, too, is asked once.
        let mut asked = vec![core.config.node];
        route.retain(|(hub, _)| {
            let fresh = Some(*hub) != plan.from && !asked.contains(hub) && core.remotes.is_up(*hub);
            asked.push(*hub);
            fresh
        });
        route
    }

    /// The roots that have something in a block, as far as this one owns it.
    fn roots_holding(&self, block_service: BlockService) -> impl Iterator<Item = (NodeId, RouteDirection)> + '_ {
        self.beside(block_service).map(|hub| (hub, RouteDirection::Down))
    }

    /// The hubs that are asked at the same time for what there is in an area,
    /// and how far the answer reaches because of those that cannot be asked.
    /// The course says from whom it comes only if that matters: whoever else
    /// asks the same gets the same answer.
    pub(crate) fn search_route(
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
        // Without a root that should be there its blocks may have owners that
        // do not know them yet: then all that are left are asked.
        let few = BlockService::few(service.code(), area, FEW)
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

    /// Tells those who are nearer to the old home. Reliably, hop by hop; what
    /// is lost nevertheless ends with the lease.
    pub(crate) fn pass_on(&mut self, core: &mut HubCore, moved: HomeChanged, plan: RoutePlan) {
        let Some(hops) = moved.hops_left.checked_sub(1) else { return };
        let mut route = self.route(core, BlockService::from_cell(moved.service.code(), moved.cell), plan);
        if core.remotes.is_up(moved.old_home) {
            route = vec![(moved.old_home, RouteDirection::Down)];
        }
        // A single parent passes it on; two would tell everybody twice.
        let above = route.iter().position(|(_, way)| *way == RouteDirection::Up);
        let chosen =
            route.into_iter().enumerate().filter(|(n, (_, way))| *way != RouteDirection::Up || Some(*n) == above);
        for (_, (hub, way)) in chosen.collect::<Vec<_>>() {
            core.send_to_hub(
                hub,
                RegistrationMessage::HomeChanged(HomeChanged { direction: way, hops_left: hops, ..moved.clone() }),
            );
        }
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
            // An owner that is asked looks at its own as well.
            Some(ask) => {
                ask.way = ask.way.min(way);
                ask.fallbacks.extend(instead.into_iter().filter(|hub| *hub != ask.hub));
            }
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
