//! Measurement of a run, and its records.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_lab::Interrupt;
use roost_lab::Lab;
use roost_results::metrics::RequestCounts;
use roost_results::record::{Record, RunRecord, RunVerdict, SCHEMA};
use roost_results::{EVENTS_FILE, RUN_FILE};
use roost_wire::NodeId;

use super::bar::RunProgressBar;
use super::error::RunError;
use super::fault_injector::FaultInjector;
use super::fleet::{EndedDaemon, Fleet, ReadyFleet};
use super::job::RunSpec;
use super::journal::Journal;
use super::mobility::Mobility;
use super::motion_recorder::MotionRecorder;
use super::participants::RequesterTasks;
use super::request_recorder::RequestSettings;
use super::requester::RequesterContext;
use super::run::write;
use super::run_loop::{RunLoop, RunOutcome, deaths};
use super::sampler::Sampler;
use super::verdict::{Linktest, Observed, Start, judge};

/// The time for packets in flight after the end.
const SETTLE: Duration = Duration::from_millis(200);
/// Stands in for the architecture of a run without a plan.
const NO_ARCHITECTURE: &str = "programs";

/// A run from its beginning to its last record.
pub(super) struct RunRecorder<'a> {
    pub(super) job: &'a RunSpec<'a>,
    pub(super) lab: &'a Arc<Lab>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) bar: &'a RunProgressBar,
}

pub(super) struct PreRunFacts {
    /// The result of linktest, unless it was left out.
    pub(super) linktest: Option<Linktest>,
    pub(super) machine: BTreeMap<String, String>,
    pub(super) binaries: BTreeMap<String, String>,
}

