//! All daemons of a run: started in order, watched, and ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_control::{State, Status};
use roost_proto::NodeId;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::binaries::Binaries;
use super::daemon::{Daemon, Launch, Role};
use super::error::RunError;
use super::final_stats::FinalStats;
use super::identities;
use super::interrupt::Interrupt;
use super::launch::{LaunchBuilder, identity};
use super::placement::Placement;
use super::plan::{DaemonAction, Plan};
use super::private::RUN_FOLDER;
use crate::lab::Lab;
use crate::report::record;
use crate::topology::model::HostIndex;

/// The folder of the daemons' logs, in the results.
pub(super) const LOGS: &str = "logs";
/// The longest time until all daemons are attached.
const READY: Duration = Duration::from_secs(120);
/// The interval at which starting daemons are checked.
const LOOK: Duration = Duration::from_millis(50);
/// The longest time for daemons to leave before they are killed.
pub(super) const LEAVE: Duration = Duration::from_secs(3);
/// Daemons that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;

/// All daemons of a run; hubs come first.
pub(super) struct Fleet {
    members: Vec<FleetDaemon>,
}

/// A daemon, and the state that the plan wants for it.
struct FleetDaemon {
    daemon: Daemon,
    /// True while its node may send requests.
    alive: Arc<watch::Sender<bool>>,
    state: DesiredState,
    /// Its latest counters, if it is about to be ended.
    final_stats: Option<FinalStats>,
}

#[derive(Debug)]
enum DesiredState {
    Running,
    /// It was started again; the task waits until it is attached.
    Restarting {
        _until_attached: AbortOnDrop,
    },
    /// It was asked to leave; with `and_returns` it is started again afterwards.
    Leaving {
        and_returns: bool,
    },
    Stopped,
}

/// A task that is aborted when this value is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop(pub(super) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Facts that are known once all daemons are ready.
pub(super) struct Ready {
    pub(super) ids: Vec<NodeId>,
    /// The status of each daemon at that time, hubs first.
    pub(super) statuses: Vec<Option<Status>>,
}

impl Fleet {
    pub(super) const fn none() -> Self {
        Self { members: Vec::new() }
    }

    /// Makes the identities and the files of all daemons without starting any.
    pub(super) fn prepare(
        plan: &Plan,
        placement: &Placement,
        lab: &Lab,
        binaries: &Binaries,
        interrupt: &Interrupt,
        step: impl Fn(),
    ) -> Result<Self, RunError> {
        std::fs::create_dir_all(LOGS).map_err(|error| RunError::file("make", Path::new(LOGS), &error))?;
        let group = Path::new(RUN_FOLDER).join("group");
        identities::make_group(binaries, &group)?;
        // An empty file, so that the settings of this machine's daemons are not read.
        let empty = Path::new(RUN_FOLDER).join("empty.toml");
        std::fs::write(&empty, "").map_err(|error| RunError::file("write", &empty, &error))?;
        let maker = LaunchBuilder { plan, placement, lab, binaries, empty: &empty };
        let mut launches = Vec::new();
        for index in 0..placement.hubs.len() {
            launches.push(maker.hub(index)?);
        }
        for index in 0..placement.nodes.len() {
            launches.push(maker.node(index)?);
        }
        for launch in &launches {
            interrupt.check()?;
            identities::issue(binaries, &group, &launch.name, launch.certified.name(), &identity(&launch.name))?;
            step();
        }
        Ok(Self { members: launches.into_iter().map(FleetDaemon::new).collect() })
    }

    /// Starts the hubs and, once they serve, the nodes; waits until all are attached.
    pub(super) async fn start(&mut self, lab: &Lab, step: impl Fn()) -> Result<Ready, RunError> {
        let deadline = Instant::now() + READY;
        let hubs = self.members.iter().filter(|member| member.is_hub()).count();
        let mut statuses = vec![None; self.members.len()];
        for range in [0..hubs, hubs..self.members.len()] {
            for member in &mut self.members[range.clone()] {
                member.daemon.start(lab)?;
            }
            self.wait(range, deadline, &mut statuses, &step).await?;
        }
        let ids = statuses[hubs..].iter().flatten().map(|status| status.node).collect();
        Ok(Ready { ids, statuses: self.statuses().await })
    }

