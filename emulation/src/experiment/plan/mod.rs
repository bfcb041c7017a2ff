//! A plan: which network, which overlay on it, which workload, for how long.
//!
//! ```toml
//! name = "star-11"
//! topology = { star = { nodes = 11, delay = "50ms", server_delay = "125ms" } }
//! architecture = "super-node"   # or "client-server", "client-server-caching", "multicast", "super-node-multicast", "super-node-auto"
//! duration = "60s"
//! seed = 1
//!
//! [classes.low]
//! mix = { video = 10, track = 45, image = 10, sensor = 25, idle = 10 }
//! locality = "link"
//!
//! [[faults]]
//! at = "20s"
//! kill = "node-3"
//!
//! [movement]
//! speed = 2.0                   # cells a minute
//! ```

mod error;
mod fault;
mod file;
mod mix;
mod source;
mod unit_text;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use roost_proto::node::{Discovery, ReflectionPolicy};
use roost_proto::{Role, Scheme};

use crate::lab::TcpCongestion;
use crate::topology::model::TopologyChange;
use crate::topology::suggest;

pub use error::PlanError;
pub(in crate::experiment) use error::PlanErrors;
pub use fault::{DaemonAction, DaemonRef, Fault, FaultKind};
pub use mix::{Draw, Mix, Participation};
pub use source::TopologySource;
pub(crate) use write::write;

/// The longest plan file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, which results carry: the file's, unless it says otherwise.
    pub name: String,
    /// The network.
    pub topology: TopologySource,
    /// How services are found and data travels.
    pub architecture: Architecture,
    /// Where the super nodes are.
    pub super_nodes: SuperNodes,
    /// Where the caches are.
    pub caches: HubSelection,
    /// The host of the server; without it that of class `server`.
    pub server: Option<Named>,
    /// Over what data travels.
    pub transport: TransportChoice,
    /// How long nodes ask before anything is counted.
    pub warm_up: Duration,
    /// How long nodes go on asking.
    pub duration: Duration,
    /// How long what is under way then may still take.
    pub drain: Duration,
    /// How long a request may take, beyond the length of a stream.
    pub timeout: Duration,
    /// After how long a handshake is given up, whatever the path; in virtual time only.
    pub handshake: Option<Duration>,
    /// How long a stream lasts.
    pub stream: Duration,
    /// True if super nodes reflect the streams that nodes ask for.
    pub reflect: bool,
    /// How long a pause is.
    pub idle: Duration,
    /// The seed of the workload and of the losses.
    pub seed: u64,
    /// Whether the links are tested before the run.
    pub linktest: bool,
    /// What the plan says about classes of hosts, by name.
    pub classes: BTreeMap<String, Class>,
    /// Links and LANs of the topology that are otherwise here: rates, delays, jitters and losses.
    pub links: Vec<(Named, Vec<TopologyChange>)>,
    /// What is to break, by time.
    pub faults: Vec<Fault>,
    /// How nodes move, if they do.
    pub movement: Option<Movement>,
    /// How packets are carried.
    pub lab: LabSettings,
}

/// A name in a plan and the line where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
}

/// How services are found and data travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// All through one server.
    ClientServer,
    /// The same, with caches before it that answer lookups.
    ClientServerCaching,
    /// Found through super nodes; data from node to node.
    SuperNode,
    /// Found by multicast on the nodes' own links; data from node to node.
    Multicast,
    /// Found in both ways at once, whichever is first; data from node to node.
    SuperNodeMulticast,
    /// Found in one of both ways, as each node thinks best; data from node to node.
    SuperNodeAuto,
}

impl Architecture {
    const ALL: [Self; 6] = [
        Self::ClientServer,
        Self::ClientServerCaching,
        Self::SuperNode,
        Self::Multicast,
        Self::SuperNodeMulticast,
        Self::SuperNodeAuto,
    ];

    /// Its name in plans and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientServer => "client-server",
            Self::ClientServerCaching => "client-server-caching",
            Self::SuperNode => "super-node",
            Self::Multicast => "multicast",
            Self::SuperNodeMulticast => "super-node-multicast",
            Self::SuperNodeAuto => "super-node-auto",
        }
    }

    /// What its hubs are certified as, if it has any.
    pub const fn hub_role(self) -> Role {
        match self {
            Self::ClientServer | Self::ClientServerCaching => Role::Server,
            Self::SuperNode | Self::Multicast | Self::SuperNodeMulticast | Self::SuperNodeAuto => Role::SuperNode,
        }
    }

    /// The program of its hubs, if it has any.
    pub const fn hub_program(self) -> &'static str {
        match self.hub_role() {
            Role::Server => "cs-server",
            Role::Node | Role::SuperNode => "supernode",
        }
    }

    /// What its hub at this place is in results: of servers the first is the
    /// central one, the others are its caches.
    pub const fn hub_title(self, place: usize) -> &'static str {
        match (self.hub_role(), place) {
            (Role::Server, 1..) => "cache",
            (role, _) => role.name(),
        }
    }

    /// True if it has a central server.
    pub const fn has_server(self) -> bool {
        matches!(self, Self::ClientServer | Self::ClientServerCaching)
    }

    /// The nodes' setting `discovery`; `None` where the default holds.
    pub const fn discovery(self) -> Option<Discovery> {
        match self {
            Self::ClientServer | Self::ClientServerCaching | Self::SuperNode => None,
            Self::Multicast => Some(Discovery::Multicast),
            Self::SuperNodeMulticast => Some(Discovery::Both),
            Self::SuperNodeAuto => Some(Discovery::Auto),
        }
    }
}

