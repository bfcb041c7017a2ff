//! The memory of a super node's machine, measured: machines are made, receive the messages of a network of that
//! size, and the growth of the process is read.
//!
//! Buffers and keys of connections belong to the transport and are not included.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use roost_core::Transmit;
use roost_core::hub::{self, Hub, HubKind};
use roost_core::machine::{Input, Machine as _};
use roost_experiment::Prepared;
use roost_wire::block::BlockService;
use roost_wire::messages::{HierarchyMessage, MAX_SUMMARY_BLOCKS, Message, ProbeMessage, RegistrationMessage, Summary};
use roost_wire::{
    Address, Capacity, Cell, ConnectionId, Labels, NodeId, Record, RemoteIdentity, Role, Scheme, Service, ServiceSet,
    Time, Version,
};
use serde::Serialize;

use crate::SimulateError;
use crate::event_queue::SimEventQueue;

/// The time for roots to exchange summaries: at their rate limit all are sent long before.
const TALK: Duration = Duration::from_secs(300);
/// Delay from one root to another.
const DELAY: Duration = Duration::from_millis(20);
/// Nodes of a home in a forest.
const PER_HOME: usize = 100;
/// The least entries of all instances together: a small machine is made several times, so that the size of a
/// page does not matter.
const AT_LEAST: usize = 20_000;
const MAX_COPIES: usize = 20;

/// The state of a super node, and the memory of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HubMemory {
    pub nodes: usize,
    /// For a root the super nodes below it; for a home its nodes.
    pub below: usize,
    /// Block services that it knows of other hubs.
    pub block_services: usize,
    pub bytes: u64,
}

/// Measures a home with a hundred nodes, each with a record of four services and three addresses.
///
/// # Errors
/// Fails when the system does not tell the size of the process.
pub fn of_home() -> std::io::Result<HubMemory> {
    let before = resident()?;
    let homes: Vec<Hub> = (0..MAX_COPIES).map(|number| home(number as u32)).collect();
    let bytes = resident()?.saturating_sub(before) / homes.len() as u64;
    Ok(HubMemory { nodes: PER_HOME, below: homes[0].status(Time::ZERO).nodes, block_services: 0, bytes })
}

fn home(number: u32) -> Hub {
    let mut hub = Hub::new(hub::HubConfig::new(id(1, number), HubKind::SuperNode, number.into()));
    for node in 0..PER_HOME as u32 {
        let (connection, me) = (ConnectionId(node.into()), id(2, node));
        up(&mut hub, connection, me, Role::Node);
        let addresses = Scheme::ALL.into_iter().map(|scheme| address(scheme, node)).collect();
        let version = Version { epoch: 1, sequence: 1 };
        let capacity = Capacity { streams: 8, uplink_kbps: 1_000 };
        let cell = Cell::new((node % 16) as i32, (node / 16) as i32);
        let record = Record {
            node: me,
            version,
            cell,
            services: ServiceSet::ALL,
            capacity,
            addresses,
            position: None,
            orbit: None,
        };
        deliver_message(&mut hub, Time::ZERO, connection, &Message::Registration(RegistrationMessage::Publish(record)));
        drain(&mut hub);
    }
    hub
}

/// Measures the root of a forest of `nodes` nodes, as the mean of its roots. All of them are made, receive the
/// summaries of the middles below them, and exchange theirs.
///
/// # Errors
/// Fails when such a forest cannot be made, or the system does not tell the size of the process.
pub fn of_root(nodes: usize) -> Result<HubMemory, SimulateError> {
    let told = MiddleSummaries::for_nodes(nodes)?;
    let entries: usize = told.block_services.values().map(BTreeSet::len).sum();
    let copies = (AT_LEAST / entries.max(1)).clamp(1, MAX_COPIES);
    let failed = |source| SimulateError::File { path: STATUS.into(), source };
    let before = resident().map_err(failed)?;
    let all: Vec<RootHubs> = (0..copies).map(|_| RootHubs::new(&told)).collect();
    let bytes = resident().map_err(failed)?.saturating_sub(before);
    let hubs: Vec<&Hub> = all.iter().flat_map(|roots| &roots.hubs).collect();
    let mean = |of: fn(&hub::HubStatus) -> usize| {
        hubs.iter().map(|hub| of(&hub.status(Time::ZERO))).sum::<usize>() / hubs.len().max(1)
    };
    let others = told.roots - 1;
    Ok(HubMemory {
        nodes,
        below: mean(|status| status.connections) - others,
        block_services: mean(|status| status.block_services),
        bytes: bytes / hubs.len().max(1) as u64,
    })
}

/// The summaries of each middle of a forest, and the roots above it.
struct MiddleSummaries {
    roots: usize,
    /// By middle: the roots that receive its summaries.
    above: BTreeMap<usize, Vec<usize>>,
    /// By middle: the block services of the homes below it.
    block_services: BTreeMap<usize, BTreeSet<BlockService>>,
}

impl MiddleSummaries {
    /// Computes them from the same forest with one node for each home: the hierarchy is the same, and a home's
    /// summary follows from its position.
    fn for_nodes(nodes: usize) -> Result<Self, SimulateError> {
        let homes = nodes.div_ceil(PER_HOME).max(2);
        let text = format!(
            "topology = {{ forest = {{ nodes = {homes}, per_home = 1 }} }}\narchitecture = 'super-node'\nduration = '1s'\n"
        );
        let placement = Prepared::from_text(&text, std::path::Path::new("growth.toml"))?.placement;
        let roots = placement.hubs.iter().filter(|hub| hub.parents.is_empty()).count();
        let (mut above, mut block_services) = (BTreeMap::new(), BTreeMap::<usize, BTreeSet<BlockService>>::new());
        for node in &placement.nodes {
            let home = node.hubs.first().copied().unwrap_or_default();
            for middle in &placement.hubs[home].parents {
                above.insert(*middle, placement.hubs[*middle].parents.clone());
                block_services.entry(*middle).or_default().extend(around(node.cell));
            }
        }
        Ok(Self { roots, above, block_services })
    }
}

