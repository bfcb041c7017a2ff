//! Flows that share a bottleneck, in virtual time: each is a real connection over real QUIC connections and always has
//! an object to send.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::random::SplitMix64;
use roost_wire::{Channel, Congestion, Delivery, Service};

use crate::quic::simulated::QuicEnd;
use crate::simulated::{EndEvent, SimulatedEnd};

const MESSAGE_BYTES: u64 = 60_000;
const STREAM_BYTES: u64 = 6_000;
/// The bytes of a message in a packet of 1200 bytes.
const PACKET_PAYLOAD: f64 = 1160.0;
/// The least size of a queue, in bytes.
const LEAST_QUEUE: u64 = 30 * 1500;

/// The path between the two sides, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathProfile {
    pub(super) mbit: f64,
    pub(super) rtt_ms: u64,
    /// The part of the packets lost after the bottleneck.
    pub(super) loss: f64,
    /// A multiple of the bytes that the link carries in a round trip.
    pub(super) queue: f64,
}

impl PathProfile {
    fn bytes_per_second(&self) -> f64 {
        self.mbit * 1e6 / 8.0
    }

    fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt_ms)
    }

    fn queue_bytes(&self) -> u64 {
        ((self.bytes_per_second() * self.rtt().as_secs_f64() * self.queue) as u64).max(LEAST_QUEUE)
    }
}

pub(super) struct BottleneckQueue {
    path: PathProfile,
    free_at: Instant,
    /// The arrival time and the flow of each packet.
    under_way: VecDeque<(Instant, usize, Bytes)>,
    offered: u64,
    dropped: u64,
    /// The queuing time of each packet, in seconds.
    waited: Vec<f64>,
}

impl BottleneckQueue {
    pub(super) fn new(path: PathProfile, now: Instant) -> Self {
        Self { path, free_at: now, under_way: VecDeque::new(), offered: 0, dropped: 0, waited: Vec::new() }
    }

    pub(super) fn enqueue_packet(
        &mut self,
        now: Instant,
        flow: usize,
        bytes: u32,
        content: Bytes,
        random: &mut SplitMix64,
    ) {
        let wait = self.free_at.saturating_duration_since(now);
        self.offered += 1;
        self.waited.push(wait.as_secs_f64());
        if wait.as_secs_f64() * self.path.bytes_per_second() + f64::from(bytes) > self.path.queue_bytes() as f64 {
            self.dropped += 1;
            return;
        }
        let took = Duration::from_secs_f64(f64::from(bytes) / self.path.bytes_per_second());
        self.free_at = self.free_at.max(now) + took;
        let is_lost = (random.below(1 << 32) as f64) < self.path.loss * (1_u64 << 32) as f64;
        if !is_lost {
            self.under_way.push_back((self.free_at + self.path.rtt() / 2, flow, content));
        }
    }
}

impl BottleneckQueue {
    /// The next packet, if it has arrived.
    pub(super) fn arrived(&mut self, now: Instant) -> Option<Bytes> {
        self.next().filter(|at| *at <= now)?;
        self.under_way.pop_front().map(|(.., content)| content)
    }

    /// The arrival time of the next packet.
    pub(super) fn next(&self) -> Option<Instant> {
        self.under_way.front().map(|(at, ..)| *at)
    }
}

/// An object under way from one end to the other, a stream, or both over one connection.
struct Flow {
    begins: Instant,
    /// Bytes per second of a stream that goes before the object.
    stream: u64,
    /// Bytes of the stream that have left, and that have arrived.
    streamed: [u64; 2],
    ends: Option<[QuicEnd; 2]>,
    congestion: Congestion,
    left: u64,
    /// Bytes that arrived, for each second since the beginning.
    arrived: Vec<u64>,
    failed: Option<String>,
    done_at: Option<Instant>,
    size: u64,
}

/// The time at which the next message of a stream is due, after `left` bytes have left.
fn stream_due(begins: Instant, bytes_per_second: u64, left: u64) -> Option<Instant> {
    (bytes_per_second > 0).then(|| begins + Duration::from_secs_f64(left as f64 / bytes_per_second as f64))
}

#[derive(Debug)]
pub(super) struct Outcome {
    /// For each flow, the bytes that arrived in each second.
    pub(super) arrived: Vec<Vec<u64>>,
    pub(super) took: Duration,
    pub(super) failures: Vec<String>,
    path: PathProfile,
    pub(super) offered: u64,
    waited: Vec<f64>,
    /// Bytes of the first flow's stream that arrived.
    streamed: u64,
}

