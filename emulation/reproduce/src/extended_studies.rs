//! Studies of the papers' future work: lossy links, a super node that dies, the choice of discovery, other
//! transports.

use super::claim::{Band, Claim, PaperStatement, PreferredAmount};
use super::estimate::Estimator;
use super::sproull::{CLIENT_SERVER, ONE, plan};
use super::study::{Paper, Plot, Study, StudyPoint, StudyScale, StudyUnit, plot};

const TREE: &str = "{ tree = { nodes = 54 } }";
/// The number of LANs of the low-flying nodes, and of those that lead up to the X-45s.
const EDGES: usize = 15;
const MIDDLES: usize = 3;
const SIDES: [(&str, &str); 2] = [("client-server", CLIENT_SERVER), ("super-node", ONE)];

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    vec![loss(scale), failure(scale), discovery(scale), transports(scale)]
}

/// Plots with the limit from a line's runs.
fn plots(series: &'static str) -> Vec<Plot> {
    let plot = |title, measure, unit| plot("", title, measure, unit).beside_limit_of(series);
    vec![
        plot("Services completed", "completed", StudyUnit::Count),
        plot("Part of requests completed", "success", StudyUnit::Part),
        plot("Track: to the first byte", "track.mean", StudyUnit::Ms),
        plot("Image: to the last byte", "image.mean", StudyUnit::Ms),
    ]
}

/// A claim that compares two figures, with an aim of our own.
fn claim(id: &str, sentence: &str, (measure, of, to): (&str, &str, &str), x: f64, (aim, holds): AimBand) -> Claim {
    let (figure, says, better) = ("beyond", PaperStatement::Nothing(aim), PreferredAmount::Neither);
    let (why, sentence) = ("", sentence.to_owned());
    let (id, ours, unit) = (id.to_owned(), Estimator::ratio(measure, of, to, x), StudyUnit::Times);
    Claim { id, figure, sentence, says, ours, unit, holds, better, why }
}

