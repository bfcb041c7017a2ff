//! The experiments of Sproull, Lockwood and Meier 2007, section 4.

mod bottleneck;
mod caching;
mod limit;
mod overhead;
mod sensitivity;
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
        caching::study(scale),
        limit::study(scale),
        sensitivity::streams(scale),
        sensitivity::shapes(scale),
        sensitivity::queues(scale),
    ]
}

/// The text of a plan: its network as TOML's inline table, its architecture, and more lines.
pub(super) fn plan(name: &str, network: &str, architecture: &str, duration: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\ntopology = {network}\narchitecture = \"{architecture}\"\nduration = \"{duration}\"\n{more}"
    )
}

/// A claim on a ratio of one measure of two lines at one place.
pub(super) struct Ratio<'a> {
    pub(super) id: &'a str,
    pub(super) figure: &'static str,
    pub(super) sentence: String,
    pub(super) seed: &'static str,
    pub(super) measure: &'a str,
    pub(super) of: &'a str,
    pub(super) to: &'a str,
    pub(super) x: f64,
    pub(super) size: (f64, f64),
    pub(super) direction: (f64, f64),
    pub(super) why: &'static str,
}

impl Ratio<'_> {
    pub(super) fn claim(self) -> Claim {
        let Self { id, figure, sentence, seed, measure, of, to, x, size, direction, why } = self;
        let ours = Estimator::Ratio(At::new(of, x, measure), At::new(to, x, measure));
        Claim { id: id.to_owned(), figure, sentence, seed, ours, unit: Unit::Times, size, direction, why }
    }
}

/// From this on.
pub(super) const fn from(low: f64) -> (f64, f64) {
    (low, f64::INFINITY)
}

/// Up to this.
pub(super) const fn to(high: f64) -> (f64, f64) {
    (0.0, high)
}
