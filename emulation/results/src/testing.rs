//! Synthetic results for tests: a run small enough to count by hand, and runs of any size from a seed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use roost_wire::random::SplitMix64;

use super::read::{EVENTS_FILE, PLAN_FILE, RUN_FILE, Results};
use super::record::{
    LinkRecord, NodeRecord, ProgramEnd, ProgramRecord, Record, RequestOutcome, RequestRecord, RunRecord, RunVerdict,
    SCHEMA, SampleRecord,
};

pub struct SyntheticShape {
    pub nodes: u32,
    pub requests: usize,
    pub seconds: u32,
    /// The factor of its latencies over those of the plain run.
    pub slower: f64,
    pub architecture: &'static str,
    pub topology: &'static str,
    pub seed: u64,
    pub valid: bool,
}

impl Default for SyntheticShape {
    fn default() -> Self {
        Self {
            nodes: 10,
            requests: 300,
            seconds: 60,
            slower: 1.0,
            architecture: "super-node",
            topology: "star-11",
            seed: 1,
            valid: true,
        }
    }
}

/// A run that can be written to a folder.
pub struct Synthetic {
    pub results: Results,
}

/// A run of 20 requests.
pub fn small() -> Synthetic {
    SyntheticShape { requests: 20, ..SyntheticShape::default() }.make()
}

impl Synthetic {
    /// Writes the folder as `emulate run` does.
    pub fn write(&self, folder: &Path) {
        let results = &self.results;
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(RUN_FILE), serde_json::to_string_pretty(&results.run).unwrap()).unwrap();
        if let Some(plan) = &results.plan {
            fs::write(folder.join(PLAN_FILE), plan).unwrap();
        }
        let spans = results.nodes.values();
        let incidents = results.incidents.iter().map(|incident| Record::Incident {
            t: incident.t,
            object: incident.object.clone(),
            what: incident.what.clone(),
        });
        let records = (spans.clone().map(|span| Record::Node(span.first.clone())))
            .chain(results.requests.iter().cloned().map(Record::Request))
            .chain(incidents)
            .chain(results.samples.iter().cloned().map(Record::Sample))
            .chain(spans.map(|span| Record::Node(span.last.clone())))
            .chain(results.links.iter().cloned().map(Record::Link))
            .chain(results.room_streams.iter().cloned().map(Record::RoomStream))
            .chain(results.measurements.iter().cloned().map(Record::Measurement));
        let lines: String = records.map(|record| serde_json::to_string(&record).unwrap() + "\n").collect();
        fs::write(folder.join(EVENTS_FILE), lines).unwrap();
    }
}

impl SyntheticShape {
    pub fn make(&self) -> Synthetic {
        let mut random = SplitMix64::new(self.seed);
        let mut results = Results::new(Path::new("results/made-up"), self.run(), Some(self.plan()));
        results.requests = (0..self.requests).map(|_| self.request(&mut random)).collect();
        for request in results.requests.iter_mut().filter(|request| request.provider.is_some()) {
            request.first_contact = Some(request.t < f64::from(self.seconds) / 4.0);
        }
        results.requests.sort_by(|a, b| (a.t + a.elapsed_ms / 1e3).total_cmp(&(b.t + b.elapsed_ms / 1e3)));
        results.samples = self.samples(&results.requests, &mut random);
        self.daemons(&mut results, &mut random);
        self.links(&mut results, &mut random);
        results.add_record(Record::Incident {
            t: 30.0,
            object: "hub".into(),
            what: "its link went down for 2 s".into(),
        });
        Synthetic { results }
    }

    fn plan(&self) -> String {
        format!(
            "name = \"{0} on {1}\"\ntopology = \"{1}.toml\"\narchitecture = \"{0}\"\nduration = \"{2}s\"\n\
             seed = {3}\n\n[workload]\nidle = \"1s\"\ntimeout = \"30s\"\n",
            self.architecture, self.topology, self.seconds, self.seed
        )
    }

