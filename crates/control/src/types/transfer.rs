//! What happens to a request, and what came of it.

use roost_proto::{Cell, NodeId, Scheme};
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
    /// All of it has come; the last event.
    Finished(Summary),
    /// It will not come, or not all of it; the last event.
    Failed {
        /// Why.
        error: Error,
        /// What did come, if it had begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Summary>,
    },
}

/// See [`RequestEvent::Accepted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Who provides.
    #[serde(with = "text")]
    pub provider: NodeId,
    /// Where it is.
    #[serde(with = "text")]
    pub cell: Cell,
    /// The transport over which the data arrives here.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// Whether it comes through the hub.
    pub relayed: bool,
    /// The media type or format of the payload.
    pub format: String,
    /// The size of an object, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
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
}

/// What came, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Who provided.
    #[serde(with = "text")]
    pub provider: NodeId,
    /// Where it is.
    #[serde(with = "text")]
    pub cell: Cell,
    /// The transport over which the data arrived here.
    #[serde(with = "text")]
    pub transport: Scheme,
    /// Whether it came through the hub.
    pub relayed: bool,
    /// Payload bytes received.
    pub bytes: u64,
    /// Datagrams of a stream, each counted once; 0 for an object.
    pub packets: u64,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Datagrams that came but that the reader of this API was too slow for.
    pub unread: u64,
    /// Interarrival jitter, milliseconds (RFC 3550, section 6.4.1).
    pub jitter_ms: f64,
    /// From the request to the first byte, milliseconds.
    pub first_byte_ms: f64,
    /// From the request to the end, milliseconds.
    pub elapsed_ms: f64,
    /// Whether the digest is that of the provider; null where it cannot be
    /// told, as for a stream that lost something.
    pub digest_ok: Option<bool>,
    /// Whether all of it came.
    pub complete: bool,
}
