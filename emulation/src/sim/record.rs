//! What a simulated run leaves behind: the same records as one in emulation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::world::{MachineRole, SimWorld};
use super::{Detail, SimulateError, Violation};
use crate::experiment::{Prepared, RunError, since};
use crate::report::metrics::Distribution;
use crate::report::record::{
    LinkRecord, NodeRecord, PositionRecord, Record, RequestOutcome, RequestRecord, RunRecord, RunVerdict, SCHEMA,
    SIMULATION, SampleRecord,
};
use crate::report::{EVENTS_FILE, PLAN_FILE, RUN_FILE, Results, TOPOLOGY_FILE};
use crate::topology::model::NetKind;
use crate::topology::{self, Topology};

/// How the requests for one service ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceCounts {
    /// Requests made.
    pub requested: u64,
    /// Those that were completed.
    pub completed: u64,
    /// Those that failed or ran out of time.
    pub failed: u64,
    /// Those that the end of the run cut.
    pub cut: u64,
    /// Median latency, milliseconds: to the first byte of a stream, to the end
    /// of an object.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the same.
    pub p99_ms: Option<f64>,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimProgress {
    /// Nodes find their homes.
    Joining {
        /// Those that have one.
        joined: usize,
        /// Of how many.
        of: usize,
    },
    /// Nodes ask, until the duration is over; the drain comes after it.
    Running {
        /// The time of the run.
        now: Duration,
        /// The plan's duration.
        of: Duration,
    },
}

/// The listener to progress.
pub type ProgressListener = Box<dyn FnMut(SimProgress)>;

/// Where records go.
enum Sink {
    Nowhere,
    File(BufWriter<File>),
    Memory(Vec<Record>),
}

/// Counts, and writes to `events.jsonl` if there is to be one.
pub(super) struct Recorder {
    sink: Sink,
    tell: Option<ProgressListener>,
    failure: Option<io::Error>,
    services: BTreeMap<String, (ServiceCounts, Vec<f64>)>,
    lans: BTreeSet<String>,
    before: Vec<LinkRecord>,
    completed: u64,
    failed: u64,
}

impl Recorder {
    /// One that only counts.
    pub(super) fn new(topology: &Topology) -> Self {
        let lans = topology.nets.iter().filter(|net| net.kind == NetKind::Lan).map(|net| net.name.clone());
        Self {
            sink: Sink::Nowhere,
            tell: None,
            failure: None,
            services: BTreeMap::new(),
            lans: lans.collect(),
            before: Vec::new(),
            completed: 0,
            failed: 0,
        }
    }

    /// One that writes as well.
    pub(super) fn create(topology: &Topology, path: &Path) -> io::Result<Self> {
        Ok(Self { sink: Sink::File(BufWriter::new(File::create(path)?)), ..Self::new(topology) })
    }

    /// One that keeps the records.
    fn keeping(topology: &Topology) -> Self {
        Self { sink: Sink::Memory(Vec::new()), ..Self::new(topology) }
    }

    /// The same, who tells somebody how far the run is.
    pub(super) fn telling(self, tell: Option<ProgressListener>) -> Self {
        Self { tell, ..self }
    }

    pub(super) fn report_progress(&mut self, progress: SimProgress) {
        if let Some(tell) = &mut self.tell {
            tell(progress);
        }
    }

    /// A node stands in a cell.
    pub(super) fn position(&mut self, position: PositionRecord) {
        self.write(Record::Position(position));
    }

    /// Ends the file; the first error, if there was one.
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

    /// The workload begins.
    pub(super) fn begin(&mut self, world: &mut SimWorld<'_>) {
        self.nodes(world, 0.0);
        self.before = world.connections.wire().counters();
    }

    pub(super) fn request(&mut self, request: RequestRecord) {
        let (service, latencies) = self.services.entry(request.service.clone()).or_default();
        service.requested += 1;
        let counter = match request.outcome {
            RequestOutcome::Completed => &mut service.completed,
            RequestOutcome::Failed | RequestOutcome::TimedOut => &mut service.failed,
            RequestOutcome::Cut => &mut service.cut,
        };
        *counter += 1;
        latencies.extend(request.latency_ms());
        self.completed += u64::from(request.outcome == RequestOutcome::Completed);
        self.failed += u64::from(matches!(request.outcome, RequestOutcome::Failed | RequestOutcome::TimedOut));
        self.write(Record::Request(request));
    }

