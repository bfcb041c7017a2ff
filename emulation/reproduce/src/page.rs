//! The page for reviewers, with every figure beside the paper's, as HTML, as JSON and as single figures.

use std::collections::BTreeSet;

use roost_report::figure::{Figure, FigureBar, Ink, LineAxes, PlotLine, Sheet, bars, lines};
use roost_report::page::{Page, Rows};
use roost_report::text_format::{capital, counted};
use roost_statistics::mean_and_half_width;
use serde_json::json;

use super::claim::{MeasureKey, StudyValues};
use super::nearest::NearestToBound;
use super::study::{Plot, RunMethod, Study, StudyPoint, StudyScale, StudyUnit};
use super::verdict::{Amount, ClaimKind, ClaimTally, ClaimVerdict, Judgement};
use super::{Store, StoreError, StudyResults, StudyRun, WrittenReproduction, catalogue, software};

const SCHEMA: u32 = 2;

/// Judges all claims by the runs, and writes the page, `claims.json` and the figures into the folder of the
/// runs.
///
/// # Errors
/// When a file cannot be written.
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
    let mut page = Page::default();
    page.markup("<header>");
    page.element("p", "kind", "Roost: published experiments, made again");
    page.element("h1", "", "What the papers found, and what is found here");
    page.element("p", "lead", &lead(all, runs, scale));
    if let Some(rest) = rest(all, scale) {
        page.element("p", "", &rest);
    }
    numbers(&mut page, judged, runs);
    validity(&mut page, all, runs);
    page.markup("</header>\n<main>");
    summary(&mut page, judged);
    terms(&mut page, all);
    let mut paper = None;
    for (found, judged) in all.iter().zip(judged) {
        if paper.replace(found.study.paper) != Some(found.study.paper) {
            page.element("h2", "paper", found.study.paper.title());
        }
        study(&mut page, *found, judged);
    }
    page.markup("</main>\n<footer>");
    page.element(
        "p",
        "",
        "Beside this page: claims.json, each figure as SVG in figures/, and under runs/ the plan and what is kept of \
         every run. Written by emulate reproduce, which goes on with what is missing.",
    );
    page.markup("</footer>");
    page.document("The papers reproduced · Roost", "")
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

fn numbers(page: &mut Page, judged: &[Vec<Judgement>], runs: &[StudyRun]) {
    let tally = ClaimTally::from_judgements(judged.iter().flatten());
    let all = format!(
        "of {}: the paper's lies in the interval that is measured, and that is no wider than half of it",
        counted(tally.figures as u64, "figure")
    );
    let ClaimTally { better, worse, other, unsure, .. } = tally;
    let others = format!("by another amount: {better} better, {worse} worse, {other} neither, {unsure} perhaps equal");
    let said = format!("of {} without a figure, which hold", counted(tally.directions as u64, "statement"));
    let aims = format!("of {} that no paper has, which are met", counted(tally.ours as u64, "aim"));
    page.markup("<dl class=\"numbers\">");
    if tally.figures > 0 {
        page.number("equal", &tally.equal.to_string(), &all);
        page.number("hold", &(better + worse + other + unsure).to_string(), &others);
        page.number("do not hold", &tally.figures_not.to_string(), "of the figures; what is left is open");
    }
    if tally.directions > 0 {
        page.number("statements", &tally.hold.to_string(), &said);
    }
    if tally.ours > 0 {
        page.number("our own", &tally.met.to_string(), &aims);
    }
    let valid = runs.iter().filter(|run| run.kept.valid).count();
    page.number("valid runs", &valid.to_string(), &format!("of {}; others are in no mean", runs.len()));
    page.markup("</dl>");
}

