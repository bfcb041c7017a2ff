//! Panels above each other along one axis of time.

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, cut_to};
use super::ink::Ink;
use super::key::FigureKey;
use super::plot_area::PlotArea;
use super::scale::AxisScale;
use crate::text_format::three;

pub(super) const LEFT: f64 = 46.0;
pub(super) const RIGHT: f64 = WIDTH - 14.0;
const FIELD: f64 = 68.0;
/// Values that span more than this factor have a logarithmic axis, with room beyond its ends.
const DECADES: f64 = 100.0;
const AIR: f64 = 1.15;
/// The space above it, with its name.
const ABOVE: f64 = 35.0;
/// The room of the axis' numbers and name.
const BELOW: f64 = 42.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineForm {
    Area,
    Line,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CoursePoint {
    /// Seconds since the workload began.
    pub(super) t: f64,
    pub(super) value: f64,
}

/// A line of a panel, with gaps between its pieces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CourseLine {
    pub(super) ink: Ink,
    pub(super) form: LineForm,
    pub(super) pieces: Vec<Vec<CoursePoint>>,
}

impl CourseLine {
    pub(super) fn whole(ink: Ink, form: LineForm, points: Vec<CoursePoint>) -> Self {
        Self { ink, form, pieces: vec![points] }
    }
}

/// A panel: its name in the ink of its subject, its lines with their key, and the times of its marks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CoursePanel {
    pub(super) name: String,
    ink: Ink,
    key: FigureKey,
    lines: Vec<CourseLine>,
    marks: Vec<f64>,
    mark_ink: Ink,
    is_logarithmic: bool,
}

pub(super) struct Course<'a> {
    pub(super) panels: &'a [CoursePanel],
    /// The end of the time, in seconds.
    pub(super) end: f64,
    pub(super) title: &'a str,
}

impl Course<'_> {
    /// A sheet with nothing but a key and these panels.
    pub(super) fn sheet(&self, key: &FigureKey) -> Sheet {
        Canvas::sheet(key.height() + self.height(), |canvas| {
            key.draw(canvas, 0.0);
            self.draw(canvas, key.height());
        })
    }

    pub(super) fn height(&self) -> f64 {
        self.panels.iter().map(CoursePanel::height).sum::<f64>() + BELOW
    }

    pub(super) fn x(&self) -> AxisScale {
        AxisScale::exact(0.0, self.end, LEFT, RIGHT)
    }

    /// Draws the panels below each other from `upper` on.
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, upper: f64) {
        let mut lower = upper;
        for (index, panel) in self.panels.iter().enumerate() {
            lower += panel.height();
            let y = panel.scale(lower, lower - FIELD);
            let frame = PlotArea { left: LEFT, right: RIGHT, top: lower - FIELD, bottom: lower, x: self.x(), y };
            panel.draw(canvas, &frame);
            if index + 1 == self.panels.len() {
                frame.columns(canvas, 7, three, self.title);
            }
        }
    }
}

impl CoursePanel {
    pub(super) fn new(name: String, ink: Ink, lines: Vec<CourseLine>) -> Self {
        Self {
            name,
            ink,
            key: FigureKey::default(),
            lines,
            marks: Vec::new(),
            mark_ink: Ink::Text,
            is_logarithmic: false,
        }
    }

    pub(super) fn with_key(self, key: FigureKey) -> Self {
        Self { key, ..self }
    }

    pub(super) fn with_marks(self, marks: Vec<f64>, mark_ink: Ink) -> Self {
        Self { marks, mark_ink, ..self }
    }

    /// With a logarithmic axis where values span more than two decades, all above zero; its name says so.
    pub(super) fn with_fit_axis(self) -> Self {
        let (lowest, highest) = self.extent();
        let is_logarithmic = lowest > 0.0 && highest / lowest > DECADES;
        let name = if is_logarithmic { format!("{} (logarithmic)", self.name) } else { self.name };
        Self { name, is_logarithmic, ..self }
    }

    fn extent(&self) -> (f64, f64) {
        let values = || self.lines.iter().flat_map(|line| &line.pieces).flatten().map(|point| point.value);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    }

    fn height(&self) -> f64 {
        ABOVE + self.key.height() + FIELD
    }

    fn scale(&self, bottom: f64, top: f64) -> AxisScale {
        let (lowest, highest) = self.extent();
        if self.is_logarithmic {
            return AxisScale::logarithmic(lowest / AIR, highest * AIR, bottom, top);
        }
        let (lowest, highest) = (lowest.min(0.0), highest.max(0.0));
        if lowest < 0.0 {
            AxisScale::exact(lowest, highest, bottom, top)
        } else {
            AxisScale::from_zero(highest, bottom, top)
        }
    }

