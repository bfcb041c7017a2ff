//! The ratio of two sides over their seeds: one rule for comparisons and for titles.

use roost_statistics::{RatioInterval, mean, paired, welch};

/// The values of a measure, each of a run with its seed, in the order of seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeedValues {
    seeds: Vec<u64>,
    values: Vec<f64>,
}

impl SeedValues {
    /// The interval of the ratio to `base`: over pairs of seeds if both sides have the same, Welch's otherwise. `None`
    /// where a side has fewer than two runs, or a value is not above zero.
    pub(super) fn over(&self, base: &Self) -> Option<RatioInterval> {
        let is_paired = self.seeds == base.seeds && self.seeds.windows(2).all(|pair| pair[0] != pair[1]);
        if is_paired { paired(&base.values, &self.values) } else { welch(&base.values, &self.values) }
    }

    /// The geometric mean, on which ratios are based; arithmetic if a value is 0.
    pub(super) fn geometric_mean(&self) -> Option<f64> {
        if let [one] = self.values[..] {
            return Some(one);
        }
        if self.values.iter().all(|value| *value > 0.0) {
            let logarithms: Vec<f64> = self.values.iter().map(|value| value.ln()).collect();
            return mean(&logarithms).map(f64::exp);
        }
        mean(&self.values)
    }
}

impl FromIterator<(u64, f64)> for SeedValues {
    fn from_iter<I: IntoIterator<Item = (u64, f64)>>(runs: I) -> Self {
        let mut runs: Vec<(u64, f64)> = runs.into_iter().collect();
        runs.sort_by_key(|(seed, _)| *seed);
        let (seeds, values) = runs.into_iter().unzip();
        Self { seeds, values }
    }
}

#[cfg(test)]
mod tests {
    use roost_statistics::Method;

    use super::*;

    #[test]
    fn same_seeds_are_paired() {
        let side = |runs: [(u64, f64); 3]| runs.into_iter().collect::<SeedValues>();
        let base = side([(1, 100.0), (2, 200.0), (3, 400.0)]);
        let same = side([(3, 205.0), (1, 50.0), (2, 101.0)]).over(&base).unwrap();
        assert!(same.method == Method::PairedBySeed && same.high < 0.6, "{same:?}");
        let other = side([(4, 205.0), (1, 50.0), (2, 101.0)]).over(&base).unwrap();
        assert!(other.method == Method::Welch && !other.excludes_one(), "{other:?}");
        assert_eq!(side([(1, 0.0), (2, 1.0), (3, 1.0)]).over(&base), None);
    }
}
