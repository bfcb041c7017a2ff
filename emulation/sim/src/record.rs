//! Records of a simulated run, the same as of one in emulation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use roost_experiment::{Prepared, RunError, since};
use roost_results::metrics::Distribution;
use roost_results::record::{
    LinkRecord, NodeRecord, Record, RequestOutcome, RequestRecord, RoomStreamRecord, RunRecord, RunVerdict, SCHEMA,
    SIMULATION, SampleRecord,
};
use roost_results::{EVENTS_FILE, LoadMeter, PLAN_FILE, RUN_FILE, Results, TOPOLOGY_FILE};
use roost_topology::Topology;
use roost_topology::model::NetKind;
use serde::Serialize;

use super::part::{RunNote, RunPart};
use super::world::MachineRole;
use super::{Detail, SimulateError, Violation};

/// The outcome of the requests for one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceCounts {
    pub requested: u64,
    pub completed: u64,
    /// Requests that failed or timed out, as interfaces have always counted them.
    pub failed: u64,
    /// Requests that timed out, which `failed` counts as well.
    pub timed_out: u64,
    /// Cut off by the end of the run.
    pub cut: u64,
    /// Median latency, milliseconds: to the first byte of a stream, to the end of an object.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the same.
    pub p99_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimProgress {
    Joining {
        joined: usize,
        of: usize,
    },
    /// The workload, up to the duration; the drain follows.
    Running {
        now: Duration,
        of: Duration,
    },
}

pub type ProgressListener = Box<dyn FnMut(SimProgress)>;

enum Sink {
    Nowhere,
    File(BufWriter<File>),
    Memory(Vec<Record>),
}

/// Counts, and writes to `events.jsonl` if that is wanted.
pub(super) struct Recorder {
    sink: Sink,
    tell: Option<ProgressListener>,
    failure: Option<io::Error>,
    services: BTreeMap<String, (ServiceCounts, Vec<f64>)>,
    room_streams: Vec<RoomStreamRecord>,
    lans: BTreeSet<String>,
    before: Vec<LinkRecord>,
    load: LoadMeter,
    completed: u64,
    failed: u64,
}

impl Recorder {
    pub(super) fn new(topology: &Topology) -> Self {
        let lans = topology.nets.iter().filter(|net| net.kind == NetKind::Lan).map(|net| net.name.clone());
        Self {
            sink: Sink::Nowhere,
            tell: None,
            failure: None,
            services: BTreeMap::new(),
            room_streams: Vec::new(),
            lans: lans.collect(),
            before: Vec::new(),
            load: LoadMeter::default(),
            completed: 0,
            failed: 0,
        }
    }

    pub(super) fn create(topology: &Topology, path: &Path) -> io::Result<Self> {
        Ok(Self { sink: Sink::File(BufWriter::new(File::create(path)?)), ..Self::new(topology) })
    }

    pub(super) fn keeping(topology: &Topology) -> Self {
        Self { sink: Sink::Memory(Vec::new()), ..Self::new(topology) }
    }

    pub(super) fn into_records(self) -> Vec<Record> {
        if let Sink::Memory(records) = self.sink { records } else { Vec::new() }
    }

    pub(super) fn telling(self, tell: Option<ProgressListener>) -> Self {
        Self { tell, ..self }
    }

    pub(super) fn report_progress(&mut self, progress: SimProgress) {
        if let Some(tell) = &mut self.tell {
            tell(progress);
        }
    }

    /// Records what a part has noted at `at`.
    pub(super) fn record(&mut self, at: Duration, note: RunNote) {
        match note {
            RunNote::Request(request) => self.request(request),
            RunNote::RoomStream(stream) => self.room_stream(stream),
            RunNote::Position(position) => self.write(Record::Position(position)),
            RunNote::Incident { object, what } => self.incident(at, &object, what),
        }
    }

    pub(super) fn motion(&mut self, record: Record) {
        self.write(record);
    }

