//! The page of several runs.

use std::collections::BTreeSet;
use std::path::Path;

use maud::{Markup, html};

use super::{Page, gallery, notice, row, table, terms};
use crate::measure::{Measure, MeasureKind, MeasuredFigure};
use crate::sweep::{Factor, FactorEffect, Level, Overview, RunSummary, SeedGroup, SweepFigures, SweepOrigin, union};
use crate::text_format::{capital, counted, seconds};

/// A longer list of runs is folded.
const OPEN: usize = 20;

/// The page of all runs under `folder`.
pub(crate) fn of_sweep(
    folder: &Path,
    points: &[RunSummary],
    overview: &Overview<'_>,
    figures: &SweepFigures,
    remarks: &[String],
) -> String {
    let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = name.file_name().map_or_else(|| "runs".to_owned(), |name| name.to_string_lossy().into_owned());
    let (seen, footer) = (seen(points, overview, figures), footer(overview));
    let page = Page {
        title: &format!("{name} · Roost"),
        is_untrusted: overview.is_untrusted,
        header: html! {
            p.kind { "Roost: runs of " (how(points)) " networks, side by side" }
            h1 { (name) }
            p.lead { (lead(points, overview)) }
            (verdict(overview))
            @if !overview.warnings.is_empty() {
                (notice("doubt", "Before believing a mean:", "", &overview.warnings))
            }
            @if !remarks.is_empty() {
                (notice("doubt", "Not all was as it should be in the files:", "", remarks))
            }
        },
        main: html! { (seen) (terms::occurring(&[&seen, &footer])) },
        footer,
    };
    page.document()
}

/// The figures and tables of all runs, and the list of the runs.
fn seen(points: &[RunSummary], overview: &Overview<'_>, figures: &SweepFigures) -> Markup {
    let is_only = |family: &str| overview.cells.iter().all(|cell| cell.family == family);
    html! {
            @if !figures.effects.is_empty() {
                h2 { "The effect of each factor" }
                (gallery(&figures.effects))
                (effects(overview))
            }
            @for (family, figures) in &figures.families {
                h2 { (if is_only(family) { "What was seen".to_owned() } else { capital(family) }) }
                (gallery(figures))
                (means(overview, family))
            }
            (left_out(overview))
            (origin(&figures.origin))
            (list(points))
    }
}

