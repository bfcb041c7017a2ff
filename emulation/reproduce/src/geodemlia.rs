//! The hierarchy beside a geographic DHT under churn, after Gross et al. 2012 (Geodemlia).
//!
//! Only the paper's abstract was at hand. Its tree is Globase.KOM; here the hierarchy of super nodes that come
//! and go as nodes do stands for it.

use std::time::Duration;

use roost_dht::DhtSettings;
use roost_sim::areas::{AreaFigures, AreaSettings, AreaSystem};

use super::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use super::estimate::Estimator;
use super::measures::Measures;
use super::study::{Paper, Plot, RunMethod, Study, StudyPoint, StudyScale, StudyUnit, plot};

const DHT: &str = "geographic DHT";
const STABLE: &str = "super nodes";
const CHURNING: &str = "super nodes die";
const ABSTRACT: &str = "abstract";

/// The middle of each axis, at which the others are varied.
const NODES: u32 = 1_000;
const RADIUS: u32 = 4;
const MINUTES: u32 = 10;
/// The lives at which the paper's statements are tested: above them both systems find nearly all.
const SHORT: u32 = 2;
/// More nodes are inside than an answer of the hierarchy names.
const WIDE: u32 = 16;

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    vec![churn(scale), nodes(scale), radius(scale)]
}

#[derive(Clone, Copy, Debug)]
struct Place {
    nodes: u32,
    radius: u32,
    minutes: u32,
}

impl Place {
    const fn middle(scale: StudyScale) -> Self {
        Self { nodes: if scale.is_quick { 300 } else { NODES }, radius: RADIUS, minutes: MINUTES }
    }

    /// The three systems at this position, which is at `x` of the axis.
    fn points(self, x: u32, scale: StudyScale) -> Vec<StudyPoint> {
        let systems = [
            (DHT, AreaSystem::Dht(DhtSettings::default())),
            (STABLE, AreaSystem::SuperNodes),
            (CHURNING, AreaSystem::ChurningSuperNodes),
        ];
        let point = |(series, system): (&str, AreaSystem)| {
            let settings = AreaSettings {
                system,
                nodes: self.nodes as usize,
                radius: self.radius,
                session: Duration::from_secs(u64::from(self.minutes) * 60),
                length: Duration::from_secs(if scale.is_quick { 120 } else { 300 }),
                seed: 0,
            };
            let point = StudyPoint::virtual_run(series, f64::from(x), String::new(), scale);
            StudyPoint { make: RunMethod::Areas(settings), name: x.to_string(), ..point }.on_logarithmic_axis()
        };
        systems.into_iter().map(point).collect()
    }
}

fn churn(scale: StudyScale) -> Study {
    let sessions: Vec<u32> = scale.places(&[1, 2, 5, 10, 30, 60], &[2, 10, 60]);
    let middle = Place::middle(scale);
    let points = sessions.iter().flat_map(|minutes| Place { minutes: *minutes, ..middle }.points(*minutes, scale));
    Study {
        id: "geodemlia-churn",
        title: "Searches in areas while nodes come and go",
        about: "A forest of a thousand nodes (300 in a quick study). Each node dies without a word after an exponential \
                time and starts again after a third of it on average. Each searches once a minute for all that is within \
                4 cells: half of the times around a cell that is at most 8 cells away from it in each direction, else \
                around any node. The super nodes stay, or they die and start like nodes.",
        axis: "mean time from start to death, minutes",
        points: points.collect(),
        claims: [papers(f64::from(SHORT)), aims(f64::from(MINUTES))].concat(),
        ..empty(Vec::new())
    }
}

fn nodes(scale: StudyScale) -> Study {
    let sizes: Vec<u32> = scale.places(&[250, 500, 1_000, 2_000], &[150, 300]);
    let middle = Place::middle(scale);
    let largest = sizes.iter().copied().max().map_or(1.0, f64::from);
    let smallest = sizes.iter().copied().min().map_or(1.0, f64::from);
    let points = sizes.iter().flat_map(|nodes| Place { nodes: *nodes, ..middle }.points(*nodes, scale));
    let growth = |series: &'static str, id: &str, sentence: &str| {
        let at = |x| MeasureKey::new(series, x, "node.rate");
        let ours = Estimator::Ratio(at(largest), at(smallest));
        Claim::aim(id, sentence, "at most 1.5 ×", ours).within(StudyUnit::Times, Band::Below(1.5))
    };
    Study {
        id: "geodemlia-nodes",
        title: "The same with more nodes",
        about: "As above with a mean of ten minutes from start to death, in forests of other sizes.",
        axis: "nodes",
        points: points.collect(),
        claims: vec![
            growth(
                STABLE,
                "geodemlia-nodes-hierarchy",
                "For each node the hierarchy sends no more than half as much again in the largest network as in the \
                 smallest.",
            ),
            growth(DHT, "geodemlia-nodes-dht", "And so does the DHT."),
        ],
        ..empty(Vec::new())
    }
}