impl RunRecorder<'_> {
    /// Conducts the run, counts, judges, and writes the records.
    pub(super) async fn record_run(
        &self,
        fleet: &mut Fleet,
        ready: ReadyFleet,
        found: PreRunFacts,
    ) -> Result<(RunRecord, RequestCounts), RunError> {
        let PreRunFacts { linktest, machine, binaries } = found;
        let mut run = RunRecord { machine, binaries, ..self.facts(&ready) };
        write_run(&run)?;
        let journal = Rc::new(Journal::create(Path::new(EVENTS_FILE))?);
        let stagehands = FaultInjector::new(self.lab, &journal, self.job)?;
        if self.warm_up() > Duration::ZERO {
            self.let_warm_up(fleet, &journal, &ready.ids).await?;
        }
        let asked = Instant::now();
        let statuses = fleet.query_statuses().await;
        self.lab.observe()?;
        for node in fleet.node_records(0.0, &statuses) {
            journal.write(&Record::Node(node));
        }
        let unheard = fleet.silent_daemons(&statuses);
        let (mut sampler, origin) = Sampler::begin(self.lab, fleet)?;
        let stage = Rc::new(self.stage(origin, &journal, &ready.ids));
        let cast = RequesterTasks::spawn_requesters(self.job.plan, fleet, &stage);
        // Without requesters nothing begins but what the schedule starts, and that has a limit of its own.
        let has_requesters = self.job.plan.is_none_or(|prepared| prepared.plan.architecture.has_daemons());
        let gap = if has_requesters { origin.elapsed() } else { Duration::ZERO };
        let start = Start { gap, asked_before: origin.saturating_duration_since(asked), unheard };
        run.started_unix_s = unix_seconds();
        let conductor = RunLoop {
            job: self.job,
            lab: self.lab,
            fleet,
            stage: Rc::clone(&stage),
            fault_injector: stagehands,
            sampler: &mut sampler,
            motion: MotionRecorder::new(self.job.topology, self.job.seed),
            interrupt: self.interrupt.clone(),
            watcher: self.bar,
        };
        let course = conductor.run_to_end(cast).await?;
        let observed = Observed { linktest, start, ..self.conclude(fleet, &stage, sampler, &course).await? };
        run.verdict = judge(observed);
        (run.ran_s, run.drain_s, run.interrupted) = (course.ran_s, course.drain_s, course.interrupted);
        write_run(&run)?;
        journal.failure().map_or(Ok(()), Err)?;
        Ok((run, journal.tally()))
    }

    fn warm_up(&self) -> Duration {
        self.job.plan.map_or(Duration::ZERO, |prepared| prepared.plan.warm_up)
    }

    /// Runs the warm-up before anything is counted. When its time is up nobody requests, and requests in
    /// progress end, so that nothing of it counts later.
    async fn let_warm_up(&self, fleet: &mut Fleet, journal: &Rc<Journal>, ids: &[NodeId]) -> Result<(), RunError> {
        let stage = RequesterContext { is_warm_up: true, ..self.stage(Instant::now(), journal, ids) };
        let mut cast = RequesterTasks::spawn_requesters(self.job.plan, fleet, &Rc::new(stage));
        let mut interrupt = self.interrupt.clone();
        tokio::select! {
            () = cast.done() => {}
            () = interrupt.wait() => return Err(RunError::Interrupted),
        }
        tokio::time::sleep(SETTLE).await;
        match fleet.reap_ended(self.lab)?.first() {
            Some(EndedDaemon { name, how }) => {
                Err(RunError::Failed(format!("{name} died before the run had warmed up: it {how}")))
            }
            None => Ok(()),
        }
    }

    /// The context that requesters share from this time on.
    fn stage(&self, origin: Instant, journal: &Rc<Journal>, ids: &[NodeId]) -> RequesterContext {
        let plan = self.job.plan.map(|prepared| &prepared.plan);
        RequesterContext {
            origin,
            is_warm_up: false,
            journal: Rc::clone(journal),
            settings: plan.map(RequestSettings::from_plan).unwrap_or_default(),
            nodes: self.job.plan.map(|prepared| prepared.placement.nodes.clone()).unwrap_or_default(),
            walk: RefCell::new(self.job.plan.map_or_else(Mobility::empty, Mobility::from_prepared)),
            ids: ids.to_vec(),
            active: Cell::new(0),
        }
    }

    /// Asks all daemons for the last time; returns all observations.
    async fn conclude(
        &self,
        fleet: &mut Fleet,
        stage: &RequesterContext,
        sampler: Sampler,
        course: &RunOutcome,
    ) -> Result<Observed, RunError> {
        // A frozen daemon could not give its counters.
        fleet.thaw_all();
        tokio::time::sleep(SETTLE).await;
        let t = stage.seconds();
        let links = sampler.links(self.lab).await?;
        let RunOutcome { mut losses, schedule_result: performance, .. } = course.clone();
        // A daemon that dies before or during this question is not a silent one.
        losses.extend(deaths(fleet, self.lab, stage)?);
        let statuses = fleet.query_statuses().await;
        losses.extend(deaths(fleet, self.lab, stage)?);
        for node in fleet.node_records(t, &statuses) {
            stage.journal.write(&Record::Node(node));
        }
        for link in links {
            stage.journal.write(&Record::Link(link));
        }
        let silent =
            fleet.silent_daemons(&statuses).into_iter().map(|name| format!("{name} did not say what it had counted"));
        losses.extend(silent);
        losses.extend(performance.undone);
        for name in fleet.unattached_restarts() {
            stage.journal.incident(stage.seconds(), name, "was started again, and is not attached at the end");
        }
        let (schedule_late, dropped_by_reader) = (performance.late, stage.journal.tally().dropped_by_reader);
        let observed = sampler.end(self.lab, fleet, t)?;
        losses.extend(self.lab.queue_losses());
        Ok(Observed { losses, schedule_late, dropped_by_reader, ..observed })
    }

    /// The first version of `run.json`, so that a run that breaks off can be read.
    fn facts(&self, ready: &ReadyFleet) -> RunRecord {
        let RunSpec { name, topology, seed, length, plan, varied, .. } = self.job;
        let mut versions = BTreeMap::from([("emulate".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
        versions.extend(self.daemon_versions(ready));
        let placement = plan.map(|prepared| &prepared.placement);
        let hubs = placement.map_or(&[][..], |placement| &placement.hubs);
        let architecture = plan.map_or(NO_ARCHITECTURE, |prepared| prepared.plan.architecture.name());
        RunRecord {
            schema: SCHEMA,
            name: (*name).to_owned(),
            architecture: architecture.to_owned(),
            transport: plan
                .filter(|prepared| prepared.plan.architecture.has_daemons())
                .map_or("none", |prepared| prepared.plan.transport.name())
                .to_owned(),
            topology: topology.name.clone(),
            nodes: placement.map_or(0, |placement| u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX)),
            hubs: hubs.iter().map(|hub| topology.hosts[hub.host].name.clone()).collect(),
            seed: *seed,
            duration_s: length.unwrap_or_default().as_secs_f64(),
            warm_up_s: self.warm_up().as_secs_f64(),
            ran_s: 0.0,
            drain_s: 0.0,
            started_unix_s: unix_seconds(),
            interrupted: true,
            versions,
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            binaries: BTreeMap::new(),
            machine: BTreeMap::new(),
            traces: roost_topology::trace::digests(topology),
            varied: varied.clone(),
            lab: self.lab.facts().clone(),
            verdict: RunVerdict {
                reasons: vec!["the run broke off before it could be judged".to_owned()],
                ..RunVerdict::default()
            },
        }
    }

    fn daemon_versions(&self, ready: &ReadyFleet) -> BTreeMap<String, String> {
        let Some(prepared) = self.job.plan else { return BTreeMap::new() };
        let program = |role| match role {
            roost_wire::Role::Node => "overlay-node",
            _ => prepared.plan.architecture.hub_program(),
        };
        let statuses = ready.statuses.iter().flatten();
        statuses.map(|status| (program(status.role).to_owned(), status.version.clone())).collect()
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Writes `run.json` under another name first, so that nobody reads half of it.
fn write_run(run: &RunRecord) -> Result<(), RunError> {
    let text = serde_json::to_string_pretty(run).map_err(|error| RunError::Failed(error.to_string()))?;
    let part = format!("{RUN_FILE}.part");
    write(&part, &text)?;
    fs::rename(&part, RUN_FILE).map_err(|error| RunError::file("write", Path::new(RUN_FILE), &error))
}
