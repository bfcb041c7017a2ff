//! All machines of a plan, in virtual time.

mod configuration;
mod frozen;
mod life;
mod settings;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use roost_core::hub::{self, Hub, HubKind};
use roost_core::node::{Node, NodeCommand, NodeEvent, SessionId, Ticket};
use roost_core::{Traffic, Transmit};
use roost_experiment::{Architecture, Prepared};
use roost_topology::model::HostIndex;
use roost_wire::RemoteIdentity as Remote;
use roost_wire::{Labels, NodeId, Role, Time};

use super::connections::{MachineEndpoint, MachineId, MachineInput, SimConnections};
use super::control_messages::ControlMessages;
use super::event_queue::SimEventQueue;
use super::fingerprint::RunFingerprint;
use super::invariants::InvariantChecker;
use super::machine::{Machine, MachineOutput};
use super::media::MediaDatagram;
use super::network::SimNetwork;
use super::partition::Partition;
use super::{Detail, SimulateError, TrafficBreakdown};
use configuration::{hub_port, hub_role, id_of, media_port, node_port};
use frozen::Frozen;
pub use settings::check_settings;

/// The start of the first machine. It is not 0, so that earlier times exist.
const DAWN: Time = Time::from_nanos(1_000_000_000);
/// The start of the first node after the hubs, and the interval between nodes.
const NODES_AFTER: Duration = Duration::from_secs(1);
const BETWEEN_NODES: Duration = Duration::from_millis(1);

/// The machines, their connections, and the commands and events of their drivers.
pub(super) struct SimWorld<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) now: Time,
    pub(super) trace: RunFingerprint,
    pub(super) checks: InvariantChecker,
    pub(super) connections: SimConnections,
    casts: Vec<SimParticipant>,
    /// By machine, true if it is of this part of the network.
    own: Vec<bool>,
    machines: Vec<Option<Machine>>,
    frozen: Vec<Option<Frozen>>,
    /// The time of each machine's entry in the event queue.
    armed: Vec<Option<Time>>,
    calendar: SimEventQueue<SimWorldTimer>,
    told: VecDeque<(MachineId, NodeEvent)>,
    /// Counters so far: events, and bytes by traffic.
    pub(super) steps: u64,
    pub(super) sent: Vec<BTreeMap<Traffic, u64>>,
    /// Messages of all machines, by traffic.
    pub(super) said: [MessageCount; Traffic::ALL.len()],
    /// The bytes of those from hub to hub.
    pub(super) between_hubs: BTreeMap<(MachineId, MachineId), [u64; Traffic::ALL.len()]>,
    control_messages: ControlMessages,
    /// Bytes of data to or from hubs.
    relayed_bytes: u64,
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
        let address = wire.address(host).ok_or_else(|| SimulateError::Unreachable(name.clone()))?;
        let (name, class, id) = (name.clone(), class.clone(), id_of(prepared.plan.seed, name));
        Ok(SimParticipant { name, class, part, host, id, address, starts: 0 })
    };
    hubs.chain(nodes).map(participant).collect()
}

/// Messages, and their bytes without headers of any kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageCount {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct SimParticipant {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) part: MachineRole,
    pub(super) host: HostIndex,
    pub(super) id: NodeId,
    address: Ipv4Addr,
    starts: u32,
}

/// A hub or a node, by its index in the placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineRole {
    Hub(usize),
    Node(usize),
}

