//! A plan: a network, an overlay on it, a workload, and a duration.
//!
//! ```toml
//! name = "star-11"
//! topology = { star = { nodes = 11, delay = "50ms", server_delay = "125ms" } }
//! architecture = "super-node"   # or "client-server", "client-server-caching", "multicast", "super-node-multicast", "super-node-auto", "programs"
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
//! [rooms.ops]
//! members = ["node1", "node2"]
//!
//! [movement]
//! speed = 2.0                   # cells a minute
//! ```

mod capture;
mod error;
mod fault;
mod file;
mod mix;
mod program;
mod room;
mod settings;
mod source;
mod values;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use roost_core::node::Discovery;
use roost_lab::TcpCongestion;
use roost_topology::file::TraceKey;
use roost_topology::model::TopologyChange;
use roost_topology::suggest;
use roost_topology::trace::TraceSide;
use roost_wire::messages::ReflectionPolicy;
use roost_wire::{Role, Scheme};
use serde::Deserialize;

pub use capture::CapturePlan;
pub use error::PlanError;
pub(crate) use error::PlanErrors;
pub use fault::{DaemonAction, DaemonRef, Fault, FaultKind};
pub use mix::{Draw, Mix, Participation};
pub use program::{PlanProgram, ProgramHosts};
pub use room::{Room, RoomMembers};
pub use settings::{DaemonSetting, DaemonSettings};
pub use source::TopologySource;
pub(crate) use write::write;

const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub struct Plan {
    /// The name in results; the default is the file's.
    pub name: String,
    pub topology: TopologySource,
    /// The way in which services are found and data is sent.
    pub architecture: Architecture,
    pub super_nodes: SuperNodes,
    /// The nodes whose first hub the plan chooses, each with its hub's host.
    pub homes: Vec<(Named, Named)>,
    pub caches: HubSelection,
    /// The host of the server; the default is that of class `server`.
    pub server: Option<Named>,
    pub transport: TransportChoice,
    /// Time for which nodes send requests before anything is counted.
    pub warm_up: Duration,
    pub duration: Duration,
    /// Time for the last requests to end after that.
    pub drain: Duration,
    /// The time-out of a request, beyond the length of a stream.
    pub timeout: Duration,
    /// The time-out of a handshake on any path; in virtual time only.
    pub handshake: Option<Duration>,
    pub stream: Duration,
    /// True if super nodes reflect the streams that nodes ask for.
    pub reflect: bool,
    /// False if providers leave no sealed stream keys with super nodes; in virtual time only.
    pub sealed_keys: bool,
    pub idle: Duration,
    /// The file with the requests, relative to the plan, in place of drawn ones.
    pub replay: Option<Named>,
    /// The seed of the workload and of the losses.
    pub seed: u64,
    /// True to test the links before the run.
    pub linktest: bool,
    /// The plan's settings for classes of hosts, by name.
    pub classes: BTreeMap<String, Class>,
    /// New values for links and LANs of the topology.
    pub links: Vec<(Named, Vec<TopologyChange>)>,
    pub traces: Vec<LinkTrace>,
    /// Sorted by time.
    pub faults: Vec<Fault>,
    /// Sorted by name, as the keys of the file are.
    pub rooms: Vec<Room>,
    pub movement: Option<Movement>,
    /// The links whose packets are kept; in a lab only.
    pub capture: Option<CapturePlan>,
    /// Settings of all nodes and of all hubs.
    pub settings: DaemonSettings,
    pub environment: BTreeMap<String, String>,
    pub programs: Vec<PlanProgram>,
    pub lab: LabSettings,
}

/// A name in a plan with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub line: usize,
}

/// A trace that a plan gives to a link or LAN; its path is relative to the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTrace {
    pub net: Named,
    pub side: TraceSide,
    pub key: TraceKey,
}

/// The way in which services are found and data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// All through one server.
    ClientServer,
    /// Like client/server, with caches in front of the server that answer lookups.
    ClientServerCaching,
    /// Discovery through super nodes; data from node to node.
    SuperNode,
    /// Discovery by multicast on the nodes' own links; data from node to node.
    Multicast,
    /// Discovery in both ways at once, whichever is first; data from node to node.
    SuperNodeMulticast,
    /// Discovery in one of both ways, as each node decides; data from node to node.
    SuperNodeAuto,
    /// No daemons: only the plan's own programs.
    Programs,
}

