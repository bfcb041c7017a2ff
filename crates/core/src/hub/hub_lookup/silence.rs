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
        let Some(Awaited { way, instead, .. }) = lookup.awaited.remove(&hub) else { return };
        if lookup.waiters.is_empty() {
            return;
        }
        if !instead.is_empty() {
            return self.ask_next(core, id, way, instead);
        }
        let above = way == RouteDirection::Up;
        let reach = if above { Coverage::UnreachableAbove } else { Coverage::Partial };
        lookup.coverage = lookup.coverage.with(reach);
        core.counters.hub_lookups_partial += 1;
    }

    /// Asks the first of these hubs, and the others in its place if need be.
    pub(super) fn ask_next(&mut self, core: &mut HubCore, id: RequestId, way: RouteDirection, mut hubs: Vec<NodeId>) {
        let next = hubs.remove(0);
        if self.table.get(&id).is_some_and(|lookup| !lookup.awaited.contains_key(&next)) {
            // To the other hub it is a search that nobody else has asked for.
            self.renew_search(core, id);
            self.ask(core, id, HubQuery { hub: next, way, fallbacks: hubs });
        }
    }

    /// Some hub did not answer, and may have been told what others left out: these are asked for all that they have,
    /// once. True if so.
    pub(super) fn asks_for_omissions(&mut self, core: &mut HubCore, id: RequestId) -> bool {
        let now = core.now;
        let Some(lookup) = self.table.get_mut(&id).filter(|lookup| lookup.may_lack_omissions(now)) else {
            return false;
        };
        let omitting = std::mem::take(&mut lookup.omitting);
        (lookup.has_omissions, lookup.has_asked_again) = (false, true);
        self.renew_search(core, id);
        for hub in omitting {
            self.ask(core, id, HubQuery { hub, way: RouteDirection::Down, fallbacks: Vec::new() });
        }
        true
    }

    fn renew_search(&mut self, core: &mut HubCore, id: RequestId) {
        let search = self.begin_search(core);
        if let Some(lookup) = self.table.get_mut(&id) {
            lookup.search = search;
        }
    }

    pub(crate) fn expire_hub_lookups(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            let Some((_, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.remind(core, id);
            self.poll_lookup(core, id);
        }
    }

    /// Hubs that are silent, or have been searching for a while, are asked again, or others in their place.
    fn remind(&mut self, core: &mut HubCore, id: RequestId) {
        let now = core.now;
        let Some(lookup) = self.table.get_mut(&id) else { return };
        if lookup.waiters.is_empty() {
            return lookup.awaited.clear();
        }
        if now >= lookup.until {
            lookup.coverage = lookup.coverage.with(Coverage::Partial);
            core.counters.hub_lookups_partial += 1;
            return lookup.awaited.clear();
        }
        let due = lookup.awaited.iter().filter(|(_, awaited)| awaited.due <= now);
        let due: Vec<(NodeId, RouteDirection, bool, bool)> =
            due.map(|(hub, awaited)| (*hub, awaited.way, awaited.asked > 0, awaited.is_over())).collect();
        for (hub, way, silent, is_over) in due {
            if silent {
                core.remotes.mark_unresponsive(hub);
            }
            if silent && is_over {
                self.ask_alternative(core, id, hub);
            } else {
                self.ask(core, id, HubQuery { hub, way, fallbacks: Vec::new() });
            }
        }
        self.plan(id);
    }
}

impl Awaited {
    /// True if its silence is enough: somebody else can be asked, or it was
    /// asked often.
    fn is_over(&self) -> bool {
        self.asked >= ASKS || !self.instead.is_empty()
    }
}
