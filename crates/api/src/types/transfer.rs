//! What happens to a request, and what came of it.

use roost_wire::{Cell, NodeId, Scheme};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::text;

/// What happens to a request, in the order accepted, progress…, finished; or failed.
///
/// The first three come again after a `progress` if a provider is lost before
/// any data was delivered and another one takes over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RequestEvent {
    /// A provider serves it. Data follows.
    Accepted(Accepted),
    /// How far it is, once a second.
    Progress(Progress),
    /// The way that the request took, if it was to be traced; the last event follows.
    Traced(Trace),
    /// All of it has come; the last event.
    Finished(TransferSummary),
    /// It will not come, or not all of it; the last event.
    Failed {
        /// Why.
        error: Error,
        /// What did come, if it had begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<TransferSummary>,
    },
}

/// See [`RequestEvent::Accepted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// The request's number at its daemon; an older one does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// Who provides.
    #[serde(with = "text")]
    pub provider: NodeId,
    /// The name in its certificate, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    /// Where it is.
    #[serde(with = "text")]
    pub cell: Cell,
    /// The transport over which the data arrives here.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// Whether it comes through the hub.
    pub relayed: bool,
    /// Whether it is a stream that super nodes reflect.
    #[serde(default)]
    pub reflected: bool,
    /// The media type or format of the payload.
    pub format: String,
    /// The size of an object, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The SHA-256 of an object, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Where an object's data begins, if who asked has what comes before; the
    /// whole is then for the reader to verify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How long a stream lasts, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u32>,
    /// The rate of a stream, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u32>,
}

/// See [`RequestEvent::Progress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Payload bytes so far.
    pub bytes: u64,
    /// How long since the request, milliseconds.
    pub elapsed_ms: f64,
    /// Datagrams that never came, of a reflected stream; of others the summary alone says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

/// What came, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// Who provided.
    #[serde(with = "text")]
    pub provider: NodeId,
    /// The name in its certificate, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    /// Where it is.
    #[serde(with = "text")]
    pub cell: Cell,
    /// The transport over which the data arrived here.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// Whether it came through the hub.
    pub relayed: bool,
    /// Whether it was a stream that super nodes reflect.
    #[serde(default)]
    pub reflected: bool,
    /// Payload bytes received.
    pub bytes: u64,
    /// Datagrams of a stream, each counted once; 0 for an object.
    pub packets: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// With the profile `piloting`: datagrams that were not there in time,
    /// whether they came afterwards, and were dropped, or never; none is `lost`.
    #[serde(default)]
    pub late: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Datagrams that came but that the reader of this API was too slow for.
    pub unread: u64,
    /// Pauses of a stream of two seconds or more after which it went on.
    #[serde(default)]
    pub interruptions: u32,
    /// Those pauses together, milliseconds.
    #[serde(default)]
    pub interrupted_ms: f64,
    /// Interarrival jitter, milliseconds (RFC 3550, section 6.4.1).
    pub jitter_ms: f64,
    /// From the request to the first byte, milliseconds; null if none came.
    pub first_byte_ms: Option<f64>,
    /// From the request to the end, milliseconds.
    pub elapsed_ms: f64,
    /// Whether the digest is that of the provider; null where it cannot be
    /// told, as for a stream that lost something.
    pub digest_ok: Option<bool>,
    /// Whether all of it came.
    pub complete: bool,
}

/// See [`RequestEvent::Traced`].
///
/// The clocks of hosts differ, so no two times of different hosts are compared:
/// there are times that passed at one host, and round trips measured by the
/// host that asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Sendings of the request, to the home and to the standby.
    pub sent: u32,
    /// From the request to the acceptance, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_ms: Option<f64>,
    /// What the hubs reported, in the order in which it was heard; then the provider.
    pub hops: Vec<TraceHop>,
}

/// What one hub, or the provider, did with a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHop {
    /// Its place on the way, from 1.
    pub number: u8,
    /// Who did it.
    #[serde(with = "text")]
    pub node: NodeId,
    /// Its name, if one on the way told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tier of a hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// What it did. A hub: `handed` it to a provider, `relayed` it, `passed` it
    /// on to a hub, `looked-up` it at other hubs, heard that one `declined`, heard
    /// nothing (`silent`), `refused` it in the end. A provider: answered over an
    /// connection that was up (`warm`) or that it `dialed`.
    pub step: String,
    /// Why it was declined or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whom it is about: who got the request, or did not take it.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub other: Option<NodeId>,
    /// That one's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_name: Option<String>,
    /// From the coming of the request to this, milliseconds on its own clock.
    pub held_ms: f64,
    /// Of a provider: how much of `held_ms` passed until there was an
    /// connection with the one it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_ms: Option<f64>,
    /// The round trip between it and the one before it on the way, milliseconds
    /// on the clock of the latter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<f64>,
    /// From the request to the coming of this report, milliseconds.
    pub heard_ms: f64,
}
