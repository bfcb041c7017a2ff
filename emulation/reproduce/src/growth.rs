//! Networks beyond the papers' sizes: claims of the design about a thousand and a hundred thousand nodes.

use roost_sim::growth::GrowthResult;

use super::claim::{Band, Claim, MeasureKey};
use super::estimate::Estimator;
use super::measures::Measures;
use super::study::{Paper, RunMethod, Study, StudyPoint, StudyScale, StudyUnit, plot};

const FOREST: &str = "forest";
/// The size with which all others are compared.
const SMALL: f64 = 1_000.0;
/// The distances of lookups and requests, as measures name them.
const DISTANCES: [&str; 3] = ["home", "near", "across"];
const TIERS: [&str; 3] = ["home", "middle", "top"];
/// Runs of this size take minutes and gigabytes each.
const MANY: u32 = 100_000;
const SEEDS_OF_MANY: u64 = 3;

pub(super) fn study(scale: StudyScale) -> Study {
    let sizes: Vec<u32> = scale.places(&[1_000, 10_000, MANY], &[1_000, 3_000]);
    let (moving_s, lookups) = if scale.is_quick { (60, 150) } else { (60, 200) };
    let largest = sizes.iter().copied().max().map_or(SMALL, f64::from);
    let point = |nodes: u32| {
        let point = StudyPoint::virtual_run(FOREST, f64::from(nodes), String::new(), scale);
        let seeds = if nodes < MANY { scale.seeds } else { scale.seeds.min(SEEDS_OF_MANY) };
        StudyPoint { make: RunMethod::Growth { nodes, moving_s, lookups }, seeds, name: nodes.to_string(), ..point }
            .on_logarithmic_axis()
    };
    let plot = |title, measure, unit| plot("", title, measure, unit);
    Study {
        id: "beyond-growth",
        paper: Paper::Beyond,
        title: "From a thousand nodes to a hundred thousand",
        about: "A hundred nodes behind each home, five homes behind each middle, up to four roots on one LAN; each hop up \
                takes 40, 40 and 20 ms, and 20 ms from root to root. Every node moves to the cell beside it once a minute \
                while uplinks are looked at; then nodes look for what is at their home, one tier up and across the top, \
                and request it.",
        inferred: vec![
            "All links are carried by one cheap session instead of the transports' own packets.",
            "A request is timed until its provider's acceptance is there, asked for again by a pair that has met.",
            "A hundred thousand nodes are in the full reproduction alone, with three seeds.",
        ],
        axis: "nodes",
        has_kinds: false,
        points: sizes.into_iter().map(point).collect(),
        plots: vec![
            plot("Lookup across the top, median", "lookup.across.p50", StudyUnit::Ms),
            plot("Request across the top until it is accepted, median", "request.across.p50", StudyUnit::Ms),
            plot("Request at home until it is accepted, median", "request.home.p50", StudyUnit::Ms),
            plot("Messages for a lookup across the top", "lookup.across.messages", StudyUnit::Count),
            plot("Bytes for a lookup across the top, without headers", "lookup.across.bytes", StudyUnit::Bytes),
            plot("What a home says to other super nodes, without headers", "home.says", StudyUnit::MbitS),
            plot("What a top says to other super nodes, without headers", "top.says", StudyUnit::MbitS),
            plot("Entries in a home's tables", "home.holds", StudyUnit::Count),
            plot("Entries in a top's tables", "top.holds", StudyUnit::Count),
        ],
        claims: [latency(largest), costs(largest)].concat(),
    }
}

/// A promise of the design, which no paper measured.
fn promise(id: &str, sentence: &str, aim: &'static str, ours: Estimator) -> Claim {
    Claim { figure: "the design", ..Claim::aim(id, sentence, aim, ours) }
}

fn at(nodes: f64, measure: &str) -> MeasureKey {
    MeasureKey::new(FOREST, nodes, measure)
}

fn growth(nodes: f64, measure: &str) -> Estimator {
    Estimator::Ratio(at(nodes, measure), at(SMALL, measure))
}

