//! Estimators: the way from runs to the figure that a claim compares, with its uncertainty.

use std::collections::BTreeMap;

use roost_report::text_format::capital;
use roost_statistics::{mean_and_half_width, paired, wilson};

use super::claim::{MeasureKey, StudyValues};
use super::study::StudyUnit;

#[derive(Clone, Debug)]
pub enum Estimator {
    Mean(MeasureKey),
    /// The first over the second, seed by seed: the geometric mean.
    Ratio(MeasureKey, MeasureKey),
    /// A measure that is a fraction of requests or the like, over all seeds together.
    Share {
        part: MeasureKey,
        /// The measure that counts the whole, of the same runs.
        of: &'static str,
    },
    /// The position on the axis at which the first line, of a measure, rises above the second, seed by seed,
    /// interpolated between adjacent points; the lowest such position.
    Crossing {
        /// The line that is above after the crossing.
        above: &'static str,
        below: &'static str,
        measure: &'static str,
        /// True to search for the crossing from the far end of the axis.
        from_far: bool,
    },
}

/// A figure of ours, its interval, its number of seeds, and a remark.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: Option<f64>,
    pub(super) interval: Option<(f64, f64)>,
    pub(super) seeds: usize,
    pub(super) remark: Option<String>,
    /// True if runs show that there is no such value.
    pub(super) is_refuted: bool,
    /// True if the value is at the end of the sweep, so that the real one may lie anywhere beyond.
    pub(super) is_bound: bool,
}

impl Estimator {
    /// The ratio of a measure of two lines at one position.
    pub(super) fn ratio(measure: &str, of: &str, to: &str, x: f64) -> Self {
        Self::Ratio(MeasureKey::new(of, x, measure), MeasureKey::new(to, x, measure))
    }

    pub(super) fn estimate(&self, values: &impl StudyValues, unit: StudyUnit) -> Estimate {
        match self {
            Self::Mean(at) => Estimate::of_mean(&values.at(at).into_values().collect::<Vec<_>>()),
            Self::Ratio(of, to) => Estimate::of_ratio(&values.at(of), &values.at(to)),
            Self::Share { part, of } => {
                let counts = MeasureKey { measure: (*of).to_owned(), ..part.clone() };
                Estimate::of_share(&values.at(part), &values.at(&counts))
            }
            Self::Crossing { above, below, measure, from_far } => {
                crossing(values, [above, below], measure, *from_far, unit)
            }
        }
    }
}

impl Estimate {
    fn of_mean(values: &[f64]) -> Self {
        let Some((mean, half)) = mean_and_half_width(values) else { return Self::default() };
        let interval = half.map(|half| (mean - half, mean + half));
        Self { value: Some(mean), interval, seeds: values.len(), ..Self::default() }
    }

    /// Estimates from the counts of all seeds. A run without counts counts as a complete failure.
    fn of_share(parts: &BTreeMap<u64, f64>, counts: &BTreeMap<u64, f64>) -> Self {
        let runs: Vec<(f64, f64)> = parts.iter().filter_map(|(seed, part)| Some((*part, *counts.get(seed)?))).collect();
        let most = runs.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let counted = |count: f64| if count > 0.0 { count } else { most };
        let whole: f64 = runs.iter().map(|(_, count)| counted(*count)).sum();
        let seen: f64 = runs.iter().map(|(part, count)| part * counted(*count)).sum();
        if whole <= 0.0 {
            return Self::of_mean(&runs.iter().map(|(part, _)| *part).collect::<Vec<_>>());
        }
        let remark = Some(format!("That is {:.0} of {whole:.0}.", seen.round()));
        let interval = wilson(seen.round() as u64, whole.round() as u64);
        Self { value: Some(seen / whole), interval, seeds: runs.len(), remark, ..Self::default() }
    }

    /// Uses the seeds that both have.
    fn of_ratio(of: &BTreeMap<u64, f64>, to: &BTreeMap<u64, f64>) -> Self {
        let pairs: Vec<(f64, f64)> = to.iter().filter_map(|(seed, to)| Some((*to, *of.get(seed)?))).collect();
        let (to, of): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        match (paired(&to, &of), &to[..], &of[..]) {
            (Some(found), ..) => {
                let interval = Some((found.low, found.high));
                Self { value: Some(found.ratio), interval, seeds: to.len(), ..Self::default() }
            }
            (None, [to], [of]) if *to > 0.0 => Self { value: Some(of / to), seeds: 1, ..Self::default() },
            _ => Self::default(),
        }
    }
}

/// The position at which the first line rises above the second, over all seeds.
fn crossing(values: &impl StudyValues, lines: [&str; 2], measure: &str, from_far: bool, unit: StudyUnit) -> Estimate {
    let mut places = values.places(lines[1]);
    if from_far {
        places.reverse();
    }
    let of = |line: &str| -> Vec<(f64, BTreeMap<u64, f64>)> {
        places.iter().map(|x| (*x, values.at(&MeasureKey::new(line, *x, measure)))).collect()
    };
    let (above, below) = (of(lines[0]), of(lines[1]));
    let seeds: Vec<u64> = below.first().map(|(_, values)| values.keys().copied().collect()).unwrap_or_default();
    let differences = |seed: u64| -> Vec<(f64, f64)> {
        let pair = above.iter().zip(&below);
        pair.filter_map(|((x, one), (_, other))| Some((*x, one.get(&seed)? - other.get(&seed)?))).collect()
    };
    let found: Vec<(f64, bool)> = seeds.iter().filter_map(|seed| first_above(&differences(*seed))).collect();
    if found.is_empty() && seeds.iter().any(|seed| !differences(*seed).is_empty()) {
        let remark = Some(format!("{} is ahead to the end of the sweep with no seed.", capital(lines[0])));
        return Estimate { remark, is_refuted: true, seeds: seeds.len(), ..Estimate::default() };
    }
    let at_the_edge = found.iter().filter(|(_, is_edge)| *is_edge).count();
    let estimate = Estimate::of_mean(&found.iter().map(|(x, _)| *x).collect::<Vec<_>>());
    let remark = (at_the_edge > 0).then(|| {
        let edge = places.first().map_or_else(String::new, |edge| unit.show(*edge));
        format!("With {at_the_edge} of {} seeds it is ahead at {edge} already, where the sweep begins.", found.len())
    });
    Estimate { remark, is_bound: at_the_edge > 0 && at_the_edge == found.len(), ..estimate }
}

/// The first position from which on the difference is never below zero, interpolated; true if that is the first
/// position of all.
pub(super) fn first_above(differences: &[(f64, f64)]) -> Option<(f64, bool)> {
    // Only positions after the last negative difference count.
    let Some(last_below) = differences.iter().rposition(|(_, difference)| *difference < 0.0) else {
        return differences.first().map(|(x, _)| (*x, true));
    };
    let ((x, low), (next, high)) = (differences[last_below], *differences.get(last_below + 1)?);
    Some((x + (next - x) * (-low) / (high - low).max(f64::MIN_POSITIVE), false))
}
