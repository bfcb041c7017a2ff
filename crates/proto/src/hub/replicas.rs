//! Standing by: the records that other hubs keep here, so that their nodes
//! lose nothing with them.
//!
//! Such a record lies in the directory like any other and answers requests,
//! but nobody hears of it: no claim, no word to watchers. It counts as the
//! hub's own only when its node says so ([`RegistrationMessage::Adopt`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::claims::Claim;
use super::replica_sync::{ReplicaEntry, ReplicaReceiver};
use super::{Hub, HubEvent, HubKind, HubLimit, Sender};
use crate::address::SchemeSet;
use crate::directory::{DirectoryQuery, Hit, PreviousEntry, PublishOutcome};
use crate::grid::Cell;
use crate::ids::{ConnectionId, NodeId};
use crate::machine::{Channel, Traffic};
use crate::record::Record;
use crate::scope::Scope;
use crate::time::Time;
use crate::wire::{
    self, Adopt, MAX_CANDIDATES, MAX_REPLICA_CHANGES, Message, RegistrationMessage, ReplicaCapacity, ReplicaMove,
    ReplicaRecord, ReplicationMessage, ResyncRequest,
};

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

impl Hub {
    /// Searches the directory for a request that goes so far: one that is to
    /// stay with the home's nodes does not get those of another home, as long
    /// as that lives.
    pub(super) fn search_within(&mut self, now: Time, scope: Scope, query: &DirectoryQuery) -> Vec<Hit> {
        if scope.admits_any_home() {
            return self.search(query);
        }
        let mut hits = self.search(&DirectoryQuery { count: MAX_CANDIDATES, ..*query });
        hits.retain(|hit| self.replicas.home_of(hit.rank.node()).is_none_or(|home| !self.is_lively(now, home)));
        hits.truncate(query.count);
        hits
    }

    /// Whether a hub was heard of late.
    fn is_lively(&self, now: Time, hub: NodeId) -> bool {
        let connection = self.remotes.best_connection(hub, SchemeSet::ALL);
        let heard = connection
            .and_then(|connection| self.remotes.connections.get(&connection))
            .map(|connection| connection.heard);
        heard.is_some_and(|heard| now.since(heard) < LIVELY)
    }

    /// A home tells of nodes for which this hub stands by. What does not follow
    /// on what is known, it is asked to tell again.
    pub(super) fn handle_replica_update(&mut self, now: Time, from: Sender, update: wire::ReplicaUpdate) {
        let mut receiver =
            self.replicas.receivers.remove(&from.node).unwrap_or_else(|| ReplicaReceiver::new(from.connection));
        receiver.limit((self.config.limits.nodes as usize).saturating_sub(self.replicas.numbered()));
        let (number, follows) = (update.sequence, receiver.accept_next(from.connection, &update));
        let missing =
            if follows { self.apply_replica_update(now, from.node, &mut receiver, update) } else { BTreeSet::new() };
        self.replicas.receivers.insert(from.node, receiver);
        if !follows || !missing.is_empty() {
            // Everybody, if they are too many to be named and fit in.
            let whole = missing.len() > MAX_REPLICA_CHANGES && missing.len() <= self.directory.room();
            let nodes = if whole { Vec::new() } else { missing.into_iter().take(MAX_REPLICA_CHANGES).collect() };
            let resync = Message::Replication(ReplicationMessage::ResyncRequest(ResyncRequest { number, nodes }));
            self.send(from.connection, Channel::Reliable { flow: 0 }, Traffic::Summary, &resync);
        }
    }

