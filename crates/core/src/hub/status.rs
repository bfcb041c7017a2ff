//! The status of a hub: for the control API and the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Candidate, MAX_CANDIDATES, ProtocolVersion};
use roost_wire::room::RoomMember;
use roost_wire::{
    Address, Area, Capacity, Cell, ExactPosition, NodeId, RoomId, SchemeSet, Service, ServiceSet, Time, Version,
};

use super::remotes::RemoteConnection;
use super::{Hub, HubKind, MemberStatus, Relation};
use crate::directory::{DirectoryQuery, SearchPurpose};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubStatus {
    pub node: NodeId,
    pub kind: HubKind,
    pub addresses: Vec<Address>,
    pub up: Duration,
    /// True if it may not have heard of every node yet.
    pub young: bool,
    pub leaving: bool,
    pub nodes: usize,
    /// Nodes of other hubs for which it stands by; of a server those that are
    /// registered through its caches.
    pub replicas: usize,
    /// Nodes of which other hubs tell by a number, as they stand by; no more
    /// than the directory holds.
    pub numbered: usize,
    /// Of a cache: nodes of others of which the server has told it.
    pub cached: usize,
    /// Entries in the directory: a service at a place.
    pub entries: usize,
    /// Size of the directory, bytes, by computation.
    pub directory_bytes: usize,
    pub connections: usize,
    pub requests: usize,
    pub relays: usize,
    /// Sealed files that wait for nodes, and their bytes.
    pub mailbox_files: usize,
    pub mailbox_bytes: usize,
    /// Watches, also those of other hubs.
    pub watches: usize,
    /// Searches at other hubs under way.
    pub hub_lookups: usize,
    /// Rooms of which it has heard.
    pub rooms: usize,
    /// Their members, each counted once in each room, and for a moment those who have left.
    pub room_members: usize,
    /// In which tier it stands.
    pub tier: u8,
    /// True if it should have a parent and none is up.
    pub cut_off: bool,
    /// Patches (a service in a block of 8 × 8 cells) known of other hubs.
    pub block_services: usize,
    /// Patches in which this hub, or one below it, has something.
    pub announced: usize,
    /// Super nodes of the group, as the group knows them, without this hub.
    pub members: Vec<MemberStatus>,
    /// Hubs of the configuration, then hubs that dialled.
    pub hubs: Vec<RemoteHubStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHubStatus {
    pub relation: Relation,
    pub node: Option<NodeId>,
    pub name: Option<String>,
    /// Addresses as configured, or the one where it is seen.
    pub addresses: Vec<Address>,
    /// Round trip measured by the handshake; `None` while it is down.
    pub rtt: Option<Duration>,
    pub up: Option<Duration>,
    /// Time for which it has been down, if it is configured and was tried in vain.
    pub down: Option<Duration>,
    pub reason: Option<String>,
    /// The version of the protocol that it speaks; `None` while it is down.
    pub protocol: Option<ProtocolVersion>,
    /// Seconds by which its wall clock is ahead of this host's, if both are known.
    pub clock_ahead_s: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub node: NodeId,
    /// The name in its certificate, while it is connected.
    pub name: Option<String>,
    pub version: Version,
    pub cell: Cell,
    pub services: ServiceSet,
    pub capacity: Capacity,
    pub addresses: Vec<Address>,
    /// The exact position at this moment, if the node tells it.
    pub position: Option<ExactPosition>,
    /// Rest of its lease unless it is heard.
    pub expires_in: Duration,
    /// True if it is held back until it speaks again.
    pub suspended: bool,
    /// True if it has a connection to this hub.
    pub connected: bool,
    /// The node's home, if this hub only stands by.
    pub home: Option<NodeId>,
    /// The hub that stands by for it, if this hub is its home.
    pub standby: Option<NodeId>,
}

impl Hub {
    /// The group's members as this hub knows them, without itself.
    pub fn members(&self) -> Vec<MemberStatus> {
        self.members.member_statuses(&self.core)
    }

    pub fn status(&self, now: Time) -> HubStatus {
        let records = self.registry.records();
        let (mailbox_files, mailbox_bytes) = self.mailbox.load();
        HubStatus {
            mailbox_files,
            mailbox_bytes,
            node: self.core.config.node,
            kind: self.core.config.kind,
            addresses: self.core.config.addresses.clone(),
            up: self.core.started.map_or(Duration::ZERO, |started| now.since(started)),
            young: self.core.is_young_at(now),
            leaving: self.core.leaving.is_some(),
            nodes: records.leases(),
            replicas: records.replica_count(),
            numbered: records.numbered(),
            rooms: self.rooms.rooms(),
            room_members: self.rooms.members(),
            cached: self.registry.cached_nodes(),
            entries: records.directory().entries(),
            directory_bytes: records.directory().bytes(),
            connections: self.core.remotes.connections.len(),
            requests: self.requests.len(),
            relays: self.requests.relay_count(),
            watches: self.watches.len(),
            hub_lookups: self.hub_lookups.len(),
            tier: self.core.config.tier,
            cut_off: self.core.is_cut_off(),
            block_services: self.summaries.len(),
            announced: self.summaries.announced(),
            members: self.members(),
            hubs: hub_statuses(self, now),
        }
    }

    /// The index in the order of the nodes' ids: at most `limit` entries after
    /// `after`, so that a caller can page through it.
    pub fn index(&self, now: Time, after: Option<NodeId>, limit: usize) -> Vec<IndexEntry> {
        let entries = self.registry.records().directory().entries_after(after).take(limit);
        entries
            .map(|entry| IndexEntry {
                node: entry.node(),
                name: self.core.remotes.get(entry.node()).map(|remote| remote.name.clone()),
                version: entry.version(),
                cell: entry.cell(),
                services: entry.services().clone(),
                capacity: entry.capacity(),
                addresses: entry.addresses(),
                position: entry.position(),
                expires_in: entry.expires().since(now),
                suspended: entry.is_suspended(),
                connected: self.core.remotes.is_up(entry.node()),
                home: self.registry.records().home_of(entry.node()),
                standby: self.replication.standby_of(entry.node()),
            })
            .collect()
    }

    /// Rooms of which this hub has heard, in the order of their ids, at most `limit`, with the members that are in.
    pub fn listed_rooms(&self, limit: usize) -> Vec<(RoomId, Vec<RoomMember>)> {
        self.rooms.listed().take(limit).collect()
    }

    /// Providers of `service` in `area` by this hub's own directory, the best
    /// first; at most [`MAX_CANDIDATES`](roost_wire::messages::MAX_CANDIDATES) and none that are held back.
    pub fn find(&self, service: Service, area: Area, count: usize) -> Vec<Candidate> {
        let count = count.min(MAX_CANDIDATES);
        let query = DirectoryQuery::new(service, area, SearchPurpose::List, count);
        let (directory, mut hits) = (self.registry.records().directory(), Vec::with_capacity(count));
        directory.find(&query, &mut hits);
        hits.into_iter().map(|hit| self.core.named(directory.hit(hit).candidate())).collect()
    }

    /// Seconds by which the wall clocks of remotes are ahead of this host's, as far as they told them.
    pub fn clocks(&self, now: Time) -> BTreeMap<NodeId, i64> {
        self.core
            .remotes
            .connections
            .values()
            .filter_map(|connection| Some((connection.node, clock_ahead(self, now, connection)?)))
            .collect()
    }
}

fn clock_ahead(hub: &Hub, now: Time, connection: &RemoteConnection) -> Option<i64> {
    Some(connection.clock?.ahead_of(hub.core.wall_clock?, now))
}

fn hub_statuses(hub: &Hub, now: Time) -> Vec<RemoteHubStatus> {
    let mut all = Vec::new();
    for ((relation, addresses, node), down) in hub.core.mesh.configured().zip(hub.core.mesh.downs()) {
        let (since, reason) = (down.map(|down| now.since(down.since)), down.map(|down| down.reason.clone()));
        all.push(RemoteHubStatus { down: since, reason, ..hub_status(hub, now, relation, node, addresses.to_vec()) });
    }
    for node in hub.core.remotes.hubs() {
        if !all.iter().any(|hub| hub.node == Some(node)) {
            let relation = hub.core.relation(node).unwrap_or(Relation::Sibling);
            all.push(hub_status(hub, now, relation, Some(node), Vec::new()));
        }
    }
    all
}

fn hub_status(
    hub: &Hub,
    now: Time,
    relation: Relation,
    node: Option<NodeId>,
    mut addresses: Vec<Address>,
) -> RemoteHubStatus {
    let remote = node.and_then(|node| hub.core.remotes.get(node)).filter(|hub| hub.role.is_hub());
    let connection = node.and_then(|node| hub.core.remotes.best_connection(node, SchemeSet::ALL));
    let connection = connection.and_then(|connection| hub.core.remotes.connections.get(&connection));
    if addresses.is_empty() {
        addresses.extend(connection.map(|connection| connection.address.clone()));
    }
    RemoteHubStatus {
        relation,
        node,
        name: remote.map(|hub| hub.name.clone()),
        addresses,
        rtt: connection.map(|connection| connection.rtt.smoothed()),
        up: remote.map(|hub| now.since(hub.since)),
        down: None,
        reason: None,
        protocol: connection.map(|connection| connection.hello.protocol),
        clock_ahead_s: connection.and_then(|connection| clock_ahead(hub, now, connection)),
    }
}
