//! The experiments of Sproull, Lockwood and Meier 2007, section 4.

mod bottleneck;
mod overhead;
mod star;
mod tree;

use super::claim::{At, Claim, Estimator};
use super::study::{Scale, Study, Unit};

/// What client/server is called in figures.
pub(super) const CLIENT_SERVER: &str = "client/server";
/// What peer to peer with one super node is called.
pub(super) const ONE: &str = "1 super node";

/// All of them.
pub(super) fn studies(scale: Scale) -> Vec<Study> {
    vec![
        bottleneck::delay(scale),
        bottleneck::rate(scale),
        overhead::study(scale),
        star::study(scale),
        tree::study(scale),
    ]
}

/// The text of a plan: its network as TOML's inline table, its architecture, and more lines.
fn plan(name: &str, network: &str, architecture: &str, duration: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\ntopology = {network}\narchitecture = \"{architecture}\"\nduration = \"{duration}\"\n{more}"
    )
}

/// A claim on a ratio of one measure of two lines at one place.
struct Ratio<'a> {
    id: &'a str,
    figure: &'static str,
    sentence: String,
    seed: &'static str,
    measure: &'a str,
    of: &'a str,
    to: &'a str,
    x: f64,
    size: (f64, f64),
    direction: (f64, f64),
    why: &'static str,
}

impl Ratio<'_> {
    fn claim(self) -> Claim {
        let Self { id, figure, sentence, seed, measure, of, to, x, size, direction, why } = self;
        let ours = Estimator::Ratio(At::new(of, x, measure), At::new(to, x, measure));
        Claim { id: id.to_owned(), figure, sentence, seed, ours, unit: Unit::Times, size, direction, why }
    }
}

/// From this on.
const fn from(low: f64) -> (f64, f64) {
    (low, f64::INFINITY)
}

/// Up to this.
const fn to(high: f64) -> (f64, f64) {
    (0.0, high)
}