    fn run(&self) -> RunRecord {
        let facts = |facts: &[(&str, &str)]| facts.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        RunRecord {
            schema: SCHEMA,
            name: format!("{} on {}", self.architecture, self.topology),
            architecture: self.architecture.into(),
            transport: "paper".into(),
            topology: self.topology.into(),
            nodes: self.nodes,
            hubs: vec!["hub".into()],
            seed: self.seed,
            duration_s: f64::from(self.seconds),
            warm_up_s: 0.0,
            ran_s: f64::from(self.seconds),
            drain_s: 9.4,
            started_unix_s: 1_790_000_000,
            interrupted: false,
            versions: facts(&[("emulate", "0.1.0"), ("overlay-node", "0.1.0"), ("supernode", "0.1.0")]),
            build: "release".into(),
            binaries: BTreeMap::new(),
            machine: facts(&[("kernel", "Linux 6.18.5"), ("processors", "2"), ("memory", "24 GiB")]),
            traces: BTreeMap::new(),
            varied: BTreeMap::new(),
            lab: facts(&[("backend", "tap"), ("realtime", "no"), ("frame_overhead", "14")]),
            verdict: self.verdict(),
        }
    }

    fn verdict(&self) -> RunVerdict {
        let reasons: &[&str] =
            if self.valid { &[] } else { &["Packets were 4.1 ms late at the 99th percentile; 1 ms is allowed."] };
        RunVerdict {
            valid: self.valid,
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            not_measured: Vec::new(),
            lateness_us: vec![(10, 4_000), (20, 21_000), (50, 30_000), (100, 6_000), (200, 700), (500, 40), (1000, 3)],
            lateness_p50_us: 24.0,
            lateness_p99_us: 130.0,
            lateness_p999_us: 310.0,
            lateness_max_us: 840.0,
            late_seconds: Some(0.0),
            read_wait_p99_us: Some(90.0),
            overruns: 0,
            dropped_by_reader: 0,
            start_gap_ms: Some(0.2),
            daemons_before_ms: Some(31.0),
            schedule_late_ms: None,
            cpu_busy: Some(0.46),
            most_starved: Some(("n4".into(), 0.011)),
            linktest: vec!["lan0: delay, rate and loss as described".into()],
        }
    }

    fn host(&self, random: &mut SplitMix64) -> String {
        format!("n{}", 1 + random.below(u64::from(self.nodes.max(1))))
    }

    fn request(&self, random: &mut SplitMix64) -> RequestRecord {
        let service = ["video", "track", "track", "track", "image", "sensor", "sensor"][random.below(7) as usize];
        let (median, bytes, stream) = match service {
            "video" => (420.0, 910_000, true),
            "track" => (380.0, 51_000, true),
            "image" => (900.0, 100_000, false),
            _ => (510.0, 10_000, false),
        };
        // The sum of four draws makes a bell curve; the exponential gives it a tail to the right.
        let spread: f64 = (0..4).map(|_| unit(random) - 0.5).sum();
        let latency = rounded(median * self.slower * (0.6 * spread).exp());
        let (outcome, error) = match random.below(100) {
            0..=2 => (RequestOutcome::Failed, Some("not-found")),
            3 => (RequestOutcome::Failed, Some("busy")),
            4..=5 => (RequestOutcome::TimedOut, None),
            6 => (RequestOutcome::Cut, None),
            _ => (RequestOutcome::Completed, None),
        };
        let done = outcome == RequestOutcome::Completed;
        let node = self.host(random);
        RequestRecord {
            t: rounded(unit(random) * f64::from(self.seconds)),
            class: if node.ends_with('3') { "tactical".into() } else { "low".into() },
            node,
            service: service.into(),
            target: self.host(random),
            provider: done.then(|| self.host(random)),
            outcome,
            error: error.map(Into::into),
            detail: None,
            first_byte_ms: done.then_some(if stream { latency } else { rounded(latency * 0.6) }),
            elapsed_ms: if stream && done { rounded(latency + 10_000.0) } else { latency },
            bytes: if done { bytes } else { 0 },
            packets: if stream && done { bytes / 1128 } else { 0 },
            lost: if stream && done { random.below(3) } else { 0 },
            dropped_by_reader: 0,
            first_contact: None,
            transport: Some(if stream { "udp".into() } else { "tcp".into() }),
            relayed: self.architecture == "client-server",
            drained: false,
        }
    }