    /// Ends the file; returns the first error, if there was one.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.failure.map_or(Ok(()), Err)?;
        match &mut self.sink {
            Sink::File(file) => file.flush(),
            Sink::Nowhere | Sink::Memory(_) => Ok(()),
        }
    }

    fn write(&mut self, record: Record) {
        let file = match &mut self.sink {
            Sink::Nowhere => return,
            Sink::Memory(records) => return records.push(record),
            Sink::File(file) => file,
        };
        let written =
            serde_json::to_writer(&mut *file, &record).map_err(io::Error::from).and_then(|()| file.write_all(b"\n"));
        if let (Err(error), None) = (written, &self.failure) {
            self.failure = Some(error);
        }
    }

    pub(super) fn begin(&mut self, parts: &mut [RunPart<'_>]) {
        self.nodes(parts, 0.0);
        self.before = counters(parts);
    }

    fn request(&mut self, request: RequestRecord) {
        let (service, latencies) = self.services.entry(request.service.clone()).or_default();
        service.requested += 1;
        let counter = match request.outcome {
            RequestOutcome::Completed => &mut service.completed,
            RequestOutcome::Failed | RequestOutcome::TimedOut => &mut service.failed,
            RequestOutcome::Cut => &mut service.cut,
        };
        *counter += 1;
        service.timed_out += u64::from(request.outcome == RequestOutcome::TimedOut);
        latencies.extend(request.latency_ms());
        self.completed += u64::from(request.outcome == RequestOutcome::Completed);
        self.failed += u64::from(matches!(request.outcome, RequestOutcome::Failed | RequestOutcome::TimedOut));
        self.write(Record::Request(request));
    }

    fn room_stream(&mut self, stream: RoomStreamRecord) {
        self.room_streams.push(stream.clone());
        self.write(Record::RoomStream(stream));
    }

    pub(super) fn room_streams(&self) -> &[RoomStreamRecord] {
        &self.room_streams
    }

    pub(super) fn incident(&mut self, at: Duration, object: &str, what: String) {
        self.write(Record::Incident { t: at.as_secs_f64(), object: object.to_owned(), what });
    }

    pub(super) fn sample(&mut self, parts: &mut [RunPart<'_>], t: Duration, active: u32) {
        if matches!(self.sink, Sink::Nowhere) {
            return;
        }
        let links = self.links(parts);
        let to_net = || links.iter().filter(|link| link.direction == "to-net");
        let crossed = to_net().filter(|link| !self.lans.contains(&link.link));
        let out = links.iter().filter(|link| link.direction == "from-net" && self.lans.contains(&link.link));
        let sample = SampleRecord {
            t: t.as_secs_f64(),
            offered_bytes: to_net().map(|link| link.bytes_in).sum(),
            // A link records its traffic under `to-net`; a LAN records deliveries under `from-net`.
            delivered_bytes: crossed.chain(out).map(|link| link.bytes_out).sum(),
            active,
            completed: self.completed,
            failed: self.failed,
            lateness_p99_ms: 0.0,
            cpu_busy: None,
        };
        self.write(Record::Sample(sample));
        let load = self.load.measure(t.as_secs_f64(), links);
        load.into_iter().for_each(|load| self.write(Record::Load(load)));
    }

    pub(super) fn end(&mut self, parts: &mut [RunPart<'_>], ran: Duration) {
        self.nodes(parts, ran.as_secs_f64());
        for link in self.links(parts) {
            self.write(Record::Link(link));
        }
    }

    fn links(&self, parts: &mut [RunPart<'_>]) -> Vec<LinkRecord> {
        counters(parts).into_iter().zip(&self.before).map(|(now, before)| since(now, before)).collect()
    }

    fn nodes(&mut self, parts: &[RunPart<'_>], t: f64) {
        if matches!(self.sink, Sink::Nowhere) {
            return;
        }
        for (machine, cast) in parts[0].world.participants().iter().enumerate() {
            let Some(RunPart { world, .. }) = parts.iter().find(|part| part.world.has(machine)) else { continue };
            let [sent_bytes, received_bytes] = world.connections.counted(machine);
            let sent = world.sent[machine].iter().map(|(traffic, bytes)| (traffic.name().to_owned(), *bytes));
            let role = match cast.part {
                MachineRole::Node(_) => "node",
                MachineRole::Hub(place) => world.architecture().hub_title(place),
            };
            self.write(Record::Node(NodeRecord {
                t,
                node: cast.name.clone(),
                class: cast.class.clone(),
                role: role.to_owned(),
                traffic_sent_bytes: sent.collect(),
                sent_bytes,
                received_bytes,
                ..NodeRecord::default()
            }));
        }
    }

    /// The outcome of the requests for each service.
    pub(super) fn by_service(&self) -> BTreeMap<String, ServiceCounts> {
        let summed = self.services.iter().map(|(name, (service, latencies))| {
            let latency = Distribution::from_values(latencies.clone());
            let service =
                ServiceCounts { p50_ms: latency.p50, p95_ms: latency.p95, p99_ms: latency.p99, ..service.clone() };
            (name.clone(), service)
        });
        summed.collect()
    }
}

/// The counters of all directions. Only one part has packets in each.
fn counters(parts: &mut [RunPart<'_>]) -> Vec<LinkRecord> {
    let of_parts = parts.iter_mut().map(|part| part.world.connections.wire().counters());
    let busier = |a: LinkRecord, b: LinkRecord| if b.packets_in > a.packets_in { b } else { a };
    let joined = of_parts.reduce(|some, more| some.into_iter().zip(more).map(|(a, b)| busier(a, b)).collect());
    joined.unwrap_or_default()
}

/// Simulates a plan and writes the results of an emulated run to `folder`.
pub(super) fn simulate_to_folder(
    prepared: &Prepared,
    detail: Detail,
    folder: &Path,
    varied: &BTreeMap<String, String>,
    tell: Option<ProgressListener>,
) -> Result<super::SimOutcome, SimulateError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SimulateError::File { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    if fs::read_dir(folder).map_err(failed(folder))?.next().is_some() {
        let message = format!("{} is not empty: name another folder", folder.display());
        return Err(SimulateError::Run(RunError::Failed(message)));
    }
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(failed(&path))
    };
    put(PLAN_FILE, &prepared.effective())?;
    prepared.keep_replay(folder).map_err(failed(folder))?;
    put(TOPOLOGY_FILE, &roost_topology::file::write(&prepared.network, ""))?;
    roost_topology::trace::keep(&prepared.network, folder).map_err(failed(folder))?;
    let events = folder.join(EVENTS_FILE);
    let mut recorder = Recorder::create(&prepared.topology, &events).map_err(failed(&events))?.telling(tell);
    let outcome = super::run::run(prepared, detail, &mut recorder)?;
    recorder.finish().map_err(failed(&events))?;
    let facts = RunRecord { varied: varied.clone(), ..facts(prepared, detail, &outcome) };
    let facts = serde_json::to_string_pretty(&facts).map_err(io::Error::from);
    put(RUN_FILE, &facts.map_err(failed(&folder.join(RUN_FILE)))?)?;
    Ok(outcome)
}

/// Simulates a plan and keeps the results of an emulated run.
pub(super) fn simulate_to_memory(
    prepared: &Prepared,
    detail: Detail,
) -> Result<(super::SimOutcome, Results), SimulateError> {
    let mut recorder = Recorder::keeping(&prepared.topology);
    let outcome = super::run::run(prepared, detail, &mut recorder)?;
    let mut results = Results::new(Path::new(""), facts(prepared, detail, &outcome), Some(prepared.effective()));
    recorder.into_records().into_iter().for_each(|record| results.add_record(record));
    Ok((outcome, results))
}

/// `run.json` of a simulated run, which has no machine and no lateness.
fn facts(prepared: &Prepared, detail: Detail, outcome: &super::SimOutcome) -> RunRecord {
    let Prepared { plan, placement, network, .. } = prepared;
    let text = |name: &str, value: String| (name.to_owned(), value);
    let carried = [
        text("backend", SIMULATION.to_owned()),
        text("detail", detail.name().to_owned()),
        text("trace_hash", format!("{:016x}", outcome.trace_hash)),
        text("wall_s", format!("{:.3}", outcome.wall_s)),
        text("steps", outcome.steps.to_string()),
    ];
    RunRecord {
        schema: SCHEMA,
        name: plan.name.clone(),
        architecture: plan.architecture.name().to_owned(),
        transport: plan.transport.name().to_owned(),
        topology: network.name.clone(),
        nodes: u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX),
        hubs: placement.hubs.iter().map(|hub| network.hosts[hub.host].name.clone()).collect(),
        seed: plan.seed,
        duration_s: plan.duration.as_secs_f64(),
        warm_up_s: plan.warm_up.as_secs_f64(),
        ran_s: outcome.virtual_s - outcome.drain_s,
        drain_s: outcome.drain_s,
        started_unix_s: 0,
        interrupted: false,
        versions: BTreeMap::from([text("emulate", env!("CARGO_PKG_VERSION").to_owned())]),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        binaries: BTreeMap::new(),
        machine: BTreeMap::new(),
        traces: roost_topology::trace::digests(network),
        varied: BTreeMap::new(),
        lab: BTreeMap::from(carried),
        verdict: verdict(outcome),
    }
}

/// The verdict on the run's validity, with reasons.
fn verdict(outcome: &super::SimOutcome) -> RunVerdict {
    let mut reasons: Vec<String> = outcome.violations.iter().map(Violation::sentence).collect();
    reasons.extend(outcome.overflow());
    RunVerdict { valid: reasons.is_empty(), reasons, overruns: outcome.overflows, ..RunVerdict::default() }
}
