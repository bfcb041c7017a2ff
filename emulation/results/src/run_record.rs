//! The facts of a run in `run.json`, and the verdict on its figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub const SCHEMA: u32 = 1;

/// `run.json`: the facts of a run, and the verdict on its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The version of this object, [`SCHEMA`].
    pub schema: u32,
    pub name: String,
    /// `client-server`, `super-node`.
    pub architecture: String,
    /// The configured transport: `udp`, `tcp`, `quic`, or `paper` for UDP streams and TCP objects.
    pub transport: String,
    pub topology: String,
    pub nodes: u32,
    /// The hosts of the super nodes or of the server.
    pub hubs: Vec<String>,
    /// The seed of the workload and of the losses.
    pub seed: u64,
    /// The planned length of the workload, seconds.
    pub duration_s: f64,
    /// The length of the unmeasured warm-up, seconds.
    #[serde(default)]
    pub warm_up_s: f64,
    /// The real length of the workload, seconds; shorter after Ctrl-C.
    pub ran_s: f64,
    pub drain_s: f64,
    /// Start of the workload, Unix seconds; 0 for a run in virtual time.
    pub started_unix_s: u64,
    pub interrupted: bool,
    pub versions: BTreeMap<String, String>,
    /// The build of this program: `debug` or `release`.
    #[serde(default)]
    pub build: String,
    /// The SHA-256 of each program's file, by name.
    #[serde(default)]
    pub binaries: BTreeMap<String, String>,
    /// This machine: kernel, processors, memory, load before the run.
    pub machine: BTreeMap<String, String>,
    /// The SHA-256 of each trace that links play, by its file in the results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, String>,
    /// The keys that a sweep varied, with this run's values for people: `server-delay` → `200ms`. Empty for a
    /// single run.
    #[serde(default)]
    pub varied: BTreeMap<String, String>,
    /// Facts about the carrying of packets: `tap` or `veth`, real-time priority, bytes of frame overhead that
    /// count.
    pub lab: BTreeMap<String, String>,
    pub verdict: RunVerdict,
}

/// The backend of a run in virtual time.
pub const SIMULATION: &str = "simulation";

impl RunRecord {
    /// True if it was computed in virtual time: it has no machine, no date, and no lateness.
    pub fn is_simulated(&self) -> bool {
        self.lab.get("backend").is_some_and(|backend| backend == SIMULATION)
    }
}

/// The verdict on the figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    pub valid: bool,
    /// Each criterion that was not met or could not be measured, one sentence each.
    pub reasons: Vec<String>,
    /// Missing measurements, with the reasons. A criterion without a measurement is not met, except for links
    /// that were not measured.
    #[serde(default)]
    pub not_measured: Vec<String>,
    /// Lateness of deliveries against the model: upper bound of the bucket in microseconds → packets.
    pub lateness_us: Vec<(u64, u64)>,
    /// Median, 99th, 99.9th percentile and maximum of the lateness, microseconds.
    pub lateness_p50_us: f64,
    pub lateness_p99_us: f64,
    pub lateness_p999_us: f64,
    pub lateness_max_us: f64,
    /// The fraction of the seconds, 0 to 1, whose own 99th percentile was beyond the limit.
    #[serde(default)]
    pub late_seconds: Option<f64>,
    /// The longest wait of packets in their hosts, before the emulator read them: 99th percentile of an upper
    /// bound, microseconds.
    #[serde(default, alias = "unread_p99_us")]
    pub read_wait_p99_us: Option<f64>,
    /// Packets that the core was too slow to read.
    pub overruns: u64,
    /// Datagrams of streams that this emulator was too slow to read from their daemon.
    #[serde(default)]
    pub dropped_by_reader: u64,
    /// Time from time 0, from which links count, to the first requests, milliseconds.
    #[serde(default)]
    pub start_gap_ms: Option<f64>,
    /// Time from the first reading of a daemon's counters to time 0, milliseconds.
    #[serde(default)]
    pub daemons_before_ms: Option<f64>,
    /// Lateness of the schedule's latest action, milliseconds. Changes of links are exact and do not count;
    /// `None` if there were no others.
    #[serde(default)]
    pub schedule_late_ms: Option<f64>,
    /// The fraction of all processors in use in the worst ten seconds, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// The daemon that waited longest for a processor in any ten seconds, and the fraction of them.
    pub most_starved: Option<(String, f64)>,
    /// The result of linktest before the run, link by link; empty if it was left out.
    pub linktest: Vec<String>,
}
