//! The configuration of machines, like that of the daemons of `emulate run`.

use std::net::SocketAddr;

use roost_core::hub::{self, HubKind, OverflowPolicy, ReflectionConfig};
use roost_core::node::NodeConfig;
use roost_experiment::Prepared;
use roost_experiment::workload::generator;
use roost_wire::random::{RootSecret, SplitMix64};
use roost_wire::{Address, DeliveryClasses, Labels, NodeId, Role, Scheme, ServiceSet};

use super::{MachineRole, SimParticipant, SimWorld, settings};
use crate::SimulateError;
use crate::connections::MachineId;
use crate::media;

/// The ports of hubs and of nodes, which share hosts; QUIC has the next one, media the one after.
const HUB_PORT: u16 = 7700;
const NODE_PORT: u16 = 7710;

/// The most addresses of hubs that the error of a node names.
const MAX_NAMED: usize = 6;

impl SimWorld<'_> {
    pub(super) fn hub_config(&self, machine: MachineId, place: usize) -> hub::HubConfig {
        let kind = hub_kind(self.prepared);
        let mut config = hub::HubConfig::new(self.casts[machine].id, kind, self.seed(machine));
        settings::configure_hub(self.prepared, &mut config);
        config.addresses = self.addresses(machine);
        config.reflection = self.media_address(machine).map(|media| ReflectionConfig {
            media,
            layers: media::LAYERS,
            policy: OverflowPolicy::default(),
        });
        config.epoch = self.epoch(machine);
        let placement = &self.prepared.placement;
        config.parents = placement.hubs[place].parents.iter().map(|parent| self.dialed(machine, *parent)).collect();
        if kind == HubKind::SuperNode {
            config.tier = placement.hubs[place].tier;
            config.siblings = placement.earlier_siblings(place).map(|earlier| self.dialed(machine, earlier)).collect();
        }
        config
    }

    pub(super) fn node_config(&self, machine: MachineId, place: usize) -> NodeConfig {
        let placement = &self.prepared.placement;
        let node = &placement.nodes[place];
        let mut config = NodeConfig {
            node: self.casts[machine].id,
            name: String::new(),
            labels: Labels::default(),
            epoch: self.epoch(machine),
            cell: node.cell,
            position: None,
            datum: None,
            services: ServiceSet::ALL,
            hubs: node.hubs.iter().map(|hub| self.dialed(machine, *hub)).collect(),
            hub_role: hub_role(self.prepared),
            addresses: self.addresses(machine),
            // All others may request from one node at once; the paper has no limit.
            max_streams: u16::try_from(placement.nodes.len().max(8)).unwrap_or(u16::MAX),
            uplink_kbps: None,
            stream_duration: self.prepared.plan.stream,
            media: self.media_address(machine),
            classes: DeliveryClasses::default(),
            multicast: self.architecture().discovery().is_some(),
            discovery: self.architecture().discovery().unwrap_or_default(),
            seed: self.seed(machine),
            secret: RootSecret::of_seed(self.seed(machine)),
        };
        settings::configure_node(self.prepared, &mut config);
        config
    }

    /// True if machines have media ports.
    pub(super) fn has_media(&self) -> bool {
        self.prepared.plan.reflect
    }

    fn media_address(&self, machine: MachineId) -> Option<SocketAddr> {
        let SimParticipant { part, host, .. } = self.casts[machine];
        let address = self.endpoints.media(host).filter(|_| self.has_media())?;
        Some(SocketAddr::from((address, media_port(part))))
    }

    /// Apart from the machine's own seed.
    pub(super) fn media_seed(&self, machine: MachineId) -> u64 {
        self.seed(machine) ^ 0x6d65_6469
    }

    /// Greater with every start.
    fn epoch(&self, machine: MachineId) -> u32 {
        let seconds = u32::try_from(self.now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX);
        seconds.saturating_add(self.casts[machine].starts)
    }

    fn seed(&self, machine: MachineId) -> u64 {
        let SimParticipant { name, starts, .. } = &self.casts[machine];
        let mut random = generator(self.prepared.plan.seed, name);
        (0..*starts).fold(0, |_, _| random.next_u64())
    }

    /// The addresses of a machine; the transport that the plan prefers comes first.
    fn addresses(&self, machine: MachineId) -> Vec<Address> {
        let SimParticipant { part, host, .. } = self.casts[machine];
        self.endpoints.all(host, port_of(part))
    }

    /// The addresses at which a machine dials a hub.
    fn dialed(&self, machine: MachineId, hub: MachineId) -> Vec<Address> {
        let SimParticipant { part, host, .. } = self.casts[hub];
        self.endpoints.toward(host, self.casts[machine].host, port_of(part))
    }

    /// The error of a node that found no home.
    pub(crate) fn no_home(&self, machine: MachineId) -> SimulateError {
        let SimParticipant { ref name, part, .. } = self.casts[machine];
        let hubs = part.node().map_or(&[][..], |node| &self.prepared.placement.nodes[node].hubs);
        let dialed: Vec<String> =
            hubs.iter().flat_map(|hub| self.dialed(machine, *hub)).map(|address| address.to_string()).collect();
        let named = &dialed[..dialed.len().min(MAX_NAMED)];
        let more = dialed.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        SimulateError::NotReady { node: name.clone(), dialed: format!("{}{more}", named.join(", ")) }
    }
}

pub(super) fn hub_role(prepared: &Prepared) -> Role {
    prepared.plan.architecture.hub_role()
}

pub(super) fn hub_kind(prepared: &Prepared) -> HubKind {
    match hub_role(prepared) {
        Role::Server => HubKind::Server,
        _ => HubKind::SuperNode,
    }
}

pub(super) const fn media_port(part: MachineRole) -> u16 {
    match part {
        MachineRole::Hub(_) => HUB_PORT + 2,
        MachineRole::Node(_) => NODE_PORT + 2,
    }
}

pub(super) fn port_of(part: MachineRole) -> fn(Scheme) -> u16 {
    if matches!(part, MachineRole::Hub(_)) { hub_port } else { node_port }
}

fn hub_port(scheme: Scheme) -> u16 {
    HUB_PORT + u16::from(scheme == Scheme::Quic)
}

fn node_port(scheme: Scheme) -> u16 {
    NODE_PORT + u16::from(scheme == Scheme::Quic)
}

/// A machine's id: as arbitrary as the digest of a key.
pub(super) fn id_of(seed: u64, name: &str) -> NodeId {
    let mut random: SplitMix64 = generator(seed ^ 0x1d, name);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random.next_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&random.next_u64().to_be_bytes());
    NodeId::from_bytes(bytes)
}
