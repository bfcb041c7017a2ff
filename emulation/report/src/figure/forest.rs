//! Ratios with their intervals, below each other: left of the line B has less, right of it more.

use roost_drawing::Spot;

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, cut_to, width_of, wrapped};
use super::ink::Ink;
use super::scale::AxisScale;
use crate::compare::{ComparisonFinding, ComparisonRow};
use crate::text_format::three;

const ROW: f64 = 24.0;
/// The height of a line of a name that needs several.
const NAME_LINE: f64 = 15.0;
const MAX_NAMES: f64 = 160.0;
/// Ratios beyond this, or below its reciprocal, are arrows at the edge.
const EDGE: f64 = 1e5;
/// The most that an interval which leaves its ratio open widens the axis to either side.
const OPEN_REACH: f64 = 10.0;
/// The least reach of an axis to either side of 1.
const LEAST_REACH: f64 = 1.25;
/// The least part of the longer side that the shorter one has, so that 1 is not at the rim.
const LEAST_SIDE: f64 = 0.2;

/// A row with the lines of its name and its place.
struct ForestRow<'a> {
    row: &'a ComparisonRow,
    name: Vec<String>,
    y: f64,
}

pub(crate) fn forest(rows: &[&ComparisonRow]) -> Sheet {
    let widest = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| width_of(text, WORDS)).fold(0.0, f64::max);
    let top = 6.0;
    let (rows, bottom) = placed(rows, top);
    let left = widest(&mut rows.iter().flat_map(|row| &row.name)) + 14.0;
    let ratios: Vec<String> = rows.iter().map(|row| row.row.ratio_text()).collect();
    let right = WIDTH - widest(&mut ratios.iter()) - 14.0;
    let (low, high) = reach(&rows);
    let x = AxisScale::logarithmic(low, high, left, right);
    Canvas::sheet(bottom + 40.0, |canvas| {
        draw_axis(canvas, &x, top, bottom);
        for (ForestRow { row, name, y }, ratio) in rows.iter().zip(&ratios) {
            let first = y - (name.len() - 1) as f64 * NAME_LINE / 2.0;
            for (line, text) in name.iter().enumerate() {
                let middle = first + line as f64 * NAME_LINE;
                canvas.words(text, (left - 12.0, middle), TextAnchor::Left, Ink::Text);
            }
            draw(canvas, row, &x, *y);
            canvas.words(ratio, (right + 12.0, *y), TextAnchor::Right, Ink::Text);
        }
    })
}

/// The rows below each other from `top` on, and the end of the last one.
fn placed<'a>(rows: &[&'a ComparisonRow], top: f64) -> (Vec<ForestRow<'a>>, f64) {
    let mut bottom = top;
    let mut place = |row: &&'a ComparisonRow| {
        let lines = wrapped(&row.measure.name, WORDS, MAX_NAMES);
        let name: Vec<String> = lines.iter().map(|line| cut_to(line, WORDS, MAX_NAMES)).collect();
        let height = (name.len() as f64 * NAME_LINE + 6.0).max(ROW);
        bottom += height;
        ForestRow { row, name, y: bottom - height / 2.0 }
    };
    (rows.iter().map(&mut place).collect(), bottom)
}

fn draw_axis(canvas: &mut Canvas<'_>, x: &AxisScale, top: f64, bottom: f64) {
    let mut free_from = f64::NEG_INFINITY;
    for tick in x.ticks(5) {
        let (at, half) = (x.at(tick), width_of(&three(tick), WORDS) / 2.0);
        if at - half > free_from {
            canvas.line(&[(at, top), (at, bottom)], Ink::Rule, 0.8);
            canvas.words(&three(tick), (at, bottom + 11.0), TextAnchor::Middle, Ink::Muted);
            free_from = at + half + 4.0;
        }
    }
    let one = x.at(1.0);
    canvas.line(&[(one, top), (one, bottom + 3.0)], Ink::Text, 1.2);
    canvas.words("← B less", (one - 8.0, bottom + 28.0), TextAnchor::Left, Ink::Muted);
    canvas.words("B more →", (one + 8.0, bottom + 28.0), TextAnchor::Right, Ink::Muted);
}

