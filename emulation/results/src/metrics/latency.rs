//! Latencies of services.

use roost_statistics::{mean, quantile};
use serde::Serialize;

/// The upper bounds of a decade's buckets: the series R5 of ISO 3, each about 1.6 times the one before.
const BUCKETS: [f64; 5] = [1.0, 1.6, 2.5, 4.0, 6.3];

/// A distribution of latencies, milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    /// Each bucket's upper bound (inclusive) and count, without empty buckets at either end.
    pub histogram: Vec<(f64, u64)>,
    #[serde(skip)]
    pub sorted: Vec<f64>,
}

/// The fewest values beyond a quantile, on either side, for it to be more than a guess.
const BEYOND: u64 = 10;

/// True if a quantile, in thousandths, of so many values has at least ten beyond it.
pub fn has_enough_values(count: u64, thousandths: u32) -> bool {
    let beyond = thousandths.min(1000_u32.saturating_sub(thousandths));
    count * u64::from(beyond) >= BEYOND * 1000
}

impl Distribution {
    /// True if there are enough values for this quantile, in thousandths: at least ten beyond it, so 20 for the
    /// median, 200 for the 95th percentile and 1000 for the 99th.
    pub fn is_quantile_reliable(&self, thousandths: u32) -> bool {
        has_enough_values(self.count, thousandths)
    }

    pub fn quantile(&self, thousandths: u32) -> Option<f64> {
        quantile(&self.sorted, f64::from(thousandths) / 1000.0)
    }

    /// The distribution of these values; NaN is left out.
    pub fn from_values(mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite() && *value >= 0.0);
        values.sort_by(f64::total_cmp);
        Self {
            count: values.len() as u64,
            mean: mean(&values),
            p50: quantile(&values, 0.5),
            p95: quantile(&values, 0.95),
            p99: quantile(&values, 0.99),
            max: values.last().copied(),
            histogram: histogram(&values),
            sorted: values,
        }
    }
}

fn histogram(sorted: &[f64]) -> Vec<(f64, u64)> {
    let mut buckets = Vec::new();
    let mut rest = sorted;
    for upper in bounds() {
        if rest.is_empty() {
            break;
        }
        let count = rest.partition_point(|value| *value <= upper);
        rest = &rest[count..];
        if count > 0 || !buckets.is_empty() {
            buckets.push((upper, count as u64));
        }
    }
    buckets
}

/// 0.1, 0.16, 0.25, … 6.3 × 10⁸ ms (a week), and then infinity.
fn bounds() -> impl Iterator<Item = f64> {
    let decades = (-1..9).flat_map(|power| BUCKETS.iter().map(move |bound| bound * 10_f64.powi(power)));
    decades.chain([f64::INFINITY])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bucket() {
        let distribution = Distribution::from_values(vec![12.0, 1.0, 1.6, 1.61, 90.0, f64::NAN, -1.0]);
        assert_eq!(distribution.count, 5);
        let buckets: Vec<(f64, u64)> = distribution.histogram.clone();
        assert_eq!(buckets[..3], [(1.0, 1), (1.6, 1), (2.5, 1)]);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 5);
        assert_eq!(buckets.last(), Some(&(100.0, 1)));
    }

    #[test]
    fn ten_must_lie_beyond_a_quantile() {
        for (thousandths, enough) in [(500, 20), (950, 200), (990, 1000)] {
            let of = |count: usize| Distribution::from_values(vec![1.0; count]).is_quantile_reliable(thousandths);
            assert!(of(enough) && !of(enough - 1), "{thousandths}");
        }
    }

    #[test]
    fn nothing_has_no_percentiles() {
        assert_eq!(Distribution::from_values(Vec::new()), Distribution::default());
    }
}