/// An aim in words, and its band.
type AimBand = (&'static str, Band);

/// Packets are lost on the wireless links.
fn loss(scale: StudyScale) -> Study {
    let percents: Vec<f64> = scale.places(&[0.0, 0.5, 1.0, 2.0, 5.0], &[0.0, 5.0]);
    let point = |percent: f64, (architecture, series): (&str, &str)| {
        let faults = if percent > 0.0 { lossy(percent / 100.0) } else { String::new() };
        let text = plan("beyond-loss", TREE, architecture, scale.duration(), &faults);
        StudyPoint::virtual_run(series, percent, text, scale)
    };
    Study {
        id: "beyond-loss",
        paper: Paper::Beyond,
        title: "Packets lost on the wireless links",
        about: "The hierarchy of 54 nodes. Every packet over a LAN of low-flying nodes, or from tactical UAVs to X-45s, \
                is lost with the same probability; the seed's authors name it as future work.",
        inferred: Vec::new(),
        axis: "loss over each of these LANs, %",
        has_kinds: false,
        points: percents.iter().flat_map(|percent| SIDES.map(|side| point(*percent, side))).collect(),
        plots: plots(ONE),
        claims: vec![claim(
            "beyond-loss",
            "With 5 % loss peer to peer still completes more than client/server.",
            ("completed", ONE, CLIENT_SERVER),
            5.0,
            ("more", Band::Above(1.0)),
        )],
    }
}

fn lossy(loss: f64) -> String {
    let edges = (1..=EDGES).map(|number| format!("edge{number}"));
    let nets = edges.chain((1..=MIDDLES).map(|number| format!("mid{number}")));
    nets.map(|net| format!("[[faults]]\nat = \"0s\"\nchange = \"{net}\"\nloss = {loss}\n")).collect()
}

/// A super node of three dies in mid-run and does not come back.
fn failure(scale: StudyScale) -> Study {
    let killed = "[[faults]]\nat = \"60s\"\nkill = \"x45-1\"\nhub = true\n";
    let cases = [
        ("all three live", "3 super nodes", "super-node", "super_nodes = 3\n", ""),
        ("one of three is killed", "3 super nodes", "super-node", "super_nodes = 3\n", killed),
    ];
    let point = |(at, (name, series, architecture, hubs, fault)): (usize, (&str, &str, &str, &str, &str))| {
        let text = plan("beyond-failure", TREE, architecture, scale.duration(), &format!("{hubs}{fault}"));
        StudyPoint::virtual_run(series, at as f64, text, scale).named(name)
    };
    let mut study = Study {
        id: "beyond-failure",
        paper: Paper::Beyond,
        title: "A super node is killed in mid-run",
        about: "The hierarchy of 54 nodes with three super nodes, the first of which is killed after a minute and \
                does not come back. Its nodes change to their standbys.",
        inferred: Vec::new(),
        axis: "what happens",
        has_kinds: true,
        points: cases.into_iter().enumerate().map(point).collect(),
        plots: plots("3 super nodes"),
        claims: Vec::new(),
    };
    study.claims.push(Claim {
        ours: Estimator::Ratio(
            super::MeasureKey::new("3 super nodes", 1.0, "completed"),
            super::MeasureKey::new("3 super nodes", 0.0, "completed"),
        ),
        ..claim(
            "beyond-failure",
            "With one of three super nodes killed for good, nodes complete at least 98 % of what they complete with all.",
            ("completed", "3 super nodes", "3 super nodes"),
            1.0,
            ("at least 0.98 ×", Band::Above(0.98)),
        )
    });
    study
}

/// Nodes choose between the super node and multicast.
fn discovery(scale: StudyScale) -> Study {
    const BOTH: &str = "both at once";
    const AUTO: &str = "chosen";
    const NODES: f64 = 54.0;
    let sides = [(ONE, "super-node"), (BOTH, "super-node-multicast"), (AUTO, "super-node-auto")];
    let point = |nodes: u32, (series, architecture): (&str, &str)| {
        let network = format!("{{ tree = {{ nodes = {nodes} }} }}");
        let text = plan("beyond-auto", &network, architecture, scale.duration(), "");
        StudyPoint::virtual_run(series, f64::from(nodes), text, scale)
    };
    let plot = |title, measure, unit| plot("", title, measure, unit);
    Study {
        id: "beyond-auto",
        paper: Paper::Beyond,
        title: "Each node chooses how to find providers",
        about: "The hierarchy with one super node, whose nodes ask it, ask it and the nodes of their own LAN by multicast \
                at once, or choose for each request: by where the provider probably is, and then by which way was \
                faster before. The seed's authors name the choice as future work. The limit is that of who asks the \
                super node alone.",
        inferred: Vec::new(),
        axis: "nodes",
        has_kinds: false,
        points: [31, 54].into_iter().flat_map(|nodes| sides.map(|side| point(nodes, side))).collect(),
        plots: plots(ONE)
            .into_iter()
            .chain([plot(
                "Overhead, control traffic alone, for each completed service",
                "overhead.each",
                StudyUnit::Bytes,
            )])
            .collect(),
        claims: vec![
            claim(
                "beyond-auto-latency",
                "Nodes that choose have the first byte of a track no later than those that ask the super node alone.",
                ("track.mean", AUTO, ONE),
                NODES,
                ("no more", Band::Below(1.0)),
            ),
            claim(
                "beyond-auto-overhead",
                "And they spend no more on finding services than those that ask in both ways at once.",
                ("overhead.each", AUTO, BOTH),
                NODES,
                ("no more", Band::Below(1.0)),
            ),
        ],
    }
}

fn transports(scale: StudyScale) -> Study {
    let all = scale.places(&["paper", "udp", "tcp", "quic"], &["paper", "quic"]);
    let last = (all.len() - 1) as f64;
    let point = |(at, transport): (usize, &str)| {
        SIDES.map(|(architecture, series)| {
            let more = format!("transport = \"{transport}\"\n");
            let text = plan("beyond-transports", "{ tree = { nodes = 31 } }", architecture, scale.duration(), &more);
            StudyPoint::virtual_run(series, at as f64, text, scale).named(transport)
        })
    };
    Study {
        id: "beyond-transports",
        paper: Paper::Beyond,
        title: "Over each transport",
        about: "The hierarchy of 31 nodes, with everything over UDP, over TCP, over QUIC, and as published: streams over UDP, \
                objects over TCP.",
        inferred: Vec::new(),
        axis: "transport",
        has_kinds: true,
        points: all.into_iter().enumerate().flat_map(point).collect(),
        plots: plots(ONE),
        claims: vec![claim(
            "beyond-transports",
            "Over QUIC alone, too, peer to peer has less than half the latency of client/server: track.",
            ("track.mean", ONE, CLIENT_SERVER),
            last,
            ("less than 0.5 ×", Band::Below(0.5)),
        )],
    }
}
