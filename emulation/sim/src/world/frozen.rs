//! Machines whose processes are frozen and thawed.

use roost_core::node::NodeCommand;

use super::{SimWorld, SimWorldTimer};
use crate::connections::MachineId;

/// Inputs that wait for a frozen machine. There is one timer for the machine and one for each of its sources;
/// the requester sends one command at a time.
#[derive(Default)]
pub(super) struct Frozen {
    dues: Vec<SimWorldTimer>,
    pub(super) commands: Vec<NodeCommand>,
    /// True if it was asked to leave.
    pub(super) leaves: bool,
}

impl SimWorld<'_> {
    /// Freezes a machine's process: nothing is closed, and inputs wait.
    pub(crate) fn freeze(&mut self, machine: MachineId) {
        if self.runs(machine) && self.frozen[machine].is_none() {
            self.frozen[machine] = Some(Frozen::default());
            self.connections.freeze(machine);
            self.checks.fell_silent(self.now, machine);
        }
    }

    /// Thaws a machine's process, with overdue timers first.
    pub(crate) fn thaw(&mut self, machine: MachineId) {
        let Some(frozen) = self.frozen[machine].take() else { return };
        self.checks.started(machine);
        for due in frozen.dues {
            if let SimWorldTimer::Wake(_) = due {
                self.armed[machine] = Some(self.now);
            }
            self.act(due);
        }
        self.connections.thaw(self.now, machine);
        self.deliver_inputs();
        for command in frozen.commands {
            self.command(machine, command);
        }
        if frozen.leaves {
            self.leave(machine);
        }
    }

    /// Postpones a due timer of a frozen machine; true if it is frozen.
    pub(super) fn hold(&mut self, machine: MachineId, due: SimWorldTimer) -> bool {
        let Some(frozen) = &mut self.frozen[machine] else { return false };
        if !frozen.dues.contains(&due) {
            frozen.dues.push(due);
        }
        true
    }
}
