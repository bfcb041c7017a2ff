//! Standing by: the records that other hubs keep here, so that their nodes
//! lose nothing with them.
//!
//! Such a record lies in the directory like any other and answers requests,
//! but nobody hears of it: no claim, no word to watchers. It counts as the
//! hub's own only when its node says so ([`Adopt`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::messages::{
    self, Adopt, MAX_REPLICA_CHANGES, Message, ReplicaCapacity, ReplicaMove, ReplicaRecord, ReplicationMessage,
    ResyncRequest,
};
use roost_wire::{Cell, Channel, ConnectionId, NodeId, Record, SchemeSet};

use super::claims::Claim;
use super::core::HubCore;
use super::registry::{AdoptOutcome, RecordChange, Registry};
use super::replica_sync::{ReplicaEntry, ReplicaReceiver};
use super::sender::Sender;
use super::{HubKind, HubLimit};
use crate::directory::{PreviousEntry, PublishOutcome};
use crate::machine::Traffic;

/// For so long after its last word a hub counts as alive: it is asked for one
/// every five seconds.
const LIVELY: Duration = Duration::from_secs(8);

/// The most such nodes that several hubs want. The hub that wants most loses first.
const MAX_CONTESTED: usize = 1_024;

/// The nodes whose records are here for other hubs, and the home of each.
/// Bounded by the directory.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    homes: BTreeMap<NodeId, NodeId>,
    /// What each home has told. As many as remotes, with as many lines as
    /// there may be nodes, all together.
    receivers: BTreeMap<NodeId, ReplicaReceiver>,
    /// Words of other hubs that these nodes are theirs, while their homes hold on to them. At most
    /// [`MAX_CONTESTED`].
    contested: BTreeMap<NodeId, Claim>,
}

impl Replicas {
    /// Whether the node's record is here for another hub.
    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.homes.contains_key(&node)
    }

    /// The home of a node whose record is here for it.
    pub(super) fn home_of(&self, node: NodeId) -> Option<NodeId> {
        self.homes.get(&node).copied()
    }

    /// The nodes whose records are here for `home`.
    pub(super) fn nodes_of(&self, home: NodeId) -> impl Iterator<Item = NodeId> {
        self.homes.iter().filter(move |(_, of)| **of == home).map(|(node, _)| *node)
    }

    /// Another hub says that a node of `home`, whose record is here, is its own.
    pub(super) fn record_contested_claim(&mut self, node: NodeId, claim: Claim) {
        let known = self.contested.get(&node);
        if known.is_some_and(|known| known.version > claim.version) {
            return;
        }
        let update =
            self.contested.remove(&node).filter(|known| known.version == claim.version && claim.record.is_none());
        self.contested.insert(node, Claim { record: claim.record.or(update.and_then(|known| known.record)), ..claim });
        if self.contested.len() > MAX_CONTESTED {
            let mut missing = BTreeMap::<NodeId, usize>::new();
            self.contested.values().for_each(|claim| *missing.entry(claim.home).or_default() += 1);
            let most = missing.into_iter().max_by_key(|(_, count)| *count).map(|(home, _)| home);
            let loser = self.contested.iter().find(|(_, claim)| Some(claim.home) == most).map(|(node, _)| *node);
            loser.map(|node| self.contested.remove(&node));
        }
    }

    /// How many records are here for other hubs.
    pub(super) fn len(&self) -> usize {
        self.homes.len()
    }

    /// A connection with a home is gone, and with it what was agreed on over
    /// it; what comes late over others is known as such until the last one is.
    pub(super) fn close_receiver(&mut self, home: NodeId, connection: ConnectionId, last: bool) {
        if last {
            self.receivers.remove(&home);
        } else if let Some(receiver) = self.receivers.get_mut(&home) {
            receiver.close(connection);
        }
    }

    /// Releases a copy of the home that has most of them here, and gives its node. Looks at all copies.
    fn evict_replica(&mut self) -> Option<NodeId> {
        let mut held = BTreeMap::<NodeId, usize>::new();
        self.homes.values().for_each(|home| *held.entry(*home).or_default() += 1);
        let most = held.into_iter().max_by_key(|(_, count)| *count).map(|(home, _)| home)?;
        let node = self.nodes_of(most).last()?;
        if let Some(receiver) = self.receivers.get_mut(&most) {
            receiver.remove_node(node);
        }
        self.release(node);
        Some(node)
    }

    /// How many nodes have numbers by which their homes tell of them.
    pub(super) fn numbered(&self) -> usize {
        self.receivers.values().map(ReplicaReceiver::len).sum()
    }

    /// The record is this hub's own now, or gone. True if it was another hub's.
    pub(super) fn release(&mut self, node: NodeId) -> bool {
        self.contested.remove(&node);
        self.homes.remove(&node).is_some()
    }
}

