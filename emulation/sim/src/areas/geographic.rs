//! The nodes of the geographic DHT as a system to search in, on the same links and LANs.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use roost_dht::{Circle, Contact, DhtId, DhtInput, DhtMessage, DhtNode, DhtOutput, DhtSettings, Purpose};
use roost_experiment::Prepared;
use roost_netcore::HEADER_BYTES;
use roost_topology::model::HostIndex;
use roost_wire::Time;
use roost_wire::random::SplitMix64;

use super::course::SearchedSystem;
use super::scenario::Participant;
use super::tally::AreaTraffic;
use crate::SimulateError;
use crate::event_queue::SimEventQueue;
use crate::fingerprint::RunFingerprint;
use crate::network::{AddressedPacket, SimNetwork};

/// The headers of IPv4 and UDP, bytes.
const UDP_HEADERS: usize = 28;
const BETWEEN_JOINS: Duration = Duration::from_millis(20);
/// The time until tables are full once all have joined.
const SETTLE: Duration = Duration::from_secs(120);
/// The nodes of the network that a new one is told.
const ENTRIES: usize = 2;
/// Draws for a living node; three of four live.
const DRAWS: usize = 64;

/// A message with its sender; the driver knows the sender's position from it.
type DhtPacket = (usize, DhtMessage);

pub(super) struct GeographicNetwork {
    now: Time,
    wire: SimNetwork<DhtPacket>,
    trace: RunFingerprint,
    settings: DhtSettings,
    contacts: Vec<Contact>,
    hosts: Vec<HostIndex>,
    addresses: Vec<Ipv4Addr>,
    of_host: Vec<Option<usize>>,
    nodes: Vec<Option<DhtNode>>,
    /// The time of each node's entry in the event queue.
    armed: Vec<Option<Time>>,
    timers: SimEventQueue<usize>,
    random: SplitMix64,
    found: VecDeque<(u64, Vec<usize>)>,
    traffic: AreaTraffic,
    steps: u64,
}

