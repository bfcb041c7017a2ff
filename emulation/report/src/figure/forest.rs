//! Ratios with their intervals, below each other: left of the line B has less, right of it more.

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, cut_to, width_of};
use super::ink::Ink;
use super::scale::AxisScale;
use crate::compare::{ComparisonFinding, ComparisonRow};
use crate::text_format::three;

const ROW: f64 = 24.0;
const MAX_NAMES: f64 = 190.0;
/// Ratios beyond this, or below its reciprocal, are drawn at the edge.
const EDGE: f64 = 10.0;

pub(crate) fn forest(rows: &[&ComparisonRow]) -> Sheet {
    let name = |row: &ComparisonRow| cut_to(&row.measure.name, WORDS, MAX_NAMES);
    let widest = |texts: &mut dyn Iterator<Item = String>| texts.map(|text| width_of(&text, WORDS)).fold(0.0, f64::max);
    let left = widest(&mut rows.iter().map(|row| name(row))) + 14.0;
    let right = WIDTH - widest(&mut rows.iter().map(|row| row.ratio_text())) - 14.0;
    let (top, bottom) = (6.0, 6.0 + rows.len() as f64 * ROW);
    let reach = reach(rows);
    let x = AxisScale::logarithmic(1.0 / reach, reach, left, right);
    Canvas::sheet(bottom + 40.0, |canvas| {
        let mut free_from = f64::NEG_INFINITY;
        for tick in x.ticks(5) {
            let (at, half) = (x.at(tick), width_of(&three(tick), WORDS) / 2.0);
            if at - half > free_from {
                canvas.line(&[(at, top), (at, bottom)], Ink::Rule, 0.8);
                canvas.words(&three(tick), (at, bottom + 11.0), TextAnchor::Middle, Ink::Muted);
                free_from = at + half + 4.0;
            }
        }
        canvas.line(&[(x.at(1.0), top), (x.at(1.0), bottom + 3.0)], Ink::Text, 1.2);
        canvas.words("← B less", (x.at(1.0) - 8.0, bottom + 28.0), TextAnchor::Left, Ink::Muted);
        canvas.words("B more →", (x.at(1.0) + 8.0, bottom + 28.0), TextAnchor::Right, Ink::Muted);
        for (index, row) in rows.iter().enumerate() {
            let y = top + (index as f64 + 0.5) * ROW;
            canvas.words(&name(row), (left - 12.0, y), TextAnchor::Left, Ink::Text);
            draw(canvas, row, &x, y);
            canvas.words(&row.ratio_text(), (right + 12.0, y), TextAnchor::Right, Ink::Text);
        }
    })
}

fn draw(canvas: &mut Canvas<'_>, row: &ComparisonRow, x: &AxisScale, y: f64) {
    let Some(ratio) = row.ratio else { return };
    let ink = match row.finding() {
        ComparisonFinding::Better => Ink::Blue,
        ComparisonFinding::Worse => Ink::Vermilion,
        ComparisonFinding::More | ComparisonFinding::Less => Ink::Text,
        ComparisonFinding::Inconclusive | ComparisonFinding::Unknown | ComparisonFinding::TooFewRequests => Ink::Gray,
    };
    if let Some(interval) = row.interval {
        canvas.line(&[(x.at(interval.low), y), (x.at(interval.high), y)], ink, 3.0);
    }
    canvas.dot((x.at(ratio), y), 4.2, ink);
}

/// The largest ratio of the axis: a little more than the largest one drawn.
fn reach(rows: &[&ComparisonRow]) -> f64 {
    let drawn = rows.iter().flat_map(|row| [row.ratio, row.interval.map(|i| i.low), row.interval.map(|i| i.high)]);
    let far = |value: f64| if value > 0.0 { value.max(1.0 / value) } else { 1.0 };
    let farthest = drawn.flatten().filter(|value| value.is_finite()).map(far).fold(1.0, f64::max);
    (farthest * 1.08).clamp(1.25, EDGE)
}
