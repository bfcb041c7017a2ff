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

    /// The means of this side and of `base`: geometric, on which ratios are based, if all values of both are finite and
    /// above zero; arithmetic of both otherwise.
    pub(super) fn means(&self, base: &Self) -> Option<SideMeans> {
        let mut all = self.values.iter().chain(&base.values);
        let is_geometric = all.all(|value| *value > 0.0 && value.is_finite());
        let of = |values: &[f64]| match values {
            [one] => Some(*one),
            many if is_geometric => {
                let logarithms: Vec<f64> = many.iter().map(|value| value.ln()).collect();
                mean(&logarithms).map(f64::exp)
            }
            many => mean(many),
        };
        let is_geometric = is_geometric && self.values.len().max(base.values.len()) > 1;
        Some(SideMeans { over: of(&self.values)?, base: of(&base.values)?, is_geometric })
    }
}

/// The means of two sides, of the same kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SideMeans {
    pub(super) over: f64,
    pub(super) base: f64,
    /// True unless they are arithmetic, or each of a single run.
    pub(super) is_geometric: bool,
}

impl SideMeans {
    /// `None` unless both are finite and above zero.
    pub(super) fn ratio(self) -> Option<f64> {
        let is_positive = [self.over, self.base].iter().all(|mean| *mean > 0.0 && mean.is_finite());
        is_positive.then(|| self.over / self.base)
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

    #[test]
    fn both_means_are_of_one_kind() {
        let means = |over: [f64; 2], base: [f64; 2]| {
            let side = |values: [f64; 2]| (1..).zip(values).collect::<SeedValues>();
            side(over).means(&side(base)).unwrap()
        };
        assert!((means([1.0, 100.0], [20.0, 20.0]).ratio().unwrap() - 0.5).abs() < 1e-9);
        // A zero on either side makes both means arithmetic.
        assert_eq!(means([1.0, 100.0], [0.0, 101.0]), SideMeans { over: 50.5, base: 50.5, is_geometric: false });
        for odd in [[0.0, 0.0], [-3.0, 1.0], [f64::NAN, 1.0], [f64::INFINITY, 1.0]] {
            assert_eq!((means(odd, [1.0, 2.0]).ratio(), means([1.0, 2.0], odd).ratio()), (None, None), "{odd:?}");
        }
        assert_eq!(SeedValues::default().means(&SeedValues::default()), None);
    }
}