/// The block services of a home whose square of 16 × 16 cells begins at `corner`.
fn around(corner: Cell) -> impl Iterator<Item = BlockService> {
    let blocks = [(0, 0), (8, 0), (0, 8), (8, 8)].map(|(x, y)| Cell::new(corner.x + x, corner.y + y));
    blocks.into_iter().flat_map(|cell| Service::ALL.map(|service| BlockService::from_cell(service.code(), cell)))
}

/// All roots, and the messages in flight between them.
struct RootHubs {
    hubs: Vec<Hub>,
}

impl RootHubs {
    fn new(told: &MiddleSummaries) -> Self {
        let config =
            |root: u32| hub::HubConfig { tier: 2, ..hub::HubConfig::new(id(3, root), HubKind::SuperNode, root.into()) };
        let mut roots = Self { hubs: (0..told.roots as u32).map(|root| Hub::new(config(root))).collect() };
        for (middle, above) in &told.above {
            above.iter().for_each(|root| roots.register_child(*root, *middle, &told.block_services[middle]));
        }
        for (one, hub) in roots.hubs.iter_mut().enumerate() {
            // The connection to a root has that root's number.
            let others = (0..told.roots).filter(|other| *other != one);
            others.for_each(|other| up(hub, ConnectionId(other as u64), id(3, other as u32), Role::SuperNode));
        }
        roots.exchange_summaries();
        roots
    }

    /// Registers a middle, which sends its summary.
    fn register_child(&mut self, root: usize, middle: usize, block_services: &BTreeSet<BlockService>) {
        let connection = ConnectionId(1_000 + middle as u64);
        let hub = &mut self.hubs[root];
        up(hub, connection, id(4, middle as u32), Role::SuperNode);
        deliver_message(hub, Time::ZERO, connection, &Message::Hierarchy(HierarchyMessage::RegisterChild { tier: 1 }));
        let block_services: Vec<(BlockService, u32)> =
            block_services.iter().map(|service| (*service, PER_HOME as u32 / 4)).collect();
        for (version, block_services) in (1..).zip(block_services.chunks(MAX_SUMMARY_BLOCKS)) {
            let summary =
                Summary { run: 1, version, block_services: block_services.iter().copied().collect(), since: None };
            deliver_message(hub, Time::ZERO, connection, &Message::Hierarchy(HierarchyMessage::Summary(summary)));
        }
    }

    fn exchange_summaries(&mut self) {
        let mut mail: SimEventQueue<(usize, ConnectionId, Bytes)> = SimEventQueue::new();
        let end = Time::ZERO + TALK;
        let mut now = Time::ZERO;
        loop {
            for root in 0..self.hubs.len() {
                self.post(now, root, &mut mail);
            }
            let wakes = self.hubs.iter().filter_map(|hub| hub.poll_deadline()).map(|deadline| deadline.at);
            let Some(next) = wakes.chain(mail.next()).min().filter(|next| *next <= end) else { return };
            now = now.max(next);
            if let Some((root, connection, message)) = mail.take_due(now) {
                self.hubs[root].handle(now, Input::Message { connection, message });
                continue;
            }
            let due = |hub: &&mut Hub| hub.poll_deadline().is_some_and(|deadline| deadline.at <= now);
            self.hubs.iter_mut().filter(due).for_each(|hub| hub.handle(now, Input::Timeout));
        }
    }

    fn post(&mut self, now: Time, root: usize, mail: &mut SimEventQueue<(usize, ConnectionId, Bytes)>) {
        while let Some(transmit) = self.hubs[root].poll_transmit() {
            let Transmit::Message { connection, message, .. } = transmit else { continue };
            let to = connection.0 as usize;
            if to < self.hubs.len() {
                mail.push(now + DELAY, (to, ConnectionId(root as u64), message));
            } else if let Ok(Message::Probe(ProbeMessage::Ping(token))) = Message::decode(&message) {
                // Middles answer probes, so that they count as alive.
                mail.push(now + DELAY, (root, connection, Message::Probe(ProbeMessage::Pong(token)).encode()));
            }
        }
        drain(&mut self.hubs[root]);
    }
}

fn id(kind: u8, number: u32) -> NodeId {
    let mut bytes = [kind; 16];
    bytes[8..12].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    NodeId::from_bytes(bytes)
}

fn address(scheme: Scheme, number: u32) -> Address {
    Address::single(scheme, (std::net::Ipv4Addr::from_bits(0x0a00_0000 + number), 7_700).into())
}

fn up(hub: &mut Hub, connection: ConnectionId, node: NodeId, role: Role) {
    let remote = RemoteIdentity { node, role, name: String::new(), labels: Labels::default() };
    let address = address(Scheme::Udp, connection.0 as u32);
    hub.handle(Time::ZERO, Input::ConnectionUp { connection, dial: None, remote, address, rtt: DELAY * 2 });
}

fn deliver_message(hub: &mut Hub, now: Time, connection: ConnectionId, message: &Message) {
    hub.handle(now, Input::Message { connection, message: message.encode() });
}

fn drain(hub: &mut Hub) {
    while hub.poll_transmit().is_some() {}
    while hub.poll_event().is_some() {}
}

const STATUS: &str = "/proc/self/status";

fn resident() -> std::io::Result<u64> {
    let status = std::fs::read_to_string(STATUS)?;
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kilobytes: Option<u64> = kilobytes;
    kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| std::io::Error::other("it has no VmRSS"))
}
