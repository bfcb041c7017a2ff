//! Small multiples: panels with the same axes, two beside each other.

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, cut_to, width_of};
use super::ink::Ink;
use super::key::FigureKey;
use super::lines::{LineAxes, NumberedLine, PlotLine, draw_all, draw_places, plot_scale};
use super::plot_area::PlotArea;
use super::scale::AxisScale;

/// The most panels; a page has all values in its tables.
pub(crate) const MAX_PANELS: usize = 12;
const COLUMNS: usize = 2;
const GAP: f64 = 18.0;
const TITLE: f64 = 22.0;
const HEIGHT: f64 = 120.0;
/// Room below a panel for the places, and below the last ones for the axis' title.
const PLACES: f64 = 28.0;

/// A panel: its name, and its lines, each with its number among all.
pub(crate) struct FigurePanel {
    pub(crate) name: String,
    pub(crate) lines: Vec<(usize, PlotLine)>,
}

pub(crate) struct Multiples<'a> {
    pub(crate) panels: &'a [FigurePanel],
    pub(crate) names: &'a [String],
    pub(crate) places: &'a [(f64, String)],
    pub(crate) along: LineAxes<'a>,
}

impl Multiples<'_> {
    /// Draws all panels; `show` formats a value.
    pub(crate) fn sheet(&self, show: impl Fn(f64) -> String) -> Sheet {
        let panels = &self.panels[..self.panels.len().min(MAX_PANELS)];
        let key = FigureKey::of_kinds(self.names);
        let top = key.height() + 6.0;
        let all = panels.iter().flat_map(|panel| &panel.lines).map(|(_, line)| line);
        let scale = |top: f64, bottom: f64| plot_scale(all.clone(), self.along, bottom, top);
        let left = scale(0.0, 1.0).ticks(3).iter().map(|tick| width_of(&show(*tick), WORDS)).fold(20.0, f64::max) + 9.0;
        let width = (WIDTH - left - GAP) / COLUMNS as f64;
        let rows = panels.len().div_ceil(COLUMNS);
        let each = TITLE + HEIGHT + PLACES;
        Canvas::sheet(top + rows as f64 * each + 18.0, |canvas| {
            key.draw(canvas, 0.0);
            for (number, panel) in panels.iter().enumerate() {
                let (row, column) = (number / COLUMNS, number % COLUMNS);
                let from = left + column as f64 * (width + GAP);
                let upper = top + row as f64 * each + TITLE;
                let (right, bottom) = (from + width, upper + HEIGHT);
                let (x, y) = (self.place_scale(from, right), scale(upper, bottom));
                let frame = PlotArea { left: from, right, top: upper, bottom, x, y };
                frame.rows(canvas, 3, |value| if column == 0 { show(value) } else { String::new() });
                self.draw_panel(canvas, &frame, panel);
            }
            let below = top + rows as f64 * each + 8.0;
            canvas.words(self.along.title, (WIDTH, below), TextAnchor::Left, Ink::Muted);
        })
    }

    fn draw_panel(&self, canvas: &mut Canvas<'_>, frame: &PlotArea, panel: &FigurePanel) {
        let PlotArea { left, right, top, bottom, .. } = *frame;
        canvas.line(&[(left, bottom), (right, bottom)], Ink::Muted, 1.0);
        draw_places(canvas, frame, self.places);
        let name = cut_to(&panel.name, WORDS, (right - left) / 1.1);
        canvas.bold(&name, (left, top - 13.0), TextAnchor::Right, Ink::Text);
        let lines = panel.lines.iter().map(|(number, line)| NumberedLine { number: *number, line });
        draw_all(canvas, frame, &lines.collect::<Vec<_>>());
    }

    fn place_scale(&self, left: f64, right: f64) -> AxisScale {
        let ends = (self.places.first().map_or(0.0, |place| place.0), self.places.last().map_or(1.0, |place| place.0));
        let air = (ends.1 - ends.0).max(1e-9) * 0.08;
        AxisScale::exact(ends.0 - air, ends.1 + air, left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_share_axes_and_key() {
        let line = |value: f64| PlotLine::new("all", vec![(1.0, value, Some(0.2)), (2.0, value, None)]);
        let panel =
            |n: usize| FigurePanel { name: format!("loss {n}"), lines: vec![(0, line(n as f64)), (1, line(0.5))] };
        let panels: Vec<FigurePanel> = (0..20).map(panel).collect();
        let names = ["client-server".to_owned(), "x".repeat(300), "y".repeat(300)];
        let places = [(1.0, "1".to_owned()), (2.0, "2".to_owned())];
        let along = LineAxes::with_title("nodes");
        let sheet =
            Multiples { panels: &panels, names: &names, places: &places, along }.sheet(|value| value.to_string());
        let text = sheet.inline("x").0;
        assert_eq!(text.matches("loss ").count(), MAX_PANELS);
        assert_eq!(text.matches("client-server").count(), 1);
    }
}
