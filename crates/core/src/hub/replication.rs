//! Replica updates to the standbys of this hub's nodes, so that those lose nothing with it:
//! [`registry`](super::registry) is the other end, and [`replica_sync`](super::replica_sync) what both know already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::messages::{self, ReplicationMessage, ResyncRequest};
use roost_wire::{Channel, ConnectionId, NodeId, Record, Time};

use super::HubLimit;
use super::core::HubCore;
use super::registry::Records;
use super::remotes::PUBLICATION;
use super::replica_sync::{ReplicaChanges, ReplicaSender};
use super::sender::Sender;
use super::standby_connections::{NamedStandby, StandbyConnections};
use crate::machine::Traffic;

/// Time for which changes are gathered before the standbys hear of them.
const GATHER: Duration = Duration::from_millis(100);

/// Time for which moves and capacities are gathered. A lookup that a standby answers is to see a move within 500
/// ms and the way.
const GATHER_MOVES: Duration = Duration::from_millis(400);

/// Number of times in a lease that the standbys hear at least which nodes live, with
/// other news or, half as late again, without.
const SIGNS_PER_LEASE: u32 = 6;

/// Replicas at the standbys of this hub's nodes.
#[derive(Debug, Default)]
pub(super) struct ReplicaSenders {
    /// This hub's nodes and the hub that stands by for each. Bounded by the directory.
    named: BTreeMap<NodeId, NodeId>,
    /// Each of these hubs, with what was told and is to be told.
    senders: BTreeMap<NodeId, ReplicaSender>,
    /// The greatest number of a message of a ledger that is here no more.
    number: u32,
    flush: Option<Time>,
    /// Hubs that are reached only because they stand by.
    connections: StandbyConnections,
    /// Time to look next who has not heard for long which nodes live.
    next_sign: Option<Time>,
}

impl ReplicaSenders {
    /// True if a hub stands by for any node of this one.
    pub(super) fn names(&self, hub: NodeId) -> bool {
        self.named.values().any(|named| *named == hub)
    }

    /// The hub that stands by for a node of this one.
    pub(super) fn standby_of(&self, node: NodeId) -> Option<NodeId> {
        self.named.get(&node).copied()
    }

    fn sender_to(&mut self, hub: NodeId) -> &mut ReplicaSender {
        self.senders.entry(hub).or_insert_with(|| ReplicaSender::after(self.number))
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.flush.into_iter().chain(self.next_sign).min()
    }

    fn flush_by(&mut self, due: Time) {
        self.flush = Some(self.flush.map_or(due, |flush| flush.min(due)));
    }

    pub(super) fn nodes_of(&self, hub: NodeId) -> BTreeSet<NodeId> {
        self.named.iter().filter(|(_, named)| **named == hub).map(|(node, _)| *node).collect()
    }
}

impl ReplicaSenders {
    /// A node of this hub says which hub stands by for it.
    pub(super) fn handle_set_standby(
        &mut self,
        core: &mut HubCore,
        records: Records<'_>,
        from: Sender,
        standby: NamedStandby,
    ) {
        let (now, hub) = (core.now, standby.hub);
        if hub == core.config.node || records.is_replica(from.node) || records.get(from.node).is_none() {
            core.counters.stray += 1;
            return;
        }
        if !core.remotes.get_mut(from.node).is_some_and(|node| node.try_charge(now, PUBLICATION)) {
            core.over_limit(from.node, HubLimit::WorkRate);
            return;
        }
        self.set_standby(core, records, from.node, hub);
        let Self { connections, named, .. } = self;
        connections.want(core, from, standby, |hub| named.values().any(|named| *named == hub));
    }

    /// The record of a node of this hub is held at `hub` as well from now on.
    pub(super) fn set_standby(&mut self, core: &mut HubCore, records: Records<'_>, node: NodeId, hub: NodeId) {
        let now = core.now;
        let before = self.named.insert(node, hub);
        if let Some(before) = before.filter(|before| *before != hub) {
            self.sender_to(before).pending.insert(node);
        }
        self.record_change(core, records, node);
        let sign_at = now + core.sign_pause() / 2;
        self.next_sign.get_or_insert(sign_at);
    }

    /// The record of one of this hub's nodes has changed or gone.
    pub(super) fn record_change(&mut self, core: &mut HubCore, records: Records<'_>, node: NodeId) {
        let now = core.now;
        let Some(hub) = self.named.get(&node).copied() else { return };
        let (entry, is_cache) = (records.get(node), core.is_cache());
        let sender = self.sender_to(hub);
        sender.pending.insert(node);
        // A server knows of a cache's nodes what the cache tells, and nothing else.
        let waits = !is_cache && entry.as_ref().is_some_and(|entry| sender.can_send_difference(node, entry));
        if entry.is_none() {
            self.named.remove(&node);
        }
        self.flush_by(now + if waits { GATHER_MOVES } else { GATHER });
    }

    /// A hub has another connection, or one less: it hears of all for whom it
    /// stands by, unless what it was told holds.
    pub(super) fn resync_if_stale(&mut self, core: &mut HubCore, hub: NodeId) {
        let now = core.now;
        if !self.has_live_sender(core, hub) && (self.names(hub) || self.senders.contains_key(&hub)) {
            self.sender_to(hub).connection = None;
            self.flush_by(now + GATHER);
        }
    }

    /// True if the connection lives over which a standby was told what it
    /// knows: it is up, and not silent for long while another one is heard.
    fn has_live_sender(&self, core: &HubCore, hub: NodeId) -> bool {
        let heard =
            |connection: ConnectionId| core.remotes.connections.get(&connection).map(|connection| connection.heard);
        let told = self.senders.get(&hub).and_then(|sender| sender.connection).and_then(heard);
        let best = core.connection_to(hub).and_then(heard);
        told.zip(best).is_some_and(|(told, best)| best.since(told) < core.longest_silence())
    }

