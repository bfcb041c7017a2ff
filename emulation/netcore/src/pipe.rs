//! A direction: packets arrive, wait, are transmitted and propagate.

use std::collections::VecDeque;
use std::time::Duration;

use roost_topology::model::{PacketOrder, TopologyChange};
use roost_topology::units::Rate;
use roost_wire::Time;

use super::counters::{FlowCounters, PacketCount, PipeCounters};
use super::loss::{LossState, PipeRng};
use super::player::Player;
use super::queue::{self, EarlyDetection, QueueArrival};
use super::timer_queue::AgendaKey;
use super::transmitter::Transmitter;
use super::{Destination, PipeConfig};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropCause {
    /// The queue was full, or RED chose the packet.
    Queue,
    Loss,
    Down,
    /// A limit of the network: [`Limits`](super::NetworkLimits).
    Limit,
}

/// The properties of a packet besides its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) bytes: u32,
    pub(super) to: Destination,
}

/// A packet inside. `due` is the time it comes out, once its transmission is over.
#[derive(Clone, Debug)]
pub(super) struct Inside<P> {
    pub(super) header: Header,
    pub(super) due: Time,
    pub(super) sequence: u64,
    pub(super) packet: P,
}

/// A pipe. Its packets are in one row: `departed` ones in flight, then the one in transmission, then those that
/// wait. Transmissions end lazily, in [`Pipe::advance`], but at their exact times. Those in flight are in the order in
/// which they come out.
#[derive(Clone, Debug)]
pub(super) struct Pipe<P> {
    config: PipeConfig,
    /// The settings that the pipe will have when it is up again; `None` while it is up.
    when_up: Option<PipeConfig>,
    inside: VecDeque<Inside<P>>,
    departed: usize,
    queued_bytes: u64,
    transmitter: Transmitter,
    player: Option<Player>,
    /// The jitter of the packet in transmission.
    extra: Duration,
    /// The time at which the packet that departed last comes out: none may overtake it.
    last_due: Time,
    /// The part of the delay for which packets are outside, before they come in or after they come out.
    outside: Duration,
    losses: LossState,
    early: EarlyDetection,
    streams: PipeRng,
    counters: PipeCounters,
}