fn draw(canvas: &mut Canvas<'_>, row: &ComparisonRow, x: &AxisScale, y: f64) {
    let Some(ratio) = row.ratio else { return };
    let ink = match row.finding() {
        ComparisonFinding::Better => Ink::Blue,
        ComparisonFinding::Worse => Ink::Vermilion,
        ComparisonFinding::More | ComparisonFinding::Less => Ink::Text,
        ComparisonFinding::Inconclusive | ComparisonFinding::Unknown | ComparisonFinding::TooFewRequests => Ink::Gray,
    };
    let ends = row.interval.map_or([ratio; 2], |interval| [interval.low, interval.high]);
    if row.interval.is_some() {
        canvas.line(&ends.map(|end| (x.at(end), y)), ink, 3.0);
    }
    if (1.0 / EDGE..=EDGE).contains(&ratio) {
        canvas.dot((x.at(ratio), y), 4.2, ink);
    }
    let [low, high] = x.ends();
    if ends[0] < low {
        draw_arrow(canvas, Spot { x: x.at(0.0), y }, -8.0, ink);
    }
    if ends[1] > high {
        draw_arrow(canvas, Spot { x: x.at(f64::INFINITY), y }, 8.0, ink);
    }
}

/// An arrow at an edge, to what lies beyond.
fn draw_arrow(canvas: &mut Canvas<'_>, Spot { x, y }: Spot, length: f64, ink: Ink) {
    canvas.shape(&[(x, y - 5.0), (x + length, y), (x, y + 5.0)], ink, 1.0);
}

/// The ends of the axis: a little beyond all ratios and intervals, with 1 between them. A wide interval that leaves a
/// ratio open does not press the others together: it ends in arrows.
fn reach(rows: &[ForestRow<'_>]) -> (f64, f64) {
    let drawn = |ForestRow { row, .. }: &ForestRow<'_>| {
        let far = if row.finding() == ComparisonFinding::Inconclusive { OPEN_REACH } else { EDGE };
        let ends = row.interval.into_iter().flat_map(|interval| [interval.low, interval.high]);
        ends.map(move |end| end.clamp(1.0 / far, far)).chain(row.ratio).collect::<Vec<_>>()
    };
    let drawn = || rows.iter().flat_map(drawn).map(|value| value.clamp(1.0 / EDGE, EDGE));
    let below = (1.08 / drawn().fold(1.0, f64::min)).max(LEAST_REACH).ln();
    let above = (drawn().fold(1.0, f64::max) * 1.08).max(LEAST_REACH).ln();
    let least = below.max(above) * LEAST_SIDE;
    ((-below.max(least)).exp(), above.max(least).exp())
}

#[cfg(test)]
mod tests {
    use roost_statistics::{Method, RatioInterval};

    use super::*;
    use crate::measure::{Measure, MeasureDirection, MeasureKind, MeasureUnit};

    fn row(name: &str, ratio: f64, interval: Option<[f64; 2]>) -> ComparisonRow {
        let measure = Measure {
            kind: MeasureKind::Overhead,
            name: name.to_owned(),
            unit: MeasureUnit::Bytes,
            better: MeasureDirection::Lower,
            few: false,
        };
        let interval = interval.map(|[low, high]| RatioInterval { ratio, low, high, method: Method::Welch });
        ComparisonRow { cell: String::new(), measure, a: 1.0, b: ratio, ratio: Some(ratio), interval }
    }

    /// The places of all circles from left to right, without those of their rims.
    fn dots(rows: &[&ComparisonRow]) -> Vec<i32> {
        let text = forest(rows).inline("x").0;
        let places = text.split("<circle cx=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap());
        places.step_by(2).collect()
    }

    #[test]
    fn axis_reaches_small_ratios() {
        let rows = [row("a", 0.00466, Some([0.00357, 0.00608])), row("b", 0.017, None), row("c", 0.079, None)];
        let found = dots(&rows.each_ref());
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] > 100), "{found:?}");
        let (low, high) = reach(&placed(&rows.each_ref(), 0.0).0);
        assert!(low < 0.00357 && high > LEAST_REACH, "{low} {high}");
    }

    #[test]
    fn open_interval_ends_in_arrows() {
        let rows = [row("a", 2.29, Some([0.038, 137.0])), row("b", 0.5, Some([0.4, 0.6]))];
        let svg = forest(&rows.each_ref()).inline("x").0;
        assert_eq!(svg.matches("<polygon").count(), 2);
        assert!(svg.contains("\n0.1\n") && !svg.contains("\n100\n"), "{svg}");
    }

    #[test]
    fn ratio_beyond_edge_is_arrow() {
        let shapes = |ratio| forest(&[&row("a", ratio, None)]).inline("x").0.matches("<polygon").count();
        assert_eq!([shapes(1e-9), shapes(1e9), shapes(2.0)], [1, 1, 0]);
        assert!(dots(&[&row("a", 1e-9, None)]).is_empty());
    }

    #[test]
    fn long_names_are_wrapped() {
        let text = forest(&[&row("overhead per service: data beyond delivery", 2.0, None)]).inline("x").0;
        assert!(!text.contains('…') && text.contains("delivery") && text.contains("overhead"), "{text}");
    }
}
