//! Púdelka and Rebok 2009, Sloatbeek 2005, and the DRE paper of 2004: what
//! `emulate bench` measures, held against what they say.

use super::claim::{At, Claim, Estimator};
use super::study::{Limit, Make, Paper, Plot, Point, Scale, Study, Unit};

/// The line of a study whose figures are all of one command.
const LINE: &str = "measured";
/// Its one place.
const PLACE: f64 = 1.0;

/// All of them.
pub(super) fn studies(scale: Scale) -> Vec<Study> {
    // It takes a minute for each number of reflectors.
    let capacity = (!scale.is_quick).then(|| capacity(scale));
    let rest = [migration(scale), wars(scale), windows(scale), dre(scale), sizes(scale)];
    [throughput(scale)].into_iter().chain(capacity).chain(rest).collect()
}

/// Runs of one command. In real time: a quick one is made once.
fn point(series: &str, x: f64, name: &str, args: &str, by: &'static [&'static str], scale: Scale) -> Point {
    let args = args.split_whitespace().map(str::to_owned).collect();
    let seeds = if scale.is_quick { 1 } else { scale.seeds };
    let (series, name) = (series.to_owned(), name.to_owned());
    Point { series, x, place: x, name, make: Make::Bench { args, by }, seeds }
}

/// A study that has these points and no words yet.
fn of(id: &'static str, paper: Paper, points: Vec<Point>) -> Study {
    Study {
        id,
        paper,
        title: "",
        about: "",
        inferred: Vec::new(),
        axis: "",
        has_kinds: true,
        points,
        plots: Vec::new(),
        claims: Vec::new(),
    }
}

/// A study whose runs are all of one command.
fn study(id: &'static str, paper: Paper, args: &str, by: &'static [&'static str], scale: Scale) -> Study {
    of(id, paper, vec![point(LINE, PLACE, "all", args, by, scale)])
}

/// Points of several lines along sizes, which are named as they are and stand evenly.
fn by_size(
    lines: &[&str],
    sizes: &[u32],
    args: impl Fn(&str, u32) -> String,
    by: &'static [&'static str],
    scale: Scale,
) -> Vec<Point> {
    let of_line = |line: &&str| {
        let of_size = |(place, size): (u32, &u32)| Point {
            place: f64::from(place),
            ..point(line, f64::from(*size), &size.to_string(), &args(line, *size), by, scale)
        };
        (0..).zip(sizes).map(of_size).collect::<Vec<_>>()
    };
    lines.iter().flat_map(of_line).collect()
}

fn at(measure: &str) -> At {
    At::new(LINE, PLACE, measure)
}

fn plot(figure: &'static str, title: &'static str, measure: &'static str, unit: Unit) -> Plot {
    Plot { figure, title, measure, unit, limit: None }
}

/// A claim, in the order in which it is read.
struct Said {
    id: &'static str,
    figure: &'static str,
    sentence: &'static str,
    seed: &'static str,
    ours: Estimator,
    unit: Unit,
    size: (f64, f64),
    direction: (f64, f64),
    why: &'static str,
}

impl Said {
    fn claim(self) -> Claim {
        let Self { id, figure, sentence, seed, ours, unit, size, direction, why } = self;
        Claim { id: id.to_owned(), figure, sentence: sentence.to_owned(), seed, ours, unit, size, direction, why }
    }
}

fn throughput(scale: Scale) -> Study {
    const LARGEST: f64 = 1440.0;
    let args =
        |line: &str, bytes: u32| format!("reflect --implementation {line} --targets 10 --bytes {bytes} --trial 400");
    let sizes = scale.places(&[100, 400, 800, 1440], &[200, 1440]);
    let delivered = |line| At::new(line, LARGEST, "delivered_pps");
    Study {
        title: "Packets that a reflector sends to ten, by their size",
        about: "One copy of a stream in, copies to ten receivers out, on one machine over loopback: a super node's \
                data path, and a page of C that does the same.",
        inferred: vec![
            "The seed's reflector was limited by Ethernet of 1 Gbit/s; here nothing but the processor is in the way.",
        ],
        axis: "bytes of a packet",
        has_kinds: false,
        plots: vec![
            plot("throughput", "Packets a second at all receivers", "delivered_pps", Unit::Count),
            plot("throughput", "Payload at all receivers", "delivered_mbps", Unit::MbitS),
        ],
        claims: vec![
            Said {
                id: "erum-throughput",
                figure: "throughput",
                sentence: "A reflector sends 905 Mbit/s with packets of 1440 bytes: 78 600 packets a second.",
                seed: "78 600 packets/s",
                ours: Estimator::Mean(delivered("ours")),
                unit: Unit::Count,
                size: (78_600.0, f64::INFINITY),
                direction: (40_000.0, f64::INFINITY),
                why: "This machine, or what else it did meanwhile, is in the way.",
            }
            .claim(),
            Said {
                id: "erum-c",
                figure: "throughput",
                sentence: "The version in C is about 10 % faster.",
                seed: "0.91 ×",
                ours: Estimator::Ratio(delivered("ours"), delivered("c-gso")),
                unit: Unit::Times,
                size: (0.9, f64::INFINITY),
                direction: (0.5, f64::INFINITY),
                why: "The page of C keeps no packets for who joins later and reads no headers.",
            }
            .claim(),
        ],
        ..of("erum-throughput", Paper::Erum, by_size(&["ours", "c-gso"], &sizes, args, &[], scale))
    }
}