impl FromStr for Architecture {
    type Err = String;

    /// Reads its [name](Self::name).
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name);
            let near = suggest::did_you_mean(text, known);
            let [first @ .., last] = known;
            format!("there is no architecture `{text}`: choose {} or {last}{near}", first.join(", "))
        })
    }
}

/// How many super nodes or caches there are, or where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubSelection {
    /// So many, on the hosts highest in the hierarchy.
    Count(usize),
    /// On these hosts.
    Hosts(Vec<Named>),
}

/// Where the super nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperNodes {
    /// All of one tier.
    Flat(HubSelection),
    /// On these hosts; each list is a tier, the lowest first.
    Hosts(Vec<Vec<Named>>),
    /// So many tiers, each on all hosts of one of the highest classes.
    Tiers(usize),
}

/// The most tiers: a request goes up through all of them, across, and down
/// again, and may go to eight hubs.
pub const MAX_TIERS: usize = 4;

/// Over what data travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportChoice {
    /// All services over one.
    Only(Scheme),
    /// As published: streams over UDP, objects over TCP.
    Paper,
}

impl TransportChoice {
    /// Its name in plans and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Only(scheme) => scheme.name(),
            Self::Paper => "paper",
        }
    }

    /// The transport of a service's data.
    pub const fn for_service(self, is_stream: bool) -> Scheme {
        match (self, is_stream) {
            (Self::Only(scheme), _) => scheme,
            (Self::Paper, true) => Scheme::Udp,
            (Self::Paper, false) => Scheme::Tcp,
        }
    }

    /// The transports in the order in which nodes call their hub.
    pub fn preference(self) -> Vec<Scheme> {
        let first = self.for_service(true);
        std::iter::once(first).chain(Scheme::ALL.into_iter().filter(|scheme| *scheme != first)).collect()
    }
}

/// What a plan says about a class of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The line where the plan names the class, from 1.
    pub line: usize,
    /// What its hosts ask for; without it the built-in mix of the class's name.
    pub part: Option<Participation>,
    /// Whom they ask; without it one hop away for class `low`, else anywhere.
    pub locality: Option<Locality>,
}

/// Whom the hosts of a class may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// Those on a link or LAN of their own.
    Link,
    /// All.
    Anywhere,
}

/// How nodes move over the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Movement {
    /// How many cells each of them goes in a minute, from [`MIN_SPEED`] to [`MAX_SPEED`].
    pub speed: f64,
}

/// The greatest speed of nodes, cells a minute: ten steps a second.
pub const MAX_SPEED: f64 = 600.0;
/// The least: a step an hour.
pub const MIN_SPEED: f64 = 1.0 / 60.0;

impl Movement {
    /// Between two steps of a node.
    pub fn pause(self) -> Duration {
        Duration::from_secs_f64(60.0 / self.speed.clamp(MIN_SPEED, MAX_SPEED))
    }
}

/// How packets are carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSettings {
    /// `auto`, `tap` or `veth`.
    pub backend: BackendChoice,
    /// Whether real-time priority is tried for the thread that carries packets.
    pub realtime: bool,
    /// Which congestion control TCP has in hosts.
    pub tcp: TcpCongestion,
}

impl Default for LabSettings {
    fn default() -> Self {
        Self { backend: BackendChoice::Auto, realtime: true, tcp: TcpCongestion::default() }
    }
}

/// By what device hosts are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// What the system offers.
    #[default]
    Auto,
    /// TAP devices.
    Tap,
    /// Pairs of veth devices.
    Veth,
}

impl Plan {
    /// The policy of requests for streams; `None` where the usual one holds.
    pub(crate) fn reflection_policy(&self) -> Option<ReflectionPolicy> {
        self.reflect.then_some(ReflectionPolicy::Always)
    }

    /// The text of a plan's file.
    ///
    /// # Errors
    /// When it cannot be read, is longer than a plan may be, or describes a network to Emulab.
    pub fn text(path: &Path) -> Result<String, PlanError> {
        let text = read_text(path)?;
        let is_ns = path.extension().is_some_and(|extension| extension == "ns" || extension == "tcl");
        if is_ns {
            let message = "is an NS file, which describes a network and is no plan: `emulate run` runs it, and a plan \
                           names it as its topology";
            return Err(PlanError::new(path, 0, message));
        }
        Ok(text)
    }

    /// Reads a plan from the text of `file`.
    ///
    /// # Errors
    /// When what it says is no plan; with the line.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PlanError> {
        file::parse(text, file)
    }
}

/// The text of a plan or topology.
///
/// # Errors
/// When it cannot be read, is longer than a plan may be, or is no text.
fn read_text(path: &Path) -> Result<String, PlanError> {
    let cannot = |error: std::io::Error| PlanError::new(path, 0, format!("cannot be read: {error}"));
    let length = std::fs::metadata(path).map_err(cannot)?.len();
    if length > MAX_FILE_BYTES {
        return Err(PlanError::new(path, 0, format!("is {length} bytes long; a plan has at most {MAX_FILE_BYTES}")));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

#[cfg(test)]
mod tests;
