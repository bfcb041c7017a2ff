//! Watches of changes in an area, here and at other hubs.
//!
//! A watch goes the ways of a search and stays there: up to the parent, at
//! a root to every other root, and down to each child as soon as that has
//! something in the area. The changes come back under a number of this hub's
//! and go on to the watcher in one sequence with its own. Changes travel
//! reliably, so a snapshot at the beginning is enough; if a connection dies
//! with some of them, or a number is missing, the watch is carried there anew.
//! What a hub cannot see, because another one keeps no more watches, its
//! watchers are told: their picture is partial until that one takes it.

mod forwarding;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use roost_policy::Action;
use roost_wire::messages::{
    Candidate, Coverage, Decline, DirectoryMessage, MAX_CANDIDATES, Reason, RequestMessage, RouteDirection, Watch,
    WatchChange,
};
use roost_wire::{Area, Cell, Channel, ConnectionId, NodeId, RequestId, SchemeSet, ServiceSet, Time, Version};

use super::HubLimit;
use super::relation::Relation;
use super::remotes::WATCH;
use super::route::RoutePlan;
use super::sender::Sender;
use crate::directory::{DirectoryQuery, Judged, PreviousEntry, SearchPurpose};
use crate::hub::core::HubCore;
use crate::hub::registry::Records;
use crate::hub::summaries::BlockIndex;
use crate::machine::Traffic;
use crate::request_key::RequestKey;

/// The most nodes that one watch follows. More than that is no list for people.
const MAX_FOLLOWED: usize = 1_024;

/// The most candidates in one change: 32 with eight addresses of four hosts
/// each still fit into one message.
const MAX_PRESENT: usize = MAX_CANDIDATES / 2;

#[derive(Debug, Default)]
pub(super) struct WatchTable {
    table: BTreeMap<RequestKey, ActiveWatch>,
    /// The numbers under which watches are carried to other hubs.
    forwarded: BTreeMap<RequestId, RequestKey>,
    last: u32,
    /// Time at which each watch that a hub refused is offered again.
    offers: BTreeSet<(Time, RequestKey)>,
}

#[derive(Debug)]
struct ActiveWatch {
    connection: ConnectionId,
    services: ServiceSet,
    area: Area,
    /// True if changes carry names.
    names: bool,
    number: u64,
    /// Number of the last change when the watcher last renewed.
    renewed_at: u64,
    /// Direction from which it came, and from which hub.
    route_plan: RoutePlan,
    /// The number under which other hubs know it, and which do, with the last
    /// change of each; `None` before the first.
    forwarded_as: RequestId,
    told: BTreeMap<NodeId, Option<u64>>,
    /// The hubs that do not keep it, or do not see everything themselves.
    blind: BTreeSet<NodeId>,
    /// Time at which it is offered again to hubs that refused it.
    offer: Option<Time>,
    /// Nodes that the watcher believes to be there.
    followed: BTreeMap<NodeId, FollowedNode>,
}

#[derive(Clone, Debug)]
struct FollowedNode {
    version: Version,
    cell: Cell,
    services: ServiceSet,
    /// The hub that said so; `None` of a node whose record is here.
    source: Option<NodeId>,
}

impl WatchTable {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.offers.first().map(|(at, _)| *at)
    }
}

impl ActiveWatch {
    /// Coverage, if that is not the whole area.
    fn coverage(&self) -> Option<Coverage> {
        (!self.blind.is_empty()).then_some(Coverage::Partial)
    }

    /// Renews the watch. False if it is another one, or what the watcher has seen fits nothing.
    fn renew(&mut self, from: Sender, watch: &Watch) -> bool {
        self.connection = from.connection;
        let names = watch.names.unwrap_or(false);
        let is_same = (&self.services, self.area, self.names) == (&watch.services, watch.area, names);
        let is_known = watch.last_seen != 0 && (self.renewed_at..=self.number).contains(&watch.last_seen);
        if is_same && is_known {
            // Changes that it has not seen are on their way: they travel reliably.
            self.renewed_at = self.number;
        }
        is_same && is_known
    }

    fn covers(&self, services: &ServiceSet, cell: Cell) -> bool {
        self.area.contains(cell) && self.services.iter().any(|service| services.contains(service))
    }

    /// True if the watcher is to hear of this, which `source` says.
    fn takes(&mut self, candidate: &Candidate, source: Option<NodeId>) -> bool {
        let full = self.followed.len() >= MAX_FOLLOWED;
        let Candidate { version, cell, ref services, .. } = *candidate;
        let services = services.clone();
        let told = FollowedNode { version, cell, services, source };
        match self.followed.get_mut(&candidate.node) {
            Some(known) if known.version > version => false,
            Some(known) => std::mem::replace(known, told).version < version,
            None if full => false,
            None => {
                self.followed.insert(candidate.node, told);
                true
            }
        }
    }

    /// True if the watcher is to hear that `source` no longer has the node.
    fn loses(&mut self, node: NodeId, source: Option<NodeId>) -> bool {
        let known = self.followed.get(&node).is_some_and(|known| known.source == source);
        known && self.followed.remove(&node).is_some()
    }
}

