//! Hubs that do not answer a search.

use super::Awaited;
use crate::hub::route::HubQuery;
use crate::hub::{Hub, MAX_PER_WAKE};
use crate::ids::{NodeId, RequestId};
use crate::time::Time;
use crate::wire::{Coverage, RouteDirection};

/// How often a hub is asked that is silent, if nobody can be asked in its
/// place: on a path that loses, silence is not death.
pub(in crate::hub) const ASKS: u8 = 3;

impl Hub {
    /// A hub is gone: nobody waits for it any longer.
    pub(in crate::hub) fn drop_silent_hub(&mut self, now: Time, hub: NodeId) {
        let waiting = self.hub_lookups.table.iter().filter(|(_, lookup)| lookup.awaited.contains_key(&hub));
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.ask_alternative(now, id, hub);
            self.poll_lookup(now, id);
        }
    }

    /// A hub does not answer: another one is asked in its place, or the answer
    /// does without.
    fn ask_alternative(&mut self, now: Time, id: RequestId, hub: NodeId) {
        let Some(lookup) = self.hub_lookups.table.get_mut(&id) else { return };
        let Some(Awaited { way, mut instead, .. }) = lookup.awaited.remove(&hub) else { return };
        if lookup.waiters.is_empty() {
            return;
        }
        if instead.is_empty() {
            let above = way == RouteDirection::Up;
            let reach = if above { Coverage::UnreachableAbove } else { Coverage::Partial };
            lookup.coverage = lookup.coverage.with(reach);
            self.counters.hub_lookups_partial += 1;
            return;
        }
        let next = instead.remove(0);
        if !lookup.awaited.contains_key(&next) {
            self.ask(now, id, HubQuery { hub: next, way, fallbacks: instead });
        }
    }

    pub(in crate::hub) fn expire_hub_lookups(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some((_, id)) = self.hub_lookups.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.remind(now, id);
            self.poll_lookup(now, id);
        }
    }

    /// Those who are silent, or have been searching for a while, are asked
    /// again, or others in their place.
    fn remind(&mut self, now: Time, id: RequestId) {
        let Some(lookup) = self.hub_lookups.table.get_mut(&id) else { return };
        if lookup.waiters.is_empty() {
            return lookup.awaited.clear();
        }
        if now >= lookup.until {
            lookup.coverage = lookup.coverage.with(Coverage::Partial);
            self.counters.hub_lookups_partial += 1;
            return lookup.awaited.clear();
        }
        let due = lookup.awaited.iter().filter(|(_, awaited)| awaited.due <= now);
        let due: Vec<(NodeId, RouteDirection, bool, bool)> =
            due.map(|(hub, awaited)| (*hub, awaited.way, awaited.asked > 0, awaited.is_over())).collect();
        for (hub, way, silent, is_over) in due {
            if silent {
                self.remotes.mark_unresponsive(hub);
            }
            if silent && is_over {
                self.ask_alternative(now, id, hub);
            } else {
                self.ask(now, id, HubQuery { hub, way, fallbacks: Vec::new() });
            }
        }
        self.hub_lookups.plan(id);
    }
}

impl Awaited {
    /// Whether its silence is enough: somebody else can be asked, or it was
    /// asked often.
    fn is_over(&self) -> bool {
        self.asked >= ASKS || !self.instead.is_empty()
    }
}
