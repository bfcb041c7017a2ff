//! Measurements of programs over the time of a run, a line for each host or label.

use std::collections::BTreeMap;

use roost_results::Results;
use roost_results::metrics::{MeasuredPoint, MeasuredUnit, MeasurementPart, MeasurementSummary, Metrics};
use roost_results::record::MeasurementKind;

use super::Figure;
use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm};
use super::ink::Ink;
use super::key::FigureKey;
use crate::text_format::counted;

const MOST: usize = 6;
/// The most windows of a line: more are not visible.
const WINDOWS: f64 = 60.0;

/// The figure of a run; `None` if its programs measured nothing.
pub(super) fn measured(results: &Results, metrics: &Metrics) -> Option<Figure> {
    let summaries = &metrics.measurements[..metrics.measurements.len().min(MOST)];
    let first = summaries.first()?;
    let last = results.measurements.iter().map(|one| one.t).fold(0.0, f64::max);
    let end = (results.run.ran_s + results.run.drain_s).max(last);
    let window = (end / WINDOWS).max(1.0);
    let mut panels: Vec<CoursePanel> = Vec::new();
    let mut known = FigureKey::default();
    for summary in summaries {
        let (panel, key) = (panel(summary, window), key(summary));
        panels.push(if key == known { panel } else { panel.with_key(key.clone()) });
        known = key;
    }
    let course = Course { panels: &panels, end, title: "seconds since the workload began" };
    let shown = match metrics.measurements.len() {
        all if all > MOST => format!("The first {MOST} of {all} names"),
        _ => "What programs measured".to_owned(),
    };
    let title = match summaries {
        [only] => format!("{} over the run", only.name),
        _ => format!("{} and {} over the run", first.name, counted(summaries.len() as u64 - 1, "other measure")),
    };
    Some(Figure {
        name: "measured".into(),
        title,
        caption: format!(
            "{shown}: means, shares and sums of windows of {}. measurements.csv has each.",
            counted(window.round() as u64, "second")
        ),
        sheet: course.sheet(&FigureKey::default()),
    })
}

/// The parts with an ink of their own; none if they are too many, or only one.
fn parts(summary: &MeasurementSummary) -> &[MeasurementPart] {
    if (2..=Ink::KINDS.len()).contains(&summary.parts.len()) { &summary.parts } else { &[] }
}

fn key(summary: &MeasurementSummary) -> FigureKey {
    let names: Vec<String> = parts(summary).iter().map(|part| part.origin.clone()).collect();
    FigureKey::of_kinds(&names)
}

fn panel(summary: &MeasurementSummary, window: f64) -> CoursePanel {
    let what = match summary.kind {
        MeasurementKind::Value => "",
        MeasurementKind::Ok => ", share",
        MeasurementKind::Count => ", each second",
    };
    let unit = AxisUnit::new(&summary.unit);
    let line = |ink, course: &[MeasuredPoint]| {
        let points = windows(course, summary.kind, window).into_iter();
        let points = points.map(|point| CoursePoint { value: point.value * unit.factor, ..point });
        CourseLine::whole(ink, LineForm::Line, points.collect())
    };
    let own = (0..).zip(parts(summary));
    let mut lines: Vec<CourseLine> = own.map(|(number, part)| line(Ink::kind(number), &part.course)).collect();
    if lines.is_empty() {
        let all: Vec<MeasuredPoint> = summary.parts.iter().flat_map(|part| &part.course).copied().collect();
        lines.push(line(Ink::Blue, &all));
    }
    let unit = if unit.name.is_empty() { String::new() } else { format!(", {}", unit.name) };
    CoursePanel::new(format!("{}{what}{unit}", summary.name), Ink::Text, lines)
}

/// The unit of an axis, and the factor of its numbers.
struct AxisUnit<'a> {
    name: &'a str,
    factor: f64,
}

impl<'a> AxisUnit<'a> {
    fn new(unit: &'a MeasuredUnit) -> Self {
        match unit {
            MeasuredUnit::Number => Self { name: "", factor: 1.0 },
            MeasuredUnit::Ms => Self { name: "ms", factor: 1.0 },
            MeasuredUnit::Bytes => Self { name: "kB", factor: 1e-3 },
            MeasuredUnit::Part => Self { name: "%", factor: 100.0 },
            MeasuredUnit::Own(own) => Self { name: own, factor: 1.0 },
        }
    }
}

/// A point for each window with measurements, in its middle.
fn windows(course: &[MeasuredPoint], kind: MeasurementKind, window: f64) -> Vec<CoursePoint> {
    let mut windows: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for MeasuredPoint { t, value } in course.iter().filter(|point| point.t.is_finite() && point.value.is_finite()) {
        let (sum, count) = windows.entry((t / window).floor() as i64).or_default();
        *sum += value;
        *count += 1.0;
    }
    let value = |sum: f64, count: f64| if kind == MeasurementKind::Count { sum / window } else { sum / count };
    let point =
        |(at, (sum, count)): (i64, (f64, f64))| CoursePoint { t: (at as f64 + 0.5) * window, value: value(sum, count) };
    windows.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use roost_results::record::MeasurementRecord;
    use roost_results::testing;

    use super::*;

    fn record(t: f64, host: &str, value: f64) -> MeasurementRecord {
        let (measure, unit) = ("delay".to_owned(), "ms".to_owned());
        MeasurementRecord { t, host: host.to_owned(), measure, unit, value, ..MeasurementRecord::default() }
    }

    fn figure(records: Vec<MeasurementRecord>) -> Option<Figure> {
        let mut results = testing::by_hand();
        results.measurements = records;
        let metrics = Metrics::from_results(&results);
        measured(&results, &metrics)
    }

    #[test]
    fn each_host_has_its_line() {
        let records = (0..20).map(|n| record(f64::from(n) / 2.0, ["a", "b"][n as usize % 2], f64::from(n)));
        let shown = figure(records.collect()).unwrap();
        let svg = shown.sheet.standing("delay");
        assert!(svg.contains("at a") && svg.contains("at b") && svg.contains("delay, ms"), "{svg}");
        assert_eq!(shown.title, "delay over the run");
        let many = figure((0..40).map(|n| record(1.0, &format!("n{n}"), 1.0)).collect()).unwrap();
        assert!(!many.sheet.standing("delay").contains("at n1"));
        assert!(figure(Vec::new()).is_none());
    }

    #[test]
    fn windows_have_means_and_rates() {
        let course = [(0.1, 4.0), (0.9, 6.0), (5.0, 3.0), (6.0, f64::NAN)].map(|(t, value)| MeasuredPoint { t, value });
        let points = |all: [(f64, f64); 2]| all.map(|(t, value)| CoursePoint { t, value });
        assert_eq!(windows(&course, MeasurementKind::Value, 2.0), points([(1.0, 5.0), (5.0, 3.0)]));
        assert_eq!(windows(&course, MeasurementKind::Count, 2.0), points([(1.0, 5.0), (5.0, 1.5)]));
    }
}
