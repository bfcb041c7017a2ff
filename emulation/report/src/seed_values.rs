//! The ratio of two sides over their seeds: one rule for comparisons and for titles.

use roost_statistics::{RatioInterval, mean, paired, welch};

/// The values of a measure, each of a run with its seed, in the order of seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeedValues {
    seeds: Vec<u64>,
    values: Vec<f64>,
}

impl SeedValues {
    /// The interval of the ratio to `base`: over pairs of seeds if both sides share most of them, Welch's otherwise.
    /// `None` where a side has fewer than two runs, or a value is not above zero.
    pub(super) fn over(&self, base: &Self) -> Option<RatioInterval> {
        match self.pairs(base) {
            Some((own, base)) => paired(&base, &own),
            None => welch(&base.values, &self.values),
        }
    }

    /// The means of this side and of `base`, of those seeds that both have if they share most: geometric, on which
    /// ratios are based, if all values of both are finite and above zero; arithmetic of both otherwise.
    pub(super) fn means(&self, base: &Self) -> Option<SideMeans> {
        match self.pairs(base) {
            Some((own, base)) => means(&own, &base),
            None => means(&self.values, &base.values),
        }
    }

    /// The values of both sides at the seeds that both have, if those are two at least and more than half of each side.
    fn pairs(&self, base: &Self) -> Option<(Vec<f64>, Vec<f64>)> {
        let has_each_once = |side: &Self| side.seeds.windows(2).all(|pair| pair[0] != pair[1]);
        let of_base = |seed: &u64| base.seeds.binary_search(seed).ok().map(|at| base.values[at]);
        let both = self.seeds.iter().zip(&self.values).filter_map(|(seed, own)| Some((*own, of_base(seed)?)));
        let pairs: (Vec<f64>, Vec<f64>) = both.unzip();
        let most = self.seeds.len().max(base.seeds.len());
        let are_enough = pairs.0.len() >= 2 && 2 * pairs.0.len() > most;
        (are_enough && has_each_once(self) && has_each_once(base)).then_some(pairs)
    }
}

fn means(over: &[f64], base: &[f64]) -> Option<SideMeans> {
    let mut all = over.iter().chain(base);
    let is_geometric = all.all(|value| *value > 0.0 && value.is_finite());
    let of = |values: &[f64]| match values {
        [one] => Some(*one),
        many if is_geometric => {
            let logarithms: Vec<f64> = many.iter().map(|value| value.ln()).collect();
            mean(&logarithms).map(f64::exp)
        }
        many => mean(many),
    };
    let is_geometric = is_geometric && over.len().max(base.len()) > 1;
    Some(SideMeans { over: of(over)?, base: of(base)?, is_geometric })
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
        let other = side([(4, 205.0), (1, 50.0), (5, 101.0)]).over(&base).unwrap();
        assert!(other.method == Method::Welch && !other.excludes_one(), "{other:?}");
        assert_eq!(side([(1, 0.0), (2, 1.0), (3, 1.0)]).over(&base), None);
    }

    /// A run that failed takes its pair along, not the pairing.
    #[test]
    fn missing_seed_leaves_other_pairs() {
        let side = |seeds: &[u64], scale: f64| -> SeedValues {
            seeds.iter().map(|seed| (*seed, scale * 10_f64.powi(*seed as i32))).collect()
        };
        let (whole, partial) = (side(&[1, 2, 3, 4], 1.0), side(&[1, 2, 4], 0.5));
        for ratio in [partial.over(&whole).unwrap(), partial.over(&side(&[1, 3, 4], 1.0)).unwrap()] {
            assert!(ratio.method == Method::PairedBySeed && (ratio.ratio - 0.5).abs() < 1e-9, "{ratio:?}");
        }
        assert!((partial.means(&whole).unwrap().ratio().unwrap() - 0.5).abs() < 1e-9);
        let (few, twice) = (side(&[1, 2], 0.5), side(&[1, 1, 2, 4], 0.5));
        for other in [few, twice] {
            assert_eq!(other.over(&whole).unwrap().method, Method::Welch);
        }
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
