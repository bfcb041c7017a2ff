//! The page of several runs.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Page, Rows};
use crate::figure::Figure;
use crate::measure::{Measure, MeasureKind};
use crate::sweep::{Overview, RunSummary, SeedGroup, union};
use crate::text_format::{capital, counted, escape, seconds};

/// A longer list of runs is folded.
const OPEN: usize = 20;

/// The page of all runs under `folder`.
pub(crate) fn of_sweep(
    folder: &Path,
    points: &[RunSummary],
    overview: &Overview<'_>,
    figures: &[(String, Vec<Figure>)],
    remarks: &[String],
) -> String {
    let mut page = Page::default();
    let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = name.file_name().map_or_else(|| "runs".to_owned(), |name| name.to_string_lossy().into_owned());
    page.markup("<header>");
    page.element("p", "kind", &format!("Roost: runs of {} networks, side by side", how(points)));
    page.element("h1", "", &name);
    page.element("p", "lead", &lead(points, overview));
    verdict(&mut page, overview);
    if !overview.warnings.is_empty() {
        page.notice("doubt", "Before believing a mean:", "", &overview.warnings);
    }
    if !remarks.is_empty() {
        page.notice("doubt", "Not all was as it should be in the files:", "", remarks);
    }
    page.markup("</header>\n<main>");
    for (family, figures) in figures {
        let title = if overview.cells.iter().any(|cell| cell.family != *family) {
            capital(family)
        } else {
            "What was seen".into()
        };
        page.element("h2", "", &title);
        page.figures(figures);
        table(&mut page, overview, family);
    }
    left_out(&mut page, overview);
    list(&mut page, points);
    page.markup("</main>\n<footer>");
    page.markup(
        "Beside this page: every figure of every run in <a href=\"runs.csv\">runs.csv</a>, means and intervals in \
         <a href=\"cells.csv\">cells.csv</a>, and each figure as SVG in <a href=\"figures/\">figures/</a>.",
    );
    page.element("p", "", "Written from the runs' records alone; emulate report writes it again.");
    page.markup("</footer>");
    page.document(&format!("{name} · Roost"), if overview.is_untrusted { "untrusted" } else { "" })
}

fn lead(points: &[RunSummary], overview: &Overview<'_>) -> String {
    let seeds: BTreeSet<u64> = points.iter().map(|point| point.run.seed).collect();
    let ran: f64 = points.iter().map(|point| point.run.ran_s + point.run.drain_s).sum();
    format!(
        "{} in {}, {} · {} of {} time",
        counted(points.len() as u64, "run"),
        counted(overview.cells.len() as u64, "cell"),
        counted(seeds.len() as u64, "seed"),
        seconds(ran),
        how(points)
    )
}

/// The kind of these runs: emulated, simulated, or both.
fn how(points: &[RunSummary]) -> &'static str {
    let simulated = points.iter().filter(|point| point.run.is_simulated()).count();
    match simulated {
        0 => "emulated",
        all if all == points.len() => "simulated",
        _ => "emulated and simulated",
    }
}

fn verdict(page: &mut Page, overview: &Overview<'_>) {
    let reasons = |points: &mut dyn Iterator<Item = &RunSummary>| -> Vec<String> {
        points.map(|point| format!("{}: {}", point.folder.display(), point.unusable().join(" "))).collect()
    };
    if overview.is_untrusted {
        let shown = reasons(&mut overview.cells.iter().flat_map(|cell| cell.points.iter().copied()));
        page.notice("bad", "These figures cannot be trusted.", "None of the runs is valid and whole:", &shown);
    } else if overview.left_out.is_empty() {
        let real = overview.cells.iter().flat_map(|cell| &cell.points).any(|point| !point.run.is_simulated());
        let said = if real { "The emulation kept up in all runs." } else { "All runs were simulated, and are sound." };
        page.notice("", said, "", &[]);
    } else {
        let out = reasons(&mut overview.left_out.iter().copied());
        let rest = format!(
            "{} in no mean and no figure, and shown apart below:",
            match out.len() {
                1 => "1 run is".to_owned(),
                count => format!("{count} runs are"),
            }
        );
        page.notice("doubt", "Some runs cannot be trusted.", &rest, &out);
    }
}

