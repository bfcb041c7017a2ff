//! Púdelka and Rebok 2009, Sloatbeek 2005, and the DRE paper of 2004: what
//! `emulate bench` measures, held against what they say.

use super::claim::{At, Claim, Estimator};
use super::study::{Make, Paper, Plot, Point, Scale, Study, Unit};

/// The one line of a study that is a bench.
const LINE: &str = "measured";
/// Its one place.
const PLACE: f64 = 1.0;

/// All of them.
pub(super) fn studies(scale: Scale) -> Vec<Study> {
    vec![reflector(scale), migration(scale), wars(scale), dre(scale)]
}

/// A study whose runs are all of one command.
fn study(id: &'static str, paper: Paper, args: &str, by: &'static [&'static str], scale: Scale) -> Study {
    let args = args.split_whitespace().map(str::to_owned).collect();
    // In real time: a quick one is made once.
    let seeds = if scale.is_quick { 1 } else { scale.seeds };
    let make = Make::Bench { args, by };
    let name = "all".to_owned();
    Study {
        id,
        paper,
        title: "",
        about: "",
        inferred: Vec::new(),
        axis: "",
        has_kinds: true,
        points: vec![Point { series: LINE.to_owned(), x: PLACE, place: PLACE, name, make, seeds }],
        plots: Vec::new(),
        claims: Vec::new(),
    }
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

fn reflector(scale: Scale) -> Study {
    let args = match scale.is_quick {
        true => "reflect --implementation ours,c-gso --targets 10 --bytes 1440 --trial 400",
        false => "reflect --implementation ours,c-gso,c-naive --targets 1,5,10,50 --bytes 200,1440",
    };
    let (ours, c) = ("ours.10.1440.delivered_pps", "c-gso.10.1440.delivered_pps");
    Study {
        title: "Packets of 1440 bytes that a reflector sends to ten",
        about: "One copy of a stream in, copies to ten receivers out, on one machine over loopback.",
        inferred: vec![
            "The seed's reflector was limited by Ethernet of 1 Gbit/s; here nothing but the processor is in the way.",
        ],
        plots: vec![
            plot("throughput", "ours, packets a second", ours, Unit::Count),
            plot("throughput", "a page of C", c, Unit::Count),
        ],
        claims: vec![
            Said {
                id: "erum-throughput",
                figure: "throughput",
                sentence: "A reflector sends 905 Mbit/s with packets of 1440 bytes: 78 600 packets a second.",
                seed: "78 600 packets/s",
                ours: Estimator::Mean(at(ours)),
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
                ours: Estimator::Ratio(at(ours), at(c)),
                unit: Unit::Times,
                size: (0.9, f64::INFINITY),
                direction: (0.5, f64::INFINITY),
                why: "The page of C keeps no packets for who joins later and reads no headers.",
            }
            .claim(),
        ],
        ..study("erum-throughput", Paper::Erum, args, &["implementation", "targets", "bytes"], scale)
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

fn wars(scale: Scale) -> Study {
    let args = match scale.is_quick {
        true => "bulk --path thin,regional --sender rate,tcp-cubic --seconds 12",
        false => "bulk --path thin,regional,satellite,clean --sender rate,udt,tcp-cubic,tcp-bbr,udt4 --seconds 20",
    };
    let over = |path: &str| {
        let goodput = |sender: &str| at(&format!("{path}.{sender}.goodput_ratio"));
        Estimator::Ratio(goodput("rate"), goodput("tcp-cubic"))
    };
    let said = |id, sentence, seed, path: &str, least| {
        Said {
            id,
            figure: "ratios",
            sentence,
            seed,
            ours: over(path),
            unit: Unit::Times,
            size: (least, f64::INFINITY),
            direction: (1.0, f64::INFINITY),
            why: "TCP of today does better on such a path than that of 2005 did, so that even a full link is no such \
                  factor above it.",
        }
        .claim()
    };
    Study {
        title: "Bulk transfer over long and lossy paths",
        about: "An object over the paths whose losses explain the seed's times (10 Mbit/s, 150 ms round trip, 0.5 % \
                loss; 40 Mbit/s, 17 ms, 0.4 %): ours at the rate that it finds, the kernel's TCP, and UDT4 where it is \
                installed.",
        inferred: vec![
            "The losses follow from the seed's times by Mathis's formula. The other explanation, a window of 32 KB and \
             no loss, is not measured.",
        ],
        plots: vec![
            plot("ratios", "thin, ours", "thin.rate.goodput_ratio", Unit::Part),
            plot("ratios", "thin, TCP cubic", "thin.tcp-cubic.goodput_ratio", Unit::Part),
            plot("ratios", "regional, ours", "regional.rate.goodput_ratio", Unit::Part),
            plot("ratios", "regional, TCP cubic", "regional.tcp-cubic.goodput_ratio", Unit::Part),
        ],
        claims: vec![
            said("wars-thin", "Berkeley to Sussex UDT is 6.8 times as fast as TCP.", "6.8 ×", "thin", 6.8),
            said("wars-regional", "Washington to Atlanta UDT is 2.7 times as fast as TCP.", "2.7 ×", "regional", 2.7),
        ],
        ..study("wars", Paper::Wars, args, &["path", "sender"], scale)
    }
}

fn dre(scale: Scale) -> Study {
    let args = match scale.is_quick {
        true => "transport --transport quic,kernel-tcp --workload paced,ping-pong --seconds 3 --runs 1",
        false => "transport --transport quic,udp,kernel-tcp,kernel-mptcp --seconds 6 --runs 1",
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
