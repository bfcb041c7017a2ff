//! The JSON of schema 1.
//!
//! Times on the wall clock are Unix seconds, durations name their unit, byte
//! counts are bytes. Fields are only ever added.

mod directory;
mod hubs;
mod room;
mod send;
mod streams;
mod transfer;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use roost_wire::{Cell, NodeId, Role, Scheme, Service};
use serde::{Deserialize, Serialize};

pub use directory::{Candidate, Index, Lookup, WatchEvent, record_text, uplink_left};
pub use hubs::{HubConnection, Relation};
pub use room::{Member, Roster};
pub use send::SendEvent;
pub use streams::{DownstreamRow, StreamRow, Streams, UpstreamRow};
pub use transfer::{Accepted, Progress, RequestEvent, Trace, TraceHop, TransferSummary};

use crate::text;

/// `GET /v1/status`: who the daemon is and how it is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// What its certificate lets it act as.
    #[serde(with = "text")]
    pub role: Role,
    /// The name in its certificate.
    pub name: String,
    /// The group it belongs to.
    pub group: String,
    /// Its id.
    #[serde(with = "text")]
    pub node: NodeId,
    /// The version of the program.
    pub version: String,
    /// How it is doing.
    pub state: State,
    /// When it started, Unix seconds.
    pub started_unix_s: u64,
    /// How long it has been running, seconds.
    pub uptime_s: f64,
    /// When its certificate ends, Unix seconds.
    pub certificate_not_after_unix_s: u64,
    /// Where it listens, with the ports that it got.
    pub listen: Vec<String>,
    /// The hub it is attached to; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubRow>,
    /// The hub that takes over if that one is lost; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<HubRow>,
    /// Where it is on the grid; nodes only.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// The version of its record as `EPOCH.SEQUENCE`; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What it offers; nodes only.
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /// What it sends at the moment; nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providing: Vec<Transfer>,
    /// What it asked for and has not finished; nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receiving: Vec<Transfer>,
    /// What its directory holds; hubs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexTotals>,
    /// Its remotes in the hierarchy, those of its configuration first; super nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubConnection>,
    /// Bytes over all sockets of the process since it started.
    pub transport: TransportTotals,
    /// Bytes of messages sent since the start, by traffic class: `join`,
    /// `renew`, `lookup`, `mesh`, `summary`, `gossip`, `payload`; before sealing
    /// and framing.
    pub traffic_sent_bytes: BTreeMap<String, u64>,
    /// Peers refused since the start, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// The last thing that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// For how long that is past, seconds; an older daemon does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_s: Option<f64>,
}

/// How a daemon is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum State {
    /// A hub that serves.
    Listening,
    /// A node that looks for a hub.
    Attaching,
    /// A node whose hub holds its record.
    Attached,
    /// A node without a hub, which finds others by multicast on its link.
    MulticastOnly,
    /// On its way out.
    Draining,
    /// A state of a later version.
    #[serde(other)]
    Unknown,
}

/// The hub a node is attached to, or the one that stands by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HubRow {
    /// Its id.
    #[serde(with = "text")]
    pub node: NodeId,
    /// The name in its certificate.
    pub name: String,
    /// `supernode`, or `server` for the client/server baseline.
    #[serde(with = "text")]
    pub role: Role,
    /// Where it is reached.
    pub address: String,
    /// Round trip, milliseconds, if it has been measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// How long it has been so, seconds.
    pub since_s: f64,
    /// The version of the protocol that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Seconds by which its wall clock is ahead of this host's, below zero behind; absent if it does
    /// not tell its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
    /// The address from which the home sends reflected streams; absent if it sends none, or is not the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<SocketAddr>,
}

/// One flow of data under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// What.
    #[serde(with = "text")]
    pub service: Service,
    /// The other end, if it is known yet.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub remote: Option<NodeId>,
    /// The name in its certificate, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    /// Payload bytes so far.
    pub bytes: u64,
    /// How long it has been under way, seconds.
    pub elapsed_s: f64,
}

