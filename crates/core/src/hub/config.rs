//! Configuration of a hub.

use std::net::SocketAddr;
use std::time::Duration;

use roost_geo::Datum;
use roost_wire::random::RootSecret;
use roost_wire::{Address, Labels, NodeId, Role};

use super::copy_room::CopyRoom;

/// Architecture that a hub serves: the overlay or the client/server baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubKind {
    /// A super node: serves nodes and other super nodes in every mode.
    SuperNode,
    /// A hub of the client/server baseline, through which every request's data goes: the central
    /// server, or with a [parent](HubConfig::parents) one of its caches.
    Server,
}

impl HubKind {
    /// Role in the certificate of this hub and of every hub that it connects to.
    pub const fn role(self) -> Role {
        match self {
            Self::SuperNode => Role::SuperNode,
            Self::Server => Role::Server,
        }
    }
}

/// Configuration of a [`Hub`](super::Hub). Only `node`, `kind` and `seed` have no default.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Id of the hub, as its certificate gives it.
    pub node: NodeId,
    /// The name in its certificate, for people. Default none.
    pub name: String,
    /// The labels in its certificate, by which the group's policy may tell members apart. Default none.
    pub labels: Labels,
    pub kind: HubKind,
    /// Time that a record lives without a message from its node. Default 60 s. A longer lease
    /// forgives longer silence, a shorter one forgets dead nodes sooner; nodes renew at a third of it.
    pub lease: Duration,
    /// Other root super nodes, each as its addresses with the preferred one first. A sibling at one of the hub's
    /// own addresses is left out. A central server has none.
    pub siblings: Vec<Vec<Address>>,
    /// Tier in the hierarchy. Default 0, the lowest; a parent's is greater than its child's. Unused by
    /// a central server.
    pub tier: u8,
    /// Parents, each as its addresses: the first is asked, the second is the standby. Default none:
    /// the hub is a root. The parent of a cache is the central server.
    pub parents: Vec<Vec<Address>>,
    /// Rate of summaries to a parent, bits per second; between roots a hundred times as much. Default
    /// 1 000, about 1 % of a thin connection. More lets parents learn sooner of a change in many blocks.
    pub summary_bits_per_second: u32,
    pub addresses: Vec<Address>,
    /// Settings of reflection. Default `None`: the hub reflects no streams.
    pub reflection: Option<ReflectionConfig>,
    /// The group's datum, by which the hub follows nodes in motion. Default none: their cells are as they told them.
    pub datum: Option<Datum>,
    /// Start of the hub, seconds of the Unix epoch, by which other super nodes tell its restarts
    /// apart. Default 0.
    pub epoch: u32,
    /// Seed of jitter and of the numbers that other hosts see.
    pub seed: u64,
    /// Secret of nonces and tags. A daemon reads it from the system's random source; the default
    /// follows from `seed`, so anyone who knows the seed can compute it.
    pub secret: RootSecret,
    /// Limits of the hub's tables and rates.
    pub limits: Limits,
}

impl HubConfig {
    /// Configures a hub without siblings and parents; all else has its default.
    pub fn new(node: NodeId, kind: HubKind, seed: u64) -> Self {
        Self {
            node,
            name: String::new(),
            labels: Labels::default(),
            kind,
            lease: Duration::from_secs(60),
            siblings: Vec::new(),
            tier: 0,
            parents: Vec::new(),
            summary_bits_per_second: 1_000,
            addresses: Vec::new(),
            reflection: None,
            datum: None,
            epoch: 0,
            seed,
            secret: RootSecret::of_seed(seed),
            limits: Limits::default(),
        }
    }
}

/// Limits of a hub. A message that exceeds one is refused and counted. An `…_per_node` limit is sixteen
/// times as large for another hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes in the directory, each with up to four entries of at most 250
    /// bytes; at most [`MAX_NODES`](crate::directory::MAX_NODES). Default 262 144.
    pub nodes: u32,
    /// Connections at the same time. Default 262 144.
    pub connections: usize,
    /// Requests remembered, all remotes together. Default 65 536.
    pub requests: usize,
    /// Requests remembered per node. A new one replaces the oldest that was handed on, and is declined
    /// if none was. As many requests and lookups of a node may wait for other hubs. Default 256.
    pub requests_per_node: usize,
    /// Relayed flows, all remotes together. Default 16 384.
    pub relays: usize,
    /// Relayed flows per requesting node. Default 128.
    pub relays_per_node: usize,
    /// Watches, all remotes together. Each new record is matched with every one. Default 1 024.
    pub watches: usize,
    /// Watches per node. Default 16.
    pub watches_per_node: usize,
    /// Hub lookups under way, all remotes together. Default 16 384.
    pub hub_lookups: usize,
    /// New nodes per second whose first record is accepted, after a burst of one second's worth; the
    /// others get a retry after. Known nodes are not limited. Default 2 000: more shortens the join
    /// after a restart and delays answers.
    pub joins_per_second: u32,
    /// Lookups and watches of a node per second, after a burst of two seconds' worth. A lookup counts
    /// once more for every 64 records read, a request as 16; another hub may have sixteen times as
    /// many. Default 5 000: above any display's need, below the load that starves others.
    pub lookups_per_second: u32,
    /// Connections to the standby hubs of this hub's nodes. Default 64; replicas for further hubs are
    /// best effort.
    pub standby_connections: usize,
    /// Block services known of each other hub, about 40 bytes each. Default 262 144.
    pub block_services_per_hub: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 262_144,
            connections: 262_144,
            requests: 65_536,
            requests_per_node: 256,
            relays: 16_384,
            relays_per_node: 128,
            watches: 1_024,
            watches_per_node: 16,
            hub_lookups: 16_384,
            joins_per_second: 2_000,
            lookups_per_second: 5_000,
            standby_connections: 64,
            block_services_per_hub: 262_144,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectionConfig {
    /// Address at which its relay takes in and sends on; an unspecified host is filled in by its remotes, each with
    /// the one that it sees.
    pub media: SocketAddr,
    /// Number of super nodes that may reflect a stream between the one of the
    /// subscriber and the one of the provider, plus one: 1, which is the
    /// default, or 2 for a mesh of two layers, where fewer copies leave the
    /// provider's super node and all go a longer way.
    pub layers: u8,
    pub policy: OverflowPolicy,
}

/// The rule by which a hub has no more room for a copy of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The uplink is used up, as its owner says
    /// ([`HubCommand::ReflectionCapacity`](super::HubCommand::ReflectionCapacity)).
    #[default]
    Residual,
    /// The hub has so many subscribers, whatever they take.
    Count(u32),
}

impl ReflectionConfig {
    /// The room before the owner has said anything; `None` if the hub tells none.
    pub(super) fn first_room(self) -> Option<CopyRoom> {
        (self.policy == OverflowPolicy::Residual).then_some(CopyRoom::Unlimited)
    }
}
