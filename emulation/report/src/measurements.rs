//! Measurements of programs, as measures, tables and figures.

use roost_results::metrics::{MeasuredUnit, MeasurementSummary, MeasurementValues};
use roost_results::record::{Better, MeasurementKind, MeasurementRecord};

use super::csv::{self, lines};
use super::measure::{Measure, MeasureDirection, MeasureKind, MeasureUnit, MeasuredFigure, QUANTILES};
use super::text_format::{count, or_dash};

/// The headings of [`cells`], after the name.
pub const HEADINGS: [&str; 8] = ["count", "mean", "least", "median", "p95", "p99", "most", "in all"];

/// The figures of a name, or of a part of it, as texts; a dash where its kind has no such figure.
pub fn cells(summary: &MeasurementSummary, values: &MeasurementValues) -> [String; 8] {
    let show = |value: Option<f64>, few| {
        let kind = MeasureKind::Measured(String::new(), MeasuredFigure::Mean);
        let unit = unit(&summary.unit);
        let measure = Measure { kind, name: String::new(), unit, better: MeasureDirection::Neither, few };
        or_dash(value, |value| measure.show(value))
    };
    let is_value = summary.kind == MeasurementKind::Value;
    let quantile =
        |value: Option<f64>, thousandths| show(value.filter(|_| is_value), !values.is_quantile_reliable(thousandths));
    [
        count(values.count),
        show(values.mean, false),
        show(values.min.filter(|_| is_value), false),
        quantile(values.p50, 500),
        quantile(values.p95, 950),
        quantile(values.p99, 990),
        show(values.max.filter(|_| is_value), false),
        show((summary.kind == MeasurementKind::Count).then_some(values.sum), false),
    ]
}

/// The measures of programs in a run, in the order of their names.
pub(super) fn measures(summaries: &[MeasurementSummary]) -> Vec<(Measure, Option<f64>)> {
    summaries.iter().flat_map(of_name).collect()
}

fn of_name(summary: &MeasurementSummary) -> Vec<(Measure, Option<f64>)> {
    let values = &summary.values;
    let measure = |figure, name: String, few| {
        let kind = MeasureKind::Measured(summary.name.clone(), figure);
        Measure { kind, name, unit: unit(&summary.unit), better: direction(summary.better), few }
    };
    let name = &summary.name;
    match summary.kind {
        MeasurementKind::Ok => vec![(measure(MeasuredFigure::Share, name.clone(), false), values.mean)],
        MeasurementKind::Count => vec![(measure(MeasuredFigure::Sum, name.clone(), false), Some(values.sum))],
        MeasurementKind::Value => {
            let quantiles = QUANTILES.into_iter().zip([values.p50, values.p95, values.p99]);
            let quantiles = quantiles.map(|(thousandths, value)| {
                let which = if thousandths == 500 { "median".to_owned() } else { format!("p{}", thousandths / 10) };
                let few = !values.is_quantile_reliable(thousandths);
                (measure(MeasuredFigure::Quantile(thousandths), format!("{name}, {which}"), few), value)
            });
            let mean = (measure(MeasuredFigure::Mean, format!("{name}, mean"), false), values.mean);
            quantiles.chain([mean]).collect()
        }
    }
}

fn unit(unit: &MeasuredUnit) -> MeasureUnit {
    match unit {
        MeasuredUnit::Number => MeasureUnit::Count,
        MeasuredUnit::Ms => MeasureUnit::Ms,
        MeasuredUnit::Bytes => MeasureUnit::Bytes,
        MeasuredUnit::Part => MeasureUnit::Part,
        MeasuredUnit::Own(own) => MeasureUnit::Own(own.clone()),
    }
}

const fn direction(better: Option<Better>) -> MeasureDirection {
    match better {
        Some(Better::Lower) => MeasureDirection::Lower,
        Some(Better::Higher) => MeasureDirection::Higher,
        None => MeasureDirection::Neither,
    }
}

/// The main figure of a name, for a terminal: `median 12 ms, p95 30 ms`, `98 %` or a sum.
pub(super) fn headline(summary: &MeasurementSummary) -> String {
    let all = of_name(summary);
    let shown = |(measure, value): &(Measure, Option<f64>)| Some(measure.show((*value)?));
    match (summary.kind, all.as_slice()) {
        (MeasurementKind::Value, [median, p95, ..]) => {
            let [median, p95] = [median, p95].map(|one| shown(one).unwrap_or_default());
            format!("median {median}, p95 {p95} of {}", summary.values.count)
        }
        (MeasurementKind::Ok, [share, ..]) => {
            format!("{} of {}", shown(share).unwrap_or_default(), summary.values.count)
        }
        (_, all) => all.first().and_then(shown).unwrap_or_default(),
    }
}