    fn samples(&self, requests: &[RequestRecord], random: &mut SplitMix64) -> Vec<SampleRecord> {
        let hops = if self.architecture == "client-server" { 2.0 } else { 1.0 };
        let at = |t: f64, random: &mut SplitMix64| {
            let ended = |request: &&RequestRecord| request.t + request.elapsed_ms / 1e3 <= t;
            let part = |request: &RequestRecord| {
                request.bytes as f64 * ((t - request.t) * 1e3 / request.elapsed_ms).clamp(0.0, 1.0)
            };
            let offered = hops * requests.iter().map(part).sum::<f64>() * 1.08 + t * 20_000.0;
            let completed =
                requests.iter().filter(ended).filter(|r| r.outcome == RequestOutcome::Completed).count() as u64;
            SampleRecord {
                t,
                offered_bytes: offered as u64,
                delivered_bytes: (offered * 0.99) as u64,
                active: requests.iter().filter(|r| r.t <= t).filter(|r| !ended(r)).count() as u32,
                completed,
                failed: requests.iter().filter(ended).count() as u64 - completed,
                lateness_p99_ms: rounded(0.08 + 0.1 * unit(random).powi(4)),
                cpu_busy: Some(0.46),
            }
        };
        (1..=self.seconds).map(|second| at(f64::from(second), random)).collect()
    }

    fn daemons(&self, results: &mut Results, random: &mut SplitMix64) {
        let payload: u64 = results.requests.iter().map(|request| request.bytes).sum();
        let hosts = (1..=self.nodes).map(|n| format!("n{n}")).chain(["hub".to_owned()]);
        for host in hosts {
            let is_hub = host == "hub";
            let share = if is_hub { payload / 50 } else { payload / u64::from(self.nodes) };
            let first = NodeRecord {
                class: if is_hub { String::new() } else { "low".into() },
                role: if is_hub { "supernode".into() } else { "node".into() },
                node: host,
                sent_bytes: 9_000,
                ..NodeRecord::default()
            };
            let classes =
                [("join", 700), ("renew", 9_000), ("lookup", 31_000 + random.below(9_000)), ("payload", share)];
            let last = NodeRecord {
                t: f64::from(self.seconds),
                traffic_sent_bytes: classes.map(|(class, bytes)| (class.to_owned(), bytes)).into(),
                sent_bytes: first.sent_bytes + share + share / 20,
                received_bytes: share,
                cpu_s: rounded(f64::from(self.seconds) * if is_hub { 0.11 } else { 0.02 + 0.01 * unit(random) }),
                waited_s: 0.2,
                memory_bytes: 14 << 20,
                ..first.clone()
            };
            results.add_record(Record::Node(first));
            results.add_record(Record::Node(last));
        }
    }

    fn links(&self, results: &mut Results, random: &mut SplitMix64) {
        let offered = results.samples.last().map_or(0, |sample| sample.offered_bytes);
        let each = offered / u64::from(self.nodes + 1);
        for host in results.nodes.keys().cloned().collect::<Vec<_>>() {
            let bytes = each - each / 4 + random.below(each / 2 + 1);
            for direction in ["to-net", "from-net"] {
                results.add_record(Record::Link(LinkRecord {
                    link: "lan0".into(),
                    host: host.clone(),
                    direction: direction.into(),
                    packets_in: bytes / 1000,
                    bytes_in: bytes,
                    packets_out: bytes / 1000,
                    bytes_out: bytes,
                    dropped_queue: if host == "n2" { 14 } else { 0 },
                    rate_bps: 100_000_000,
                    ..LinkRecord::default()
                }));
            }
        }
    }
}

