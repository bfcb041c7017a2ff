//! Nodes and super nodes of Roost as a system to search in.

use std::collections::{BTreeMap, VecDeque};

use roost_core::Traffic;
use roost_core::node::{NodeCommand, NodeEvent, Ticket};
use roost_dht::Circle;
use roost_experiment::Prepared;
use roost_wire::messages::MAX_CANDIDATES;
use roost_wire::{Area, Metadata, NodeId, Service, Time};

use super::course::SearchedSystem;
use super::scenario::Participant;
use super::tally::AreaTraffic;
use crate::connections::MachineId;
use crate::growth::SETTLE;
use crate::world::{MachineRole, SimWorld};
use crate::{Detail, SimulateError};

pub(super) struct Hierarchy<'a> {
    world: SimWorld<'a>,
    places: BTreeMap<NodeId, usize>,
    found: VecDeque<(u64, Vec<usize>)>,
}

impl<'a> Hierarchy<'a> {
    /// Starts all machines and waits until every node is known everywhere.
    pub(super) fn grown(prepared: &'a Prepared) -> Result<Self, SimulateError> {
        let mut world = SimWorld::new(prepared, Detail::Message)?;
        world.run_until_attached()?;
        let casts = world.participants().iter();
        let places = casts.filter_map(|cast| Some((cast.id, cast.part.node()?))).collect();
        let mut hierarchy = Self { world, places, found: VecDeque::new() };
        let until = hierarchy.world.now + SETTLE;
        while hierarchy.step(until) {}
        hierarchy.wait_until(until);
        Ok(hierarchy)
    }

    fn machine(&self, participant: Participant) -> MachineId {
        self.world.machine_of(match participant {
            Participant::Node(node) => MachineRole::Node(node),
            Participant::Hub(hub) => MachineRole::Hub(hub),
        })
    }

    fn listen(&mut self) {
        while let Some((_, event)) = self.world.poll() {
            match event {
                NodeEvent::LookupResult { ticket, found } => {
                    let places = found.candidates.iter().filter_map(|one| self.places.get(&one.node).copied());
                    self.found.push_back((ticket.0, places.collect()));
                }
                NodeEvent::Failed { ticket, .. } => self.found.push_back((ticket.0, Vec::new())),
                _ => {}
            }
        }
    }
}

impl SearchedSystem for Hierarchy<'_> {
    fn now(&self) -> Time {
        self.world.now
    }

    fn step(&mut self, until: Time) -> bool {
        let has_stepped = self.world.step(until);
        self.listen();
        has_stepped
    }

    fn wait_until(&mut self, until: Time) {
        self.world.now = self.world.now.max(until);
    }

    fn start(&mut self, participant: Participant) {
        self.world.start(self.machine(participant));
    }

    fn kill(&mut self, participant: Participant) {
        self.world.kill(self.machine(participant));
    }

    fn search(&mut self, ticket: u64, node: usize, circle: Circle) {
        let lookup = NodeCommand::Lookup {
            ticket: Ticket(ticket),
            service: Service::Track,
            area: Area::Radius { center: circle.center, radius: circle.radius },
            count: MAX_CANDIDATES as u8,
            names: None,
            filter: Metadata::EMPTY,
        };
        self.world.command(self.machine(Participant::Node(node)), lookup);
        self.listen();
    }

    fn poll_found(&mut self) -> Option<(u64, Vec<usize>)> {
        self.found.pop_front()
    }

    fn traffic(&self) -> AreaTraffic {
        let shares = self.world.shares();
        let said = self.world.said[Traffic::Lookup as usize];
        let machines = 0..self.world.participants().len();
        AreaTraffic {
            bytes: shares.hub_bytes + shares.handshake_bytes + shares.node_bytes + shares.multicast_bytes,
            machines: machines.map(|machine| self.world.connections.counted(machine).iter().sum()).collect(),
            search_messages: said.messages,
            search_bytes: said.bytes,
        }
    }

    fn steps(&self) -> u64 {
        self.world.steps
    }

    fn violations(&self) -> usize {
        self.world.checks.found().len()
    }

    fn overflows(&mut self) -> u64 {
        self.world.connections.wire().overflows()
    }
}