/// Row by row of Tables 2 and 3: super nodes, what is printed there, and what equation (4) gives.
const ROWS: [(f64, &str, f64, f64); 4] =
    [(1.0, "5", 5.0, 6.0), (2.0, "7", 7.0, 7.0), (4.0, "8", 8.0, 8.0), (8.0, "9", 9.0, 9.0)];

fn capacity(scale: Scale) -> Study {
    let hubs = ROWS.map(|row| row.0 as u32);
    let args = |what: &str, hubs: u32| format!("reflect --capacity --what {what} --mesh {hubs}");
    let most = |what: &str, hubs| Estimator::Mean(At::new(what, hubs, "most.count"));
    // Counted, not timed: once is enough.
    let once = Scale { seeds: 1, ..scale };
    let printed = ROWS.map(|(hubs, seed, least, by_equation)| Claim {
        id: format!("erum-table3-{hubs}"),
        figure: "Table 3",
        sentence: format!("{hubs} reflectors serve {seed} clients who all send, each by its own reflector."),
        seed,
        ours: most("count", hubs),
        unit: Unit::Count,
        size: (least, by_equation),
        direction: (least - 1.0, f64::INFINITY),
        why: "",
    });
    let shared = ROWS.map(|(hubs, seed, least, _)| Claim {
        id: format!("erum-table3-{hubs}-residual"),
        figure: "Table 3",
        sentence: format!(
            "{hubs} reflectors serve {seed} such clients, where ours place them by what uplinks have left."
        ),
        seed,
        ours: most("residual", hubs),
        unit: Unit::Count,
        size: (least, f64::INFINITY),
        direction: (least - 1.0, f64::INFINITY),
        why: "",
    });
    Study {
        title: "How many clients a mesh of reflectors serves",
        about: "Real daemons in a room where everyone sends and everyone receives; each super node's link carries 30.17 \
                streams, as 905 Mbit/s carry those of 30. The most for whom nobody loses a hundredth: each client by its \
                own super node (count), and placed by what uplinks have left (residual).",
        inferred: vec![
            "Streams are smaller than 30 Mbit/s, and links in proportion: what counts is how many there are.",
            "Equation (4) gives one more than is printed for 1, 3 and 5 reflectors; both count as met. Table 2 has one \
             client more, who only receives.",
            "The limit is that of copies that all super nodes share evenly.",
        ],
        axis: "super nodes",
        has_kinds: false,
        plots: vec![Plot {
            limit: Some(Limit { series: "residual", measure: "balanced" }),
            ..plot("Table 3", "Clients who all send and all receive", "most.count", Unit::Count)
        }],
        claims: [printed, shared].concat(),
        ..of("erum-capacity", Paper::Erum, by_size(&["count", "residual"], &hubs, args, &[], once))
    }
}

