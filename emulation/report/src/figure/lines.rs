//! Lines across several runs, with intervals at each point.

use roost_drawing::Spot;

use super::canvas::{Canvas, LineShare, Mark, Sheet, TextAnchor, WIDTH, WORDS, cut_to, width_of};
use super::ink::Ink;
use super::plot_area::PlotArea;
use super::scale::AxisScale;

/// The widest column of names at the ends of lines.
const MAX_NAMES: f64 = 150.0;
const APART: f64 = 15.0;
const DOT: f64 = 3.4;
/// The width of a ring around a point of another line, and that of all rings.
const RING: f64 = 2.4;
const MOST_RINGS: f64 = 8.0;
/// Lines nearer than this cannot be told apart.
const SAME_WAY: f64 = 2.0;
/// The most lines that share a way: the dashes of more cannot be told apart.
const MOST_SHARED: usize = 20;
/// The distance of points over one word.
const BESIDE: f64 = 9.0;

type PlotPoint = (f64, f64, Option<f64>);

#[derive(Clone, Debug)]
pub struct PlotLine {
    /// The name, shown at its end.
    pub name: String,
    /// Position, value, and the half-width of the value's interval.
    pub points: Vec<(f64, f64, Option<f64>)>,
    /// True for a bound, drawn in dashes, in place of measured values.
    pub is_bound: bool,
    /// The shift of its points, which stand over words and have no line between them.
    pub shift: Option<f64>,
}

impl PlotLine {
    pub fn new(name: &str, points: Vec<(f64, f64, Option<f64>)>) -> Self {
        Self { name: name.to_owned(), points, is_bound: false, shift: None }
    }

    pub fn dashed(self) -> Self {
        Self { is_bound: true, ..self }
    }

    /// Points over words: beside those of the other lines, of which there are `count`.
    pub fn over_words(self, number: usize, count: usize) -> Self {
        Self { shift: Some((number as f64 - (count.max(1) - 1) as f64 / 2.0) * BESIDE), ..self }
    }

    fn ink(&self, n: usize) -> Ink {
        if self.is_bound { Ink::Muted } else { Ink::kind(n) }
    }
}

/// A line with its number among all, which decides its ink and mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedLine<'a> {
    pub(super) number: usize,
    pub(super) line: &'a PlotLine,
}

#[derive(Clone, Copy, Debug)]
pub struct LineAxes<'a> {
    /// The name of the horizontal axis.
    pub title: &'a str,
    pub most: f64,
}

impl<'a> LineAxes<'a> {
    pub const fn with_title(title: &'a str) -> Self {
        Self { title, most: f64::INFINITY }
    }
}

/// Draws the lines over these places; `show` formats a value.
pub fn lines(lines: &[PlotLine], places: &[(f64, String)], along: LineAxes<'_>, show: impl Fn(f64) -> String) -> Sheet {
    let (top, bottom) = (14.0, 226.0);
    let y = plot_scale(lines, along, bottom, top);
    let left = y.ticks(4).iter().map(|tick| width_of(&show(*tick), WORDS)).fold(20.0, f64::max) + 9.0;
    // Bold letters are a tenth wider.
    let names = lines.iter().map(|line| width_of(&line.name, WORDS) * 1.1).fold(0.0, f64::max).min(MAX_NAMES);
    // Marks tell two lines of one ink apart; then all names have a mark.
    let marked = if lines.len() > Ink::KINDS.len() { 12.0 } else { 0.0 };
    let right = WIDTH - names - marked - 12.0;
    let ends = (places.first().map_or(0.0, |place| place.0), places.last().map_or(1.0, |place| place.0));
    // Space on both sides, so that the first interval does not touch the axis.
    let air = (ends.1 - ends.0) * if lines.iter().any(|line| line.shift.is_some()) { 0.2 } else { 0.05 };
    let frame = PlotArea { left, right, top, bottom, x: AxisScale::exact(ends.0 - air, ends.1 + air, left, right), y };
    Canvas::sheet(270.0, |canvas| {
        frame.rows(canvas, 4, &show);
        canvas.line(&[(left, bottom), (right, bottom)], Ink::Muted, 1.0);
        draw_places(canvas, &frame, places);
        canvas.words(along.title, (right, bottom + 32.0), TextAnchor::Left, Ink::Muted);
        let numbered = lines.iter().enumerate().map(|(number, line)| NumberedLine { number, line });
        draw_all(canvas, &frame, &numbered.collect::<Vec<_>>());
        for (n, y) in name_places(lines, &frame).into_iter().enumerate() {
            let name = cut_to(&lines[n].name, WORDS, MAX_NAMES / 1.1);
            if marked > 0.0 && !lines[n].is_bound {
                canvas.mark((right + 10.0, y), DOT, lines[n].ink(n), Mark::kind(n));
            }
            canvas.bold(&name, (right + 6.0 + marked, y), TextAnchor::Right, lines[n].ink(n));
        }
    })
}

