//! The experiments of Sproull, Lockwood and Meier 2007, section 4.

mod bottleneck;
mod caching;
mod limit;
mod overhead;
mod sensitivity;
mod star;
mod tree;

use super::study::{Study, StudyScale};

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