impl WatchTable {
    /// Begins, replaces or renews a watch.
    pub(super) fn watch(
        &mut self,
        core: &mut HubCore,
        records: Records<'_>,
        below: BlockIndex<'_>,
        from: Sender,
        watch: Watch,
    ) {
        let now = core.now;
        let key = RequestKey { requester: from.node, id: watch.id };
        if self.table.get_mut(&key).is_some_and(|held| held.renew(from, &watch)) {
            return;
        }
        if !core.remotes.get_mut(from.node).is_some_and(|node| node.try_charge(now, WATCH)) {
            core.over_limit(from.node, HubLimit::WorkRate);
            return;
        }
        // The count goes on, so that what is under way cannot be taken for something newer.
        let number = self.table.get(&key).map_or(watch.last_seen, |held| held.number);
        self.unwatch(core, from.node, watch.id);
        if core.forbids_watch(from, &watch) {
            return core.refuse_watch(from.connection, watch.id);
        }
        if !self.admit_watch(core, from) {
            let decline = Decline::new(watch.id, Reason::TooMany);
            return core.send_answer(from.connection, RequestMessage::Decline(decline));
        }
        let watching = ActiveWatch {
            connection: from.connection,
            services: watch.services,
            area: watch.area,
            names: watch.names.unwrap_or(false),
            number,
            renewed_at: number,
            route_plan: core.course_of(from, watch.direction),
            forwarded_as: self.forwarded_id(key),
            told: BTreeMap::new(),
            blind: BTreeSet::new(),
            offer: None,
            followed: BTreeMap::new(),
        };
        self.table.insert(key, watching);
        self.send_snapshot(core, records, key);
        self.forward_watch(core, below, key);
    }

    fn admit_watch(&mut self, core: &mut HubCore, from: Sender) -> bool {
        let (total, limits) = (self.len(), &core.config.limits);
        let Some(remote) = core.remotes.get_mut(from.node) else { return false };
        let is_full = total >= limits.watches;
        if is_full || remote.watches >= remote.allowance(limits.watches_per_node) {
            core.over_limit(from.node, if is_full { HubLimit::Watches } else { HubLimit::WatchesPerNode });
            return false;
        }
        remote.watches += 1;
        true
    }

    fn forwarded_id(&mut self, key: RequestKey) -> RequestId {
        loop {
            self.last = self.last.wrapping_add(1);
            let id = RequestId(self.last);
            // There are far fewer watches than numbers.
            if let Entry::Vacant(free) = self.forwarded.entry(id) {
                free.insert(key);
                return id;
            }
        }
    }

    /// Tells a watcher what is there now; nothing is told as an empty change,
    /// so that the watcher knows that the watch stands.
    fn send_snapshot(&mut self, core: &mut HubCore, records: Records<'_>, key: RequestKey) {
        let Some(watching) = self.table.get(&key) else { return };
        let (services, area) = (watching.services.clone(), watching.area);
        let (mut hits, mut there) = (Vec::new(), BTreeMap::<NodeId, Candidate>::new());
        for service in services.iter() {
            let query = DirectoryQuery::new(service, area, SearchPurpose::List, MAX_FOLLOWED);
            core.counters.searches += 1;
            core.examined += records.directory().find(&query, &mut hits);
            for hit in &hits {
                let candidate = records.directory().hit(*hit).candidate();
                if records.home_of(candidate.node) == Some(key.requester) {
                    // A cache tells its watchers of its own nodes itself.
                    continue;
                }
                there.insert(candidate.node, core.visible_to_watcher(key.requester, candidate));
            }
        }
        let Some(watching) = self.table.get_mut(&key) else { return };
        let covered = there.into_values().filter(|candidate| watching.covers(&candidate.services, candidate.cell));
        let covered: Vec<Candidate> = covered.collect();
        let present: Vec<Candidate> = covered.into_iter().filter(|candidate| watching.takes(candidate, None)).collect();
        if present.is_empty() {
            self.send_change(core, key, Vec::new(), Vec::new());
        }
        for part in present.chunks(MAX_PRESENT) {
            self.send_change(core, key, part.to_vec(), Vec::new());
        }
    }

    pub(super) fn send_change(
        &mut self,
        core: &mut HubCore,
        key: RequestKey,
        present: Vec<Candidate>,
        gone: Vec<NodeId>,
    ) {
        let Some(watching) = self.table.get_mut(&key) else { return };
        // Only a watcher that lies about what it has seen gets there.
        watching.number = watching.number.wrapping_add(1);
        let (connection, number, id, coverage) = (watching.connection, watching.number, key.id, watching.coverage());
        let names = watching.names;
        core.counters.changes += 1;
        let named = |candidate| if names { core.named(candidate) } else { candidate };
        let present = present.into_iter().map(|candidate| core.shown(connection, named(candidate))).collect();
        let change = DirectoryMessage::WatchChange(WatchChange {
            id,
            sequence: number,
            updated: present,
            removed: gone,
            coverage,
        });
        core.send(connection, Channel::Reliable { flow: id.0 }, Traffic::Lookup, change);
    }

