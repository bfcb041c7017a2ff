//! The table of what programs have measured.

use maud::{Markup, html};
use roost_results::metrics::{MeasurementSummary, MeasurementValues, Metrics};

use super::table;
use super::tables::MOST;
use crate::measurements::{HEADINGS, cells};

pub(super) fn all(metrics: &Metrics) -> Markup {
    let headings = [&["measurement"], &HEADINGS[..]].concat();
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
    html! {
        tr class=(class) {
            th scope="row" { (name) }
            @for cell in cells(summary, values) { td { (cell) } }
        }
    }
}