/// Lists the figures of runs that are in no mean.
fn left_out(page: &mut Page, overview: &Overview<'_>) {
    if overview.left_out.is_empty() {
        return;
    }
    page.element("h2", "", "Left out of all means");
    let mut shown = union(overview.left_out.iter().copied());
    shown.retain(|measure| in_table(&measure.kind));
    let mut headings = vec!["", "<why"];
    headings.extend(shown.iter().map(|measure| measure.name.as_str()));
    let mut rows = Rows::new(&headings);
    for point in &overview.left_out {
        let value = |measure: &Measure| {
            let found = point.measures.iter().find(|(one, _)| one.kind == measure.kind);
            found.map_or_else(|| "–".to_owned(), |(one, value)| one.show(*value))
        };
        let texts = std::iter::once(format!("<{}", point.unusable().join(" "))).chain(shown.iter().map(value));
        rows.row("out", &point.folder.display().to_string(), texts.collect::<Vec<_>>().iter().map(String::as_str));
    }
    page.markup(rows.end());
}

/// True for the measures of the table; latencies are medians.
fn in_table(kind: &MeasureKind) -> bool {
    match kind {
        MeasureKind::Completed
        | MeasureKind::Success
        | MeasureKind::Ports
        | MeasureKind::PortsEach
        | MeasureKind::OfferedEach
        | MeasureKind::Overhead => true,
        MeasureKind::Latency(_, thousandths) => *thousandths == 500,
        _ => false,
    }
}

fn table(page: &mut Page, overview: &Overview<'_>, family: &str) {
    let cells: Vec<&SeedGroup<'_>> = overview.cells.iter().filter(|cell| cell.family == family).collect();
    let mut shown = union(cells.iter().flat_map(|cell| cell.points.iter().copied()));
    shown.retain(|measure| in_table(&measure.kind));
    let mut headings = vec!["", overview.axes.x_title.as_str(), "runs"];
    headings.extend(shown.iter().map(|measure| measure.name.as_str()));
    let mut rows = Rows::new(&headings);
    for cell in cells {
        let mut texts = vec![cell.x.name.clone(), cell.points.len().to_string()];
        let value = |measure: &Measure| cell.mean(measure).map_or_else(|| "–".to_owned(), |mean| mean.mean_text());
        texts.extend(shown.iter().map(value));
        rows.row("", &cell.series, texts.iter().map(String::as_str));
    }
    page.markup(rows.end());
}

/// Lists all runs, each with a link to its own page.
fn list(page: &mut Page, points: &[RunSummary]) {
    page.element("h2", "", "The runs");
    page.markup(format_args!("<details{}>", if points.len() <= OPEN { " open" } else { "" }));
    page.element("summary", "", &counted(points.len() as u64, "run"));
    page.markup("<div class=\"card\"><ul class=\"runs\">");
    for point in points {
        let path = point.folder.to_string_lossy();
        let note = match (point.run.verdict.valid, point.run.interrupted) {
            (false, _) => ", not valid",
            (true, true) => ", stopped early",
            (true, false) => "",
        };
        page.markup(format_args!(
            "<li><a href=\"{}index.html\">{}</a> <span>{}, seed {}{note}</span></li>",
            escape(&if path.is_empty() { String::new() } else { format!("./{}/", address(&path)) }),
            escape(&path),
            escape(&point.run.name),
            point.run.seed
        ));
    }
    page.markup("</ul></div></details>");
}

/// A path as part of a URL, with reserved characters percent-encoded.
fn address(path: &str) -> String {
    let mut address = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(byte))
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}
