//! The daemons of a run: start, state, statistics and end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use roost_api::{State, Status};
use roost_lab::Interrupt;
use roost_lab::Lab;
use roost_results::record;
use roost_topology::HostAddresses;
use roost_wire::{NodeId, Scheme};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::abort_on_drop::AbortOnDrop;
use super::binaries::Binaries;
use super::daemon::{Daemon, Launch, Role};
use super::endpoints::Endpoints;
use super::error::RunError;
use super::final_stats::FinalStats;
use super::identities;
use super::launch::{LaunchBuilder, identity};
use super::placement::Placement;
use super::plan::{DaemonAction, Plan};
use super::private::RUN_FOLDER;
use super::script::DaemonSlot;

/// Folder of the daemons' logs, in the results.
pub(super) const LOG_FOLDER: &str = "logs";
/// Time until all daemons must be attached.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two queries of a starting daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a daemon to leave before it is killed.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Most daemons queried at once.
const MAX_QUERIES: usize = 16;

/// The daemons of a run, hubs before nodes.
pub(super) struct Fleet {
    members: Vec<FleetDaemon>,
}

/// A daemon and its state in the plan.
struct FleetDaemon {
    daemon: Daemon,
    /// True while the node may send requests.
    alive: watch::Sender<bool>,
    state: DaemonState,
    /// Statistics polled while the daemon is about to be ended.
    final_stats: Option<FinalStats>,
}

/// State of a daemon in the plan.
#[derive(Debug)]
enum DaemonState {
    Running,
    /// Was started again and is not attached yet; the task waits for that.
    Restarting {
        _until_attached: AbortOnDrop,
    },
    /// Was asked to leave, and is started again afterwards if `and_returns`.
    Leaving {
        and_returns: bool,
    },
    /// Must not run.
    Stopped,
}

/// A daemon that ended against the plan.
pub(super) struct EndedDaemon {
    pub(super) name: String,
    /// The end of a sentence that begins with the daemon's name.
    pub(super) how: String,
}

/// Ids and states of a fleet that is ready.
pub(super) struct ReadyFleet {
    /// Ids of the nodes, in their order.
    pub(super) ids: Vec<NodeId>,
    /// Status of each daemon once all are ready, hubs first.
    pub(super) statuses: Vec<Option<Status>>,
}

impl Fleet {
    /// A fleet without daemons.
    pub(super) const fn empty() -> Self {
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
        std::fs::create_dir_all(LOG_FOLDER).map_err(|error| RunError::file("make", Path::new(LOG_FOLDER), &error))?;
        let group = Path::new(RUN_FOLDER).join("group");
        identities::make_group(binaries, &group)?;
        // Files even without settings, so that those of this machine's daemons are not read.
        let write = |name: &str, settings: &str| {
            let path = Path::new(RUN_FOLDER).join(name);
            std::fs::write(&path, settings).map_err(|error| RunError::file("write", &path, &error))?;
            Ok::<_, RunError>(path)
        };
        let hub_settings = write("hub.toml", &plan.settings.hub_file(plan.architecture))?;
        let node_settings = write("node.toml", &plan.settings.node_file())?;
        let addresses = HostAddresses::from_topology(lab.topology());
        let builder = LaunchBuilder {
            plan,
            placement,
            lab,
            listened: Endpoints::new(addresses.clone(), Scheme::ALL),
            dialed: Endpoints::new(addresses, plan.transport.preference()),
            binaries,
            hub_settings: &hub_settings,
            node_settings: &node_settings,
        };
        let mut launches = Vec::new();
        for index in 0..placement.hubs.len() {
            launches.push(builder.hub(index)?);
        }
        for index in 0..placement.nodes.len() {
            launches.push(builder.node(index)?);
        }
        for launch in &launches {
            RunError::check(interrupt)?;
            identities::issue(binaries, &group, &launch.name, launch.certified.name(), &identity(&launch.name))?;
            let files = [hub_settings.clone(), node_settings.clone(), identity(&launch.name)];
            lab.copy_to(launch.host, &files)?;
            step();
        }
        Ok(Self { members: launches.into_iter().map(FleetDaemon::new).collect() })
    }

