//! Watches at other hubs: taking them there, and what comes back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use roost_wire::block::{Block, BlockService};
use roost_wire::messages::{Candidate, Coverage, DirectoryMessage, RouteDirection, Watch, WatchChange};
use roost_wire::{NodeId, RequestId};

use super::ActiveWatch;
use crate::hub::core::HubCore;
use crate::hub::relation::Relation;
use crate::hub::sender::Sender;
use crate::hub::summaries::BlockIndex;
use crate::hub::timers::MAX_PER_WAKE;
use crate::hub::watches::WatchTable;
use crate::request_key::RequestKey;

/// Pause before a watch that was refused is offered again; jittered.
const OFFER_AGAIN: Duration = Duration::from_secs(30);

impl ActiveWatch {
    /// Notes how a hub covers what it is to tell; `None` is all of it. True if the
    /// watcher is to hear of that.
    fn note_sight(&mut self, hub: NodeId, coverage: Option<Coverage>) -> bool {
        let before = self.coverage();
        if coverage.is_none() {
            self.blind.remove(&hub);
        } else {
            self.blind.insert(hub);
        }
        before != self.coverage()
    }
}

impl WatchTable {
    /// Takes a watch to the hubs that are to know it and do not yet.
    pub(crate) fn forward_watch(&mut self, core: &mut HubCore, below: BlockIndex<'_>, key: RequestKey) {
        let Some(watching) = self.table.get(&key) else { return };
        let (services, area, plan) = (&watching.services, watching.area, watching.route_plan);
        let mut hubs: BTreeMap<NodeId, RouteDirection> = BTreeMap::new();
        for service in services.iter() {
            hubs.extend(below.holders_in(service, area).into_iter().map(|hub| (hub, RouteDirection::Down)));
        }
        match plan.way {
            RouteDirection::Up if core.is_root() => {
                hubs.extend(core.siblings_up().map(|hub| (hub, RouteDirection::Down)))
            }
            RouteDirection::Up => hubs.extend(core.parents().first().map(|hub| (*hub, RouteDirection::Up))),
            RouteDirection::Across | RouteDirection::Down | RouteDirection::Overflow => {}
        }
        hubs.retain(|hub, _| Some(*hub) != plan.from && core.remotes.is_up(*hub));
        for (hub, way) in hubs {
            self.forward_watch_to(core, key, hub, way);
        }
    }

    fn forward_watch_to(&mut self, core: &mut HubCore, key: RequestKey, hub: NodeId, way: RouteDirection) {
        let Some(watching) = self.table.get_mut(&key) else { return };
        if let Entry::Vacant(new) = watching.told.entry(hub) {
            new.insert(None);
            let (id, services, area) = (watching.forwarded_as, watching.services.clone(), watching.area);
            let names = watching.names.then_some(true);
            core.send_to_hub(
                hub,
                DirectoryMessage::Watch(Watch { id, services, area, last_seen: 0, direction: Some(way), names }),
            );
        }
    }