impl GeographicNetwork {
    /// Lets all nodes join one after the other, and waits until their tables are full.
    pub(super) fn grown(prepared: &Prepared, settings: DhtSettings, seed: u64) -> Result<Self, SimulateError> {
        let wire = SimNetwork::new(&prepared.topology, seed)?;
        let nodes = &prepared.placement.nodes;
        let mut of_host = vec![None; prepared.topology.hosts.len()];
        let mut addresses = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            of_host[node.host] = Some(place);
            let address = wire.address(node.host);
            addresses.push(address.ok_or_else(|| SimulateError::Unreachable(node.name.clone()))?);
        }
        let contact = |(node, id): (&roost_experiment::PlacedNode, u32)| Contact { id: DhtId(id), cell: node.cell };
        let mut network = Self {
            now: Time::from_nanos(1_000_000_000),
            wire,
            trace: RunFingerprint::default(),
            settings,
            contacts: nodes.iter().zip(0..).map(contact).collect(),
            hosts: nodes.iter().map(|node| node.host).collect(),
            addresses,
            of_host,
            nodes: nodes.iter().map(|_| None).collect(),
            armed: vec![None; nodes.len()],
            timers: SimEventQueue::new(),
            random: SplitMix64::new(seed ^ 0x6468_7400),
            found: VecDeque::new(),
            traffic: AreaTraffic { machines: vec![0; nodes.len()], ..AreaTraffic::default() },
            steps: 0,
        };
        for place in 0..network.nodes.len() {
            network.start(Participant::Node(place));
            network.pass(BETWEEN_JOINS);
        }
        network.pass(SETTLE);
        Ok(network)
    }

    fn pass(&mut self, length: Duration) {
        let until = self.now + length;
        while self.step(until) {}
        self.wait_until(until);
    }

    /// Living nodes by which another one joins.
    fn entries(&mut self, except: usize) -> Vec<Contact> {
        let mut entries = Vec::new();
        for _ in 0..DRAWS {
            let place = self.random.below(self.nodes.len() as u64) as usize;
            if place != except && self.nodes[place].is_some() {
                entries.push(self.contacts[place]);
            }
            if entries.len() == ENTRIES {
                break;
            }
        }
        if entries.is_empty() {
            let mut alive = (0..self.nodes.len()).filter(|place| *place != except && self.nodes[*place].is_some());
            entries.extend(alive.next().map(|place| self.contacts[place]));
        }
        entries
    }

    fn input(&mut self, place: usize, input: DhtInput) {
        let Some(node) = &mut self.nodes[place] else { return };
        node.handle(self.now, input);
        let mut is_lost = false;
        while let Some(output) = self.nodes[place].as_mut().and_then(DhtNode::poll_output) {
            match output {
                DhtOutput::Send { to, message } => self.send(place, to, message),
                DhtOutput::Found(result) => {
                    let places = result.contacts.iter().map(|contact| contact.id.0 as usize).collect();
                    self.found.push_back((result.ticket, places));
                }
                DhtOutput::Lost => is_lost = true,
            }
        }
        if is_lost {
            let contacts = self.entries(place);
            return self.input(place, DhtInput::Join { contacts });
        }
        let deadline = self.nodes[place].as_ref().and_then(DhtNode::poll_deadline);
        if let Some(at) = deadline.map(|at| at.max(self.now))
            && self.armed[place].is_none_or(|armed| at < armed)
        {
            self.armed[place] = Some(at);
            self.timers.push(at, place);
        }
    }

    fn send(&mut self, from: usize, to: Contact, message: DhtMessage) {
        let bytes = (UDP_HEADERS + message.bytes()) as u64;
        self.traffic.bytes += bytes + HEADER_BYTES as u64;
        self.traffic.machines[from] += bytes;
        if message.purpose() == Purpose::Search {
            self.traffic.search_messages += 1;
            self.traffic.search_bytes += message.bytes() as u64;
        }
        let address = self.addresses[to.id.0 as usize];
        let packet = AddressedPacket { to: address, bytes: bytes as u32, packet: (from, message) };
        self.wire.send(self.now, self.hosts[from], packet);
    }

    fn wake(&mut self, place: usize) {
        if self.armed[place] != Some(self.now) {
            return;
        }
        self.armed[place] = None;
        // Even a timer that came too early looks for the next one.
        self.input(place, DhtInput::Timeout);
    }
}

impl SearchedSystem for GeographicNetwork {
    fn now(&self) -> Time {
        self.now
    }

    fn step(&mut self, until: Time) -> bool {
        let next = [self.wire.deadline(), self.timers.next()].into_iter().flatten().min();
        let Some(at) = next.filter(|at| *at <= until) else { return false };
        self.now = at.max(self.now);
        self.steps += 1;
        if let Some(place) = self.timers.take_due(self.now) {
            self.wake(place);
        } else if let Some(arrival) = self.wire.poll(self.now, &mut self.trace)
            && let Some(place) = self.of_host[arrival.host]
        {
            let (from, message) = arrival.packet;
            if self.nodes[place].is_some() {
                self.traffic.machines[place] += (UDP_HEADERS + message.bytes()) as u64;
            }
            self.input(place, DhtInput::Message { from: self.contacts[from], message });
        }
        true
    }

    fn wait_until(&mut self, until: Time) {
        self.now = self.now.max(until);
    }

    fn start(&mut self, participant: Participant) {
        let Participant::Node(place) = participant else { return };
        let contacts = self.entries(place);
        self.nodes[place] = Some(DhtNode::new(self.settings, self.contacts[place], self.random.next_u64()));
        self.armed[place] = None;
        self.input(place, DhtInput::Join { contacts });
    }

    fn kill(&mut self, participant: Participant) {
        if let Participant::Node(place) = participant {
            (self.nodes[place], self.armed[place]) = (None, None);
        }
    }

    fn search(&mut self, ticket: u64, node: usize, circle: Circle) {
        self.input(node, DhtInput::Search { ticket, circle });
    }

    fn poll_found(&mut self) -> Option<(u64, Vec<usize>)> {
        self.found.pop_front()
    }

    fn traffic(&self) -> AreaTraffic {
        self.traffic.clone()
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn violations(&self) -> usize {
        0
    }

    fn overflows(&mut self) -> u64 {
        self.wire.overflows()
    }
}
