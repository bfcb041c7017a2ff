//! A plan that is read, checked against its network, and placed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roost_lab::Machines;
use roost_results::TOPOLOGY_FILE;
use roost_topology::file::changes;
use roost_topology::generate::GenerateError;
use roost_topology::model::{Action, Event, HostIndex, Topology, TopologyChange};
use roost_topology::{file, trace};

use super::error::RunError;
use super::placement::{self, Placement};
use super::plan::{Fault, FaultKind, Named, Plan, PlanError, PlanErrors, TopologySource};
use super::plan_links;
use super::plan_programs::{self, ProgramSettings};
use super::replay::Replay;
use super::rooms;
use super::script::{DaemonSlot, RunSchedule, ScheduleItem, ScheduledAction};

/// A plan, its network, and its placement. Nothing has been started.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub plan: Plan,
    pub file: PathBuf,
    pub network: Topology,
    /// The network, with the plan's faults among its events.
    pub topology: Topology,
    pub placement: Placement,
    /// Other machines that make a part of the hosts.
    pub machines: Option<Machines>,
    /// The requests, if the plan gives them one by one.
    pub replay: Option<Arc<Replay>>,
    /// The schedule beside the workload.
    pub(super) script: RunSchedule,
    /// The settings of the programs of `topology`, in their order.
    pub(super) program_settings: Vec<ProgramSettings>,
}

impl Prepared {
    /// Reads the plan in a file.
    ///
    /// # Errors
    /// Fails when the plan or its topology is wrong, or the two do not fit.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        Self::from_text(&Plan::text(path)?, path)
    }

    /// Prepares the plan in `text`, as if it were the content of `file`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_text(text: &str, file: &Path) -> Result<Self, RunError> {
        let mut plan = Plan::parse(text, file)?;
        let mut network = network(&plan.topology, file)?;
        if change_network(&mut network, text, file)? && !matches!(plan.topology, TopologySource::File(_)) {
            // No generator makes this network: the file in the results has it.
            plan.topology = TopologySource::File(TOPOLOGY_FILE.into());
        }
        plan_links::apply(&plan, &mut network, file)?;
        Self::from_plan(plan, network, file)
    }

    /// Prepares a plan on the given network instead of its own.
    ///
    /// # Errors
    /// Fails when the two do not fit.
    pub fn from_plan(mut plan: Plan, mut network: Topology, file: &Path) -> Result<Self, RunError> {
        trace::gather(&mut network);
        plan_links::name_traces(&mut plan, &network);
        let placement = placement::place(&plan, &network, file)?;
        rooms::check(&plan, &placement, &network, file)?;
        let replay = replay(&mut plan, &placement, file)?;
        plan.capture.iter().try_for_each(|capture| capture.nets(&network, file).map(drop))?;
        if plan.movement.is_some() && network.motion.cell_m.is_some() {
            let message = "the topology moves its hosts: leave `[movement]` out, or `cell` of its [motion]";
            return Err(PlanError::new(file, 0, message).into());
        }
        name_hub(&mut plan, &network, &placement);
        let mut topology = network.clone();
        let program_settings = plan_programs::add(&mut plan, &mut topology, file)?;
        let daemons = Faults { file, placement: &placement }.schedule(&plan, &mut topology)?;
        let mut script = RunSchedule::from_topology(&topology);
        daemons.into_iter().for_each(|item| script.add(Some(item)));
        Ok(Self {
            plan,
            file: file.to_owned(),
            network,
            topology,
            placement,
            machines: None,
            replay,
            script,
            program_settings,
        })
    }

    /// The plan with every default filled in, for the results, so that it can be repeated exactly.
    pub fn effective(&self) -> String {
        super::plan::write(&self.plan, &self.placement, &self.network)
    }

    /// The text of the network for the results.
    pub fn network_file(&self) -> String {
        file::write(&self.network, "")
    }

    /// Writes the requests of a replay into the folder of results.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn keep_replay(&self, folder: &Path) -> io::Result<()> {
        let keep = |replay: &Arc<Replay>| std::fs::write(folder.join(replay.file_name()), replay.text());
        self.replay.as_ref().map_or(Ok(()), keep)
    }

    /// The topology's file, or the plan's file if it generates one.
    pub(super) fn topology_file(&self) -> PathBuf {
        match &self.plan.topology {
            TopologySource::File(path) => self.file.parent().unwrap_or(Path::new("")).join(path),
            _ => self.file.clone(),
        }
    }
}