fn migration(scale: Scale) -> Study {
    let gap = |case: &str| At::new(LINE, PLACE, &format!("{case}.gap_ms"));
    let said = |id, sentence, case: &str| {
        Said {
            id,
            figure: "migration",
            sentence,
            seed: "25 to 85 ms",
            ours: Estimator::Mean(gap(case)),
            unit: Unit::Ms,
            size: (0.0, 85.0),
            direction: (0.0, 1000.0),
            why: "Nothing comes for longer while its way changes.",
        }
        .claim()
    };
    Study {
        title: "A client moves to another reflector",
        about: "Two super nodes, a provider at the one and receivers at the other, 20 ms from one another, with the \
                real daemons; a super node leaves, and its clients go to the other.",
        inferred: vec![
            "The seed's clients move when their reflector ends or hands them over; what is measured is the \
                        longest time without a datagram, which is 8 ms anyhow.",
        ],
        plots: vec![
            plot("migration", "receivers' hub leaves", "leave-watchers.gap_ms", Unit::Ms),
            plot("migration", "provider's hub leaves", "leave-providers.gap_ms", Unit::Ms),
        ],
        claims: vec![
            said("erum-migration", "A client moves within 25 to 85 ms: of the receivers.", "leave-watchers"),
            said("erum-migration-provider", "The same of who provides.", "leave-providers"),
        ],
        ..study("erum-migration", Paper::Erum, "watch --case leave-watchers,leave-providers", &["case"], scale)
    }
}

/// The paths and factors of the paper.
const PATHS: [(&str, &str, &str, f64); 2] = [
    ("thin", "Berkeley to Sussex UDT is 6.8 times as fast as TCP.", "6.8 ×", 6.8),
    ("regional", "Washington to Atlanta UDT is 2.7 times as fast as TCP.", "2.7 ×", 2.7),
];

/// A factor of the paper: how much faster than `tcp` one of these is over a path.
fn factor(id: &'static str, of: &str, tcp: &str, path: usize, suffix: &str, why: &'static str) -> Claim {
    let (name, sentence, seed, least) = PATHS[path];
    let goodput = |sender: &str| at(&format!("{name}{suffix}.{sender}.goodput_ratio"));
    Said {
        id,
        figure: "ratios",
        sentence,
        seed,
        ours: Estimator::Ratio(goodput(of), goodput(tcp)),
        unit: Unit::Times,
        size: (least, f64::INFINITY),
        direction: (1.0, f64::INFINITY),
        why,
    }
    .claim()
}

fn wars(scale: Scale) -> Study {
    let args = match scale.is_quick {
        true => "bulk --path thin,regional --sender rate,tcp-cubic --seconds 6",
        false => "bulk --path thin,regional --sender rate,tcp-cubic,udt4 --seconds 20",
    };
    let todays = "TCP of today does better on such a path than that of 2005 did, so that even a full link is no such \
                  factor above it.";
    let theirs = "UDT4 takes each loss for a sign of congestion, whatever its reason.";
    let mut claims = vec![
        factor("wars-thin", "rate", "tcp-cubic", 0, "", todays),
        factor("wars-regional", "rate", "tcp-cubic", 1, "", todays),
    ];
    if !scale.is_quick {
        claims.push(factor("wars-thin-udt4", "udt4", "tcp-cubic", 0, "", theirs));
        claims.push(factor("wars-regional-udt4", "udt4", "tcp-cubic", 1, "", theirs));
    }
    Study {
        title: "Bulk transfer over long and lossy paths",
        about: "An object over the paths whose losses explain the seed's times (10 Mbit/s, 150 ms round trip, 0.5 % \
                loss; 40 Mbit/s, 17 ms, 0.4 %): ours at the rate that it finds, the kernel's TCP, and UDT4 where it is \
                installed. In parts of what the link carries.",
        inferred: vec!["The losses follow from the seed's times by Mathis's formula."],
        plots: vec![
            plot("ratios", "thin, ours", "thin.rate.goodput_ratio", Unit::Part),
            plot("ratios", "thin, UDT4", "thin.udt4.goodput_ratio", Unit::Part),
            plot("ratios", "thin, TCP cubic", "thin.tcp-cubic.goodput_ratio", Unit::Part),
            plot("ratios", "regional, ours", "regional.rate.goodput_ratio", Unit::Part),
            plot("ratios", "regional, UDT4", "regional.udt4.goodput_ratio", Unit::Part),
            plot("ratios", "regional, TCP cubic", "regional.tcp-cubic.goodput_ratio", Unit::Part),
        ],
        claims,
        ..study("wars", Paper::Wars, args, &["path", "sender"], scale)
    }
}