fn footer(overview: &Overview<'_>) -> Markup {
    html! {
            "Beside this page: every figure of every run in " a href="runs.csv" { "runs.csv" }
            ", means and intervals in " a href="cells.csv" { "cells.csv" }
            @if !overview.axes.factors().is_empty() {
                ", the effect of each factor in " a href="effects.csv" { "effects.csv" }
            }
            ", and each figure as SVG in " a href="figures/" { "figures/" } "."
            p { "Written from the runs' records alone; emulate report writes it again." }
    }
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

fn verdict(overview: &Overview<'_>) -> Markup {
    let reasons = |points: &mut dyn Iterator<Item = &RunSummary>| -> Vec<String> {
        points.map(|point| format!("{}: {}", point.folder.display(), point.unusable().join(" "))).collect()
    };
    if overview.is_untrusted {
        let shown = reasons(&mut overview.cells.iter().flat_map(|cell| cell.points.iter().copied()));
        notice("bad", "These figures cannot be trusted.", "None of the runs is valid and whole:", &shown)
    } else if overview.left_out.is_empty() {
        let real = overview.cells.iter().flat_map(|cell| &cell.points).any(|point| !point.run.is_simulated());
        let said = if real { "The emulation kept up in all runs." } else { "All runs were simulated, and are sound." };
        notice("", said, "", &[])
    } else {
        let out = reasons(&mut overview.left_out.iter().copied());
        let rest = format!(
            "{} in no mean and no figure, and shown apart below:",
            match out.len() {
                1 => "1 run is".to_owned(),
                count => format!("{count} runs are"),
            }
        );
        notice("doubt", "Some runs cannot be trusted.", &rest, &out)
    }
}

/// Lists the figures of runs that are in no mean.
fn left_out(overview: &Overview<'_>) -> Markup {
    if overview.left_out.is_empty() {
        return Markup::default();
    }
    let mut shown = union(overview.left_out.iter().copied());
    shown.retain(|measure| in_table(&measure.kind));
    let headings: Vec<&str> =
        ["", "<why"].into_iter().chain(shown.iter().map(|measure| measure.name.as_str())).collect();
    let value = |point: &RunSummary, measure: &Measure| {
        let found = point.measures.iter().find(|(one, _)| one.kind == measure.kind);
        found.map_or_else(|| "–".to_owned(), |(one, value)| one.show(*value))
    };
    html! {
        h2 { "Left out of all means" }
        (table(&headings, &html! {
            @for point in &overview.left_out {
                tr.out {
                    th scope="row" { (point.folder.display()) }
                    td.words { (point.unusable().join(" ")) }
                    @for measure in &shown { td { (value(point, measure)) } }
                }
            }
        }))
    }
}

/// True for the measures of the table; latencies are medians.
fn in_table(kind: &MeasureKind) -> bool {
    match kind {
        MeasureKind::Completed
        | MeasureKind::Success
        | MeasureKind::Ports
        | MeasureKind::PortsEach
        | MeasureKind::OfferedEach
        | MeasureKind::Overhead
        | MeasureKind::Room(_) => true,
        MeasureKind::Latency(_, thousandths) | MeasureKind::Measured(_, MeasuredFigure::Quantile(thousandths)) => {
            *thousandths == 500
        }
        MeasureKind::Measured(_, figure) => *figure != MeasuredFigure::Mean,
        _ => false,
    }
}

/// The means at each value of each factor, over all others.
fn effects(overview: &Overview<'_>) -> Markup {
    let mut shown = union(overview.cells.iter().flat_map(|cell| cell.points.iter().copied()));
    shown.retain(|measure| in_table(&measure.kind));
    let levels =
        || overview.axes.factors().iter().flat_map(|factor| factor.levels.iter().map(move |level| (factor, level)));
    let names = levels().map(|(factor, level)| factor.spoken(level));
    let headings: Vec<String> = [String::new()].into_iter().chain(names).collect();
    let mean = |effects: &[FactorEffect<'_>], factor: &Factor, level: &Level| {
        let effect = effects.iter().find(|effect| effect.factor.key == factor.key);
        let one = effect.and_then(|effect| effect.levels.iter().find(|one| one.level == level));
        one.map_or_else(|| "–".to_owned(), |one| one.mean.mean_text())
    };
    html! {
        div.effects {
        (table(&headings, &html! {
            @for measure in &shown {
                @let effects = overview.effects(measure);
                (row("", &capital(&measure.name), levels().map(|(factor, level)| mean(&effects, factor, level))))
            }
        }))
        }
        p.lead {
            "Each column is a mean over all values of the other factors, with the half-width of its 95 % interval over the \
             seeds. Only combinations count that have all values of the factor."
        }
    }
}

fn means(overview: &Overview<'_>, family: &str) -> Markup {
    let cells: Vec<&SeedGroup<'_>> = overview.cells.iter().filter(|cell| cell.family == family).collect();
    let mut shown = union(cells.iter().flat_map(|cell| cell.points.iter().copied()));
    shown.retain(|measure| in_table(&measure.kind));
    let names = shown.iter().map(|measure| measure.name.as_str());
    let (factors, x_title) = (overview.axes.factors(), overview.axes.x_title());
    let own: Vec<&str> = match factors {
        [] => vec!["", x_title.as_str()],
        factors => factors.iter().map(|factor| factor.title.as_str()).collect(),
    };
    let headings: Vec<&str> = own.into_iter().chain(["runs"]).chain(names).collect();
    let place = |cell: &SeedGroup<'_>| -> Vec<String> {
        let level = |factor: &Factor| factor.level(cell.points[0]).map(|level| factor.value_text(level));
        match factors {
            [] => vec![cell.series.clone(), cell.x.name.clone()],
            factors => factors.iter().map(|factor| level(factor).unwrap_or_default()).collect(),
        }
    };
    let values = |cell: &SeedGroup<'_>, place: &[String]| {
        let value = |measure: &Measure| cell.mean(measure).map_or_else(|| "–".to_owned(), |mean| mean.mean_text());
        let rest = place.iter().skip(1).cloned().chain([cell.points.len().to_string()]);
        rest.chain(shown.iter().map(value)).collect::<Vec<_>>()
    };
    table(
        &headings,
        &html! {
            @for cell in cells {
                @let place = place(cell);
                (row("", &place[0], values(cell, &place)))
            }
        },
    )
}

/// The networks and the plan that the factors change.
fn origin(origin: &SweepOrigin) -> Markup {
    html! {
        @if !origin.networks.is_empty() || origin.plan.is_some() {
            h2 { "What was run" }
            (gallery(&origin.networks))
            @if let Some((folder, plan)) = &origin.plan {
                div.card {
                    p { "The plan of the first run, " (folder.display()) ". The others differ in the factors and the seed; \
                         the page of each has its own plan, and the command that repeats it." }
                    details { summary { "Its plan" } pre { (plan) } }
                }
            }
        }
    }
}

/// Lists all runs, each with a link to its own page.
fn list(points: &[RunSummary]) -> Markup {
    let link = |path: &str| if path.is_empty() { String::new() } else { format!("./{}/", address(path)) };
    let note = |point: &RunSummary| match (point.run.verdict.valid, point.run.interrupted) {
        (false, _) => ", not valid",
        (true, true) => ", stopped early",
        (true, false) => "",
    };
    html! {
        h2 { "The runs" }
        details open[points.len() <= OPEN] {
            summary { (counted(points.len() as u64, "run")) }
            div.card {
                ul.runs {
                    @for point in points {
                        @let path = point.folder.to_string_lossy();
                        li {
                            a href={ (link(&path)) "index.html" } { (path) }
                            " " span { (point.run.name) ", seed " (point.run.seed) (note(point)) }
                        }
                    }
                }
            }
        }
    }
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