/// The scale of values: from zero over all intervals, but not beyond the most that is possible.
pub(super) fn plot_scale<'a>(
    lines: impl IntoIterator<Item = &'a PlotLine>,
    along: LineAxes<'_>,
    from: f64,
    to: f64,
) -> AxisScale {
    let points = lines.into_iter().flat_map(|line| &line.points);
    let tops = points.map(|(_, value, half)| value + half.filter(|half| half.is_finite()).unwrap_or(0.0));
    AxisScale::from_zero(tops.fold(0.0, f64::max).min(along.most), from, to)
}

/// Draws the names of the places, as far as there is room.
pub(super) fn draw_places(canvas: &mut Canvas<'_>, frame: &PlotArea, places: &[(f64, String)]) {
    let mut free_from = f64::NEG_INFINITY;
    for (place, name) in places {
        let x = frame.x.at(*place);
        let half = width_of(name, WORDS) / 2.0;
        canvas.line(&[(x, frame.bottom), (x, frame.bottom + 4.0)], Ink::Muted, 1.0);
        if x - half > free_from {
            canvas.words(name, (x, frame.bottom + 14.0), TextAnchor::Middle, Ink::Muted);
            free_from = x + half + 6.0;
        }
    }
}

/// Draws numbered lines. Where several go the same way, each has some of the dashes, and a ring of its own at a point.
pub(super) fn draw_all(canvas: &mut Canvas<'_>, frame: &PlotArea, lines: &[NumberedLine<'_>]) {
    (0..lines.len()).for_each(|index| draw(canvas, frame, lines, index));
}

/// The share of the line with number `n` among those that go through all these points; lines go from left to right.
fn share_of(n: usize, points: &[PlotPoint], lines: &[NumberedLine<'_>], frame: &PlotArea) -> LineShare {
    if lines.len() > MOST_SHARED {
        return LineShare { number: 0, of: 1 };
    }
    let is_near = |one: &PlotPoint, other: &PlotPoint| {
        one.0.total_cmp(&other.0).is_eq() && (frame.y.at(one.1) - frame.y.at(other.1)).abs() < SAME_WAY
    };
    let goes = |line: &PlotLine| {
        let Some(first) = points.first() else { return false };
        let from = line.points.partition_point(|one| one.0.total_cmp(&first.0).is_lt());
        let window = line.points.get(from..from + points.len());
        window.is_some_and(|window| window.iter().zip(points).all(|(one, other)| is_near(one, other)))
    };
    let near = lines.iter().filter(|one| !one.line.is_bound && one.line.shift.is_none() && goes(one.line));
    let numbers: Vec<usize> = near.map(|one| one.number).collect();
    LineShare { number: numbers.iter().position(|number| *number == n).unwrap_or(0), of: numbers.len().max(1) }
}

fn draw(canvas: &mut Canvas<'_>, frame: &PlotArea, lines: &[NumberedLine<'_>], index: usize) {
    let NumberedLine { number: n, line } = lines[index];
    let ink = line.ink(n);
    let at = |place: f64, value: f64| (frame.x.at(place) + line.shift.unwrap_or(0.0), frame.y.at(value));
    // The ends have different widths, since intervals at one place overlap.
    let end_half = 3.0 + (n % Ink::KINDS.len()) as f64 * 0.8;
    let points: Vec<(f64, f64)> = line.points.iter().map(|(place, value, _)| at(*place, *value)).collect();
    if line.is_bound {
        return points.windows(2).for_each(|pair| canvas.dashes(pair[0], pair[1], ink));
    }
    for (pair, ends) in line.points.windows(2).zip(points.windows(2)).filter(|_| line.shift.is_none()) {
        canvas.share([ends[0], ends[1]].map(|(x, y)| Spot { x, y }), ink, share_of(n, pair, lines, frame));
    }
    for point in &line.points {
        let (place, value, half) = point;
        if let Some(half) = half.filter(|half| half.is_finite()) {
            let ((x, low), (_, high)) = (at(*place, value - half), at(*place, value + half));
            canvas.line(&[(x, low), (x, high)], ink, 1.4);
            for end in [low, high] {
                canvas.line(&[(x - end_half, end), (x + end_half, end)], ink, 1.4);
            }
        }
        // A point over words has none below it.
        let share = share_of(n, std::slice::from_ref(point), lines, frame);
        let rings = if line.shift.is_none() { share.of - 1 - share.number } else { 0 };
        canvas.mark(
            at(*place, *value),
            DOT + rings as f64 * RING.min(MOST_RINGS / share.of as f64),
            ink,
            Mark::kind(n),
        );
    }
}

