//! The captions of figures across several runs: the intervals that are drawn, and the reasons for those that are not.

use roost_statistics::Method;

use super::titles::SweepTitle;
use super::{FactorEffect, Mean, SeedGroup};
use crate::measure::Measure;

const GEOMETRIC: &str = " The ratio in the title is that of geometric means.";
const PAIRED: &str = " The title compares runs of the same seed, so it may see a difference where bars overlap.";

/// The number of means by the interval that they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct IntervalCounts {
    drawn: usize,
    below_zero: usize,
    few: usize,
    single: usize,
}

impl IntervalCounts {
    fn add(&mut self, mean: &Mean) {
        let count = match (mean.half, mean.drawn_half()) {
            (_, Some(_)) => &mut self.drawn,
            (Some(_), None) => &mut self.below_zero,
            (None, None) if mean.measure.few => &mut self.few,
            (None, None) => &mut self.single,
        };
        *count += 1;
    }

    fn text(self) -> String {
        let reasons = [
            (self.few, "of too few requests for an interval"),
            (self.single, "of a single run"),
            (self.below_zero, "with an interval that reaches below zero, which is in the table"),
        ];
        let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = reasons.map(|(count, reason)| format!("{count} {reason}")).collect();
        match told.as_slice() {
            [] => ", with 95 % confidence intervals.".to_owned(),
            [_] if self.drawn == 0 && self.few > 0 => ", without intervals: too few requests.".to_owned(),
            told if self.drawn == 0 => format!(", without intervals: {}.", told.join(", ")),
            told => format!(", with 95 % confidence intervals but for {}.", told.join(", ")),
        }
    }
}

pub(super) fn of_means(measure: &Measure, cells: &[&SeedGroup<'_>], title: &SweepTitle) -> String {
    if cells.iter().all(|cell| cell.points.len() == 1) {
        return "One run each, so no interval.".to_owned();
    }
    let mut counts = IntervalCounts::default();
    cells.iter().filter_map(|cell| cell.mean(measure)).for_each(|mean| counts.add(&mean));
    let geometric = if title.is_geometric { GEOMETRIC } else { "" };
    let paired = if counts.drawn > 0 && title.method == Some(Method::PairedBySeed) { PAIRED } else { "" };
    format!("Arithmetic means over seeds{}{geometric}{paired}", counts.text())
}

pub(super) fn of_effects(effects: &[FactorEffect<'_>]) -> String {
    let means = || effects.iter().flat_map(|effect| &effect.levels).map(|level| &level.mean);
    let intervals = match () {
        () if means().any(|mean| mean.half.is_some()) => ", with 95 % intervals over the seeds",
        () if means().any(|mean| mean.measure.few) => ", without intervals: too few requests",
        () => ", of one seed, so without intervals",
    };
    let brackets = if means().any(|mean| mean.measure.few) { "; in brackets if of too few requests" } else { "" };
    format!(
        "Arithmetic means over the values of the other factors{intervals}. In the title a factor's largest geometric mean \
         over its smallest, seed by seed{brackets}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caption_tells_missing_intervals() {
        let counts = |drawn, below_zero, few, single| IntervalCounts { drawn, below_zero, few, single }.text();
        assert_eq!(counts(8, 0, 0, 0), ", with 95 % confidence intervals.");
        assert_eq!(counts(0, 0, 8, 0), ", without intervals: too few requests.");
        assert_eq!(counts(0, 0, 0, 1), ", without intervals: 1 of a single run.");
        let told = counts(2, 1, 5, 0);
        assert!(
            told.contains("but for 5 of too few") && told.contains("1 with an interval that reaches below"),
            "{told}"
        );
    }
}