impl Outcome {
    /// The part of the link that the first flow used, from its first packet to its last.
    pub(super) fn goodput(&self) -> f64 {
        let bytes: u64 = self.arrived[0].iter().sum();
        bytes as f64 / self.took.as_secs_f64() / self.path.bytes_per_second()
    }

    /// The part of the link that a flow used between two seconds.
    pub(super) fn between(&self, flow: usize, from: usize, to: usize) -> f64 {
        let bytes: u64 = self.arrived[flow].iter().skip(from).take(to - from).sum();
        bytes as f64 / (to - from) as f64 / self.path.bytes_per_second()
    }

    /// The packets of these bytes, without those that are lost.
    pub(super) fn packets_per_second(&self, flow: usize, from: usize, to: usize) -> f64 {
        self.between(flow, from, to) * self.path.bytes_per_second() / PACKET_PAYLOAD
    }

    /// Packets at the bottleneck beyond the number that the bytes and the losses after it require.
    pub(super) fn waste(&self) -> f64 {
        let bytes: u64 = self.arrived.iter().flatten().sum();
        let needed = bytes as f64 / PACKET_PAYLOAD / (1.0 - self.path.loss);
        self.offered as f64 / needed - 1.0
    }

    /// The mean queue, as a multiple of the bytes that the link carries in a round trip.
    pub(super) fn queue(&self) -> f64 {
        let mean = self.waited.iter().sum::<f64>() / self.waited.len() as f64;
        mean / self.path.rtt().as_secs_f64()
    }

    /// The 95th percentile of the queuing time, in milliseconds.
    pub(super) fn p95_queue_ms(&self) -> f64 {
        let mut waited = self.waited.clone();
        waited.sort_by(f64::total_cmp);
        waited.get(waited.len() * 95 / 100).map_or(0.0, |seconds| seconds * 1e3)
    }

    /// Jain's fairness index of the flows between two seconds: 1 if all have the same share.
    pub(super) fn fairness(&self, from: usize, to: usize) -> f64 {
        let shares: Vec<f64> = (0..self.arrived.len()).map(|flow| self.between(flow, from, to)).collect();
        let sum: f64 = shares.iter().sum();
        sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
    }
}

/// The part of a stream of `mbit` Mbit/s that arrives beside an endless object in 8 s, over the same connection or over
/// one each.
pub(super) fn beside_an_object(path: PathProfile, mbit: f64, over_one: bool) -> f64 {
    let limit = Duration::from_secs(8);
    let flows = [Congestion::Rate; 2];
    let mut world = BottleneckHarness::new(path, &flows[usize::from(over_one)..], u64::MAX, 1);
    world.flows[0].stream = (mbit * 1e6 / 8.0) as u64;
    if !over_one {
        world.flows[0].left = 0;
        world.flows[1].begins = world.began;
    }
    let outcome = world.run(limit);
    outcome.streamed as f64 * 8.0 / (mbit * 1e6 * limit.as_secs_f64())
}

/// Sends an object of `bytes` with each of these controls, each five seconds after the one before. Stops when the first
/// object has arrived or after `limit`.
pub(super) fn transfer(path: PathProfile, flows: &[Congestion], bytes: u64, limit: Duration, seed: u64) -> Outcome {
    BottleneckHarness::new(path, flows, bytes, seed).run(limit)
}

struct BottleneckHarness {
    began: Instant,
    now: Instant,
    flows: Vec<Flow>,
    lanes: [BottleneckQueue; 2],
    random: SplitMix64,
    message: Bytes,
}

impl BottleneckHarness {
    fn new(path: PathProfile, flows: &[Congestion], bytes: u64, seed: u64) -> Self {
        let (now, mut random) = (Instant::now(), SplitMix64::new(seed));
        let mut flow = |(number, congestion): (u64, &Congestion)| Flow {
            begins: now + random.jitter(Duration::from_secs(5)) * number as u32,
            stream: 0,
            streamed: [0; 2],
            ends: None,
            congestion: *congestion,
            left: bytes,
            arrived: Vec::new(),
            failed: None,
            done_at: None,
            size: bytes,
        };
        Self {
            began: now,
            now,
            flows: (0..).zip(flows).map(&mut flow).collect(),
            lanes: [BottleneckQueue::new(path, now), BottleneckQueue::new(path, now)],
            random,
            message: vec![7; MESSAGE_BYTES as usize].into(),
        }
    }

