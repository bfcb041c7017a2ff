//! The run second by second.

use serde::Serialize;

use crate::record::SampleRecord;

/// Figures of the time between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Second {
    /// The end of the second, in seconds of the run.
    pub t: f64,
    /// Seconds.
    pub length: f64,
    /// Traffic from hosts into their links, Mbit/s.
    pub offered_mbit_s: f64,
    pub delivered_mbit_s: f64,
    /// At its end.
    pub active: u32,
    pub completed: u64,
    pub failed: u64,
    /// Lateness of the core's deliveries, 99th percentile, milliseconds.
    pub lateness_p99_ms: f64,
}

/// A run ends a little after its last whole second. A rest shorter than this part of the second before counts with
/// that: what happens in a few milliseconds is no rate.
const SHORT: f64 = 0.5;

/// The differences between samples; the first is compared with zero at time 0. Samples that are not later than
/// the one before are left out.
pub(super) fn timeline(samples: &[SampleRecord]) -> Vec<Second> {
    let start = SampleRecord::default();
    let mut kept = vec![&start];
    for sample in samples {
        if kept.last().is_some_and(|before| sample.t > before.t) {
            kept.push(sample);
        }
    }
    if let [.., first, second, last] = kept[..]
        && last.t - second.t < SHORT * (second.t - first.t)
    {
        kept.remove(kept.len() - 2);
    }
    kept.windows(2).map(|pair| between(pair[0], pair[1])).collect()
}

fn between(before: &SampleRecord, sample: &SampleRecord) -> Second {
    let length = sample.t - before.t;
    let mbit_s = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8e-6 / length;
    Second {
        t: sample.t,
        length,
        offered_mbit_s: mbit_s(sample.offered_bytes, before.offered_bytes),
        delivered_mbit_s: mbit_s(sample.delivered_bytes, before.delivered_bytes),
        active: sample.active,
        completed: sample.completed.saturating_sub(before.completed),
        failed: sample.failed.saturating_sub(before.failed),
        lateness_p99_ms: sample.lateness_p99_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_rates() {
        let sample =
            |t, offered_bytes, completed| SampleRecord { t, offered_bytes, completed, ..SampleRecord::default() };
        let seconds =
            timeline(&[sample(0.0, 0, 0), sample(1.0, 125_000, 2), sample(1.0, 9, 9), sample(3.0, 625_000, 5)]);
        let rates: Vec<(f64, f64, u64)> = seconds.iter().map(|s| (s.t, s.offered_mbit_s, s.completed)).collect();
        assert_eq!(rates, [(1.0, 1.0, 2), (3.0, 2.0, 3)]);
    }

    #[test]
    fn rest_counts_with_last_second() {
        let sample = |t, completed| SampleRecord { t, completed, ..SampleRecord::default() };
        let last = |rest: f64| {
            let seconds = timeline(&[sample(1.0, 2), sample(2.0, 3), sample(2.0 + rest, 4)]);
            seconds.last().map(|second| (seconds.len(), second.completed, second.length))
        };
        assert_eq!(last(0.25), Some((2, 2, 1.25)));
        assert_eq!(last(0.75), Some((3, 1, 0.75)));
        assert_eq!(timeline(&[sample(0.5, 1)]).len(), 1);
    }
}
