//! The experiments of Sproull, Lockwood and Meier 2007, section 4.

mod bottleneck;
mod caching;
mod limit;
mod overhead;
mod sensitivity;
mod star;
mod tree;

use super::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use super::estimate::Estimator;
use super::study::{Study, StudyScale, StudyUnit};

pub(super) const CLIENT_SERVER: &str = "client/server";
pub(super) const ONE: &str = "1 super node";

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
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

/// A claim on the ratio of a measure of two lines at one position.
pub(super) struct Ratio<'a> {
    pub(super) id: &'a str,
    pub(super) figure: &'static str,
    pub(super) sentence: String,
    pub(super) says: PaperStatement,
    pub(super) measure: &'a str,
    pub(super) of: &'a str,
    pub(super) to: &'a str,
    pub(super) x: f64,
    pub(super) holds: Band,
    pub(super) better: PreferredAmount,
    pub(super) why: &'static str,
}

impl Ratio<'_> {
    pub(super) fn claim(self) -> Claim {
        let Self { id, figure, sentence, says, measure, of, to, x, holds, better, why } = self;
        let ours = Estimator::Ratio(MeasureKey::new(of, x, measure), MeasureKey::new(to, x, measure));
        Claim { id: id.to_owned(), figure, sentence, says, ours, unit: StudyUnit::Times, holds, better, why }
    }
}