impl<P> Pipe<P> {
    pub(super) fn new(config: PipeConfig, streams: PipeRng) -> Self {
        let player = config.trace.clone().map(Player::new);
        Self {
            config,
            player,
            when_up: None,
            inside: VecDeque::new(),
            departed: 0,
            queued_bytes: 0,
            transmitter: Transmitter::new(),
            extra: Duration::ZERO,
            last_due: Time::ZERO,
            outside: Duration::ZERO,
            losses: LossState::default(),
            early: EarlyDetection::default(),
            streams,
            counters: PipeCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> PipeCounters {
        self.counters
    }

    pub(super) fn config(&self) -> &PipeConfig {
        self.when_up.as_ref().unwrap_or(&self.config)
    }

    /// True if neither a change nor its trace has it down.
    pub(super) fn is_up(&self, now: Time) -> bool {
        let given = self.player.as_ref().and_then(|player| player.values(now).is_up);
        self.when_up.is_none() && given != Some(false)
    }

    /// The rate in force at a time; 1 bit a second if it stands still.
    pub(super) fn rate(&self, now: Time) -> Rate {
        let given = self.player.as_ref().and_then(|player| player.values(now).rate);
        given.map_or(self.config().rate, |rate| Rate::from_bps(rate.max(1)))
    }

    /// The bytes that its trace could have carried by a time; `None` if no trace gives its rate.
    pub(super) fn capacity(&self, now: Time) -> Option<u64> {
        self.player.as_ref()?.capacity(now)
    }

    pub(super) fn set_outside(&mut self, outside: Duration) {
        self.outside = outside;
    }

    /// Begins its trace at a time. A packet in service is transmitted anew.
    pub(super) fn play(&mut self, now: Time) {
        self.advance(now);
        let Some(player) = &mut self.player else { return };
        player.restart(now);
        if player.has_rate() && self.departed < self.inside.len() {
            self.transmitter.end_at(now);
            self.serve(now);
        }
    }

    /// The time of the next step: a packet comes out, or one that may overtake has been transmitted.
    pub(super) fn next(&self) -> Option<AgendaKey> {
        let first = self.inside.front()?;
        let served = self.inside.get(self.departed).map(|served| (self.due_of_served(), served.sequence));
        // A trace that is over may let nothing pass any more.
        let served = served.filter(|(due, _)| due.as_nanos() < u64::MAX);
        let in_flight = (self.departed > 0).then_some((first.due, first.sequence));
        if self.config.order == PacketOrder::Kept {
            return in_flight.or(served);
        }
        // Of those that wait behind the one in service nothing is known before its end.
        let waits = self.inside.len() > self.departed + 1;
        let end = served.filter(|_| waits).map(|(_, sequence)| (self.transmitter.end(), sequence));
        [in_flight, served, end].into_iter().flatten().min()
    }

    /// Decides about a packet that arrives now, and counts it. After an admission [`Pipe::put`] must follow.
    /// `room` is the limit of packets inside.
    pub(super) fn admit(&mut self, now: Time, header: Header, room: usize) -> Result<(), DropCause> {
        self.advance(now);
        let verdict = self.judge(now, header.bytes, room);
        let flow = flow(&mut self.counters, header.to);
        let one = PacketCount::one(header.bytes);
        flow.arrived += one;
        match verdict {
            Ok(()) => flow.in_flight += one,
            Err(DropCause::Queue) => flow.dropped_queue += one,
            Err(DropCause::Loss) => flow.dropped_loss += one,
            Err(DropCause::Down) => flow.dropped_down += one,
            Err(DropCause::Limit) => flow.dropped_limit += one,
        }
        verdict
    }

    /// Takes an admitted packet. `sequence` orders it among all packets.
    pub(super) fn put(&mut self, now: Time, sequence: u64, header: Header, packet: P) {
        let idle = self.departed == self.inside.len();
        self.inside.push_back(Inside { header, due: now, sequence, packet });
        self.queued_bytes += u64::from(header.bytes);
        if idle {
            self.serve(now);
        }
    }

    /// Removes the packet that is due now.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Inside<P>> {
        self.advance(now);
        if self.departed == 0 || self.inside.front()?.due > now {
            return None;
        }
        let taken = self.inside.pop_front()?;
        self.departed -= 1;
        let flow = flow(&mut self.counters, taken.header.to);
        flow.in_flight -= PacketCount::one(taken.header.bytes);
        flow.delivered += PacketCount::one(taken.header.bytes);
        Some(taken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// The packets that are transmitted by `now` and have not come out.
    pub(super) fn in_flight(&mut self, now: Time) -> impl Iterator<Item = &Inside<P>> {
        self.advance(now);
        self.inside.iter().take(self.departed)
    }

    /// Changes the pipe; transmissions up to `now` are completed with the old settings first.
    pub(super) fn change(&mut self, now: Time, change: TopologyChange) {
        self.advance(now);
        match change {
            TopologyChange::Up => {
                if let Some(config) = self.when_up.take() {
                    self.config = config;
                }
            }
            TopologyChange::Down => {
                self.when_up.get_or_insert_with(|| self.config.clone());
            }
            other => self.when_up.as_mut().unwrap_or(&mut self.config).change(other),
        }
    }

    fn judge(&mut self, now: Time, bytes: u32, room: usize) -> Result<(), DropCause> {
        let given = self.player.as_ref().map(|player| player.values(now)).unwrap_or_default();
        if self.when_up.is_some() || given.is_up == Some(false) {
            return Err(DropCause::Down);
        }
        let loss = given.loss.unwrap_or(self.config.loss);
        if self.losses.strike(loss, self.config.burst, &mut self.streams) {
            return Err(DropCause::Loss);
        }
        if !self.queue_admits(now, bytes) {
            return Err(DropCause::Queue);
        }
        if self.inside.len() < room { Ok(()) } else { Err(DropCause::Limit) }
    }

    fn queue_admits(&mut self, now: Time, bytes: u32) -> bool {
        let packets = self.inside.len() - self.departed;
        let rate = self.rate(now);
        if packets == 0 && rate.is_unlimited() {
            return true;
        }
        let arrival = QueueArrival {
            queued: PacketCount { packets: packets as u64, bytes: self.queued_bytes },
            bytes,
            idle: now.since(self.transmitter.end()),
            rate,
        };
        queue::admits(&self.config.queue, arrival, &mut self.early, &mut self.streams.early)
    }

    /// Ends the transmissions that are over by `now`, each at its own time.
    fn advance(&mut self, now: Time) {
        while self.departed < self.inside.len() && self.transmitter.end() <= now {
            let due = self.due_of_served();
            let served = &mut self.inside[self.departed];
            served.due = due;
            self.last_due = self.last_due.max(due);
            self.queued_bytes -= u64::from(served.header.bytes);
            self.sort_in(self.departed);
            self.departed += 1;
            // Waiting packets were there before the end, so the next transmission starts right at it.
            self.serve(Time::ZERO);
        }
    }

    /// Moves a packet before those that come out after it.
    fn sort_in(&mut self, from: usize) {
        let due = self.inside[from].due;
        if from == 0 || self.inside[from - 1].due <= due {
            return;
        }
        let (mut low, mut high) = (0, from);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.inside[middle].due <= due { low = middle + 1 } else { high = middle }
        }
        if let Some(packet) = self.inside.remove(from) {
            self.inside.insert(low, packet);
        }
    }

    /// Begins to transmit the first waiting packet, if there is one.
    fn serve(&mut self, ready: Time) {
        if let Some(first) = self.inside.get(self.departed) {
            let bytes = first.header.bytes;
            match self.player.as_mut().filter(|player| player.has_rate()) {
                Some(player) => {
                    let end = player.transmit(ready, self.transmitter.end(), bytes);
                    self.transmitter.end_at(end);
                }
                None => self.transmitter.transmit(ready, bytes, self.config.rate),
            }
            let jitter = u64::try_from(self.config.jitter.as_nanos()).unwrap_or(u64::MAX);
            if jitter > 0 {
                self.extra = Duration::from_nanos(self.streams.jitter.below(jitter.saturating_add(1)));
            } else {
                self.extra = Duration::ZERO;
            }
        }
    }

    /// The time at which the packet in transmission comes out, if the delay stays unchanged.
    fn due_of_served(&self) -> Time {
        let end = self.transmitter.end();
        let given = self.player.as_ref().and_then(|player| player.values(end).delay);
        let delay = given.unwrap_or(self.config.delay) + self.extra;
        let due = end + delay.saturating_sub(self.outside);
        match self.config.order {
            PacketOrder::Kept => self.last_due.max(due),
            PacketOrder::Free => due,
        }
    }
}

pub(super) fn flow(counters: &mut PipeCounters, to: Destination) -> &mut FlowCounters {
    match to {
        Destination::Port(_) => &mut counters.unicast,
        Destination::Others => &mut counters.multicast,
    }
}
