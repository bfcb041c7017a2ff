//! Machines whose processes stand still, and go on later.

use roost_proto::node::NodeCommand;

use super::{SimWorld, SimWorldTimer};
use crate::sim::connections::MachineId;

/// What waits for a machine that stands still. Of timers there is one for the
/// machine and one for each of its sources; its owner asks once at a time.
#[derive(Default)]
pub(super) struct Frozen {
    dues: Vec<SimWorldTimer>,
    pub(super) commands: Vec<NodeCommand>,
    /// Whether it was asked to leave.
    pub(super) leaves: bool,
}

impl SimWorld<'_> {
    /// A machine's process is stopped where it stands: nothing is closed, and
    /// what comes waits.
    pub(in crate::sim) fn freeze(&mut self, machine: MachineId) {
        if self.runs(machine) && self.frozen[machine].is_none() {
            self.frozen[machine] = Some(Frozen::default());
            self.connections.freeze(machine);
            self.checks.fell_silent(self.now, machine);
        }
    }

    /// A machine's process goes on: first with what is overdue.
    pub(in crate::sim) fn thaw(&mut self, machine: MachineId) {
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

    /// Puts off what is due for a machine that stands still; whether it does.
    pub(super) fn hold(&mut self, machine: MachineId, due: SimWorldTimer) -> bool {
        let Some(frozen) = &mut self.frozen[machine] else { return false };
        if !frozen.dues.contains(&due) {
            frozen.dues.push(due);
        }
        true
    }
}
