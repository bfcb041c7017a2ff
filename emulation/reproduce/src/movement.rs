//! Nodes that move over the grid: the client/server with caching that the paper describes, and the overlay.

use super::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use super::estimate::Estimator;
use super::sproull::{ONE, plan};
use super::study::{Paper, Study, StudyPoint, StudyScale, StudyUnit, plot};

const TREE: &str = "{ tree = { nodes = 31 } }";
const CACHING: &str = "with 3 caches";
const THREE: &str = "3 super nodes";
/// The lines: name in figures, architecture in plans, and more of the plan.
const SIDES: [(&str, &str, &str); 3] = [
    (CACHING, "client-server-caching", "caches = 3\n"),
    (ONE, "super-node", "super_nodes = 1\n"),
    (THREE, "super-node", "super_nodes = 3\n"),
];
/// The speeds, in cells per minute, at which claims are made; 0 means no movement.
const STILL: f64 = 0.0;
const FAST: f64 = 6.0;

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    vec![study(scale)]
}

fn study(scale: StudyScale) -> Study {
    let speeds: Vec<f64> = scale.places(&[STILL, 2.0, FAST, 20.0], &[STILL, FAST]);
    let point = |speed: f64, (series, architecture, more): (&str, &str, &str)| {
        let moving = if speed > STILL { format!("[movement]\nspeed = {speed:?}\n") } else { String::new() };
        let text = plan("beyond-movement", TREE, architecture, scale.duration(), &format!("{more}{moving}"));
        StudyPoint::virtual_run(series, speed, text, scale)
    };
    let plot = |title, measure, unit| plot("", title, measure, unit).beside_limit_of(ONE);
    Study {
        id: "beyond-movement",
        paper: Paper::Beyond,
        title: "Nodes that move",
        about: "The hierarchy of 31 nodes. Every node goes on to a free cell beside its own as often as the speed says, and \
                publishes where it is; requests are for the cell where the host that was drawn stands at that moment. \
                The paper has nodes tell their super node when they relocate, and says of client/server with caching \
                nodes that it is good while nodes are static, and that movement invalidates what caches hold; it \
                measured neither.",
        inferred: vec![
            "Links do not move: who is one hop away stays so, and what a move costs is finding who has moved.",
            "Caches answer lookups. Requests and data go on to the server, which knows where its nodes are, so that \
             what a cache holds of the past misleads no request here.",
            "Three caches, on the hosts on which the three super nodes are.",
        ],
        axis: "speed, cells a minute",
        has_kinds: false,
        points: speeds.iter().flat_map(|speed| SIDES.map(|side| point(*speed, side))).collect(),
        plots: vec![
            plot("Services completed", "completed", StudyUnit::Count),
            plot("Part of requests completed", "success", StudyUnit::Part),
            plot("Of the completed, provided by the host that was asked for", "at_target", StudyUnit::Part),
            plot("Overhead, control traffic alone, for each completed service", "overhead.each", StudyUnit::Bytes),
            plot("Traffic over all ports for each service", "traffic.ports.each", StudyUnit::Bytes),
            plot("Track: to the first byte", "track.mean", StudyUnit::Ms),
            plot("Sensor: to the last byte", "sensor.mean", StudyUnit::Ms),
        ],
        claims: claims(),
    }
}

fn claims() -> Vec<Claim> {
    let ratio = |of: (&str, f64), over: (&str, f64), measure: &str| {
        Estimator::Ratio(MeasureKey::new(of.0, of.1, measure), MeasureKey::new(over.0, over.1, measure))
    };
    let claim = |id: &str, figure, (sentence, says): (&str, _), ours, (unit, holds), why| {
        let (id, sentence, better) = (id.to_owned(), sentence.to_owned(), PreferredAmount::Neither);
        Claim { id, figure, sentence, says, ours, unit, holds, better, why }
    };
    vec![
        claim(
            "sproull-moving-caching",
            "section 3",
            (
                "Movement invalidates what caches hold: client/server with caches completes less with nodes that go six \
                 cells a minute than with nodes that stand still.",
                PaperStatement::Direction("less, not measured there"),
            ),
            ratio((CACHING, FAST), (CACHING, STILL), "completed"),
            (StudyUnit::Change, Band::Below(0.99)),
            "Caches here answer lookups alone: requests go by what the server knows, and what a cache holds of the past misleads none.",
        ),
        claim(
            "sproull-moving-ahead",
            "section 3",
            (
                "With moving nodes peer to peer completes more than client/server with caches.",
                PaperStatement::Direction("more, not measured there"),
            ),
            ratio((ONE, FAST), (CACHING, FAST), "completed"),
            (StudyUnit::Times, Band::Above(1.0)),
            "",
        ),
        claim(
            "beyond-movement-services",
            "the design",
            (
                "Three super nodes complete at least 98 % of what they complete with nodes that stand still.",
                PaperStatement::Nothing("at least 98 %"),
            ),
            ratio((THREE, FAST), (THREE, STILL), "completed"),
            (StudyUnit::Times, Band::Above(0.98)),
            "A requester that asks before the super node learns of a move is told that nobody is there.",
        ),
        claim(
            "beyond-movement-where",
            "the design",
            (
                "A requester finds the provider where it is now and not where it was: of completed requests at six cells \
                 a minute 99 of 100 are provided by the host that stands where was asked, with three super nodes.",
                PaperStatement::Nothing("99 %"),
            ),
            Estimator::Share { part: MeasureKey::new(THREE, FAST, "at_target"), of: "completed" },
            (StudyUnit::Part, Band::Above(0.99)),
            "",
        ),
        claim(
            "beyond-movement-success",
            "the design",
            ("And 98 of 100 requests are completed.", PaperStatement::Nothing("98 %")),
            Estimator::Share { part: MeasureKey::new(THREE, FAST, "success"), of: "ended" },
            (StudyUnit::Part, Band::Above(0.98)),
            "A requester that asks before the super node learns of a move is told that nobody is there.",
        ),
        claim(
            "beyond-movement-latency",
            "the design",
            (
                "What is found is found as soon: the first byte of a track comes at most a tenth later than with nodes that stand still.",
                PaperStatement::Nothing("at most 1.1 ×"),
            ),
            ratio((THREE, FAST), (THREE, STILL), "track.mean"),
            (StudyUnit::Change, Band::Below(1.1)),
            "",
        ),
    ]
}