    async fn wait(
        &mut self,
        range: std::ops::Range<usize>,
        deadline: Instant,
        statuses: &mut [Option<Status>],
        step: &impl Fn(),
    ) -> Result<(), RunError> {
        loop {
            let missing: Vec<usize> = range.clone().filter(|index| statuses[*index].is_none()).collect();
            for index in &missing {
                let daemon = &mut self.members[*index].daemon;
                if !daemon.is_running() {
                    return Err(RunError::Failed(format!("{} {}", daemon.launch.name, daemon.exit_summary())));
                }
            }
            let sockets = missing.iter().map(|index| Some(self.members[*index].socket())).collect();
            for (index, status) in missing.iter().zip(ask(sockets, Daemon::status).await) {
                statuses[*index] = status.filter(is_ready);
                statuses[*index].iter().for_each(|_| step());
            }
            let missing: Vec<usize> = missing.into_iter().filter(|index| statuses[*index].is_none()).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let missing: Vec<&Daemon> = missing.iter().map(|index| &self.members[*index].daemon).collect();
                return Err(not_ready(&missing));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// By node: its socket, and true while the node runs.
    pub(super) fn nodes(&self) -> Vec<(PathBuf, watch::Receiver<bool>)> {
        let nodes = self.members.iter().filter(|member| !member.is_hub());
        nodes.map(|member| (member.socket(), member.alive.subscribe())).collect()
    }

    /// Reaps daemons that have ended. One that was asked to leave and return is started again. Returns those
    /// that the plan did not end: name and exit.
    pub(super) fn reap_ended(&mut self, lab: &Lab) -> Result<Vec<(String, String)>, RunError> {
        let mut died = Vec::new();
        for member in &mut self.members {
            if matches!(member.state, DesiredState::Stopped) || member.daemon.is_running() {
                continue;
            }
            member.alive.send_replace(false);
            match std::mem::replace(&mut member.state, DesiredState::Stopped) {
                DesiredState::Leaving { and_returns: true } => member.start_again(lab)?,
                DesiredState::Leaving { and_returns: false } | DesiredState::Stopped => {}
                DesiredState::Running | DesiredState::Restarting { .. } => {
                    died.push((member.daemon.launch.name.clone(), member.daemon.exit_summary()));
                }
            }
        }
        Ok(died)
    }

    fn find(&self, host: HostIndex, hub: bool) -> Option<usize> {
        self.members.iter().position(|member| member.daemon.launch.host == host && member.is_hub() == hub)
    }

    /// Starts to ask the daemon of a host for its counters, since it will be ended soon; at its end nobody
    /// waits for an answer.
    pub(super) fn poll_final_stats(&mut self, host: HostIndex, hub: bool) {
        if let Some(member) = self.find(host, hub).and_then(|index| self.members.get_mut(index))
            && member.should_run()
        {
            let socket = member.socket();
            member.final_stats.get_or_insert_with(|| FinalStats::poll_socket(socket));
        }
    }

    /// Applies an action to the daemon of a host.
    pub(super) fn apply_action(
        &mut self,
        lab: &Lab,
        host: HostIndex,
        hub: bool,
        deed: DaemonAction,
    ) -> Result<(), RunError> {
        match deed {
            DaemonAction::Kill => self.kill(host, hub),
            DaemonAction::Stop => self.stop(host, hub),
            DaemonAction::Start => self.restart(lab, host, hub)?,
            DaemonAction::Freeze => {
                self.find(host, hub).into_iter().for_each(|index| self.members[index].daemon.freeze())
            }
            DaemonAction::Thaw => self.find(host, hub).into_iter().for_each(|index| self.members[index].daemon.thaw()),
        }
        Ok(())
    }

    pub(super) fn thaw_all(&self) {
        self.members.iter().for_each(|member| member.daemon.thaw());
    }

    fn kill(&mut self, host: HostIndex, hub: bool) {
        if let Some(member) = self.find(host, hub).and_then(|index| self.members.get_mut(index)) {
            member.keep_final_stats();
            member.state = DesiredState::Stopped;
            member.daemon.kill();
            member.alive.send_replace(false);
        }
    }

    /// Makes the daemon of a host leave.
    fn stop(&mut self, host: HostIndex, hub: bool) {
        if let Some(member) = self.find(host, hub).and_then(|index| self.members.get_mut(index))
            && !matches!(member.state, DesiredState::Stopped)
        {
            member.keep_final_stats();
            member.state = DesiredState::Leaving { and_returns: false };
            member.daemon.leave();
        }
    }

    /// Starts the daemon of a host again, unless it runs; one that is leaving is started when it has gone.
    fn restart(&mut self, lab: &Lab, host: HostIndex, hub: bool) -> Result<(), RunError> {
        let Some(member) = self.find(host, hub).and_then(|index| self.members.get_mut(index)) else { return Ok(()) };
        match member.state {
            DesiredState::Leaving { .. } if member.daemon.is_running() => {
                member.state = DesiredState::Leaving { and_returns: true };
                Ok(())
            }
            DesiredState::Running | DesiredState::Restarting { .. } if member.daemon.is_running() => Ok(()),
            _ => member.start_again(lab),
        }
    }

    /// Asks all running daemons for their counters, in parallel.
    pub(super) async fn statuses(&mut self) -> Vec<Option<Status>> {
        // A daemon that was asked to leave has given its counters before.
        let runs = |member: &mut FleetDaemon| member.should_run() && member.daemon.is_running();
        let sockets = self.members.iter_mut().map(|member| runs(member).then(|| member.socket()));
        ask(sockets.collect(), Daemon::status).await
    }

    /// Records of the daemons' status and usage, `t` seconds after the beginning.
    pub(super) fn records(&mut self, t: f64, statuses: &[Option<Status>]) -> Vec<record::NodeRecord> {
        let both = self.members.iter_mut().zip(statuses);
        both.map(|(member, status)| record(&mut member.daemon, status.as_ref(), t)).collect()
    }

    /// Time for which each daemon has waited for a processor so far, seconds; `None` where the system does not
    /// tell.
    pub(super) fn waited(&mut self) -> Vec<(String, Option<f64>)> {
        let daemons = self.members.iter_mut().map(|member| &mut member.daemon);
        daemons.map(|daemon| (daemon.launch.name.clone(), daemon.waited().map(|wait| wait.as_secs_f64()))).collect()
    }

    /// Daemons without a status that the plan wants to run.
    pub(super) fn silent(&self, statuses: &[Option<Status>]) -> Vec<String> {
        let both = self.members.iter().zip(statuses);
        let silent = both.filter(|(member, status)| status.is_none() && member.should_run());
        silent.map(|(member, _)| member.daemon.launch.name.clone()).collect()
    }

    /// Daemons that were started again and are not attached yet.
    pub(super) fn not_back(&self) -> Vec<String> {
        let is_missing =
            |member: &&FleetDaemon| matches!(member.state, DesiredState::Restarting { .. }) && !*member.alive.borrow();
        self.members.iter().filter(is_missing).map(|member| member.daemon.launch.name.clone()).collect()
    }

    /// Makes all daemons leave: nodes first, since they sign off at their hubs.
    pub(super) async fn end(mut self) {
        let deadline = Instant::now() + LEAVE;
        for wants_hubs in [false, true] {
            let is_due = |member: &&mut FleetDaemon| member.is_hub() == wants_hubs;
            self.members.iter_mut().filter(is_due).for_each(|member| member.daemon.leave());
            let runs = |member: &mut FleetDaemon| member.daemon.is_running();
            while Instant::now() < deadline && self.members.iter_mut().filter(is_due).any(runs) {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

impl FleetDaemon {
    fn new(launch: Launch) -> Self {
        let alive = Arc::new(watch::Sender::new(true));
        Self { daemon: Daemon::new(launch), alive, state: DesiredState::Running, final_stats: None }
    }

    const fn is_hub(&self) -> bool {
        matches!(self.daemon.launch.role, Role::Hub(_))
    }

    fn socket(&self) -> PathBuf {
        self.daemon.launch.socket.clone()
    }

    /// True if the plan wants it to run.
    const fn should_run(&self) -> bool {
        matches!(self.state, DesiredState::Running | DesiredState::Restarting { .. })
    }

    /// Keeps the latest counters of its process once, before it is ended.
    fn keep_final_stats(&mut self) {
        if let Some(words) = self.final_stats.take().filter(|_| self.should_run())
            && let Some(status) = words.newest()
        {
            self.daemon.keep_counters(&status);
        }
    }

    /// Starts it again; its node requests once it is attached.
    fn start_again(&mut self, lab: &Lab) -> Result<(), RunError> {
        // These belong to the process before.
        self.final_stats = None;
        self.daemon.start(lab)?;
        let (socket, alive) = (self.socket(), Arc::clone(&self.alive));
        let attached = tokio::spawn(async move {
            while !Daemon::status(socket.clone()).await.is_some_and(|status| is_ready(&status)) {
                tokio::time::sleep(LOOK).await;
            }
            alive.send_replace(true);
        });
        self.state = DesiredState::Restarting { _until_attached: AbortOnDrop(attached.abort_handle()) };
        Ok(())
    }
}

/// True if it serves: a hub that listens, a node that is attached.
fn is_ready(status: &Status) -> bool {
    matches!(status.state, State::Listening | State::Attached | State::MulticastOnly)
}

/// Asks the daemons behind these sockets, several at a time.
async fn ask<F>(sockets: Vec<Option<PathBuf>>, question: fn(PathBuf) -> F) -> Vec<Option<Status>>
where
    F: Future<Output = Option<Status>> + Send + 'static,
{
    let mut answers = vec![None; sockets.len()];
    let places = Arc::new(Semaphore::new(ASKED_AT_ONCE));
    let mut asked = JoinSet::new();
    for (index, socket) in sockets.into_iter().enumerate() {
        let Some(socket) = socket else { continue };
        let places = Arc::clone(&places);
        asked.spawn(async move {
            let _place = places.acquire().await;
            (index, question(socket).await)
        });
    }
    while let Some(answer) = asked.join_next().await {
        // A panicked task counts as no answer.
        if let Ok((index, status)) = answer {
            answers[index] = status;
        }
    }
    answers
}

fn not_ready(missing: &[&Daemon]) -> RunError {
    let names: Vec<&str> = missing.iter().take(5).map(|daemon| daemon.launch.name.as_str()).collect();
    let more = missing.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let said = missing.first().map(|daemon| super::daemon::last_log_line(&daemon.launch.log)).unwrap_or_default();
    RunError::Failed(format!(
        "not ready after {} s: {}{more}; of {}, {said}",
        READY.as_secs(),
        names.join(", "),
        names.first().copied().unwrap_or_default()
    ))
}

fn record(daemon: &mut Daemon, status: Option<&Status>, t: f64) -> record::NodeRecord {
    let (usage, counted) = (daemon.usage(), daemon.counted(status));
    let launch = &daemon.launch;
    record::NodeRecord {
        t,
        node: launch.name.clone(),
        class: launch.class.clone(),
        role: launch.title.to_owned(),
        traffic_sent_bytes: counted.traffic_sent_bytes,
        sent_bytes: counted.sent_bytes,
        received_bytes: counted.received_bytes,
        cpu_s: usage.cpu.as_secs_f64(),
        waited_s: usage.waited.as_secs_f64(),
        memory_bytes: usage.peak_memory_bytes,
    }
}