fn radius(scale: StudyScale) -> Study {
    let radii: Vec<u32> = scale.places(&[1, 2, 4, 8, WIDE], &[2, 4, WIDE]);
    let middle = Place::middle(scale);
    let points = radii.iter().flat_map(|radius| Place { radius: *radius, ..middle }.points(*radius, scale));
    Study {
        id: "geodemlia-radius",
        title: "The same with other radii",
        about: "As above with a mean of ten minutes from start to death. An answer of the hierarchy names at most 64 \
                providers; of a circle of 16 cells that is a part.",
        axis: "radius of searches, cells",
        points: points.collect(),
        claims: vec![
            Claim::aim(
                "geodemlia-radius-recall",
                "Within 16 cells the hierarchy finds as many nodes as the DHT.",
                "at least 1 ×",
                Estimator::ratio("recall", STABLE, DHT, f64::from(WIDE)),
            )
            .within(StudyUnit::Times, Band::Above(1.0))
            .because("An answer of the hierarchy names at most 64 providers, the nearest first."),
            Claim::aim(
                "geodemlia-radius-bytes",
                "And each of its searches there costs no more bytes.",
                "at most 1 ×",
                Estimator::ratio("search.bytes", STABLE, DHT, f64::from(WIDE)),
            )
            .within(StudyUnit::Times, Band::Below(1.0)),
        ],
        ..empty(Vec::new())
    }
}

fn empty(claims: Vec<Claim>) -> Study {
    Study {
        id: "",
        paper: Paper::Gross,
        title: "",
        about: "",
        inferred: vec![
            "Of the paper only the abstract was at hand: its definitions, its figures and its parameters are not known.",
            "The tree of the paper is Globase.KOM. Here the super nodes of Roost that come and go stand for it, so the \
             paper's figures are compared with another tree.",
            "The DHT has four directions, rings of doubling distance, four contacts in each bucket and as many spare \
             ones; three questions on their way at once outside of an area and sixteen inside; half a second until a \
             node that does not answer counts as gone; and a bucket that is refreshed every ten seconds.",
            "Lives are exponential. No trace of Twitter decides who searches where.",
            "A search succeeds if it finds a node that is there. Its recall is of the nodes that are there from its \
             begin to its end. Times until the answer are of searches that succeed. Searches whose own node dies do not \
             count.",
            "The hierarchy proves identities and encrypts at its own cost. The DHT does neither, and its messages have \
             no room for it.",
        ],
        axis: "",
        has_kinds: false,
        points: Vec::new(),
        plots: plots(),
        claims,
    }
}

fn plots() -> Vec<Plot> {
    let plot = |title, measure, unit| plot("", title, measure, unit);
    vec![
        plot("Searches that found something", "success", StudyUnit::Part),
        plot("Recall: the part of the nodes inside that was found", "recall", StudyUnit::Part),
        plot("Searches that found all", "whole", StudyUnit::Part),
        plot("Found, but gone", "stale", StudyUnit::Part),
        plot("Until the answer of searches that found something, mean", "answer.mean", StudyUnit::Ms),
        plot("Until the answer of searches that found something, 95th percentile", "answer.p95", StudyUnit::Ms),
        plot("Sent in a second for each node, with headers", "node.rate", StudyUnit::Bytes),
        plot("The busiest machine, in a second", "busiest.rate", StudyUnit::Bytes),
        plot("Messages of a search", "search.messages", StudyUnit::Count),
        plot("Bytes of a search, without headers", "search.bytes", StudyUnit::Bytes),
    ]
}

