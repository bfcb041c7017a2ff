//! What a hub is told at its start.

use std::time::Duration;

use super::reflection::ReflectionConfig;
use crate::address::Address;
use crate::ids::NodeId;
use crate::random::RootSecret;
use crate::service::Role;

/// Which hub it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubKind {
    /// A super node: nodes and other super nodes, every mode.
    SuperNode,
    /// The server of the client/server baseline: nodes and caches, and every
    /// request's data goes through it. With a [parent](HubConfig::parents) it is
    /// such a cache itself, and that parent the server.
    Server,
}

impl HubKind {
    /// What its certificate says, and that of every hub with which it speaks.
    pub const fn role(self) -> Role {
        match self {
            Self::SuperNode => Role::SuperNode,
            Self::Server => Role::Server,
        }
    }
}

/// What a hub is told at its start.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Its own id.
    pub node: NodeId,
    /// Which hub it is.
    pub kind: HubKind,
    /// How long an entry lives without a word from its node. Default 60 s. A
    /// longer lease forgives longer silence, a shorter one forgets the dead
    /// sooner; nodes renew at a third of it.
    pub lease: Duration,
    /// The super nodes beside this one, each with its addresses, the preferred
    /// one first: the other tops. Without meaning for a server. A peer at one
    /// of the hub's own addresses is left out.
    pub siblings: Vec<Vec<Address>>,
    /// In which tier of the hierarchy it stands; 0, the lowest, is the default.
    /// A parent's tier must be greater than its child's. Without meaning for a server.
    pub tier: u8,
    /// The super nodes above, each with its addresses; the first one is asked,
    /// the second one stands by. None, which is the default: it is a top. Of a
    /// cache the one central server.
    pub parents: Vec<Vec<Address>>,
    /// How much a connection to a parent carries of what is told upward of this hub
    /// and those below it, bits per second; about 1 % of the connection's rate. More
    /// lets parents learn sooner of a change that makes many patches of the
    /// grid come and go. Default 1 000. Between tops a hundred times as much.
    pub summary_bits_per_second: u32,
    /// Where the hub itself listens.
    pub addresses: Vec<Address>,
    /// How it reflects streams; `None`, which is the default: it has no relay.
    pub reflection: Option<ReflectionConfig>,
    /// When it started, in seconds of the Unix epoch: the other super nodes
    /// tell its lives apart by this. Default 0.
    pub epoch: u32,
    /// Seeds its jitter and the numbers that it shows to others.
    pub seed: u64,
    /// The tags of its grants come from it. A daemon takes it from the system's
    /// random source; the default follows from the seed, which others can compute.
    pub secret: RootSecret,
    /// How much it takes on.
    pub limits: Limits,
}

impl HubConfig {
    /// A hub without peers, with defaults for all else.
    pub fn new(node: NodeId, kind: HubKind, seed: u64) -> Self {
        Self {
            node,
            kind,
            lease: Duration::from_secs(60),
            siblings: Vec::new(),
            tier: 0,
            parents: Vec::new(),
            summary_bits_per_second: 1_000,
            addresses: Vec::new(),
            reflection: None,
            epoch: 0,
            seed,
            secret: RootSecret::of_seed(seed),
            limits: Limits::default(),
        }
    }
}

/// How much a hub takes on. What is beyond a limit is refused and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes in the directory, each with up to four entries of at most 250
    /// bytes; at most [`MAX_NODES`](crate::directory::MAX_NODES). Default 262 144.
    pub nodes: u32,
    /// Connections at the same time. Default 262 144.
    pub connections: usize,
    /// Requests remembered, all remotes together. Default 65 536.
    pub requests: usize,
    /// Requests remembered per node; a peer hub may have sixteen times as
    /// many. The oldest that was handed on makes room for a new one; if none
    /// was, the new one is declined. As many requests and lookups of a node
    /// may wait for other hubs. Default 256.
    pub requests_per_node: usize,
    /// Relayed flows, all remotes together. Default 16 384.
    pub relays: usize,
    /// Relayed flows per requesting node; a peer hub may have sixteen times as
    /// many. Default 128.
    pub relays_per_node: usize,
    /// Watches, all remotes together. Each publication looks at every one. Default 1 024.
    pub watches: usize,
    /// Watches per node; a peer hub may have sixteen times as many. Default 16.
    pub watches_per_node: usize,
    /// Searches at other hubs at the same time: several hubs' allowance, which
    /// is sixteen times that of a node. Default 16 384.
    pub hub_lookups: usize,
    /// Nodes per second whose first record is taken in, beyond a burst of one
    /// second's worth. The others are told when to come again, in their turn;
    /// who is known passes. Default 2 000: more makes the crowd after a
    /// restart shorter and what the others wait meanwhile longer.
    pub joins_per_second: u32,
    /// Lookups and watches of a node per second, beyond a burst of two seconds' worth; one for which
    /// many records are looked at counts once more for every 64 of them, a request as 16. A peer hub may
    /// have sixteen times as many. Default 5 000: more than any display, and less than what would
    /// take the hub from the others.
    pub lookups_per_second: u32,
    /// Hubs that stand by for nodes of this one and are reached for nothing
    /// else. Default 64: what further ones are to keep reaches them by chance only.
    pub standby_connections: usize,
    /// Patches (a service in a block of 8 × 8 cells) known of each other hub,
    /// about 40 bytes each. Default 262 144.
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
