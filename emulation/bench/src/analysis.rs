//! Figures from arrivals: pure functions.

use std::fmt;

use roost_statistics::{mean, quantile};

use super::BenchRow;

/// The spread of a set of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The spread of these values; `None` if there are none.
    pub(super) fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self { p50: quantile(&values, 0.5)?, p99: quantile(&values, 0.99)?, max: *values.last()? })
    }

    pub(super) fn add_to(self, row: BenchRow) -> BenchRow {
        row.with("p50_ms", self.p50).with("p99_ms", self.p99).with("max_ms", self.max)
    }
}

/// For values in milliseconds.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.3}, p99 {:.3}, max {:.3} ms", self.p50, self.p99, self.max)
    }
}

/// The growth of y from the least x to the greatest, by the line of least squares; `None` without two different
/// x.
pub(super) fn drift(points: &[(f64, f64)]) -> Option<f64> {
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (mean_x, mean_y) = (mean(&xs)?, mean(&ys)?);
    let square: f64 = xs.iter().map(|x| (x - mean_x).powi(2)).sum();
    let product: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let reach = xs.iter().copied().fold(f64::MIN, f64::max) - xs.iter().copied().fold(f64::MAX, f64::min);
    (square > 0.0).then(|| product / square * reach)
}

/// The numbers of losses among `sent` packets, each lost with `probability`, that leave out at most (1 −
/// `confidence`)
/// 2 of all outcomes on either side.
///
/// It sums the exact probabilities from the likeliest number outwards, so that none underflows before it is
/// negligible.
pub(super) fn binomial_interval(sent: u64, probability: f64, confidence: f64) -> (u64, u64) {
    if probability <= 0.0 || probability >= 1.0 {
        let certain = if probability <= 0.0 { 0 } else { sent };
        return (certain, certain);
    }
    /// The fraction of the greatest probability below which the rest is negligible.
    const NEGLIGIBLE: f64 = 1e-18;
    let odds = probability / (1.0 - probability);
    // The mode of the distribution; it fits u64, as it is at most `sent`.
    let mode = (((sent + 1) as f64 * probability) as u64).min(sent);
    let mut below: Vec<f64> = Vec::new();
    let (mut number, mut weight) = (mode, 1.0);
    while number > 0 && weight > NEGLIGIBLE {
        weight *= number as f64 / ((sent - number + 1) as f64 * odds);
        number -= 1;
        below.push(weight);
    }
    let first = number;
    let mut weights: Vec<f64> = below.into_iter().rev().chain([1.0]).collect();
    (number, weight) = (mode, 1.0);
    while number < sent && weight > NEGLIGIBLE {
        weight *= (sent - number) as f64 / (number + 1) as f64 * odds;
        number += 1;
        weights.push(weight);
    }
    let tail = weights.iter().sum::<f64>() * (1.0 - confidence) / 2.0;
    let within = |weights: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        weights
            .take_while(|weight| {
                sum += **weight;
                sum <= tail
            })
            .count() as u64
    };
    let (low, high) = (within(&mut weights.iter()), within(&mut weights.iter().rev()));
    (first + low, number - high)
}

/// Bits per second of consecutive frames, each with its arrival in nanoseconds and its bytes: the bytes after
/// the first frame, over the time from the first to the last. With the first, short measurements of slow links
/// would count a frame too many. `None` for fewer than two.
pub(super) fn rate(frames: &[(u64, u32)]) -> Option<f64> {
    let (&(first, _), rest) = frames.split_first()?;
    let &(last, _) = rest.last()?;
    let bytes: u64 = rest.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    (last > first).then(|| bytes as f64 * 8e9 / (last - first) as f64)
}

/// A scheduled change, as probes observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateChange {
    /// The last probe in the old state, nanoseconds.
    pub(super) last_before: u64,
    /// The first probe in the new state, nanoseconds.
    pub(super) first_after: u64,
}

impl StateChange {
    /// Finds the change near `at`, among probes (time, true in the new state) at most `reach` away from it.
    /// `None` without probes in both states.
    pub(super) fn find(probes: &[(u64, bool)], at: u64, reach: u64) -> Option<Self> {
        let near = || probes.iter().filter(|(time, _)| time.abs_diff(at) <= reach);
        let last_before = near().filter(|(_, after)| !after).map(|(time, _)| *time).max()?;
        let first_after = near().filter(|(_, after)| *after).map(|(time, _)| *time).min()?;
        Some(Self { last_before, first_after })
    }

