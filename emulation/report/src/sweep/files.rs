//! Several runs as CSV.

use super::{Overview, RunSummary, union};
use crate::csv::{flag, lines, number};

/// A figure of a run for each row.
pub(super) fn runs(points: &[RunSummary]) -> String {
    let figures = points.iter().flat_map(|point| point.measures.iter().map(move |figure| (point, figure)));
    lines(
        figures,
        &[
            ("folder", |(point, _)| point.folder.display().to_string()),
            ("topology", |(point, _)| point.run.topology.clone()),
            ("nodes", |(point, _)| point.run.nodes.to_string()),
            ("architecture", |(point, _)| point.run.architecture.clone()),
            ("transport", |(point, _)| point.run.transport.clone()),
            ("varied", |(point, _)| varied(point, &[])),
            ("seed", |(point, _)| point.run.seed.to_string()),
            ("valid", |(point, _)| flag(point.run.verdict.valid)),
            ("measure", |(_, (measure, _))| measure.name.clone()),
            ("value", |(_, (_, value))| number(*value)),
            ("unit", |(_, (measure, _))| measure.unit_name().to_owned()),
            ("in_means", |(point, _)| flag(point.unusable().is_empty())),
            ("few", |(_, (measure, _))| flag(measure.few)),
        ],
    )
}

fn varied(point: &RunSummary, without: &[&str]) -> String {
    let varied = point.run.varied.iter().filter(|(key, _)| !without.contains(&key.as_str()));
    let varied: Vec<String> = varied.map(|(key, value)| format!("{key}={value}")).collect();
    varied.join(" ")
}

/// A figure of a cell for each row: its mean over the seeds and the half-width of its 95 % interval. `runs`
/// is the number of runs that have it.
pub(super) fn cells(overview: &Overview<'_>) -> String {
    let means = overview.cells.iter().flat_map(|cell| {
        cell.measures().into_iter().filter_map(move |measure| Some((overview, cell, cell.mean(&measure)?)))
    });
    lines(
        means,
        &[
            ("family", |(_, cell, _)| cell.family.clone()),
            ("series", |(_, cell, _)| cell.series.clone()),
            ("x", |(_, cell, _)| cell.x.name.clone()),
            ("x_is", |(overview, ..)| overview.axes.x_title()),
            ("runs", |(.., mean)| mean.runs.to_string()),
            ("measure", |(.., mean)| mean.measure.name.clone()),
            ("mean", |(.., mean)| number(mean.mean)),
            ("half_width", |(.., mean)| mean.half.map_or_else(String::new, number)),
            ("unit", |(.., mean)| mean.measure.unit_name().to_owned()),
            ("few", |(.., mean)| flag(mean.measure.few)),
            ("varied", |(_, cell, _)| varied(cell.points[0], &["seed"])),
        ],
    )
}

/// The effect of a factor on a measure for each row: a value of the factor, and the mean over all values of the others.
pub(super) fn effects(overview: &Overview<'_>) -> String {
    let measures = union(overview.cells.iter().flat_map(|cell| cell.points.iter().copied()));
    let effects: Vec<_> = measures.iter().flat_map(|measure| overview.effects(measure)).collect();
    let levels = effects.iter().flat_map(|effect| effect.levels.iter().map(move |level| (effect, level)));
    lines(
        levels,
        &[
            ("factor", |(effect, _)| effect.factor.title.clone()),
            ("value", |(_, level)| level.level.name.clone()),
            ("seeds", |(_, level)| level.mean.runs.to_string()),
            ("measure", |(_, level)| level.mean.measure.name.clone()),
            ("mean", |(_, level)| number(level.mean.mean)),
            ("half_width", |(_, level)| level.mean.half.map_or_else(String::new, number)),
            ("unit", |(_, level)| level.mean.measure.unit_name().to_owned()),
            ("few", |(_, level)| flag(level.mean.measure.few)),
        ],
    )
}
