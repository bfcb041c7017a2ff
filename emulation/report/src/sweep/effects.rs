//! The effect of each factor of a sweep: means over all others.

use std::collections::BTreeMap;

use roost_statistics::{RatioInterval, mean, mean_and_half_width, paired};

use super::factors::{Factor, Level};
use super::{Mean, Overview};
use crate::measure::Measure;
use crate::text_format::three;

/// A level of a factor, and the mean of a measure over the values of all other factors.
pub(crate) struct LevelMean<'a> {
    pub(crate) level: &'a Level,
    pub(crate) mean: Mean,
    /// A mean for each seed, in the order of the seeds.
    by_seed: Vec<f64>,
}

/// The means of a measure at the levels of a factor.
pub(crate) struct FactorEffect<'a> {
    pub(crate) factor: &'a Factor,
    pub(crate) levels: Vec<LevelMean<'a>>,
}

impl FactorEffect<'_> {
    /// The ratio of the largest geometric mean over the seeds to the smallest; `None` if a value is not above zero. The
    /// interval is over the logarithms of the ratios within each seed, so it never reaches zero.
    pub(super) fn ratio(&self) -> Option<EffectRatio> {
        let means = self.levels.iter().map(|level| Some((geometric_mean(&level.by_seed)?, level)));
        let means: Vec<(f64, &LevelMean<'_>)> = means.collect::<Option<_>>()?;
        let (low, from) = means.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let (high, to) = means.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let interval = paired(&from.by_seed, &to.by_seed).filter(|_| !from.mean.measure.few);
        Some(EffectRatio { ratio: high / low, interval, few: from.mean.measure.few })
    }
}

/// `None` without values, or if one is not above zero.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms = values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln()));
    let logarithms: Vec<f64> = logarithms.collect::<Option<_>>()?;
    Some(mean(&logarithms)?.exp())
}

/// The ratio of two levels of a factor; without an interval where one seed or few requests tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EffectRatio {
    pub(super) ratio: f64,
    pub(super) interval: Option<RatioInterval>,
    few: bool,
}

impl EffectRatio {
    pub(super) fn text(&self) -> String {
        let interval = |found: RatioInterval| format!(" ({}–{})", three(found.low), three(found.high));
        let interval = self.interval.map_or_else(String::new, interval);
        let ratio = format!("{} ×", three(self.ratio));
        if self.few { format!("({ratio})") } else { ratio + &interval }
    }
}

/// Runs that differ in one factor alone.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    seed: u64,
    others: Vec<Option<usize>>,
}

