//! The nodes of a forest: they move, and look one another up.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use roost_core::Traffic;
use roost_core::node::{NodeCommand, NodeEvent, Ticket};
use roost_experiment::{PlacedNode, Placement, Prepared};
use roost_results::metrics::Distribution;
use roost_topology::generate::{Forest, LegParameters};
use roost_topology::model::{HostIndex, Net, Topology};
use roost_wire::messages::ServiceRequest;
use roost_wire::random::SplitMix64;
use roost_wire::{Area, Cell, Metadata, NodeId, Service, Time};

use super::{HubContents, Lookups, MOVE_EVERY, Requests};
use crate::SimulateError;
use crate::connections::MachineId;
use crate::event_queue::SimEventQueue;
use crate::world::{MachineRole, SimWorld};

/// The pause between two lookups: far longer than one takes on the slowest link.
const BETWEEN_LOOKUPS: Duration = Duration::from_millis(50);
/// The time for the last lookup: a node gives one up earlier.
const PATIENCE: Duration = Duration::from_secs(10);
/// The length of a requested track.
const TRACK: Duration = Duration::from_secs(1);
/// The most draws for a pair of nodes at a distance.
const DRAWS: usize = 10_000;
/// Nodes may share a middle if their numbers differ by less than this.
const NEAR: usize = 600;
/// The side, in cells, of the square of a home.
const SIDE: i32 = 16;

/// The distance of a target from its requester. A standby answers for the nodes of other homes, so its position
/// counts as theirs, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetDistance {
    Home,
    /// At another home below the same middle.
    Middle,
    /// Below no common middle, with the homes below different roots.
    Across,
}

/// The home of a node and the hubs above it, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Branch {
    home: usize,
    middle: usize,
    root: usize,
}

impl Branch {
    fn for_home(placement: &Placement, home: usize) -> Self {
        let above = |hub: usize| placement.hubs[hub].parents.first().copied().unwrap_or(hub);
        Self { home, middle: above(home), root: above(above(home)) }
    }
}

pub(super) struct Population<'a> {
    prepared: &'a Prepared,
    pub(super) world: SimWorld<'a>,
    cells: Vec<Cell>,
    branches: Vec<Branch>,
    /// The indices of hubs by their ids.
    hubs: HashMap<NodeId, usize>,
    moves: SimEventQueue<usize>,
    moving: bool,
    random: SplitMix64,
    /// Lookups and requests in progress, with their start.
    asked: HashMap<Ticket, Time>,
    tickets: u64,
    found: Vec<f64>,
}

impl<'a> Population<'a> {
    pub(super) fn new(prepared: &'a Prepared, world: SimWorld<'a>, seed: u64) -> Self {
        let placement = &prepared.placement;
        let branch = |node: &PlacedNode| Branch::for_home(placement, node.hubs.first().copied().unwrap_or_default());
        let casts = world.participants().iter();
        let hubs = casts.filter_map(|cast| match cast.part {
            MachineRole::Hub(place) => Some((cast.id, place)),
            MachineRole::Node(_) => None,
        });
        Self {
            prepared,
            hubs: hubs.collect(),
            world,
            cells: placement.nodes.iter().map(|node| node.cell).collect(),
            branches: placement.nodes.iter().map(branch).collect(),
            moves: SimEventQueue::new(),
            moving: false,
            random: SplitMix64::new(seed),
            asked: HashMap::new(),
            tickets: 0,
            found: Vec::new(),
        }
    }

    /// Starts all machines; returns the time until every node had a home.
    pub(super) fn join(&mut self) -> Result<Duration, SimulateError> {
        let begin = self.world.now;
        self.world.run_until_attached()?;
        Ok(self.world.now.since(begin))
    }

    pub(super) fn moves(&mut self, moving: bool) {
        self.moving = moving;
        self.moves = SimEventQueue::new();
        if moving {
            // Spread, so that they do not move all at once.
            for node in 0..self.cells.len() {
                let wait = MOVE_EVERY.mul_f64(self.random.below(1 << 20) as f64 / f64::from(1 << 20));
                self.moves.push(self.world.now + wait, node);
            }
        }
    }

    pub(super) fn go_on(&mut self, length: Duration) {
        let until = self.world.now + length;
        loop {
            let next_move = self.moves.next().filter(|at| *at <= until);
            if !self.world.step(next_move.unwrap_or(until)) {
                let Some(at) = next_move else { break };
                self.world.now = self.world.now.max(at);
                while let Some(node) = self.moves.take_due(self.world.now) {
                    self.move_node(node);
                    self.moves.push(self.world.now + MOVE_EVERY, node);
                }
            }
            self.listen();
        }
        self.world.now = until;
    }

