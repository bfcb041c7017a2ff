//! Programs of a topology.

use roost_topology::emulab;
use roost_topology::model::{HostIndex, HostProgram, Topology};
use roost_topology::validate::TopologyLines;

use super::{NsIndexMap, PLAIN, refuse, variable};
use crate::state::{NsObject, NsObjectKind, NsState};
use crate::tcl::completion::TclCompletion;
use crate::units;

/// Adds the programs of the file's hosts; returns the names of those on Emulab's own server.
pub(super) fn add(
    world: &NsState,
    topology: &mut Topology,
    places: &mut NsIndexMap,
    lines: &mut TopologyLines,
) -> Result<Vec<String>, TclCompletion> {
    let mut on_ops = Vec::new();
    for (id, object) in world.objects().filter(|(_, object)| matches!(object.kind, NsObjectKind::Program)) {
        let name = &object.name;
        let host = match variable(object, "node") {
            "ops" => {
                on_ops.push(name.clone());
                continue;
            }
            "" => return refuse(object, &format!("the program \"{name}\" has no node: set it with \"set node\"")),
            node => match world.find(node).and_then(|id| places.hosts.get(&id)) {
                Some(host) => *host,
                None => return refuse(object, &format!("the program \"{name}\" is on \"{node}\", which is no node")),
            },
        };
        if variable(object, "command").contains('\n') {
            return refuse(object, &format!("the command of \"{name}\" has more than one line"));
        }
        places.programs.insert(id, topology.programs.len());
        lines.programs.push(object.line);
        topology.programs.push(program(object, host));
    }
    Ok(on_ops)
}

fn program(object: &NsObject, host: HostIndex) -> HostProgram {
    let text = |name: &str| Some(variable(object, name)).filter(|text| !text.is_empty());
    let command = variable(object, "command");
    let program = HostProgram {
        name: object.name.clone(),
        host,
        command: variable(object, PLAIN).to_owned(),
        folder: text("dir").map(str::to_owned),
        timeout: text("timeout").and_then(|text| units::time(text).ok()),
        expected_exit: text("expected-exit-code").and_then(|code| code.parse().ok()),
        start_command: true,
    };
    // A start command, unless the file has set another one later.
    match !program.command.is_empty() && emulab::command(&program) == command {
        true => program,
        false => HostProgram { command: command.to_owned(), start_command: false, ..program },
    }
}
