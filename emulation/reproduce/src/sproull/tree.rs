//! Fig. 13 to 21: the hierarchy.

use super::overhead::overhead;
use super::{CLIENT_SERVER, ONE, plan};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Plot, PlotLimit, Study, StudyPoint, StudyScale, StudyUnit, plot};

const LARGEST: f64 = 92.0;
const BEFORE: f64 = 75.0;
const THREE: &str = "3 super nodes";
/// The lines: name in figures, architecture in plans, and more of the plan.
const SIDES: [(&str, &str, &str); 4] = [
    (CLIENT_SERVER, "client-server", ""),
    (ONE, "super-node", "super_nodes = 1\n"),
    ("2 super nodes", "super-node", "super_nodes = 2\n"),
    (THREE, "super-node", "super_nodes = 3\n"),
];

/// Fig. 13 to 21.
pub(super) fn study(scale: StudyScale) -> Study {
    let point = |nodes: u32, (series, architecture, more): (&str, &str, &str)| {
        // Three super nodes need three hosts of a tree of this size, which it has.
        let network = format!("{{ tree = {{ nodes = {nodes} }} }}");
        let text = plan("sproull-tree", &network, architecture, scale.duration(), more);
        StudyPoint::virtual_run(series, f64::from(nodes), text, scale)
    };
    Study {
        id: "sproull-tree",
        paper: Paper::Sproull,
        title: "Hierarchies of 11 to 92 nodes",
        about: "Low-flying nodes (1 Mbit/s, 40 ms) behind tactical UAVs (10 Mbit/s, 40 ms) behind X-45s (100 Mbit/s, \
                20 ms); the server is 600 ms away. Low-flying nodes ask one hop away, the others anywhere.",
        inferred: vec![
            "The shape: 2 X-45s and 3 tactical UAVs of 11 nodes, 2 and 6 of 31, 3 and 15 of 54, 75 and 92; that \
             follows from the numbers of machines (the page on topologies has the argument).",
            "Rates and delays are those of every leg of a class.",
            "Super nodes run beside the X-45s, and on the first tactical UAV where there are only two.",
            "Nodes start cold and ask for 15 minutes; queues hold 50 packets; a stream lasts 10 s.",
            "Latencies are means over completed services.",
        ],
        axis: "nodes",
        has_kinds: false,
        points: [11, 31, 54, 75, 92].into_iter().flat_map(|nodes| SIDES.map(|side| point(nodes, side))).collect(),
        plots: plots(),
        claims: [services(), latencies(), growth(), vec![overhead(ONE, LARGEST, "sproull-table3-tree")]].concat(),
    }
}

fn plots() -> Vec<Plot> {
    let latency = |figure, title, measure| plot(figure, title, measure, StudyUnit::Ms).beside_limit_of(ONE);
    let served = Plot {
        limit: Some(PlotLimit { series: ONE, measure: "completed.limit" }),
        ..plot("Fig. 15", "Services completed", "completed", StudyUnit::Count)
    };
    vec![
        served,
        plot("Fig. 16", "Traffic over all ports", "traffic.ports", StudyUnit::Bytes),
        plot("Fig. 17", "Traffic over all ports for each service", "traffic.ports.each", StudyUnit::Bytes),
        latency("Fig. 18", "Video: to the first byte", "video.mean"),
        latency("Fig. 19", "Track: to the first byte", "track.mean"),
        latency("Fig. 20", "Image: to the last byte", "image.mean"),
        latency("Fig. 21", "Sensor: to the last byte", "sensor.mean"),
    ]
}