/// A measurement for each row, in the order of arrival; values and units are those of the program.
pub(super) fn csv(measurements: &[MeasurementRecord]) -> String {
    let labels = |one: &MeasurementRecord| {
        one.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let rows = measurements.iter().map(|one| (one, labels(one)));
    lines(
        rows,
        &[
            ("t_s", |(one, _)| csv::number(one.t)),
            ("program", |(one, _)| one.program.clone()),
            ("host", |(one, _)| one.host.clone()),
            ("measure", |(one, _)| one.measure.clone()),
            ("kind", |(one, _)| one.kind.name().to_owned()),
            ("value", |(one, _)| one.value.to_string()),
            ("unit", |(one, _)| one.unit.clone()),
            ("labels", |(_, labels)| labels.clone()),
        ],
    )
}

pub(super) fn summary_rows(summary: &MeasurementSummary) -> Vec<(String, f64)> {
    let values = &summary.values;
    let figures = match summary.kind {
        MeasurementKind::Ok => vec![("count", Some(values.count as f64)), ("share", values.mean)],
        MeasurementKind::Count => vec![("sum", Some(values.sum))],
        MeasurementKind::Value => vec![
            ("count", Some(values.count as f64)),
            ("mean", values.mean),
            ("min", values.min),
            ("p50", values.p50),
            ("p95", values.p95),
            ("p99", values.p99),
            ("max", values.max),
        ],
    };
    figures.into_iter().filter_map(|(name, value)| Some((format!("measured-{name}"), value?))).collect()
}

#[cfg(test)]
mod tests {
    use roost_results::metrics::Metrics;
    use roost_results::testing;

    use super::*;

    fn measured(records: Vec<MeasurementRecord>) -> Metrics {
        let mut results = testing::by_hand();
        results.measurements = records;
        Metrics::from_results(&results)
    }

    fn delays(count: u32) -> Vec<MeasurementRecord> {
        let delay = |n| MeasurementRecord {
            measure: "delay".into(),
            value: f64::from(n),
            unit: "ms".into(),
            better: Some(Better::Lower),
            labels: [("to".to_owned(), "b,c".to_owned())].into(),
            ..MeasurementRecord::default()
        };
        (1..=count).map(delay).collect()
    }

    #[test]
    fn values_become_measures_with_brackets() {
        let metrics = measured(delays(21));
        let all = measures(&metrics.measurements);
        let told: Vec<(&str, String)> =
            all.iter().map(|(measure, value)| (measure.name.as_str(), measure.show(value.unwrap()))).collect();
        let expected = [
            ("delay, median", "11 ms"),
            ("delay, p95", "(20 ms)"),
            ("delay, p99", "(20.8 ms)"),
            ("delay, mean", "11 ms"),
        ];
        assert_eq!(told, expected.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(all[0].0.better, MeasureDirection::Lower);
        assert_eq!(headline(&metrics.measurements[0]), "median 11 ms, p95 (20 ms) of 21");
    }

    #[test]
    fn each_kind_has_its_figures() {
        let record = |kind, value| MeasurementRecord {
            measure: format!("{kind:?}"),
            kind,
            value,
            ..MeasurementRecord::default()
        };
        let mut records = delays(21);
        records.extend([true, true, false].map(|ok| record(MeasurementKind::Ok, f64::from(u8::from(ok)))));
        records.extend([2.0, 3.0].map(|value| record(MeasurementKind::Count, value)));
        let metrics = measured(records);
        let shown = |name: &str| {
            let found = metrics.measurements.iter().find(|one| one.name == name).unwrap();
            cells(found, &found.values).join(" | ")
        };
        assert_eq!(shown("delay"), "21 | 11 ms | 1 ms | 11 ms | (20 ms) | (20.8 ms) | 21 ms | –");
        assert_eq!(shown("Count"), "2 | 2.5 | – | – | – | – | – | 5");
        assert!(shown("Ok").starts_with("3 | 66.7 % | – "), "{}", shown("Ok"));
    }

    #[test]
    fn own_units_are_shown() {
        let speed = MeasurementRecord {
            measure: "speed".into(),
            value: 12.345,
            unit: "Mbit/s".into(),
            ..MeasurementRecord::default()
        };
        let metrics = measured(vec![speed]);
        let (mean, value) = measures(&metrics.measurements).pop().unwrap();
        assert_eq!((mean.show(value.unwrap()), mean.unit_name()), ("12.3 Mbit/s".to_owned(), "Mbit/s"));
        assert_eq!(serde_json::to_value(&mean).unwrap()["unit"], "Mbit/s");
    }

    #[test]
    fn each_measurement_has_a_row() {
        let text = csv(&delays(2));
        assert!(text.ends_with("0,,,delay,value,2,ms,\"to=b,c\"\n") && text.lines().count() == 3, "{text}");
    }
}
