//! Measurements of programs over the time of a run, a line for each host or label.

use std::collections::BTreeMap;

use roost_results::Results;
use roost_results::metrics::{MeasuredPoint, MeasuredUnit, MeasurementPart, MeasurementSummary, Metrics};
use roost_results::record::MeasurementKind;

use super::Figure;
use super::course::{Course, CourseLine, CoursePanel, CoursePoint, LineForm};
use super::ink::Ink;
use super::key::FigureKey;
use crate::measurements::measures;
use crate::text_format::{capital, counted};

const MOST: usize = 6;
/// The most names in the title with a value of their own.
const MOST_TOLD: usize = 3;
/// The most windows of a line: more are not visible.
const WINDOWS: f64 = 60.0;

/// The remark on names with more parts than inks.
const MERGED: &str = ", with one line for all parts of a name that has more than seven";

/// The figure of a run; `None` if its programs measured nothing.
pub(super) fn measured(results: &Results, metrics: &Metrics) -> Option<Figure> {
    let summaries = &metrics.measurements[..metrics.measurements.len().min(MOST)];
    if summaries.is_empty() {
        return None;
    }
    let last = results.measurements.iter().map(|one| one.t).fold(0.0, f64::max);
    let end = (results.run.ran_s + results.run.drain_s).max(last);
    // Records all at zero, of a run that did not start, have a second.
    let end = if end > 0.0 { end } else { 1.0 };
    let windows = Windows { length: (end / WINDOWS).max(1.0), end };
    let mut panels: Vec<CoursePanel> = Vec::new();
    let mut known = FigureKey::default();
    for summary in summaries {
        let (panel, key) = (panel(summary, windows), key(summary));
        panels.push(if key == known { panel } else { panel.with_key(key.clone()) });
        known = key;
    }
    let course = Course { panels: &panels, end, title: "seconds since the workload began" };
    let shown = match metrics.measurements.len() {
        all if all > MOST => format!("The first {MOST} of {all} names"),
        _ => "What programs measured".to_owned(),
    };
    Some(Figure {
        name: "measured".into(),
        title: title(&metrics.measurements),
        caption: format!(
            "{shown}: means, shares and rates of windows of {}{}. measurements.csv has each.",
            counted(windows.length.round() as u64, "second"),
            if has_merged_parts(summaries) { MERGED } else { "" }
        ),
        sheet: course.sheet(&FigureKey::default()),
    })
}

/// The median, share or sum of the first names that have one; the others are counted.
fn title(summaries: &[MeasurementSummary]) -> String {
    let told = |summary: &MeasurementSummary| {
        let (measure, value) = measures(std::slice::from_ref(summary)).into_iter().next()?;
        Some(format!("{}: {}", measure.name, measure.show(value?)))
    };
    let all: Vec<String> = summaries.iter().filter_map(told).take(MOST_TOLD).collect();
    if all.is_empty() {
        return format!("{} without a value", counted(summaries.len() as u64, "name"));
    }
    let more = match summaries.len() - all.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    capital(&format!("{}{more}", all.join("; ")))
}

/// True if a name has parts that share a line.
fn has_merged_parts(summaries: &[MeasurementSummary]) -> bool {
    summaries.iter().any(|summary| summary.parts.len() > Ink::KINDS.len())
}

/// The parts with an ink of their own; none if they are too many, or only one.
fn parts(summary: &MeasurementSummary) -> &[MeasurementPart] {
    if (2..=Ink::KINDS.len()).contains(&summary.parts.len()) { &summary.parts } else { &[] }
}

fn key(summary: &MeasurementSummary) -> FigureKey {
    let names: Vec<String> = parts(summary).iter().map(|part| part.origin.clone()).collect();
    FigureKey::of_kinds(&names)
}