/// The positions of names: at the ends of their lines, pushed apart where they would overlap.
fn name_places(lines: &[PlotLine], frame: &PlotArea) -> Vec<f64> {
    let end = |line: &PlotLine| line.points.last().map_or(frame.bottom, |(_, value, _)| frame.y.at(*value));
    let mut order: Vec<(usize, f64)> = lines.iter().map(end).enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut floor = f64::NEG_INFINITY;
    for (_, y) in &mut order {
        *y = y.max(floor + APART);
        floor = *y;
    }
    // Names that were pushed below the axis move up again.
    let mut ceiling = frame.bottom + APART;
    for (_, y) in order.iter_mut().rev() {
        *y = y.min(ceiling - APART);
        ceiling = *y;
    }
    let mut places = vec![0.0; lines.len()];
    for (index, y) in order {
        places[index] = y;
    }
    places
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    /// The highest value at which the axis has a tick.
    fn highest_tick(most: f64) -> f64 {
        let line = PlotLine::new("all", vec![(1.0, 0.9, Some(0.7)), (2.0, 1.0, Some(0.05))]);
        let (places, shown) = ([(1.0, "1".to_owned()), (2.0, "2".to_owned())], RefCell::new(0.0_f64));
        let sheet = lines(&[line], &places, LineAxes { title: "nodes", most }, |value| {
            shown.replace_with(|highest| highest.max(value));
            value.to_string()
        });
        assert!(sheet.standing("parts").contains("<svg"));
        shown.into_inner()
    }

    /// The values of an attribute of all circles of a sheet: dots and their rims.
    fn of_circles(sheet: &Sheet, name: &str) -> BTreeSet<String> {
        let text = sheet.inline("x").0;
        let circles = text.split("<circle ").skip(1);
        let value =
            |circle: &str| circle.split_once(&format!("{name}=\"")).unwrap().1.split('"').next().unwrap().to_owned();
        circles.map(value).collect()
    }

    #[test]
    fn points_keep_their_x_position() {
        let all: Vec<PlotLine> =
            (1..=5).map(|n| PlotLine::new(&n.to_string(), vec![(1.0, f64::from(n), Some(0.1))])).collect();
        let sheet =
            lines(&all, &[(0.0, "0".to_owned()), (1.0, "1".to_owned())], LineAxes::with_title("nodes"), |value| {
                value.to_string()
            });
        assert_eq!(of_circles(&sheet, "cx").len(), 1, "{:?}", of_circles(&sheet, "cx"));
    }

    #[test]
    fn lines_on_one_way_share_dashes() {
        let line = |value: f64| PlotLine::new(&value.to_string(), vec![(0.0, 1.0, None), (1.0, value, None)]);
        let drawn = |lines_of: &[PlotLine]| {
            let places = [(0.0, "0".to_owned()), (1.0, "1".to_owned())];
            lines(lines_of, &places, LineAxes::with_title("nodes"), |value| value.to_string())
        };
        let strokes =
            |sheet: &Sheet, ink: Ink| sheet.inline("x").0.matches(&format!("stroke=\"{}\"", ink.hex())).count();
        let apart = drawn(&[line(1.0), line(0.5)]);
        let same = drawn(&[line(1.0), line(1.0)]);
        let count = |sheet: &Sheet| [Ink::Blue, Ink::Vermilion].map(|ink| strokes(sheet, ink));
        assert!(count(&same).iter().all(|dashes| *dashes > 5), "{:?}", count(&same));
        assert!(count(&apart) == [1, 1] && of_circles(&same, "r").len() > 2, "{:?}", count(&apart));
    }

    #[test]
    fn many_lines_share_no_dashes() {
        let points = |n: u32| (0..n).map(|place| (f64::from(place), 1.0, None)).collect::<Vec<_>>();
        let drawn = |count: u32| {
            let all: Vec<PlotLine> = (0..count).map(|n| PlotLine::new(&n.to_string(), points(3))).collect();
            let places = [(0.0, "0".to_owned()), (2.0, "2".to_owned())];
            lines(&all, &places, LineAxes::with_title("nodes"), |value| value.to_string())
        };
        assert!(of_circles(&drawn(20), "r").len() > of_circles(&drawn(21), "r").len());
    }

    #[test]
    fn same_ink_lines_differ_in_shape() {
        let looks: BTreeSet<(String, Mark)> = (0..14).map(|n| (Ink::kind(n).hex(), Mark::kind(n))).collect();
        assert_eq!(looks.len(), 14);
        let all: Vec<PlotLine> =
            (1..=8).map(|n| PlotLine::new(&n.to_string(), vec![(1.0, f64::from(n), None)])).collect();
        let sheet = lines(&all, &[(1.0, "1".to_owned())], LineAxes::with_title("nodes"), |value| value.to_string());
        assert!(sheet.inline("x").0.contains("<polygon"), "no point has corners");
    }

    #[test]
    fn axis_ends_at_maximum() {
        assert!(highest_tick(f64::INFINITY) > 1.0);
        assert!((highest_tick(1.0) - 1.0).abs() < 1e-9);
    }
}
