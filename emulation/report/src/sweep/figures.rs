//! Figures across several runs.

use std::cmp::Ordering;

use super::{FactorEffect, Overview, SeedGroup, axes, captions, union, with_half};
use crate::figure::{self, Figure, FigureBar, FigurePanel, Ink, LineAxes, MAX_PANELS, Multiples, PlotLine};
use crate::measure::{Measure, MeasureKind, MeasuredFigure, RoomFigure};
use crate::text_format::capital;

impl Overview<'_> {
    /// The families of topologies, and the figures of each.
    pub(super) fn figures(&self) -> Vec<(String, Vec<Figure>)> {
        let mut families: Vec<&str> = self.cells.iter().map(|cell| cell.family.as_str()).collect();
        families.dedup();
        let many = families.len() > 1;
        families.into_iter().map(|family| (family.to_owned(), self.family(family, many))).collect()
    }

    fn family(&self, family: &str, many: bool) -> Vec<Figure> {
        let cells: Vec<&SeedGroup<'_>> = self.cells.iter().filter(|cell| cell.family == family).collect();
        let mut drawn = union(cells.iter().flat_map(|cell| cell.points.iter().copied()));
        drawn.retain(|measure| file_name(&measure.kind).is_some());
        drawn.sort_by_key(|measure| order(&measure.kind));
        let figure = |measure: &Measure| self.figure(measure, &cells, if many { family } else { "" });
        drawn.iter().filter_map(figure).collect()
    }

    fn figure(&self, measure: &Measure, cells: &[&SeedGroup<'_>], family: &str) -> Option<Figure> {
        let name = file_name(&measure.kind)?;
        let name = if family.is_empty() { name } else { format!("{}-{name}", file_safe(family)) };
        let places = places(cells);
        let title = self.title(measure, cells, &places);
        // An interval may exceed all of it; the axis does not.
        let is_part = matches!(measure.kind, MeasureKind::Success | MeasureKind::Room(RoomFigure::Came))
            || matches!(measure.kind, MeasureKind::Measured(_, MeasuredFigure::Share));
        let most = if is_part { 1.0 } else { f64::INFINITY };
        let x_title = self.axes.x_title();
        let along = LineAxes { title: &x_title, most };
        // A value of the axis is no guess.
        let axis = Measure { few: false, ..measure.clone() };
        let names = self.line_names(cells);
        let panels = self.panels(measure, cells, &names);
        let sheet = match panels.as_slice() {
            [] => return None,
            [only] if places.len() == 1 => figure::bars(
                &only.lines.iter().filter_map(|(_, line)| bar(measure, cells, line)).collect::<Vec<_>>(),
                &[],
            ),
            [only] => {
                let lines: Vec<PlotLine> = only.lines.iter().map(|(_, line)| line.clone()).collect();
                figure::lines(&lines, &places, along, |value| axis.show(value))
            }
            several => {
                Multiples { panels: several, names: &names, places: &places, along }.sheet(|value| axis.show(value))
            }
        };
        let more = panels.len().saturating_sub(MAX_PANELS);
        let more = if more > 0 { format!(" The table has {more} panels more.") } else { String::new() };
        let of = captions::of_means(measure, cells, &title);
        Some(Figure { name, title: title.text, caption: format!("{}. {of}{more}", capital(&measure.name)), sheet })
    }

    /// The names of all lines, in the order of their inks.
    fn line_names(&self, cells: &[&SeedGroup<'_>]) -> Vec<String> {
        let mut names: Vec<(Vec<usize>, _, &str)> = Vec::new();
        for cell in cells {
            // The last factor of the order makes the lines.
            let order: Vec<usize> = self.axes.order(cell.points[0]).last().copied().into_iter().collect();
            let name = (order, axes::rank(&cell.series), cell.series.as_str());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.sort();
        let mut names: Vec<String> = names.into_iter().map(|(.., name)| name.to_owned()).collect();
        names.dedup();
        names
    }

    /// The panels with their lines, in the order of the cells.
    fn panels(&self, measure: &Measure, cells: &[&SeedGroup<'_>], names: &[String]) -> Vec<FigurePanel> {
        let mut panels: Vec<FigurePanel> = Vec::new();
        for cell in cells {
            let Some(mean) = cell.mean(measure) else { continue };
            if panels.last().is_none_or(|panel| panel.name != cell.panel) {
                panels.push(FigurePanel { name: cell.panel.clone(), lines: Vec::new() });
            }
            let number = names.iter().position(|name| *name == cell.series).unwrap_or(0);
            let Some(panel) = panels.last_mut() else { continue };
            if panel.lines.iter().all(|(known, _)| *known != number) {
                let line = PlotLine::new(&cell.series, Vec::new());
                let is_line = self.axes.is_continuous();
                panel.lines.push((number, if is_line { line } else { line.over_words(number, names.len()) }));
            }
            if let Some((_, line)) = panel.lines.iter_mut().find(|(known, _)| *known == number) {
                line.points.push((cell.x.place, mean.mean, mean.drawn_half()));
            }
        }
        panels
    }

    /// A figure for each measure with the effects of all factors, if there are several.
    pub(super) fn effect_figures(&self) -> Vec<Figure> {
        if self.axes.factors().len() < 2 {
            return Vec::new();
        }
        let mut drawn = union(self.cells.iter().flat_map(|cell| cell.points.iter().copied()));
        drawn.retain(|measure| file_name(&measure.kind).is_some());
        drawn.sort_by_key(|measure| order(&measure.kind));
        drawn.iter().filter_map(|measure| effect_figure(measure, &self.effects(measure))).collect()
    }
}

/// Bars for each value of each factor: means over the others.
fn effect_figure(measure: &Measure, effects: &[FactorEffect<'_>]) -> Option<Figure> {
    let name = format!("effects-{}", file_name(&measure.kind)?);
    let mut by_size: Vec<(f64, String)> = effects
        .iter()
        .filter_map(|effect| {
            let ratio = effect.ratio()?;
            Some((ratio.ratio, format!("{} {}", effect.factor.title, ratio.text())))
        })
        .collect();
    by_size.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told: Vec<String> = by_size.into_iter().map(|(_, told)| told).collect();
    let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
    let bars_of = effects.iter().enumerate().flat_map(|(number, effect)| {
        effect.levels.iter().map(move |one| FigureBar {
            name: effect.factor.value_text(one.level),
            parts: vec![(one.mean.mean, Ink::kind(number))],
            value: one.mean.mean_text(),
        })
    });
    let bars_of: Vec<FigureBar> = bars_of.collect();
    let key = effects.iter().enumerate().map(|(number, effect)| (effect.factor.title.clone(), Ink::kind(number)));
    (!bars_of.is_empty()).then(|| Figure {
        name,
        title: format!("{}{told}", capital(&measure.name)),
        caption: captions::of_effects(effects),
        sheet: figure::bars(&bars_of, &key.collect::<Vec<_>>()),
    })
}

/// The bar of a line, in brackets if its own runs have too few requests.
fn bar(measure: &Measure, cells: &[&SeedGroup<'_>], line: &PlotLine) -> Option<FigureBar> {
    let mean = cells.iter().filter(|cell| cell.series == line.name).find_map(|cell| cell.mean(measure))?;
    let value = with_half(&mean.measure, mean.mean, mean.drawn_half());
    Some(FigureBar { name: line.name.clone(), parts: vec![(mean.mean, Ink::Blue)], value })
}

/// The positions along the axis and their names, in order.
fn places(cells: &[&SeedGroup<'_>]) -> Vec<(f64, String)> {
    let mut places: Vec<(f64, String)> = cells.iter().map(|cell| (cell.x.place, cell.x.name.clone())).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by(|a, b| a.0.total_cmp(&b.0) == Ordering::Equal);
    places
}

/// The file of a measure's figure; `None` if it has no figure.
fn file_name(kind: &MeasureKind) -> Option<String> {
    Some(match kind {
        MeasureKind::Completed => "completed".into(),
        MeasureKind::Success => "success".into(),
        MeasureKind::Ports => "traffic".into(),
        MeasureKind::PortsEach => "traffic-per-service".into(),
        MeasureKind::Overhead => "overhead-per-service".into(),
        MeasureKind::Latency(service, 500) => format!("latency-{}", file_safe(service)),
        MeasureKind::HubCpu => "hub-processor".into(),
        MeasureKind::Measured(name, MeasuredFigure::Quantile(500)) => format!("{}-median", file_safe(name)),
        MeasureKind::Measured(name, MeasuredFigure::Share) => format!("{}-share", file_safe(name)),
        MeasureKind::Measured(name, MeasuredFigure::Sum) => format!("{}-sum", file_safe(name)),
        MeasureKind::Room(RoomFigure::Came) => "rooms-came".into(),
        MeasureKind::Room(RoomFigure::MedianFirstPacket) => "rooms-first-packet".into(),
        MeasureKind::Room(RoomFigure::LatestFirstPacket) => "rooms-latest-first-packet".into(),
        MeasureKind::Room(RoomFigure::Missing) => "rooms-missing".into(),
        MeasureKind::Room(RoomFigure::LongestGap) => "rooms-longest-gap".into(),
        _ => return None,
    })
}

/// The order of the figures, as in the paper.
fn order(kind: &MeasureKind) -> usize {
    match kind {
        MeasureKind::Completed => 0,
        MeasureKind::Ports => 1,
        MeasureKind::PortsEach => 2,
        MeasureKind::Latency(..) => 3,
        MeasureKind::Overhead => 4,
        MeasureKind::Success => 5,
        _ => 6,
    }
}

/// Only letters, digits and dashes, so that no name leads out of the folder.
fn file_safe(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).take(60).collect()
}
