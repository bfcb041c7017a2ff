//! One run of a plan, from an empty folder to figures.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_terminal::{Output, Steps};

use super::conduct::{Conductor, Course, Watcher};
use super::error::RunError;
use super::fleet::{Fleet, RUN_FOLDER, Ready};
use super::interrupt::Interrupt;
use super::journal::{Journal, Tally};
use super::machine::{Processors, machine};
use super::plan::Backend;
use super::prepare::Prepared;
use super::requester::Stage;
use super::sampler::Sampler;
use super::siblings::Programs;
use super::verdict::{Observed, judge};
use crate::lab::{self, Lab, linktest};
use crate::report::record::{Record, Run, SCHEMA, Verdict};
use crate::report::{EVENTS_FILE, PLAN_FILE, RUN_FILE};
use crate::scenario;

/// What the results call the network.
pub const TOPOLOGY_FILE: &str = "topology.toml";
/// How long packets under way may take when all is over.
const SETTLE: Duration = Duration::from_millis(200);

/// A run that came to an end, its own or by Ctrl-C.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Where the results are.
    pub folder: PathBuf,
    /// What is in `run.json`.
    pub run: Run,
    /// How many requests ended how.
    pub tally: Tally,
}

/// Runs a plan, inside a [sandbox](lab::sandbox). Its results go to `folder`,
/// which must be empty or not be there; `varied` is what a sweep has varied.
///
/// The folder is the process's working folder meanwhile, because the paths of
/// Unix sockets have to be short.
///
/// # Errors
/// When the run could not start, or its records could not be written. What was
/// recorded until then is in the folder.
pub fn run(
    prepared: &Prepared,
    folder: &Path,
    varied: &BTreeMap<String, String>,
    output: Output,
    interrupt: &Interrupt,
) -> Result<Finished, RunError> {
    let folder = std::path::absolute(folder).map_err(|error| RunError::file("find", folder, &error))?;
    make_empty(&folder)?;
    let _working = WorkingFolder::change(&folder)?;
    write(PLAN_FILE, &prepared.effective())?;
    write(TOPOLOGY_FILE, &scenario::file::write(&prepared.network, ""))?;
    let failed = |error| RunError::Failed(format!("cannot start the run: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let session =
        Session { prepared, varied, output, interrupt: interrupt.clone(), programs: Programs::beside_this()? };
    let tasks = tokio::task::LocalSet::new();
    let result = runtime.block_on(tasks.run_until(session.run()));
    // Keys, sockets: of no use any more. What cannot be removed does no harm.
    let _ = fs::remove_dir_all(RUN_FOLDER);
    let (run, tally) = result?;
    Ok(Finished { folder, run, tally })
}

/// What a run is made from.
struct Session<'a> {
    prepared: &'a Prepared,
    varied: &'a BTreeMap<String, String>,
    output: Output,
    interrupt: Interrupt,
    programs: Programs,
}

impl Session<'_> {
    async fn run(&self) -> Result<(Run, Tally), RunError> {
        let Prepared { plan, placement, topology, .. } = self.prepared;
        self.interrupt.check()?;
        let machine = machine();
        let daemons = placement.nodes.len() + placement.hubs.len();
        let steps = Steps::start(self.output, "making the network", 2 * daemons);
        let lab = Lab::start(topology, &options(self.prepared))?;
        let linktest = self.linktest(&lab, &steps)?;
        steps.say("making identities");
        let mut fleet = Fleet::prepare(plan, placement, &lab, &self.programs, &self.interrupt, || steps.advance())?;
        steps.say("starting the daemons");
        let mut interrupt = self.interrupt.clone();
        let ready = tokio::select! {
            ready = fleet.start(&lab, || steps.advance()) => ready?,
            () = interrupt.wait() => return Err(RunError::Interrupted),
        };
        steps.end();
        let result = self.measure(&lab, &mut fleet, ready, linktest, machine).await;
        fleet.end().await;
        // Its end is of no concern to what was measured.
        let _ = lab.stop(Duration::ZERO);
        result
    }

    async fn measure(
        &self,
        lab: &Lab,
        fleet: &mut Fleet,
        ready: Ready,
        linktest: Linktest,
        machine: BTreeMap<String, String>,
    ) -> Result<(Run, Tally), RunError> {
        let mut run = self.facts(lab, &ready, machine);
        write_run(&run)?;
        let mut begun = self.begin(lab, fleet, ready, linktest)?;
        let plan = &self.prepared.plan;
        let bar = Bar::start(self.output, plan.duration, plan.name.clone());
        let conductor = Conductor {
            prepared: self.prepared,
            lab,
            fleet,
            stage: Rc::clone(&begun.stage),
            sampler: &mut begun.sampler,
            interrupt: self.interrupt.clone(),
            watcher: &bar,
        };
        let course = conductor.conduct().await?;
        drop(bar);
        run.verdict = conclude(lab, fleet, &begun, &course).await?;
        run.ran_s = course.ran_s;
        run.drain_s = course.drain_s;
        run.interrupted = course.interrupted;
        write_run(&run)?;
        let journal = &begun.stage.journal;
        journal.failure().map_or(Ok(()), Err)?;
        Ok((run, journal.tally()))
    }

    /// Notes what everybody has counted, and makes now the beginning.
    fn begin(&self, lab: &Lab, fleet: &mut Fleet, ready: Ready, linktest: Linktest) -> Result<Begun, RunError> {
        let journal = Journal::create(Path::new(EVENTS_FILE))?;
        for node in fleet.records(0.0, &ready.statuses) {
            journal.write(&Record::Node(node));
        }
        let (waited, processors) = (fleet.waited(), Processors::now());
        let sampler = Sampler::begin(lab)?;
        lab.begin()?;
        let stage = Rc::new(Stage {
            origin: Instant::now(),
            journal,
            transport: self.prepared.plan.transport,
            stream: self.prepared.plan.stream,
            nodes: self.prepared.placement.nodes.clone(),
            ids: ready.ids,
            active: Cell::new(0),
            happened: Cell::new(0),
        });
        Ok(Begun { stage, sampler, waited, processors, linktest })
    }

    /// `run.json` as far as it is known when the workload begins: it is there
    /// then, so that a run that breaks off can be read.
    fn facts(&self, lab: &Lab, ready: &Ready, machine: BTreeMap<String, String>) -> Run {
        let Prepared { plan, placement, topology, .. } = self.prepared;
        let mut versions = BTreeMap::from([("emulate".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
        for status in ready.statuses.iter().flatten() {
            let program = match status.role {
                roost_proto::Role::Node => "overlay-node",
                _ => plan.architecture.hub_program(),
            };
            versions.insert(program.to_owned(), status.version.clone());
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Run {
            schema: SCHEMA,
            name: plan.name.clone(),
            architecture: plan.architecture.name().to_owned(),
            transport: plan.transport.name().to_owned(),
            topology: topology.name.clone(),
            nodes: u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX),
            hubs: placement.hubs.iter().map(|hub| topology.hosts[hub.host].name.clone()).collect(),
            seed: plan.seed,
            duration_s: plan.duration.as_secs_f64(),
            ran_s: 0.0,
            drain_s: 0.0,
            started_unix_s: since_epoch.as_secs(),
            interrupted: true,
            versions,
            machine,
            varied: self.varied.clone(),
            lab: lab.facts().clone(),
            verdict: Verdict {
                reasons: vec!["the run broke off before it could be judged".to_owned()],
                ..Verdict::default()
            },
        }
    }

    /// Whether the links are as they are described, before anything uses them.
    fn linktest(&self, lab: &Lab, steps: &Steps) -> Result<Linktest, RunError> {
        if !self.prepared.plan.linktest {
            return Ok(Linktest::default());
        }
        steps.say("testing the links");
        let options = linktest::Options { quick: true, ..linktest::Options::default() };
        let report = linktest::run(lab, lab.topology(), &options, self.interrupt.flag(), &mut |_| {})?;
        self.interrupt.check()?;
        let failed: BTreeSet<&str> = report.failures().map(|failure| failure.net.as_str()).collect();
        let routes = usize::from(report.reach.as_ref().is_some_and(|reach| reach.failed > 0));
        Ok(Linktest { failed: failed.len() + routes, lines: report.lines() })
    }
}

/// What linktest said.
#[derive(Default)]
struct Linktest {
    lines: Vec<String>,
    failed: usize,
}

/// A run under way: what it is counted against.
struct Begun {
    stage: Rc<Stage>,
    sampler: Sampler,
    /// How long each daemon had waited for a processor.
    waited: Vec<(String, f64)>,
    processors: Processors,
    linktest: Linktest,
}

/// Asks everybody for the last time, and judges.
async fn conclude(lab: &Lab, fleet: &mut Fleet, begun: &Begun, course: &Course) -> Result<Verdict, RunError> {
    tokio::time::sleep(SETTLE).await;
    let Begun { stage, sampler, linktest, .. } = begun;
    let (t, processors) = (stage.seconds(), Processors::now());
    let links = sampler.links(lab)?;
    let statuses = fleet.statuses().await;
    for node in fleet.records(t, &statuses) {
        stage.journal.write(&Record::Node(node));
    }
    for link in links {
        stage.journal.write(&Record::Link(link));
    }
    let silent = fleet.silent(&statuses).into_iter().map(|name| format!("{name} did not say what it had counted"));
    let during = |(name, now): (String, f64)| {
        let earlier = begun.waited.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, wait)| *wait);
        (name, (now - earlier).max(0.0))
    };
    Ok(judge(Observed {
        lateness: sampler.lateness(lab),
        overruns: sampler.overruns(lab)?,
        cpu_busy: processors.busy_since(&begun.processors),
        waited: fleet.waited().into_iter().map(during).collect(),
        ran_s: t,
        links_failed: linktest.failed,
        linktest: linktest.lines.clone(),
        losses: course.losses.iter().cloned().chain(silent).collect(),
    }))
}

fn options(prepared: &Prepared) -> lab::Options {
    let backend = match prepared.plan.lab.backend {
        Backend::Auto => lab::Backend::Auto,
        Backend::Tap => lab::Backend::Tap,
        Backend::Veth => lab::Backend::Veth,
    };
    lab::Options { seed: prepared.plan.seed, backend, realtime: prepared.plan.lab.realtime }
}

/// Shows the time left on a terminal.
struct Bar {
    steps: Steps,
    duration: f64,
    name: String,
    shown: Cell<u64>,
}

impl Bar {
    fn start(output: Output, duration: Duration, name: String) -> Self {
        let steps = Steps::start(output, name.clone(), duration.as_secs() as usize);
        Self { steps, duration: duration.as_secs_f64(), name, shown: Cell::new(0) }
    }
}

impl Watcher for Bar {
    fn second(&self, t: f64, active: u32, completed: u64, failed: u64) {
        let left = self.duration - t;
        let time = if left > 0.0 { format!("{left:.0} s left") } else { "draining".to_owned() };
        self.steps.say(format!("{}: {completed} completed, {failed} failed, {active} under way, {time}", self.name));
        while self.shown.get() < t as u64 && (self.shown.get() as f64) < self.duration {
            self.shown.set(self.shown.get() + 1);
            self.steps.advance();
        }
    }
}

/// Goes back to where it was when it goes.
struct WorkingFolder(PathBuf);

impl WorkingFolder {
    fn change(folder: &Path) -> Result<Self, RunError> {
        let before = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        std::env::set_current_dir(folder).map_err(|error| RunError::file("go to", folder, &error))?;
        Ok(Self(before))
    }
}

impl Drop for WorkingFolder {
    fn drop(&mut self) {
        // It was there before.
        let _ = std::env::set_current_dir(&self.0);
    }
}

fn make_empty(folder: &Path) -> Result<(), RunError> {
    fs::create_dir_all(folder).map_err(|error| RunError::file("make", folder, &error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| RunError::file("read", folder, &error))?;
    match entries.next() {
        Some(_) => Err(RunError::Failed(format!("{} is not empty: name another folder", folder.display()))),
        None => Ok(()),
    }
}

fn write(name: &str, text: &str) -> Result<(), RunError> {
    let path = Path::new(name);
    fs::write(path, text).map_err(|error| RunError::file("write", path, &error))
}

/// Writes `run.json` under another name first, so that nobody reads half of it.
fn write_run(run: &Run) -> Result<(), RunError> {
    let text = serde_json::to_string_pretty(run).map_err(|error| RunError::Failed(error.to_string()))?;
    let part = format!("{RUN_FILE}.part");
    write(&part, &text)?;
    fs::rename(&part, RUN_FILE).map_err(|error| RunError::file("write", Path::new(RUN_FILE), &error))
}