impl Registry {
    pub(super) fn adopt_node(&mut self, core: &mut HubCore, from: Sender, adopt: &Adopt) -> AdoptOutcome {
        let Adopt { held_version: held, version, capacity, .. } = *adopt;
        let (now, node) = (core.now, from.node);
        let is_replica = self.replicas.holds(node);
        if !is_replica && self.directory.renew(now, node, version, Some(capacity)) {
            return AdoptOutcome::Renewed;
        }
        if !is_replica || version <= held || !self.directory.adopt(now, node, held, version, capacity) {
            core.counters.unknown_renews += 1;
            return AdoptOutcome::Unknown;
        }
        core.counters.adoptions += 1;
        let home = self.replicas.home_of(node);
        self.replicas.release(node);
        core.remotes.published_over(node, from.connection);
        AdoptOutcome::Adopted(home)
    }

    /// A home tells of nodes for which this hub stands by. What does not follow
    /// on what is known, it is asked to tell again.
    pub(super) fn handle_replica_update(&mut self, core: &mut HubCore, from: Sender, update: messages::ReplicaUpdate) {
        let mut receiver =
            self.replicas.receivers.remove(&from.node).unwrap_or_else(|| ReplicaReceiver::new(from.connection));
        receiver.limit((core.config.limits.nodes as usize).saturating_sub(self.replicas.numbered()));
        let (number, follows) = (update.sequence, receiver.accept_next(from.connection, &update));
        let missing =
            if follows { self.apply_replica_update(core, from.node, &mut receiver, update) } else { BTreeSet::new() };
        self.replicas.receivers.insert(from.node, receiver);
        if !follows || !missing.is_empty() {
            // Everybody, if they are too many to be named and fit in.
            let whole = missing.len() > MAX_REPLICA_CHANGES && missing.len() <= self.directory.room();
            let nodes = if whole { Vec::new() } else { missing.into_iter().take(MAX_REPLICA_CHANGES).collect() };
            let resync = Message::Replication(ReplicationMessage::ResyncRequest(ResyncRequest { number, nodes }));
            core.send(from.connection, Channel::Reliable { flow: 0 }, Traffic::Summary, &resync);
        }
    }