fn latency(largest: f64) -> Vec<Claim> {
    let excess = |measure| Estimator::Mean(at(largest, measure));
    vec![
        promise(
            "beyond-growth-found",
            "In the largest network, too, 99 of 100 lookups across the top find what they are for.",
            "99 %",
            Estimator::Share { part: at(largest, "lookup.across.found"), of: "lookup.across.asked" },
        )
        .within(StudyUnit::Part, Band::Above(0.99)),
        promise(
            "beyond-growth-lookup",
            "In the largest network, too, the median lookup across the top takes its hops' round trips and nothing else.",
            "1.00 ×",
            excess("lookup.across.excess"),
        )
        .within(StudyUnit::Times, Band::Below(1.05)),
        promise(
            "beyond-growth-request",
            "And the median request across the top takes its way there and back and nothing else.",
            "1.00 ×",
            excess("request.across.excess"),
        )
        .within(StudyUnit::Times, Band::Below(1.05))
        .because(
            "Super nodes have two parents and are announced to both. A lookup asks all ways at once, but a request takes \
             one of those that are as good by what is announced, and half of these lead by the second parent: with four \
             roots a round trip between two of them more. Built with one parent each, it takes 1.01 ×.",
        ),
        promise(
            "beyond-growth-home",
            "What is near stays as near: a request at home takes no longer in the largest network than in one of 1000 nodes.",
            "the same",
            growth(largest, "request.home.p50"),
        )
        .within(StudyUnit::Change, Band::Between(0.98, 1.02)),
    ]
}

fn costs(largest: f64) -> Vec<Claim> {
    vec![
        promise(
            "beyond-growth-messages",
            "A lookup across the top takes no more than half as many messages again in the largest network as in one of \
             1000 nodes.",
            "at most 1.5 ×",
            growth(largest, "lookup.across.messages"),
        )
        .within(StudyUnit::Times, Band::Below(1.5)),
        promise(
            "beyond-growth-uplink",
            "A home says no more than 1 kbit/s to other super nodes while its hundred nodes move once a minute.",
            "1 kbit/s",
            Estimator::Mean(at(largest, "home.says")),
        )
        .within(StudyUnit::MbitS, Band::Below(0.001)),
        promise(
            "beyond-growth-tables",
            "What a home holds does not grow with the network.",
            "the same",
            growth(largest, "home.holds"),
        )
        .within(StudyUnit::Change, Band::Below(1.05)),
        promise(
            "beyond-growth-top",
            "What a root holds grows no faster than the number of nodes: its entries for each node, over those in a network \
             of 1000.",
            "at most 1 ×",
            growth(largest, "top.holds.each"),
        )
        .within(StudyUnit::Times, Band::Below(1.0)),
    ]
}

/// The figures of a size, by name.
pub(super) fn measures(size: &GrowthResult) -> Measures {
    let mut all = Measures::new();
    let mut put = |name: String, value: f64| all.extend(value.is_finite().then_some((name, value)));
    for (distance, lookups) in DISTANCES.iter().zip(&size.lookups) {
        let Some(lookups) = lookups else { continue };
        let name = |what: &str| format!("lookup.{distance}.{what}");
        put(name("asked"), lookups.asked as f64);
        put(name("found"), lookups.found as f64 / lookups.asked as f64);
        put(name("p50"), lookups.p50_ms);
        put(name("p99"), lookups.p99_ms);
        put(name("excess"), lookups.p50_ms / lookups.hops_ms);
        put(name("messages"), lookups.messages);
        put(name("bytes"), lookups.bytes);
    }
    for (distance, requests) in DISTANCES.iter().zip(&size.requests) {
        let Some(requests) = requests else { continue };
        let name = |what: &str| format!("request.{distance}.{what}");
        put(name("accepted"), requests.accepted_again as f64 / requests.asked as f64);
        put(name("first.p50"), requests.first_ms);
        put(name("p50"), requests.p50_ms);
        put(name("p99"), requests.p99_ms);
        put(name("excess"), requests.p50_ms / requests.hops_ms);
    }
    for ((tier, uplink), holds) in TIERS.iter().zip(&size.uplinks).zip(&size.holds) {
        put(format!("{tier}.says"), uplink.mean / 1e6);
        let entries = (holds.nodes + holds.replicas + holds.block_services + holds.links) as f64;
        put(format!("{tier}.holds"), entries);
        put(format!("{tier}.holds.each"), entries / size.nodes as f64);
    }
    put("joined".to_owned(), size.joined_s);
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use roost_sim::growth::{GrowthSettings, measure};

    use super::*;
    use crate::claim::tests::drawn_and_claimed;

    #[test]
    fn size_has_drawn_and_claimed_measures() {
        let settings = GrowthSettings { seed: 1, quiet: Duration::from_secs(60), lookups: 5 };
        let size = measure(600, &settings).unwrap();
        let measures = measures(&size);
        let study = study(StudyScale::new(true, None));
        for name in drawn_and_claimed(&study) {
            assert!(measures.contains_key(name), "{name} is not among {measures:?}");
        }
        assert_eq!(measures["lookup.across.found"], 1.0);
    }
}