    /// A node's record has come, changed or gone: `before` is what it was.
    pub(super) fn tell_watchers(
        &mut self,
        core: &mut HubCore,
        records: Records<'_>,
        node: NodeId,
        before: Option<&PreviousEntry>,
    ) {
        if self.table.is_empty() {
            return;
        }
        let now = records.get(node).map(|entry| entry.candidate());
        let keys: Vec<RequestKey> = self.table.keys().copied().collect();
        let home = records.home_of(node);
        for key in keys.into_iter().filter(|key| home != Some(key.requester)) {
            let Some(watching) = self.table.get_mut(&key) else { continue };
            let visible = now.clone().map(|candidate| core.visible_to_watcher(key.requester, candidate));
            let here = visible.filter(|candidate| watching.covers(&candidate.services, candidate.cell));
            let was = before.is_some_and(|place| watching.covers(&place.services, place.cell));
            match here {
                Some(candidate) if watching.takes(&candidate, None) => {
                    self.send_change(core, key, vec![candidate], Vec::new());
                }
                None if was && watching.loses(node, None) => self.send_change(core, key, Vec::new(), vec![node]),
                _ => {}
            }
        }
    }

    pub(super) fn unwatch(&mut self, core: &mut HubCore, node: NodeId, id: RequestId) {
        let Some(watching) = self.table.remove(&RequestKey { requester: node, id }) else { return };
        if let Some(remote) = core.remotes.get_mut(node) {
            remote.watches = remote.watches.saturating_sub(1);
        }
        self.forwarded.remove(&watching.forwarded_as);
        if let Some(at) = watching.offer {
            self.offers.remove(&(at, RequestKey { requester: node, id }));
        }
        for hub in watching.told.into_keys() {
            core.send_to_hub(hub, DirectoryMessage::Unwatch(watching.forwarded_as));
        }
    }

    /// There is another policy: watches end of which it allows nothing, and the other watchers are told what they may
    /// not see any more. What they may see now, they ask for: a change is missing.
    pub(super) fn on_policy(&mut self, core: &mut HubCore) {
        for key in self.table.keys().copied().collect::<Vec<_>>() {
            let Some(watching) = self.table.get_mut(&key) else { continue };
            let role = core.remotes.get(key.requester).map(|remote| remote.role);
            let Some(role) = role.filter(|role| !role.is_hub()) else { continue };
            let (connection, services, area) = (watching.connection, watching.services.clone(), watching.area);
            let from = Sender { connection, node: key.requester, role };
            let watch = Watch { id: key.id, services, area, last_seen: 0, direction: None, names: None };
            if core.forbids_watch(from, &watch) {
                core.refuse_watch(connection, key.id);
                self.unwatch(core, key.requester, key.id);
                continue;
            }
            let judged = Judged { node: key.requester, action: Action::Watch };
            let is_hidden = |known: &FollowedNode| {
                let services = core.visible(Some(judged), &known.services, known.cell);
                !watching.covers(&services, known.cell)
            };
            let hidden = watching.followed.iter().filter(|(_, known)| is_hidden(known)).map(|(node, _)| *node);
            let hidden: Vec<NodeId> = hidden.collect();
            for node in &hidden {
                watching.followed.remove(node);
            }
            self.send_change(core, key, Vec::new(), hidden);
            if let Some(watching) = self.table.get_mut(&key) {
                watching.number = watching.number.wrapping_add(1);
            }
            self.send_change(core, key, Vec::new(), Vec::new());
        }
    }

    pub(super) fn drop_watches_of(&mut self, core: &mut HubCore, node: NodeId) {
        let ids: Vec<RequestId> = self.table.range(RequestKey::all_of(node)).map(|(key, _)| key.id).collect();
        for id in ids {
            self.unwatch(core, node, id);
        }
    }

    /// A watcher's connection is gone, but not its last one.
    pub(super) fn move_watches(&mut self, core: &mut HubCore, node: NodeId, gone: ConnectionId) {
        let Some(other) = core.remotes.best_connection(node, SchemeSet::ALL) else { return };
        for (_, watching) in self.table.range_mut(RequestKey::all_of(node)) {
            if watching.connection == gone {
                watching.connection = other;
            }
        }
    }
}

impl HubCore {
    fn refuse_watch(&mut self, connection: ConnectionId, id: RequestId) {
        self.counters.forbidden += 1;
        let decline = Decline::new(id, Reason::Forbidden);
        self.send_answer(connection, RequestMessage::Decline(decline));
    }

    fn course_of(&self, from: Sender, way: Option<RouteDirection>) -> RoutePlan {
        match self.relation(from.node) {
            None => RoutePlan::BEGIN,
            Some(Relation::Child(_)) => RoutePlan::from(way.unwrap_or(RouteDirection::Down), from.node),
            Some(_) => RoutePlan::from(RouteDirection::Down, from.node),
        }
    }
}
