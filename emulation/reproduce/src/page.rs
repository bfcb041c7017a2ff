//! The page for reviewers, with every figure beside the paper's, as HTML, as JSON and as single figures.

mod figures;

use std::collections::BTreeSet;

use maud::{Markup, html};
use roost_report::page::{Page, gallery, notice, number, row, table};
use roost_report::text_format::counted;
use roost_statistics::mean_and_half_width;
use serde_json::json;

use self::figures::figures;
use super::claim::{MeasureKey, StudyValues};
use super::nearest::NearestToBound;
use super::repetition::Repetition;
use super::study::{Study, StudyPoint, StudyScale, StudyUnit};
use super::verdict::{Amount, ClaimKind, ClaimTally, ClaimVerdict, Judgement};
use super::{Store, StoreError, StoredRun, StudyResults, StudyRun, WrittenReproduction, catalogue, software};

const SCHEMA: u32 = 2;

/// Judges all claims by the runs, and writes the page, `claims.json` and the figures into the folder of the
/// runs.
///
/// # Errors
/// Fails when a file cannot be written.
pub fn write(
    studies: &[Study],
    runs: &[StudyRun],
    scale: StudyScale,
    store: &Store,
) -> Result<WrittenReproduction, StoreError> {
    let all: Vec<StudyResults<'_>> = (0..studies.len()).map(|index| StudyResults::new(studies, index, runs)).collect();
    let judged: Vec<Vec<Judgement>> = all.iter().map(StudyResults::judgements).collect();
    for found in &all {
        for figure in figures(*found, &[]) {
            store.put(&format!("figures/{}.svg", figure.name), &figure.sheet.standing(&figure.title))?;
        }
    }
    let judgements: Vec<Judgement> = judged.iter().flatten().cloned().collect();
    let claims = json!({ "schema": SCHEMA, "quick": scale.is_quick, "counts": ClaimTally::from_judgements(&judgements), "claims": judgements });
    store.put("claims.json", &format!("{claims:#}\n"))?;
    let page = store.put("index.html", &document(&all, &judged, runs, scale))?;
    let invalid = runs.iter().filter(|run| !run.kept.valid).count();
    Ok(WrittenReproduction { page, judgements, invalid })
}

