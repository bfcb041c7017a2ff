//! The input of a run: a plan, or a network with its own programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roost_lab::Machines;
use roost_topology::model::{Action, ProgramAction, Topology, TrafficAction};

use super::error::RunError;
use super::outlook::SET_UP;
use super::plan::{CapturePlan, LabSettings};
use super::prepare::Prepared;
use super::script::RunSchedule;

/// A network that runs by itself: its programs, its traffic, its schedule.
#[derive(Clone, Debug)]
pub struct NetworkRun {
    pub file: PathBuf,
    pub topology: Topology,
    pub seed: u64,
    /// The latest end. Without it the run ends by its schedule, or when all programs have ended and no event is
    /// left.
    pub length: Option<Duration>,
    /// True to test the links before the run.
    pub linktest: bool,
    pub lab: LabSettings,
    pub capture: Option<CapturePlan>,
    /// Other machines that make a part of the hosts.
    pub machines: Option<Machines>,
}

impl NetworkRun {
    /// Reads the topology in a file; the seed is 1, and other settings are a plan's defaults.
    ///
    /// # Errors
    /// Fails when the topology is wrong.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        let mut topology = roost_ns::load(path).map_err(|error| RunError::Topology(error.to_string()))?;
        roost_topology::trace::gather(&mut topology);
        let (file, lab) = (path.to_owned(), LabSettings::default());
        Ok(Self { file, topology, seed: 1, length: None, linktest: true, lab, capture: None, machines: None })
    }

    /// Describes the run for people, as pairs of a title and a value.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let Topology { name, hosts, nets, programs, traffic, .. } = &self.topology;
        vec![
            ("network", format!("{name}, {} hosts, {} links and LANs", hosts.len(), nets.len())),
            ("programs", programs.len().to_string()),
            ("traffic agents", traffic.len().to_string()),
            ("happenings", RunSchedule::from_topology(&self.topology).left().to_string()),
            ("seed", self.seed.to_string()),
        ]
    }

    /// The longest total time of the run, if it does not end by itself.
    pub fn longest(&self) -> Option<Duration> {
        self.length.map(|length| SET_UP + length)
    }

    /// Checks that the run does something and ends.
    ///
    /// # Errors
    /// Fails when it does not; the message has advice.
    pub fn check(&self) -> Result<(), RunError> {
        let wrong = |what: &str| Err(RunError::Topology(format!("{}: {what}", self.file.display())));
        self.capture.iter().try_for_each(|capture| capture.nets(&self.topology, &self.file).map(drop))?;
        let events = &self.topology.events;
        let starts = |action: &Action| {
            matches!(action, Action::Program { what: ProgramAction::Start(_) | ProgramAction::Run(_), .. })
                || matches!(action, Action::Traffic { what: TrafficAction::Start, .. })
        };
        if self.length.is_none() && !events.iter().any(|event| starts(&event.action)) {
            return wrong(
                "nothing starts a program or traffic: say how long to run with --for, or use `emulate shell`",
            );
        }
        let ends = events.iter().any(|event| event.action == Action::Halt);
        let forever = |agent: usize| {
            let of = |wanted: TrafficAction| {
                let is = |action: &Action| matches!(action, Action::Traffic { agent: a, what } if *a == agent && *what == wanted);
                events.iter().any(|event| is(&event.action))
            };
            of(TrafficAction::Start) && !of(TrafficAction::Stop)
        };
        if self.length.is_none() && !ends && (0..self.topology.traffic.len()).any(forever) {
            return wrong("nothing stops its traffic: say how long to run with --for, or halt it in the schedule");
        }
        Ok(())
    }
}

/// A run of a plan or of a network.
pub(super) struct RunSpec<'a> {
    pub(super) name: &'a str,
    /// The network in the form kept in the results.
    pub(super) network: &'a Topology,
    /// The network as it runs, with the additional schedule.
    pub(super) topology: &'a Topology,
    pub(super) script: RunSchedule,
    /// The start of programs' relative folders.
    pub(super) base: PathBuf,
    pub(super) seed: u64,
    pub(super) lab: LabSettings,
    pub(super) machines: Option<&'a Machines>,
    pub(super) linktest: bool,
    pub(super) capture: Option<&'a CapturePlan>,
    /// The time for which nodes send requests, or the network runs.
    pub(super) length: Option<Duration>,
    pub(super) plan: Option<&'a Prepared>,
    pub(super) varied: BTreeMap<String, String>,
}

impl<'a> RunSpec<'a> {
    pub(super) fn of_plan(prepared: &'a Prepared, varied: &BTreeMap<String, String>) -> Self {
        let Prepared { plan, network, topology, script, .. } = prepared;
        Self {
            name: &plan.name,
            network,
            topology,
            script: script.clone(),
            base: folder_of(&prepared.topology_file()),
            seed: plan.seed,
            lab: plan.lab.clone(),
            machines: prepared.machines.as_ref(),
            linktest: plan.linktest,
            capture: plan.capture.as_ref(),
            length: Some(plan.duration),
            plan: Some(prepared),
            varied: varied.clone(),
        }
    }

    /// The run of a network by itself.
    pub(super) fn of_network(solo: &'a NetworkRun) -> Self {
        let topology = &solo.topology;
        Self {
            name: &topology.name,
            network: topology,
            topology,
            script: RunSchedule::from_topology(topology),
            base: folder_of(&solo.file),
            seed: solo.seed,
            lab: solo.lab.clone(),
            machines: solo.machines.as_ref(),
            linktest: solo.linktest,
            capture: solo.capture.as_ref(),
            length: solo.length,
            plan: None,
            varied: BTreeMap::new(),
        }
    }
}

/// The absolute folder of a file, which stays valid when the working folder changes.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = "[defaults]\nrate = '1Mbit'\n[[host]]\nname = ['a', 'b']\n[[link]]\nbetween = ['a', 'b']\n\
        [[program]]\nname = 'p'\nhost = 'a'\ncommand = 'true'\n[[traffic]]\nname = 'c'\nhost = 'a'\nrole = 'source'\n\
        target = 'b'\nport = 5001\nrate = '8kbit'\n";

    fn check(events: &str, length: Option<Duration>) -> Result<(), String> {
        let file = PathBuf::from("pair.toml");
        let topology = roost_ns::load_text(&file, &format!("{PAIR}{events}")).unwrap();
        let (seed, linktest, lab) = (1, false, LabSettings::default());
        NetworkRun { file, topology, seed, length, linktest, lab, capture: None, machines: None }
            .check()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn idle_or_endless_run_is_refused() {
        assert!(check("", None).unwrap_err().starts_with("pair.toml: nothing starts a program or traffic"));
        assert_eq!(check("", Some(Duration::from_secs(1))), Ok(()));
        let start = "[[event]]\nat = '0s'\ntraffic = 'c'\ndo = 'start'\n";
        assert!(check(start, None).unwrap_err().contains("nothing stops its traffic"));
        assert_eq!(check(&format!("{start}[[event]]\nat = '1s'\ntraffic = 'c'\ndo = 'stop'\n"), None), Ok(()));
        assert_eq!(check(&format!("{start}[[event]]\nat = '1s'\ndo = 'halt'\n"), None), Ok(()));
        assert_eq!(check("[[event]]\nat = '0s'\nprogram = 'p'\ndo = 'start'\n", None), Ok(()));
    }
}
