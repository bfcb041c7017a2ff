//! The page of a comparison.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{FEW, Page, gallery, notice, terms};
use crate::compare::{Comparison, ComparisonFinding, ComparisonRow, ComparisonSide};
use crate::figure::{Figure, forest};
use crate::measure::MeasureKind;
use crate::text_format::{capital, counted, ratio};

pub(crate) fn of_comparison(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a.name, &comparison.b.name);
    let distrust = &comparison.distrust_reasons;
    let seen = html! {
        @for (name, rows) in comparison.cells() {
            h2 { "B over A" @if !name.is_empty() { ": " (name) } }
            (gallery(&figures(&rows)))
            (table(&rows))
        }
    };
    let page = Page {
        title: &format!("{b}, against {a} · Roost"),
        is_untrusted: !distrust.is_empty(),
        header: html! {
            p.kind { "Roost: two sides compared" }
            h1 { (b) ", against " (a) }
            p.lead { "A: " (side(&comparison.a)) " · B: " (side(&comparison.b)) }
            @if !distrust.is_empty() {
                (notice("bad", "These figures cannot be trusted.", "Runs are not valid:", distrust))
            }
            @if !comparison.warnings.is_empty() {
                (notice("doubt", "Before believing a ratio:", "", &comparison.warnings))
            }
        },
        main: html! {
            (seen)
            (differences(comparison))
            (methods(comparison))
            (terms::occurring(&[&seen]))
        },
        footer: html! { p { "Written by emulate compare from the records alone." } },
    };
    page.document()
}

fn side(side: &ComparisonSide) -> String {
    let unlike: BTreeSet<u64> = side.seeds.iter().copied().collect();
    let seeds: Vec<String> = unlike.iter().take(12).map(ToString::to_string).collect();
    let more = if unlike.len() > seeds.len() { ", …" } else { "" };
    let runs = counted(side.seeds.len() as u64, "run");
    format!(
        "{} ({runs}, {} {}{more})",
        side.folder.display(),
        if unlike.len() == 1 { "seed" } else { "seeds" },
        seeds.join(", ")
    )
}

/// All ratios in one figure, for a separate file.
pub(crate) fn figure(comparison: &Comparison) -> Figure {
    let rows: Vec<&ComparisonRow> =
        comparison.rows.iter().filter(|row| row.ratio.is_some_and(|over| over > 0.0)).collect();
    Figure {
        name: "compare".into(),
        title: format!("{}, against {}", comparison.b.name, comparison.a.name),
        caption: CAPTION.into(),
        sheet: forest(&rows),
    }
}

const CAPTION: &str = "Ratios B over A with 95 % confidence intervals. Blue: B is better; orange: worse; dark: \
                       more or less of what is neither; grey: the interval leaves it open, or there is none. In \
                       brackets: a guess of too few requests.";

fn figures(rows: &[&ComparisonRow]) -> Vec<Figure> {
    let figure = |group: &str| {
        let drawn =
            |row: &&ComparisonRow| self::group(&row.measure.kind) == group && row.ratio.is_some_and(|over| over > 0.0);
        let rows: Vec<&ComparisonRow> = rows.iter().copied().filter(drawn).collect();
        let title = format!("{group}: {}", finding(&rows));
        (!rows.is_empty()).then(|| Figure { name: group.into(), title, caption: CAPTION.into(), sheet: forest(&rows) })
    };
    ["Services", "Latency", "Rooms", "Traffic and load"].into_iter().filter_map(figure).collect()
}

const fn group(kind: &MeasureKind) -> &'static str {
    match kind {
        MeasureKind::Completed | MeasureKind::Success | MeasureKind::CompletedOf(_) => "Services",
        MeasureKind::Latency(..) | MeasureKind::MeanLatency(_) => "Latency",
        MeasureKind::Room(_) => "Rooms",
        _ => "Traffic and load",
    }
}