fn services() -> Vec<Claim> {
    let ratio = |id: &str, figure, sentence: &str, says, (measure, of, to), (holds, better), why| {
        let sentence = sentence.to_owned();
        let (id, ours, unit) = (id.to_owned(), Estimator::ratio(measure, of, to, LARGEST), StudyUnit::Times);
        Claim { id, figure, sentence, says, ours, unit, holds, better, why }
    };
    vec![
        ratio(
            "sproull-fig15",
            "Fig. 15",
            "At 92 nodes peer to peer completes almost twice the services of client/server.",
            PaperStatement::between("almost 2 ×", 1.8, 2.0),
            ("completed", ONE, CLIENT_SERVER),
            (Band::Above(1.0), PreferredAmount::More),
            "A node spends about 6.1 s of each service in streams and pauses, and the rest waiting: the ratio is \
             (6.1 + wait of client/server) over (6.1 + wait of peer to peer). With waits of 8 to 12 s and a fifth to a \
             quarter of that it is almost two. Here they wait 4.3 and 1.0 s, next to all of it for distance; what the \
             paper's nodes waited besides, their software took.",
        ),
        ratio(
            "sproull-fig17",
            "Fig. 17",
            "At 92 nodes peer to peer takes half the traffic of client/server for a service.",
            PaperStatement::between("0.5 ×", 0.45, 0.55),
            ("traffic.ports.each", ONE, CLIENT_SERVER),
            (Band::Below(1.0), PreferredAmount::Less),
            "Finding a service costs next to nothing here, and data goes straight to who asked.",
        ),
        ratio(
            "sproull-fig17-three",
            "Fig. 17",
            "With three super nodes a service costs considerably less than by client/server, too.",
            PaperStatement::Direction("considerably less"),
            ("traffic.ports.each", THREE, CLIENT_SERVER),
            (Band::Below(0.8), PreferredAmount::Less),
            "",
        ),
    ]
}

fn latencies() -> Vec<Claim> {
    let claim = |id: &str, figure, service: &str| {
        let sentence = format!("At 92 nodes client/server takes 2 to 5 times the latency of peer to peer: {service}.");
        let measure = &format!("{service}.mean");
        let (of, to, holds, better) = (CLIENT_SERVER, ONE, Band::Above(1.0), PreferredAmount::More);
        let says = PaperStatement::between("2 to 5 ×", 2.0, 5.0);
        let why = "A request of peer to peer waits for distance here and for next to nothing else.";
        let (id, ours, unit) = (id.to_owned(), Estimator::ratio(measure, of, to, LARGEST), StudyUnit::Times);
        Claim { id, figure, sentence, says, ours, unit, holds, better, why }
    };
    vec![
        claim("sproull-fig18", "Fig. 18", "video"),
        claim("sproull-fig19", "Fig. 19", "track"),
        claim("sproull-fig20", "Fig. 20", "image"),
        claim("sproull-fig21", "Fig. 21", "sensor"),
    ]
}

/// Claims about more nodes at the edges.
fn growth() -> Vec<Claim> {
    let claim = |id: &str, figure, sentence: &str, says, (series, measure), (holds, better), why| Claim {
        id: id.to_owned(),
        figure,
        sentence: sentence.to_owned(),
        says,
        ours: Estimator::Ratio(MeasureKey::new(series, LARGEST, measure), MeasureKey::new(series, BEFORE, measure)),
        unit: StudyUnit::Change,
        holds,
        better,
        why,
    };
    vec![
        claim(
            "sproull-fig21-growth",
            "Fig. 21",
            "From 75 to 92 nodes the latency of a sensor reading grows by 1 % with one super node.",
            PaperStatement::exactly("+1 %", 1.01),
            (ONE, "sensor.mean"),
            (Band::Below(1.05), PreferredAmount::Less),
            "More nodes at the edges are more first contacts and more load on links of 1 Mbit/s.",
        ),
        claim(
            "sproull-fig21-growth-server",
            "Fig. 21",
            "From 75 to 92 nodes the latency of a sensor reading grows by 17 % with client/server.",
            PaperStatement::exactly("+17 %", 1.17),
            (CLIENT_SERVER, "sensor.mean"),
            (Band::Above(1.05), PreferredAmount::Less),
            "A server's processor takes no time here. The paper's had threads of Java for each node, and may be what grew.",
        ),
        claim(
            "sproull-fig17-stable",
            "Fig. 17",
            "The cost of a service remains fairly stable with one super node.",
            PaperStatement::Direction("fairly stable"),
            (ONE, "traffic.ports.each"),
            (Band::Between(0.8, 1.25), PreferredAmount::Neither),
            "All who come between 75 and 92 nodes fly low and ask one hop away, so that a service passes fewer ports.",
        ),
    ]
}