fn document(all: &[StudyResults<'_>], judged: &[Vec<Judgement>], runs: &[StudyRun], scale: StudyScale) -> String {
    let mut paper = None;
    let mut is_first_of = |study: &Study| paper.replace(study.paper) != Some(study.paper);
    let page = Page {
        title: "The papers reproduced · Roost",
        is_untrusted: false,
        header: html! {
            p.kind { "Roost: published experiments, made again" }
            h1 { "What the papers found, and what is found here" }
            p.lead { (lead(all, runs, scale)) }
            @if let Some(rest) = rest(all, scale) { p { (rest) } }
            dl.numbers { (numbers(judged, runs)) }
            (validity(all, runs))
        },
        main: html! {
            (summary(judged))
            (terms(all))
            @for (found, judged) in all.iter().zip(judged) {
                @if is_first_of(found.study) { h2.paper { (found.study.paper.title()) } }
                (study(*found, judged, scale))
            }
        },
        footer: html! {
            p {
                "Beside this page: claims.json, each figure as SVG in figures/, and under runs/ the plan and what is \
                 kept of every run. Written by emulate reproduce, which goes on with what is missing."
            }
        },
    };
    page.document()
}

fn lead(all: &[StudyResults<'_>], runs: &[StudyRun], scale: StudyScale) -> String {
    let which = if scale.is_quick { "Quick: shorter runs, fewer seeds and places than published. " } else { "" };
    let is_real = |found: &StudyResults<'_>| found.study.points.iter().any(|point| point.make.is_real_time());
    let in_real_time = all.iter().filter(|found| is_real(found)).count();
    let real = match in_real_time {
        0 => String::new(),
        1 => " 1 study is measured in real time on this machine.".to_owned(),
        count => format!(" {count} studies are measured in real time on this machine."),
    };
    format!(
        "{which}{} in {}. In virtual time the product's state machines run over an exact model of the network, and \
         whoever runs them again gets the same figures to the last digit.{}",
        counted(runs.len() as u64, "run"),
        studies(all.len()),
        real
    )
}

/// Lists the studies that are missing on the page, with the commands that add them.
fn rest(all: &[StudyResults<'_>], scale: StudyScale) -> Option<String> {
    let shown = |id: &str| all.iter().find(|found| found.study.id == id).map_or(0, |found| found.study.points.len());
    let lacks: Vec<&str> =
        catalogue(scale).iter().filter(|study| shown(study.id) < study.points.len()).map(|study| study.id).collect();
    let quick = if scale.is_quick { " --quick" } else { "" };
    let all = format!("emulate reproduce{quick} makes all that is missing.");
    (!lacks.is_empty()).then(|| format!("Not on this page, or only in part: {}. {all}", lacks.join(", ")))
}

fn studies(count: usize) -> String {
    if count == 1 { "1 study".to_owned() } else { format!("{count} studies") }
}

fn numbers(judged: &[Vec<Judgement>], runs: &[StudyRun]) -> Markup {
    let tally = ClaimTally::from_judgements(judged.iter().flatten());
    let all = format!(
        "of {}: the paper's lies in the interval that is measured, and that is no wider than half of it",
        counted(tally.figures as u64, "figure")
    );
    let ClaimTally { better, worse, other, unsure, .. } = tally;
    let hold = (better + worse + other + unsure).to_string();
    let others = format!("by another amount: {better} better, {worse} worse, {other} neither, {unsure} perhaps equal");
    let said = format!("of {} without a figure, which hold", counted(tally.directions as u64, "statement"));
    let aims = format!("of {} that no paper has, which are met", counted(tally.ours as u64, "aim"));
    let valid = runs.iter().filter(|run| run.kept.valid).count().to_string();
    html! {
        @if tally.figures > 0 {
            (number("equal", &tally.equal.to_string(), &all))
            (number("hold", &hold, &others))
            (number("do not hold", &tally.figures_not.to_string(), "of the figures; what is left is open"))
        }
        @if tally.directions > 0 { (number("statements", &tally.hold.to_string(), &said)) }
        @if tally.ours > 0 { (number("our own", &tally.met.to_string(), &aims)) }
        (number("valid runs", &valid, &format!("of {}; others are in no mean", runs.len())))
    }
}

fn validity(all: &[StudyResults<'_>], runs: &[StudyRun]) -> Markup {
    let invalid = all.iter().flat_map(|found| found.runs().map(|run| (found.study, run)));
    let reasons: Vec<String> = invalid
        .filter(|(_, run)| !run.kept.valid)
        .map(|(study, run)| format!("{}: {}", name(study, run), run.kept.reasons.join(" ")))
        .collect();
    let programs: BTreeSet<&str> = runs.iter().map(|run| run.kept.programs.as_str()).collect();
    let daemons: BTreeSet<&str> =
        runs.iter().map(|run| run.kept.daemons.as_str()).filter(|it| !it.is_empty()).collect();
    let rest = "They were made by different builds of the programs, as --any-build allows.";
    html! {
        @if !reasons.is_empty() {
            (notice("doubt", "Some runs are not valid, and are in no mean and no figure:", "", &reasons))
        }
        @if programs.len() > 1 || daemons.len() > 1 {
            (notice("doubt", "Not all runs stand on the same ground.", rest, &[]))
        }
    }
}

fn name(study: &Study, run: &StudyRun) -> String {
    format!("{}/{}, seed {}", study.id, study.points[run.point].folder(), run.seed)
}

/// The kinds of claims: the heading of each, and those of its table's columns.
const TABLES: [(ClaimKind, &str, [&str; 3]); 3] = [
    (ClaimKind::Figure, "Every figure of the papers", ["<what the paper says", "<its figure", "<so it is"]),
    (ClaimKind::Direction, "What the papers say without a figure", ["<what the paper says", "<in a word", "<so it is"]),
    (ClaimKind::Ours, "Our own aims, which no paper has", ["<aim", "<at least or at most", "<it is"]),
];

/// All claims, one for each row, in a table for each kind.
fn summary(judged: &[Vec<Judgement>]) -> Markup {
    let of = |kind: ClaimKind| judged.iter().flatten().filter(move |one| one.kind == kind);
    let class = |one: &Judgement| match (one.verdict, one.amount) {
        (ClaimVerdict::Holds, Some(Amount::Worse | Amount::Unsure)) | (ClaimVerdict::Open, _) => "words",
        (ClaimVerdict::Equal | ClaimVerdict::Holds, _) => "good",
        (ClaimVerdict::DoesNotHold, _) => "bad",
    };
    let rows = |kind: ClaimKind| {
        html! {
            @for one in of(kind) {
                tr.claim {
                    th scope="row" { (one.figure) }
                    td.words { (one.claim) }
                    td.words { (one.paper) }
                    td.words { (one.ours_and_interval()) }
                    td class=(class(one)) { (one.words()) }
                }
            }
        }
    };
    html! {
        @for (kind, title, [claim, says, verdict]) in TABLES.into_iter().filter(|(kind, ..)| of(*kind).next().is_some()) {
            h2 { (title) }
            (table(&["", claim, says, "<here, with the 95 % interval", verdict], &rows(kind)))
        }
    }
}

fn terms(all: &[StudyResults<'_>]) -> Markup {
    html! {
        div.terms {
            p {
                "Intervals are of 95 % over seeds: Student's t of the mean, and of a ratio over the log ratios of runs \
                 with the same seed. Of a part of requests they are Wilson's, over the requests of all seeds together, \
                 so that 99 of 100 take 381 requests of which none fails. They cover what chance does to the workload, \
                 not what the model leaves out."
            }
            p {
                "The limit in figures is what distance and rates alone leave: from the requester to its super node, \
                 from there to the provider, and from there back, with packets of the real sizes, and nothing in their \
                 way. Who finds the provider without a super node may be below it."
            }
            @if let Some(nearest) = NearestToBound::from_studies(all) { p { (nearest.sentence()) } }
        }
    }
}

fn study(found: StudyResults<'_>, judged: &[Judgement], scale: StudyScale) -> Markup {
    let study = found.study;
    let mut of: Vec<&str> = study.plots.iter().map(|plot| plot.figure).filter(|figure| !figure.is_empty()).collect();
    of.dedup();
    let of = match of.as_slice() {
        [first, .., last] => format!(" ({first} to {})", last.trim_start_matches("Fig. ").trim_start_matches("Table ")),
        [only] => format!(" ({only})"),
        [] => String::new(),
    };
    html! {
        h2 { (study.title) (of) }
        p { (study.about) }
        @if !study.inferred.is_empty() {
            details.told {
                summary { "What the text does not say and was filled in" }
                ul { @for sentence in &study.inferred { li { (sentence) } } }
            }
        }
        (gallery(&figures(found, judged)))
        (verdicts(judged))
        (numbers_of(found))
        // This fails only if a published network cannot be made, and then runs would have failed before.
        @if study.id == "sproull-tree" && let Ok(fit) = software::fit() { (software::section(&fit)) }
        (runs(found, scale))
    }
}

/// The verdicts on the claims, failures first.
fn verdicts(judged: &[Judgement]) -> Markup {
    let is = |kind: fn(&Judgement) -> bool| kind;
    let kinds = [
        (is(|one| one.kind != ClaimKind::Ours && one.verdict == ClaimVerdict::DoesNotHold), "bad", "Does not hold"),
        (
            is(|one| one.kind == ClaimKind::Ours && one.verdict == ClaimVerdict::DoesNotHold),
            "bad",
            "Our own aims, not met",
        ),
        (is(|one| one.amount == Some(Amount::Worse)), "doubt", "Holds, by a worse amount"),
        (is(|one| one.verdict == ClaimVerdict::Open), "doubt", "Open"),
        (is(|one| one.amount == Some(Amount::Better)), "", "Holds, by a better amount"),
        (
            is(|one| one.amount == Some(Amount::Unsure)),
            "doubt",
            "Holds, perhaps equal: runs differ by more than the claim",
        ),
        (is(|one| one.amount == Some(Amount::Other)), "", "Holds, by another amount"),
        (is(|one| one.verdict == ClaimVerdict::Equal), "", "Equal"),
        (
            is(|one| one.kind == ClaimKind::Direction && one.verdict == ClaimVerdict::Holds),
            "",
            "Holds; the paper has no figure",
        ),
        (is(|one| one.kind == ClaimKind::Ours && one.verdict == ClaimVerdict::Holds), "", "Our own aims, met"),
    ];
    let told = |is_it: fn(&Judgement) -> bool| -> Vec<String> {
        let of = judged.iter().filter(|one| is_it(one));
        of.map(|one| format!("{} ({}): {} {}", one.figure, one.id, one.claim, one.why)).collect()
    };
    html! {
        @for (is_it, class, title) in kinds {
            @let told = told(is_it);
            @if !told.is_empty() { (notice(class, title, "", &told)) }
        }
    }
}

/// The values at each position of each line.
fn numbers_of(found: StudyResults<'_>) -> Markup {
    let study = found.study;
    let has = |measure: &(&str, StudyUnit)| study.points.iter().any(|point| found.mean(point, measure.0).is_some());
    let also = ALSO.map(|(measure, unit, _)| (measure, unit));
    let drawn: Vec<(&str, StudyUnit)> = study.plots.iter().map(|plot| (plot.measure, plot.unit)).collect();
    let also = also.into_iter().filter(|one| !drawn.contains(one));
    let shown: Vec<(&str, StudyUnit)> = drawn.iter().copied().chain(also).filter(has).collect();
    let headings = shown.iter().map(|(measure, _)| heading(measure, study));
    let headings: Vec<String> = ["", study.axis, "runs"].map(str::to_owned).into_iter().chain(headings).collect();
    let cells = |point: &StudyPoint| {
        let value = |(measure, unit): &(&str, StudyUnit)| match found.mean(point, measure) {
            Some((mean, Some(half))) => unit.around(mean, half),
            Some((mean, None)) => unit.show(mean),
            None => "–".to_owned(),
        };
        let runs = found.runs().filter(|run| std::ptr::eq(&study.points[run.point], point) && run.kept.valid).count();
        [point.name.clone(), runs.to_string()].into_iter().chain(shown.iter().map(value)).collect::<Vec<_>>()
    };
    let rows = html! { @for point in &study.points { (row("", &point.series, cells(point))) } };
    html! { details open { summary { "The figures in numbers" } (table(&headings, &rows)) } }
}

/// Measures that tables show in addition to the plots.
const ALSO: [(&str, StudyUnit, &str); 7] = [
    ("first_contacts", StudyUnit::Part, "first contacts"),
    ("overhead.each", StudyUnit::Bytes, "overhead a service"),
    ("track.excess.p95", StudyUnit::Times, "warm first byte of a track over its limit, p95"),
    ("printed", StudyUnit::Count, "Table 3, as printed"),
    ("printed_receive_only", StudyUnit::Count, "Table 2, as printed"),
    ("counted", StudyUnit::Count, "equation (4)"),
    ("balanced", StudyUnit::Count, "shared evenly"),
];

fn heading(measure: &str, study: &Study) -> String {
    let drawn = study.plots.iter().find(|plot| plot.measure == measure).map(|plot| plot.title);
    let also = ALSO.iter().find(|(name, ..)| *name == measure).map(|(.., heading)| *heading);
    drawn.or(also).unwrap_or(measure).to_owned()
}

/// All runs, and the command that repeats one, or the study if none does.
fn runs(found: StudyResults<'_>, scale: StudyScale) -> Markup {
    let study = found.study;
    let Some(first) = found.runs().next() else { return Markup::default() };
    let (all, invalid) = (found.runs().count(), found.runs().filter(|run| !run.kept.valid).count());
    let valid = if invalid == 0 { "all valid".to_owned() } else { format!("{invalid} not valid") };
    let again = Repetition::new(study, &study.points[first.point], first.seed, scale);
    let verdict = |kept: &StoredRun| match kept.lacks.as_slice() {
        _ if !kept.valid => kept.reasons.join(" "),
        [] => "valid".to_owned(),
        lacks => format!("valid, without what could not be measured: {}", lacks.join("; ")),
    };
    let rows = html! {
        @for run in found.runs() {
            tr {
                th scope="row" { (study.points[run.point].folder()) }
                td { (run.seed) }
                td.words { (run.kept.trace_hash.as_deref().unwrap_or("–")) }
                td class=(if run.kept.valid { "words" } else { "bad" }) { (verdict(&run.kept)) }
            }
        }
    };
    html! {
        details {
            summary { (counted(all as u64, "run")) ", " (valid) ", and how to repeat " (again.subject) }
            pre { (again.command) }
            (table(&["run", "seed", "<trace", "<verdict"], &rows))
        }
    }
}

impl StudyResults<'_> {
    /// The mean over a point's valid runs, and the half-width of its interval.
    pub(super) fn mean(self, point: &StudyPoint, measure: &str) -> Option<(f64, Option<f64>)> {
        let values: Vec<f64> = self.at(&MeasureKey::new(&point.series, point.x, measure)).into_values().collect();
        mean_and_half_width(&values)
    }
}
