//! The figures of a study, each with the paper's statements below it.

use roost_report::figure::{Figure, FigureBar, Ink, LineAxes, PlotLine, Sheet, bars, lines};
use roost_report::text_format::capital;

use super::super::StudyResults;
use super::super::study::{Plot, Study, StudyPoint};
use super::super::verdict::{ClaimKind, Judgement};

/// The study's figures, each with the paper's statements below it.
pub(super) fn figures(found: StudyResults<'_>, judged: &[Judgement]) -> Vec<Figure> {
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
    let all: Vec<FigureBar> = plots.clone().filter_map(bar).collect();
    let read = read_as(plots.filter_map(|plot| Some(found.mean(point, plot.measure)?.1)));
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name = format!("{}-{}", found.study.id, figure.chars().map(plain).collect::<String>());
    let title = format!("{}: {}", capital(figure), found.study.title);
    (!all.is_empty()).then(|| Figure { name, title, caption: caption(read, figure, judged), sheet: bars(&all, &[]) })
}

/// The meaning of values that have these half-widths.
fn read_as(halves: impl IntoIterator<Item = Option<f64>>) -> &'static str {
    let has_intervals = halves.into_iter().any(|half| half.is_some());
    if has_intervals { "Means over seeds with 95 % intervals." } else { "One run each, so no interval." }
}

/// The explanation of a figure, with the paper's statements.
fn caption(read: &str, figure: &str, judged: &[Judgement]) -> String {
    let is_papers = |one: &&Judgement| one.kind != ClaimKind::Ours && one.figure == figure && !figure.is_empty();
    let about = judged.iter().filter(is_papers);
    let says: Vec<String> = about.map(|one| format!("{} Here: {}.", one.claim, one.words())).collect();
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
    let halves = all.iter().flat_map(|line| &line.points).map(|(_, _, half)| *half);
    let caption = caption(read_as(halves), plot.figure, judged);
    Some(Figure { name: format!("{}-{}", study.id, plot.measure.replace('.', "-")), title, caption, sheet })
}

fn lines_of(study: &Study, plot: &Plot, all: &[PlotLine]) -> Sheet {
    let mut places: Vec<(f64, String)> = study.points.iter().map(|point| (point.place, point.name.clone())).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    lines(
        all,
        &places,
        LineAxes { title: &study.axis_title(), most: plot.unit.most().unwrap_or(f64::INFINITY) },
        |value| plot.unit.show(value),
    )
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
}