/// Reads the plan's replay, and names it in the plan as results keep it.
fn replay(plan: &mut Plan, placement: &Placement, file: &Path) -> Result<Option<Arc<Replay>>, PlanError> {
    let Some(named) = plan.replay.clone() else { return Ok(None) };
    let replay = Replay::load(&named, plan, &placement.nodes, file)?;
    plan.replay = Some(Named { name: replay.file_name(), ..named });
    Ok(Some(Arc::new(replay)))
}

/// The name for the hub of any architecture in faults, unless a host of the network has this name.
const HUB: &str = "hub";

/// Replaces `hub` in faults by the host of the first hub.
fn name_hub(plan: &mut Plan, network: &Topology, placement: &Placement) {
    let Some(first) = placement.hubs.first().filter(|_| network.host_index(HUB).is_none()) else { return };
    for fault in &mut plan.faults {
        if let FaultKind::Daemon(daemon, _) = &mut fault.kind
            && daemon.host.name == HUB
        {
            daemon.host.name.clone_from(&network.hosts[first.host].name);
            daemon.hub = true;
        }
    }
}

fn network(source: &TopologySource, file: &Path) -> Result<Topology, RunError> {
    match source {
        TopologySource::File(path) => {
            let path = file.parent().unwrap_or(Path::new("")).join(path);
            roost_ns::load(&path).map_err(|error| RunError::Topology(error.to_string()))
        }
        TopologySource::Star(star) => star.topology().map_err(|error| RunError::Topology(in_plan(file, &error))),
        TopologySource::Forest(forest) => forest.topology().map_err(|error| RunError::Topology(in_plan(file, &error))),
        TopologySource::Tree(tree) => tree.topology().map_err(|error| RunError::Topology(in_plan(file, &error))),
    }
}

/// Applies the changes in the plan's table `topology`; false if there are none.
fn change_network(network: &mut Topology, text: &str, file: &Path) -> Result<bool, PlanError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    changes::apply(network, folder, text).map_err(|notes| {
        let mut wrong = PlanErrors::default();
        for note in &notes {
            wrong.record_error(Err(PlanError::new(file, note.line as usize, note.text.clone())));
        }
        wrong.joined().unwrap_or_else(|| PlanError::new(file, 0, "its topology cannot be changed"))
    })
}

fn in_plan(file: &Path, error: &GenerateError) -> String {
    format!("{}: topology: {error}", file.display())
}

struct Faults<'a> {
    file: &'a Path,
    placement: &'a Placement,
}