    /// A hub has something where it had nothing: who watches there is told so by it.
    pub(crate) fn watched_block(&mut self, core: &mut HubCore, hub: NodeId, block_service: BlockService) {
        if !matches!(core.relation(hub), Some(Relation::Child(_))) {
            return;
        }
        let block = block_service.block();
        let wanted = self.table.iter().filter(|(_, watching)| {
            let (rows, columns) = Block::bounds(watching.area);
            let within = rows.contains(&block.row) && columns.contains(&block.column);
            within
                && watching.services.codes().any(|code| code == block_service.service())
                && watching.route_plan.from != Some(hub)
        });
        for key in wanted.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.forward_watch_to(core, key, hub, RouteDirection::Down);
        }
    }

    /// Another hub tells of changes for a watch that was carried to it.
    pub(crate) fn handle_change(
        &mut self,
        core: &mut HubCore,
        below: BlockIndex<'_>,
        from: Sender,
        change: WatchChange,
    ) {
        let Some(key) = self.forwarded.get(&change.id).copied() else {
            // The hub does not know yet that nobody watches any more.
            core.counters.stray += 1;
            return core.send_to_hub(from.node, DirectoryMessage::Unwatch(change.id));
        };
        let Some(watching) = self.table.get_mut(&key) else { return };
        let (source, last) = (Some(from.node), watching.told.get(&from.node).copied().flatten());
        if last.is_some_and(|last| change.sequence <= last) {
            // The change was overtaken, and that was noticed.
            return;
        }
        if last.is_some_and(|last| change.sequence != last + 1) {
            self.forget_changes(core, below, key, from.node);
        }
        let Some(watching) = self.table.get_mut(&key) else { return };
        watching.told.insert(from.node, Some(change.sequence));
        let news = watching.note_sight(from.node, change.coverage);
        let visible = change.updated.into_iter().map(|candidate| core.visible_to_watcher(key.requester, candidate));
        let (covered, hidden): (Vec<Candidate>, Vec<Candidate>) =
            visible.partition(|candidate| watching.covers(&candidate.services, candidate.cell));
        let present: Vec<Candidate> =
            covered.into_iter().filter(|candidate| watching.takes(candidate, source)).collect();
        let removed = change.removed.into_iter().chain(hidden.iter().map(|candidate| candidate.node));
        let gone: Vec<NodeId> = removed.filter(|node| watching.loses(*node, source)).collect();
        if news || !present.is_empty() || !gone.is_empty() {
            self.send_change(core, key, present, gone);
        }
    }

    /// Another hub does not keep a watch that was carried to it: it is offered
    /// again later. False if none is meant.
    pub(crate) fn watch_refused(&mut self, core: &mut HubCore, hub: NodeId, id: RequestId) -> bool {
        let now = core.now;
        let Some(key) = self.forwarded.get(&id).copied() else { return false };
        let Some(watching) = self.table.get_mut(&key) else { return false };
        if watching.told.remove(&hub).is_none() {
            return false;
        }
        let news = watching.note_sight(hub, Some(Coverage::Partial));
        if watching.offer.is_none() {
            let at = now + core.random.jitter(OFFER_AGAIN);
            watching.offer = Some(at);
            self.offers.insert((at, key));
        }
        if news {
            self.send_change(core, key, Vec::new(), Vec::new());
        }
        true
    }

    /// Offers watches again that were refused.
    pub(crate) fn offer_watches(&mut self, core: &mut HubCore, below: BlockIndex<'_>) {
        for _ in 0..MAX_PER_WAKE {
            let Some(due) = self.offers.first().copied().filter(|(at, _)| *at <= core.now) else { return };
            self.offers.remove(&due);
            let (_, key) = due;
            if let Some(watching) = self.table.get_mut(&key) {
                watching.offer = None;
            }
            self.forward_watch(core, below, key);
        }
    }

    /// A hub is gone, or what it said may be lost: nobody vouches any longer
    /// for it. The hub is asked anew, or another one in its place.
    pub(crate) fn forget_changes_of(&mut self, core: &mut HubCore, below: BlockIndex<'_>, hub: NodeId) {
        for key in self.table.keys().copied().collect::<Vec<_>>() {
            self.forget_changes(core, below, key, hub);
        }
    }

    fn forget_changes(&mut self, core: &mut HubCore, below: BlockIndex<'_>, key: RequestKey, hub: NodeId) {
        let Some(watching) = self.table.get_mut(&key) else { return };
        let said = watching.followed.iter().filter(|(_, known)| known.source == Some(hub));
        let gone: Vec<NodeId> = said.map(|(node, _)| *node).collect();
        watching.followed.retain(|_, known| known.source != Some(hub));
        let told = watching.told.remove(&hub).is_some();
        let news = watching.note_sight(hub, None);
        if news || !gone.is_empty() {
            self.send_change(core, key, Vec::new(), gone);
        }
        if told {
            self.forward_watch(core, below, key);
        }
    }

    /// A hub has come up, or stands differently to this one: the watches are
    /// taken to where they belong now.
    pub(crate) fn forward_watches(&mut self, core: &mut HubCore, below: BlockIndex<'_>) {
        for key in self.table.keys().copied().collect::<Vec<_>>() {
            self.forward_watch(core, below, key);
        }
    }
}