    /// Moves a node to the adjacent cell, within the square of its home.
    fn move_node(&mut self, node: usize) {
        let Cell { x, y } = self.cells[node];
        let to = |at: i32, by: i32| at.div_euclid(SIDE) * SIDE + (at + by).rem_euclid(SIDE);
        let by = if self.random.below(2) == 0 { 1 } else { -1 };
        let cell = if self.random.below(2) == 0 { Cell::new(to(x, by), y) } else { Cell::new(x, to(y, by)) };
        self.cells[node] = cell;
        let machine = self.world.machine_of(MachineRole::Node(node));
        self.world.command(machine, NodeCommand::Move(cell.into()));
    }

    fn listen(&mut self) {
        while let Some((_, event)) = self.world.poll() {
            match event {
                NodeEvent::LookupResult { ticket, found } => {
                    let began = self.asked.remove(&ticket);
                    let took = began.map(|began| self.world.now.since(began).as_secs_f64() * 1e3);
                    self.found.extend(took.filter(|_| !found.candidates.is_empty()));
                }
                NodeEvent::Accepted { ticket, .. } => {
                    let began = self.asked.remove(&ticket);
                    self.found.extend(began.map(|began| self.world.now.since(began).as_secs_f64() * 1e3));
                }
                NodeEvent::Failed { ticket, .. } => drop(self.asked.remove(&ticket)),
                _ => {}
            }
        }
    }

    /// Makes nodes look up others at this distance.
    pub(super) fn look_up(&mut self, group: TargetDistance, count: usize) -> Option<Lookups> {
        self.found.clear();
        let before = self.world.said[Traffic::Lookup as usize];
        let mut hops = f64::INFINITY;
        for _ in 0..count {
            let (requester, target) = self.pair(group)?;
            hops = hops.min(self.hops(requester, target));
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.asked.insert(ticket, self.world.now);
            let machine = self.world.machine_of(MachineRole::Node(requester));
            let area = Area::Exact(self.cells[target]);
            self.world.command(
                machine,
                NodeCommand::Lookup {
                    ticket,
                    service: Service::Track,
                    area,
                    count: 1,
                    names: None,
                    filter: Metadata::EMPTY,
                },
            );
            self.go_on(BETWEEN_LOOKUPS);
        }
        self.go_on(PATIENCE);
        let said = self.world.said[Traffic::Lookup as usize];
        let latency = Distribution::from_values(self.found.clone());
        let per = |all: u64| all as f64 / count as f64;
        Some(Lookups {
            asked: count,
            found: self.found.len(),
            p50_ms: latency.p50.unwrap_or(f64::NAN),
            p99_ms: latency.p99.unwrap_or(f64::NAN),
            least_ms: self.found.iter().copied().fold(f64::INFINITY, f64::min),
            hops_ms: hops,
            messages: per(said.messages - before.messages),
            bytes: per(said.bytes - before.bytes),
        })
    }

    /// Makes nodes request tracks of others at this distance, and again once the two have a connection.
    pub(super) fn request(&mut self, group: TargetDistance, count: usize) -> Option<Requests> {
        let pairs: Vec<(usize, usize)> = (0..count).map(|_| self.pair(group)).collect::<Option<_>>()?;
        let floors = pairs.iter().map(|(requester, target)| self.hops(*requester, *target) + trip(self.shape().node));
        let hops_ms = floors.fold(f64::INFINITY, f64::min);
        let first = self.request_all(&pairs);
        let again = self.request_all(&pairs);
        Some(Requests {
            asked: count,
            accepted: first.count,
            accepted_again: again.count,
            first_ms: first.p50.unwrap_or(f64::NAN),
            p50_ms: again.p50.unwrap_or(f64::NAN),
            p99_ms: again.p99.unwrap_or(f64::NAN),
            hops_ms,
        })
    }

    /// The times until each request was accepted, milliseconds.
    fn request_all(&mut self, pairs: &[(usize, usize)]) -> Distribution {
        self.found.clear();
        for (requester, target) in pairs {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.asked.insert(ticket, self.world.now);
            let wanted = ServiceRequest {
                duration: Some(TRACK),
                timeout: Some(PATIENCE),
                ..ServiceRequest::new(Service::Track, Area::Exact(self.cells[*target]))
            };
            let machine = self.world.machine_of(MachineRole::Node(*requester));
            self.world
                .command(machine, NodeCommand::Request { ticket, request: wanted, provider: None, body: Bytes::new() });
            self.go_on(BETWEEN_LOOKUPS);
        }
        self.go_on(PATIENCE);
        Distribution::from_values(self.found.clone())
    }