impl Faults<'_> {
    /// Adds faults of links to the topology's events, where they are exact. They go to the end, since events
    /// refer to each other by index. Returns the faults of daemons.
    fn schedule(&self, plan: &Plan, topology: &mut Topology) -> Result<Vec<ScheduleItem>, PlanError> {
        let (mut items, mut wrong) = (Vec::new(), PlanErrors::default());
        for fault in &plan.faults {
            match &fault.kind {
                FaultKind::Net { net, from, changes } => {
                    wrong.record_error(self.schedule_net(fault, net, from.as_ref(), changes, topology));
                }
                FaultKind::Daemon(daemon, deed) => {
                    let found = self.daemon(topology, &daemon.host, daemon.hub).map(Some);
                    let Some(host) = wrong.value_or(found, None) else { continue };
                    let (object, what) = (daemon.host.name.clone(), daemon.describe_action(*deed));
                    let act = ScheduledAction::Daemon(DaemonSlot { host, is_hub: daemon.hub }, *deed);
                    items.push(ScheduleItem { at: fault.at, after: None, object, what, act });
                }
            }
        }
        wrong.into_result().map(|()| items)
    }

    fn schedule_net(
        &self,
        fault: &Fault,
        net: &Named,
        from: Option<&Named>,
        changes: &[TopologyChange],
        topology: &mut Topology,
    ) -> Result<(), PlanError> {
        let index = plan_links::net(topology, net, self.file)?;
        let host = |named: &Named| placement::host(topology, named, self.file);
        let side = from.map(host).transpose()?;
        if let Some((side, named)) = side.zip(from)
            && topology.nets[index].members.iter().all(|member| member.host != side)
        {
            let message = format!("host {} is not on {}", named.name, net.name);
            return Err(PlanError::new(self.file, named.line, message));
        }
        for change in changes {
            let action = Action::Net { net: index, from: side, change: *change };
            let line = u32::try_from(net.line).unwrap_or(0);
            topology.events.push(Event { at: fault.at, object: net.name.clone(), line, after: None, action });
        }
        Ok(())
    }

    /// The host, if such a daemon runs there.
    fn daemon(&self, topology: &Topology, named: &Named, hub: bool) -> Result<HostIndex, PlanError> {
        let error = |message| PlanError::new(self.file, named.line, message);
        if named.name == HUB && topology.host_index(HUB).is_none() {
            return Err(error("no super node or server runs in this architecture".to_owned()));
        }
        let host = placement::host(topology, named, self.file)?;
        let runs_hub = self.placement.hubs.iter().any(|place| place.host == host);
        let runs_node = self.placement.nodes.iter().any(|place| place.host == host);
        match hub {
            true if !runs_hub => Err(error(format!("no super node or server runs on host {}", named.name))),
            false if !runs_node && runs_hub => {
                Err(error(format!("host {} runs a hub and no node: add hub = true", named.name)))
            }
            false if !runs_node => Err(error(format!("nothing runs on host {}", named.name))),
            _ => Ok(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PLAN: &str = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '60s'\n";

    fn prepared(more: &str) -> Result<Prepared, String> {
        Prepared::from_text(&format!("{PLAN}{more}"), Path::new("p.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn link_faults_become_topology_events() {
        let faults = "[[faults]]\nat = '9s'\nchange = 'net'\nfrom = 'server'\ndelay = '1s'\nloss = 0.5\n\
            [[faults]]\nat = '3s'\nkill = 'node1'\nhub = true\n";
        let prepared = prepared(faults).unwrap();
        assert!(prepared.network.events.is_empty());
        assert_eq!(prepared.topology.events.len(), 2);
        let told = prepared.script.told();
        let expected = [
            (Duration::from_secs(3), "the hub on node1 is killed"),
            (Duration::from_secs(9), "the delay of net, from server is 1s"),
            (Duration::from_secs(9), "the loss of net, from server is 50 %"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn faults_of_unknown_targets_are_refused() {
        let fault = |what: &str| prepared(&format!("[[faults]]\nat = '9s'\n{what}\n")).unwrap_err();
        assert_eq!(fault("kill = 'sever'"), "p.toml:6: the topology has no host `sever`; did you mean `server`?");
        assert_eq!(fault("kill = 'server'"), "p.toml:6: nothing runs on host server");
        assert_eq!(fault("kill = 'node2'\nhub = true"), "p.toml:6: no super node or server runs on host node2");
        assert_eq!(fault("down = 'nut'"), "p.toml:6: the topology has no link or LAN `nut`; did you mean `net`?");
        assert_eq!(fault("down = 'net'\nfrom = 'x'"), "p.toml:7: the topology has no host `x`");
    }

    #[test]
    fn fault_of_hub_hits_whichever_runs() {
        for (architecture, host) in [("super-node", "node1"), ("client-server", "server")] {
            let plan = PLAN.replace("super-node", architecture) + "[[faults]]\nat = '50%'\nkill = 'hub'\n";
            let prepared = Prepared::from_text(&plan, Path::new("p.toml")).unwrap();
            let told = prepared.script.told();
            assert_eq!(told, [(Duration::from_secs(30), format!("the hub on {host} is killed").as_str())]);
            assert!(prepared.effective().contains(&format!("kill = \"{host}\"\nhub = true")));
        }
        let plan = PLAN.replace("super-node", "multicast") + "[[faults]]\nat = '9s'\nkill = 'hub'\n";
        let error = Prepared::from_text(&plan, Path::new("p.toml")).unwrap_err().to_string();
        assert_eq!(error, "p.toml:6: no super node or server runs in this architecture");
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let plan = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '60s'\ntimeout = '0s'\n\
                    name = '-x'\nsuper_nodes = 0\n[[faults]]\nat = '70s'\nkill = 'node1'\n\
                    [[faults]]\nat = '100%'\nkill = 'node1'\n";
        let all = |plan: &str| Prepared::from_text(plan, Path::new("p.toml")).unwrap_err().to_string();
        let lines: Vec<String> = all(plan).lines().map(str::to_owned).collect();
        let begins = [
            "p.toml:4: it must be longer",
            "p.toml:5: a name is",
            "p.toml:6: at least one",
            "p.toml:8: at 70s",
            "p.toml:11: `at` of a fault: `100%` is no part of the duration",
        ];
        assert!(lines.len() == 5 && lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{lines:?}");
        let faults = "[[faults]]\nat = '9s'\nkill = 'x'\n[[faults]]\nat = '9s'\ndown = 'y'\n";
        assert_eq!(prepared(faults).unwrap_err().lines().count(), 2);
    }

    #[test]
    fn type_errors_reported_with_others() {
        let plan = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '60s'\nseed = 'x'\n\
                    timeout = '0s'\nstream = 5\nsuper_nodes = 0\nwindow = [1,\n2]\n[lab]\ntcp = 3\n";
        let told = |plan: &str| {
            let all = Prepared::from_text(plan, Path::new("p.toml")).unwrap_err().to_string();
            let line = |told: &str| told.strip_prefix("p.toml:")?.split(": ").next()?.parse().ok();
            all.lines().filter_map(line).collect::<Vec<u32>>()
        };
        assert_eq!(told(plan), [4, 5, 6, 7, 8, 11]);
        assert_eq!(told(&plan.replace("window = [1,\n2]\n", "")), [4, 5, 6, 7, 9]);
    }

    #[test]
    fn links_are_what_the_plan_says() {
        let links = "[links.net]\ndelay = '30ms'\nloss = 0.1\n";
        let first = prepared(links).unwrap();
        let pipe = |prepared: &Prepared| {
            let members = &prepared.network.nets[0].members;
            members[0].to_net.joined(&members[1].from_net)
        };
        let leg = pipe(&first);
        assert!(leg.delay == Duration::from_millis(30) && (leg.loss - 0.1).abs() < 1e-9, "{leg:?}");
        // The plan and network in the results must make the same run.
        let again = Prepared::from_text(&first.effective(), Path::new("q.toml")).unwrap();
        assert_eq!((again.network_file(), again.effective()), (first.network_file(), first.effective()));
        let wrong = |more: &str| prepared(more).unwrap_err();
        assert_eq!(
            wrong("[links.nat]\ndelay = '1s'\n"),
            "p.toml:4: the topology has no link or LAN `nat`; did you mean `net`?"
        );
        assert_eq!(wrong("[links.net]\nloss = 2.0\n"), "p.toml:5: a loss is a probability from 0 to 1");
    }

    #[test]
    fn traces_of_links_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.toml");
        for name in ["a", "b"] {
            std::fs::write(folder.path().join(name), format!("time_s,rate_mbps\n0,1\n1,{}\n", name.len() + 1)).unwrap();
        }
        std::fs::write(folder.path().join("b"), "1\n").unwrap();
        std::fs::write(
            folder.path().join("n.toml"),
            "[[host]]\nname = ['node1', 'node2']\n[[link]]\nname = 'x'\nbetween = ['node1', 'node2']\nrate = '1Mbit'\n",
        )
        .unwrap();
        let text = "topology = 'n.toml'\narchitecture = 'super-node'\nduration = '60s'\n[links.x]\ntrace = 'a'\n\
                    down.trace = { file = 'b', start = '1s' }\nburst = { enter = 0.1, leave = 0.5 }\nreorder = true\n\
                    queue = { limit = 7 }\n";
        let first = Prepared::from_text(text, &file).unwrap();
        let results = tempfile::tempdir().unwrap();
        trace::keep(&first.network, results.path()).unwrap();
        std::fs::write(results.path().join("topology.toml"), first.network_file()).unwrap();
        let again = Prepared::from_text(&first.effective(), &results.path().join("plan.toml")).unwrap();
        assert_eq!((again.network_file(), again.effective()), (first.network_file(), first.effective()));
        assert_eq!(trace::digests(&again.network).len(), 2);
        let wrong = |from: &str, to: &str| Prepared::from_text(&text.replace(from, to), &file).unwrap_err().to_string();
        assert!(wrong("'a'", "'c'").contains("p.toml:5: the trace"), "{}", wrong("'a'", "'c'"));
        assert!(wrong("leave = 0.5", "leave = 0.0").contains("p.toml:7: "));
        assert!(wrong("enter = 0.1, ", "").contains("p.toml:7: a burst needs `enter`"));
    }

    #[test]
    fn radios_are_not_changed_or_captured() {
        let folder = tempfile::tempdir().unwrap();
        let topology = "lenient = true\n[[host]]\nname = ['a', 'b']\n[[motion.host]]\nname = 'a'\nposition = [0, 0]\n\
            [[motion.host]]\nname = 'b'\nposition = [9, 0]\n[[radio]]\nname = 'r'\nmembers = ['a', 'b']\n\
            frequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\nrate = '8Mbit'\nrange = '1km'\n";
        std::fs::write(folder.path().join("n.toml"), topology).unwrap();
        let told = |more: &str| {
            let plan = format!("topology = 'n.toml'\narchitecture = 'multicast'\nduration = '60s'\n{more}\n");
            Prepared::from_text(&plan, &folder.path().join("p.toml")).map_err(|error| error.to_string())
        };
        assert!(told("").is_ok(), "{:?}", told(""));
        for more in [
            "[links.r]\ndelay = '9ms'",
            "[links.r]\ntrace = 'x'",
            "[[faults]]\nat = '9s'\ndown = 'r'",
            "[[faults]]\nat = '9s'\nchange = 'r'\nloss = 0.5",
            "capture = 'r'",
            "capture = 'all'",
        ] {
            assert!(told(more).unwrap_err().contains("`r` is a radio"), "{more}");
        }
    }

    #[test]
    fn fault_after_workload_is_refused() {
        let fault = |at: &str| prepared(&format!("[[faults]]\nat = '{at}'\nkill = 'node2'\n"));
        assert_eq!(fault("60s").unwrap_err(), "p.toml:5: at 60s nodes ask no more: the plan's duration is 60s");
        assert!(fault("59s").is_ok());
    }

    #[test]
    fn short_drain_warns() {
        assert!(
            prepared("").unwrap().warnings().is_empty() && prepared("drain = '40s'\n").unwrap().warnings().is_empty()
        );
        let warnings = prepared("drain = '39s'\n").unwrap().warnings();
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("p.toml: a drain of 39s cuts requests off"),
            "{warnings:?}"
        );
    }

    #[test]
    fn effective_plan_runs_the_same() {
        let first = prepared(
            "super_nodes = 2\n[[faults]]\nat = '9s'\nchange = 'net'\nrate = '1Mbit'\n\
             [[faults]]\nat = '10s'\nup = 'net'\n[[faults]]\nat = '11s'\nstop = 'node2'\n",
        )
        .unwrap();
        let text = first.effective();
        let second = Prepared::from_text(&text, Path::new("q.toml")).unwrap();
        assert_eq!(second.effective(), text);
        assert_eq!((second.script, second.topology.events.len()), (first.script, 2));
        assert_eq!(second.placement.hubs, first.placement.hubs);
        assert!(text.contains("super_nodes = [\"node1\", \"node2\"]") && text.contains("idle = \"1s\""), "{text}");
    }

    #[test]
    fn effective_plan_keeps_tree_shape() {
        let tree = "{ tree = { nodes = 12, x45 = 2, tactical = 4, low_delay = '30ms', server_delay = '300ms' } }";
        let text = PLAN.replace("{ star = { nodes = 4 } }", tree);
        let first = Prepared::from_text(&text, Path::new("p.toml")).unwrap();
        let second = Prepared::from_text(&first.effective(), Path::new("q.toml")).unwrap();
        assert_eq!(second.plan.topology, first.plan.topology);
        assert!(
            matches!(&second.plan.topology, TopologySource::Tree(tree) if tree.shape.low == 6 && tree.low.delay.as_millis() == 30)
        );
    }
}
