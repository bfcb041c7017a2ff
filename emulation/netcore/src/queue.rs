//! Queue disciplines: DropTail and RED.

use std::time::Duration;

use roost_topology::model::{Discipline, Queue, Red};
use roost_topology::units::Rate;
use roost_wire::random::SplitMix64;

use super::PacketCount;
use super::loss::happens;

/// The packet size that drop probabilities of byte queues refer to, as in dummynet: a smaller packet is dropped
/// less often.
const LARGEST_BYTES: f64 = 1500.0;
/// The mean packet size of NS (`mean_pktsize_`), by which the average of an idle queue decays.
const MEAN_BYTES: u64 = 500;

/// The state of a queue at a packet's arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueArrival {
    /// Packets inside, including the one in transmission.
    pub(super) queued: PacketCount,
    pub(super) bytes: u32,
    /// Time since the queue became idle; zero while it transmits.
    pub(super) idle: Duration,
    /// The rate at which the queue drains.
    pub(super) rate: Rate,
}

impl QueueArrival {
    /// The number of mean packets that could have been sent while the queue was idle.
    fn idle_packets(&self) -> u64 {
        let packets = self.idle.as_nanos() / self.rate.time_for(MEAN_BYTES).as_nanos().max(1);
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
}

/// State of random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion
/// Avoidance", 1993).
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyDetection {
    average: f64,
    /// Packets let through since the last drop, while the average is between the thresholds.
    since_drop: u32,
}

pub(super) fn admits(
    queue: &Queue,
    arrival: QueueArrival,
    early: &mut EarlyDetection,
    random: &mut SplitMix64,
) -> bool {
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
    /// Adds the packet to the average and decides about it.
    fn drops(&mut self, red: &Red, in_bytes: bool, arrival: QueueArrival, random: &mut SplitMix64) -> bool {
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

    fn observe(&mut self, weight: f64, in_bytes: bool, arrival: QueueArrival) {
        let size = if in_bytes { arrival.queued.bytes } else { arrival.queued.packets };
        if size == 0 {
            self.average *= power(1.0 - weight, arrival.idle_packets());
        } else {
            self.average += weight * (size as f64 - self.average);
        }
    }
}

/// The drop probability at an average length, before spreading. `None` below the lower threshold; 1 where every
/// packet is dropped.
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

/// Spaces drops evenly instead of geometrically: the probability grows with the packets since the last drop.
fn spread(base: f64, since_drop: u32) -> f64 {
    let rest = 1.0 - f64::from(since_drop) * base;
    if rest <= base { 1.0 } else { base / rest }
}

/// Computes a power by squaring, with multiplications only, so that every machine gets the same result.
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

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Red = Red { min_threshold: 5, max_threshold: 15, linterm: 10, weight: 0.1, gentle: false };

    /// An arrival at a queue of `packets` packets of 1000 bytes each.
    fn arrival(packets: u64, bytes: u32) -> QueueArrival {
        let queued = PacketCount { packets, bytes: 1_000 * packets };
        QueueArrival { queued, bytes, idle: Duration::ZERO, rate: Rate::from_bps(1_000_000) }
    }

    /// The numbers of packets let through between drops, at a constant queue length.
    fn gaps(red: &Red, in_bytes: bool, packets: u64, bytes: u32) -> Vec<u32> {
        let scale = if in_bytes { 1_000.0 } else { 1.0 };
        let mut early = EarlyDetection { average: packets as f64 * scale, since_drop: 0 };
        let mut random = SplitMix64::new(3);
        let (mut gaps, mut gap) = (Vec::new(), 0);
        for _ in 0..100_000 {
            if early.drops(red, in_bytes, arrival(packets, bytes), &mut random) {
                gaps.push(std::mem::take(&mut gap));
            } else {
                gap += 1;
            }
        }
        gaps
    }

    fn mean(gaps: &[u32]) -> f64 {
        f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64
    }

    #[test]
    fn the_probability_climbs_between_the_thresholds() {
        let gentle = Red { gentle: true, ..RED };
        let cases = [
            (4.99, None, None),
            (5.0, Some(0.0), Some(0.0)),
            (10.0, Some(0.05), Some(0.05)),
            (14.0, Some(0.09), Some(0.09)),
            (15.0, Some(1.0), Some(0.1)),
            (22.5, Some(1.0), Some(0.55)),
            (30.0, Some(1.0), Some(1.0)),
        ];
        for (average, plain, soft) in cases {
            for (red, expected) in [(&RED, plain), (&gentle, soft)] {
                let base = base_probability(red, average);
                assert_eq!(base.is_some(), expected.is_some(), "{average}");
                let (base, expected) = (base.unwrap_or(0.0), expected.unwrap_or(0.0));
                assert!((base - expected).abs() < 1e-12, "{average}: {base}");
            }
        }
    }

    /// Floyd and Jacobson, section 7: the distance from drop to drop is uniform from 1 to 1/p packets.
    #[test]
    fn drops_are_spread_evenly() {
        // Halfway between the thresholds: 1 in 20.
        let gaps = gaps(&RED, false, 10, 1_000);
        assert!(gaps.iter().all(|&gap| gap < 20));
        assert!((mean(&gaps) - 9.5).abs() < 0.3, "{}", mean(&gaps));
        let short = gaps.iter().filter(|&&gap| gap < 10).count() as f64 / gaps.len() as f64;
        assert!((short - 0.5).abs() < 0.03, "{short}");
    }

    #[test]
    fn byte_mode_favors_small_packets() {
        let red = Red { min_threshold: 5_000, max_threshold: 15_000, ..RED };
        for (bytes, gap) in [(1_500, 9.5), (750, 19.5), (150, 99.5)] {
            let gaps = gaps(&red, true, 10, bytes);
            assert!((mean(&gaps) / gap - 1.0).abs() < 0.1, "{bytes}: {}", mean(&gaps));
        }
    }

    #[test]
    fn average_follows_queue_and_decays_idle() {
        let mut early = EarlyDetection::default();
        early.observe(0.1, false, arrival(10, 1_000));
        early.observe(0.1, false, arrival(20, 1_000));
        assert!((early.average - (1.0 * 0.9 + 2.0)).abs() < 1e-12);
        // Idle for the time of three packets of 500 bytes, 4 ms each.
        let idle = QueueArrival { idle: Duration::from_millis(14), ..arrival(0, 1_000) };
        early.observe(0.1, false, idle);
        assert!((early.average - 2.9 * 0.729).abs() < 1e-12);
        early.observe(0.1, false, QueueArrival { idle: Duration::from_secs(1 << 40), ..idle });
        assert!(early.average < 1e-200);
    }

    #[test]
    fn a_power_is_a_product() {
        assert!((power(0.998, 1_000) - 0.998_f64.powi(1_000)).abs() < 1e-12);
        assert_eq!((power(0.5, 0).to_bits(), power(0.5, 3).to_bits()), (1.0_f64.to_bits(), 0.125_f64.to_bits()));
    }
}
