//! The events of a request and its summary.

use roost_wire::{Cell, NodeId, Scheme};
use serde::{Deserialize, Serialize};

use super::EarthPlace;
use crate::error::Error;
use crate::text;

/// The events of a request, in the order accepted, progress…, finished; or failed.
///
/// The first two come again if a provider is lost before any data was delivered and another provider takes over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RequestEvent {
    /// A provider serves the request. Data follows.
    Accepted(Accepted),
    /// Sent once a second.
    Progress(Progress),
    /// The way that the request took, if it was to be traced; the last event follows.
    Traced(Trace),
    /// All of it has come; the last event.
    Finished(TransferSummary),
    /// No data will come, or not all of it. The last event.
    Failed {
        error: Error,
        /// The data that came, if the transfer had begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<TransferSummary>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// The request's number at its daemon; absent from an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    #[serde(with = "text")]
    pub provider: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    #[serde(with = "text")]
    pub cell: Cell,
    /// The middle of the cell, in a group with a datum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<EarthPlace>>,
    /// The transport over which the data arrives here.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// True if the data comes through the hub.
    pub relayed: bool,
    /// True for a stream that super nodes reflect.
    #[serde(default)]
    pub reflected: bool,
    /// The media type or format of the payload.
    pub format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The offset at which an object's data begins, if the requester has the bytes before it. The reader must then
    /// verify the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub bytes: u64,
    pub elapsed_ms: f64,
    /// Datagrams of a reflected stream that never came; absent for other flows, which tell it in the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferSummary {
    #[serde(with = "text")]
    pub provider: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    #[serde(with = "text")]
    pub cell: Cell,
    /// The middle of the cell, in a group with a datum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<EarthPlace>>,
    /// The transport over which the data arrived here.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// True if the data came through the hub.
    pub relayed: bool,
    /// True for a stream that super nodes reflect.
    #[serde(default)]
    pub reflected: bool,
    pub bytes: u64,
    /// Datagrams of a stream, each counted once; 0 for an object.
    pub packets: u64,
    pub lost: u64,
    /// With the profile `piloting`: datagrams that came too late and were dropped, or never came; none of them is
    /// `lost`.
    #[serde(default)]
    pub late: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    pub duplicates: u64,
    /// Datagrams dropped because the reader of this API was too slow.
    pub unread: u64,
    /// Pauses of a stream of two seconds or more after which it went on.
    #[serde(default)]
    pub interruptions: u32,
    /// The sum of `interruptions`, milliseconds.
    #[serde(default)]
    pub interrupted_ms: f64,
    /// Interarrival jitter, milliseconds (RFC 3550, section 6.4.1).
    pub jitter_ms: f64,
    /// From the request to the first byte, milliseconds; null if none came.
    pub first_byte_ms: Option<f64>,
    /// From the request to the end, milliseconds.
    pub elapsed_ms: f64,
    /// False if the provider's digest differs; null if there is nothing to compare, as for a stream that lost
    /// something.
    pub digest_ok: Option<bool>,
    pub complete: bool,
}

/// The way that a request took.
///
/// The clocks of hosts differ, so no times of different hosts are compared. Durations passed at one host; the
/// requester's host measured the round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Requests sent, to the home and to the standby.
    pub sent: u32,
    /// From the request to the acceptance, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_ms: Option<f64>,
    /// The reports of the hubs, in the order of their arrival; then the provider's.
    pub hops: Vec<TraceHop>,
}

/// The report of a hub, or of the provider, on a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHop {
    /// The place on the way, from 1.
    pub number: u8,
    #[serde(with = "text")]
    pub node: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// A hub: `handed` to a provider, `relayed`, `passed` on to a hub, `looked-up` at other hubs, `declined` by a
    /// provider, `silent` if no answer came, `refused` in the end. A provider: answered over a connection that was up
    /// (`warm`) or that it `dialed`.
    pub step: String,
    /// The reason of a decline or refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The node that got the request, or did not take it.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub other: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_name: Option<String>,
    /// From the arrival of the request to this step, milliseconds on the host's own clock.
    pub held_ms: f64,
    /// The part of `held_ms` until a provider had a connection with its remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_ms: Option<f64>,
    /// The round trip to the host before on the way, milliseconds on that host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<f64>,
    /// From the request to the arrival of this report, milliseconds.
    pub heard_ms: f64,
}
