//! The table of what programs have measured.

use maud::{Markup, html};
use roost_results::metrics::{MeasurementSummary, MeasurementValues, Metrics};
use roost_results::record::MeasurementKind;

use super::table;
use super::tables::MOST;
use crate::measure::{Measure, MeasureDirection, MeasureKind, MeasuredFigure};
use crate::measurements::unit;
use crate::text_format::{count, or_dash};

pub(super) fn all(metrics: &Metrics) -> Markup {
    let headings = ["measurement", "count", "mean", "least", "median", "p95", "p99", "most", "in all"];
    let rows = html! {
        @for summary in metrics.measurements.iter().take(MOST) {
            (row(summary, "", &summary.name, &summary.values))
            @if summary.parts.len() > 1 {
                @for part in &summary.parts { (row(summary, "part", &part.origin, &part.values)) }
            }
        }
    };
    let length = metrics.measurements.len();
    html! {
        h2 { "What programs measured" }
        (table(&headings, &rows))
        p.lead {
            "Each measurement is in measurements.csv, with its labels."
            @if length > MOST { " Of " (length) " names the first " (MOST) " are here." }
        }
    }
}

/// All measurements of a name, or those of a part of it.
fn row(summary: &MeasurementSummary, class: &str, name: &str, values: &MeasurementValues) -> Markup {
    let show = |value: Option<f64>, few| {
        let kind = MeasureKind::Measured(String::new(), MeasuredFigure::Mean);
        let unit = unit(&summary.unit);
        let measure = Measure { kind, name: String::new(), unit, better: MeasureDirection::Neither, few };
        or_dash(value, |value| measure.show(value))
    };
    let is_value = summary.kind == MeasurementKind::Value;
    let quantile =
        |value: Option<f64>, thousandths| show(value.filter(|_| is_value), !values.is_quantile_reliable(thousandths));
    let sum = (summary.kind == MeasurementKind::Count).then_some(values.sum);
    html! {
        tr class=(class) {
            th scope="row" { (name) }
            td { (count(values.count)) }
            td { (show(values.mean, false)) }
            td { (show(values.min.filter(|_| is_value), false)) }
            td { (quantile(values.p50, 500)) }
            td { (quantile(values.p95, 950)) }
            td { (quantile(values.p99, 990)) }
            td { (show(values.max.filter(|_| is_value), false)) }
            td { (show(sum, false)) }
        }
    }
}
