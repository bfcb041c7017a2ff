//! A channel that several stations share: the distributed coordination function of IEEE 802.11.
//!
//! A station that has a packet waits until it has sensed no signal for DIFS, counts down a random number of slots,
//! and sends. Its count stands while it senses a signal. Whoever receives a frame for itself acknowledges it after
//! SIFS. Without an acknowledgement the sender doubles its window and tries again, up to a number of retries. Frames
//! to all are sent once, at the basic rate.
//!
//! A frame is lost at a receiver that senses another one meanwhile, or sends itself; nothing is captured. Two
//! stations that do not sense each other are hidden from each other. Signals are sensed at once, acknowledgements
//! are never lost, and there is neither RTS/CTS nor EIFS.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_motion::LinkState;
use roost_topology::model::{Contention, Queue};
use roost_wire::Time;
use roost_wire::random::SplitMix64;

use super::counters::{FlowCounters, PacketCount, PipeCounters};
use super::loss::happens;
use super::pipe::{DropCause, Header, flow};
use super::{Destination, Port};

/// A packet that came out at a station.
#[derive(Clone, Debug)]
pub(super) struct MediumDelivery<P> {
    pub(super) station: usize,
    pub(super) header: Header,
    pub(super) packet: P,
}

/// The result of one event: deliveries, and packets that are no longer inside.
#[derive(Clone, Debug)]
pub(super) struct MediumStep<P> {
    pub(super) deliveries: Vec<MediumDelivery<P>>,
    /// Packets that came into being or left otherwise.
    pub(super) entered: usize,
    pub(super) left: usize,
    /// Copies for which the network had no room.
    pub(super) overflows: u64,
}

#[derive(Clone, Debug)]
struct AirStation<P> {
    queue: VecDeque<(Header, P)>,
    queued_bytes: u64,
    /// The failed transmissions of the first packet.
    attempts: u32,
    window: u32,
    /// Slots to wait before sending; `None` when the station may send at once.
    backoff: Option<u32>,
    /// The number of signals that it senses, its own included.
    signals: u32,
    idle_since: Time,
    not_before: Time,
    random: SplitMix64,
    sent: PipeCounters,
    received: PipeCounters,
}

/// A frame on the air, and then its acknowledgement.
#[derive(Clone, Debug)]
struct OnAir {
    from: usize,
    to: Option<usize>,
    end: Time,
    is_acknowledgement: bool,
    /// The stations at which it is lost.
    is_lost_at: Vec<bool>,
    is_sensed_at: Vec<bool>,
}

/// The channel and its stations. The caller runs events in order: each [`Self::step`] at [`Self::deadline`].
#[derive(Clone, Debug)]
pub(super) struct Medium<P> {
    rules: Contention,
    queue: Queue,
    /// The number of the first station's port.
    first_port: usize,
    stations: Vec<AirStation<P>>,
    links: Vec<LinkState>,
    on_air: Vec<OnAir>,
    /// Packets between the end of their frame and their receiver.
    flying: BTreeMap<(Time, u64), MediumDelivery<P>>,
    sequence: u64,
    losses: SplitMix64,
}

impl<P: Clone> Medium<P> {
    pub(super) fn new(rules: Contention, queue: Queue, ports: &[Port], seed: u64) -> Self {
        let mut root = SplitMix64::new(SplitMix64::new(seed).next_u64());
        let losses = SplitMix64::new(root.next_u64());
        let station = |random| AirStation {
            queue: VecDeque::new(),
            queued_bytes: 0,
            attempts: 0,
            window: rules.window,
            backoff: None,
            signals: 0,
            idle_since: Time::ZERO,
            not_before: Time::ZERO,
            random,
            sent: PipeCounters::default(),
            received: PipeCounters::default(),
        };
        let links = vec![LinkState::NOWHERE; ports.len() * ports.len()];
        let first_port = ports.first().map_or(0, |port| port.index());
        let stations = (0..ports.len()).map(|_| station(SplitMix64::new(root.next_u64()))).collect();
        let (on_air, flying) = (Vec::new(), BTreeMap::new());
        Self { rules, queue, first_port, stations, links, on_air, flying, sequence: 0, losses }
    }