    /// Does what a home says, and gives back the numbers of those whose records
    /// would be needed for it.
    fn apply_replica_update(
        &mut self,
        core: &mut HubCore,
        home: NodeId,
        receiver: &mut ReplicaReceiver,
        update: messages::ReplicaUpdate,
    ) -> BTreeSet<u32> {
        let now = core.now;
        for line in update.removed.iter().filter_map(|number| receiver.remove(*number)) {
            if self.directory.get(line.node).is_some_and(|held| held.version() <= line.version) {
                self.drop_replica(core, home, line.node);
            }
        }
        for ReplicaRecord { node, record } in &update.records {
            let line = ReplicaEntry { node: record.node, version: record.version };
            if receiver.insert(*node, line) {
                self.store_replica(core, home, record);
            } else {
                core.over_limit(home, HubLimit::Replicas);
            }
        }
        let mut missing = BTreeSet::new();
        missing.extend(update.moves.into_iter().filter_map(|shift| self.move_replica(core, home, receiver, shift)));
        for ReplicaCapacity { node: number, capacity } in update.capacities {
            match receiver.get(number).filter(|line| self.has_replica(home, *line)) {
                Some(line) => drop(self.directory.renew(now, line.node, line.version, Some(capacity))),
                None => missing.extend(self.missing(receiver, number)),
            }
        }
        for number in update.alive.iter().flat_map(|signs| numbers(signs)) {
            match receiver.get(number).filter(|line| self.has_replica(home, *line)) {
                Some(line) => self.directory.mark_heard(now, line.node),
                None => missing.extend(self.missing(receiver, number)),
            }
        }
        if update.ends_resync == Some(true) {
            let named = receiver.nodes();
            for node in self.replicas.nodes_of(home).filter(|node| !named.contains(node)).collect::<Vec<_>>() {
                self.drop_replica(core, home, node);
            }
        }
        missing
    }

    /// A home has a node no more. Another hub that has said so counts now.
    fn drop_replica(&mut self, core: &mut HubCore, home: NodeId, node: NodeId) {
        if self.replicas.home_of(node) != Some(home) {
            return;
        }
        let claim = self.replicas.contested.remove(&node);
        self.replicas.release(node);
        let place = self.directory.remove(node);
        self.registered(core, node, place);
        if let Some(Claim { home, record: update, .. }) = claim {
            self.note_moved(core, node, home);
            update.into_iter().for_each(|update| self.store_replica(core, home, &update));
        }
    }

    /// A copy gives way to a node of this hub's, if nothing else is left: one of the home that has most here.
    /// At a server they are no copies but the nodes of its caches.
    pub(super) fn make_room(&mut self, core: &mut HubCore) {
        if self.directory.room() == 0
            && core.config.kind != HubKind::Server
            && let Some(node) = self.replicas.evict_replica()
        {
            let place = self.directory.remove(node);
            self.registered(core, node, place);
        }
    }

    /// A home is gone: nodes of it that another hub has claimed meanwhile are there.
    pub(super) fn apply_contested_claims(&mut self, core: &mut HubCore, home: NodeId) {
        let is_newer = |node: &NodeId| {
            let held = self.directory.get(*node).map(|entry| entry.version());
            self.replicas.contested.get(node).is_some_and(|claim| held.is_none_or(|held| held < claim.version))
        };
        let claimed = self.replicas.nodes_of(home).filter(is_newer);
        for node in claimed.collect::<Vec<_>>() {
            self.drop_replica(core, home, node);
        }
    }

    /// True if a home that is there holds on to a node whose record it keeps here, though another hub says
    /// that it is its own. Records bear no signature, so the home is believed until it lets go. A central
    /// server's homes are caches of its own, the latest of which counts.
    pub(super) fn is_contested(&self, core: &HubCore, node: NodeId, by: NodeId) -> bool {
        let contests = |home| home != by && core.is_lively(home);
        core.config.kind != HubKind::Server && self.replicas.home_of(node).is_some_and(contests)
    }

    /// Whether the copy of a record is here just as its home has told it.
    fn has_replica(&self, home: NodeId, line: ReplicaEntry) -> bool {
        let held = self.directory.get(line.node).map(|entry| entry.version());
        held == Some(line.version) && self.replicas.home_of(line.node) == Some(home)
    }

    /// The number, if the node's record is wanted: nothing as new is here, and
    /// there is room for it.
    fn missing(&self, receiver: &ReplicaReceiver, number: u32) -> Option<u32> {
        let has_room = self.directory.room() > 0;
        let missing = match receiver.get(number) {
            Some(line) => self.directory.get(line.node).map_or(has_room, |held| held.version() < line.version),
            None => has_room && receiver.has_room(),
        };
        missing.then_some(number)
    }

