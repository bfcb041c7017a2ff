//! Pipes joined into links and LANs, and their events in order of time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_topology::model::PacketOrder;
use roost_topology::units::Rate;
use roost_wire::Time;

use super::loss::PipeRng;
use super::parts::NetworkPart;
use super::pipe::{DropCause, Header, Inside, Pipe};
use super::radio::{Air, LanRadio};
use super::timer_queue::TimerQueue;
use super::watch::{Sighting, SightingKind, Watch};
use super::{NetworkLimits, PipeChange, PipeConfig, PipeCounters};

/// A member's attachment to the network: its packets go in here, and packets for it come out. Numbered from 0
/// in the order in which links and LANs were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u32);

impl Port {
    /// The number, as an index for tables of the caller.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The port of a number that another network of the same description gave. A number without a port is unreachable.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The port of a number that was a port's.
    pub(super) const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
}

/// A direction of a link, or of a member of a LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub(super) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A member of the same link or LAN.
    Port(Port),
    /// All members but the sender: multicast and broadcast.
    Others,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The exact time of the delivery; the caller may fetch it later.
    pub due: Time,
    pub port: Port,
    pub bytes: u32,
    pub packet: P,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendOutcome {
    Queued,
    /// Dropped and counted in the first pipe.
    Dropped(DropCause),
    /// There is no such port, or the destination is the sender or on another link or LAN. Nothing is counted.
    Unreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watching {
    On,
    Off,
}

/// More changes than [`NetworkLimits::changes`] are scheduled; this one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no more than {0} changes can be scheduled at a time: schedule the later ones later")]
pub struct ScheduleFull(pub usize);

/// Links, LANs, and the packets inside. See the [module](super) for the model.
#[derive(Clone, Debug)]
pub struct Network<P> {
    pub(super) seed: u64,
    pub(super) limits: NetworkLimits,
    pub(super) pipes: Vec<Pipe<P>>,
    pub(super) exits: Vec<Exit>,
    pub(super) ports: Vec<Attachment>,
    pub(super) lans: Vec<Vec<Port>>,
    pub(super) air: Air<P>,
    /// The part of a larger network that this one is.
    pub(super) part: Option<Box<NetworkPart<P>>>,
    pub(super) agenda: TimerQueue,
    changes: BTreeMap<(Time, u64), PipeChange>,
    pub(super) ready: VecDeque<Delivery<P>>,
    /// The time up to which all events are done.
    pub(super) clock: Time,
    sequence: u64,
    pub(super) held: usize,
    pub(super) overflows: u64,
    watch: Watch<P>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    pub(super) to_net: PipeId,
    pub(super) from_net: PipeId,
    /// The opposite port of a link; `None` on a LAN.
    pub(super) other_end: Option<Port>,
    /// The LAN, if `other_end` is `None`.
    pub(super) lan: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Exit {
    Port(Port),
    /// A switch, which receives the packets of this port.
    Switch(Port),
}

impl<P: Clone> Network<P> {
    /// Makes an empty network. Each pipe draws from its own random streams, which follow from `seed` and its
    /// number.
    pub fn new(seed: u64) -> Self {
        Self::with_limits(seed, NetworkLimits::default())
    }

    pub fn with_limits(seed: u64, limits: NetworkLimits) -> Self {
        Self {
            seed,
            limits,
            pipes: Vec::new(),
            exits: Vec::new(),
            ports: Vec::new(),
            lans: Vec::new(),
            air: Air::empty(),
            part: None,
            agenda: TimerQueue::default(),
            changes: BTreeMap::new(),
            ready: VecDeque::new(),
            clock: Time::ZERO,
            sequence: 0,
            held: 0,
            overflows: 0,
            watch: Watch::new(),
        }
    }

    /// Adds a link of one pipe each way; returns the ports `a` and `b` at its ends.
    pub fn add_link(&mut self, a_to_b: PipeConfig, b_to_a: PipeConfig) -> [Port; 2] {
        let [a, b] = [self.next_port(0), self.next_port(1)];
        let there = self.add_pipe(a_to_b, Exit::Port(b));
        let back = self.add_pipe(b_to_a, Exit::Port(a));
        self.ports.push(Attachment { to_net: there, from_net: back, other_end: Some(b), lan: 0 });
        self.ports.push(Attachment { to_net: back, from_net: there, other_end: Some(a), lan: 0 });
        [a, b]
    }

    /// Adds a LAN, whose members have a pipe to the switch and one from it.
    pub fn add_lan(&mut self, members: &[(PipeConfig, PipeConfig)]) -> Vec<Port> {
        let lan = self.lans.len();
        let add = |(to_net, from_net): &(PipeConfig, PipeConfig)| {
            let port = self.next_port(0);
            let to_net = self.add_pipe(to_net.clone(), Exit::Switch(port));
            let from_net = self.add_pipe(from_net.clone(), Exit::Port(port));
            self.ports.push(Attachment { to_net, from_net, other_end: None, lan });
            port
        };
        let ports: Vec<Port> = members.iter().map(add).collect();
        self.lans.push(ports.clone());
        ports
    }

    /// Runs all events due by `now`, then takes a packet of `bytes`. Time does not run backwards: a `now`
    /// before that of an earlier call counts as that one.
    pub fn send(&mut self, now: Time, from: Port, to: Destination, bytes: u32, packet: P) -> SendOutcome {
        self.run(now);
        match self.ports.get(from.index()) {
            Some(&port) if self.reaches(from, port, to) => self.enter(port.to_net, Header { bytes, to }, || packet),
            _ => SendOutcome::Unreachable,
        }
    }

    /// Schedules `change` at `at`, in order with all other events; a time in the past means with the next call.
    /// Changes for the same time happen in the order of the calls.
    ///
    /// # Errors
    /// Fails when there are too many; nothing is scheduled then.
    pub fn schedule(&mut self, at: Time, change: PipeChange) -> Result<(), ScheduleFull> {
        if self.changes.len() >= self.limits.changes {
            return Err(ScheduleFull(self.limits.changes));
        }
        let sequence = self.next_sequence();
        self.changes.insert((at.max(self.clock), sequence), change);
        Ok(())
    }

    /// Schedules all of these, as [`Self::schedule`] does, or none.
    ///
    /// # Errors
    /// Fails when there are too many; nothing is scheduled then.
    pub fn schedule_all(&mut self, changes: Vec<(Time, PipeChange)>) -> Result<(), ScheduleFull> {
        if changes.len() > self.limits.changes.saturating_sub(self.changes.len()) {
            return Err(ScheduleFull(self.limits.changes));
        }
        changes.into_iter().try_for_each(|(at, change)| self.schedule(at, change))
    }

    /// Begins the traces of all pipes at `now`, after all events due by then. Before, they play from time 0 on.
    pub fn play(&mut self, now: Time) {
        self.run(now);
        for (id, pipe) in self.pipes.iter_mut().enumerate() {
            pipe.play(self.clock);
            self.agenda.set(id as u32, pipe.next());
        }
    }

    /// Runs all events due by `now`, then makes the change.
    pub fn apply(&mut self, now: Time, change: PipeChange) {
        self.run(now);
        self.change(change);
    }

    /// Returns the next packet that came out by `now`, in the order of their times. The network's time is then
    /// that of the packet, so that it can be sent on at its due time; when none is left, it is `now`.
    pub fn poll_delivery(&mut self, now: Time) -> Option<Delivery<P>> {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                self.held -= 1;
                return Some(delivery);
            }
            if !self.step(now) {
                self.clock = self.clock.max(now);
                return None;
            }
        }
    }

    /// The time of the next event, at which to call [`Network::poll_delivery`]; most events are deliveries.
    /// `None` while nothing is inside or scheduled.
    pub fn poll_deadline(&self) -> Option<Time> {
        if let Some(delivery) = self.ready.front() {
            return Some(delivery.due);
        }
        let packet = self.agenda.first().map(|((due, _), _)| due);
        [packet, self.next_change(), self.air.deadline(), self.next_crossing()].into_iter().flatten().min()
    }

    /// Takes `outside` from the delay of each packet that a pipe transmits from now on: the caller keeps packets for
    /// so long before they come in, or after they come out. Of a shorter delay nothing is left.
    pub fn set_outside(&mut self, pipe: PipeId, outside: Duration) {
        if let Some(found) = self.pipes.get_mut(pipe.0 as usize) {
            found.set_outside(outside);
            self.agenda.set(pipe.0, found.next());
        }
    }

    /// The time up to which all events are done.
    pub fn now(&self) -> Time {
        self.clock
    }

    /// The counters of a pipe up to [`Network::now`].
    pub fn counters(&self, pipe: PipeId) -> PipeCounters {
        let own = self.pipes.get(pipe.0 as usize).map(Pipe::counters).unwrap_or_default();
        if self.air.lans.iter().all(Option::is_none) { own } else { self.with_air(pipe, own) }
    }

    /// The rate in force, by the pipe's trace if that gives one.
    pub fn rate(&self, pipe: PipeId) -> Option<Rate> {
        self.pipes.get(pipe.0 as usize).map(|pipe| pipe.rate(self.clock))
    }

    /// The bytes that a pipe could have carried up to [`Network::now`] by its trace; `None` if no trace gives its rate.
    pub fn capacity(&self, pipe: PipeId) -> Option<u64> {
        self.pipes.get(pipe.0 as usize)?.capacity(self.clock)
    }

    /// The settings of a pipe. If it is down, those that it will have when it is up again.
    pub fn config(&self, pipe: PipeId) -> Option<&PipeConfig> {
        self.pipes.get(pipe.0 as usize).map(Pipe::config)
    }

    /// True if a pipe is up and takes packets.
    pub fn is_up(&self, pipe: PipeId) -> bool {
        self.pipes.get(pipe.0 as usize).is_some_and(|pipe| pipe.is_up(self.clock))
    }

    /// The pipe for packets from a port.
    pub fn to_net(&self, port: Port) -> Option<PipeId> {
        self.ports.get(port.index()).map(|port| port.to_net)
    }

    /// The pipe for packets to a port; on a link it is the other port's [`Network::to_net`].
    pub fn from_net(&self, port: Port) -> Option<PipeId> {
        self.ports.get(port.index()).map(|port| port.from_net)
    }

    /// Packets inside, and delivered packets that are not fetched yet.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Packets dropped because of [`NetworkLimits`], in all pipes. If there are any, the run does not match its
    /// description.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Notes from now on each packet that enters or leaves a pipe, or no longer. The caller fetches them soon.
    pub fn set_watched(&mut self, pipe: PipeId, watching: Watching) {
        self.watch.set(pipe.0 as usize, watching == Watching::On);
    }

    /// The next packet that entered or left a watched pipe, in the order of their times.
    pub fn poll_sighting(&mut self) -> Option<Sighting<P>> {
        self.watch.next()
    }

    /// Packets at watched pipes that the caller was too slow to fetch, by pipe, since the last call.
    pub fn drain_missed_sightings(&mut self) -> BTreeMap<PipeId, u64> {
        self.watch.drain_missed()
    }

    fn run(&mut self, now: Time) {
        while self.step(now) {}
        self.clock = self.clock.max(now);
    }

    /// Runs the next event that is due by `now`; false if there is none.
    fn step(&mut self, now: Time) -> bool {
        if self.step_air(now) || self.step_crossing(now) {
            return true;
        }
        let change = self.changes.first_entry().filter(|entry| entry.key().0 <= now);
        let packet = self.agenda.first().filter(|((due, _), _)| *due <= now);
        match (change, packet) {
            (Some(entry), packet) if packet.is_none_or(|((due, _), _)| entry.key().0 <= due) => {
                let ((at, _), change) = entry.remove_entry();
                self.proceed(at);
                self.change(change);
                true
            }
            (_, Some(((due, _), pipe))) => {
                self.proceed(due);
                self.leave(pipe);
                true
            }
            (_, None) => false,
        }
    }

    /// Advances the clock to the next event, which is never in the past.
    pub(super) fn proceed(&mut self, to: Time) {
        debug_assert!(to >= self.clock, "{to} is before {}", self.clock);
        self.clock = to;
    }

    /// Moves the first packet of a pipe on to the pipe's far end.
    fn leave(&mut self, id: u32) {
        let pipe = &mut self.pipes[id as usize];
        let taken = pipe.take_due(self.clock);
        self.agenda.set(id, pipe.next());
        let Some(Inside { header, packet, sequence, .. }) = taken else { return };
        self.add_sighting(PipeId(id), SightingKind::Left, sequence, &packet);
        match self.exits[id as usize] {
            Exit::Port(port) if self.is_own(port) => {
                self.ready.push_back(Delivery { due: self.clock, port, bytes: header.bytes, packet });
            }
            // Another part has the packet.
            Exit::Port(_) => self.held -= 1,
            Exit::Switch(from) => {
                self.held -= 1;
                self.switch(from, header, packet);
            }
        }
    }

    /// Sends a packet on from a switch, as far as its receivers are of this part.
    pub(super) fn switch(&mut self, from: Port, header: Header, packet: P) {
        let lan = self.ports[from.index()].lan;
        if let Some(LanRadio::Shared(medium)) = self.air.lan(lan) {
            return self.offer(*medium, from, header, packet);
        }
        if let Destination::Port(to) = header.to {
            if self.is_own(to) {
                self.enter(self.way_out(from, to), header, || packet);
            }
            return;
        }
        for member in 0..self.lans[lan].len() {
            let port = self.lans[lan][member];
            if port != from && self.is_own(port) {
                self.enter(self.way_out(from, port), header, || packet.clone());
            }
        }
    }

    /// Puts a packet into a pipe. `packet` is only called if the pipe takes it.
    fn enter(&mut self, id: PipeId, header: Header, packet: impl FnOnce() -> P) -> SendOutcome {
        let room = if self.held < self.limits.network_packets { self.limits.pipe_packets } else { 0 };
        let sequence = self.next_sequence();
        let pipe = &mut self.pipes[id.0 as usize];
        if let Err(cause) = pipe.admit(self.clock, header, room) {
            self.overflows += u64::from(cause == DropCause::Limit);
            if self.watch.has(id.0 as usize) {
                self.add_sighting(id, SightingKind::Dropped(cause), sequence, &packet());
            }
            return SendOutcome::Dropped(cause);
        }
        let was_empty = pipe.is_empty();
        let packet = packet();
        if self.watch.has(id.0 as usize) {
            let packet = packet.clone();
            self.watch.add(Sighting {
                at: self.clock,
                pipe: id,
                kind: SightingKind::Entered,
                number: sequence,
                packet,
            });
        }
        pipe.put(self.clock, sequence, header, packet);
        // A packet that overtakes may come out before the first one.
        if was_empty || pipe.config().order == PacketOrder::Free {
            self.agenda.set(id.0, pipe.next());
        }
        self.held += 1;
        SendOutcome::Queued
    }

    fn add_sighting(&mut self, pipe: PipeId, kind: SightingKind, number: u64, packet: &P) {
        if self.watch.has(pipe.0 as usize) {
            self.watch.add(Sighting { at: self.clock, pipe, kind, number, packet: packet.clone() });
        }
    }

    pub(super) fn change(&mut self, change: PipeChange) {
        let id = change.pipe.0;
        if let Some(pipe) = self.pipes.get_mut(id as usize) {
            pipe.change(self.clock, change.change);
            self.agenda.set(id, pipe.next());
        }
    }

    fn reaches(&self, from: Port, port: Attachment, to: Destination) -> bool {
        match (to, port.other_end) {
            (Destination::Others, _) => true,
            (Destination::Port(to), Some(other_end)) => to == other_end,
            (Destination::Port(to), None) => {
                let there = self.ports.get(to.index());
                to != from && there.is_some_and(|there| there.other_end.is_none() && there.lan == port.lan)
            }
        }
    }

    pub(super) fn add_pipe(&mut self, config: PipeConfig, exit: Exit) -> PipeId {
        let id = self.pipes.len() as u32;
        self.pipes.push(Pipe::new(config, PipeRng::new(self.seed, id)));
        self.exits.push(exit);
        self.agenda.add();
        PipeId(id)
    }

    fn next_port(&self, after: u32) -> Port {
        Port(self.ports.len() as u32 + after)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn next_change(&self) -> Option<Time> {
        self.changes.first_key_value().map(|(&(at, _), _)| at)
    }
}