impl Overview<'_> {
    /// The effects of all factors on a measure.
    ///
    /// Only combinations of the other factors count that have a value at each level, so that the levels are compared on
    /// the same ground. The interval is over the seeds, each with one mean.
    pub(crate) fn effects(&self, measure: &Measure) -> Vec<FactorEffect<'_>> {
        self.axes.factors().iter().filter_map(|factor| self.effect(factor, measure)).collect()
    }

    fn effect<'a>(&'a self, factor: &'a Factor, measure: &Measure) -> Option<FactorEffect<'a>> {
        let others: Vec<&Factor> = self.axes.factors().iter().filter(|other| other.key != factor.key).collect();
        let mut blocks: BTreeMap<Block, BTreeMap<usize, f64>> = BTreeMap::new();
        let mut few = false;
        for point in self.cells.iter().flat_map(|cell| cell.points.iter().copied()) {
            let found = point.measures.iter().find(|(one, _)| one.kind == measure.kind);
            let (Some((one, value)), Some(place)) = (found, factor.index(point)) else { continue };
            few |= one.few;
            let others = others.iter().map(|other| other.index(point)).collect();
            blocks.entry(Block { seed: point.run.seed, others }).or_default().insert(place, *value);
        }
        blocks.retain(|_, values| values.len() == factor.levels.len());
        let levels = factor.levels.iter().enumerate().filter_map(|(place, level)| {
            let mut by_seed: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
            for (block, values) in &blocks {
                let (sum, count) = by_seed.entry(block.seed).or_default();
                *sum += values[&place];
                *count += 1.0;
            }
            let means: Vec<f64> = by_seed.values().map(|(sum, count)| sum / count).collect();
            let (mean, half) = mean_and_half_width(&means)?;
            let half = half.filter(|_| !few);
            let measure = Measure { few, ..measure.clone() };
            Some(LevelMean { level, mean: Mean { measure, runs: means.len(), mean, half }, by_seed: means })
        });
        let levels: Vec<LevelMean<'a>> = levels.collect();
        (levels.len() > 1).then_some(FactorEffect { factor, levels })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use roost_results::testing::SyntheticShape;

    use super::*;
    use crate::measure::MeasureKind;
    use crate::sweep::RunSummary;

    #[test]
    fn effects_are_means_over_the_others() {
        let mut points = Vec::new();
        for (delay, of_delay) in [("5ms", 100.0), ("50ms", 50.0)] {
            for (architecture, of_architecture) in [("client-server", 1.0), ("super-node", 2.0)] {
                for seed in 1..=3_u64 {
                    let mut results = SyntheticShape { seed, requests: 20, ..SyntheticShape::default() }.make().results;
                    results.plan = None;
                    let varied = [("delay", delay), ("architecture", architecture)];
                    results.run.varied = varied.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                    let mut point = RunSummary::from_results(PathBuf::from("run"), &results);
                    point.measures.retain_mut(|(measure, value)| {
                        *value = of_delay * of_architecture + seed as f64;
                        measure.kind == MeasureKind::Completed
                    });
                    points.push(point);
                }
            }
        }
        // A cell at one level alone has no weight.
        points.retain(|point| !(point.run.seed == 3 && point.run.varied["delay"] == "5ms"));
        let overview = Overview::from_points(&points);
        let measure = points[0].measures[0].0.clone();
        let effects = overview.effects(&measure);
        let told: Vec<(&str, Vec<f64>)> = effects
            .iter()
            .map(|effect| (effect.factor.title.as_str(), effect.levels.iter().map(|one| one.mean.mean).collect()))
            .collect();
        assert_eq!(told[1], ("delay", vec![151.5, 76.5]));
        assert_eq!((told[0].0, told[0].1.len()), ("architecture", 2));
        assert!(effects[1].levels.iter().all(|one| one.mean.runs == 2 && one.mean.half.is_some()));
        // Of each seed: 151 over 76, and 152 over 77.
        let told = effects[1].ratio().unwrap();
        assert!((told.ratio - (151.0 / 76.0 * (152.0 / 77.0_f64)).sqrt()).abs() < 1e-9, "{told:?}");
    }

    #[test]
    fn factors_with_one_title_differ() {
        let mut points = Vec::new();
        for (link, delay) in [(0.0, "5ms"), (10.0, "50ms")] {
            for (network, other) in [(0.0, "7ms"), (1.0, "70ms")] {
                let mut results = SyntheticShape { requests: 20, ..SyntheticShape::default() }.make().results;
                results.plan = None;
                let varied = [("links.a.delay", delay), ("topology.link.a.delay", other)];
                results.run.varied = varied.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                let mut point = RunSummary::from_results(PathBuf::from("run"), &results);
                point.measures.retain_mut(|(measure, value)| {
                    *value = 100.0 + link + network;
                    measure.kind == MeasureKind::Completed
                });
                points.push(point);
            }
        }
        let overview = Overview::from_points(&points);
        let effects = overview.effects(&points[0].measures[0].0);
        let means: Vec<Vec<f64>> =
            effects.iter().map(|effect| effect.levels.iter().map(|one| one.mean.mean).collect()).collect();
        assert_eq!(means, [[100.5, 110.5], [105.0, 106.0]]);
    }

    /// Runs that have these numbers of completed requests, each with its seed.
    fn completed(levels: [(&str, [f64; 2]); 2]) -> Vec<RunSummary> {
        let mut points = Vec::new();
        for (delay, completed) in levels {
            for (seed, completed) in (1..).zip(completed) {
                let mut results = SyntheticShape { seed, requests: 20, ..SyntheticShape::default() }.make().results;
                results.plan = None;
                results.run.varied = [("delay".to_owned(), delay.to_owned())].into();
                let mut point = RunSummary::from_results(PathBuf::from("run"), &results);
                point.measures.retain_mut(|(measure, value)| {
                    *value = completed;
                    measure.kind == MeasureKind::Completed
                });
                points.push(point);
            }
        }
        points
    }

    fn ratio(points: &[RunSummary]) -> Option<EffectRatio> {
        Overview::from_points(points).effects(&points[0].measures[0].0)[0].ratio()
    }

    #[test]
    fn ratio_of_two_seeds_stays_positive() {
        let ratio = ratio(&completed([("5ms", [40.0, 10.0]), ("50ms", [42.0, 60.0])])).unwrap();
        assert!(ratio.interval.is_some_and(|found| found.low > 0.0 && found.high > ratio.ratio), "{ratio:?}");
        assert!(!ratio.text().contains('−'), "{}", ratio.text());
    }

    #[test]
    fn ratio_of_few_requests_is_guess() {
        let mut points = completed([("5ms", [40.0, 10.0]), ("50ms", [80.0, 20.0])]);
        points[0].measures[0].0.few = true;
        assert_eq!(ratio(&points).unwrap().text(), "(2 ×)");
    }

    #[test]
    fn levels_are_ordered_by_geometric_means() {
        // The arithmetic means are 50.5 and 20, the geometric ones 10 and 20.
        let found = ratio(&completed([("5ms", [1.0, 100.0]), ("50ms", [20.0, 20.0])])).unwrap();
        assert!((found.ratio - 2.0).abs() < 1e-9, "{found:?}");
        assert!(found.interval.is_some_and(|interval| (interval.ratio - 2.0).abs() < 1e-9));
        assert_eq!(ratio(&completed([("5ms", [0.0, 100.0]), ("50ms", [20.0, 20.0])])), None);
    }
}