impl Architecture {
    const ALL: [Self; 7] = [
        Self::ClientServer,
        Self::ClientServerCaching,
        Self::SuperNode,
        Self::Multicast,
        Self::SuperNodeMulticast,
        Self::SuperNodeAuto,
        Self::Programs,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientServer => "client-server",
            Self::ClientServerCaching => "client-server-caching",
            Self::SuperNode => "super-node",
            Self::Multicast => "multicast",
            Self::SuperNodeMulticast => "super-node-multicast",
            Self::SuperNodeAuto => "super-node-auto",
            Self::Programs => "programs",
        }
    }

    /// The role of its hubs, if it has any.
    pub const fn hub_role(self) -> Role {
        match self {
            Self::ClientServer | Self::ClientServerCaching => Role::Server,
            Self::SuperNode | Self::Multicast | Self::SuperNodeMulticast | Self::SuperNodeAuto | Self::Programs => {
                Role::SuperNode
            }
        }
    }

    pub const fn hub_program(self) -> &'static str {
        match self.hub_role() {
            Role::Server => "cs-server",
            Role::Node | Role::SuperNode => "supernode",
        }
    }

    /// The name of a hub in results: the first server is the central one, and the others are its caches.
    pub const fn hub_title(self, place: usize) -> &'static str {
        match (self.hub_role(), place) {
            (Role::Server, 1..) => "cache",
            (role, _) => role.name(),
        }
    }

    pub const fn has_server(self) -> bool {
        matches!(self, Self::ClientServer | Self::ClientServerCaching)
    }

    /// True if it has super nodes, which reflect streams and keep rooms.
    pub const fn has_rooms(self) -> bool {
        !self.has_server() && !matches!(self, Self::Multicast | Self::Programs)
    }

    /// True if nodes run, and not only the plan's own programs.
    pub const fn has_daemons(self) -> bool {
        !matches!(self, Self::Programs)
    }

    /// The nodes' setting `discovery`; `None` for the default.
    pub const fn discovery(self) -> Option<Discovery> {
        match self {
            Self::ClientServer | Self::ClientServerCaching | Self::SuperNode | Self::Programs => None,
            Self::Multicast => Some(Discovery::Multicast),
            Self::SuperNodeMulticast => Some(Discovery::Both),
            Self::SuperNodeAuto => Some(Discovery::Auto),
        }
    }
}

impl FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name);
            let near = suggest::did_you_mean(text, known);
            let [first @ .., last] = known;
            format!("there is no architecture `{text}`: choose {} or {last}{near}", first.join(", "))
        })
    }
}

/// The number of super nodes or caches, or their hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubSelection {
    /// A number, on the hosts highest in the hierarchy.
    Count(usize),
    Hosts(Vec<Named>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperNodes {
    Flat(HubSelection),
    /// On these hosts; each list is a tier, lowest first.
    Hosts(Vec<Vec<Named>>),
    /// A number of tiers, each on all hosts of one of the highest classes.
    Tiers(usize),
}

/// The most tiers: a request goes up through all of them, across, and down again, and may cross eight hubs.
pub const MAX_TIERS: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    Only(Scheme),
    /// As published: streams over UDP, objects over TCP.
    #[default]
    Paper,
}

impl TransportChoice {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Only(scheme) => scheme.name(),
            Self::Paper => "paper",
        }
    }

    pub const fn for_service(self, is_stream: bool) -> Scheme {
        match (self, is_stream) {
            (Self::Only(scheme), _) => scheme,
            (Self::Paper, true) => Scheme::Udp,
            (Self::Paper, false) => Scheme::Tcp,
        }
    }

    /// The transports in the order in which nodes try them with their hub.
    pub fn preference(self) -> Vec<Scheme> {
        let first = self.for_service(true);
        std::iter::once(first).chain(Scheme::ALL.into_iter().filter(|scheme| *scheme != first)).collect()
    }
}

impl FromStr for TransportChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "paper" {
            return Ok(Self::Paper);
        }
        text.parse().map(Self::Only).map_err(|_| {
            let near = suggest::did_you_mean(text, ["paper", "udp", "tcp", "quic"]);
            format!("there is no transport `{text}`: choose paper, udp, tcp or quic{near}")
        })
    }
}

/// A plan's settings for a class of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The line that names the class, from 1.
    pub line: usize,
    /// The request mix; the default is the built-in mix of the class's name.
    pub part: Option<Participation>,
    /// The targets of requests; the default is one hop away for class `low`, else anywhere.
    pub locality: Option<Locality>,
}

/// The possible targets of a class of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locality {
    /// Nodes on a link or LAN of the host.
    Link,
    Anywhere,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Movement {
    /// Cells per minute, from [`MIN_SPEED`] to [`MAX_SPEED`].
    pub speed: f64,
}

/// The highest speed of nodes, cells per minute: ten steps a second.
pub const MAX_SPEED: f64 = 600.0;
/// A step an hour, in cells per minute.
pub const MIN_SPEED: f64 = 1.0 / 60.0;

impl Movement {
    /// Time between two steps of a node.
    pub fn pause(self) -> Duration {
        Duration::from_secs_f64(60.0 / self.speed.clamp(MIN_SPEED, MAX_SPEED))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LabSettings {
    /// `auto`, `tap` or `veth`.
    pub backend: BackendChoice,
    /// True to try a real-time priority for the thread that carries packets, and processors that stay awake.
    pub realtime: bool,
    #[serde(deserialize_with = "values::parsed")]
    pub tcp: TcpCongestion,
}

impl Default for LabSettings {
    fn default() -> Self {
        Self { backend: BackendChoice::Auto, realtime: true, tcp: TcpCongestion::default() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// TAP if the system offers it, else veth.
    #[default]
    Auto,
    Tap,
    Veth,
}

impl Plan {
    /// The policy of requests for streams.
    pub fn reflection_policy(&self) -> ReflectionPolicy {
        if self.reflect { ReflectionPolicy::Always } else { ReflectionPolicy::default() }
    }

    /// Reads the text of a plan's file.
    ///
    /// # Errors
    /// Fails when it cannot be read, is longer than a plan may be, or is an NS file.
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
    /// Fails when it is no valid plan; with the line.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PlanError> {
        file::parse(text, file)
    }
}

/// Reads the text of a plan or topology.
///
/// # Errors
/// Fails when it cannot be read, is longer than a plan may be, or is no text.
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
