//! What a hub tells of itself: for the control API and the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Candidate, MAX_CANDIDATES, ProtocolVersion};
use roost_wire::{Address, Area, Capacity, Cell, NodeId, SchemeSet, Service, ServiceSet, Time, Version};

use super::remotes::RemoteConnection;
use super::{Hub, HubKind, MemberStatus, Relation};
use crate::directory::{DirectoryQuery, SearchPurpose};

/// A hub at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubStatus {
    /// Its own id.
    pub node: NodeId,
    /// Which hub it is.
    pub kind: HubKind,
    /// Where it listens.
    pub addresses: Vec<Address>,
    /// How long it has been up.
    pub up: Duration,
    /// Whether it may not have heard of every node yet.
    pub young: bool,
    /// Whether it is draining.
    pub leaving: bool,
    /// Nodes whose home this hub is.
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
    /// What the directory takes up, bytes, by computation.
    pub directory_bytes: usize,
    /// Connections.
    pub connections: usize,
    /// Requests remembered.
    pub requests: usize,
    /// Flows relayed at present.
    pub relays: usize,
    /// Watches, also those of peers.
    pub watches: usize,
    /// Searches at other hubs under way.
    pub hub_lookups: usize,
    /// Rooms of which it has heard.
    pub rooms: usize,
    /// Their members, each counted once in each room, and for a moment those who have left.
    pub room_members: usize,
    /// In which tier it stands.
    pub tier: u8,
    /// Whether it should have a parent and none is up.
    pub cut_off: bool,
    /// Patches (a service in a block of 8 × 8 cells) known of other hubs.
    pub block_services: usize,
    /// Patches in which this hub, or one below it, has something.
    pub announced: usize,
    /// The other super nodes of the group, as the group knows them.
    pub members: Vec<MemberStatus>,
    /// The other hubs: those of the configuration, then those that dialled.
    pub hubs: Vec<RemoteHubStatus>,
}

/// Another hub at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHubStatus {
    /// How it stands to this one.
    pub relation: Relation,
    /// Who, once it was reached.
    pub node: Option<NodeId>,
    /// The name in its certificate.
    pub name: Option<String>,
    /// Where: as configured, or where it is seen.
    pub addresses: Vec<Address>,
    /// Round trip measured by the handshake; `None` while it is down.
    pub rtt: Option<Duration>,
    /// How long it has been up.
    pub up: Option<Duration>,
    /// How long it has been down, if it is configured and was tried in vain.
    pub down: Option<Duration>,
    /// Why it is down.
    pub reason: Option<String>,
    /// The version of the protocol that it speaks; `None` while it is down.
    pub protocol: Option<ProtocolVersion>,
    /// Seconds by which its wall clock is ahead of this host's, if both are known.
    pub clock_ahead_s: Option<i64>,
}

/// One node of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Who.
    pub node: NodeId,
    /// The name in its certificate, while it is connected.
    pub name: Option<String>,
    /// The version of its record.
    pub version: Version,
    /// Where.
    pub cell: Cell,
    /// What it offers.
    pub services: ServiceSet,
    /// What it has left.
    pub capacity: Capacity,
    /// Where it can be dialled.
    pub addresses: Vec<Address>,
    /// When its lease ends unless it is heard.
    pub expires_in: Duration,
    /// Whether it is held back until it speaks again.
    pub suspended: bool,
    /// Whether it has a connection to this hub.
    pub connected: bool,
    /// Its home, if this hub only stands by.
    pub home: Option<NodeId>,
}

impl Hub {
    /// The group's members as this hub knows them, without itself.
    pub fn members(&self) -> Vec<MemberStatus> {
        self.members.member_statuses(&self.core)
    }

    /// The hub at this moment.
    pub fn status(&self, now: Time) -> HubStatus {
        HubStatus {
            node: self.core.config.node,
            kind: self.core.config.kind,
            addresses: self.core.config.addresses.clone(),
            up: self.core.started.map_or(Duration::ZERO, |started| now.since(started)),
            young: self.core.is_young_at(now),
            leaving: self.core.leaving.is_some(),
            nodes: self.registry.directory.nodes() - self.registry.replicas.len(),
            replicas: self.registry.replicas.len(),
            numbered: self.registry.replicas.numbered(),
            rooms: self.rooms.rooms(),
            room_members: self.rooms.members(),
            cached: self.registry.cached_nodes(),
            entries: self.registry.directory.entries(),
            directory_bytes: self.registry.directory.bytes(),
            connections: self.core.remotes.connections.len(),
            requests: self.requests.table.len(),
            relays: self.requests.relays.len(),
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
        let entries = self.registry.directory.entries_after(after).take(limit);
        entries
            .map(|entry| IndexEntry {
                node: entry.node(),
                name: self.core.remotes.get(entry.node()).map(|remote| remote.name.clone()),
                version: entry.version(),
                cell: entry.cell(),
                services: entry.services(),
                capacity: entry.capacity(),
                addresses: entry.addresses(),
                expires_in: entry.expires().since(now),
                suspended: entry.is_suspended(),
                connected: self.core.remotes.is_up(entry.node()),
                home: self.registry.replicas.home_of(entry.node()),
            })
            .collect()
    }

    /// Providers of `service` in `area` by this hub's own directory, the best
    /// first; at most [`MAX_CANDIDATES`](roost_wire::messages::MAX_CANDIDATES) and none that are held back.
    pub fn find(&self, service: Service, area: Area, count: usize) -> Vec<Candidate> {
        let count = count.min(MAX_CANDIDATES);
        let query = DirectoryQuery {
            service,
            area,
            origin: Cell::new(0, 0),
            count,
            except: None,
            aim: SearchPurpose::List,
            names: None,
        };
        let mut hits = Vec::with_capacity(count);
        self.registry.directory.find(&query, &mut hits);
        hits.into_iter().map(|hit| self.core.named(self.registry.directory.hit(hit).candidate())).collect()
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
