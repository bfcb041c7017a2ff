//! A run, from an empty folder to its records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roost_lab::Interrupt;
use roost_lab::{Lab, linktest};
use roost_results::metrics::RequestCounts;
use roost_results::record::RunRecord;
use roost_results::{EVENTS_FILE, PLAN_FILE, RUN_FILE, TOPOLOGY_FILE};
use roost_terminal::{Output, Steps};
use roost_topology::trace;

use super::bar::RunProgressBar;
use super::binaries::{self, Binaries};
use super::error::RunError;
use super::fleet::{Fleet, LOG_FOLDER, ReadyFleet};
use super::job::{NetworkRun, RunSpec};
use super::measure::{PreRunFacts, RunRecorder};
use super::plan::BackendChoice;
use super::prepare::Prepared;
use super::private::Private;
use super::verdict::Linktest;
use crate::host_facts;

/// The folder of captures in that of a run.
const CAPTURE_FOLDER: &str = "captures";

/// A run that came to its end, or was ended by Ctrl-C.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    pub folder: PathBuf,
    pub run: RunRecord,
    pub tally: RequestCounts,
}

/// Runs a plan, inside a [sandbox](roost_lab::sandbox). Its results go to `folder`, which must be empty or not exist;
/// `varied` holds the values of a sweep.
///
/// The folder is the process's working folder during the run, because the paths of Unix sockets must be short.
///
/// # Errors
/// Fails when the run could not start, or its records could not be written. Records up to then are in the folder.
pub fn run(
    prepared: &Prepared,
    folder: &Path,
    varied: &BTreeMap<String, String>,
    output: Output,
    interrupt: &Interrupt,
) -> Result<FinishedRun, RunError> {
    prepared.check_for_daemons()?;
    // The folder is relative to the present working folder.
    let job = RunSpec::of_plan(prepared, varied);
    carry_out(&job, folder, output, interrupt)
}

/// Runs a network's own programs and traffic on its schedule, as [`run`] runs a plan.
///
/// # Errors
/// As `run`; also when it would do nothing, or never end.
pub fn run_network(
    solo: &NetworkRun,
    folder: &Path,
    output: Output,
    interrupt: &Interrupt,
) -> Result<FinishedRun, RunError> {
    solo.check()?;
    carry_out(&RunSpec::of_network(solo), folder, output, interrupt)
}