    pub(super) fn poll_replication(&mut self, core: &mut HubCore, records: Records<'_>) {
        let now = core.now;
        if self.flush.is_some_and(|at| at <= now) {
            self.flush_replicas(core, records);
        }
        if self.next_sign.is_some_and(|at| at <= now) {
            let pause = core.sign_pause();
            let due = |sender: &ReplicaSender| sender.signed + pause <= now;
            let due = self.senders.iter().filter(|(_, sender)| due(sender)).map(|(hub, _)| *hub);
            for hub in due.collect::<Vec<_>>() {
                self.update_standby(core, records, hub);
            }
            let idle = self.named.is_empty() && self.senders.is_empty();
            self.next_sign = (!idle).then_some(now + pause / 2);
        }
    }

    pub(super) fn flush_replicas(&mut self, core: &mut HubCore, records: Records<'_>) {
        self.flush = None;
        let due = self.senders.iter().filter(|(_, sender)| sender.has_changes()).map(|(hub, _)| *hub);
        for hub in due.collect::<Vec<_>>() {
            self.update_standby(core, records, hub);
        }
    }

    /// Tells one standby what has changed, and who lives if that is due.
    fn update_standby(&mut self, core: &mut HubCore, records: Records<'_>, hub: NodeId) {
        let now = core.now;
        let is_told = self.has_live_sender(core, hub);
        let Some(mut sender) = self.senders.remove(&hub) else { return };
        let keeps = match core.connection_to(hub) {
            Some(_) if is_told => self.send_replica_changes(core, records, hub, &mut sender),
            Some(connection) => self.send_full_resync(core, records, hub, connection, &mut sender),
            // The standby hears of everything when it is back, for as long as it has replicas.
            None => {
                sender.connection = None;
                sender.signed + core.config.lease > now
            }
        };
        if keeps {
            self.senders.insert(hub, sender);
        } else {
            self.number = self.number.max(sender.number());
        }
    }

    /// Tells everything anew over this connection, as soon as that may be.
    fn send_full_resync(
        &mut self,
        core: &mut HubCore,
        records: Records<'_>,
        hub: NodeId,
        connection: ConnectionId,
        sender: &mut ReplicaSender,
    ) -> bool {
        let now = core.now;
        if let Some(due) = sender.resync_blocked_until(now) {
            sender.connection = None;
            self.flush_by(due);
            return true;
        }
        sender.begin_resync(now, connection, self.nodes_of(hub), &mut core.random);
        self.send_replica_changes(core, records, hub, sender)
    }

    /// Tells what has changed. False if there is nothing more to be known of this ledger.
    fn send_replica_changes(
        &mut self,
        core: &mut HubCore,
        records: Records<'_>,
        hub: NodeId,
        sender: &mut ReplicaSender,
    ) -> bool {
        let now = core.now;
        let Some(connection) = sender.connection else { return true };
        let mut changes = ReplicaChanges::default();
        for node in sender.take_batch() {
            let is_here = self.named.get(&node) == Some(&hub) && !records.is_replica(node);
            let entry = records.get(node).filter(|_| is_here);
            let whole = |record: Record| Record { addresses: core.shareable(connection, record.addresses), ..record };
            if !sender.record_change(now, node, entry.as_ref(), &mut changes, whole) {
                core.over_limit(hub, HubLimit::Replicas);
                sender.pending.insert(node);
            }
        }
        if !sender.pending.is_empty() {
            self.flush_by(now + GATHER);
        }
        if sender.signed + core.sign_pause() <= now {
            sender.add_liveness(now, records.directory(), &mut changes);
        }
        // Whom a young hub does not know may yet come back to it.
        for message in sender.messages(changes, !core.is_young()) {
            self.send_replica_update(core, connection, message);
        }
        !sender.is_empty()
    }

    fn send_replica_update(&mut self, core: &mut HubCore, connection: ConnectionId, copy: messages::ReplicaUpdate) {
        core.counters.replica_updates_sent += 1;
        core.send(connection, Channel::Reliable { flow: 0 }, Traffic::Summary, ReplicationMessage::ReplicaUpdate(copy));
    }

    pub(super) fn next_dial(&self) -> Option<Time> {
        self.connections.next_due()
    }

    pub(super) fn poll_standby_connections(&mut self, core: &mut HubCore) {
        let Self { connections, named, .. } = self;
        connections.poll(core, |hub| named.values().any(|named| *named == hub));
    }

    /// A dial has led to a standby.
    pub(super) fn standby_reached(&mut self, core: &mut HubCore, hub: NodeId) {
        self.connections.standby_reached(core, hub);
    }

    /// A standby cannot be reached, or its last connection is gone.
    pub(super) fn standby_dial_failed(&mut self, core: &mut HubCore, hub: NodeId) {
        self.connections.standby_dial_failed(core, hub);
    }

    /// A standby could not follow what it was told.
    pub(super) fn handle_resync_request(&mut self, core: &mut HubCore, from: Sender, request: &ResyncRequest) {
        let now = core.now;
        let sender = self.senders.get_mut(&from.node).filter(|sender| sender.connection == Some(from.connection));
        let Some(sender) = sender else {
            core.counters.stray += 1;
            return;
        };
        sender.mark_missing(request.number, &request.nodes);
        self.flush_by(now + GATHER);
    }
}

impl HubCore {
    fn sign_pause(&self) -> Duration {
        self.config.lease / SIGNS_PER_LEASE
    }
}

#[cfg(test)]
mod tests;