    /// Starts the hubs and, once they serve, the nodes; waits until all are attached.
    pub(super) async fn start(&mut self, lab: &Lab, step: impl Fn()) -> Result<ReadyFleet, RunError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let hubs = self.members.iter().filter(|member| member.is_hub()).count();
        let mut statuses = vec![None; self.members.len()];
        for range in [0..hubs, hubs..self.members.len()] {
            for member in &mut self.members[range.clone()] {
                member.daemon.start(lab)?;
            }
            self.wait_until_ready(range, deadline, &mut statuses, &step).await?;
        }
        let ids = statuses[hubs..].iter().flatten().map(|status| status.node).collect();
        Ok(ReadyFleet { ids, statuses: self.query_statuses().await })
    }

    async fn wait_until_ready(
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
            for (index, status) in missing.iter().zip(query_daemons(sockets).await) {
                statuses[*index] = status.filter(is_ready);
                if statuses[*index].is_some() {
                    step();
                }
            }
            let missing: Vec<usize> = missing.into_iter().filter(|index| statuses[*index].is_none()).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let missing: Vec<&Daemon> = missing.iter().map(|index| &self.members[*index].daemon).collect();
                return Err(not_ready(&missing));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// By node: its socket, and true while the node runs.
    pub(super) fn nodes(&self) -> Vec<(PathBuf, watch::Receiver<bool>)> {
        let nodes = self.members.iter().filter(|member| !member.is_hub());
        nodes.map(|member| (member.socket(), member.alive.subscribe())).collect()
    }

    /// Restarts daemons that left to return; returns those that ended against the plan.
    pub(super) fn reap_ended(&mut self, lab: &Lab) -> Result<Vec<EndedDaemon>, RunError> {
        let mut died = Vec::new();
        for member in &mut self.members {
            if matches!(member.state, DaemonState::Stopped) || member.daemon.is_running() {
                continue;
            }
            member.alive.send_replace(false);
            match std::mem::replace(&mut member.state, DaemonState::Stopped) {
                DaemonState::Leaving { and_returns: true } => member.start_again(lab)?,
                DaemonState::Leaving { and_returns: false } | DaemonState::Stopped => {}
                DaemonState::Running | DaemonState::Restarting { .. } => {
                    let (name, how) = (member.daemon.launch.name.clone(), member.daemon.exit_summary());
                    died.push(EndedDaemon { name, how });
                }
            }
        }
        Ok(died)
    }

    fn find_mut(&mut self, slot: DaemonSlot) -> Option<&mut FleetDaemon> {
        self.members.iter_mut().find(|member| member.daemon.launch.host == slot.host && member.is_hub() == slot.is_hub)
    }

    /// Starts to query a daemon that will be ended soon; at its end nobody waits for an answer.
    pub(super) fn poll_final_stats(&mut self, slot: DaemonSlot) {
        if let Some(member) = self.find_mut(slot)
            && member.should_run()
        {
            let socket = member.socket();
            member.final_stats.get_or_insert_with(|| FinalStats::poll_socket(socket));
        }
    }

    /// Applies an action of the plan to a daemon; without that daemon nothing happens.
    pub(super) fn apply_action(&mut self, lab: &Lab, slot: DaemonSlot, action: DaemonAction) -> Result<(), RunError> {
        let Some(member) = self.find_mut(slot) else { return Ok(()) };
        match action {
            DaemonAction::Kill => member.kill(),
            DaemonAction::Stop => member.stop(),
            DaemonAction::Start => return member.restart(lab),
            DaemonAction::Freeze => member.daemon.freeze(),
            DaemonAction::Thaw => member.daemon.thaw(),
        }
        Ok(())
    }

    pub(super) fn thaw_all(&self) {
        for member in &self.members {
            member.daemon.thaw();
        }
    }

    /// Queries all running daemons for their counters, in parallel.
    pub(super) async fn query_statuses(&mut self) -> Vec<Option<Status>> {
        // A daemon that was asked to leave has given its counters before.
        let runs = |member: &mut FleetDaemon| member.should_run() && member.daemon.is_running();
        let sockets = self.members.iter_mut().map(|member| runs(member).then(|| member.socket()));
        query_daemons(sockets.collect()).await
    }

    /// Records of the daemons' status and usage, `t` seconds after the beginning.
    pub(super) fn node_records(&mut self, t: f64, statuses: &[Option<Status>]) -> Vec<record::NodeRecord> {
        let both = self.members.iter_mut().zip(statuses);
        both.map(|(member, status)| node_record(&mut member.daemon, status.as_ref(), t)).collect()
    }

    /// Time for which each daemon has waited for a processor so far, seconds; `None` where the system does not
    /// tell.
    pub(super) fn processor_waits(&mut self) -> Vec<(String, Option<f64>)> {
        let daemons = self.members.iter_mut().map(|member| &mut member.daemon);
        daemons.map(|daemon| (daemon.launch.name.clone(), daemon.waited().map(|wait| wait.as_secs_f64()))).collect()
    }

    /// Daemons without a status that the plan wants to run.
    pub(super) fn silent_daemons(&self, statuses: &[Option<Status>]) -> Vec<String> {
        let both = self.members.iter().zip(statuses);
        let silent = both.filter(|(member, status)| status.is_none() && member.should_run());
        silent.map(|(member, _)| member.daemon.launch.name.clone()).collect()
    }

    /// Daemons that were started again and are not attached yet.
    pub(super) fn unattached_restarts(&self) -> Vec<String> {
        let is_missing =
            |member: &&FleetDaemon| matches!(member.state, DaemonState::Restarting { .. }) && !*member.alive.borrow();
        self.members.iter().filter(is_missing).map(|member| member.daemon.launch.name.clone()).collect()
    }

    /// Asks all daemons to leave, nodes first as they withdraw from their hubs. Dropping the fleet then kills the rest.
    pub(super) async fn shut_down(mut self) {
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        for wants_hubs in [false, true] {
            let is_due = |member: &&mut FleetDaemon| member.is_hub() == wants_hubs;
            self.members.iter_mut().filter(is_due).for_each(|member| member.daemon.leave());
            let runs = |member: &mut FleetDaemon| member.daemon.is_running();
            while Instant::now() < deadline && self.members.iter_mut().filter(is_due).any(runs) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }
}

impl FleetDaemon {
    fn new(launch: Launch) -> Self {
        Self {
            daemon: Daemon::new(launch),
            alive: watch::Sender::new(true),
            state: DaemonState::Running,
            final_stats: None,
        }
    }

    const fn is_hub(&self) -> bool {
        matches!(self.daemon.launch.role, Role::Hub(_))
    }

    fn socket(&self) -> PathBuf {
        self.daemon.launch.socket.clone()
    }

    /// True if the plan wants the daemon to run.
    const fn should_run(&self) -> bool {
        matches!(self.state, DaemonState::Running | DaemonState::Restarting { .. })
    }

    fn kill(&mut self) {
        self.keep_final_stats();
        self.state = DaemonState::Stopped;
        self.daemon.kill();
        self.alive.send_replace(false);
    }

    /// Asks the daemon to leave.
    fn stop(&mut self) {
        if matches!(self.state, DaemonState::Stopped) {
            return;
        }
        self.keep_final_stats();
        self.state = DaemonState::Leaving { and_returns: false };
        self.daemon.leave();
    }

    /// Starts the daemon again, unless it runs; one that is leaving is started when it has gone.
    fn restart(&mut self, lab: &Lab) -> Result<(), RunError> {
        match self.state {
            DaemonState::Leaving { .. } if self.daemon.is_running() => {
                self.state = DaemonState::Leaving { and_returns: true };
                Ok(())
            }
            DaemonState::Running | DaemonState::Restarting { .. } if self.daemon.is_running() => Ok(()),
            _ => self.start_again(lab),
        }
    }

    /// Keeps the latest counters of the process once, before it is ended.
    fn keep_final_stats(&mut self) {
        if let Some(stats) = self.final_stats.take().filter(|_| self.should_run())
            && let Some(status) = stats.newest()
        {
            self.daemon.keep_counters(&status);
        }
    }

    /// Starts the daemon again; its node requests once it is attached.
    fn start_again(&mut self, lab: &Lab) -> Result<(), RunError> {
        // Such figures belong to the process before.
        self.final_stats = None;
        self.daemon.start(lab)?;
        let (socket, alive) = (self.socket(), self.alive.clone());
        let attached = tokio::spawn(async move {
            while !Daemon::status(socket.clone()).await.is_some_and(|status| is_ready(&status)) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            alive.send_replace(true);
        });
        self.state = DaemonState::Restarting { _until_attached: AbortOnDrop(attached.abort_handle()) };
        Ok(())
    }
}

/// True if a hub listens or a node is attached.
fn is_ready(status: &Status) -> bool {
    matches!(status.state, State::Listening | State::Attached | State::MulticastOnly)
}

/// Queries daemons by their sockets, at most [`MAX_QUERIES`] at once.
async fn query_daemons(sockets: Vec<Option<PathBuf>>) -> Vec<Option<Status>> {
    let mut answers = vec![None; sockets.len()];
    let places = Arc::new(Semaphore::new(MAX_QUERIES));
    let mut asked = JoinSet::new();
    for (index, socket) in sockets.into_iter().enumerate() {
        let Some(socket) = socket else { continue };
        let places = Arc::clone(&places);
        asked.spawn(async move {
            let _place = places.acquire().await;
            (index, Daemon::status(socket).await)
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
        READY_TIMEOUT.as_secs(),
        names.join(", "),
        names.first().copied().unwrap_or_default()
    ))
}

fn node_record(daemon: &mut Daemon, status: Option<&Status>, t: f64) -> record::NodeRecord {
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
