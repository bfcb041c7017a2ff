//! Fig. 4 and 5: a server's link that is slow, or of a low rate.

use super::{CLIENT_SERVER, ONE, plan};
use crate::claim::{Band, Claim, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Plot, Study, StudyPoint, StudyScale, StudyUnit, plot};

/// The compared architectures: names in plans and in figures.
const SIDES: [(&str, &str); 2] = [("client-server", CLIENT_SERVER), ("super-node", ONE)];

/// Fig. 4: the delay of the server's link.
pub(super) fn delay(scale: StudyScale) -> Study {
    let all = [0, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250, 300, 400, 500];
    let delays: Vec<u32> = scale.places(&all, &[0, 20, 30, 50, 100, 200, 400]);
    let point = |delay: u32, (architecture, series): (&str, &str)| {
        let network = format!("{{ star = {{ nodes = 11, delay = \"50ms\", server_delay = \"{delay}ms\" }} }}");
        let text = plan("sproull-fig4", &network, architecture, scale.duration(), "");
        StudyPoint::virtual_run(series, f64::from(delay), text, scale)
    };
    Study {
        id: "sproull-fig4",
        paper: Paper::Sproull,
        title: "A server that is far away",
        about: "A star of ten nodes and the server; 100 ms from node to node. The delay of the server's own link \
                grows, and services completed are counted. Peer to peer has one super node beside a node and does \
                not use that link.",
        inferred: vec![
            "100 ms between nodes are 50 ms for each leg of the star; the axis is the one-way delay of the server's \
             leg, so that a node is 50 ms more from the server.",
            "All links have 100 Mbit/s, as in the larger stars.",
            "Nodes ask for the services of the star's mix; a stream lasts 10 s, which Tables 2 and 3 imply.",
        ],
        axis: "delay of the server's link, ms",
        has_kinds: false,
        points: delays.iter().flat_map(|delay| SIDES.map(|side| point(*delay, side))).collect(),
        plots: vec![completed("Fig. 4")],
        claims: vec![Claim {
            id: "sproull-fig4".to_owned(),
            figure: "Fig. 4",
            sentence: "Peer to peer completes more services than client/server once the delay to the server exceeds \
                       approximately 200 ms."
                .to_owned(),
            says: PaperStatement::between("about 200 ms", 150.0, 250.0),
            ours: Estimator::Crossing { above: ONE, below: CLIENT_SERVER, measure: "completed", from_far: false },
            unit: StudyUnit::Ms,
            holds: Band::Below(250.0),
            better: PreferredAmount::Less,
            why: "Peer to peer is ahead beyond 200 ms, and long before: to find a service takes one trip over the \
                  super node here, without JXTA's discovery and pipes, so that the server has to be nearer to keep up.",
        }],
    }
}

/// Fig. 5: the rate of the server's link.
pub(super) fn rate(scale: StudyScale) -> Study {
    let all = [0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let rates: Vec<f64> = scale.places(&all, &[1.0, 2.0, 5.0, 20.0, 50.0, 100.0]);
    let point = |rate: f64, (architecture, series): (&str, &str)| {
        let kbit = (rate * 1000.0).round() as u32;
        let network = format!(
            "{{ star = {{ nodes = 11, delay = \"50ms\", server_delay = \"50ms\", server_rate = \"{kbit}kbit\" }} }}"
        );
        let text = plan("sproull-fig5", &network, architecture, scale.duration(), "");
        StudyPoint::virtual_run(series, rate, text, scale).on_logarithmic_axis()
    };
    Study {
        id: "sproull-fig5",
        paper: Paper::Sproull,
        title: "A server with a thin link",
        about: "The same star with 50 ms on every link, the server's among them. The rate of the server's link falls, \
                and services completed are counted.",
        inferred: vec![
            "All other links have 100 Mbit/s.",
            "Queues hold 50 packets, the default of Emulab and of Dummynet.",
        ],
        axis: "rate of the server's link, Mbit/s",
        has_kinds: false,
        points: rates.iter().flat_map(|rate| SIDES.map(|side| point(*rate, side))).collect(),
        plots: vec![completed("Fig. 5")],
        claims: vec![Claim {
            id: "sproull-fig5".to_owned(),
            figure: "Fig. 5",
            sentence: "Peer to peer completes more services than client/server once the rate to the server drops \
                       below 50 Mbit/s."
                .to_owned(),
            says: PaperStatement::between("about 50 Mbit/s", 40.0, 60.0),
            ours: Estimator::Crossing { above: ONE, below: CLIENT_SERVER, measure: "completed", from_far: true },
            unit: StudyUnit::MbitS,
            holds: Band::Above(30.0),
            // The rate has no effect, so a higher one is no achievement.
            better: PreferredAmount::Neither,
            why: "Below 50 Mbit/s peer to peer completes more, as there, and above it does so too, because a request takes \
                  three legs of 100 ms peer to peer and four through the server. What the rate itself does begins only \
                  where the link cannot hold what ten nodes ask for, some Mbit/s.",
        }],
    }
}

fn completed(figure: &'static str) -> Plot {
    plot(figure, "Services completed", "completed", StudyUnit::Count)
}
