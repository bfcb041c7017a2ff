//! The machines of a plan, in the parts of its network.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use roost_core::Traffic;
use roost_core::hub::{HubConfig, HubKind};
use roost_experiment::{Endpoints, Prepared};
use roost_wire::RemoteIdentity as Remote;
use roost_wire::{Labels, NodeId, Role};

use super::configuration::{hub_role, id_of, media_port, port_of};
use super::{
    BETWEEN_NODES, DAWN, MachineRole, MessageCount, NODES_AFTER, SimParticipant, SimWorld, SimWorldTimer,
    check_settings, settings,
};
use crate::connections::{MachineEndpoint, MachineId, SimConnections};
use crate::control_messages::ControlMessages;
use crate::event_queue::SimEventQueue;
use crate::fingerprint::RunFingerprint;
use crate::invariants::InvariantChecker;
use crate::network::SimNetwork;
use crate::partition::Partition;
use crate::{Detail, SimulateError};

impl<'a> SimWorld<'a> {
    /// The machines of a plan whose network stays whole.
    pub(crate) fn new(prepared: &'a Prepared, detail: Detail) -> Result<Self, SimulateError> {
        let mut parts = Self::in_parts(prepared, detail, &Partition::whole(&prepared.topology))?;
        Ok(parts.remove(0))
    }

    /// The machines of a plan, in the parts of its network.
    pub(crate) fn in_parts(
        prepared: &'a Prepared,
        detail: Detail,
        partition: &Partition,
    ) -> Result<Vec<Self>, SimulateError> {
        check_settings(prepared)?;
        prepared.check_for_simulation()?;
        let wire = SimNetwork::new(&prepared.topology, prepared.plan.seed)?;
        let endpoints = Arc::new(Endpoints::new(wire.host_addresses().clone(), prepared.plan.transport.preference()));
        let casts = participants(prepared, &wire)?;
        let role = hub_role(prepared);
        let site = |cast: &SimParticipant| MachineEndpoint {
            host: cast.host,
            addresses: wire.host_addresses().all(cast.host),
            port: port_of(cast.part),
            media_port: media_port(cast.part),
            identity: Remote {
                node: cast.id,
                role: if matches!(cast.part, MachineRole::Hub(_)) { role } else { Role::Node },
                name: cast.name.clone(),
                labels: Labels::default(),
            },
        };
        let sites = casts.iter().map(site).collect();
        let handshake = prepared.plan.handshake;
        let parts = SimConnections::in_parts(wire, partition, sites, detail, handshake);
        let own = |part| casts.iter().map(|cast| partition.part(cast.host) == part).collect();
        let part =
            |(part, connections)| Self::part(prepared, connections, Arc::clone(&endpoints), casts.clone(), own(part));
        let mut worlds: Vec<Self> = (0..).zip(parts).map(part).collect();
        if worlds.len() > 1 {
            worlds.iter_mut().for_each(|world| world.checks.keep_changes());
        }
        Ok(worlds)
    }

    fn part(
        prepared: &'a Prepared,
        connections: SimConnections,
        endpoints: Arc<Endpoints>,
        casts: Vec<SimParticipant>,
        own: Vec<bool>,
    ) -> Self {
        let mut hub = HubConfig::new(NodeId::from_bytes([0; 16]), HubKind::SuperNode, 0);
        settings::configure_hub(prepared, &mut hub);
        let count = casts.len();
        let mut world = Self {
            prepared,
            now: DAWN,
            trace: RunFingerprint::default(),
            checks: InvariantChecker::new(casts.iter().map(|cast| cast.id), hub.lease, hub.limits),
            connections,
            own,
            machines: (0..count).map(|_| None).collect(),
            frozen: (0..count).map(|_| None).collect(),
            armed: vec![None; count],
            calendar: SimEventQueue::new(),
            told: VecDeque::new(),
            steps: 0,
            sent: vec![BTreeMap::new(); count],
            said: [MessageCount::default(); Traffic::ALL.len()],
            between_hubs: BTreeMap::new(),
            control_messages: ControlMessages::default(),
            relayed_bytes: 0,
            endpoints,
            casts,
        };
        let hubs = prepared.placement.hubs.len();
        let starts = (0..count).map(|machine| match machine.checked_sub(hubs) {
            None => (machine, DAWN),
            Some(node) => (machine, DAWN + NODES_AFTER + BETWEEN_NODES * node as u32),
        });
        for (machine, at) in starts.filter(|(machine, _)| world.own[*machine]) {
            world.calendar.push(at, SimWorldTimer::Start(machine));
        }
        world
    }

    /// True if a machine is of this part of the network.
    pub(crate) fn has(&self, machine: MachineId) -> bool {
        self.own[machine]
    }
}

/// The hubs of a plan, and then its nodes.
fn participants<P: Clone>(prepared: &Prepared, wire: &SimNetwork<P>) -> Result<Vec<SimParticipant>, SimulateError> {
    let placement = &prepared.placement;
    let hubs =
        placement.hubs.iter().enumerate().map(|(at, hub)| (MachineRole::Hub(at), hub.host, &hub.name, &hub.class));
    let nodes = placement
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (MachineRole::Node(at), node.host, &node.name, &node.class));
    let participant = |(part, host, name, class): (_, _, &String, &String)| {
        wire.address(host).ok_or_else(|| SimulateError::Unreachable(name.clone()))?;
        let (name, class, id) = (name.clone(), class.clone(), id_of(prepared.plan.seed, name));
        Ok(SimParticipant { name, class, part, host, id, starts: 0 })
    };
    hubs.chain(nodes).map(participant).collect()
}
