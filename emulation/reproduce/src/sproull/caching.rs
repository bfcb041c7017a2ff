//! Client/server with caching nodes, which the paper describes and does not measure.

use super::{CLIENT_SERVER, ONE, plan};
use crate::claim::{Band, Claim, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Study, StudyPoint, StudyScale, StudyUnit, plot};

const CACHING: &str = "with 3 caches";
const LARGEST: f64 = 92.0;

/// Static nodes; the caches are placed like super nodes.
pub(super) fn study(scale: StudyScale) -> Study {
    let sides = [
        (CLIENT_SERVER, "client-server", ""),
        (CACHING, "client-server-caching", "caches = 3\n"),
        (ONE, "super-node", "super_nodes = 1\n"),
    ];
    let point = |nodes: u32, (series, architecture, more): (&str, &str, &str)| {
        let network = format!("{{ tree = {{ nodes = {nodes} }} }}");
        let text = plan("sproull-caching", &network, architecture, scale.duration(), more);
        StudyPoint::virtual_run(series, f64::from(nodes), text, scale)
    };
    let sizes = scale.places(&[11, 31, 54, 75, 92], &[11, 54, 92]);
    let plot = |title, measure, unit| plot("", title, measure, unit).beside_limit_of(ONE);
    Study {
        id: "sproull-caching",
        paper: Paper::Sproull,
        title: "Client/server with caching nodes, nobody moving",
        about: "The hierarchy again. Caches inside the network hold advertisements and answer lookups; requests and \
                data go by the server all the same.",
        inferred: vec![
            "Three caches, on the hosts on which three super nodes would be; each node turns to the nearest.",
        ],
        axis: "nodes",
        has_kinds: false,
        points: sizes.into_iter().flat_map(|nodes| sides.map(|side| point(nodes, side))).collect(),
        plots: vec![
            plot("Services completed", "completed", StudyUnit::Count),
            plot("Traffic over all ports for each service", "traffic.ports.each", StudyUnit::Bytes),
            plot("Track: to the first byte", "track.mean", StudyUnit::Ms),
            plot("Sensor: to the last byte", "sensor.mean", StudyUnit::Ms),
        ],
        claims: vec![Claim {
            id: "sproull-caching".to_owned(),
            figure: "section 3",
            sentence: "Caching helps client/server while nodes do not move, and leaves it behind peer to peer: \
                           services of peer to peer over those of client/server with caches, at 92 nodes."
                .to_owned(),
            says: PaperStatement::Direction("caching leaves client/server behind, not measured there"),
            ours: Estimator::ratio("completed", ONE, CACHING, LARGEST),
            unit: StudyUnit::Times,
            holds: Band::Above(1.0),
            better: PreferredAmount::More,
            why: "",
        }],
    }
}
