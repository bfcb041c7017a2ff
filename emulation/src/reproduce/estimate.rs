//! Estimators: how the figure of ours that a claim is about is found in runs, and how sure it is.

use std::collections::BTreeMap;

use super::claim::{MeasureKey, StudyValues};
use super::study::StudyUnit;
use crate::report::text_format::capital;
use crate::statistics::{mean_and_half_width, paired, wilson};

/// The way in which ours is found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Estimator {
    /// The mean over seeds.
    Mean(MeasureKey),
    /// The first over the second, seed by seed: the geometric mean.
    Ratio(MeasureKey, MeasureKey),
    /// The part of requests, or of the like, that a measure is, over all seeds together.
    Share {
        /// The part.
        part: MeasureKey,
        /// The measure of the same runs that counts what it is a part of.
        of: &'static str,
    },
    /// The place along the axis at which the first line, of a measure, comes to lie above the
    /// second, seed by seed, interpolated between neighbours; the lowest place.
    Crossing {
        /// The line that is above beyond the crossing.
        above: &'static str,
        /// The line that is below there.
        below: &'static str,
        /// The measure.
        measure: &'static str,
        /// True if the crossing is looked for from the far end of the axis.
        from_far: bool,
    },
}

/// A figure of ours, its interval, on how many seeds; and what there is to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: Option<f64>,
    pub(super) interval: Option<(f64, f64)>,
    pub(super) seeds: usize,
    pub(super) remark: Option<String>,
    /// True if runs show that there is no such value.
    pub(super) is_refuted: bool,
    /// True if the value is where runs end, so that it may be anything beyond.
    pub(super) is_bound: bool,
}

impl Estimator {
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

    /// Of the counts of all seeds together. A run that came to count nothing has failed as often as another could.
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

    /// Of the seeds that both have.
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

/// The place at which the first line comes to lie above the second, over all seeds.
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

/// The first place at which the difference is not below zero any more and stays
/// so, interpolated; and whether that is the first place of all.
pub(super) fn first_above(differences: &[(f64, f64)]) -> Option<(f64, bool)> {
    // Only places beyond the last one at which it is below count.
    let Some(last_below) = differences.iter().rposition(|(_, difference)| *difference < 0.0) else {
        return differences.first().map(|(x, _)| (*x, true));
    };
    let ((x, low), (next, high)) = (differences[last_below], *differences.get(last_below + 1)?);
    Some((x + (next - x) * (-low) / (high - low).max(f64::MIN_POSITIVE), false))
}
