//! Frames at a steady rate over two paths at once, in virtual time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::random::SplitMix64;
use roost_wire::{Channel, Congestion, Delivery, DeliveryClass};

use super::bottleneck::{BottleneckQueue, PathProfile};
use crate::quic::simulated::QuicEnd;
use crate::simulated::{EndEvent, SimulatedEnd};

/// 100 Mbit/s with a queue of 12 ms, like the links of the lab.
const CONNECTION: PathProfile = PathProfile { mbit: 100.0, rtt_ms: 1, loss: 0.0, queue: 12.0 };
const FRAME_BYTES: usize = 65_000;
const PERIOD: Duration = Duration::from_millis(10);
/// The time in which both paths come up.
const LEAD: Duration = Duration::from_millis(200);

struct PacedFrameHarness {
    now: Instant,
    ends: [QuicEnd; 2],
    /// A queue for each side and path.
    lanes: [[BottleneckQueue; 2]; 2],
    random: SplitMix64,
}

impl PacedFrameHarness {
    fn new(loss: f64) -> Self {
        let now = Instant::now();
        let lane = || BottleneckQueue::new(PathProfile { loss, ..CONNECTION }, now);
        let ends = [QuicEnd::dial(now, Congestion::Rate, 2), QuicEnd::accept(now, Congestion::Rate, true)];
        Self { now, ends, lanes: [[lane(), lane()], [lane(), lane()]], random: SplitMix64::new(1) }
    }

    /// Runs the due events. Returns the messages that the second end received.
    fn step(&mut self) -> Vec<Bytes> {
        let Self { now, ends, lanes, random } = self;
        for (side, paths) in lanes.iter_mut().enumerate() {
            for (path, lane) in paths.iter_mut().enumerate() {
                while let Some(content) = lane.arrived(*now) {
                    ends[1 - side].handle_packet(*now, path as u8, &content);
                }
            }
        }
        let mut messages = Vec::new();
        for (side, end) in ends.iter_mut().enumerate() {
            if end.deadline().is_some_and(|at| at <= *now) {
                end.handle_timeout(*now);
            }
            while let Some(happening) = end.poll_event() {
                match happening {
                    EndEvent::Message(message) => messages.push(message),
                    EndEvent::Down { reason } => panic!("{reason}"),
                    EndEvent::Up { .. } => {}
                }
            }
            while let Some(parcel) = end.poll_packet(*now) {
                lanes[side][usize::from(parcel.path)].enqueue_packet(*now, 0, parcel.bytes, parcel.content, random);
            }
        }
        messages
    }

    fn next(&mut self) -> Option<Instant> {
        let arrivals = self.lanes.iter().flatten().filter_map(BottleneckQueue::next);
        let arrivals: Vec<Instant> = arrivals.collect();
        self.ends.iter_mut().filter_map(SimulatedEnd::deadline).chain(arrivals).min()
    }
}

/// The longest time that one of `count` frames took.
fn slowest(class: DeliveryClass, loss: f64, count: u32) -> Duration {
    let mut world = PacedFrameHarness::new(loss);
    let begin = world.now + LEAD;
    let delivery = Delivery { class, ..Delivery::default() };
    let (mut sent, mut came, mut slowest) = (0, 0, Duration::ZERO);
    while came < count {
        let due = (sent < count).then_some(begin + PERIOD * sent);
        if due.is_some_and(|due| due <= world.now) {
            let frame = vec![0; FRAME_BYTES].into();
            assert!(world.ends[0].offer(world.now, Channel::Reliable { flow: 1 }, &delivery, frame));
            sent += 1;
        }
        for _ in world.step() {
            slowest = slowest.max(world.now - (begin + PERIOD * came));
            came += 1;
        }
        let due = (sent < count).then_some(begin + PERIOD * sent);
        world.now = world.next().into_iter().chain(due).min().unwrap_or(world.now).max(world.now);
    }
    slowest
}

/// The first frame must be in time too, although nothing is known of the paths yet.
#[test]
fn duplicated_frames_are_never_late() {
    for loss in [0.0, 0.01] {
        let slowest = slowest(DeliveryClass::Duplicate, loss, 50);
        assert!(slowest < PERIOD * 9 / 10, "{loss} lost: {slowest:?}");
    }
}