    pub(super) fn incident(&mut self, at: Duration, object: &str, what: String) {
        self.write(Record::Incident { t: at.as_secs_f64(), object: object.to_owned(), what });
    }

    /// Once a second, how it is going.
    pub(super) fn sample(&mut self, world: &mut SimWorld<'_>, t: Duration, active: u32) {
        if matches!(self.sink, Sink::Nowhere) {
            return;
        }
        let links = self.links(world);
        let to_net = || links.iter().filter(|link| link.direction == "to-net");
        let crossed = to_net().filter(|link| !self.lans.contains(&link.link));
        let out = links.iter().filter(|link| link.direction == "from-net" && self.lans.contains(&link.link));
        self.write(Record::Sample(SampleRecord {
            t: t.as_secs_f64(),
            offered_bytes: to_net().map(|link| link.bytes_in).sum(),
            // A link has its traffic under `to-net`, a LAN what it delivers under `from-net`.
            delivered_bytes: crossed.chain(out).map(|link| link.bytes_out).sum(),
            active,
            completed: self.completed,
            failed: self.failed,
            lateness_p99_ms: 0.0,
            cpu_busy: None,
        }));
    }

    /// The run is over.
    pub(super) fn end(&mut self, world: &mut SimWorld<'_>, ran: Duration) {
        self.nodes(world, ran.as_secs_f64());
        for link in self.links(world) {
            self.write(Record::Link(link));
        }
    }

    fn links(&self, world: &mut SimWorld<'_>) -> Vec<LinkRecord> {
        let now = world.connections.wire().counters();
        now.into_iter().zip(&self.before).map(|(now, before)| since(now, before)).collect()
    }

    fn nodes(&mut self, world: &SimWorld<'_>, t: f64) {
        if matches!(self.sink, Sink::Nowhere) {
            return;
        }
        for (machine, cast) in world.participants().iter().enumerate() {
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

    /// How the requests for each service ended.
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

/// Simulates a plan and leaves in `folder` what a run in emulation would.
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
    put(TOPOLOGY_FILE, &topology::file::write(&prepared.network, ""))?;
    let events = folder.join(EVENTS_FILE);
    let mut recorder = Recorder::create(&prepared.topology, &events).map_err(failed(&events))?.telling(tell);
    let outcome = super::run::run(prepared, detail, &mut recorder)?;
    recorder.finish().map_err(failed(&events))?;
    let facts = RunRecord { varied: varied.clone(), ..facts(prepared, detail, &outcome) };
    let facts = serde_json::to_string_pretty(&facts).map_err(io::Error::from);
    put(RUN_FILE, &facts.map_err(failed(&folder.join(RUN_FILE)))?)?;
    Ok(outcome)
}

/// Simulates a plan and keeps what a run in emulation would leave.
pub(super) fn simulate_to_memory(
    prepared: &Prepared,
    detail: Detail,
) -> Result<(super::SimOutcome, Results), SimulateError> {
    let mut recorder = Recorder::keeping(&prepared.topology);
    let outcome = super::run::run(prepared, detail, &mut recorder)?;
    let mut results = Results::new(Path::new(""), facts(prepared, detail, &outcome), Some(prepared.effective()));
    if let Sink::Memory(records) = recorder.sink {
        records.into_iter().for_each(|record| results.add_record(record));
    }
    Ok((outcome, results))
}

/// `run.json` of a simulated run. It has no machine and was never late.
fn facts(prepared: &Prepared, detail: Detail, outcome: &super::SimOutcome) -> RunRecord {
    let Prepared { plan, placement, network, .. } = prepared;
    let text = |name: &str, value: String| (name.to_owned(), value);
    let carried = [
        text("backend", SIMULATION.to_owned()),
        text("detail", detail.name().to_owned()),
        text("trace_hash", format!("{:016x}", outcome.trace_hash)),
        text("wall_s", format!("{:.3}", outcome.wall_s)),
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
        varied: BTreeMap::new(),
        lab: BTreeMap::from(carried),
        verdict: verdict(outcome),
    }
}

/// Whether the run can be trusted, and why not.
fn verdict(outcome: &super::SimOutcome) -> RunVerdict {
    let mut reasons: Vec<String> = outcome.violations.iter().map(Violation::sentence).collect();
    reasons.extend(outcome.overflow());
    RunVerdict { valid: reasons.is_empty(), reasons, overruns: outcome.overflows, ..RunVerdict::default() }
}
