//! The life and death of machines.

use std::time::Duration;

use roost_core::node::NodeEvent;

use super::{MachineRole, SimWorld};
use crate::SimulateError;
use crate::connections::MachineId;
use crate::machine::Machine;
use crate::media::{NodeMedia, hub_media};

/// The longest time until all nodes have a home, beyond a millisecond for each.
const READY: Duration = Duration::from_secs(120);

impl SimWorld<'_> {
    /// Runs until all nodes have a home. Events until then are lost.
    pub(crate) fn run_until_attached(&mut self) -> Result<(), SimulateError> {
        let nodes = &self.prepared.placement.nodes;
        let until = self.now + READY + Duration::from_millis(nodes.len() as u64);
        let mut homeless = vec![true; nodes.len()];
        let mut left = nodes.len();
        while left > 0 {
            if !self.step(until) {
                let lost = homeless.iter().position(|homeless| *homeless).unwrap_or_default();
                return Err(self.no_home(self.machine_of(MachineRole::Node(lost))));
            }
            while let Some((machine, event)) = self.poll() {
                if let (Some(place), NodeEvent::Attached { .. }) = (self.casts[machine].part.node(), event) {
                    left -= usize::from(std::mem::take(&mut homeless[place]));
                }
            }
        }
        Ok(())
    }

    /// Starts a machine's process, unless it runs.
    pub(crate) fn start(&mut self, machine: MachineId) {
        if self.runs(machine) {
            return;
        }
        self.casts[machine].starts += 1;
        self.machines[machine] = Some(match self.casts[machine].part {
            MachineRole::Hub(place) => {
                let media = self.has_media().then(|| hub_media(self.media_seed(machine)));
                Machine::hub(self.hub_config(machine, place), media)
            }
            MachineRole::Node(place) => {
                let Self { casts, prepared, .. } = &*self;
                let (node, group_key) = (casts[machine].id, prepared.plan.sealed_keys.then_some(prepared.plan.seed));
                let media = self.has_media().then(|| NodeMedia::new(node, self.media_seed(machine), group_key));
                Machine::node(self.node_config(machine, place), media)
            }
        });
        self.connections.start(machine);
        if self.architecture().discovery().is_some() && self.casts[machine].part.node().is_some() {
            self.connections.join(machine);
        }
        self.checks.started(machine);
        self.drain(machine);
    }

    pub(crate) fn kill(&mut self, machine: MachineId) {
        if self.machines[machine].take().is_some() {
            self.frozen[machine] = None;
            self.armed[machine] = None;
            self.connections.end(self.now, machine);
            self.checks.died(self.now, machine);
        }
    }

    pub(crate) fn leave(&mut self, machine: MachineId) {
        if let Some(frozen) = &mut self.frozen[machine] {
            frozen.leaves = true;
        } else if let Some(leaving) = &mut self.machines[machine] {
            leaving.leave(self.now);
            self.drain(machine);
        }
    }
}
