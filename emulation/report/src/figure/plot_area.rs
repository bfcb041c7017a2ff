//! The area between the axes.

use super::canvas::{Canvas, TextAnchor};
use super::ink::Ink;
use super::scale::AxisScale;

/// The area between the axes, with their scales.
pub(super) struct PlotArea {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: AxisScale,
    pub(super) y: AxisScale,
}

impl PlotArea {
    /// Draws horizontal lines with their values on the left.
    pub(super) fn rows(&self, canvas: &mut Canvas<'_>, wanted: usize, name: impl Fn(f64) -> String) {
        for tick in self.y.ticks(wanted) {
            let y = self.y.at(tick);
            canvas.line(&[(self.left, y), (self.right, y)], Ink::Rule, 0.8);
            canvas.words(&name(tick), (self.left - 7.0, y), TextAnchor::Left, Ink::Muted);
        }
    }

    /// Draws values below the area, each with a tick; the unit stands at the end of the line below.
    pub(super) fn columns(&self, canvas: &mut Canvas<'_>, wanted: usize, name: impl Fn(f64) -> String, title: &str) {
        canvas.line(&[(self.left, self.bottom), (self.right, self.bottom)], Ink::Muted, 1.0);
        for tick in self.x.ticks(wanted) {
            let x = self.x.at(tick);
            canvas.line(&[(x, self.bottom), (x, self.bottom + 4.0)], Ink::Muted, 1.0);
            canvas.words(&name(tick), (x, self.bottom + 14.0), TextAnchor::Middle, Ink::Muted);
        }
        canvas.words(title, (self.right, self.bottom + 31.0), TextAnchor::Left, Ink::Muted);
    }
}
