//! The raw events of a run, one JSON object a line in `events.jsonl`, and the
//! facts around them in `run.json`.
//!
//! Figures and tables are made from these alone, so that they can be made
//! again, and differently, long after the run. Times are seconds since all
//! nodes were ready, bytes are bytes. Fields are only ever added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the records.
pub const SCHEMA: u32 = 1;

/// One line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record {
    /// A request has ended.
    Request(RequestRecord),
    /// Something scheduled or broken happened: a link went down, a process died.
    Incident {
        /// When.
        t: f64,
        /// Which host, link or program.
        object: String,
        /// One sentence.
        what: String,
    },
    /// Once a second, how the run is going.
    Sample(SampleRecord),
    /// What a daemon counted, when the workload began and at the end.
    Node(NodeRecord),
    /// What one direction of one link carried between the beginning of the workload and its end.
    Link(LinkRecord),
    /// A program of the topology has ended.
    Program(ProgramRecord),
    /// What a traffic agent of the topology has sent or received.
    Traffic(TrafficRecord),
    /// A node stands in a cell: each node of a plan with movement when the workload begins, and whoever moves.
    Position(PositionRecord),
}

/// See [`Record::Position`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionRecord {
    /// Since when.
    pub t: f64,
    /// The host.
    pub node: String,
    /// Its cell.
    pub x: i32,
    /// See `x`.
    pub y: i32,
}

/// One request of the workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// When it was made.
    pub t: f64,
    /// The host that asked.
    pub node: String,
    /// Its class.
    pub class: String,
    /// `video`, `track`, `image` or `sensor`.
    pub service: String,
    /// The host whose cell was asked for.
    pub target: String,
    /// The host that provided, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How it ended.
    pub outcome: RequestOutcome,
    /// Why it failed, as the daemon's API names it: `not-found`, `busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The same in the daemon's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// From the request to the first byte, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<f64>,
    /// From the request to its end, milliseconds.
    pub elapsed_ms: f64,
    /// Payload bytes that came.
    pub bytes: u64,
    /// Datagrams of a stream that came, and that did not.
    #[serde(default)]
    pub packets: u64,
    /// See `packets`.
    #[serde(default)]
    pub lost: u64,
    /// Of `packets` those that this emulator was too slow to take from the
    /// daemon: the network delivered them, and they are missing here all the same.
    #[serde(default, alias = "unread")]
    pub dropped_by_reader: u64,
    /// Whether requester and provider had no association over this transport
    /// when it was made, so that a handshake is in its latency. Unknown where
    /// nobody provided, where a hub relayed, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_contact: Option<bool>,
    /// `udp`, `tcp` or `quic`, if it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Whether the data came through the hub.
    #[serde(default)]
    pub relayed: bool,
    /// Whether it ended in the drain, after the workload's time was up.
    #[serde(default)]
    pub drained: bool,
}

impl RequestRecord {
    /// The latency that the published experiments report: to the first byte
    /// of a stream, to the end of an object; milliseconds.
    pub fn latency_ms(&self) -> Option<f64> {
        match self.service.as_str() {
            _ if self.outcome != RequestOutcome::Completed => None,
            "video" | "track" => self.first_byte_ms,
            _ => Some(self.elapsed_ms),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestOutcome {
    /// Found, granted, and all of it delivered (of a stream: to its end).
    Completed,
    /// The overlay said no, or it broke.
    Failed,
    /// No end within the plan's time-out.
    TimedOut,
    /// The run ended first.
    Cut,
}

impl RequestOutcome {
    /// Its name in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Cut => "cut",
        }
    }
}

/// See [`Record::Sample`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// When.
    pub t: f64,
    /// Bytes that hosts have handed to their links since the workload began.
    pub offered_bytes: u64,
    /// Bytes delivered to hosts.
    pub delivered_bytes: u64,
    /// Requests under way.
    pub active: u32,
    /// Requests completed so far.
    pub completed: u64,
    /// Requests that ended otherwise.
    pub failed: u64,
    /// How late the core delivered in this second, 99th percentile, milliseconds.
    pub lateness_p99_ms: f64,
    /// The part of all processors that was in use in this second, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy: Option<f64>,
}

