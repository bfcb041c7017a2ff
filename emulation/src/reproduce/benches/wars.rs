//! Sloatbeek 2005: bulk transfer.

use super::{Said, at, plot, study};
use crate::reproduce::claim::{Claim, Estimator};
use crate::reproduce::study::{Paper, Scale, Study, Unit};

pub(super) fn studies(scale: Scale) -> Vec<Study> {
    vec![wars(scale), windows(scale)]
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
        false => "bulk --path thin,regional --sender rate,tcp-cubic,udt4 --seconds 15",
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
        false => "bulk --path thin-clean,regional-clean --sender rate,tcp-32k,tcp-cubic,udt4 --seconds 12",
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