    fn pair(&mut self, group: TargetDistance) -> Option<(usize, usize)> {
        let nodes = self.cells.len();
        let requester = self.random.below(nodes as u64) as usize;
        for _ in 0..DRAWS {
            let number = self.random.below(nodes as u64) as usize;
            // In large networks random pairs are rarely near; those that are have similar numbers.
            let near = (requester + nodes * NEAR + number % (2 * NEAR) - NEAR) % nodes;
            let target = if group == TargetDistance::Across { number } else { near };
            if requester != target && self.is_apart(requester, target, group) {
                return Some((requester, target));
            }
        }
        None
    }

    fn is_apart(&self, requester: usize, target: usize, group: TargetDistance) -> bool {
        let (one, other) = (self.branches[requester], self.branches[target]);
        if group == TargetDistance::Home {
            return one.home == other.home;
        }
        let standby = self.standby_branch(target);
        let elsewhere = one.home != other.home && standby.is_none_or(|branch| branch.home != one.home);
        match group {
            TargetDistance::Middle => elsewhere && one.middle == other.middle,
            _ => elsewhere && one.root != other.root && standby.is_none_or(|branch| branch.root != one.root),
        }
    }

    /// The branch of a node's standby hub.
    fn standby_branch(&self, node: usize) -> Option<Branch> {
        let status = self.world.node(self.world.machine_of(MachineRole::Node(node)))?.status(self.world.now);
        self.hubs.get(&status.standby?.hub.node).map(|place| Branch::for_home(&self.prepared.placement, *place))
    }

    /// Round trips of the hops between a node and the home of another one: to its home, up, across and down,
    /// milliseconds.
    fn hops(&self, requester: usize, target: usize) -> f64 {
        let (one, other) = (self.branches[requester], self.branches[target]);
        let shape = self.shape();
        let mut sum = trip(shape.node);
        if one.home != other.home {
            sum += 2.0 * trip(shape.home);
        }
        if one.middle != other.middle {
            sum += 2.0 * trip(shape.middle);
        }
        if one.root != other.root {
            sum += 2.0 * trip(shape.root);
        }
        sum
    }

    fn shape(&self) -> Forest {
        Forest::for_nodes(self.cells.len())
    }

    pub(super) fn hubs(&self, tier: u8) -> Vec<MachineId> {
        let hubs = self.prepared.placement.hubs.iter().enumerate();
        hubs.filter(|(_, hub)| hub.tier == tier)
            .map(|(place, _)| self.world.machine_of(MachineRole::Hub(place)))
            .collect()
    }

    /// Bytes that a hub has sent to other hubs, by traffic.
    pub(super) fn sent_to_hubs(&self, hub: MachineId) -> [u64; Traffic::ALL.len()] {
        let mut sum = [0; Traffic::ALL.len()];
        for (_, bytes) in self.world.between_hubs.range((hub, 0)..=(hub, MachineId::MAX)) {
            sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        sum
    }

    /// Bytes up and down the leg above each hub, by its machine.
    pub(super) fn legs(&mut self) -> BTreeMap<MachineId, [u64; 2]> {
        let topology: &Topology = &self.prepared.network;
        let hubs = self.prepared.placement.hubs.iter().enumerate();
        let uppers: HashMap<(&str, &str), MachineId> = hubs
            .filter_map(|(place, hub)| {
                let net = upper(topology, hub.host)?;
                Some(((net, topology.hosts[hub.host].name.as_str()), self.world.machine_of(MachineRole::Hub(place))))
            })
            .collect();
        let mut legs = BTreeMap::new();
        for link in self.world.connections.wire().counters() {
            if let Some(machine) = uppers.get(&(link.link.as_str(), link.host.as_str())) {
                let way = usize::from(link.direction == "from-net");
                legs.entry(*machine).or_insert([0; 2])[way] = link.bytes_out;
            }
        }
        legs
    }

    /// The largest state of a hub of a tier.
    pub(super) fn holds(&self, tier: u8) -> HubContents {
        let mut most = HubContents::default();
        for hub in self.hubs(tier).into_iter().filter_map(|hub| self.world.hub(hub)) {
            let status = hub.status(self.world.now);
            most.nodes = most.nodes.max(status.nodes);
            most.replicas = most.replicas.max(status.replicas);
            most.block_services = most.block_services.max(status.block_services);
            most.links = most.links.max(status.connections);
        }
        most
    }
}

fn trip(leg: LegParameters) -> f64 {
    leg.delay.as_secs_f64() * 2e3
}

/// The name of a host's first net; in a forest that is the one above it.
fn upper(topology: &Topology, host: HostIndex) -> Option<&str> {
    let is_on = |net: &&Net| net.members.iter().any(|member| member.host == host);
    topology.nets.iter().find(is_on).map(|net| net.name.as_str())
}
