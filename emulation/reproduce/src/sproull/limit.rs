//! The distance of the first byte from its lower bound.

use super::{ONE, plan};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Study, StudyPoint, StudyScale, StudyUnit, plot};

/// The networks and their numbers of nodes.
const NETWORKS: [(&str, &str, f64); 4] = [
    ("star of 11", "{ star = { nodes = 11 } }", 1.0),
    ("tree of 11", "{ tree = { nodes = 11 } }", 2.0),
    ("tree of 31", "{ tree = { nodes = 31 } }", 3.0),
    ("tree of 92", "{ tree = { nodes = 92 } }", 4.0),
];
/// So little data that packets rarely queue, and so many requests that connections between nodes stay up.
const QUIET: &str = "warm_up = \"5m\"\nidle = \"2s\"\nstream = \"1s\"\n";

/// The limit, approached by undisturbed requests.
pub(super) fn study(scale: StudyScale) -> Study {
    let point = |(name, network, x): (&str, &str, f64)| {
        let classes: String = ["star", "low", "tactical", "x45"]
            .iter()
            .filter(|class| network.contains("tree") != (**class == "star"))
            .map(|class| format!("[classes.{class}]\nmix = {{ track = 48, sensor = 5, image = 2, idle = 45 }}\n"))
            .collect();
        let text = plan("sproull-limit", network, "super-node", scale.duration(), &format!("{QUIET}{classes}"));
        StudyPoint::virtual_run(ONE, x, text, scale).named(name)
    };
    let networks = scale.places(&NETWORKS, &NETWORKS[..3]);
    let claim = |(name, _, x): &(&str, &str, f64)| Claim {
        id: format!("sproull-limit-{}", name.replace(' ', "-")),
        figure: "the limit",
        sentence: format!(
            "Of warm requests that nothing is in the way of, 95 of 100 have the first byte of a track \
                           within 15 % of the least time that distance and rates leave: {name}."
        ),
        says: PaperStatement::Nothing("1.15 × at most"),
        ours: Estimator::Mean(MeasureKey::new(ONE, *x, "track.excess.p95")),
        unit: StudyUnit::Times,
        holds: Band::Below(1.15),
        better: PreferredAmount::Less,
        why: "Some requests meet one another on the way.",
    };
    let plot = |title, measure| plot("", title, measure, StudyUnit::Times);
    Study {
        id: "sproull-limit",
        paper: Paper::Sproull,
        title: "How near to the limit",
        about: "The published networks with one super node. Nodes ask for tracks of one second above all, which leave \
                links free, and have asked for five minutes before, so that most know one another. A first byte is \
                held against the least time that propagation and serialisation leave for its very requester and \
                provider.",
        inferred: vec!["The seed has no such figure: it is what is to be reached here."],
        axis: "network",
        has_kinds: true,
        points: networks.iter().copied().map(point).collect(),
        plots: vec![
            plot("Track: first byte over its limit, median", "track.excess.p50"),
            plot("Track: first byte over its limit, 95th percentile", "track.excess.p95"),
            plot("Sensor: first byte over its limit, 95th percentile", "sensor.excess.p95"),
            plot("Image: first byte over its limit, 95th percentile", "image.excess.p95"),
        ],
        claims: networks.iter().map(claim).collect(),
    }
}