    /// The largest possible distance of the change from `at`, nanoseconds, including the uncertainty between
    /// probes.
    pub(super) fn error(self, at: u64) -> u64 {
        self.last_before.abs_diff(at).max(self.first_after.abs_diff(at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_spread_has_the_usual_quantiles() {
        let spread = Spread::from_values((0..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!(spread, Spread { p50: 50.0, p99: 99.0, max: 100.0 });
        assert_eq!(Spread::from_values(Vec::new()), None);
    }

    #[test]
    fn drift_spans_whole_range() {
        let line = drift(&[(1.0, 5.0), (20.0, 5.19), (600.0, 10.99)]).unwrap();
        assert!((line - 5.99).abs() < 1e-9, "{line}");
        assert!(drift(&[(1.0, 0.05), (20.0, 0.05), (600.0, 0.05)]).unwrap().abs() < 1e-12);
        assert_eq!(drift(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(drift(&[]), None);
    }

    #[test]
    fn binomial_intervals_are_those_of_r() {
        // qbinom(c(0.005, 0.995), n, p)
        for (sent, probability, expected) in [(10, 0.5, (1, 9)), (100, 0.5, (37, 63)), (20, 0.05, (0, 4))] {
            assert_eq!(binomial_interval(sent, probability, 0.99), expected, "{sent} {probability}");
        }
        assert_eq!(binomial_interval(100, 0.0, 0.99), (0, 0));
        assert_eq!(binomial_interval(100, 1.0, 0.99), (100, 100));
        assert_eq!(binomial_interval(0, 0.5, 0.99), (0, 0));
    }

    #[test]
    fn large_binomial_interval_matches_normal() {
        for (sent, probability) in [(20_000_u64, 0.5), (200_000, 0.2), (1_000_000, 0.01)] {
            let (low, high) = binomial_interval(sent, probability, 0.99);
            let n = sent as f64;
            let half = 2.5758 * (n * probability * (1.0 - probability)).sqrt();
            assert!((low as f64 - (n * probability - half)).abs() < 2.0, "{sent} {probability}: {low}");
            assert!((high as f64 - (n * probability + half)).abs() < 2.0, "{sent} {probability}: {high}");
        }
    }

    proptest! {
        #[test]
        fn binomial_interval_contains_expectation(sent in 1_u64..5_000, probability in 0.0_f64..1.0) {
            let (low, high) = binomial_interval(sent, probability, 0.99);
            let expected = sent as f64 * probability;
            prop_assert!(low <= high && high <= sent);
            prop_assert!(low as f64 <= expected + 1.0 && expected - 1.0 <= high as f64);
        }
    }

    #[test]
    fn rate_excludes_first_frame() {
        // 1000 bytes a millisecond are 8 Mbit/s, for few frames as well.
        let frames: Vec<(u64, u32)> = (0..5).map(|frame| (frame * 1_000_000, 1_000)).collect();
        assert_eq!(rate(&frames), Some(8e6));
        assert_eq!(rate(&frames[..2]), Some(8e6));
        assert_eq!(rate(&frames[..1]), None);
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&[(5, 100), (5, 100)]), None);
    }

    #[test]
    fn a_turn_is_between_two_probes() {
        let probes: Vec<(u64, bool)> = (0..100).map(|n| (n * 200, n * 200 >= 10_000)).collect();
        let turn = StateChange::find(&probes, 10_000, 5_000).unwrap();
        assert_eq!((turn, turn.error(10_000)), (StateChange { last_before: 9_800, first_after: 10_000 }, 200));
        // The latest time at which it may have happened counts.
        assert_eq!(StateChange::find(&probes, 9_000, 5_000).unwrap().error(9_000), 1_000);
        assert_eq!(StateChange::find(&probes, 30_000, 5_000), None);
        assert_eq!(StateChange::find(&probes, 5_000, 2_000), None);
    }

    #[test]
    fn one_wrong_probe_widens_error() {
        let mut probes: Vec<(u64, bool)> = (0..100).map(|n| (n * 200, n * 200 >= 10_000)).collect();
        probes[60].1 = false;
        assert_eq!(StateChange::find(&probes, 10_000, 5_000).unwrap().error(10_000), 2_000);
    }
}
