//! Sloatbeek 2005: bulk transfer.

use super::{at, study};
use crate::claim::{Band, Claim, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Study, StudyScale, StudyUnit, plot};

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    vec![wars(scale), windows(scale)]
}

/// The paths and factors of the paper.
const PATHS: [(&str, &str, PaperStatement); 2] = [
    ("thin", "Berkeley to Sussex UDT is 6.8 times as fast as TCP", PaperStatement::exactly("6.8 ×", 6.8)),
    ("regional", "Washington to Atlanta UDT is 2.7 times as fast as TCP", PaperStatement::exactly("2.7 ×", 2.7)),
];

/// A substitute for the paper's UDT: the bench's name, the part of a claim's name, and its description.
struct UdtSubstitute(&'static str, &'static str, &'static str);

const RATE: UdtSubstitute = UdtSubstitute("rate", "", "here Roost's own controller `rate` over QUIC in its place");
const LAW: UdtSubstitute =
    UdtSubstitute("udt", "-udt", "here Roost's own controller `udt`, which follows UDT's law, over QUIC in its place");
const UDT4: UdtSubstitute = UdtSubstitute("udt4", "-udt4", "here UDT4 itself");
const ALL: [UdtSubstitute; 3] = [RATE, LAW, UDT4];

/// A factor of the paper: the speed of one of these over a path, relative to `tcp`.
fn factor(study: &str, sender: &UdtSubstitute, tcp: &str, (path, suffix): (usize, &str), why: &'static str) -> Claim {
    let (name, statement, says) = PATHS[path];
    let goodput = |sender: &str| at(&format!("{name}{suffix}.{sender}.goodput_ratio"));
    Claim {
        id: format!("{study}-{name}{}", sender.1),
        figure: "ratios",
        sentence: format!("{statement}; {}, and TCP of today.", sender.2),
        says,
        ours: Estimator::Ratio(goodput(sender.0), goodput(tcp)),
        unit: StudyUnit::Times,
        holds: Band::Above(1.0),
        better: PreferredAmount::More,
        why,
    }
}

fn wars(scale: StudyScale) -> Study {
    let args = match scale.is_quick {
        true => "bulk --path thin,regional --sender rate,tcp-cubic --seconds 6",
        false => "bulk --path thin,regional --sender rate,udt,tcp-cubic,udt4 --seconds 15",
    };
    let todays = "TCP of today does otherwise on such a path than that of 2005 did: even a full link is 5.3 and 3.1 times \
                  what it carries.";
    let theirs = "UDT takes each loss for a sign of congestion, whatever its reason.";
    let senders = if scale.is_quick { &ALL[..1] } else { &ALL[..] };
    let why = |sender: &UdtSubstitute| if sender.0 == "rate" { todays } else { theirs };
    let claim = |sender| [0, 1].map(|path| factor("wars", sender, "tcp-cubic", (path, ""), why(sender)));
    let claims = senders.iter().flat_map(claim).collect();
    Study {
        title: "Bulk transfer over long and lossy paths",
        about: "An object over paths whose losses explain the paper's times (10 Mbit/s, 150 ms round trip, 0.5 % \
                loss; 40 Mbit/s, 17 ms, 0.4 %): ours at the rate that it finds, the kernel's TCP, and UDT4 where it is \
                installed. In parts of what the link carries.",
        inferred: vec![
            "The paths are made so that TCP takes the paper's time by Mathis's formula: losses follow from its times. What \
             is found is therefore the other sender's part of the factor alone.",
            "UDT4 is Debian's libudt, of 2011 and later than the paper's, and encrypts nothing; ours does.",
        ],
        plots: vec![
            plot("ratios", "thin, ours", "thin.rate.goodput_ratio", StudyUnit::Part),
            plot("ratios", "thin, UDT's law, ours", "thin.udt.goodput_ratio", StudyUnit::Part),
            plot("ratios", "thin, UDT4", "thin.udt4.goodput_ratio", StudyUnit::Part),
            plot("ratios", "thin, TCP cubic", "thin.tcp-cubic.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, ours", "regional.rate.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, UDT's law, ours", "regional.udt.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, UDT4", "regional.udt4.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, TCP cubic", "regional.tcp-cubic.goodput_ratio", StudyUnit::Part),
        ],
        claims,
        ..study("wars", Paper::Wars, args, &["path", "sender"], scale)
    }
}

fn windows(scale: StudyScale) -> Study {
    let args = match scale.is_quick {
        true => "bulk --path thin-clean,regional-clean --sender rate,tcp-32k --seconds 6",
        false => "bulk --path thin-clean,regional-clean --sender rate,tcp-32k,tcp-cubic,udt4 --seconds 12",
    };
    let why = "A window of 32 KB and the round trip that is assumed allow TCP more than the paper's had: its times are \
               those of 24 and 29 KB.";
    let senders = if scale.is_quick { &[RATE][..] } else { &[RATE, UDT4][..] };
    let claim = |sender| [0, 1].map(|path| factor("wars-window", sender, "tcp-32k", (path, "-clean"), why));
    let claims = senders.iter().flat_map(claim).collect();
    Study {
        title: "The same paths without loss, and TCP with a window of 32 KB",
        about: "The other explanation of the paper's times: nothing is lost, and TCP has the window of hosts that \
                nobody has tuned, so that it sends 32 KB in each round trip of 150 and of 17 ms. Beside it TCP that \
                tunes itself. In parts of what the link carries.",
        inferred: vec![
            "Round trips are those assumed before. A receiver's buffer makes the window, which is 32 KB within a \
             tenth with Linux 6.6 and later.",
        ],
        plots: vec![
            plot("ratios", "thin, ours", "thin-clean.rate.goodput_ratio", StudyUnit::Part),
            plot("ratios", "thin, UDT4", "thin-clean.udt4.goodput_ratio", StudyUnit::Part),
            plot("ratios", "thin, TCP of 32 KB", "thin-clean.tcp-32k.goodput_ratio", StudyUnit::Part),
            plot("ratios", "thin, TCP of today", "thin-clean.tcp-cubic.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, ours", "regional-clean.rate.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, UDT4", "regional-clean.udt4.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, TCP of 32 KB", "regional-clean.tcp-32k.goodput_ratio", StudyUnit::Part),
            plot("ratios", "regional, TCP of today", "regional-clean.tcp-cubic.goodput_ratio", StudyUnit::Part),
        ],
        claims,
        ..study("wars-window", Paper::Wars, args, &["path", "sender"], scale)
    }
}
