//! Programs of a topology.

use super::{PLAIN, Places, refuse, variable};
use crate::ns::tcl::flow::Flow;
use crate::ns::units;
use crate::ns::world::{Kind, World};
use crate::scenario::emulab;
use crate::scenario::topology::{Program, Topology};
use crate::scenario::validate::Lines;

/// Adds the programs of the file's hosts; gives the names of those that are on
/// Emulab's own server.
pub(super) fn add(
    world: &World,
    topology: &mut Topology,
    places: &mut Places,
    lines: &mut Lines,
) -> Result<Vec<String>, Flow> {
    let mut on_ops = Vec::new();
    for (id, object) in world.objects().filter(|(_, object)| matches!(object.kind, Kind::Program)) {
        let (node, command) = (variable(object, "node"), variable(object, "command"));
        if command.contains('\n') {
            return refuse(object, &format!("the command of \"{}\" has more than one line", object.name));
        }
        let host = match node {
            "ops" => {
                on_ops.push(object.name.clone());
                continue;
            }
            "" => {
                return refuse(
                    object,
                    &format!("the program \"{}\" has no node: set it with \"set node\"", object.name),
                );
            }
            node => world.find(node).and_then(|id| places.hosts.get(&id).copied()),
        };
        let Some(host) = host else {
            return refuse(object, &format!("the program \"{}\" is on \"{node}\", which is no node", object.name));
        };
        let text = |name: &str| Some(variable(object, name)).filter(|text| !text.is_empty());
        places.programs.insert(id, topology.programs.len());
        lines.programs.push(object.line);
        let mut program = Program {
            name: object.name.clone(),
            host,
            command: variable(object, PLAIN).to_owned(),
            folder: text("dir").map(str::to_owned),
            timeout: text("timeout").and_then(units::time),
            expected_exit: text("expected-exit-code").and_then(|code| code.parse().ok()),
            start_command: true,
        };
        // A start command, unless the file has set another since.
        if program.command.is_empty() || emulab::command(&program) != command {
            (program.command, program.start_command) = (command.to_owned(), false);
        }
        topology.programs.push(program);
    }
    Ok(on_ops)
}