fn carry_out(job: &RunSpec<'_>, folder: &Path, output: Output, interrupt: &Interrupt) -> Result<FinishedRun, RunError> {
    let folder = std::path::absolute(folder).map_err(|error| RunError::file("find", folder, &error))?;
    make_empty(&folder)?;
    let _working = WorkingFolder::change(&folder)?;
    if let Some(prepared) = job.plan {
        write(PLAN_FILE, &prepared.effective())?;
        prepared.keep_replay(Path::new("")).map_err(|error| RunError::file("copy the replay to", &folder, &error))?;
    }
    write(TOPOLOGY_FILE, &roost_topology::file::write(job.network, ""))?;
    trace::keep(job.network, Path::new("")).map_err(|error| RunError::file("copy the traces to", &folder, &error))?;
    let failed = |error| RunError::Failed(format!("cannot start the run: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let session = RunSession { job, output, interrupt: interrupt.clone() };
    let tasks = tokio::task::LocalSet::new();
    let private = job.plan.map(|_| Private::make()).transpose();
    let result = private.and_then(|_private| runtime.block_on(tasks.run_until(session.run())));
    match result {
        Ok((run, tally)) => Ok(FinishedRun { folder, run, tally }),
        Err(error) => Err(broke_off(error, &folder)),
    }
}

/// Describes a run that broke off. If nothing was recorded the folder is left as it was, so that the same
/// command can be repeated; but non-empty logs stay, since they may tell the cause. The plan stays with them:
/// by it a sweep recognizes the folder as its own.
fn broke_off(error: RunError, folder: &Path) -> RunError {
    let is_recorded = Path::new(EVENTS_FILE).exists();
    if !is_recorded && clear_of_empty(Path::new(LOG_FOLDER)) {
        for file in [PLAN_FILE, TOPOLOGY_FILE, RUN_FILE] {
            // The file may not exist.
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir_all(trace::TRACE_FOLDER);
        return error;
    }
    let what = if is_recorded { "what was recorded until then is" } else { "the daemons' logs are" };
    let kept = |why| format!("{why}; {what} in {}", folder.display());
    match error {
        RunError::Failed(why) => RunError::Failed(kept(why)),
        RunError::Records(why) => RunError::Records(kept(why)),
        other => other,
    }
}

/// Removes the empty files of a folder, and the folder if nothing is left; true if it is gone.
fn clear_of_empty(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    for file in files.filter(|file| file.metadata().is_ok_and(|about| about.len() == 0)) {
        let _ = fs::remove_file(file.path());
    }
    let _ = fs::remove_dir(folder);
    !folder.exists()
}

struct RunSession<'a> {
    job: &'a RunSpec<'a>,
    output: Output,
    interrupt: Interrupt,
}

impl RunSession<'_> {
    async fn run(&self) -> Result<(RunRecord, RequestCounts), RunError> {
        let (machine, binaries) = (host_facts::facts(), self.binaries()?);
        RunError::check(&self.interrupt)?;
        let daemons = self.job.plan.map_or(0, |prepared| {
            let placement = &prepared.placement;
            placement.nodes.len() + placement.hubs.len()
        });
        let steps = Steps::start(self.output, "making the network", 2 * daemons + 1);
        let lab = Arc::new(Lab::start(self.job.topology, &options(self.job, &self.interrupt))?);
        let linktest = self.linktest(&lab, &steps)?;
        self.capture(&lab)?;
        let found = PreRunFacts { linktest, machine, binaries };
        let result = self.record(&lab, found, steps).await;
        // The capture of a run that could not start.
        self.end_capture(&lab)?;
        result
    }

    async fn record(
        &self,
        lab: &Arc<Lab>,
        found: PreRunFacts,
        steps: Steps,
    ) -> Result<(RunRecord, RequestCounts), RunError> {
        steps.advance();
        let mut fleet = self.fleet(lab, &steps)?;
        let ready = self.start(lab, &mut fleet, &steps).await?;
        steps.end();
        lab.warnings().iter().for_each(|warning| self.output.say(format!("warning: {warning}")));
        let bar = RunProgressBar::start(self.output, self.job);
        let measurement = RunRecorder { job: self.job, lab, interrupt: &self.interrupt, bar: &bar };
        let result = measurement.record_run(&mut fleet, ready, found).await;
        drop(bar);
        self.end_capture(lab)?;
        fleet.shut_down().await;
        result
    }

    /// Keeps the packets of links from now on, if it is to.
    fn capture(&self, lab: &Lab) -> Result<(), RunError> {
        let Some(capture) = self.job.capture else { return Ok(()) };
        let nets = capture.nets(self.job.topology, Path::new(PLAN_FILE))?;
        Ok(lab.capture(&nets, Path::new(CAPTURE_FOLDER), capture.limits)?)
    }

    /// Ends the capture. What is missing in its files does not stop the run.
    fn end_capture(&self, lab: &Lab) -> Result<(), RunError> {
        if self.job.capture.is_none() {
            return Ok(());
        }
        let summaries = match lab.end_capture() {
            // A run ends its capture once.
            Ok(summaries) if summaries.is_empty() => return Ok(()),
            Ok(summaries) => summaries,
            Err(error) => {
                self.output.say(format!("warning: the capture has no end: {error}"));
                return Ok(());
            }
        };
        let doubts = summaries.iter().filter_map(roost_lab::CaptureSummary::doubt);
        doubts.for_each(|doubt| self.output.say(format!("warning: {doubt}")));
        let text = serde_json::to_string_pretty(&summaries).unwrap_or_default() + "\n";
        if let Err(error) = write(&format!("{CAPTURE_FOLDER}/captures.json"), &text) {
            self.output.say(format!("warning: {error}"));
        }
        Ok(())
    }

    fn binaries(&self) -> Result<BTreeMap<String, String>, RunError> {
        self.job.plan.map_or_else(binaries::own_hash, |prepared| binaries::hashes(prepared.plan.architecture))
    }

    fn fleet(&self, lab: &Lab, steps: &Steps) -> Result<Fleet, RunError> {
        let Some(prepared) = self.job.plan.filter(|prepared| prepared.plan.architecture.has_daemons()) else {
            return Ok(Fleet::empty());
        };
        steps.say("making identities");
        let binaries = Binaries::beside_this()?;
        let Prepared { plan, placement, .. } = prepared;
        Fleet::prepare(plan, placement, lab, &binaries, &self.interrupt, || steps.advance())
    }

    async fn start(&self, lab: &Lab, fleet: &mut Fleet, steps: &Steps) -> Result<ReadyFleet, RunError> {
        steps.say("starting the daemons");
        let mut interrupt = self.interrupt.clone();
        tokio::select! {
            ready = fleet.start(lab, || steps.advance()) => ready,
            () = interrupt.wait() => Err(RunError::Interrupted),
        }
    }

    /// Tests the links against their description, before anything uses them.
    fn linktest(&self, lab: &Lab, steps: &Steps) -> Result<Option<Linktest>, RunError> {
        if !self.job.linktest {
            return Ok(None);
        }
        steps.say("testing the links");
        let options = linktest::LinktestOptions { quick: true, ..linktest::LinktestOptions::default() };
        let report = linktest::run(lab, lab.topology(), &options, self.interrupt.flag(), &mut |_| {})?;
        RunError::check(&self.interrupt)?;
        let nets: BTreeSet<&str> = report.failures().map(|failure| failure.net.as_str()).collect();
        let routes = usize::from(report.reach.as_ref().is_some_and(|reach| reach.failed > 0));
        let (failed, lines) = (nets.len() + routes, report.lines());
        if failed > 0 {
            // Warns now, so that nobody waits an hour for an invalid run.
            let nets = nets.into_iter().chain((routes > 0).then_some("the routes")).collect::<Vec<_>>().join(", ");
            self.output.say(format!("warning: not as described: {nets}; the run will not be valid"));
        }
        Ok(Some(Linktest { failed, lines, not_measured: report.not_measured() }))
    }
}

fn options(job: &RunSpec<'_>, interrupt: &Interrupt) -> roost_lab::LabOptions {
    let lab = &job.lab;
    let backend = match lab.backend {
        BackendChoice::Auto => roost_lab::DeviceBackend::Auto,
        BackendChoice::Tap => roost_lab::DeviceBackend::Tap,
        BackendChoice::Veth => roost_lab::DeviceBackend::Veth,
    };
    let (realtime, tcp) = (lab.realtime, lab.tcp.clone());
    let (machines, interrupt) = (job.machines.cloned(), Some(interrupt.clone()));
    roost_lab::LabOptions { seed: job.seed, backend, realtime, tcp, machines, interrupt }
}

/// Restores the working folder when it is dropped.
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
        // The folder existed before.
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

pub(super) fn write(name: &str, text: &str) -> Result<(), RunError> {
    let path = Path::new(name);
    fs::write(path, text).map_err(|error| RunError::file("write", path, &error))
}