    fn run(mut self, limit: Duration) -> Outcome {
        let until = self.began + limit;
        while self.now < until && self.flows[0].done_at.is_none() && self.flows[0].failed.is_none() {
            self.step();
            self.now = self.next().map_or(until, |next| next.max(self.now));
        }
        let took = self.flows[0].done_at.unwrap_or(until) - self.began;
        let [lane, _] = self.lanes;
        Outcome {
            arrived: self.flows.iter().map(|flow| flow.arrived.clone()).collect(),
            took,
            streamed: self.flows[0].streamed[1],
            failures: self.flows.into_iter().filter_map(|flow| flow.failed).collect(),
            path: lane.path,
            offered: lane.offered,
            waited: lane.waited,
        }
    }

    fn step(&mut self) {
        let Self { began, now, flows, lanes, random, message } = self;
        for side in 0..2 {
            while lanes[side].under_way.front().is_some_and(|(at, ..)| at <= now) {
                let Some((_, flow, content)) = lanes[side].under_way.pop_front() else { break };
                if let Some(ends) = &mut flows[flow].ends {
                    ends[1 - side].handle_packet(*now, 0, &content);
                }
            }
        }
        for (number, flow) in flows.iter_mut().enumerate() {
            if flow.begins > *now {
                continue;
            }
            let congestion = flow.congestion;
            let ends = flow
                .ends
                .get_or_insert_with(|| [QuicEnd::dial(*now, congestion, 1), QuicEnd::accept(*now, congestion, false)]);
            for (side, end) in ends.iter_mut().enumerate() {
                if end.deadline().is_some_and(|at| at <= *now) {
                    end.handle_timeout(*now);
                }
                while let Some(happening) = end.poll_event() {
                    match happening {
                        EndEvent::Message(message) if message.len() as u64 == STREAM_BYTES => {
                            flow.streamed[1] += STREAM_BYTES;
                        }
                        EndEvent::Message(message) if side == 1 => {
                            let second = now.duration_since(*began).as_secs() as usize;
                            flow.arrived.resize(flow.arrived.len().max(second + 1), 0);
                            flow.arrived[second] += message.len() as u64;
                        }
                        EndEvent::Down { reason } => flow.failed = Some(reason),
                        _ => {}
                    }
                }
            }
            while stream_due(flow.begins, flow.stream, flow.streamed[0]).is_some_and(|due| due <= *now)
                && ends[0].offer(
                    *now,
                    Channel::Reliable { flow: 2 },
                    &Delivery::for_service(Service::Track),
                    message.slice(..STREAM_BYTES as usize),
                )
            {
                flow.streamed[0] += STREAM_BYTES;
            }
            let bytes = flow.left.min(MESSAGE_BYTES);
            while flow.left > 0
                && ends[0].offer(
                    *now,
                    Channel::Reliable { flow: 1 },
                    &Delivery::default(),
                    message.slice(..flow.left.min(bytes) as usize),
                )
            {
                flow.left -= flow.left.min(bytes);
            }
            if flow.arrived.iter().sum::<u64>() == flow.size {
                flow.done_at.get_or_insert(*now);
            }
            for (side, end) in ends.iter_mut().enumerate() {
                while let Some(parcel) = end.poll_packet(*now) {
                    lanes[side].enqueue_packet(*now, number, parcel.bytes, parcel.content, random);
                }
            }
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let arrivals = self.lanes.iter().filter_map(|lane| lane.under_way.front().map(|(at, ..)| *at));
        let starts = self.flows.iter().filter(|flow| flow.ends.is_none()).map(|flow| flow.begins);
        let streams = self.flows.iter().filter_map(|flow| stream_due(flow.begins, flow.stream, flow.streamed[0]));
        let streams = streams.filter(|due| *due > self.now);
        let due: Vec<Instant> = arrivals.chain(starts).chain(streams).collect();
        let ends = self.flows.iter_mut().filter_map(|flow| flow.ends.as_mut()).flatten();
        ends.filter_map(SimulatedEnd::deadline).chain(due).min()
    }
}