    pub(super) fn set_link(&mut self, from: usize, to: usize, state: LinkState) {
        let count = self.stations.len();
        if from < count && to < count {
            self.links[from * count + to] = state;
        }
    }

    fn link(&self, from: usize, to: usize) -> &LinkState {
        &self.links[from * self.stations.len() + to]
    }

    /// The receiver of a packet; `None` is all.
    fn receiver(&self, to: Destination) -> Option<usize> {
        match to {
            Destination::Port(port) => port.index().checked_sub(self.first_port),
            Destination::Others => None,
        }
    }

    pub(super) const fn station(&self, port: Port) -> usize {
        port.index().saturating_sub(self.first_port)
    }

    pub(super) const fn port(&self, station: usize) -> Port {
        Port::from_index(self.first_port + station)
    }

    /// The counters of a station's own packets.
    pub(super) fn sent(&self, station: usize) -> PipeCounters {
        self.stations[station].sent
    }

    /// The counters of packets for a station.
    pub(super) fn received(&self, station: usize) -> PipeCounters {
        self.stations[station].received
    }

    /// Puts a packet into a station's queue.
    pub(super) fn offer(&mut self, now: Time, station: usize, header: Header, packet: P) -> Result<(), DropCause> {
        let Queue { limit, in_bytes, .. } = self.queue;
        let own = &mut self.stations[station];
        let flow = flow(&mut own.sent, header.to);
        let one = PacketCount::one(header.bytes);
        flow.arrived += one;
        let is_full = match in_bytes {
            true => own.queued_bytes + u64::from(header.bytes) > u64::from(limit),
            false => own.queue.len() >= limit as usize,
        };
        if is_full {
            flow.dropped_queue += one;
            return Err(DropCause::Queue);
        }
        flow.in_flight += one;
        own.queued_bytes += u64::from(header.bytes);
        own.queue.push_back((header, packet));
        if own.queue.len() == 1 {
            self.contend(now, station);
        }
        Ok(())
    }

    /// Counts a packet for which the network has no room.
    pub(super) fn refuse(&mut self, station: usize, header: Header) {
        let flow = flow(&mut self.stations[station].sent, header.to);
        flow.arrived += PacketCount::one(header.bytes);
        flow.dropped_limit += PacketCount::one(header.bytes);
    }

    /// A station with a first packet begins to contend.
    fn contend(&mut self, now: Time, station: usize) {
        let rules = self.rules;
        let own = &mut self.stations[station];
        let is_counting = own.signals > 0 || own.counted_at(&rules) > now;
        match own.backoff {
            // The count since its last packet goes on.
            Some(_) if is_counting => {}
            _ if own.signals > 0 => own.draw(),
            _ => own.backoff = Some(0),
        }
        own.not_before = now;
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let access = self.stations.iter().filter_map(|station| station.access_at(&self.rules));
        let ends = self.on_air.iter().map(|frame| frame.end);
        let arrivals = self.flying.keys().next().map(|(at, _)| *at);
        access.chain(ends).chain(arrivals).min()
    }