fn windows(scale: Scale) -> Study {
    let args = match scale.is_quick {
        true => "bulk --path thin-clean,regional-clean --sender rate,tcp-32k --seconds 6",
        false => "bulk --path thin-clean,regional-clean --sender rate,tcp-32k,tcp-cubic,udt4 --seconds 15",
    };
    let why = "A window of 32 KB and the round trip that is assumed allow TCP more than the seed's had: its times are \
               those of 24 and 29 KB.";
    let mut claims = vec![
        factor("wars-window-thin", "rate", "tcp-32k", 0, "-clean", why),
        factor("wars-window-regional", "rate", "tcp-32k", 1, "-clean", why),
    ];
    if !scale.is_quick {
        claims.push(factor("wars-window-thin-udt4", "udt4", "tcp-32k", 0, "-clean", why));
        claims.push(factor("wars-window-regional-udt4", "udt4", "tcp-32k", 1, "-clean", why));
    }
    Study {
        title: "The same paths without loss, and TCP with a window of 32 KB",
        about: "The other explanation of the seed's times: nothing is lost, and TCP has the window of hosts that \
                nobody has tuned, so that it sends 32 KB in each round trip of 150 and of 17 ms. Beside it TCP that \
                tunes itself. In parts of what the link carries.",
        inferred: vec![
            "Round trips are those assumed before. A receiver's buffer makes the window, which is 32 KB within a \
             tenth with Linux 6.6 and later.",
        ],
        plots: vec![
            plot("ratios", "thin, ours", "thin-clean.rate.goodput_ratio", Unit::Part),
            plot("ratios", "thin, UDT4", "thin-clean.udt4.goodput_ratio", Unit::Part),
            plot("ratios", "thin, TCP of 32 KB", "thin-clean.tcp-32k.goodput_ratio", Unit::Part),
            plot("ratios", "thin, TCP of today", "thin-clean.tcp-cubic.goodput_ratio", Unit::Part),
            plot("ratios", "regional, ours", "regional-clean.rate.goodput_ratio", Unit::Part),
            plot("ratios", "regional, UDT4", "regional-clean.udt4.goodput_ratio", Unit::Part),
            plot("ratios", "regional, TCP of 32 KB", "regional-clean.tcp-32k.goodput_ratio", Unit::Part),
            plot("ratios", "regional, TCP of today", "regional-clean.tcp-cubic.goodput_ratio", Unit::Part),
        ],
        claims,
        ..study("wars-window", Paper::Wars, args, &["path", "sender"], scale)
    }
}

fn dre(scale: Scale) -> Study {
    let args = match scale.is_quick {
        true => {
            "transport --transport quic-duplicate,kernel-tcp --condition loss,failures --workload paced,ping-pong \
             --seconds 3 --runs 1"
        }
        false => "transport --transport quic,kernel-tcp,kernel-mptcp --seconds 6 --runs 1",
    };
    let said = |id, figure, sentence, seed, measure: &str, unit, size, direction| {
        let why = "It is late more often than SCTP was.";
        Said { id, figure, sentence, seed, ours: Estimator::Mean(at(measure)), unit, size, direction, why }.claim()
    };
    let (late, gap) = ("late_pct", "max_gap_ms");
    let paced = |condition: &str, what: &str| format!("quic-duplicate.{condition}.paced.65536.{what}");
    let ping = |condition: &str| format!("quic-duplicate.{condition}.ping-pong.1024.max_ms");
    let infinite = f64::INFINITY;
    let mut claims = vec![
        said(
            "dre-late-loss",
            "table 1",
            "With 1 % loss on one link SCTP has no late frame.",
            "0 %",
            &paced("loss", late),
            Unit::Percent,
            (0.0, 0.5),
            (0.0, 6.0),
        ),
        said(
            "dre-late-failures",
            "table 1",
            "With links that fail in turn SCTP has no late frame.",
            "0 %",
            &paced("failures", late),
            Unit::Percent,
            (0.0, 0.5),
            (0.0, 58.0),
        ),
        said(
            "dre-gap-failures",
            "table 1",
            "With links that fail in turn SCTP's longest delay is 40 ms.",
            "40 ms",
            &paced("failures", gap),
            Unit::Ms,
            (0.0, 50.0),
            (0.0, 4000.0),
        ),
        said(
            "dre-latency-loss",
            "table 3",
            "With 1 % loss SCTP's longest round trip is 10.1 ms.",
            "10.1 ms",
            &ping("loss"),
            Unit::Ms,
            (0.0, 10.1),
            (0.0, 717.0),
        ),
        said(
            "dre-latency-failures",
            "table 3",
            "With links that fail in turn it is 7.5 ms.",
            "7.5 ms",
            &ping("failures"),
            Unit::Ms,
            (0.0, 7.5),
            (0.0, 3641.0),
        ),
    ];
    if !scale.is_quick {
        let rate = |condition: &str| format!("quic-stripe.{condition}.throughput.65536.mbps");
        let throughput = |id, sentence, seed, condition: &str, least| {
            said(
                id,
                "table 2",
                sentence,
                seed,
                &rate(condition),
                Unit::MbitS,
                (least, infinite),
                (least / 2.0, infinite),
            )
        };
        claims.extend([
            throughput("dre-rate", "With both links up SCTP carries 122 Mbit/s.", "122 Mbit/s", "both-up", 122.0),
            throughput("dre-rate-loss", "With 1 % loss SCTP carries 100 Mbit/s.", "100 Mbit/s", "loss", 100.0),
            throughput("dre-rate-failures", "With failing links it carries 83.", "83 Mbit/s", "failures", 83.0),
        ]);
    }
    Study {
        title: "Frames over two links, of which one fails",
        about: "Two links of 100 Mbit/s between two hosts: both up, 1 % loss on the first, or each 2 s down after 4 s in \
                turn. Paced frames of 64 KB at 100 Hz, as many as there is room for, and 1 KB to and fro; ours over both \
                links, beside the kernel's TCP and MPTCP.",
        inferred: vec!["A paced frame is late if it comes more than 10 ms after it was due, or never."],
        plots: vec![
            plot("table 1", "ours over both links", "quic-duplicate.failures.paced.65536.late_pct", Unit::Percent),
            plot("table 1", "TCP", "kernel-tcp.failures.paced.65536.late_pct", Unit::Percent),
            plot("table 3", "ours over both links", "quic-duplicate.loss.ping-pong.1024.max_ms", Unit::Ms),
            plot("table 3", "TCP", "kernel-tcp.loss.ping-pong.1024.max_ms", Unit::Ms),
        ],
        claims,
        ..study("dre", Paper::Dre, args, &["transport", "condition", "workload", "frame_bytes"], scale)
    }
}