/// What a hub's directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexTotals {
    /// Nodes with a lease here.
    pub nodes: u64,
    /// Nodes of other hubs whose records it holds: as their standby, or as the server of their cache.
    #[serde(default)]
    pub replicas: u64,
    /// (node, service) pairs of both.
    pub entries: u64,
    /// Requests that wait for a provider.
    pub pending_requests: u64,
    /// Flows relayed at the moment.
    pub relays: u64,
    /// Watches held.
    pub watches: u64,
    /// Other hubs connected.
    pub hubs: u64,
    /// Whether the hub is younger than one lease and may not have heard of everyone.
    pub warming_up: bool,
    /// In which tier of the hierarchy it stands; 0 is the lowest.
    #[serde(default)]
    pub tier: u8,
    /// Parents connected.
    #[serde(default)]
    pub parents: u64,
    /// Parents that the configuration names.
    #[serde(default)]
    pub parents_configured: u64,
    /// Children connected.
    #[serde(default)]
    pub children: u64,
    /// Whether it should have a parent and none is connected.
    #[serde(default)]
    pub cut_off: bool,
}

/// Bytes as handed to and taken from sockets: UDP payload, TCP bytes with TLS.
/// Headers below UDP and TCP are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportTotals {
    /// Sent over all transports.
    pub sent_bytes: u64,
    /// Received over all transports.
    pub received_bytes: u64,
    /// UDP datagrams sent, by `udp` and `quic`.
    pub sent_datagrams: u64,
    /// UDP datagrams received, by `udp` and `quic`.
    pub received_datagrams: u64,
    /// The same by transport: `udp`, `tcp`, `quic`, and `multicast` on a node that takes part.
    pub schemes: BTreeMap<String, TransportBytes>,
}

/// The counters of one transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportBytes {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// Messages that could not be queued.
    pub dropped: u64,
    /// Received pieces that were not well-formed or not authentic.
    pub malformed: u64,
    /// Handshakes completed.
    pub handshakes: u64,
}

/// `GET /v1/connections`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Connections {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// Connections that are up.
    pub connections: Vec<ConnectionRow>,
    /// The super nodes of the configuration that are not; super nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<HubConnection>,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRow {
    /// Who.
    #[serde(with = "text")]
    pub node: NodeId,
    /// The name in its certificate.
    pub name: String,
    /// What it may act as.
    #[serde(with = "text")]
    pub role: Role,
    /// How it stands to this super node, if both are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<Relation>,
    /// The tier of a child, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// Over which transport.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// The address it is seen at.
    pub address: String,
    /// Whether this daemon dialled it.
    pub dialed: bool,
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// Bytes sent to it.
    pub sent_bytes: u64,
    /// Bytes received from it.
    pub received_bytes: u64,
    /// Messages sent to it.
    pub sent_messages: u64,
    /// Messages received from it.
    pub received_messages: u64,
    /// Pieces that had to be sent again.
    pub retransmissions: u64,
    /// How long it has been up, seconds.
    pub since_s: f64,
    /// Seconds by which its wall clock is ahead of this host's, below zero behind; absent if it does
    /// not tell its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
    /// The paths of a connection over QUIC, the first the preferred one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRow>,
}

/// One path of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathRow {
    /// This daemon's address on it, where the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The peer's address and port.
    pub remote: String,
    /// Whether it answers.
    pub answers: bool,
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// What it was seen to carry, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Bytes sent on it.
    pub sent_bytes: u64,
    /// Bytes received on it.
    pub received_bytes: u64,
    /// Packets that were lost, and their content sent again.
    pub retransmissions: u64,
    /// Parts of messages sent on it because they were late elsewhere.
    pub repeated: u64,
    /// How often it stopped answering.
    pub losses: u64,
}

/// `GET /v1/services`: on a node what it offers, on a hub what it knows of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Services {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// One row per service.
    pub services: Vec<ServiceRow>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRow {
    /// Which.
    #[serde(with = "text")]
    pub service: Service,
    /// Where its data comes from, as configured; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Requesters served at the moment; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
    /// Requests served since the start; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<u64>,
    /// Nodes that offer it; hubs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<u64>,
}

/// `POST /v1/ping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ping {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// Who answered.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The name in its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where from.
    pub address: String,
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
}

/// `POST /v1/move`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// Where the node was.
    #[serde(with = "text")]
    pub from: Cell,
    /// Where it is now.
    #[serde(with = "text")]
    pub to: Cell,
}

/// `POST /v1/log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevel {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// The level in force.
    pub level: String,
}
