//! Lateness of deliveries against the model: the emulator's own error.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets for each doubling, so that a bucket is at most 1/32 (3 %) wide.
const PER_OCTAVE: u32 = 32;
/// Lateness from 2³⁶ ns (69 s) on counts in the last bucket.
const OCTAVES: u32 = 36;
const BUCKETS: usize = ((OCTAVES - PER_OCTAVE.trailing_zeros() + 1) * PER_OCTAVE) as usize;

/// The carrier's histogram: one thread writes, any may read, nobody waits.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), max: AtomicU64::new(0) }
    }

    /// Counts one packet. Only the carrier's thread calls it, so that a load and a store suffice instead of a
    /// locked instruction.
    pub(crate) fn record(&self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(index(nanos)) {
            bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        }
        if nanos > self.max.load(Relaxed) {
            self.max.store(nanos, Relaxed);
        }
    }

    /// The counts until now. Packets counted at the same time may be missing.
    pub(crate) fn snapshot(&self) -> Lateness {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        Lateness { buckets, max: Duration::from_nanos(self.max.load(Relaxed)) }
    }
}

/// Lateness of deliveries against the times of the model.
///
/// Each packet that reached a host's interface counts once (each copy of a multicast packet), with the time
/// from its due time to the start of the system call that delivered it. Values are exact to 3 %; the maximum is
/// exact. The time for which a packet waited to be read ([`Carrier::unread`](super::Carrier::unread), which has
/// the same form) and the wake-up of the receiving program are not included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    buckets: Vec<u64>,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], max: Duration::ZERO }
    }
}

impl Lateness {
    pub fn from_packets(packets: &[Duration]) -> Self {
        let histogram = Histogram::new();
        packets.iter().for_each(|late| histogram.record(*late));
        histogram.snapshot()
    }

    pub fn packets(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The largest.
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The lateness that `part` (0 to 1) of the packets did not exceed: 0.5 is the median. Zero if nothing was
    /// counted.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (part.clamp(0.0, 1.0) * self.packets() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, packets) in self.buckets.iter().enumerate() {
            seen += packets;
            if seen >= wanted {
                return Duration::from_nanos(upper_bound(index)).min(self.max);
            }
        }
        Duration::ZERO
    }

    /// The counts since `earlier`, for one value a second. The maximum is then exact only to its bucket.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let both = self.buckets.iter().zip(&earlier.buckets);
        let buckets: Vec<u64> = both.map(|(now, then)| now.saturating_sub(*then)).collect();
        let last = buckets.iter().rposition(|packets| *packets > 0);
        let max = last.map_or(Duration::ZERO, |index| Duration::from_nanos(upper_bound(index)).min(self.max));
        Self { buckets, max }
    }

    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// Packets by doublings of a microsecond: the upper bound in microseconds (exact to 3 %), and the packets
    /// up to it but later than the bound before. For records and figures.
    pub fn doublings_us(&self) -> Vec<(u64, u64)> {
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for (index, packets) in self.buckets.iter().enumerate().filter(|(_, packets)| **packets > 0) {
            let lowest = index.checked_sub(1).map_or(0, |before| upper_bound(before) + 1);
            let bound = lowest.div_ceil(1_000).next_power_of_two();
            match rows.last_mut() {
                Some((last, sum)) if *last == bound => *sum += packets,
                _ => rows.push((bound, *packets)),
            }
        }
        rows
    }
}

/// The bucket of a duration: below 32 ns one for each nanosecond, then 32 for each doubling.
const fn index(nanos: u64) -> usize {
    if nanos < PER_OCTAVE as u64 {
        return nanos as usize;
    }
    let octave = nanos.ilog2();
    let step = octave - PER_OCTAVE.trailing_zeros();
    let index = (step * PER_OCTAVE) as u64 + (nanos >> step);
    if index < BUCKETS as u64 { index as usize } else { BUCKETS - 1 }
}

/// The largest duration of a bucket, nanoseconds.
const fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    let per_octave = PER_OCTAVE as u64;
    if index < per_octave {
        return index;
    }
    let step = index / per_octave - 1;
    ((index - step * per_octave + 1) << step) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_and_maximum_match_samples() {
        let histogram = Histogram::new();
        for micros in 1..=1_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let lateness = histogram.snapshot();
        assert_eq!(lateness.packets(), 1_000);
        assert_eq!(lateness.max(), Duration::from_millis(1));
        assert_eq!(lateness.quantile(1.0), Duration::from_millis(1));
        for (part, micros) in [(0.5, 500.0), (0.99, 990.0)] {
            let got = lateness.quantile(part).as_secs_f64() * 1e6;
            assert!((micros..micros * 1.04).contains(&got), "{part}: {got}");
        }
        assert_eq!(Lateness::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn interval_is_difference_of_snapshots() {
        let histogram = Histogram::new();
        histogram.record(Duration::from_secs(5));
        let before = histogram.snapshot();
        histogram.record(Duration::from_micros(10));
        let since = histogram.snapshot().since(&before);
        assert_eq!(since.packets(), 1);
        assert!(since.max() >= Duration::from_micros(10) && since.max() < Duration::from_micros(11));
        let mut sum = before;
        sum.add(&since);
        assert_eq!(sum, histogram.snapshot());
    }

    #[test]
    fn rows_double_and_hold_every_packet() {
        let histogram = Histogram::new();
        for nanos in [0, 900, 1_000, 3_000, 70_000, 100_000, u64::MAX] {
            histogram.record(Duration::from_nanos(nanos));
        }
        let rows = histogram.snapshot().doublings_us();
        assert_eq!(rows.iter().map(|(_, packets)| packets).sum::<u64>(), 7);
        assert_eq!(rows[..rows.len() - 1], [(1, 3), (4, 1), (128, 2)]);
    }

    proptest! {
        #[test]
        fn value_falls_into_its_bucket(nanos in 0_u64..1 << OCTAVES) {
            let index = index(nanos);
            prop_assert!(index < BUCKETS);
            prop_assert!(nanos <= upper_bound(index));
            prop_assert!(index == 0 || nanos > upper_bound(index - 1));
        }
    }
}