fn sizes(scale: Scale) -> Study {
    const LARGEST: f64 = 65_536.0;
    let (transports, seconds) = match scale.is_quick {
        true => (["quic-duplicate", "kernel-tcp"].as_slice(), 3),
        false => (["quic-duplicate", "udp", "kernel-tcp"].as_slice(), 6),
    };
    let args = |transport: &str, bytes: u32| {
        format!(
            "transport --transport {transport} --frame {bytes} --condition loss,failures --workload paced --seconds \
             {seconds} --runs 1"
        )
    };
    let sizes = scale.places(&[1024, 8192, 32_768, 65_536], &[1024, 65_536]);
    let said = |id, sentence, seed, line: &str, size, direction, why| {
        let ours = Estimator::Mean(At::new(line, LARGEST, "loss.late_pct"));
        Said { id, figure: "frame sizes", sentence, seed, ours, unit: Unit::Percent, size, direction, why }.claim()
    };
    Study {
        title: "Paced frames by their size",
        about: "Frames of 1 to 64 KB, 100 a second, over two links of 100 Mbit/s: 1 % loss on the first, and links \
                that fail in turn. Ours over both links at once, ours over the first alone (udp), TCP over the first.",
        inferred: vec![
            "A frame is late if it comes more than 10 ms after it was due, or never.",
            "The seed also sent fewer frames a second, of which fewer are late; and its UDP frames ended at 8 KB, \
             where ours are cut and repaired.",
        ],
        axis: "bytes of a frame",
        has_kinds: false,
        plots: vec![
            plot("frame sizes", "Late with 1 % loss", "loss.late_pct", Unit::Percent),
            plot("frame sizes", "Late with links that fail", "failures.late_pct", Unit::Percent),
            plot("frame sizes", "Longest delay with 1 % loss", "loss.max_ms", Unit::Ms),
            plot("frame sizes", "Longest delay with links that fail", "failures.max_ms", Unit::Ms),
        ],
        claims: vec![
            said(
                "dre-sizes-tcp",
                "With 1 % loss 6 % of TCP's frames of 64 KB at 100 Hz are late; few of the small ones.",
                "6 %",
                "kernel-tcp",
                (3.0, 12.0),
                (0.5, 100.0),
                "Repairs of TCP have come far since, and the links have no delay here.",
            ),
            said(
                "dre-sizes-sctp",
                "With 1 % loss SCTP is in time with frames of every size.",
                "0 %",
                "quic-duplicate",
                (0.0, 0.5),
                (0.0, 6.0),
                "It is late more often than SCTP was.",
            ),
        ],
        ..of("dre-sizes", Paper::Dre, by_size(transports, &sizes, args, &["condition"], scale))
    }
}
