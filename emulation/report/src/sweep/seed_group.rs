//! Runs that differ only in their seed, and the means over them.

use roost_statistics::mean_and_half_width;

use super::RunSummary;
use super::axes::AxisPlace;
use crate::measure::Measure;
use crate::text_format::percent;

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
    pub(crate) fn values(&self, measure: &Measure) -> Vec<f64> {
        self.found(measure).map(|(_, value)| *value).collect()
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
    /// The mean and the relative half-width of its interval, `412 ms ±3 %`.
    pub(crate) fn mean_text(&self) -> String {
        with_half(&self.measure, self.mean, self.half)
    }
}

/// The mean and the relative half-width of its interval, `412 ms ±3 %`.
pub(crate) fn with_half(measure: &Measure, mean: f64, half: Option<f64>) -> String {
    let part = half.filter(|_| mean > 0.0).map(|half| format!(" ±{}", percent((half / mean * 100.0).ceil() / 100.0)));
    measure.show(mean) + &part.unwrap_or_default()
}