    fn draw(&self, canvas: &mut Canvas<'_>, frame: &PlotArea) {
        // Bold letters are a tenth wider.
        let name = cut_to(&self.name, WORDS, WIDTH / 1.1);
        let above = frame.top - self.key.height();
        canvas.bold(&name, (0.0, above - 17.0), TextAnchor::Right, self.ink);
        self.key.draw(canvas, above - 7.0);
        frame.rows(canvas, if self.is_logarithmic { 4 } else { 2 }, three);
        for mark in &self.marks {
            let x = frame.x.at(*mark);
            canvas.dashes((x, frame.top - 6.0), (x, frame.bottom), self.mark_ink);
        }
        for CourseLine { ink, form, pieces } in &self.lines {
            for piece in pieces {
                let line: Vec<_> = piece.iter().map(|point| (frame.x.at(point.t), frame.y.at(point.value))).collect();
                draw_piece(canvas, &line, *ink, (*form == LineForm::Area).then_some(frame.bottom));
            }
        }
    }
}

fn draw_piece(canvas: &mut Canvas<'_>, line: &[(f64, f64)], ink: Ink, ground: Option<f64>) {
    let (Some(first), Some(last)) = (line.first(), line.last()) else { return };
    if line.len() == 1 {
        return canvas.dot(*first, 1.8, ink);
    }
    if let Some(ground) = ground {
        let mut shape = line.to_vec();
        shape.extend([(last.0, ground), (first.0, ground)]);
        canvas.shape(&shape, ink, 0.16);
    }
    canvas.line(line, ink, 1.6);
}

/// Points that tell of the time before them, from the beginning on.
pub(super) fn since_zero(points: Vec<CoursePoint>) -> Vec<CoursePoint> {
    let start = points.first().filter(|first| first.t > 0.0).map(|first| CoursePoint { t: 0.0, ..*first });
    start.into_iter().chain(points).collect()
}

/// Steps: a value holds until the next one, the last one until `end`.
pub(super) fn steps(points: &[CoursePoint], end: f64) -> Vec<CoursePoint> {
    let ends = points.iter().skip(1).map(|next| next.t).chain([end]);
    points.iter().zip(ends).flat_map(|(point, until)| [*point, CoursePoint { t: until, ..*point }]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(t: f64, value: f64) -> CoursePoint {
        CoursePoint { t, value }
    }

    #[test]
    fn negative_values_stay_in_the_field() {
        let line = CourseLine::whole(Ink::Blue, LineForm::Line, vec![point(0.0, -4.0), point(9.0, 2.0)]);
        let panel = CoursePanel::new("offset, K".into(), Ink::Blue, vec![line]).with_marks(vec![3.0], Ink::Text);
        let scale = panel.scale(100.0, 0.0);
        assert!((scale.at(-4.0) - 100.0).abs() < 1e-9 && scale.at(0.0) < 100.0);
        let course = Course { panels: &[panel], end: 9.0, title: "seconds" };
        assert!(course.sheet(&FigureKey::default()).standing("offset").contains("offset, K"));
    }

    #[test]
    fn wide_spans_have_logarithmic_axis() {
        let panel = |values: [f64; 2]| {
            let points = values.map(|value| point(value, value)).to_vec();
            CoursePanel::new("echo, ms".into(), Ink::Blue, vec![CourseLine::whole(Ink::Blue, LineForm::Line, points)])
                .with_fit_axis()
        };
        assert_eq!([panel([2.0, 200.0]).name, panel([0.0, 900.0]).name], ["echo, ms", "echo, ms"]);
        let wide = panel([2.0, 900.0]);
        assert_eq!(wide.name, "echo, ms (logarithmic)");
        let scale = wide.scale(100.0, 0.0);
        assert!(scale.at(2.0) < 100.0 && scale.at(45.0) < 60.0 && scale.at(900.0) > 0.0);
    }

    #[test]
    fn first_second_is_drawn() {
        assert_eq!(since_zero(vec![point(1.0, 5.0)]), [point(0.0, 5.0), point(1.0, 5.0)]);
        assert_eq!(since_zero(vec![point(0.0, 5.0)]), [point(0.0, 5.0)]);
        assert!(since_zero(Vec::new()).is_empty());
    }

    #[test]
    fn values_hold_until_the_next() {
        let corners = [point(1.0, 5.0), point(2.0, 5.0), point(2.0, 7.0), point(4.0, 7.0)];
        assert_eq!(steps(&[point(1.0, 5.0), point(2.0, 7.0)], 4.0), corners);
        assert!(steps(&[], 4.0).is_empty());
    }
}