    /// Runs what happens at `now`, which is the [`Self::deadline`]: frames end before others begin. Copies of
    /// packets come into being while there is `room`.
    pub(super) fn step(&mut self, now: Time, room: usize) -> MediumStep<P> {
        let mut step = MediumStep { deliveries: Vec::new(), entered: 0, left: 0, overflows: 0 };
        // Stations whose count ends now send, whatever begins or ends at the same time.
        let ready: Vec<usize> = (0..self.stations.len())
            .filter(|station| self.stations[*station].access_at(&self.rules).is_some_and(|at| at <= now))
            .collect();
        while let Some(place) = self.on_air.iter().position(|frame| frame.end <= now) {
            let frame = self.on_air.swap_remove(place);
            self.end_frame(now, frame, room, &mut step);
        }
        for station in ready {
            self.send(now, station);
        }
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let delivery = entry.remove();
            let flow = flow(&mut self.stations[delivery.station].received, delivery.header.to);
            flow.in_flight -= PacketCount::one(delivery.header.bytes);
            flow.delivered += PacketCount::one(delivery.header.bytes);
            step.deliveries.push(delivery);
        }
        step
    }

    fn send(&mut self, now: Time, from: usize) {
        let Some(header) = self.stations[from].queue.front().map(|(header, _)| *header) else { return };
        let to = self.receiver(header.to);
        let rate = match to.map(|to| self.link(from, to)) {
            Some(link) if link.is_up => link.rate,
            _ => self.rules.basic_rate,
        };
        let bytes = u64::from(header.bytes) + u64::from(self.rules.header_bytes);
        let end = now + self.rules.preamble + rate.time_for(bytes);
        let count = self.stations.len();
        let is_sensed_at: Vec<bool> =
            (0..count).map(|other| other == from || self.link(from, other).is_sensed).collect();
        let mut frame =
            OnAir { from, to, end, is_acknowledgement: false, is_lost_at: vec![false; count], is_sensed_at };
        frame.is_lost_at[from] = true;
        for other in &mut self.on_air {
            let answers = other.to.filter(|_| other.is_acknowledgement);
            for station in 0..count {
                let meets = other.is_sensed_at[station] || answers == Some(station);
                frame.is_lost_at[station] |= meets;
                other.is_lost_at[station] |= frame.is_sensed_at[station];
            }
        }
        self.stations[from].backoff = None;
        (0..count).filter(|station| frame.is_sensed_at[*station]).for_each(|station| self.sense(now, station));
        self.on_air.push(frame);
    }

    /// A station senses one more signal: its count stands.
    fn sense(&mut self, now: Time, station: usize) {
        let rules = self.rules;
        let own = &mut self.stations[station];
        own.signals += 1;
        if own.signals > 1 {
            return;
        }
        let Some(backoff) = own.backoff else { return };
        let counted = now.since(own.idle_since + rules.difs).as_nanos() / rules.slot.as_nanos().max(1);
        let left = backoff.saturating_sub(u32::try_from(counted).unwrap_or(u32::MAX));
        match (left, own.queue.is_empty()) {
            (0, true) => own.backoff = None,
            // A station about to send must wait like all others now.
            (0, false) => own.draw(),
            (left, _) => own.backoff = Some(left),
        }
    }

    fn end_frame(&mut self, now: Time, frame: OnAir, room: usize, step: &mut MediumStep<P>) {
        if frame.is_acknowledgement {
            return self.release(now, &frame);
        }
        match frame.to {
            None => {
                self.release(now, &frame);
                self.broadcast_ended(now, &frame, room, step);
            }
            Some(to) if self.is_received(&frame, to) => self.acknowledge(now, frame, to),
            Some(_) => {
                self.release(now, &frame);
                self.failed(frame.from, step);
            }
        }
    }

    fn is_received(&mut self, frame: &OnAir, to: usize) -> bool {
        let link = *self.link(frame.from, to);
        link.is_up && !frame.is_lost_at[to] && !happens(&mut self.losses, link.loss)
    }

    /// Ends a signal at all who sense it.
    fn release(&mut self, now: Time, frame: &OnAir) {
        for (station, _) in self.stations.iter_mut().zip(&frame.is_sensed_at).filter(|(_, sensed)| **sensed) {
            station.signals -= 1;
            if station.signals == 0 {
                station.idle_since = now;
            }
        }
    }

    /// The receiver acknowledges: the channel stays busy for all who sense one of both.
    fn acknowledge(&mut self, now: Time, frame: OnAir, to: usize) {
        let bytes = u64::from(self.rules.ack_bytes);
        let end = now + self.rules.sifs + self.rules.preamble + self.rules.basic_rate.time_for(bytes);
        let mut frame = OnAir { end, is_acknowledgement: true, ..frame };
        for station in 0..self.stations.len() {
            let hears = station == to || self.link(to, station).is_sensed;
            if hears && !frame.is_sensed_at[station] {
                frame.is_sensed_at[station] = true;
                self.sense(now, station);
            }
        }
        let from = frame.from;
        self.on_air.push(frame);
        if let Some((header, packet)) = self.next_packet(from) {
            let sent = flow(&mut self.stations[from].sent, header.to);
            sent.in_flight -= PacketCount::one(header.bytes);
            sent.delivered += PacketCount::one(header.bytes);
            let delay = self.link(from, to).delay;
            self.fly(now + delay, MediumDelivery { station: to, header, packet });
        }
    }

    fn broadcast_ended(&mut self, now: Time, frame: &OnAir, room: usize, step: &mut MediumStep<P>) {
        let Some((header, packet)) = self.next_packet(frame.from) else { return };
        let sent = flow(&mut self.stations[frame.from].sent, header.to);
        sent.in_flight -= PacketCount::one(header.bytes);
        sent.delivered += PacketCount::one(header.bytes);
        step.left += 1;
        for station in (0..self.stations.len()).filter(|station| *station != frame.from) {
            if !self.is_received(frame, station) {
                continue;
            }
            if step.entered < room {
                let delay = self.link(frame.from, station).delay;
                self.fly(now + delay, MediumDelivery { station, header, packet: packet.clone() });
                step.entered += 1;
            } else {
                let received = flow(&mut self.stations[station].received, header.to);
                received.arrived += PacketCount::one(header.bytes);
                received.dropped_limit += PacketCount::one(header.bytes);
                step.overflows += 1;
            }
        }
    }

    fn failed(&mut self, from: usize, step: &mut MediumStep<P>) {
        let rules = self.rules;
        let own = &mut self.stations[from];
        own.attempts += 1;
        if own.attempts <= rules.retries {
            own.window = own.window.saturating_mul(2).min(rules.window_most);
            return own.draw();
        }
        if let Some((header, _)) = self.next_packet(from) {
            let sent = flow(&mut self.stations[from].sent, header.to);
            sent.in_flight -= PacketCount::one(header.bytes);
            sent.dropped_loss += PacketCount::one(header.bytes);
            step.left += 1;
        }
    }

    /// Removes a station's first packet; the next one starts with the first window.
    fn next_packet(&mut self, from: usize) -> Option<(Header, P)> {
        let own = &mut self.stations[from];
        let packet = own.queue.pop_front();
        own.queued_bytes -= packet.as_ref().map_or(0, |(header, _)| u64::from(header.bytes));
        (own.attempts, own.window) = (0, self.rules.window);
        own.draw();
        packet
    }

    fn fly(&mut self, at: Time, delivery: MediumDelivery<P>) {
        let flow: &mut FlowCounters = flow(&mut self.stations[delivery.station].received, delivery.header.to);
        flow.arrived += PacketCount::one(delivery.header.bytes);
        flow.in_flight += PacketCount::one(delivery.header.bytes);
        self.sequence += 1;
        self.flying.insert((at, self.sequence), delivery);
    }
}

impl<P> AirStation<P> {
    fn draw(&mut self) {
        // Below the window, which is a u32.
        self.backoff = Some(self.random.below(u64::from(self.window)) as u32);
    }

    /// The end of the count, if the channel stays idle.
    fn counted_at(&self, rules: &Contention) -> Time {
        let slots = rules.slot.checked_mul(self.backoff.unwrap_or(0)).unwrap_or(Duration::MAX);
        self.idle_since + rules.difs + slots
    }

    /// The time at which it sends, if the channel stays idle; `None` if it has nothing to send or waits.
    fn access_at(&self, rules: &Contention) -> Option<Time> {
        let may = self.signals == 0 && !self.queue.is_empty() && self.backoff.is_some();
        may.then(|| self.counted_at(rules).max(self.not_before))
    }
}
