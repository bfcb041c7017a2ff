//! Runs that differ only in their seed, and the means over them.

use roost_statistics::mean_and_half_width;

use super::RunSummary;
use super::axes::AxisPlace;
use crate::measure::{Measure, MeasureUnit};
use crate::seed_values::SeedValues;
use crate::text_format::{percent, three};

/// Runs that differ only in their seed.
#[derive(Clone, Debug)]
pub(crate) struct SeedGroup<'a> {
    /// The topologies in the same figure, which differ only in size.
    pub(crate) family: String,
    pub(crate) panel: String,
    pub(crate) series: String,
    pub(crate) x: AxisPlace,
    /// At least one.
    pub(crate) points: Vec<&'a RunSummary>,
}

impl SeedGroup<'_> {
    /// The mean of a measure over the seeds, and the half-width of its interval. If one of the runs has too few
    /// requests, the mean is a guess without an interval.
    pub(crate) fn mean(&self, measure: &Measure) -> Option<Mean> {
        let found: Vec<&(Measure, f64)> = self.found(measure).collect();
        let values: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        let few = found.iter().any(|(measure, _)| measure.few);
        let (mean, half) = mean_and_half_width(&values)?;
        Some(Mean {
            measure: Measure { few, ..measure.clone() },
            runs: values.len(),
            mean,
            half: half.filter(|_| !few),
        })
    }

    /// The values of a measure, one for each run that has it.
    pub(super) fn values(&self, measure: &Measure) -> SeedValues {
        let value = |point: &&RunSummary| {
            let found = point.measures.iter().find(|(one, _)| one.kind == measure.kind);
            found.map(|(_, value)| (point.run.seed, *value))
        };
        self.points.iter().filter_map(value).collect()
    }

    fn found<'s>(&'s self, measure: &'s Measure) -> impl Iterator<Item = &'s (Measure, f64)> {
        self.points.iter().filter_map(|point| point.measures.iter().find(|(one, _)| one.kind == measure.kind))
    }

    /// The measures of all its runs, in the order of reports.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        union(self.points.iter().copied())
    }
}

/// The measures that any of the runs has; those of the first run come first.
pub(crate) fn union<'a>(points: impl Iterator<Item = &'a RunSummary>) -> Vec<Measure> {
    let mut all: Vec<Measure> = Vec::new();
    for (measure, _) in points.flat_map(|point| &point.measures) {
        if all.iter().all(|one| one.kind != measure.kind) {
            all.push(measure.clone());
        }
    }
    all
}

/// The mean of a measure over the runs of a cell.
pub(crate) struct Mean {
    /// The measure, marked if one of the runs has too few requests for it.
    pub(crate) measure: Measure,
    /// Number of runs with a value.
    pub(crate) runs: usize,
    pub(crate) mean: f64,
    pub(crate) half: Option<f64>,
}

impl Mean {
    /// The mean and the half-width of its interval, `412 ms ±3 %`.
    pub(crate) fn mean_text(&self) -> String {
        with_half(&self.measure, self.mean, self.half)
    }

    /// The half-width of an interval that a figure shows whole: none below zero of what cannot be below it.
    pub(super) fn drawn_half(&self) -> Option<f64> {
        self.half.filter(|half| self.mean < 0.0 || *half <= self.mean)
    }
}

/// The mean and the half-width of its interval: relative, `412 ms ±3 %`, but of a share in points, `92.8 % ±2.8 points`.
pub(crate) fn with_half(measure: &Measure, mean: f64, half: Option<f64>) -> String {
    let half = half.filter(|_| mean > 0.0).map(|half| match measure.unit {
        MeasureUnit::Part => format!(" ±{} points", three(half * 100.0)),
        _ => format!(" ±{}", percent((half / mean * 100.0).ceil() / 100.0)),
    });
    measure.show(mean) + &half.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{MeasureDirection, MeasureKind};

    #[test]
    fn half_of_share_is_in_points() {
        let (kind, better) = (MeasureKind::Success, MeasureDirection::Higher);
        let of = |unit| Measure { kind: kind.clone(), name: "success".to_owned(), unit, better, few: false };
        assert_eq!(with_half(&of(MeasureUnit::Part), 0.928, Some(0.0278)), "92.8 % ±2.78 points");
        assert_eq!(with_half(&of(MeasureUnit::Ms), 400.0, Some(11.0)), "400 ms ±3 %");
        assert_eq!(with_half(&of(MeasureUnit::Part), 0.928, None), "92.8 %");
    }
}
