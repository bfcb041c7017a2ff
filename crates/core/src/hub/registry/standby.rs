//! Standing by: the records that other hubs keep here, so that their nodes
//! lose nothing with them.
//!
//! Such a record lies in the directory like any other and answers requests,
//! but nobody hears of it: no claim, no word to watchers. It counts as the
//! hub's own only when its node says so ([`Adopt`]).

use std::collections::BTreeSet;
use std::time::Duration;

use roost_wire::messages::{
    self, Adopt, MAX_REPLICA_CHANGES, ReplicaCapacity, ReplicaMove, ReplicaRecord, ReplicationMessage, ResyncRequest,
};
use roost_wire::{Cell, Channel, NodeId, Record, Time};

use super::claims::{Claim, LeasedRecord};
use super::{AdoptOutcome, RecordChange, Registry};
use crate::directory::{PreviousEntry, PublishOutcome};
use crate::hub::core::HubCore;
use crate::hub::replica_sync::{ReplicaEntry, ReplicaReceiver};
use crate::hub::sender::Sender;
use crate::hub::{HubKind, HubLimit};
use crate::machine::Traffic;

impl Registry {
    pub(crate) fn adopt_node(&mut self, core: &mut HubCore, from: Sender, adopt: &Adopt) -> AdoptOutcome {
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
    pub(crate) fn handle_replica_update(&mut self, core: &mut HubCore, from: Sender, update: messages::ReplicaUpdate) {
        let mut receiver = self.replicas.take_receiver(from.node, from.connection);
        receiver.limit((core.config.limits.nodes as usize).saturating_sub(self.replicas.numbered()));
        let (number, follows) = (update.sequence, receiver.accept_next(from.connection, &update));
        let missing =
            if follows { self.apply_replica_update(core, from.node, &mut receiver, update) } else { BTreeSet::new() };
        self.replicas.put_receiver(from.node, receiver);
        if !follows || !missing.is_empty() {
            // Everybody, if they are too many to be named and fit in.
            let whole = missing.len() > MAX_REPLICA_CHANGES && missing.len() <= self.directory.room();
            let nodes = if whole { Vec::new() } else { missing.into_iter().take(MAX_REPLICA_CHANGES).collect() };
            let resync = ReplicationMessage::ResyncRequest(ResyncRequest { number, nodes });
            core.send(from.connection, Channel::Reliable { flow: 0 }, Traffic::Summary, resync);
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
        for ReplicaRecord { node, record, silent_s } in update.records {
            let line = ReplicaEntry { node: record.node, version: record.version };
            if receiver.insert(node, line) {
                let expires = core.lease_end(silent_s);
                self.store_replica(core, home, LeasedRecord { record, expires });
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
        let expires = core.lease_end(update.alive_within_s);
        for number in update.alive.iter().flat_map(|signs| numbers(signs)) {
            match receiver.get(number).filter(|line| self.has_replica(home, *line)) {
                Some(line) => self.directory.extend_lease(expires, line.node),
                None => missing.extend(self.missing(receiver, number)),
            }
        }
        if update.ends_resync == Some(true) {
            self.drop_unnamed_replicas(core, home, receiver);
        }
        missing
    }

    /// A home has named all its nodes.
    fn drop_unnamed_replicas(&mut self, core: &mut HubCore, home: NodeId, receiver: &ReplicaReceiver) {
        let named = receiver.nodes();
        for node in self.replicas.nodes_of(home).filter(|node| !named.contains(node)).collect::<Vec<_>>() {
            self.drop_replica(core, home, node);
        }
    }

    /// A home has a node no more. Another hub that has said so counts now.
    pub(super) fn drop_replica(&mut self, core: &mut HubCore, home: NodeId, node: NodeId) {
        if self.replicas.home_of(node) != Some(home) {
            return;
        }
        let claim = self.replicas.take_contested(node);
        self.replicas.release(node);
        let place = self.directory.remove(node);
        self.registered(core, node, place);
        if let Some(Claim { home, record: update, .. }) = claim {
            self.moved.record(core, node, home);
            update.into_iter().for_each(|update| self.store_replica(core, home, update));
        }
    }

    /// A copy gives way to a node of this hub's, if nothing else is left: one of the home that has most here.
    /// At a server they are no copies but the nodes of its caches.
    pub(crate) fn make_room(&mut self, core: &mut HubCore) {
        if self.directory.room() == 0
            && core.config.kind != HubKind::Server
            && let Some(node) = self.replicas.evict_replica()
        {
            let place = self.directory.remove(node);
            self.registered(core, node, place);
        }
    }

    /// True if the copy of a record is here just as its home has told it.
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
        let Some((before, (cell, position))) = update.map(|entry| (entry.record(), entry.told_place())) else {
            self.contradict_claim(core, home, line.node, version);
            return self.missing(receiver, shift.node);
        };
        let cell = Cell::new(cell.x.saturating_add(shift.x), cell.y.saturating_add(shift.y));
        let moved = shift.step.map(|step| position?.moved(step));
        if !cell.is_on_grid() || moved == Some(None) {
            return Some(shift.node);
        }
        let record = Record { version, cell, position: moved.flatten(), ..before };
        self.store_replica(core, home, LeasedRecord { record, expires: core.lease_end(None) });
        None
    }

    /// Takes the copy of a record in, unless the node has been heard of since.
    pub(crate) fn store_replica(&mut self, core: &mut HubCore, home: NodeId, leased: LeasedRecord) {
        let (node, version) = (leased.record.node, leased.record.version);
        if !core.is_plausible(version) || leased.expires <= core.now {
            return;
        }
        let own = self.directory.get(node).filter(|_| !self.replicas.holds(node)).map(|entry| entry.version());
        if own.is_some_and(|own| own >= version) {
            return self.contradict_claim(core, home, node, version);
        }
        if own.is_some() {
            // The home holds a newer version: the node has moved there, unless it says otherwise.
            return self.handle_claim(core, node, Claim { home, version, record: Some(leased) });
        }
        let is_newer = self.directory.get(node).is_some_and(|held| held.version() < version);
        if is_newer && self.is_contested(core, node, home) {
            let claim = Claim { home, version, record: Some(leased) };
            return self.replicas.record_contested_claim(node, claim);
        }
        self.publish_replica(core, home, &leased);
    }

    fn publish_replica(&mut self, core: &mut HubCore, home: NodeId, leased: &LeasedRecord) {
        let LeasedRecord { record, expires } = leased;
        let (now, node) = (core.now, record.node);
        let other_home = self.replicas.home_of(node).is_some_and(|known| known != home);
        let held = self.directory.get(node).map(|entry| entry.version());
        // Of two hubs that tell different things of one version, the first is believed.
        let published = match other_home && held == Some(record.version) {
            true => PublishOutcome::Same,
            false => self.directory.publish_until(now, *expires, record),
        };
        let before = match published {
            PublishOutcome::Full => {
                core.counters.full += 1;
                return;
            }
            PublishOutcome::Stale => return,
            PublishOutcome::Same => {
                self.replicas.hold(node, home);
                self.directory.renew_until(*expires, node, record.version, Some(record.capacity));
                return;
            }
            PublishOutcome::New => None,
            PublishOutcome::Replaced(place) => Some(place),
        };
        self.replicas.hold(node, home);
        self.registered(core, node, before);
    }

    /// The nodes of a cache cannot be reached for now: they are listed no
    /// more until it says again that they live.
    pub(crate) fn suspend_registered(&mut self, core: &mut HubCore, cache: NodeId) {
        if core.config.kind == HubKind::Server {
            for node in self.replicas.nodes_of(cache).collect::<Vec<_>>() {
                self.directory.suspend(node);
            }
        }
    }

    /// A record of another hub's node has come, changed or gone. To a server it is the node's own word, so watchers
    /// hear of it.
    pub(crate) fn registered(&mut self, core: &mut HubCore, node: NodeId, before: Option<PreviousEntry>) {
        if core.config.kind == HubKind::Server {
            self.record_change_by_hub(RecordChange::Registered(node, before));
        }
    }
}

impl HubCore {
    /// The end of the lease of a node that its home has not heard for so many seconds.
    fn lease_end(&self, silent_s: Option<u16>) -> Time {
        self.now + self.config.lease.saturating_sub(Duration::from_secs(silent_s.unwrap_or(0).into()))
    }
}

/// The numbers of which signs of life tell.
fn numbers(signs: &[u8]) -> impl Iterator<Item = u32> {
    let bits = |byte: u8| (0..8).filter(move |bit| byte & (1 << bit) != 0);
    signs.iter().zip(0u32..).flat_map(move |(byte, place)| bits(*byte).map(move |bit| place * 8 + bit))
}

#[cfg(test)]
mod tests;