impl MachineRole {
    /// The node's index, if it is one.
    pub(super) const fn node(self) -> Option<usize> {
        match self {
            Self::Hub(_) => None,
            Self::Node(place) => Some(place),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimWorldTimer {
    Start(MachineId),
    Wake(MachineId),
    Tick(MachineId, SessionId),
}

impl<'a> SimWorld<'a> {
    /// The machines of a plan whose network stays whole.
    pub(super) fn new(prepared: &'a Prepared, detail: Detail) -> Result<Self, SimulateError> {
        let mut parts = Self::in_parts(prepared, detail, &Partition::whole(&prepared.topology))?;
        Ok(parts.remove(0))
    }

    /// The machines of a plan, in the parts of its network.
    pub(super) fn in_parts(
        prepared: &'a Prepared,
        detail: Detail,
        partition: &Partition,
    ) -> Result<Vec<Self>, SimulateError> {
        check_settings(prepared)?;
        prepared.check_for_simulation()?;
        let wire = SimNetwork::new(&prepared.topology, prepared.plan.seed)?;
        let casts = participants(prepared, &wire)?;
        let role = hub_role(prepared);
        let sites = casts.iter().map(|cast| MachineEndpoint {
            host: cast.host,
            address: cast.address,
            port: if matches!(cast.part, MachineRole::Hub(_)) { hub_port } else { node_port },
            media_port: media_port(cast.part),
            identity: Remote {
                node: cast.id,
                role: if matches!(cast.part, MachineRole::Hub(_)) { role } else { Role::Node },
                name: cast.name.clone(),
                labels: Labels::default(),
            },
        });
        let handshake = prepared.plan.handshake;
        let parts = SimConnections::in_parts(wire, partition, sites.collect(), detail, handshake);
        let own = |part| casts.iter().map(|cast| partition.part(cast.host) == part).collect();
        let part = |(part, connections)| Self::part(prepared, connections, casts.clone(), own(part));
        Ok((0..).zip(parts).map(part).collect())
    }

    fn part(prepared: &'a Prepared, connections: SimConnections, casts: Vec<SimParticipant>, own: Vec<bool>) -> Self {
        let mut hub = hub::HubConfig::new(NodeId::from_bytes([0; 16]), HubKind::SuperNode, 0);
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
    pub(super) fn has(&self, machine: MachineId) -> bool {
        self.own[machine]
    }

    pub(super) const fn architecture(&self) -> Architecture {
        self.prepared.plan.architecture
    }

    pub(super) fn participants(&self) -> &[SimParticipant] {
        &self.casts
    }

    pub(super) fn machine_of(&self, part: MachineRole) -> MachineId {
        match part {
            MachineRole::Hub(place) => place,
            MachineRole::Node(place) => self.prepared.placement.hubs.len() + place,
        }
    }

    pub(super) fn hub(&self, machine: MachineId) -> Option<&Hub> {
        self.machines[machine].as_ref().and_then(Machine::as_hub)
    }

    pub(super) fn node(&self, machine: MachineId) -> Option<&Node> {
        self.machines[machine].as_ref().and_then(Machine::as_node)
    }

    /// Packets of a request's reflected stream that never came.
    pub(super) fn missing_packets(&self, machine: MachineId, ticket: Ticket) -> Option<u64> {
        self.machines[machine].as_ref()?.missing_packets(ticket)
    }

    pub(super) fn runs(&self, machine: MachineId) -> bool {
        self.machines[machine].is_some()
    }

    /// Checks a machine when no request is waited for.
    pub(super) fn look_at_end(&mut self, machine: MachineId) {
        // A frozen machine cannot end anything.
        if self.frozen[machine].is_none()
            && let Some(node) = self.machines[machine].as_ref().and_then(Machine::as_node)
        {
            self.checks.at_end(self.now, machine, node);
        }
    }

    /// The packets of all machines, by purpose.
    pub(super) fn shares(&self) -> TrafficBreakdown {
        let ControlMessages { alone, shared, bytes, .. } = self.control_messages;
        TrafficBreakdown {
            control_messages: alone,
            shared_control_messages: shared,
            control_message_bytes: bytes,
            relayed_bytes: self.relayed_bytes,
            ..self.connections.shares()
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.connections.deadline(), self.calendar.next()].into_iter().flatten().min()
    }

    /// Processes the next event that is due by `until`; `false` if there is none.
    pub(super) fn step(&mut self, until: Time) -> bool {
        // Of one time, timers of machines come first, then packets, then timers of connections.
        let (own, connections) = (self.calendar.next(), self.connections.next_timer());
        let before_own = own.map(|at| Time::from_nanos(at.as_nanos() - 1));
        let carried = [Some(until), before_own, connections].into_iter().flatten().min().unwrap_or(until);
        if let Some(at) = self.connections.carry(carried, &mut self.trace) {
            self.now = at.max(self.now);
        } else {
            let next = [own, connections].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else { return false };
            self.now = at.max(self.now);
            match self.calendar.take_due(self.now) {
                Some(due) => self.act(due),
                None => self.connections.handle_timer(self.now),
            }
        }
        self.steps += 1;
        self.deliver_inputs();
        true
    }

    /// Passes events of connections to their machines.
    fn deliver_inputs(&mut self) {
        while let Some((machine, news)) = self.connections.poll() {
            self.deliver_input(machine, news);
        }
    }

    fn act(&mut self, due: SimWorldTimer) {
        match due {
            SimWorldTimer::Start(machine) => self.start(machine),
            SimWorldTimer::Wake(machine) if self.hold(machine, due) => {}
            SimWorldTimer::Wake(machine) => self.wake(machine),
            SimWorldTimer::Tick(machine, _) if self.hold(machine, due) => {}
            SimWorldTimer::Tick(machine, session) => self.tick(machine, session),
        }
    }

    /// The next event of a node since the last call.
    pub(super) fn poll(&mut self) -> Option<(MachineId, NodeEvent)> {
        self.told.pop_front()
    }

    pub(super) fn command(&mut self, machine: MachineId, command: NodeCommand) {
        if let Some(frozen) = &mut self.frozen[machine] {
            frozen.commands.push(command);
        } else if let Some(node) = &mut self.machines[machine] {
            node.command(self.now, command);
            self.drain(machine);
        }
    }

    pub(super) fn cancel(&mut self, machine: MachineId, ticket: Ticket) {
        if self.runs(machine) {
            self.checks.gave_up(machine, ticket);
            self.command(machine, NodeCommand::Cancel { ticket });
        }
    }

    #[cfg(test)]
    pub(super) fn push_event(&mut self, machine: MachineId, event: NodeEvent) {
        self.told.push_back((machine, event));
    }

    fn wake(&mut self, machine: MachineId) {
        let Some(woken) = self.machines[machine].as_mut().filter(|_| self.armed[machine] == Some(self.now)) else {
            return;
        };
        self.armed[machine] = None;
        if woken.deadline().is_some_and(|deadline| deadline <= self.now) {
            woken.wake(self.now);
        }
        self.drain(machine);
    }

    fn tick(&mut self, machine: MachineId, session: SessionId) {
        let Some(ticking) = &mut self.machines[machine] else { return };
        if let Some(next) = ticking.tick(self.now, session) {
            self.calendar.push(next, SimWorldTimer::Tick(machine, session));
        }
        self.drain(machine);
    }

    fn deliver_input(&mut self, machine: MachineId, news: MachineInput) {
        if let MachineInput::Message { message, .. } | MachineInput::Multicast { message, .. } = &news {
            self.trace.message(self.now, machine, message);
        }
        if let Some(hearing) = &mut self.machines[machine] {
            hearing.handle_input(self.now, news);
            self.drain(machine);
        }
    }

    /// Carries out a machine's outputs, in the order of the machines' contract.
    fn drain(&mut self, machine: MachineId) {
        while let Some(output) = self.machines[machine].as_mut().and_then(|drained| drained.poll(self.now)) {
            match output {
                MachineOutput::Transmit(transmit) => self.transmit(machine, transmit),
                MachineOutput::Datagram(MediaDatagram { to, content }) => {
                    self.connections.send_datagram(self.now, machine, to, content);
                }
                MachineOutput::Event(event) => self.told.push_back((machine, event)),
                MachineOutput::Tick(session, at) => self.calendar.push(at, SimWorldTimer::Tick(machine, session)),
                MachineOutput::Left => {
                    self.connections.flush(self.now);
                    return self.kill(machine);
                }
            }
        }
        self.connections.flush(self.now);
        let Some(drained) = &self.machines[machine] else { return };
        if let Some(hub) = drained.as_hub() {
            self.checks.look_at_hub(self.now, machine, hub);
        } else if let Some(node) = drained.as_node() {
            self.checks.look_at_node(self.now, machine, node);
        }
        if let Some(at) = drained.deadline().map(|deadline| deadline.max(self.now))
            && self.armed[machine].is_none_or(|armed| at < armed)
        {
            self.armed[machine] = Some(at);
            self.calendar.push(at, SimWorldTimer::Wake(machine));
        }
    }

    pub(super) fn transmit(&mut self, machine: MachineId, transmit: Transmit) {
        match transmit {
            Transmit::Message { connection, channel, delivery, traffic, message } => {
                let Some(to) = self.connections.far(connection) else { return };
                self.checks.sent(self.now, machine, to, traffic, &message);
                *self.sent[machine].entry(traffic).or_default() += message.len() as u64;
                self.count(machine, to, traffic, message.len() as u64);
                self.connections.send(self.now, connection, (channel, delivery), message);
            }
            Transmit::Dial { dial, addresses, expect, node } => {
                self.connections.dial(self.now, machine, dial, addresses, expect, node);
            }
            Transmit::Close { connection, reason } => self.connections.close(self.now, connection, &reason),
            Transmit::Multicast { traffic, message } => {
                *self.sent[machine].entry(traffic).or_default() += message.len() as u64;
                self.connections.multicast(self.now, machine, &message);
            }
        }
    }

    fn count(&mut self, from: MachineId, to: MachineId, traffic: Traffic, bytes: u64) {
        let said = &mut self.said[traffic as usize];
        (said.messages, said.bytes) = (said.messages + 1, said.bytes + bytes);
        let hubs = self.prepared.placement.hubs.len();
        if from >= hubs && to >= hubs {
            self.control_messages.count((from, to, self.now), traffic, bytes);
        }
        if traffic == Traffic::Payload && (from < hubs || to < hubs) {
            self.relayed_bytes += bytes;
        }
        if from < hubs && to < hubs {
            self.between_hubs.entry((from, to)).or_default()[traffic as usize] += bytes;
        }
    }
}