/// See [`Record::Node`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// When.
    pub t: f64,
    /// The daemon: named as its host, or for a hub beside a node as its host
    /// with `-hub` behind it.
    pub node: String,
    /// Its class.
    pub class: String,
    /// `node`, `supernode`, `server` or `cache`.
    pub role: String,
    /// Bytes of messages sent since its start by class of traffic: `join`,
    /// `renew`, `lookup`, `mesh`, `summary`, `gossip`, `payload`; before sealing
    /// and framing.
    pub traffic_sent_bytes: BTreeMap<String, u64>,
    /// Bytes its sockets sent since its start.
    pub sent_bytes: u64,
    /// Bytes its sockets received since its start.
    pub received_bytes: u64,
    /// Processor time that it has used, seconds.
    pub cpu_s: f64,
    /// Time that it was ready to run and waited for a processor, seconds.
    pub waited_s: f64,
    /// Its most memory in use, bytes.
    pub memory_bytes: u64,
}

/// See [`Record::Link`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// The link or LAN.
    pub link: String,
    /// The host whose direction it is.
    pub host: String,
    /// `to-net` or `from-net`; on a link of two the packets that `host` sends
    /// are under `to-net` and nothing is under `from-net`.
    pub direction: String,
    /// Packets and bytes (with the frame's header) that arrived here.
    pub packets_in: u64,
    /// See `packets_in`.
    pub bytes_in: u64,
    /// What left at the other end.
    pub packets_out: u64,
    /// See `packets_out`.
    pub bytes_out: u64,
    /// Of `bytes_in` those to a multicast or broadcast address.
    pub multicast_bytes_in: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped by random or burst loss.
    pub dropped_loss: u64,
    /// Vanished because the link was down.
    pub dropped_down: u64,
    /// Still inside when it was counted.
    pub in_flight: u64,
    /// See `in_flight`.
    #[serde(default)]
    pub in_flight_bytes: u64,
    /// The rate it had when it was counted, bits per second; 0 is no limit.
    #[serde(default)]
    pub rate_bps: u64,
    /// Whether it was down when it was counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_down: bool,
}

/// See [`Record::Program`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// When it was started.
    pub t: f64,
    /// Its name.
    pub program: String,
    /// The host.
    pub host: String,
    /// What the shell was given.
    pub command: String,
    /// How long it ran, seconds.
    pub elapsed_s: f64,
    /// Its exit code; 128 and the signal's number if one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// How it came to its end.
    pub end: ProgramEnd,
    /// Why it was not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether that is what the topology says should happen.
    pub as_expected: bool,
}

/// How a program came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// By itself, or by somebody's signal.
    Exited,
    /// Its time was up.
    TimedOut,
    /// The schedule stopped it.
    Stopped,
    /// The run ended first.
    Cut,
    /// It never began.
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

