//! A plan's programs, as programs of its network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use roost_topology::model::{Action, Event, HostIndex, HostProgram, ProgramAction, Topology};

use super::placement;
use super::plan::{Plan, PlanError, PlanErrors, PlanProgram, ProgramHosts};

/// The most programs of a plan: as many as hosts of a lab.
const MAX_PROGRAMS: usize = 4096;

/// The settings of a program that a topology cannot describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramSettings {
    /// True for a program of the plan: an exit code that it names is expected however the program ends.
    pub(super) is_of_plan: bool,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) root: Option<PathBuf>,
    pub(super) is_silent: bool,
}

/// Adds the plan's programs and their starts and stops to its network, and makes their folders absolute. Returns the
/// settings of all programs of the network, in their order.
pub(super) fn add(plan: &mut Plan, topology: &mut Topology, file: &Path) -> Result<Vec<ProgramSettings>, PlanError> {
    let mut wrong = PlanErrors::default();
    find_folders(plan, file, &mut wrong);
    let settings = add_all(plan, topology, file, &mut wrong);
    wrong.into_result().map(|()| settings)
}

/// Makes folders absolute, so that a copy of the plan finds them.
fn find_folders(plan: &mut Plan, file: &Path, wrong: &mut PlanErrors) {
    let base = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let absolute = |folder: &str| {
        let folder = base.join(folder);
        // Without `..`, if the folder exists.
        folder.canonicalize().or_else(|_| std::path::absolute(&folder)).unwrap_or(folder)
    };
    for program in &mut plan.programs {
        if let Some(root) = &mut program.root {
            let folder = absolute(&root.name);
            if !folder.is_dir() {
                let message = format!("there is no folder {} for the root of {}", folder.display(), program.name.name);
                wrong.record_error(Err(PlanError::new(file, root.line, message)));
            }
            root.name = folder.display().to_string();
        } else {
            let folder = absolute(program.folder.as_deref().unwrap_or(""));
            if !folder.is_dir() {
                let message = format!("there is no folder {} for {}", folder.display(), program.name.name);
                wrong.record_error(Err(PlanError::new(file, program.name.line, message)));
            }
            program.folder = Some(folder.display().to_string());
        }
    }
}

fn add_all(plan: &Plan, topology: &mut Topology, file: &Path, wrong: &mut PlanErrors) -> Vec<ProgramSettings> {
    let mut settings = vec![ProgramSettings::default(); topology.programs.len()];
    for program in &plan.programs {
        let hosts = wrong.value_or(hosts(program, topology, file), Vec::new());
        for host in &hosts {
            let name = match hosts.len() {
                1 => program.name.name.clone(),
                _ => format!("{}-{}", program.name.name, topology.hosts[*host].name),
            };
            if topology.programs.iter().any(|other| other.name == name) {
                let message = format!("two programs have the name `{name}`");
                wrong.record_error(Err(PlanError::new(file, program.name.line, message)));
                break;
            }
            add_one(program, HostProgram { name, host: *host, ..HostProgram::default() }, topology);
            settings.push(ProgramSettings {
                is_of_plan: true,
                environment: program.environment.clone(),
                root: program.root.as_ref().map(|root| PathBuf::from(&root.name)),
                is_silent: !program.measure,
            });
        }
        if settings.len() > MAX_PROGRAMS {
            let message = format!("there are more than {MAX_PROGRAMS} programs");
            wrong.record_error(Err(PlanError::new(file, program.name.line, message)));
            break;
        }
    }
    settings
}

fn add_one(program: &PlanProgram, named: HostProgram, topology: &mut Topology) {
    let index = topology.programs.len();
    let line = u32::try_from(program.name.line).unwrap_or(0);
    let actions = [(Some(program.start), ProgramAction::Start(None)), (program.stop, ProgramAction::Stop)];
    for (at, what) in actions {
        let Some(at) = at else { continue };
        let action = Action::Program { program: index, what };
        topology.events.push(Event { at, object: named.name.clone(), line, after: None, action });
    }
    topology.programs.push(HostProgram {
        command: program.command.clone(),
        folder: program.folder.clone(),
        timeout: program.timeout,
        expected_exit: program.exit,
        ..named
    });
}

