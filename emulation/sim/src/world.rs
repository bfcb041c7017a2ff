//! All machines of a plan, in virtual time.

mod configuration;
mod frozen;
mod life;
mod parts;
mod settings;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use roost_core::hub::Hub;
use roost_core::node::{Node, NodeCommand, NodeEvent, SessionId, Ticket};
use roost_core::{Traffic, Transmit};
use roost_experiment::{Architecture, Endpoints, Prepared};
use roost_topology::model::HostIndex;
use roost_wire::{NodeId, Time};

use super::TrafficBreakdown;
use super::connections::{MachineId, MachineInput, SimConnections};
use super::control_messages::ControlMessages;
use super::event_queue::SimEventQueue;
use super::fingerprint::RunFingerprint;
use super::invariants::InvariantChecker;
use super::machine::{Machine, MachineOutput};
use super::media::MediaDatagram;
use frozen::Frozen;
pub use settings::check_settings;

/// The start of the first machine. It is not 0, so that earlier times exist.
const DAWN: Time = Time::from_nanos(1_000_000_000);
/// The start of the first node after the hubs, and the interval between nodes.
const NODES_AFTER: Duration = Duration::from_secs(1);
pub(super) const BETWEEN_NODES: Duration = Duration::from_millis(1);

/// The machines, their connections, and the commands and events of their drivers.
pub(super) struct SimWorld<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) now: Time,
    pub(super) trace: RunFingerprint,
    pub(super) checks: InvariantChecker,
    pub(super) connections: SimConnections,
    endpoints: Arc<Endpoints>,
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
