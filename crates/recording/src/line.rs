//! The lines of a recording, which are the same for all its readers.

use roost_api::RequestLine;
use roost_wire::service::full_text;
use roost_wire::{Cell, NodeId, Role, Scheme, Service};
use serde::{Deserialize, Serialize};

pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StampedLine {
    /// Seconds since the recording began, by a clock that nobody sets.
    pub t: f64,
    pub unix_ms: u64,
    #[serde(flatten)]
    pub line: RecordingLine,
}

/// An event at a daemon, which lines name by its place among the recorded ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RecordingLine {
    Begin {
        version: u32,
        program: String,
        /// True if names and addresses are replaced by digests.
        redacted: bool,
    },
    /// A daemon as it is from now on: at the beginning, and when something has changed.
    Daemon(DaemonLine),
    Traffic(TrafficLine),
    Connection(ConnectionLine),
    /// A round trip that was measured now; none if no answer came.
    Ping {
        daemon: u32,
        node: NodeId,
        #[serde(default)]
        rtt_ms: Option<f64>,
    },
    Request {
        daemon: u32,
        request: RequestLine,
    },
    /// The daemon does not answer any more.
    Gone {
        daemon: u32,
        /// The time for which it has not answered, seconds.
        #[serde(default)]
        silent_s: f64,
    },
    End {
        why: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonLine {
    pub daemon: u32,
    pub node: NodeId,
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<NodeId>,
    #[serde(default)]
    pub tier: u8,
    pub listen: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_s: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceName(#[serde(with = "full_text")] pub Service);

/// Bytes over all sockets of a daemon since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficLine {
    pub daemon: u32,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_datagrams: u64,
    pub received_datagrams: u64,
    pub tcp_sent_bytes: u64,
    pub tcp_received_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLine {
    pub daemon: u32,
    pub node: NodeId,
    pub name: String,
    pub role: Role,
    pub transport: Scheme,
    pub address: String,
    pub since_s: f64,
    pub rtt_ms: f64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    pub lost_packets: u64,
    /// The rate that the transport has measured, of all paths together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Seconds by which the remote's wall clock is ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
}