/// The finding of these rows: the first that is better or worse, or else the first that is more or less.
fn finding(rows: &[&ComparisonRow]) -> String {
    use ComparisonFinding::{Better, Less, More, Worse};
    let first = |kinds: [ComparisonFinding; 2]| rows.iter().find(|row| kinds.contains(&row.finding()));
    if let Some(first) = first([Better, Worse]).or_else(|| first([More, Less])) {
        return format!("{} {} × A", first.measure.name, first.ratio.map_or_else(String::new, ratio));
    }
    match rows.iter().filter(|row| row.interval.is_some()).count() {
        0 => "no ratio has an interval, so none can be told from chance".to_owned(),
        all if all == rows.len() => "no difference that chance could not make".to_owned(),
        _ => "where there is an interval, no difference that chance could not make".to_owned(),
    }
}

fn table(compared: &[&ComparisonRow]) -> Markup {
    let headings = ["measure", "A", "B", "B over A", "95 % interval", "<B is", "<interval from"];
    let rows = html! {
        @for row in compared.iter().filter(|row| row.a != 0.0 || row.b != 0.0) {
            tr {
                th scope="row" { (capital(&row.measure.name)) }
                td { (row.measure.show(row.a)) }
                td { (row.measure.show(row.b)) }
                td { (row.over_text()) }
                td { @if let Some(i) = row.interval { (ratio(i.low)) " – " (ratio(i.high)) } @else { "–" } }
                td class=(match row.finding() {
                    ComparisonFinding::Better => "good",
                    ComparisonFinding::Worse => "bad",
                    _ => "words",
                }) { (row.finding().word()) }
                td.words { (row.interval.map_or("", |interval| interval.method.word())) }
            }
        }
    };
    super::table(&headings, &rows)
}

fn differences(comparison: &Comparison) -> Markup {
    html! {
        h2 { "What the sides differ in" }
        @if comparison.differences.is_empty() {
            p.lead { "Nothing but the seed, as far as the plans say." }
        } @else {
            (super::table(&["setting", "<A", "<B"], &html! {
                @for one in &comparison.differences {
                    tr {
                        th scope="row" { (one.setting) }
                        @for value in [&one.a, &one.b] { td.words { (value.as_deref().unwrap_or("not set")) } }
                    }
                }
            }))
        }
    }
}

fn methods(comparison: &Comparison) -> Markup {
    let used: BTreeSet<&str> =
        comparison.rows.iter().filter_map(|row| row.interval).map(|i| i.method.sentence()).collect();
    html! {
        h2 { "Where the intervals are from" }
        div.terms {
            @for sentence in used { p { (sentence) } }
            @if comparison.rows.iter().any(|row| row.measure.few) { p { (FEW) } }
            p {
                "An interval that leaves 1 out is called a difference; of twenty such intervals without any difference \
                 one does so by chance. Values of several runs are geometric means, as ratios are of them."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use roost_statistics::{Method, RatioInterval};

    use super::*;
    use crate::measure::{Measure, MeasureDirection, MeasureUnit};

    fn row(ratio: f64, interval: Option<[f64; 2]>, better: MeasureDirection) -> ComparisonRow {
        let (kind, name) = (MeasureKind::Overhead, "overhead per service".to_owned());
        let measure = Measure { kind, name, unit: MeasureUnit::Bytes, better, few: false };
        let interval = interval.map(|[low, high]| RatioInterval { ratio, low, high, method: Method::Welch });
        ComparisonRow { cell: String::new(), measure, a: 1.0, b: ratio, ratio: Some(ratio), interval }
    }

    #[test]
    fn title_claims_no_unmade_test() {
        let lower = MeasureDirection::Lower;
        let (none, open) = (row(1.31, None, lower), row(1.31, Some([0.9, 1.9]), lower));
        assert!(finding(&[&none]).starts_with("no ratio has an interval"));
        assert_eq!(finding(&[&open]), "no difference that chance could not make");
        assert!(finding(&[&none, &open]).starts_with("where there is an interval"));
        let more = row(1.31, Some([1.2, 1.4]), MeasureDirection::Neither);
        assert_eq!(finding(&[&none, &more]), "overhead per service 1.31 × A");
    }

    #[test]
    fn ratio_of_few_has_brackets() {
        let sure = row(0.5, None, MeasureDirection::Lower);
        let guess = ComparisonRow { measure: Measure { few: true, ..sure.measure.clone() }, ..sure.clone() };
        let text = figures(&[&sure, &guess]).remove(0).sheet.inline("x").0;
        assert!(text.contains("(0.500)") && text.matches("0.500").count() == 2, "{text}");
    }
}
