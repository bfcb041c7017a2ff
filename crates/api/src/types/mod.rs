//! The JSON of schema 1.
//!
//! Times on the wall clock are Unix seconds, durations name their unit, byte counts are bytes. Fields are only ever
//! added. `schema` is [`crate::SCHEMA`]. `name` and `…_name` are names in certificates, absent while they are not
//! known.

mod audit;
mod directory;
mod documents;
mod hubs;
mod offer;
mod outbox;
mod position;
mod requests;
mod room;
mod send;
mod streams;
mod transfer;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use roost_wire::{Cell, Labels, NodeId, Role, Scheme, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use audit::{AuditRow, AuditRows};
pub use directory::{Candidate, EarthPlace, Index, Lookup, WatchEvent, record_text, uplink_left};
pub use documents::{DocumentHolder, DocumentRow, DocumentTaken, Documents, HubHoldings};
pub use hubs::{HubConnection, Relation};
pub use offer::{Given, OfferEvent, OfferRequest};
pub use outbox::{Outbox, OutboxRow, OutboxState, OutboxTotals, Priority};
pub use position::{Following, Position};
pub use requests::{RequestBegan, RequestEnded, RequestLine, RequestResult};
pub use room::{Member, RoomRow, Rooms, Roster};
pub use send::SendEvent;
pub use streams::{DownstreamRow, StreamRow, Streams, UpstreamRow};
pub use transfer::{Accepted, Progress, RequestEvent, Trace, TraceHop, TransferSummary};

use crate::text;

/// `GET /v1/status`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub schema: u32,
    pub role: Role,
    pub name: String,
    pub group: String,
    pub node: NodeId,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The version of the program.
    pub version: String,
    pub state: State,
    pub started_unix_s: u64,
    pub uptime_s: f64,
    pub certificate_not_after_unix_s: u64,
    /// The first failure to renew the certificate since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_failing_since_unix_s: Option<u64>,
    /// The first question for documents that the group's authority has not answered, since its last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_away_since_unix_s: Option<u64>,
    /// The endpoints that the daemon listens at, with the ports that the system chose.
    pub listen: Vec<String>,
    /// The home; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubRow>,
    /// The hub that takes over if the home is lost; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<HubRow>,
    /// Nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Nodes of a group with a datum only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<EarthPlace>,
    /// Nodes that follow a receiver or an orbit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub following: Option<Following>,
    /// The version of the node's record as `EPOCH.SEQUENCE`; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The services of the node's offers; nodes only.
    #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Service>")]
    pub services: Vec<Service>,
    /// Flows being sent; nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providing: Vec<Transfer>,
    /// Requests that have not ended; nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receiving: Vec<Transfer>,
    /// Nodes with an outbox only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox: Option<OutboxTotals>,
    /// Hubs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexTotals>,
    /// The remotes in the hierarchy, those of the configuration first; super nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubConnection>,
    /// Bytes over all sockets of the process since it started.
    pub transport: TransportTotals,
    /// Bytes of messages sent since the start, by traffic class: `join`, `renew`, `lookup`, `mesh`, `summary`,
    /// `gossip`, `payload`, `documents`; before sealing and framing.
    pub traffic_sent_bytes: BTreeMap<String, u64>,
    /// Numbers of the group's documents in force, by kind: `revocations` and, if there is one, `policy`; absent from an older daemon.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub documents: BTreeMap<String, u64>,
    /// The group's policy in force; absent if there is none, or from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
    /// The place of the group's grid on the Earth; absent of a plain grid, or from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datum: Option<DatumStatus>,
    /// Remotes refused since the start, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The age of `last_error`, seconds; absent from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_s: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatumStatus {
    /// Latitude and longitude of the corner of cell (0, 0): `47.37,8.54`.
    pub origin: String,
    /// The side of a cell with its unit: `1km`.
    pub cell: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyStatus {
    pub number: u64,
    pub rules: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum State {
    Listening,
    /// A node that looks for a hub.
    Attaching,
    /// A node whose hub holds its record.
    Attached,
    /// A node without a hub, which finds others by multicast on its link.
    MulticastOnly,
    /// The daemon finishes its work and ends.
    Draining,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HubRow {
    pub node: NodeId,
    pub name: String,
    /// `supernode`, or `server` for the client/server baseline.
    pub role: Role,
    pub address: String,
    /// Absent until it has been measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Seconds since the hub got this place.
    pub since_s: f64,
    /// The hub's version of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Seconds by which the hub's wall clock is ahead of this host's, below zero behind; absent if the hub does not
    /// tell its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
    /// The address from which the home sends reflected streams; absent for the standby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<SocketAddr>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    #[serde(with = "text")]
    #[schemars(with = "Service")]
    pub service: Service,
    /// Absent until the other end is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    pub bytes: u64,
    pub elapsed_s: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    pub watches: u64,
    /// Other hubs connected.
    pub hubs: u64,
    /// True while the hub is younger than one lease and may not know every node.
    pub warming_up: bool,
    /// The hub's tier; 0 is the lowest.
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
    /// True while a hub with configured parents is connected with none of them.
    #[serde(default)]
    pub cut_off: bool,
}

/// Bytes as handed to and taken from sockets: UDP payload, TCP bytes with TLS.
/// Headers below UDP and TCP are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransportTotals {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// UDP datagrams sent, by `udp` and `quic`.
    pub sent_datagrams: u64,
    /// UDP datagrams received, by `udp` and `quic`.
    pub received_datagrams: u64,
    /// The counters of `udp`, `tcp`, `quic`, and of `multicast` on a node that takes part.
    pub schemes: BTreeMap<String, TransportBytes>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransportBytes {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_datagrams: u64,
    pub received_datagrams: u64,
    /// Messages that could not be queued.
    pub dropped: u64,
    /// Received pieces that were not well-formed or not authentic.
    pub malformed: u64,
    pub handshakes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    pub schema: u32,
    pub connections: Vec<ConnectionRow>,
    /// The super nodes of the configuration that are not connected; super nodes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<HubConnection>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionRow {
    pub node: NodeId,
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Between super nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<Relation>,
    /// The tier of a child, as the child tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    pub transport: Scheme,
    /// The address that the remote's packets come from.
    pub address: String,
    /// True if this daemon dialled.
    pub dialed: bool,
    pub rtt_ms: f64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_messages: u64,
    pub received_messages: u64,
    /// Pieces that had to be sent again.
    pub retransmissions: u64,
    /// Packets sent whose arrival the remote confirms; `retransmissions` of them were lost. Absent for TCP, where the
    /// kernel counts, and from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    /// The end of the remote's certificate; absent from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_not_after_unix_s: Option<u64>,
    /// Seconds since the connection came up.
    pub since_s: f64,
    /// Seconds by which the remote's wall clock is ahead of this host's, below zero behind; absent if the remote does
    /// not tell its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
    /// The paths of a connection over QUIC, the preferred one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathRow {
    /// This daemon's address, where the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    pub remote: String,
    /// True while the remote answers on this path.
    pub answers: bool,
    pub rtt_ms: f64,
    /// The measured rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Packets sent; absent from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    /// Lost packets, whose content was sent again.
    pub retransmissions: u64,
    /// Parts of messages sent on it because they were late elsewhere.
    pub repeated: u64,
    /// The number of times that the path stopped answering.
    pub losses: u64,
}

/// `GET /v1/services`: a node's own offers, or the services in a hub's directory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Services {
    pub schema: u32,
    pub services: Vec<ServiceRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceRow {
    #[serde(with = "text")]
    #[schemars(with = "Service")]
    pub service: Service,
    /// The source as configured; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Requesters served at the moment; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
    /// Requests served since the start; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<u64>,
    /// Nodes that offer the service; hubs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<u64>,
    /// The exact position of the node, if it is known; nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ping {
    pub schema: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address that the answer came from.
    pub address: String,
    pub rtt_ms: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    pub schema: u32,
    pub from: Cell,
    pub to: Cell,
    /// The new place, in a group with a datum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<EarthPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLevel {
    pub schema: u32,
    pub level: String,
}
