//! Hubs that do not answer a search.

use roost_wire::messages::{Coverage, RouteDirection};
use roost_wire::{NodeId, RequestId};

use super::Awaited;
use crate::hub::core::HubCore;
use crate::hub::hub_lookup::HubLookups;
use crate::hub::route::{ASKS, HubQuery};
use crate::hub::timers::MAX_PER_WAKE;

impl HubLookups {
    /// A hub is gone: nobody waits for it any longer.
    pub(crate) fn drop_silent_hub(&mut self, core: &mut HubCore, hub: NodeId) {
        let waiting = self.table.iter().filter(|(_, lookup)| lookup.awaited.contains_key(&hub));
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.ask_alternative(core, id, hub);
            self.poll_lookup(core, id);
        }
    }

    /// A hub does not answer: another one is asked in its place, or the answer
    /// does without.
    fn ask_alternative(&mut self, core: &mut HubCore, id: RequestId, hub: NodeId) {
        let Some(lookup) = self.table.get_mut(&id) else { return };
        let Some(Awaited { way, fallbacks, .. }) = lookup.awaited.remove(&hub) else { return };
        if lookup.waiters.is_empty() {
            return;
        }
        lookup.gaps.record_silence();
        if self.ask_next(core, id, way, fallbacks) {
            return;
        }
        let above = way == RouteDirection::Up;
        if let Some(lookup) = self.table.get_mut(&id) {
            lookup.limit_coverage(if above { Coverage::UnreachableAbove } else { Coverage::Partial });
            core.counters.hub_lookups_partial += 1;
        }
    }

    /// Asks the first of these hubs, and the others in its place if need be. True if one is asked, or was already and
    /// as far as that.
    pub(super) fn ask_next(
        &mut self,
        core: &mut HubCore,
        id: RequestId,
        way: RouteDirection,
        hubs: Vec<NodeId>,
    ) -> bool {
        let Some(lookup) = self.table.get(&id) else { return false };
        let is_covered = |hub: &NodeId| lookup.awaited.get(hub).is_some_and(|awaited| awaited.way <= way);
        if hubs.first().is_some_and(is_covered) {
            return true;
        }
        let mut free = hubs.into_iter().filter(|hub| !lookup.awaited.contains_key(hub));
        let Some(hub) = free.next() else { return false };
        let fallbacks = free.collect();
        // To the other hub it is a search that nobody else has asked for.
        let search = self.begin_search(core);
        self.ask(core, id, HubQuery { hub, way, fallbacks }, search);
        true
    }

    pub(crate) fn expire_hub_lookups(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some((_, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.remind_silent(core, id);
            self.poll_lookup(core, id);
        }
    }

    /// Hubs that are silent, or have been searching for a while, are asked again, or others in their place.
    fn remind_silent(&mut self, core: &mut HubCore, id: RequestId) {
        let now = core.now;
        let Some(lookup) = self.table.get_mut(&id) else { return };
        if lookup.waiters.is_empty() {
            return lookup.awaited.clear();
        }
        if now >= lookup.until {
            lookup.limit_coverage(Coverage::Partial);
            lookup.gaps.record_silence();
            core.counters.hub_lookups_partial += 1;
            return lookup.awaited.clear();
        }
        let due = lookup.awaited.iter().filter(|(_, awaited)| awaited.due <= now);
        let due: Vec<(NodeId, bool, bool)> =
            due.map(|(hub, awaited)| (*hub, awaited.asked > 0, awaited.is_over())).collect();
        for (hub, silent, is_over) in due {
            if silent {
                core.remotes.mark_unresponsive(hub);
            }
            if silent && is_over {
                self.ask_alternative(core, id, hub);
            } else {
                self.remind(core, id, hub);
            }
        }
        self.plan(id);
    }
}

impl Awaited {
    /// True if its silence is enough: somebody else can be asked, or it was
    /// asked often.
    fn is_over(&self) -> bool {
        self.asked >= ASKS || !self.fallbacks.is_empty()
    }
}