fn validity(page: &mut Page, all: &[StudyResults<'_>], runs: &[StudyRun]) {
    let invalid = all.iter().flat_map(|found| found.runs().map(|run| (found.study, run)));
    let reasons: Vec<String> = invalid
        .filter(|(_, run)| !run.kept.valid)
        .map(|(study, run)| format!("{}: {}", name(study, run), run.kept.reasons.join(" ")))
        .collect();
    if !reasons.is_empty() {
        page.notice("doubt", "Some runs are not valid, and are in no mean and no figure:", "", &reasons);
    }
    let programs: BTreeSet<&str> = runs.iter().map(|run| run.kept.programs.as_str()).collect();
    let daemons: BTreeSet<&str> =
        runs.iter().map(|run| run.kept.daemons.as_str()).filter(|it| !it.is_empty()).collect();
    if programs.len() > 1 || daemons.len() > 1 {
        let rest = "They were made by different builds of the programs, as --any-build allows.";
        page.notice("doubt", "Not all runs stand on the same ground.", rest, &[]);
    }
}

fn name(study: &Study, run: &StudyRun) -> String {
    format!("{}/{}, seed {}", study.id, study.points[run.point].folder(), run.seed)
}

/// The kinds of claims, each with its heading and those of its table.
const TABLES: [(ClaimKind, &str, [&str; 5]); 3] = [
    (
        ClaimKind::Figure,
        "Every figure of the papers",
        ["", "<what the paper says", "<its figure", "<here, with the 95 % interval", "<so it is"],
    ),
    (
        ClaimKind::Direction,
        "What the papers say without a figure",
        ["", "<what the paper says", "<in a word", "<here, with the 95 % interval", "<so it is"],
    ),
    (
        ClaimKind::Ours,
        "Our own aims, which no paper has",
        ["", "<aim", "<at least or at most", "<here, with the 95 % interval", "<it is"],
    ),
];

/// All claims, one for each row, in a table for each kind.
fn summary(page: &mut Page, judged: &[Vec<Judgement>]) {
    for (kind, title, headings) in TABLES {
        let mut of = judged.iter().flatten().filter(|one| one.kind == kind).peekable();
        if of.peek().is_none() {
            continue;
        }
        page.element("h2", "", title);
        let mut rows = Rows::new(&headings);
        for one in of {
            let mark = match (one.verdict, one.amount) {
                (ClaimVerdict::Equal, _) => "+",
                (ClaimVerdict::Holds, Some(Amount::Worse | Amount::Unsure)) => "<",
                (ClaimVerdict::Holds, _) => "+",
                (ClaimVerdict::Open, _) => "<",
                (ClaimVerdict::DoesNotHold, _) => "!",
            };
            let cells = [
                format!("<{}", one.claim),
                format!("<{}", one.paper),
                format!("<{}", one.ours_and_interval()),
                format!("{mark}{}", one.words()),
            ];
            rows.row("claim", one.figure, cells.iter().map(String::as_str));
        }
        page.markup(rows.end());
    }
}

fn terms(page: &mut Page, all: &[StudyResults<'_>]) {
    page.markup("<div class=\"terms\">");
    page.element(
        "p",
        "",
        "Intervals are of 95 % over seeds: Student's t of the mean, and of a ratio over the log ratios of runs with \
         the same seed. Of a part of requests they are Wilson's, over the requests of all seeds together, so that \
         99 of 100 take 381 requests of which none fails. They cover what chance does to the workload, not what the \
         model leaves out.",
    );
    page.element(
        "p",
        "",
        "The limit in figures is what distance and rates alone leave: from the requester to its super node, from there \
         to the provider, and from there back, with packets of the real sizes, and nothing in their way. Who finds \
         the provider without a super node may be below it.",
    );
    if let Some(nearest) = NearestToBound::from_studies(all) {
        page.element("p", "", &nearest.sentence());
    }
    page.markup("</div>");
}

fn study(page: &mut Page, found: StudyResults<'_>, judged: &[Judgement]) {
    let study = found.study;
    let mut of: Vec<&str> = study.plots.iter().map(|plot| plot.figure).filter(|figure| !figure.is_empty()).collect();
    of.dedup();
    let of = match of.as_slice() {
        [first, .., last] => format!(" ({first} to {})", last.trim_start_matches("Fig. ").trim_start_matches("Table ")),
        [only] => format!(" ({only})"),
        [] => String::new(),
    };
    page.element("h2", "", &format!("{}{of}", study.title));
    page.element("p", "", study.about);
    if !study.inferred.is_empty() {
        page.markup("<details class=\"told\"><summary>What the text does not say and was filled in</summary><ul>");
        study.inferred.iter().for_each(|sentence| page.element("li", "", sentence));
        page.markup("</ul></details>");
    }
    page.figures(&figures(found, judged));
    verdicts(page, judged);
    table(page, found);
    if study.id == "sproull-tree" {
        // This fails only if a published network cannot be made, and then runs would have failed before.
        software::fit().iter().for_each(|fit| software::section(page, fit));
    }
    runs(page, found);
}

/// The verdicts on the claims, failures first.
fn verdicts(page: &mut Page, judged: &[Judgement]) {
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
    for (is_it, class, title) in kinds {
        let of = judged.iter().filter(|one| is_it(one));
        let said: Vec<String> =
            of.map(|one| format!("{} ({}): {} {}", one.figure, one.id, one.claim, one.why)).collect();
        if !said.is_empty() {
            page.notice(class, title, "", &said);
        }
    }
}

/// The study's figures, each with the paper's statements below it.
fn figures(found: StudyResults<'_>, judged: &[Judgement]) -> Vec<Figure> {
    let study = found.study;
    let is_one_command = matches!(study.points.as_slice(), [point] if point.make.is_real_time());
    if !is_one_command {
        return study.plots.iter().filter_map(|plot| figure(found, plot, judged)).collect();
    }
    // A position with many measures: those of one figure are side by side.
    let mut names: Vec<&str> = study.plots.iter().map(|plot| plot.figure).collect();
    names.dedup();
    names.into_iter().filter_map(|name| beside(found, name, judged)).collect()
}

/// The measures of one figure, one bar each.
fn beside(found: StudyResults<'_>, figure: &str, judged: &[Judgement]) -> Option<Figure> {
    let point = found.study.points.first()?;
    let plots = found.study.plots.iter().filter(|plot| plot.figure == figure);
    let bar = |plot: &Plot| {
        let (mean, half) = found.mean(point, plot.measure)?;
        let value = half.map_or_else(|| plot.unit.show(mean), |half| plot.unit.around(mean, half));
        Some(FigureBar { name: plot.title.to_owned(), parts: vec![(mean, Ink::Blue)], value })
    };
    let all: Vec<FigureBar> = plots.filter_map(bar).collect();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name = format!("{}-{}", found.study.id, figure.chars().map(plain).collect::<String>());
    let title = format!("{}: {}", capital(figure), found.study.title);
    (!all.is_empty()).then(|| Figure { name, title, caption: caption(figure, judged), sheet: bars(&all, &[]) })
}

/// The explanation of a figure, with the paper's statements.
fn caption(figure: &str, judged: &[Judgement]) -> String {
    let is_papers = |one: &&Judgement| one.kind != ClaimKind::Ours && one.figure == figure && !figure.is_empty();
    let about = judged.iter().filter(is_papers);
    let says: Vec<String> = about.map(|one| format!("{} Here: {}.", one.claim, one.words())).collect();
    let read = "Means over seeds with 95 % intervals.";
    if says.is_empty() { read.to_owned() } else { format!("{read} The paper: {}", says.join(" ")) }
}

fn figure(found: StudyResults<'_>, plot: &Plot, judged: &[Judgement]) -> Option<Figure> {
    let study = found.study;
    let line = |series: &str, measure: &str| {
        let places = found.points(series);
        let value = |point: &StudyPoint| {
            let (mean, half) = found.mean(point, measure)?;
            Some((point.place, mean, half))
        };
        let points: Vec<_> = places.into_iter().filter_map(value).collect();
        (!points.is_empty()).then(|| PlotLine::new(series, points))
    };
    let mut all: Vec<PlotLine> = study.series().into_iter().filter_map(|series| line(series, plot.measure)).collect();
    if let Some(limit) = &plot.limit {
        all.extend(
            line(limit.series, limit.measure).map(|line| PlotLine { name: "limit".to_owned(), ..line.dashed() }),
        );
    }
    if all.is_empty() {
        return None;
    }
    let sheet = if study.has_kinds { bars_of(found, plot, &all) } else { lines_of(study, plot, &all) };
    let title = match plot.figure {
        "" => plot.title.to_owned(),
        figure => format!("{figure}: {}", plot.title),
    };
    let caption = caption(plot.figure, judged);
    Some(Figure { name: format!("{}-{}", study.id, plot.measure.replace('.', "-")), title, caption, sheet })
}

fn lines_of(study: &Study, plot: &Plot, all: &[PlotLine]) -> Sheet {
    let mut places: Vec<(f64, String)> = study.points.iter().map(|point| (point.place, point.name.clone())).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    lines(all, &places, LineAxes { title: study.axis, most: plot.unit.most().unwrap_or(f64::INFINITY) }, |value| {
        plot.unit.show(value)
    })
}

/// A bar for each line at each kind, in the order of the points.
fn bars_of(found: StudyResults<'_>, plot: &Plot, all: &[PlotLine]) -> Sheet {
    let study = found.study;
    let bar = |point: &StudyPoint, (measure, line, ink): (&str, &str, Ink)| {
        let (mean, half) = found.mean(point, measure)?;
        let name = match line {
            "" => point.name.clone(),
            line => format!("{}, {line}", point.name),
        };
        let value = half.map_or_else(|| plot.unit.show(mean), |half| plot.unit.around(mean, half));
        Some(FigureBar { name, parts: vec![(mean, ink)], value })
    };
    let seen = |point: &StudyPoint| {
        let kind = all.iter().position(|line| line.name == point.series)?;
        let line = if study.series().len() > 1 { point.series.as_str() } else { "" };
        bar(point, (plot.measure, line, Ink::kind(kind)))
    };
    let least = |point: &StudyPoint| {
        let limit = plot.limit.as_ref().filter(|limit| limit.series == point.series)?;
        bar(point, (limit.measure, "limit", Ink::Muted))
    };
    let all: Vec<FigureBar> = study.points.iter().flat_map(|point| [seen(point), least(point)]).flatten().collect();
    bars(&all, &[])
}

/// The values at each position of each line.
fn table(page: &mut Page, found: StudyResults<'_>) {
    let study = found.study;
    let has = |measure: &(&str, StudyUnit)| study.points.iter().any(|point| found.mean(point, measure.0).is_some());
    let also = ALSO.map(|(measure, unit, _)| (measure, unit));
    let drawn: Vec<(&str, StudyUnit)> = study.plots.iter().map(|plot| (plot.measure, plot.unit)).collect();
    let also = also.into_iter().filter(|one| !drawn.contains(one));
    let shown: Vec<(&str, StudyUnit)> = drawn.iter().copied().chain(also).filter(has).collect();
    let headings: Vec<String> = shown.iter().map(|(measure, _)| heading(measure, study)).collect();
    let headings = ["", study.axis, "runs"].into_iter().chain(headings.iter().map(String::as_str));
    let mut rows = Rows::new(&headings.collect::<Vec<_>>());
    for point in &study.points {
        let value = |(measure, unit): &(&str, StudyUnit)| match found.mean(point, measure) {
            Some((mean, Some(half))) => unit.around(mean, half),
            Some((mean, None)) => unit.show(mean),
            None => "–".to_owned(),
        };
        let runs = found.runs().filter(|run| std::ptr::eq(&study.points[run.point], point) && run.kept.valid).count();
        let cells = [point.name.clone(), runs.to_string()].into_iter().chain(shown.iter().map(value));
        rows.row("", &point.series, cells.collect::<Vec<_>>().iter().map(String::as_str));
    }
    page.markup("<details open><summary>The figures in numbers</summary>");
    page.markup(rows.end());
    page.markup("</details>");
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

/// All runs, and the command that repeats one.
fn runs(page: &mut Page, found: StudyResults<'_>) {
    let study = found.study;
    let Some(first) = found.runs().next() else { return };
    let (all, invalid) = (found.runs().count(), found.runs().filter(|run| !run.kept.valid).count());
    let valid = if invalid == 0 { "all valid".to_owned() } else { format!("{invalid} not valid") };
    let again = match &study.points[first.point].make {
        RunMethod::Virtual { .. } => {
            let plan = Store::point(study.id, &study.points[first.point].folder()).join("plan.toml");
            format!("emulate simulate {} --seed {}", plan.display(), first.seed)
        }
        RunMethod::Emulated { .. } => {
            let plan = Store::point(study.id, &study.points[first.point].folder()).join("plan.toml");
            format!("emulate run {} --seed {}", plan.display(), first.seed)
        }
        RunMethod::Growth { nodes, moving_s, lookups } => {
            format!("emulate growth {nodes} --moving {moving_s}s --lookups {lookups} --seed {}", first.seed)
        }
        RunMethod::Bench { args, .. } => format!("emulate bench {}", args.join(" ")),
    };
    page.markup("<details>");
    page.element("summary", "", &format!("{}, {valid}, and how to repeat one", counted(all as u64, "run")));
    page.element("pre", "", &again);
    let mut rows = Rows::new(&["run", "seed", "<trace", "<verdict"]);
    for run in found.runs() {
        let verdict = match run.kept.lacks.as_slice() {
            _ if !run.kept.valid => format!("!{}", run.kept.reasons.join(" ")),
            [] => "<valid".to_owned(),
            lacks => format!("<valid, without what could not be measured: {}", lacks.join("; ")),
        };
        let trace = format!("<{}", run.kept.trace_hash.as_deref().unwrap_or("–"));
        let cells = [run.seed.to_string(), trace, verdict];
        rows.row("", &study.points[run.point].folder(), cells.iter().map(String::as_str));
    }
    page.markup(rows.end());
    page.markup("</details>");
}

impl Study {
    /// The lines, in the order of its points.
    fn series(&self) -> Vec<&str> {
        let mut series: Vec<&str> = Vec::new();
        for point in &self.points {
            if !series.contains(&point.series.as_str()) {
                series.push(&point.series);
            }
        }
        series
    }
}

impl<'a> StudyResults<'a> {
    fn points(self, series: &str) -> Vec<&'a StudyPoint> {
        let mut points: Vec<&StudyPoint> = self.study.points.iter().filter(|point| point.series == series).collect();
        points.sort_by(|a, b| a.place.total_cmp(&b.place));
        points
    }

    /// The mean over a point's valid runs, and the half-width of its interval.
    pub(super) fn mean(self, point: &StudyPoint, measure: &str) -> Option<(f64, Option<f64>)> {
        let values: Vec<f64> = self.at(&MeasureKey::new(&point.series, point.x, measure)).into_values().collect();
        mean_and_half_width(&values)
    }
}
