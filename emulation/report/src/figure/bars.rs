//! Horizontal bars: names on the left, values on the right, no axis needed.

use super::canvas::{Canvas, Sheet, TextAnchor, WIDTH, WORDS, cut_to, width_of};
use super::ink::Ink;
use super::key::FigureKey;

const ROW: f64 = 27.0;
const BAR: f64 = 15.0;
const MAX_NAMES: f64 = 180.0;

pub struct FigureBar {
    pub name: String,
    /// The parts from the left: length and ink.
    pub parts: Vec<(f64, Ink)>,
    pub value: String,
}

/// Draws the bars below each other; `key` names the inks of their parts, if there are several.
pub fn bars(bars: &[FigureBar], key: &[(String, Ink)]) -> Sheet {
    let key = FigureKey::new(key.to_vec());
    let top = key.height() + 4.0;
    let height = top + bars.len() as f64 * ROW + 2.0;
    let widest = |text: fn(&FigureBar) -> &str| bars.iter().map(|bar| width_of(text(bar), WORDS)).fold(0.0, f64::max);
    let left = widest(|bar| &bar.name).min(MAX_NAMES) + 10.0;
    let right = WIDTH - widest(|bar| &bar.value) - 10.0;
    let longest = bars.iter().map(FigureBar::total).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    Canvas::sheet(height, |canvas| {
        key.draw(canvas, 0.0);
        for (index, bar) in bars.iter().enumerate() {
            let middle = top + (index as f64 + 0.5) * ROW;
            canvas.words(&cut_to(&bar.name, WORDS, MAX_NAMES), (left - 10.0, middle), TextAnchor::Left, Ink::Text);
            canvas.rectangle((left, middle - BAR / 2.0), (right, middle + BAR / 2.0), Ink::Trough);
            let mut from = left;
            for (length, ink) in &bar.parts {
                let to = from + (right - left) * length / longest;
                canvas.rectangle((from, middle - BAR / 2.0), (to, middle + BAR / 2.0), *ink);
                from = to;
            }
            canvas.words(&bar.value, (right + 10.0, middle), TextAnchor::Right, Ink::Text);
        }
    })
}

impl FigureBar {
    fn total(&self) -> f64 {
        self.parts.iter().map(|(length, _)| length).sum()
    }
}