    /// Does what a home says, and gives back the numbers of those whose records
    /// would be needed for it.
    fn apply_replica_update(
        &mut self,
        now: Time,
        home: NodeId,
        receiver: &mut ReplicaReceiver,
        update: wire::ReplicaUpdate,
    ) -> BTreeSet<u32> {
        for line in update.removed.iter().filter_map(|number| receiver.remove(*number)) {
            if self.directory.get(line.node).is_some_and(|held| held.version() <= line.version) {
                self.drop_replica(now, home, line.node);
            }
        }
        for ReplicaRecord { node, record } in &update.records {
            let line = ReplicaEntry { node: record.node, version: record.version };
            if receiver.insert(*node, line) {
                self.store_replica(now, home, record);
            } else {
                self.over_limit(home, HubLimit::Replicas);
            }
        }
        let mut missing = BTreeSet::new();
        missing.extend(update.moves.into_iter().filter_map(|shift| self.move_replica(now, home, receiver, shift)));
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
                self.drop_replica(now, home, node);
            }
        }
        missing
    }

    /// A home has a node no more. Another hub that has said so counts now.
    fn drop_replica(&mut self, now: Time, home: NodeId, node: NodeId) {
        if self.replicas.home_of(node) != Some(home) {
            return;
        }
        let claim = self.replicas.contested.remove(&node);
        self.replicas.release(node);
        let place = self.directory.remove(node);
        self.registered(node, place);
        if let Some(Claim { home, record: update, .. }) = claim {
            self.note_moved(now, node, home);
            update.into_iter().for_each(|update| self.store_replica(now, home, &update));
        }
    }

    /// A copy gives way to a node of this hub's, if nothing else is left: one of the home that has most here.
    /// At a server they are no copies but the nodes of its caches.
    pub(super) fn make_room(&mut self) {
        if self.directory.room() == 0
            && self.config.kind != HubKind::Server
            && let Some(node) = self.replicas.evict_replica()
        {
            let place = self.directory.remove(node);
            self.registered(node, place);
        }
    }

    /// A home is gone: nodes of it that another hub has claimed meanwhile are there.
    pub(super) fn apply_contested_claims(&mut self, now: Time, home: NodeId) {
        let is_newer = |node: &NodeId| {
            let held = self.directory.get(*node).map(|entry| entry.version());
            self.replicas.contested.get(node).is_some_and(|claim| held.is_none_or(|held| held < claim.version))
        };
        let claimed = self.replicas.nodes_of(home).filter(is_newer);
        for node in claimed.collect::<Vec<_>>() {
            self.drop_replica(now, home, node);
        }
    }

    /// True if a home that is there holds on to a node whose record it keeps here, though another hub says
    /// that it is its own. Records bear no signature, so the home is believed until it lets go. A central
    /// server's homes are caches of its own, the latest of which counts.
    pub(super) fn is_contested(&self, now: Time, node: NodeId, by: NodeId) -> bool {
        let contests = |home| home != by && self.is_lively(now, home);
        self.config.kind != HubKind::Server && self.replicas.home_of(node).is_some_and(contests)
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
        now: Time,
        home: NodeId,
        receiver: &mut ReplicaReceiver,
        shift: ReplicaMove,
    ) -> Option<u32> {
        let Some((line, version)) = receiver.advance_version(shift.node, shift.versions) else {
            return self.missing(receiver, shift.node);
        };
        let update = self.directory.get(line.node).filter(|_| self.has_replica(home, line));
        let Some(before) = update.map(|entry| entry.record()) else {
            self.contradict_claim(home, line.node, version);
            return self.missing(receiver, shift.node);
        };
        let cell = Cell::new(before.cell.x.saturating_add(shift.x), before.cell.y.saturating_add(shift.y));
        if !cell.is_on_grid() {
            return Some(shift.node);
        }
        self.store_replica(now, home, &Record { version, cell, ..before });
        None
    }

    /// Takes the copy of a record in, unless the node has been heard of since.
    pub(super) fn store_replica(&mut self, now: Time, home: NodeId, record: &Record) {
        let node = record.node;
        if !self.is_plausible(now, record.version) {
            return;
        }
        let own = self.directory.get(node).filter(|_| !self.replicas.holds(node)).map(|entry| entry.version());
        if own.is_some_and(|own| own >= record.version) {
            return self.contradict_claim(home, node, record.version);
        }
        if own.is_some() {
            // The home holds a newer version: the node has moved there, unless it says otherwise.
            let claim = Claim { home, version: record.version, record: Some(record.clone()) };
            return self.handle_claim(now, node, claim);
        }
        let other_home = self.replicas.home_of(node).is_some_and(|known| known != home);
        let is_newer = self.directory.get(node).is_some_and(|held| held.version() < record.version);
        if is_newer && self.is_contested(now, node, home) {
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
            PublishOutcome::Full => self.counters.full += 1,
            PublishOutcome::Stale => {}
            PublishOutcome::Same => {
                self.replicas.homes.insert(node, home);
                self.directory.renew(now, node, record.version, Some(record.capacity));
            }
            PublishOutcome::New => {
                self.replicas.homes.insert(node, home);
                self.registered(node, None);
            }
            PublishOutcome::Replaced(place) => {
                self.replicas.homes.insert(node, home);
                self.registered(node, Some(place));
            }
        }
    }

    /// What another hub says of its node has come, changed or gone. To a server
    /// it is the node's own word, so watchers hear of it.
    pub(super) fn registered(&mut self, node: NodeId, before: Option<PreviousEntry>) {
        if self.config.kind == HubKind::Server {
            self.tell_watchers(node, before);
        }
    }

    /// A node whose record is mirrored here makes this hub its home.
    pub(super) fn adopt(&mut self, now: Time, from: Sender, adopt: Adopt) {
        let Adopt { held_version: held, version, capacity, is_failback: returns } = adopt;
        if self.leaving.is_some() {
            return self.send(
                from.connection,
                Channel::Reliable { flow: 0 },
                Traffic::Join,
                &Message::Registration(RegistrationMessage::Handover),
            );
        }
        let replicas = self.replicas.holds(from.node);
        if !replicas && self.directory.renew(now, from.node, version, Some(capacity)) {
            // The answer was lost.
            return self.grant_lease(from, Traffic::Join, version, true);
        }
        if !replicas || version <= held || !self.directory.adopt(now, from.node, held, version, capacity) {
            self.counters.unknown_renews += 1;
            return self.send(
                from.connection,
                Channel::Datagram,
                Traffic::Join,
                &Message::Registration(RegistrationMessage::UnknownVersion),
            );
        }
        self.counters.adoptions += 1;
        let home = self.replicas.home_of(from.node);
        self.replicas.release(from.node);
        self.remotes.published_over(from.node, from.connection);
        self.claim(from.node, version);
        self.on_record_published(now, from.node, None);
        if let Some(entry) = self.directory.get(from.node) {
            let (cell, services) = (entry.cell(), entry.services());
            self.events.push_back(HubEvent::Published { node: from.node, cell, services });
        }
        self.grant_lease(from, Traffic::Join, version, true);
        if let Some(home) = home.filter(|_| returns == Some(true)) {
            self.rebalance_returned(now, home);
        }
    }
}

/// The numbers of which signs of life tell.
fn numbers(signs: &[u8]) -> impl Iterator<Item = u32> {
    let bits = |byte: u8| (0..8).filter(move |bit| byte & (1 << bit) != 0);
    signs.iter().zip(0u32..).flat_map(move |(byte, place)| bits(*byte).map(move |bit| place * 8 + bit))
}

#[cfg(test)]
mod tests;
