//! Fig. 6 to 12: five architectures in stars.

use super::overhead::overhead;
use super::{CLIENT_SERVER, ONE, plan};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Plot, Study, StudyPoint, StudyScale, StudyUnit, plot};

const MULTICAST: &str = "multicast";
const BOTH: &str = "1 + multicast";
const LARGEST: f64 = 51.0;
/// The lines: name in figures, architecture in plans, and more of the plan.
const SIDES: [(&str, &str, &str); 5] = [
    (CLIENT_SERVER, "client-server", ""),
    (MULTICAST, "multicast", ""),
    (ONE, "super-node", "super_nodes = 1\n"),
    ("2 super nodes", "super-node", "super_nodes = 2\n"),
    (BOTH, "super-node-multicast", "super_nodes = 1\n"),
];
const SOONER: PaperStatement = PaperStatement::between("0.70 × (30 %)", 0.65, 0.75);
const TIMES: PaperStatement = PaperStatement::between("2 to 3 ×", 2.0, 3.0);
const SHORTER: &str =
    "A warm request takes its three legs here and next to nothing else, where JXTA took time of its own.";
const FIRST_CONTACTS: &str = "The first request between two nodes pays a handshake by which each proves who it is, which \
                              the paper's nodes did not, and among fifty many are first; over connections that are up \
                              see the claim on nodes that know one another.";

/// Fig. 6 to 12.
pub(super) fn study(scale: StudyScale) -> Study {
    let point = |nodes: u32, (series, architecture, more): (&str, &str, &str)| {
        let network = format!("{{ star = {{ nodes = {nodes}, delay = \"50ms\", server_delay = \"125ms\" }} }}");
        let text = plan("sproull-star", &network, architecture, scale.duration(), more);
        StudyPoint::virtual_run(series, f64::from(nodes), text, scale)
    };
    Study {
        id: "sproull-star",
        paper: Paper::Sproull,
        title: "Stars of 11, 26 and 51 hosts",
        about: "Every host has its own leg to one switch: 100 Mbit/s, 50 ms, the server's 125 ms. Five architectures.",
        inferred: vec![
            "Of 11, 26 and 51 hosts one is the server; where it is not used it is idle.",
            "Super nodes run on the hosts of the first nodes; nodes are spread evenly over two of them.",
            "Traffic is read where the paper read it, at the switch's ports: a frame counts into one port and out of \
             others. The paper's links went through machines that shaped them, whose ports the same switches had.",
            "Latencies are means over completed services.",
        ],
        axis: "hosts",
        has_kinds: false,
        points: [11, 26, 51].into_iter().flat_map(|nodes| SIDES.map(|side| point(nodes, side))).collect(),
        plots: plots(),
        claims: [services(), latencies(), warm(), vec![overhead(ONE, LARGEST, "sproull-table3-star")]].concat(),
    }
}

fn plots() -> Vec<Plot> {
    let latency = |figure, title, measure| plot(figure, title, measure, StudyUnit::Ms).beside_limit_of(ONE);
    vec![
        plot("Fig. 6", "Services completed", "completed", StudyUnit::Count),
        plot("Fig. 7", "Traffic over all ports", "traffic.ports", StudyUnit::Bytes),
        plot("Fig. 8", "Traffic over all ports for each service", "traffic.ports.each", StudyUnit::Bytes),
        latency("Fig. 9", "Video: to the first byte", "video.mean"),
        latency("Fig. 10", "Track: to the first byte", "track.mean"),
        latency("Fig. 11", "Image: to the last byte", "image.mean"),
        latency("Fig. 12", "Sensor: to the last byte", "sensor.mean"),
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
            "sproull-fig6",
            "Fig. 6",
            "At 51 hosts one super node completes more services than client/server.",
            PaperStatement::Direction("more"),
            ("completed", ONE, CLIENT_SERVER),
            (Band::Above(1.0), PreferredAmount::More),
            "",
        ),
        ratio(
            "sproull-fig6-multicast",
            "Fig. 6",
            "Multicast alone declines with size: at 51 hosts it completes less than one super node.",
            PaperStatement::Direction("less"),
            ("completed", MULTICAST, ONE),
            (Band::Below(1.0), PreferredAmount::More),
            "It does not decline: a query is one short packet here, of which a link of 100 Mbit/s holds thousands.",
        ),
        ratio(
            "sproull-fig7",
            "Fig. 7",
            "Multicast makes the most traffic at 51 hosts: more than client/server.",
            PaperStatement::Direction("the most"),
            ("traffic.ports", MULTICAST, CLIENT_SERVER),
            (Band::Above(1.0), PreferredAmount::Less),
            "Client/server makes the most, since all data goes by the server. A query by multicast is a short packet \
             here, and those of all nodes are few bytes beside the data.",
        ),
        ratio(
            "sproull-fig8-multicast",
            "Fig. 8",
            "Multicast takes over 17 MB a service at 51 hosts, where one super node takes about 1 MB: ten times as much \
             and more.",
            PaperStatement::between("over 17 ×", 17.0, 18.0),
            ("traffic.ports.each", MULTICAST, ONE),
            (Band::Above(10.0), PreferredAmount::Less),
            "Multicast costs next to nothing more than a super node here, and less than client/server: the paper's \
             searches by JXTA went to every node and were answered and repeated by many, a query here is one packet and \
             one node answers it.",
        ),
        Claim {
            id: "sproull-fig8".to_owned(),
            figure: "Fig. 8",
            sentence: "Client/server takes about 1 MB a service.".to_owned(),
            says: PaperStatement::between("about 1 MB", 0.7e6, 1.3e6),
            ours: Estimator::Mean(MeasureKey::new(CLIENT_SERVER, LARGEST, "traffic.ports.each")),
            unit: StudyUnit::Bytes,
            holds: Band::Between(0.3e6, 3e6),
            better: PreferredAmount::Less,
            why: "The data alone accounts for what is seen here: 0.14 MB a service in this mix, in and out of the switch \
                  twice. Each of the paper's links crossed a shaping machine on the same switch besides, which doubles it.",
        },
    ]
}