/// Rounds to thousandths, which survive writing and reading.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn unit(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Three hosts, six requests, a LAN and a link: all sums can be computed by hand.
pub fn by_hand() -> Results {
    let mut run = SyntheticShape { seconds: 10, nodes: 2, ..SyntheticShape::default() }.run();
    run.drain_s = 2.0;
    let mut results = Results::new(Path::new("by-hand"), run, None);
    hand_requests(&mut results);
    hand_daemons(&mut results);
    hand_links(&mut results);
    results
}

fn hand_requests(results: &mut Results) {
    let request = |node: &str, service: &str, outcome, bytes| RequestRecord {
        t: 1.0,
        node: node.into(),
        class: if node == "a" { "low".into() } else { "tactical".into() },
        service: service.into(),
        target: "b".into(),
        provider: None,
        outcome,
        error: None,
        detail: None,
        first_byte_ms: None,
        elapsed_ms: 500.0,
        bytes,
        packets: 0,
        lost: 0,
        dropped_by_reader: 0,
        first_contact: None,
        transport: None,
        relayed: false,
        drained: false,
    };
    let by = |provider: &str, first_byte_ms, rest| RequestRecord {
        provider: Some(provider.into()),
        first_byte_ms: Some(first_byte_ms),
        ..rest
    };
    let completed = RequestOutcome::Completed;
    results.requests = vec![
        by("b", 100.0, request("a", "video", completed, 2000)),
        RequestRecord { relayed: true, drained: true, ..by("a", 300.0, request("b", "video", completed, 1500)) },
        by("b", 80.0, request("a", "image", completed, 500)),
        RequestRecord { error: Some("not-found".into()), ..request("a", "sensor", RequestOutcome::Failed, 0) },
        request("b", "weather", RequestOutcome::TimedOut, 100),
        request("a", "image", RequestOutcome::Cut, 0),
    ];
}

fn hand_daemons(results: &mut Results) {
    let mut daemon = |node: &str, role: &str, t, sent_bytes, cpu_s, classes: &[(&str, u64)]| {
        results.add_record(Record::Node(NodeRecord {
            t,
            node: node.into(),
            role: role.into(),
            sent_bytes,
            cpu_s,
            traffic_sent_bytes: classes.iter().map(|(class, bytes)| ((*class).to_owned(), *bytes)).collect(),
            ..NodeRecord::default()
        }));
    };
    daemon("a", "node", 0.0, 100, 0.0, &[("payload", 500)]);
    daemon("a", "node", 12.0, 3000, 1.0, &[("payload", 3000), ("lookup", 200)]);
    daemon("b", "node", 0.0, 900, 0.0, &[("payload", 5000)]);
    daemon("b", "node", 12.0, 250, 1.0, &[]);
    daemon("hub", "supernode", 0.0, 400, 1.0, &[("renew", 10)]);
    daemon("hub", "supernode", 12.0, 1000, 4.0, &[("renew", 40), ("payload", 2000)]);
}

fn hand_links(results: &mut Results) {
    let mut link = |link: &str, host: &str, direction: &str, bytes_in, bytes_out| {
        results.links.push(LinkRecord {
            link: link.into(),
            host: host.into(),
            direction: direction.into(),
            bytes_in,
            bytes_out,
            ..LinkRecord::default()
        });
    };
    link("lan", "a", "to-net", 1000, 1000);
    link("lan", "b", "to-net", 3000, 3000);
    link("lan", "a", "from-net", 2900, 2900);
    link("lan", "b", "from-net", 900, 800);
    link("lan", "hub", "from-net", 300, 200);
    link("up", "hub", "to-net", 5000, 4800);
    results.links[0].multicast_bytes_in = 100;
    results.links[3].dropped_queue = 1;
    results.links[4].dropped_loss = 2;
    results.links[5].rate_bps = 6400;
}

/// A program that ran on this host until the run ended.
pub fn program(host: &str) -> ProgramRecord {
    ProgramRecord {
        t: 1.0,
        program: "probe".to_owned(),
        host: host.to_owned(),
        command: "probe".to_owned(),
        elapsed_s: 1.0,
        code: Some(0),
        end: ProgramEnd::Exited,
        error: None,
        as_expected: true,
        cpu_s: None,
        memory_bytes: None,
    }
}
