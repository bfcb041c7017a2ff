//! Distances between hosts, from a radio link to several satellites in a row.

use super::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use super::estimate::Estimator;
use super::sproull::{CLIENT_SERVER, ONE, plan};
use super::study::{Paper, RunMethod, Study, StudyPoint, StudyScale, StudyUnit, plot};

/// Delays from host to host, one way, milliseconds.
const DELAYS: [u32; 10] = [50, 100, 200, 400, 600, 800, 1_200, 2_000, 3_500, 5_000];
const QUICK: [u32; 5] = [50, 400, 800, 2_000, 5_000];
/// Delays with the real daemons, whose runs take real time.
const EMULATED: [u32; 4] = [200, 800, 2_000, 5_000];
const QUICK_EMULATED: [u32; 1] = [2_000];
/// The architectures: name in plans, and lines in virtual and in real time.
const SIDES: [(&str, &str, &str); 2] =
    [("client-server", CLIENT_SERVER, "client/server, emulated"), ("super-node", ONE, "1 super node, emulated")];
type ArchitectureSeries = (&'static str, &'static str, &'static str);
/// The product's transports, each alone: its name, and the lines over it.
const OVER: [(&str, [&str; 2]); 3] = [
    ("udp", ["client/server over udp", "1 super node over udp"]),
    ("tcp", ["client/server over tcp", "1 super node over tcp"]),
    ("quic", ["client/server over quic", "1 super node over quic"]),
];
/// The failure of a fixed handshake time-out, which the product once had: three round trips of an object's
/// handshake exceed it from 833 ms one way.
const FIXED: &str = "handshake = \"5s\"\n";
const CLIFF_SEEDS: u64 = 3;
const CLIFF: [u32; 4] = [800, 830, 840, 2_000];
const FIXED_LINES: [&str; 2] = ["client/server, handshake of 5 s", "1 super node, handshake of 5 s"];
/// The longest delay, and the longest that a quick study emulates.
const FARTHEST: f64 = 5_000.0;
const FAR: f64 = 2_000.0;
/// At such distances a request of several round trips takes more than the usual 30 s.
const PATIENT: &str = "timeout = \"3m\"\ndrain = \"4m\"\n";

const WHY: &str = "What gives up does so after a time that does not follow the path.";

fn text(delay: u32, architecture: &str, duration: &str, more: &str) -> String {
    let leg = format!("{}us", delay * 500);
    let network = format!("{{ star = {{ nodes = 7, delay = \"{leg}\", server_delay = \"{leg}\" }} }}");
    plan("beyond-distance", &network, architecture, duration, &format!("{PATIENT}{more}"))
}

/// All services over one transport each.
fn over_points(scale: StudyScale) -> Vec<StudyPoint> {
    let mut points = Vec::new();
    for delay in scale.places(&[800, 2_000, 5_000], &[5_000]) {
        for (transport, lines) in OVER {
            for ((architecture, ..), series) in SIDES.into_iter().zip(lines) {
                let plan = text(delay, architecture, scale.duration(), &format!("transport = \"{transport}\"\n"));
                let point = StudyPoint::virtual_run(series, f64::from(delay), plan, scale);
                points.push(point.on_logarithmic_axis());
            }
        }
    }
    points
}

/// Points with a handshake time-out that ignores the path.
fn cliff(scale: StudyScale) -> Vec<StudyPoint> {
    let point = |delay: u32, ((architecture, ..), series): (ArchitectureSeries, &str)| {
        let point = StudyPoint::virtual_run(
            series,
            f64::from(delay),
            text(delay, architecture, scale.duration(), FIXED),
            scale,
        );
        StudyPoint { seeds: point.seeds.min(CLIFF_SEEDS), ..point }.on_logarithmic_axis()
    };
    let delays = scale.places(&CLIFF, &[800, 840]);
    delays.iter().flat_map(|delay| SIDES.into_iter().zip(FIXED_LINES).map(|side| point(*delay, side))).collect()
}

pub(super) fn study(scale: StudyScale) -> Study {
    let simulated = |delay: u32, (architecture, series, _): ArchitectureSeries| {
        StudyPoint::virtual_run(series, f64::from(delay), text(delay, architecture, scale.duration(), ""), scale)
            .on_logarithmic_axis()
    };
    let emulated = |delay: u32, (architecture, _, series): ArchitectureSeries| {
        let plan = text(delay, architecture, if scale.is_quick { "1m" } else { "4m" }, "linktest = false\n");
        // The distance matters here, not chance, and a run takes minutes: one seed.
        StudyPoint {
            make: RunMethod::Emulated { plan },
            seeds: 1,
            ..StudyPoint::virtual_run(series, f64::from(delay), String::new(), scale)
        }
        .on_logarithmic_axis()
    };
    let all = |delays: Vec<u32>, point: &dyn Fn(u32, ArchitectureSeries) -> StudyPoint| {
        delays.iter().flat_map(|delay| SIDES.map(|side| point(*delay, side))).collect::<Vec<StudyPoint>>()
    };
    let plot = |title, measure, unit| plot("", title, measure, unit).beside_limit_of(ONE);
    Study {
        id: "beyond-distance",
        paper: Paper::Beyond,
        title: "From 50 ms to 5 s one way",
        about: "A star of six nodes and the server, from each host of which it is as far to any other: from 50 ms one way, \
                a continent, over 600 ms, two hops by geostationary satellites, to 5 s, which deep queues before them \
                make. What a node asks for comes through the server, or is found at a super node beside the first. \
                In virtual time, with streams over UDP and objects over TCP and then all over udp, tcp and quic each, and \
                over fewer distances with the real daemons.",
        inferred: vec![
            "Requests may take three minutes, since one over TCP takes several round trips, of 10 s each at the farthest.",
            "A run whose nodes cannot attach within two minutes completes nothing, and counts as such.",
            "The lines with a handshake of 5 s are of limits as they once were: at 830 ms one way three round trips end just in \
             time, and at 840 ms no more. They are shown and held against no aim.",
            "To show that 99 of 100 requests are completed takes 381 of which none fails: with fewer the aim stays open.",
            "Emulated runs last four minutes and are made once each.",
        ],
        axis: "one way from host to host, ms",
        has_kinds: false,
        points: [
            all(scale.places(&DELAYS, &QUICK), &simulated),
            over_points(scale),
            cliff(scale),
            all(scale.places(&EMULATED, &QUICK_EMULATED), &emulated),
        ]
        .concat(),
        plots: vec![
            plot("Part of requests completed", "success", StudyUnit::Part),
            plot("Part of streams completed: track", "track.success", StudyUnit::Part),
            plot("Part of objects completed: sensor", "sensor.success", StudyUnit::Part),
            plot("Services completed", "completed", StudyUnit::Count),
            plot("Track: to the first byte", "track.mean", StudyUnit::Ms),
            plot("Sensor: to the last byte", "sensor.mean", StudyUnit::Ms),
        ],
        claims: claims(),
    }
}

fn claims() -> Vec<Claim> {
    [over_each(), published()].concat()
}

/// The fraction of completed requests, over all seeds.
fn completed(series: &str, x: f64) -> Estimator {
    Estimator::Share { part: MeasureKey::new(series, x, "success"), of: "ended" }
}

fn over_each() -> Vec<Claim> {
    let claim = |transport: &str, architecture: &str, series: &str| Claim {
        id: format!("beyond-distance-{transport}-{architecture}"),
        figure: "beyond",
        sentence: format!("With 5 s one way 99 of 100 requests are completed: {series}."),
        says: PaperStatement::Nothing("99 %"),
        ours: completed(series, FARTHEST),
        unit: StudyUnit::Part,
        holds: Band::Above(0.99),
        better: PreferredAmount::Neither,
        why: WHY,
    };
    let of = |(transport, lines): (&str, [&str; 2])| {
        [claim(transport, "server", lines[0]), claim(transport, "peers", lines[1])]
    };
    OVER.into_iter().flat_map(of).collect()
}

/// Streams over UDP and objects over TCP, as in the paper.
fn published() -> Vec<Claim> {
    let claim = |id: &str, sentence: &str, aim, ours, (unit, holds)| {
        let (id, sentence, says) = (format!("beyond-distance-{id}"), sentence.to_owned(), PaperStatement::Nothing(aim));
        Claim { id, figure: "beyond", sentence, says, ours, unit, holds, better: PreferredAmount::Neither, why: WHY }
    };
    let [(_, server, server_emulated), (.., peers_emulated)] = SIDES;
    let (nearly_all, alike) = ((StudyUnit::Part, Band::Above(0.99)), (StudyUnit::Times, Band::Between(0.9, 1.1)));
    vec![
        claim(
            "server",
            "With 5 s one way client/server completes 99 of 100 requests.",
            "99 %",
            completed(CLIENT_SERVER, FARTHEST),
            nearly_all,
        ),
        claim("peers", "And so does peer to peer.", "99 %", completed(ONE, FARTHEST), nearly_all),
        claim(
            "ahead",
            "With 5 s one way peer to peer completes more services than client/server.",
            "more",
            Estimator::ratio("completed", ONE, CLIENT_SERVER, FARTHEST),
            (StudyUnit::Times, Band::Above(1.0)),
        ),
        claim(
            "emulated-server",
            "With 2 s one way the real daemons complete 99 of 100 requests, too: client/server.",
            "99 %",
            completed(server_emulated, FAR),
            nearly_all,
        ),
        claim("emulated-peers", "And peer to peer.", "99 %", completed(peers_emulated, FAR), nearly_all),
        // With a server there are no first contacts, so the median does not depend on the length of a run.
        claim(
            "emulated-track",
            "There a track through the server begins after as long as in virtual time: the median.",
            "1 ×, within 10 %",
            Estimator::ratio("track.p50", server_emulated, server, FAR),
            alike,
        ),
    ]
}
