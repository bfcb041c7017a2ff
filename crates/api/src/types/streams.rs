//! The streams that pass through a daemon's relay.

use roost_wire::{Cell, NodeId, Service};
use serde::{Deserialize, Serialize};

use crate::text;

/// `GET /v1/streams`: the reflected streams that begin, end, or are sent on here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// The version of this object, [`crate::SCHEMA`].
    pub schema: u32,
    /// Where the relay takes in and sends; `None` if there is no relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
    /// What is left of its uplink for further copies, bits per second; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_bps: Option<u64>,
    /// Every stream.
    pub streams: Vec<StreamRow>,
}

/// One reflected stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRow {
    /// Its number, 16 hexadecimal digits.
    pub stream: String,
    /// What it is, as it was asked for, or is published or watched here; absent where that is not known.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Where its provider is.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Who provides it.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub provider: Option<NodeId>,
    /// The name in its certificate, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    /// Whether it begins here.
    pub published: bool,
    /// Whether it is watched here.
    pub watched: bool,
    /// What comes, or is published, bits per second with headers of packets.
    pub bits_per_second: u64,
    /// Packets that were taken.
    pub packets: u64,
    /// Packets that came once more, another way.
    pub duplicates: u64,
    /// Packets that were lost on the way here and not repaired in time.
    pub lost: u64,
    /// Where it comes from, the latest last; two while its way changes.
    pub upstreams: Vec<UpstreamRow>,
    /// Where it goes to.
    pub downstreams: Vec<DownstreamRow>,
}

/// One from whom a stream comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpstreamRow {
    /// Its address.
    pub address: String,
    /// The remote there, if it is known: at a node its home.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The name in its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Packets that came from it.
    pub packets: u64,
    /// Packets that were lost on this hop, repaired or not.
    pub lost: u64,
    /// Times that it was asked for packets again.
    pub nacks: u64,
    /// Interarrival jitter (RFC 3550), milliseconds.
    pub jitter_ms: f64,
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// Whether it will leave.
    pub leaving: bool,
}

/// One to whom a stream goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DownstreamRow {
    /// Its address.
    pub address: String,
    /// The remote there, if it is known: at a node its home.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The name in its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `subscriber`, or `reflector` for one that sends on.
    pub kind: String,
    /// Whether it has answered, without which nothing is sent to it.
    pub answered: bool,
    /// What it is sent, bits per second.
    pub bits_per_second: u64,
    /// Packets that it was sent, repairs among them.
    pub packets: u64,
    /// Packets skipped because it was too far behind.
    pub dropped: u64,
    /// Packets that it asked for again.
    pub nacked: u64,
    /// Of these, those that it was sent.
    pub repaired: u64,
    /// Packets that it says have come.
    pub received: u64,
    /// Packets that it says were lost on this hop, repaired or not.
    pub lost: u64,
    /// Interarrival jitter that it says, milliseconds.
    pub jitter_ms: f64,
}