    /// A node of `home` has moved; its number if its record is needed to know where.
    fn move_replica(
        &mut self,
        core: &mut HubCore,
        home: NodeId,
        receiver: &mut ReplicaReceiver,
        shift: ReplicaMove,
    ) -> Option<u32> {
        let Some((line, version)) = receiver.advance_version(shift.node, shift.versions) else {
            return self.missing(receiver, shift.node);
        };
        let update = self.directory.get(line.node).filter(|_| self.has_replica(home, line));
        let Some(before) = update.map(|entry| entry.record()) else {
            self.contradict_claim(core, home, line.node, version);
            return self.missing(receiver, shift.node);
        };
        let cell = Cell::new(before.cell.x.saturating_add(shift.x), before.cell.y.saturating_add(shift.y));
        if !cell.is_on_grid() {
            return Some(shift.node);
        }
        self.store_replica(core, home, &Record { version, cell, ..before });
        None
    }

    /// Takes the copy of a record in, unless the node has been heard of since.
    pub(super) fn store_replica(&mut self, core: &mut HubCore, home: NodeId, record: &Record) {
        let now = core.now;
        let node = record.node;
        if !core.is_plausible(record.version) {
            return;
        }
        let own = self.directory.get(node).filter(|_| !self.replicas.holds(node)).map(|entry| entry.version());
        if own.is_some_and(|own| own >= record.version) {
            return self.contradict_claim(core, home, node, record.version);
        }
        if own.is_some() {
            // The home holds a newer version: the node has moved there, unless it says otherwise.
            let claim = Claim { home, version: record.version, record: Some(record.clone()) };
            return self.handle_claim(core, node, claim);
        }
        let other_home = self.replicas.home_of(node).is_some_and(|known| known != home);
        let is_newer = self.directory.get(node).is_some_and(|held| held.version() < record.version);
        if is_newer && self.is_contested(core, node, home) {
            let claim = Claim { home, version: record.version, record: Some(record.clone()) };
            return self.replicas.record_contested_claim(node, claim);
        }
        let held = self.directory.get(node).map(|entry| entry.version());
        // Of two hubs that tell different things of one version, the first is believed.
        let published = match other_home && held == Some(record.version) {
            true => PublishOutcome::Same,
            false => self.directory.publish(now, record),
        };
        match published {
            PublishOutcome::Full => core.counters.full += 1,
            PublishOutcome::Stale => {}
            PublishOutcome::Same => {
                self.replicas.homes.insert(node, home);
                self.directory.renew(now, node, record.version, Some(record.capacity));
            }
            PublishOutcome::New => {
                self.replicas.homes.insert(node, home);
                self.registered(core, node, None);
            }
            PublishOutcome::Replaced(place) => {
                self.replicas.homes.insert(node, home);
                self.registered(core, node, Some(place));
            }
        }
    }

    /// What another hub says of its node has come, changed or gone. To a server
    /// it is the node's own word, so watchers hear of it.
    pub(super) fn registered(&mut self, core: &mut HubCore, node: NodeId, before: Option<PreviousEntry>) {
        if core.config.kind == HubKind::Server {
            self.record_change_by_hub(RecordChange::Registered(node, before));
        }
    }
}

impl HubCore {
    /// Whether a hub was heard of late.
    pub(super) fn is_lively(&self, hub: NodeId) -> bool {
        let now = self.now;
        let connection = self.remotes.best_connection(hub, SchemeSet::ALL);
        let heard = connection
            .and_then(|connection| self.remotes.connections.get(&connection))
            .map(|connection| connection.heard);
        heard.is_some_and(|heard| now.since(heard) < LIVELY)
    }
}

/// The numbers of which signs of life tell.
fn numbers(signs: &[u8]) -> impl Iterator<Item = u32> {
    let bits = |byte: u8| (0..8).filter(move |bit| byte & (1 << bit) != 0);
    signs.iter().zip(0u32..).flat_map(move |(byte, place)| bits(*byte).map(move |bit| place * 8 + bit))
}

#[cfg(test)]
mod tests;
