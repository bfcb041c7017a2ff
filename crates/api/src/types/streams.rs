//! The streams that pass through a daemon's relay.

use roost_wire::{Cell, NodeId, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// `GET /v1/streams`: the reflected streams that begin, end, or are sent on here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Streams {
    pub schema: u32,
    /// The address of the relay; `None` if there is no relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
    /// The uplink that is left for further copies, bits per second; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_bps: Option<u64>,
    pub streams: Vec<StreamRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRow {
    /// 16 hexadecimal digits.
    pub stream: String,
    /// Absent at a hub that has not seen the request.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Service>")]
    pub service: Option<Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    /// True if this node is the provider.
    pub published: bool,
    /// True if this node is a subscriber.
    pub watched: bool,
    /// The rate at which packets arrive or are published, with their headers.
    pub bits_per_second: u64,
    pub packets: u64,
    /// Packets that also came another way.
    pub duplicates: u64,
    /// Packets that were lost on the way here and not repaired in time.
    pub lost: u64,
    /// The latest is the last; two while the stream changes its way.
    pub upstreams: Vec<UpstreamRow>,
    pub downstreams: Vec<DownstreamRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamRow {
    pub address: String,
    /// The remote at the address, if it is known: at a node its home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub packets: u64,
    /// Packets that were lost on this hop, repaired or not.
    pub lost: u64,
    /// Requests for repairs sent to this upstream.
    pub nacks: u64,
    /// Interarrival jitter (RFC 3550), milliseconds.
    pub jitter_ms: f64,
    pub rtt_ms: f64,
    /// True while the stream is about to leave this upstream.
    pub leaving: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DownstreamRow {
    pub address: String,
    /// The remote at the address, if it is known: at a node its home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `subscriber`, or `reflector` for a hub that sends on.
    pub kind: String,
    /// True once the remote has answered; nothing is sent to it before.
    pub answered: bool,
    pub bits_per_second: u64,
    /// Packets sent, with repairs.
    pub packets: u64,
    /// Packets skipped because the remote was too far behind.
    pub dropped: u64,
    /// Packets that the remote asked for again.
    pub nacked: u64,
    /// Packets of `nacked` that were sent again.
    pub repaired: u64,
    /// Packets received, by the remote's report.
    pub received: u64,
    /// Packets lost on this hop, repaired or not, by the remote's report.
    pub lost: u64,
    /// Interarrival jitter by the remote's report, milliseconds.
    pub jitter_ms: f64,
}