fn hosts(program: &PlanProgram, topology: &Topology, file: &Path) -> Result<Vec<HostIndex>, PlanError> {
    match &program.hosts {
        ProgramHosts::Hosts(hosts) => hosts.iter().map(|named| placement::host(topology, named, file)).collect(),
        ProgramHosts::Class(class) => {
            let is_in = |host: &HostIndex| placement::class_of(topology, *host) == class.name;
            let hosts: Vec<HostIndex> = (0..topology.hosts.len()).filter(is_in).collect();
            if hosts.is_empty() {
                let message = format!("no host is of class `{}`", class.name);
                return Err(PlanError::new(file, class.line, message));
            }
            Ok(hosts)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::prepare::Prepared;
    use super::*;

    const PLAN: &str = "topology = { star = { nodes = 4 } }\narchitecture = 'programs'\nduration = '60s'\n";

    fn prepared(more: &str) -> Result<Prepared, String> {
        Prepared::from_text(&format!("{PLAN}{more}"), Path::new("p.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn programs_join_the_network() {
        let text = "[environment]\nsystem = 'x'\nround = 3\n[[program]]\nname = 'serve'\nhost = 'server'\n\
            command = 'true'\nstop = '50%'\nexit = 0\n[[program]]\nname = 'ask'\nhost = 'node[1-2]'\ncommand = 'true'\n\
            start = '1s'\nenvironment = { TRIES = 2 }\nmeasure = false\n";
        let prepared = prepared(text).unwrap();
        let names: Vec<&str> = prepared.topology.programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["serve", "ask-node1", "ask-node2"]);
        assert!(prepared.network.programs.is_empty() && prepared.placement.nodes.is_empty());
        let told = prepared.script.told();
        let times: Vec<(Duration, &str)> = told.into_iter().filter(|(at, _)| at.as_secs() != 1).collect();
        assert_eq!(times, [(Duration::ZERO, "serve is started"), (Duration::from_secs(30), "serve is stopped")]);
        let ask = &prepared.program_settings[1];
        assert!(ask.is_of_plan && ask.is_silent && ask.environment["TRIES"] == "2");
        assert_eq!(prepared.plan.environment["round"], "3");
        let again = Prepared::from_text(&prepared.effective(), Path::new("q.toml")).unwrap();
        assert_eq!(again.effective(), prepared.effective());
    }

    #[test]
    fn all_mistakes_of_programs_are_told() {
        let text = "[[program]]\nname = 'a'\nhost = 'nod1'\ncommand = 'x'\n[[program]]\nname = 'b'\nclass = 'low'\n\
            command = 'x'\n[[program]]\nname = 'c'\nhost = 'node1'\ncommand = 'x'\nroot = 'no/such'\n";
        let told = prepared(text).unwrap_err();
        assert!(told.contains("p.toml:16: there is no folder"), "{told}");
        assert!(told.starts_with("p.toml:6: the topology has no host `nod1`; did you mean `node1`?"), "{told}");
        assert!(told.contains("p.toml:10: no host is of class `low`"), "{told}");
    }

    #[test]
    fn wrong_programs_are_refused_with_lines() {
        let with = |keys: &str| {
            let text = format!("[[program]]\nname = 'a'\nhost = 'node1'\ncommand = 'x'\n{keys}\n");
            prepared(&text).map(|_| String::new()).unwrap_or_else(|told| told)
        };
        assert_eq!(with("exit = 3"), "");
        assert!(
            prepared("[[program]]\nname = 'a.out'\nhost = 'node1'\ncommand = 'x'\n")
                .unwrap_err()
                .contains("p.toml:5: ")
        );
        assert!(with("exit = 300").contains("p.toml:8: an exit code is from 0 to 255"));
        assert!(with("start = '60s'").contains("p.toml:8: it starts at 60s"));
        assert!(with("start = '5s'\nstop = '5s'").contains("p.toml:9: it stops at 5s"));
        assert!(with("environment = { EMULATE_SEED = 1 }").contains("set by the run"));
        assert!(with("environment = { 'a b' = 1 }").contains("names no variable"));
        assert!(with("class = 'low'").contains("either host = \"a\" or class"));
        assert!(with("[[program]]\nname = 'a'\nhost = 'node2'\ncommand = 'x'").contains("two programs have the name"));
        assert!(with("starts = '1s'").contains("starts"));
        assert!(prepared("").unwrap_err().contains("needs a [[program]]"));
    }
}
