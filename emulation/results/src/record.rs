//! The raw events of a run, one JSON object a line in `events.jsonl`, and the facts around them in `run.json`.
//!
//! Figures and tables are made from these alone, so that they can be made again, and differently, long after
//! the run. Times are seconds since all nodes were ready. Fields are only ever added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::measurement::{Better, MeasurementKind, MeasurementRecord};
pub use super::run_record::{RunRecord, RunVerdict, SCHEMA, SIMULATION};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    Request(RequestRecord),
    /// An event of the schedule, or a failure: a link went down, a process died.
    Incident {
        t: f64,
        /// The host, link or program.
        object: String,
        /// A sentence.
        what: String,
    },
    Sample(SampleRecord),
    /// The busiest directions of links, second by second.
    Load(LoadRecord),
    /// A daemon's counters, at the start of the workload and at the end.
    Node(NodeRecord),
    /// The counters of one direction of one link, from the start of the workload to its end.
    Link(LinkRecord),
    /// A program of the topology has ended.
    Program(ProgramRecord),
    /// The counters of a traffic agent of the topology.
    Traffic(TrafficRecord),
    /// The cell of a node: recorded for each node of a plan with movement at the start of the workload, and at
    /// each move.
    Position(PositionRecord),
    /// The place of a host in motion, at each second of its way.
    Motion(MotionRecord),
    /// A direction of a radio's link has changed: at once when it comes up or goes down, otherwise once a second.
    LinkState(LinkStateRecord),
    /// The stream of one member of a room at another: recorded when the other one leaves the room.
    RoomStream(RoomStreamRecord),
    /// A measurement that a program has printed.
    Measurement(MeasurementRecord),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomStreamRecord {
    /// The time at which the receiving node entered the room.
    pub t: f64,
    pub room: String,
    /// The receiving node.
    pub node: String,
    /// The member whose stream it is.
    pub provider: String,
    pub service: String,
    /// From the time at which both are to be in the room; absent if no packet came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_packet_ms: Option<f64>,
    pub packets: u64,
    /// Packets that never came, as the numbers of the others tell.
    pub missing: u64,
    /// Packets that came, and that this emulator was too slow to read from the daemon.
    #[serde(default)]
    pub dropped_by_reader: u64,
    /// The longest time without a packet, from the first packet to `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<f64>,
    /// More than one if the stream broke off.
    pub requests: u64,
    /// The time at which one of both left the room.
    pub until: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionRecord {
    pub t: f64,
    pub node: String,
    pub x: i32,
    pub y: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MotionRecord {
    pub t: f64,
    pub host: String,
    /// Meters east, north and up of the origin; absent without one, and beyond its reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub z_m: Option<f64>,
    /// Degrees of WGS 84, and meters; absent where hosts move on a plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lat: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lon: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_m: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStateRecord {
    pub t: f64,
    pub link: String,
    pub from: String,
    pub to: String,
    pub up: bool,
    /// Absent while the link is down, as are delay and loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_m: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snr_db: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    pub t: f64,
    pub node: String,
    pub class: String,
    /// `video`, `track`, `image` or `sensor`.
    pub service: String,
    pub target: String,
    /// The host of the provider, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    pub outcome: RequestOutcome,
    /// The reason of a failure as the daemon's API names it: `not-found`, `busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The reason as a sentence of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// From the request to the first byte, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<f64>,
    /// From the request to its end, milliseconds.
    pub elapsed_ms: f64,
    pub bytes: u64,
    /// Datagrams of a stream that were received, and that were lost.
    #[serde(default)]
    pub packets: u64,
    #[serde(default)]
    pub lost: u64,
    /// The part of `packets` that this emulator was too slow to read from the daemon. The network delivered
    /// them; they are missing here nonetheless.
    #[serde(default, alias = "unread")]
    pub dropped_by_reader: u64,
    /// True if requester and provider had no connection over this transport before the request, so that its
    /// latency includes a handshake. Unknown without a provider, for a relayed request, and in records of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_contact: Option<bool>,
    /// `udp`, `tcp` or `quic`, if data began to flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// True if a hub relayed the data.
    #[serde(default)]
    pub relayed: bool,
    /// True if it ended in the drain, after the workload's end.
    #[serde(default)]
    pub drained: bool,
}

impl RequestRecord {
    /// The latency as in the published experiments: to the first byte of a stream, to the end of an object;
    /// milliseconds.
    pub fn latency_ms(&self) -> Option<f64> {
        match self.service.as_str() {
            _ if self.outcome != RequestOutcome::Completed => None,
            "video" | "track" => self.first_byte_ms,
            _ => Some(self.elapsed_ms),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestOutcome {
    /// Found, granted, and completely delivered (a stream: to its end).
    Completed,
    /// The overlay declined, or the transfer broke.
    Failed,
    /// No end within the plan's time-out.
    TimedOut,
    Cut,
}

impl RequestOutcome {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Cut => "cut",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    pub t: f64,
    /// Bytes that hosts have sent into their links since the workload began.
    pub offered_bytes: u64,
    pub delivered_bytes: u64,
    pub active: u32,
    pub completed: u64,
    pub failed: u64,
    /// Lateness of the core's deliveries in this second, 99th percentile, milliseconds.
    pub lateness_p99_ms: f64,
    /// The fraction of all processors in use in this second, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    pub t: f64,
    /// The busiest first; not those that are hardly used.
    pub links: Vec<LinkLoad>,
}

/// The use of one direction of a link, as [`LinkRecord`] names it, since the load before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkLoad {
    pub link: String,
    pub host: String,
    pub direction: String,
    /// The part of the rate that was used, 0 to 1.
    pub used: f64,
    /// Bytes inside at its end: in the queue, and on their way.
    pub inside_bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// The mean rate since the load before, bits per second, if a trace gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub t: f64,
    /// The daemon: named as its host; a hub on a node's host has `-hub` appended.
    pub node: String,
    pub class: String,
    /// `node`, `supernode`, `server` or `cache`.
    pub role: String,
    /// Bytes of messages sent since its start, by class of traffic: `join`, `renew`, `lookup`, `mesh`,
    /// `summary`, `gossip`, `payload`; before sealing and framing.
    pub traffic_sent_bytes: BTreeMap<String, u64>,
    /// Bytes its sockets sent since its start.
    pub sent_bytes: u64,
    /// Bytes its sockets received since its start.
    pub received_bytes: u64,
    /// Processor time that it has used, seconds.
    pub cpu_s: f64,
    /// Time for which it was ready to run and waited for a processor, seconds.
    pub waited_s: f64,
    /// Peak memory in use, bytes.
    pub memory_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub link: String,
    /// The host at the direction's end.
    pub host: String,
    /// `to-net` or `from-net`; on a link of two hosts the packets that `host` sends are under `to-net`, and
    /// `from-net` is empty.
    pub direction: String,
    /// Packets, and bytes with the frame's header, that arrived here.
    pub packets_in: u64,
    pub bytes_in: u64,
    /// Left at the other end.
    pub packets_out: u64,
    pub bytes_out: u64,
    /// The part of `bytes_in` with a multicast or broadcast address.
    pub multicast_bytes_in: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped by random or burst loss.
    pub dropped_loss: u64,
    /// Vanished because the link was down.
    pub dropped_down: u64,
    /// Still inside when it was counted.
    pub in_flight: u64,
    #[serde(default)]
    pub in_flight_bytes: u64,
    /// The rate at the time of counting, bits per second; 0 means unlimited.
    #[serde(default)]
    pub rate_bps: u64,
    /// The bytes that a trace of its rate would have let through; without such a trace there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// True if it was down at the time of counting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_down: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecord {
    pub t: f64,
    pub program: String,
    pub host: String,
    /// The command for `sh`.
    pub command: String,
    pub elapsed_s: f64,
    /// The exit code, or 128 plus the number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    pub end: ProgramEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// True if the topology or the plan expects this end.
    pub as_expected: bool,
    /// Processor time of its process group, seconds, as last seen; unknown if it ended before anybody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// The most memory of its process group that was seen at once, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// The way in which a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// Exited by itself, or by a foreign signal.
    Exited,
    /// Stopped, since its time was up.
    TimedOut,
    Stopped,
    Cut,
    NotStarted,
}

impl ProgramEnd {
    /// In two words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped",
            Self::Cut => "cut",
            Self::NotStarted => "not started",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficRecord {
    pub agent: String,
    pub host: String,
    /// `source` or `sink`.
    pub role: String,
    /// `udp` or `tcp`.
    pub protocol: String,
    /// Packets sent or received; for a TCP sink the number of reads.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Packets that a source skipped because it was behind its rate: over UDP this machine was too slow, over
    /// TCP it may have been the network.
    #[serde(default)]
    pub skipped: u64,
    /// Packets that the system refused to send.
    #[serde(default)]
    pub failed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