/// See [`Record::Traffic`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficRecord {
    /// Its name.
    pub agent: String,
    /// The host.
    pub host: String,
    /// `source` or `sink`.
    pub role: String,
    /// `udp` or `tcp`.
    pub protocol: String,
    /// Packets sent or received; of a TCP sink, pieces read.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Packets that a source let be because it was behind its rate: over UDP
    /// this machine was too slow, over TCP it may have been the network.
    #[serde(default)]
    pub skipped: u64,
    /// Packets that the system did not take from a source.
    #[serde(default)]
    pub failed: u64,
    /// What went wrong first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `run.json`: what was run, where, and whether its figures can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The version of this object, [`SCHEMA`].
    pub schema: u32,
    /// The plan's name.
    pub name: String,
    /// `client-server`, `super-node`.
    pub architecture: String,
    /// The transport that was asked for: `udp`, `tcp`, `quic`, or `paper` for
    /// UDP streams and TCP objects.
    pub transport: String,
    /// The topology's name.
    pub topology: String,
    /// Hosts that request and provide.
    pub nodes: u32,
    /// The hosts of the super nodes or of the server.
    pub hubs: Vec<String>,
    /// The seed of the workload and of the losses.
    pub seed: u64,
    /// How long the workload was to run, seconds.
    pub duration_s: f64,
    /// How long nodes had asked before, unmeasured, seconds.
    #[serde(default)]
    pub warm_up_s: f64,
    /// How long it did run, seconds; less after Ctrl-C.
    pub ran_s: f64,
    /// How long the drain took, seconds.
    pub drain_s: f64,
    /// Start of the workload, Unix seconds; 0 for a run in virtual time.
    pub started_unix_s: u64,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
    /// The programs' versions, by name.
    pub versions: BTreeMap<String, String>,
    /// How this program was built: `debug` or `release`.
    #[serde(default)]
    pub build: String,
    /// The SHA-256 of each program's file, by name.
    #[serde(default)]
    pub binaries: BTreeMap<String, String>,
    /// This machine: kernel, processors, memory, load before the run.
    pub machine: BTreeMap<String, String>,
    /// What a sweep varied and this run's value of it, as a person would write
    /// it: `server-delay` → `200ms`. Empty for a run by itself.
    #[serde(default)]
    pub varied: BTreeMap<String, String>,
    /// How packets were carried: `tap` or `veth`, real-time priority or not,
    /// bytes of frame overhead counted.
    pub lab: BTreeMap<String, String>,
    /// Whether the emulation kept up.
    pub verdict: RunVerdict,
}

/// The backend of a run in virtual time.
pub const SIMULATION: &str = "simulation";

impl RunRecord {
    /// True if it was computed in virtual time: it has no machine, no date, and was never late.
    pub fn is_simulated(&self) -> bool {
        self.lab.get("backend").is_some_and(|backend| backend == SIMULATION)
    }
}

/// Whether the figures of a run can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// Whether every criterion was met.
    pub valid: bool,
    /// Each criterion that was not met or could not be measured, one sentence each.
    pub reasons: Vec<String>,
    /// Of what nothing is known, and why. A criterion of which nothing is known is
    /// not met, but for links that were not measured.
    #[serde(default)]
    pub not_measured: Vec<String>,
    /// How late packets were delivered, against the model: upper bound of the
    /// bucket in microseconds → packets.
    pub lateness_us: Vec<(u64, u64)>,
    /// Median, 99th, 99.9th percentile and maximum of the same, microseconds.
    pub lateness_p50_us: f64,
    /// See `lateness_p50_us`.
    pub lateness_p99_us: f64,
    /// See `lateness_p50_us`.
    pub lateness_p999_us: f64,
    /// See `lateness_p50_us`.
    pub lateness_max_us: f64,
    /// The part of the seconds, 0 to 1, whose own 99th percentile was beyond the limit.
    #[serde(default)]
    pub late_seconds: Option<f64>,
    /// How long packets stood unread in their hosts at most, before the emulator
    /// took them: 99th percentile of an upper bound, microseconds.
    #[serde(default, alias = "unread_p99_us")]
    pub read_wait_p99_us: Option<f64>,
    /// Packets that the core did not get because it was too slow to take them.
    pub overruns: u64,
    /// Datagrams of streams that came to their daemon and that this emulator was
    /// too slow to take from it.
    #[serde(default)]
    pub dropped_by_reader: u64,
    /// How long after time 0, from which links count, nodes began to ask, milliseconds.
    #[serde(default)]
    pub start_gap_ms: Option<f64>,
    /// How long before time 0 the first daemon was asked what it had counted, milliseconds.
    #[serde(default)]
    pub daemons_before_ms: Option<f64>,
    /// How late the schedule's latest happening was, milliseconds; those of links
    /// are exact, and not among them. None if there was no other.
    #[serde(default)]
    pub schedule_late_ms: Option<f64>,
    /// The part of all processors that was in use in the worst ten seconds, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// The daemon that waited most for a processor in any ten seconds, and for what part of them.
    pub most_starved: Option<(String, f64)>,
    /// What linktest said before the run, link by link; empty if it was left out.
    pub linktest: Vec<String>,
}
