//! The page of a comparison.

use std::collections::BTreeSet;

use super::{FEW, Page, Rows};
use crate::compare::{Comparison, ComparisonFinding, ComparisonRow, ComparisonSide};
use crate::figure::{Figure, forest};
use crate::measure::MeasureKind;
use crate::text_format::{capital, counted, ratio};

pub(crate) fn of_comparison(comparison: &Comparison) -> String {
    let mut page = Page::default();
    let (a, b) = (&comparison.a.name, &comparison.b.name);
    page.markup("<header>");
    page.element("p", "kind", "Roost: two sides compared");
    page.element("h1", "", &format!("{b}, against {a}"));
    page.element("p", "lead", &format!("A: {} · B: {}", side(&comparison.a), side(&comparison.b)));
    if !comparison.distrust_reasons.is_empty() {
        page.notice("bad", "These figures cannot be trusted.", "Runs are not valid:", &comparison.distrust_reasons);
    }
    if !comparison.warnings.is_empty() {
        page.notice("doubt", "Before believing a ratio:", "", &comparison.warnings);
    }
    page.markup("</header>\n<main>");
    for (name, rows) in comparison.cells() {
        let title = if name.is_empty() { "B over A".to_owned() } else { format!("B over A: {name}") };
        page.element("h2", "", &title);
        page.figures(&figures(&rows));
        table(&mut page, &rows);
    }
    differences(&mut page, comparison);
    methods(&mut page, comparison);
    page.markup("</main>\n<footer>");
    page.element("p", "", "Written by emulate compare from the records alone.");
    page.markup("</footer>");
    page.document(
        &format!("{b}, against {a} · Roost"),
        if comparison.distrust_reasons.is_empty() { "" } else { "untrusted" },
    )
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
                       more or less of what is neither; grey: the interval leaves it open, or there is none.";

fn figures(rows: &[&ComparisonRow]) -> Vec<Figure> {
    let figure = |group: &str| {
        let drawn =
            |row: &&ComparisonRow| self::group(&row.measure.kind) == group && row.ratio.is_some_and(|over| over > 0.0);
        let rows: Vec<&ComparisonRow> = rows.iter().copied().filter(drawn).collect();
        let title = format!("{group}: {}", finding(&rows));
        (!rows.is_empty()).then(|| Figure { name: group.into(), title, caption: CAPTION.into(), sheet: forest(&rows) })
    };
    ["Services", "Latency", "Traffic and load"].into_iter().filter_map(figure).collect()
}

const fn group(kind: &MeasureKind) -> &'static str {
    match kind {
        MeasureKind::Completed | MeasureKind::Success | MeasureKind::CompletedOf(_) => "Services",
        MeasureKind::Latency(..) | MeasureKind::MeanLatency(_) => "Latency",
        _ => "Traffic and load",
    }
}

/// The finding of these rows: the first that is conclusive.
fn finding(rows: &[&ComparisonRow]) -> String {
    let sure = |row: &&&ComparisonRow| matches!(row.finding(), ComparisonFinding::Better | ComparisonFinding::Worse);
    let Some(first) = rows.iter().find(sure) else { return "no difference that chance could not make".to_owned() };
    let times = first.ratio.map_or_else(String::new, ratio);
    format!("{} {times} × A", first.measure.name)
}

fn table(page: &mut Page, compared: &[&ComparisonRow]) {
    let mut rows = Rows::new(&["measure", "A", "B", "B over A", "95 % interval", "<B is", "<interval from"]);
    for row in compared.iter().filter(|row| row.a != 0.0 || row.b != 0.0) {
        let interval = row.interval.map_or_else(|| "–".to_owned(), |i| format!("{} – {}", ratio(i.low), ratio(i.high)));
        let mark = match row.finding() {
            ComparisonFinding::Better => "+",
            ComparisonFinding::Worse => "!",
            _ => "<",
        };
        let cells = [
            row.measure.show(row.a),
            row.measure.show(row.b),
            row.ratio.map_or_else(|| "–".to_owned(), ratio),
            interval,
            format!("{mark}{}", row.finding().word()),
            format!("<{}", row.interval.map_or("", |interval| interval.method.word())),
        ];
        rows.row("", &capital(&row.measure.name), cells.iter().map(String::as_str));
    }
    page.markup(rows.end());
}

fn differences(page: &mut Page, comparison: &Comparison) {
    page.element("h2", "", "What the sides differ in");
    if comparison.differences.is_empty() {
        page.element("p", "lead", "Nothing but the seed, as far as the plans say.");
        return;
    }
    let mut rows = Rows::new(&["setting", "<A", "<B"]);
    for one in &comparison.differences {
        let text = |value: &Option<String>| format!("<{}", value.as_deref().unwrap_or("not set"));
        rows.row("", &one.setting, [text(&one.a), text(&one.b)].iter().map(String::as_str));
    }
    page.markup(rows.end());
}

fn methods(page: &mut Page, comparison: &Comparison) {
    let used: BTreeSet<&str> =
        comparison.rows.iter().filter_map(|row| row.interval).map(|i| i.method.sentence()).collect();
    page.element("h2", "", "Where the intervals are from");
    page.markup("<div class=\"terms\">");
    for sentence in used {
        page.element("p", "", sentence);
    }
    if comparison.rows.iter().any(|row| row.measure.few) {
        page.element("p", "", FEW);
    }
    page.element(
        "p",
        "",
        "An interval that leaves 1 out is called a difference; of twenty such intervals without any difference one \
         does so by chance. Values of several runs are geometric means, as ratios are of them.",
    );
    page.markup("</div>");
}