/// The statements of the abstract on Geodemlia and the tree.
fn papers(x: f64) -> Vec<Claim> {
    const WHY: &str = "The tree is another one: its nodes have a standby hub and find a new home within seconds.";
    let claim = |id: &str, sentence: &str, says: PaperStatement, measure: &str| Claim {
        id: id.to_owned(),
        figure: ABSTRACT,
        sentence: sentence.to_owned(),
        says,
        ours: Estimator::ratio(measure, DHT, CHURNING, x),
        unit: StudyUnit::Change,
        holds: Band::Above(1.0),
        better: PreferredAmount::Neither,
        why: WHY,
    };
    vec![
        claim(
            "geodemlia-success",
            "The DHT succeeds more often than a tree (here: super nodes that come and go).",
            PaperStatement::exactly("46 % better on average", 1.46),
            "success",
        ),
        claim(
            "geodemlia-recall",
            "And it finds more of what is there.",
            PaperStatement::exactly("18 % better on average", 1.18),
            "recall",
        ),
        claim(
            "geodemlia-traffic",
            "It takes more traffic for each node: the paper's 13 bytes a second more.",
            PaperStatement::Direction("more"),
            "node.rate",
        ),
        claim(
            "geodemlia-response",
            "It answers later: by the paper's 0.2 s.",
            PaperStatement::Direction("later"),
            "answer.mean",
        ),
    ]
}

fn aims(x: f64) -> Vec<Claim> {
    [aims_of_stable(x), aims_of_churning(x)].concat()
}

/// The aims of super nodes that stay.
fn aims_of_stable(x: f64) -> Vec<Claim> {
    let at = |measure: &str| MeasureKey::new(STABLE, x, measure);
    vec![
        Claim::aim(
            "geodemlia-busiest",
            "The busiest super node carries no more than ten times what the busiest node of the DHT does.",
            "at most 10 ×",
            Estimator::ratio("busiest.rate", STABLE, DHT, x),
        )
        .within(StudyUnit::Times, Band::Below(10.0))
        .because("A home carries the searches and the registrations of its hundred nodes."),
        Claim::aim(
            "geodemlia-stale",
            "Of what the hierarchy finds no more than 1 % is gone, though nodes live for ten minutes only.",
            "1 %",
            Estimator::Mean(at("stale")),
        )
        .within(StudyUnit::Part, Band::Below(0.01))
        .because("A node that dies without a word is in the directory until its lease ends or a probe fails."),
        Claim::aim(
            "geodemlia-stable-success",
            "With super nodes that stay, 99 of 100 searches find something.",
            "99 %",
            Estimator::Share { part: at("success"), of: "searches" },
        )
        .within(StudyUnit::Part, Band::Above(0.99)),
        Claim::aim(
            "geodemlia-stable-recall",
            "And they find 95 % of what is there.",
            "95 %",
            Estimator::Mean(at("recall")),
        )
        .within(StudyUnit::Part, Band::Above(0.95)),
    ]
}

fn aims_of_churning(x: f64) -> Vec<Claim> {
    let claim = Claim::aim(
        "geodemlia-churning-recall",
        "With super nodes that come and go as nodes do, too, the hierarchy finds as much as the DHT.",
        "at least 1 ×",
        Estimator::ratio("recall", CHURNING, DHT, x),
    );
    vec![claim.within(StudyUnit::Times, Band::Above(1.0))]
}

/// The figures of a run, by name.
pub(super) fn measures(figures: &AreaFigures) -> Measures {
    let all = [
        ("searches", figures.searches as f64),
        ("success", figures.success),
        ("recall", figures.recall),
        ("whole", figures.whole),
        ("stale", figures.stale),
        ("inside", figures.inside),
        ("answer.mean", figures.mean_ms),
        ("answer.p50", figures.p50_ms),
        ("answer.p95", figures.p95_ms),
        ("search.messages", figures.messages),
        ("search.bytes", figures.bytes),
        ("node.rate", figures.node_bytes_s),
        ("busiest.rate", figures.busiest_bytes_s),
        ("online", figures.online),
    ];
    all.into_iter().filter(|(_, value)| value.is_finite()).map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::tests::drawn_and_claimed;

    #[test]
    fn run_has_drawn_and_claimed_measures() {
        let session = Duration::from_secs(600);
        let length = Duration::from_secs(60);
        let settings = AreaSettings { system: AreaSystem::SuperNodes, nodes: 100, radius: 4, session, length, seed: 1 };
        let figures = roost_sim::areas::measure(&settings).unwrap();
        let measures = measures(&figures);
        for study in studies(StudyScale::new(true, None)) {
            for name in drawn_and_claimed(&study) {
                assert!(measures.contains_key(name), "{name} is not among {measures:?}");
            }
        }
    }
}
