//! The sensitivity to values that the paper leaves out.

use roost_topology::file;
use roost_topology::generate::{Tree, TreeShape};
use roost_topology::model::Topology;

use super::{CLIENT_SERVER, ONE, plan};
use crate::claim::{Band, Claim, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Plot, Study, StudyPoint, StudyScale, StudyUnit, plot};

const SIDES: [(&str, &str); 2] = [("client-server", CLIENT_SERVER), ("super-node", ONE)];
const NODES: usize = 54;
const TREE: &str = "{ tree = { nodes = 54 } }";

fn plots() -> Vec<Plot> {
    let plot = |title, measure, unit| plot("", title, measure, unit).beside_limit_of(ONE);
    vec![
        plot("Services completed", "completed", StudyUnit::Count),
        plot("Traffic over all ports for each service", "traffic.ports.each", StudyUnit::Bytes),
        plot("Sensor: to the last byte", "sensor.mean", StudyUnit::Ms),
    ]
}

/// A claim of the hierarchy's, at one value of an inferred parameter.
fn claim(id: &str, (measure, of, to): (&str, &str, &str), x: f64, least: f64, sentence: &str) -> Claim {
    let (figure, says) = ("inferred", PaperStatement::Nothing("at least 2 ×"));
    let (holds, better) = (Band::Above(least), PreferredAmount::More);
    let why = "What was inferred matters for it.";
    let (id, ours, unit) = (id.to_owned(), Estimator::ratio(measure, of, to, x), StudyUnit::Times);
    Claim { id, figure, sentence: sentence.to_owned(), says, ours, unit, holds, better, why }
}

pub(super) fn streams(scale: StudyScale) -> Study {
    let lengths: Vec<u32> = scale.places(&[1, 2, 5, 10, 20], &[2, 10]);
    let point = |length: u32, (architecture, series): (&str, &str)| {
        let text =
            plan("sensitivity-stream", TREE, architecture, scale.duration(), &format!("stream = \"{length}s\"\n"));
        StudyPoint::virtual_run(series, f64::from(length), text, scale)
    };
    Study {
        id: "sproull-streams",
        paper: Paper::Sproull,
        title: "If streams were shorter, or longer",
        about: "The hierarchy of 54 nodes. Streams last 10 s elsewhere, as follows from Tables 2 and 3; the text does \
                not say it. While a stream lasts its node asks for nothing else, so its length decides how much \
                latency matters to services completed.",
        inferred: Vec::new(),
        axis: "length of a stream, s",
        has_kinds: false,
        points: lengths.iter().flat_map(|length| SIDES.map(|side| point(*length, side))).collect(),
        plots: plots(),
        claims: vec![claim(
            "sproull-streams",
            ("completed", ONE, CLIENT_SERVER),
            2.0,
            2.0,
            "With streams of 2 s peer to peer completes twice the services of client/server.",
        )],
    }
}

pub(super) fn shapes(scale: StudyScale) -> Study {
    let shapes = [(1, 6), (2, 6), (3, 9), (3, 15), (4, 20)];
    let shapes: Vec<(usize, usize)> = scale.places(&shapes, &[(2, 6), (3, 15), (4, 20)]);
    let point = |(at, (x45, tactical)): (usize, (usize, usize))| {
        SIDES.map(|(architecture, series)| {
            let network = format!("{{ tree = {{ nodes = {NODES}, x45 = {x45}, tactical = {tactical} }} }}");
            let text = plan("sensitivity-shape", &network, architecture, scale.duration(), "");
            StudyPoint::virtual_run(series, (at + 1) as f64, text, scale).named(&format!("{x45} and {tactical}"))
        })
    };
    let last = shapes.len() as f64;
    Study {
        id: "sproull-shapes",
        paper: Paper::Sproull,
        title: "If the tree had another shape",
        about: "54 nodes with other numbers of X-45s and tactical UAVs; the rest flies low.",
        inferred: Vec::new(),
        axis: "X-45s and tactical UAVs",
        has_kinds: true,
        points: shapes.into_iter().enumerate().flat_map(point).collect(),
        plots: plots(),
        claims: vec![claim(
            "sproull-shapes",
            ("sensor.mean", CLIENT_SERVER, ONE),
            last,
            2.0,
            "With 4 X-45s and 20 tactical UAVs client/server takes at least twice the latency, too: sensor.",
        )],
    }
}

/// The usual length of queues.
const USUAL: u32 = 50;

pub(super) fn queues(scale: StudyScale) -> Study {
    let limits: Vec<u32> = scale.places(&[10, 25, 50, 100, 200], &[10, 50, 200]);
    let point = |limit: u32, (architecture, series): (&str, &str)| {
        let plan = |network| plan("sensitivity-queue", network, architecture, scale.duration(), "");
        let point = |text| StudyPoint::virtual_run(series, f64::from(limit), text, scale).on_logarithmic_axis();
        match limit {
            // The default value.
            USUAL => point(plan(TREE)),
            _ => point(plan("\"network.toml\"")).on(file::write(&with_queues(limit), "")),
        }
    };
    Study {
        id: "sproull-queues",
        paper: Paper::Sproull,
        title: "If queues were shorter, or longer",
        about: "The hierarchy of 54 nodes. Every leg's queue holds 50 packets elsewhere, Emulab's default.",
        inferred: Vec::new(),
        axis: "packets that a queue holds",
        has_kinds: false,
        points: limits.iter().flat_map(|limit| SIDES.map(|side| point(*limit, side))).collect(),
        plots: plots(),
        claims: vec![claim(
            "sproull-queues",
            ("sensor.mean", CLIENT_SERVER, ONE),
            200.0,
            2.0,
            "With queues of 200 packets client/server takes at least twice the latency, too: sensor.",
        )],
    }
}

/// The hierarchy with queues of this many packets.
fn with_queues(limit: u32) -> Topology {
    // The published shape is valid, so this does not fail.
    let mut tree = Tree::published(TreeShape::inferred(NODES)).topology().unwrap_or_default();
    for member in tree.nets.iter_mut().flat_map(|net| &mut net.members) {
        for leg in [&mut member.to_net, &mut member.from_net] {
            leg.queue.limit = limit;
        }
    }
    tree
}
