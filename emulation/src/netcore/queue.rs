//! Which packets a queue takes.

use std::time::Duration;

use roost_proto::random::SplitMix64;

use super::Count;
use super::loss::happens;
use crate::scenario::topology::{Discipline, Queue, Red};
use crate::units::Rate;

/// The packet that byte queues measure drop probabilities against, as
/// dummynet does: a smaller one is dropped less often.
const LARGEST_BYTES: f64 = 1500.0;
/// The typical packet of NS (`mean_pktsize_`): how fast the average of an idle
/// queue decays.
const MEAN_BYTES: u64 = 500;

/// What a packet finds when it arrives at a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// What is inside, the packet in service included.
    pub(super) queued: Count,
    /// The packet's own size.
    pub(super) bytes: u32,
    /// How long nothing has been sent; zero while something is.
    pub(super) idle: Duration,
    /// How fast the queue empties.
    pub(super) rate: Rate,
}

impl Arrival {
    /// How many typical packets could have been sent while the queue was empty.
    fn idle_packets(&self) -> u64 {
        let packets = self.idle.as_nanos() / self.rate.time_for(MEAN_BYTES).as_nanos().max(1);
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
}

/// The memory of random early detection (Floyd and Jacobson, "Random Early
/// Detection Gateways for Congestion Avoidance", 1993).
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyDetection {
    average: f64,
    /// Packets that were let through since the last drop, while between the thresholds.
    since_drop: u32,
}

/// Whether `queue` takes the packet.
pub(super) fn admits(queue: &Queue, arrival: Arrival, early: &mut EarlyDetection, random: &mut SplitMix64) -> bool {
    let dropped_early = match &queue.discipline {
        Discipline::DropTail => false,
        Discipline::Red(red) => early.drops(red, queue.in_bytes, arrival, random),
    };
    let room = match queue.in_bytes {
        false => arrival.queued.packets < u64::from(queue.limit),
        true => arrival.queued.bytes + u64::from(arrival.bytes) <= u64::from(queue.limit),
    };
    room && !dropped_early
}

impl EarlyDetection {
    /// Takes the packet into the average, and decides.
    fn drops(&mut self, red: &Red, in_bytes: bool, arrival: Arrival, random: &mut SplitMix64) -> bool {
        self.observe(red.weight, in_bytes, arrival);
        let scale = if in_bytes { f64::from(arrival.bytes) / LARGEST_BYTES } else { 1.0 };
        let probability = match base_probability(red, self.average) {
            None => {
                self.since_drop = 0;
                return false;
            }
            Some(1.0) => 1.0,
            Some(base) => spread(base * scale, self.since_drop),
        };
        let dropped = happens(random, probability);
        self.since_drop = if dropped { 0 } else { self.since_drop.saturating_add(1) };
        dropped
    }

    fn observe(&mut self, weight: f64, in_bytes: bool, arrival: Arrival) {
        let size = if in_bytes { arrival.queued.bytes } else { arrival.queued.packets };
        if size == 0 {
            self.average *= power(1.0 - weight, arrival.idle_packets());
        } else {
            self.average += weight * (size as f64 - self.average);
        }
    }
}

/// The drop probability at an average length, before it is spread out; none
/// below the lower threshold, 1 where all are dropped.
fn base_probability(red: &Red, average: f64) -> Option<f64> {
    let (low, high) = (f64::from(red.min_threshold), f64::from(red.max_threshold));
    let most = 1.0 / f64::from(red.linterm.max(1));
    if average < low {
        None
    } else if average < high {
        Some(most * (average - low) / (high - low))
    } else if red.gentle && average < 2.0 * high {
        Some(most + (1.0 - most) * (average - high) / high)
    } else {
        Some(1.0)
    }
}

/// Makes drops evenly spaced instead of geometric: the later since the last
/// one, the likelier.
fn spread(base: f64, since_drop: u32) -> f64 {
    let rest = 1.0 - f64::from(since_drop) * base;
    if rest <= base { 1.0 } else { base / rest }
}

/// By squaring, with multiplications only: the same on every machine.
fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut result) = (base, 1.0);
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}