fn panel(summary: &MeasurementSummary, windows: Windows) -> CoursePanel {
    let what = match summary.kind {
        MeasurementKind::Value => "",
        MeasurementKind::Ok => ", share",
        MeasurementKind::Count => ", each second",
    };
    let unit = AxisUnit::new(&summary.unit);
    let line = |ink, course: &[MeasuredPoint]| {
        let mut pieces = windows.pieces(course, summary.kind);
        pieces.iter_mut().flatten().for_each(|point| point.value *= unit.factor);
        CourseLine { ink, form: LineForm::Line, pieces }
    };
    let own = (0..).zip(parts(summary));
    let mut lines: Vec<CourseLine> = own.map(|(number, part)| line(Ink::kind(number), &part.course)).collect();
    if lines.is_empty() {
        let all: Vec<MeasuredPoint> = summary.parts.iter().flat_map(|part| &part.course).copied().collect();
        lines.push(line(Ink::Blue, &all));
    }
    let unit = if unit.name.is_empty() { String::new() } else { format!(", {}", unit.name) };
    CoursePanel::new(format!("{}{what}{unit}", summary.name), Ink::Text, lines).with_fit_axis()
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

/// The windows of a course up to the end of the run.
#[derive(Clone, Copy, Debug)]
struct Windows {
    length: f64,
    end: f64,
}

impl Windows {
    /// Points in the middle of each window. A count without records is 0; other lines have a gap there.
    fn pieces(self, course: &[MeasuredPoint], kind: MeasurementKind) -> Vec<Vec<CoursePoint>> {
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        if kind == MeasurementKind::Count {
            sums.extend((0..self.count()).map(|number| (number, (0.0, 0.0))));
        }
        for MeasuredPoint { t, value } in course.iter().filter(|point| point.t.is_finite() && point.value.is_finite()) {
            let number = ((t / self.length).floor().max(0.0) as u32).min(self.count() - 1);
            let (sum, count) = sums.entry(number).or_default();
            *sum += value;
            *count += 1.0;
        }
        let mut pieces: Vec<Vec<CoursePoint>> = Vec::new();
        let mut last = None;
        for (number, (sum, count)) in sums {
            let from = f64::from(number) * self.length;
            let length = self.length.min(self.end - from);
            let value = sum / if kind == MeasurementKind::Count { length } else { count };
            let point = CoursePoint { t: from + length / 2.0, value };
            match pieces.last_mut() {
                Some(piece) if last.is_some_and(|last| last + 1 == number) => piece.push(point),
                _ => pieces.push(vec![point]),
            }
            last = Some(number);
        }
        pieces
    }

    /// The number of windows, at least one. The rounding of a division makes no window.
    fn count(self) -> u32 {
        ((self.end / self.length - 1e-9).ceil() as u32).max(1)
    }
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
        assert_eq!(shown.title, "Delay, median: 9.5 ms");
        let many = figure((0..40).map(|n| record(1.0, &format!("n{n}"), 1.0)).collect()).unwrap();
        assert!(!many.sheet.standing("delay").contains("at n1"));
        assert!(figure(Vec::new()).is_none());
    }

    #[test]
    fn names_without_value_are_counted() {
        let none = |measure: &str| MeasurementRecord { measure: measure.to_owned(), ..record(1.0, "a", f64::NAN) };
        assert_eq!(figure(vec![none("x"), none("y")]).unwrap().title, "2 names without a value");
        let shown = figure(vec![none("a"), none("b"), none("c"), record(1.0, "a", 9.5)]).unwrap();
        assert_eq!(shown.title, "Delay, median: (9.5 ms); and 3 more");
    }

    #[test]
    fn windows_have_means_and_rates() {
        let course = [(0.1, 4.0), (0.9, 6.0), (5.0, 3.0), (6.0, f64::NAN)].map(|(t, value)| MeasuredPoint { t, value });
        let windows = Windows { length: 2.0, end: 7.0 };
        let points = |all: &[(f64, f64)]| all.iter().map(|(t, value)| CoursePoint { t: *t, value: *value }).collect();
        let values: Vec<Vec<CoursePoint>> = vec![points(&[(1.0, 5.0)]), points(&[(5.0, 3.0)])];
        assert_eq!(windows.pieces(&course, MeasurementKind::Value), values);
        let last = [MeasuredPoint { t: 7.0, value: 2.0 }];
        let counts: Vec<Vec<CoursePoint>> = vec![points(&[(1.0, 5.0), (3.0, 0.0), (5.0, 1.5), (6.5, 2.0)])];
        assert_eq!(windows.pieces(&[course.as_slice(), &last].concat(), MeasurementKind::Count), counts);
    }
}
