//! All daemons of a run: started in order, watched, asked, and ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use roost_control::{State, Status};
use roost_proto::{NodeId, Scheme, Service};
use tokio::sync::watch;

use super::daemon::{Daemon, Launch, Role};
use super::error::RunError;
use super::identities;
use super::interrupt::Interrupt;
use super::placement::{HubPlace, NodePlace, Placement};
use super::plan::{Architecture, Plan};
use super::siblings::Programs;
use crate::lab::Lab;
use crate::report::record;
use crate::scenario::topology::HostIndex;

/// Where all files that are of no use after the run are: below the results
/// folder, which is the working folder meanwhile. Paths of sockets have room
/// for 107 bytes, so these are relative.
pub(super) const RUN_FOLDER: &str = "run";
/// Where the daemons' logs are.
const LOGS: &str = "logs";
/// How long daemons may take until all are attached.
const READY: Duration = Duration::from_secs(60);
/// Time between two looks at daemons that are starting.
const LOOK: Duration = Duration::from_millis(50);
/// How long daemons may take to leave before they are killed.
const LEAVE: Duration = Duration::from_secs(3);
/// The port of a hub for UDP and TCP, and the one for QUIC.
const PORT: u16 = 7700;
const QUIC_PORT: u16 = 7701;

/// All daemons of a run: hubs first.
pub(super) struct Fleet {
    daemons: Vec<Daemon>,
    alive: Vec<watch::Sender<bool>>,
    /// Those that the plan has stopped.
    stopped: Vec<bool>,
}

/// What becomes known when all are ready.
pub(super) struct Ready {
    /// The nodes' ids, in their order.
    pub(super) ids: Vec<NodeId>,
    /// What each daemon says of itself when all of them are, hubs first.
    pub(super) statuses: Vec<Option<Status>>,
}

impl Fleet {
    /// No daemons at all.
    pub(super) const fn none() -> Self {
        Self { daemons: Vec::new(), alive: Vec::new(), stopped: Vec::new() }
    }

    /// Makes the identities and the files of all daemons; starts none.
    pub(super) fn prepare(
        plan: &Plan,
        placement: &Placement,
        lab: &Lab,
        programs: &Programs,
        interrupt: &Interrupt,
        step: impl Fn(),
    ) -> Result<Self, RunError> {
        for folder in [RUN_FOLDER, LOGS] {
            std::fs::create_dir_all(folder).map_err(|error| RunError::file("make", Path::new(folder), &error))?;
        }
        let group = Path::new(RUN_FOLDER).join("group");
        identities::make_group(programs, &group)?;
        // An empty file of its own, so that the settings of this machine's daemons stay out.
        let empty = Path::new(RUN_FOLDER).join("empty.toml");
        std::fs::write(&empty, "").map_err(|error| RunError::file("write", &empty, &error))?;
        let maker = Maker { plan, placement, lab, programs };
        let mut launches = Vec::new();
        for index in 0..placement.hubs.len() {
            launches.push(maker.hub(index)?);
        }
        for index in 0..placement.nodes.len() {
            launches.push(maker.node(index)?);
        }
        for launch in &launches {
            interrupt.check()?;
            identities::issue(programs, &group, &launch.name, launch.title, &identity(&launch.name))?;
            step();
        }
        let alive = launches.iter().map(|_| watch::Sender::new(true)).collect();
        let stopped = vec![false; launches.len()];
        Ok(Self { daemons: launches.into_iter().map(Daemon::new).collect(), alive, stopped })
    }