fn latencies() -> Vec<Claim> {
    let against = |id: &str, figure, sentence: &str, says, (measure, of, to), (holds, better), why| {
        let sentence = sentence.to_owned();
        let (id, ours, unit) = (id.to_owned(), Estimator::ratio(measure, of, to, LARGEST), StudyUnit::Times);
        Claim { id, figure, sentence, says, ours, unit, holds, better, why }
    };
    let stream = |id, figure, sentence: &str, measure| {
        let holds = (Band::Below(1.0), PreferredAmount::Less);
        against(id, figure, sentence, SOONER, (measure, ONE, CLIENT_SERVER), holds, SHORTER)
    };
    let object = |id, figure, sentence: &str, measure| {
        let holds = (Band::Above(1.0), PreferredAmount::More);
        against(id, figure, sentence, TIMES, (measure, CLIENT_SERVER, ONE), holds, FIRST_CONTACTS)
    };
    vec![
        stream("sproull-fig9", "Fig. 9", "Video begins around 30 % sooner than by client/server.", "video.mean"),
        stream("sproull-fig10", "Fig. 10", "Track begins around 30 % sooner than by client/server.", "track.mean"),
        against(
            "sproull-fig10-multicast",
            "Fig. 10",
            "Track by multicast begins later than by client/server.",
            PaperStatement::Direction("later"),
            ("track.mean", MULTICAST, CLIENT_SERVER),
            (Band::Above(1.0), PreferredAmount::Less),
            "It begins sooner: searching costs one packet here, so that nothing is in the way of answers.",
        ),
        object("sproull-fig11", "Fig. 11", "Images take client/server around 2 to 3 times as long.", "image.mean"),
        object("sproull-fig12", "Fig. 12", "Sensor readings take client/server 2 to 3 times as long.", "sensor.mean"),
    ]
}

/// Claims for nodes with an existing connection.
fn warm() -> Vec<Claim> {
    let claim = |service: &str, figure, is_stream| {
        let (of, other) =
            (MeasureKey::new(CLIENT_SERVER, LARGEST, &format!("{service}.mean")), format!("{service}.warm.mean"));
        let warm = MeasureKey::new(ONE, LARGEST, &other);
        let (ours, says, holds, better, sentence) = match is_stream {
            true => {
                let (ours, holds) = (Estimator::Ratio(warm, of), Band::Below(1.0));
                (ours, SOONER, holds, PreferredAmount::Less, "begins around 30 % sooner")
            }
            false => {
                let (ours, holds) = (Estimator::Ratio(of, warm), Band::Above(1.0));
                (ours, TIMES, holds, PreferredAmount::More, "takes client/server 2 to 3 times as long")
            }
        };
        Claim {
            id: format!("sproull-{}-warm", figure_id(figure)),
            figure,
            sentence: format!("The same of nodes that know one another: {service} {sentence}."),
            says,
            ours,
            unit: StudyUnit::Times,
            holds,
            better,
            why: SHORTER,
        }
    };
    vec![
        claim("video", "Fig. 9", true),
        claim("track", "Fig. 10", true),
        claim("image", "Fig. 11", false),
        claim("sensor", "Fig. 12", false),
    ]
}

/// `fig9` for `Fig. 9`.
fn figure_id(figure: &str) -> String {
    figure.to_lowercase().replace(". ", "")
}
