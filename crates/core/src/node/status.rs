//! The node as it is at one moment.

use std::collections::BTreeMap;

use roost_wire::messages::DocumentKind;
use roost_wire::room::RoomMember;
use roost_wire::{NodeId, RoomId, Time};

use super::Node;
use super::api::{HomeStatus, NodeStatus, RequestStatus};
use super::connections::NodeConnection;
use super::outbox::OutboxRow;
use crate::documents::{DocumentCounters, HeldDocument};

impl Node {
    /// [`NodeStatus::requests`] alone, which costs less.
    pub fn requests(&self, now: Time) -> Vec<RequestStatus> {
        self.requests.status(now)
    }

    /// The objects that wait in the outbox, without the ended ones.
    pub fn outbox(&self, now: Time) -> Vec<OutboxRow> {
        let mut rows = self.outbox.rows(now);
        rows.iter_mut().for_each(|row| row.left_at = self.mailbox.left_at(row.id));
        rows
    }

    /// The documents of the group that this node holds.
    pub fn documents(&self) -> Vec<HeldDocument> {
        self.core.documents.held().collect()
    }

    /// The connected hubs that hold an older document of this kind.
    pub fn hubs_behind(&self, kind: DocumentKind) -> Vec<NodeId> {
        let hubs = self.core.connections.iter().filter(|entry| entry.role.is_hub()).map(|entry| entry.node);
        let mut behind: Vec<NodeId> = hubs.filter(|hub| !self.core.documents.is_current(*hub, kind)).collect();
        behind.sort_unstable();
        behind.dedup();
        behind
    }

    /// The rooms that this node is in, with the other members as the last list has them.
    pub fn listed_rooms(&self) -> Vec<(RoomId, Vec<RoomMember>)> {
        self.rooms.listed()
    }

    pub fn document_counters(&self) -> DocumentCounters {
        self.core.documents.counters()
    }

    /// Seconds by which the wall clocks of others are ahead of this host's, as far as they told them.
    pub fn clocks(&self, now: Time) -> BTreeMap<NodeId, i64> {
        self.core.connections.iter().filter_map(|entry| Some((entry.node, self.ahead(now, entry)?))).collect()
    }

    fn ahead(&self, now: Time, entry: &NodeConnection) -> Option<i64> {
        Some(entry.clock?.ahead_of(self.core.wall_clock?, now))
    }

    /// The node as it is at `now`.
    pub fn status(&self, now: Time) -> NodeStatus {
        let hub = |(connection, since)| {
            let entry = self.core.connections.get(connection)?;
            Some(HomeStatus {
                hub: entry.identity(),
                address: entry.address.clone(),
                rtt: entry.rtt.smoothed(),
                attached: now.since(since),
                protocol: entry.hello.protocol,
                clock_ahead_s: self.ahead(now, entry),
                media: self.core.media_of(connection),
            })
        };
        let record = self.attach.record();
        NodeStatus {
            node: record.node,
            version: record.version,
            cell: record.cell,
            position: self.attach.position(),
            services: record.services.clone(),
            home: self.attach.home_since().and_then(hub),
            standby: self.attach.standby_since().and_then(hub),
            attachment: self.attach.state(),
            hubs: self.attach.hubs().to_vec(),
            sessions: self.provide.status(now),
            publications: self.provide.publication_status(),
            requests: self.requests(now),
            watches: self.watches.len(),
            connections: self.core.connections.len(),
            counters: self.core.counters,
        }
    }
}