    /// Starts the hubs and, when they serve, the nodes; waits until all are attached.
    pub(super) async fn start(&mut self, lab: &Lab, step: impl Fn()) -> Result<Ready, RunError> {
        let deadline = Instant::now() + READY;
        let hubs = self.daemons.iter().filter(|daemon| matches!(daemon.launch.role, Role::Hub(_))).count();
        let mut statuses = vec![None; self.daemons.len()];
        for range in [0..hubs, hubs..self.daemons.len()] {
            for daemon in &mut self.daemons[range.clone()] {
                daemon.start(lab)?;
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
            for (index, daemon) in self.daemons[range.clone()].iter_mut().enumerate() {
                let place = &mut statuses[range.start + index];
                if place.is_some() {
                    continue;
                }
                if !daemon.is_running() {
                    return Err(RunError::Failed(format!("{} {}", daemon.launch.name, daemon.epitaph())));
                }
                let status = Daemon::status(daemon.launch.socket.clone()).await;
                *place =
                    status.filter(|status| matches!(status.state, State::Listening | State::Attached | State::OnLink));
                if place.is_some() {
                    step();
                }
            }
            let missing: Vec<&Daemon> =
                range.clone().filter(|i| statuses[*i].is_none()).map(|i| &self.daemons[i]).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(not_ready(&missing));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The socket of each node, and whether the node runs, in the nodes' order.
    pub(super) fn nodes(&self) -> Vec<(PathBuf, watch::Receiver<bool>)> {
        let both = self.daemons.iter().zip(&self.alive);
        let nodes = both.filter(|(daemon, _)| matches!(daemon.launch.role, Role::Node(_)));
        nodes.map(|(daemon, alive)| (daemon.launch.socket.clone(), alive.subscribe())).collect()
    }

    /// Those that have died since the last look, other than by the plan: name and how.
    pub(super) fn died(&mut self) -> Vec<(String, String)> {
        let mut died = Vec::new();
        for (index, daemon) in self.daemons.iter_mut().enumerate() {
            if *self.alive[index].borrow() && !daemon.is_running() {
                self.alive[index].send_replace(false);
                if !self.stopped[index] {
                    died.push((daemon.launch.name.clone(), daemon.epitaph()));
                }
            }
        }
        died
    }

    fn find(&mut self, host: HostIndex, hub: bool) -> Option<usize> {
        let fits = |launch: &Launch| launch.host == host && matches!(launch.role, Role::Hub(_)) == hub;
        self.daemons.iter().position(|daemon| fits(&daemon.launch))
    }

    /// Kills the daemon of a host, having asked what it has counted.
    pub(super) async fn kill(&mut self, host: HostIndex, hub: bool) {
        if let Some(index) = self.find(host, hub) {
            self.stopped[index] = true;
            self.daemons[index].keep_counters().await;
            self.daemons[index].kill();
            self.alive[index].send_replace(false);
        }
    }

    /// Asks the daemon of a host to leave, having asked what it has counted.
    pub(super) async fn stop(&mut self, host: HostIndex, hub: bool) {
        if let Some(index) = self.find(host, hub) {
            self.stopped[index] = true;
            self.daemons[index].keep_counters().await;
            self.daemons[index].leave();
        }
    }

    /// Starts the daemon of a host again, unless it runs.
    pub(super) fn restart(&mut self, lab: &Lab, host: HostIndex, hub: bool) -> Result<(), RunError> {
        let Some(index) = self.find(host, hub) else { return Ok(()) };
        if !self.daemons[index].is_running() {
            self.daemons[index].start(lab)?;
        }
        self.stopped[index] = false;
        self.alive[index].send_replace(true);
        Ok(())
    }

    /// Asks all daemons that run what they have counted.
    pub(super) async fn statuses(&mut self) -> Vec<Option<Status>> {
        let mut statuses = Vec::new();
        for (daemon, stopped) in self.daemons.iter_mut().zip(&self.stopped) {
            // One that was asked to leave has said it before.
            let runs = !stopped && daemon.is_running();
            statuses.push(if runs { Daemon::status(daemon.launch.socket.clone()).await } else { None });
        }
        statuses
    }

    /// The records of what the daemons said and used, `t` seconds after the beginning.
    pub(super) fn records(&mut self, t: f64, statuses: &[Option<Status>]) -> Vec<record::Node> {
        self.daemons.iter_mut().zip(statuses).map(|(daemon, status)| record(daemon, status.as_ref(), t)).collect()
    }

    /// How long each daemon has waited for a processor so far, seconds.
    pub(super) fn waited(&mut self) -> Vec<(String, f64)> {
        self.daemons
            .iter_mut()
            .map(|daemon| (daemon.launch.name.clone(), daemon.usage().waited.as_secs_f64()))
            .collect()
    }

    /// The daemons that gave no status though they should run.
    pub(super) fn silent(&mut self, statuses: &[Option<Status>]) -> Vec<String> {
        let all = self.daemons.iter_mut().zip(statuses).zip(&self.stopped);
        let silent = all.filter_map(|((daemon, status), stopped)| {
            (status.is_none() && !stopped && daemon.is_running()).then_some(daemon)
        });
        silent.map(|daemon| daemon.launch.name.clone()).collect()
    }

    /// Lets all leave: nodes first, since they say good-bye to their hubs.
    pub(super) async fn end(mut self) {
        let deadline = Instant::now() + LEAVE;
        for wants_hubs in [false, true] {
            let is_due = |daemon: &&mut Daemon| matches!(daemon.launch.role, Role::Hub(_)) == wants_hubs;
            self.daemons.iter_mut().filter(is_due).for_each(Daemon::leave);
            while Instant::now() < deadline && self.daemons.iter_mut().filter(is_due).any(Daemon::is_running) {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

fn not_ready(missing: &[&Daemon]) -> RunError {
    let names: Vec<&str> = missing.iter().take(5).map(|daemon| daemon.launch.name.as_str()).collect();
    let more = missing.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let said = missing.first().map(|daemon| super::daemon::said(&daemon.launch.log)).unwrap_or_default();
    RunError::Failed(format!(
        "not ready after {} s: {}{more}; of {}, {said}",
        READY.as_secs(),
        names.join(", "),
        names.first().copied().unwrap_or_default()
    ))
}

fn record(daemon: &mut Daemon, status: Option<&Status>, t: f64) -> record::Node {
    let (usage, counted) = (daemon.usage(), daemon.counted(status));
    let launch = &daemon.launch;
    record::Node {
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

fn identity(name: &str) -> PathBuf {
    Path::new(RUN_FOLDER).join(format!("{name}.id"))
}

/// Makes the command lines.
struct Maker<'a> {
    plan: &'a Plan,
    placement: &'a Placement,
    lab: &'a Lab,
    programs: &'a Programs,
}

impl Maker<'_> {
    fn hub(&self, index: usize) -> Result<Launch, RunError> {
        let hub = &self.placement.hubs[index];
        let program = self.plan.architecture.hub_program();
        let mut args =
            self.common(&hub.name, hub.host, |scheme| if scheme == Scheme::Quic { QUIC_PORT } else { PORT })?;
        let earlier = &self.placement.hubs[..index];
        if self.plan.architecture != Architecture::ClientServer {
            for peer in earlier {
                args.extend(["--peer".into(), self.endpoints(peer)?.into()]);
            }
        }
        self.launch(Role::Hub(index), &hub.name, hub.host, &hub.class, program, args)
    }

    fn node(&self, index: usize) -> Result<Launch, RunError> {
        let node: &NodePlace = &self.placement.nodes[index];
        let mut args = self.common(&node.name, node.host, |_| 0)?;
        let flag = match self.plan.architecture {
            Architecture::ClientServer => "--server",
            Architecture::SuperNode | Architecture::Multicast | Architecture::SuperNodeMulticast => "--super",
        };
        if let Some(discovery) = self.plan.architecture.discovery() {
            args.extend(["--multicast", "on", "--discovery", discovery].map(OsString::from));
        }
        for hub in &node.hubs {
            args.extend([flag.into(), self.endpoints(&self.placement.hubs[*hub])?.into()]);
        }
        let services: Vec<&str> = Service::ALL.iter().map(|service| service.name()).collect();
        args.extend(["--at".into(), node.cell.to_string().into(), "--services".into(), services.join(",").into()]);
        // All others may ask one node at once, and the publication knows no limit.
        let streams = self.placement.nodes.len().max(8);
        args.extend(["--max-streams".into(), streams.to_string().into()]);
        self.launch(Role::Node(index), &node.name, node.host, &node.class, "overlay-node", args)
    }

    fn common(&self, name: &str, host: HostIndex, port: impl Fn(Scheme) -> u16) -> Result<Vec<OsString>, RunError> {
        let address = self.address(host)?;
        let mut args: Vec<OsString> = vec!["--config".into(), Path::new(RUN_FOLDER).join("empty.toml").into()];
        args.extend(["--identity".into(), identity(name).into()]);
        args.extend(["--socket".into(), socket(name).into()]);
        for scheme in Scheme::ALL {
            args.extend(["--listen".into(), format!("{scheme}://{address}:{}", port(scheme)).into()]);
        }
        args.extend(["--drain".into(), format!("{}s", LEAVE.as_secs()).into()]);
        Ok(args)
    }

    /// A hub's endpoints as one entry, the preferred one first.
    fn endpoints(&self, hub: &HubPlace) -> Result<String, RunError> {
        let address = self.address(hub.host)?;
        let port = |scheme| if scheme == Scheme::Quic { QUIC_PORT } else { PORT };
        let schemes = self.plan.transport.preference();
        let endpoints = schemes.into_iter().map(|scheme| format!("{scheme}://{address}:{}", port(scheme)));
        Ok(endpoints.collect::<Vec<_>>().join(","))
    }

    fn address(&self, host: HostIndex) -> Result<std::net::Ipv4Addr, RunError> {
        let name = || self.lab.topology().hosts.get(host).map_or("?", |host| host.name.as_str());
        let missing = || RunError::Topology(format!("host {} is on no link or LAN, so nobody reaches it", name()));
        self.lab.address(host).ok_or_else(missing)
    }

    fn launch(
        &self,
        role: Role,
        name: &str,
        host: HostIndex,
        class: &str,
        program: &str,
        args: Vec<OsString>,
    ) -> Result<Launch, RunError> {
        Ok(Launch {
            role,
            name: name.to_owned(),
            host,
            class: class.to_owned(),
            title: match (role, self.plan.architecture) {
                (Role::Node(_), _) => "node",
                (Role::Hub(_), Architecture::ClientServer) => "server",
                (Role::Hub(_), _) => "supernode",
            },
            program: self.programs.path(program)?,
            args,
            socket: socket(name),
            log: Path::new(LOGS).join(format!("{name}.log")),
        })
    }
}

fn socket(name: &str) -> PathBuf {
    Path::new(RUN_FOLDER).join(format!("{name}.sock"))
}
