//! The DRE paper of 2004: frames over two links.

use super::{at, by_size, empty_study, study};
use crate::claim::{Band, Claim, MeasureKey, PaperStatement, PreferredAmount};
use crate::estimate::Estimator;
use crate::study::{Paper, Study, StudyScale, StudyUnit, plot};

pub(super) fn studies(scale: StudyScale) -> Vec<Study> {
    vec![dre(scale), sizes(scale)]
}

/// A substitute for the paper's SCTP: the bench's name, the part of a claim's name, its description, and the
/// reason for differences.
struct SctpSubstitute(&'static str, &'static str, &'static str, &'static str);

const OURS: SctpSubstitute = SctpSubstitute(
    "quic-duplicate",
    "",
    "here Roost's multipath over QUIC, each chunk over both links, in its place",
    "Both links carry every chunk, so that nothing waits until a link is found to have failed.",
);
const STRIPED: SctpSubstitute = SctpSubstitute(
    "quic-stripe",
    "",
    "here Roost's multipath over QUIC, chunks over the one link or the other, in its place",
    "Both links carry chunks at once, which the paper names as future work.",
);
const MPTCP: SctpSubstitute = SctpSubstitute(
    "kernel-mptcp",
    "-mptcp",
    "here the kernel's MPTCP in its place",
    "MPTCP waits for a time-out until it takes a link for failed.",
);

/// A figure of SCTP in the paper.
struct SctpFigure {
    id: &'static str,
    figure: &'static str,
    sentence: &'static str,
    says: PaperStatement,
    holds: Band,
    unit: StudyUnit,
    measure: &'static str,
}

const fn row(id: &'static str, figure: &'static str, sentence: &'static str, says: PaperStatement) -> SctpFigure {
    SctpFigure { id, figure, sentence, says, holds: Band::Above(0.0), unit: StudyUnit::Ms, measure: "" }
}

/// A printed value below this means no frame.
const NONE: f64 = 0.5;

impl SctpFigure {
    /// A time or fraction that should be small: the paper's statement is that it is not greater.
    const fn at_most(self, measure: &'static str, unit: StudyUnit, most: f64) -> Self {
        Self { measure, unit, holds: Band::Below(most), ..self }
    }

    /// A rate: the paper's statement is that it exceeds that of TCP.
    const fn more_than_tcp(self, measure: &'static str, tcp: f64) -> Self {
        Self { measure, unit: StudyUnit::MbitS, holds: Band::Above(tcp), ..self }
    }

    fn claim(&self, carrier: &SctpSubstitute) -> Claim {
        let SctpSubstitute(name, suffix, words, why) = *carrier;
        let better = if self.unit == StudyUnit::MbitS { PreferredAmount::More } else { PreferredAmount::Less };
        Claim {
            id: format!("{}{suffix}", self.id),
            figure: self.figure,
            sentence: format!("{}; {words}.", self.sentence),
            says: self.says,
            ours: Estimator::Mean(at(&format!("{name}.{}", self.measure))),
            unit: self.unit,
            holds: self.holds,
            better,
            why,
        }
    }
}

/// Tables 1 and 3.
const TIMES: [SctpFigure; 5] = [
    row(
        "dre-late-loss",
        "table 1",
        "With 1 % loss on one link SCTP has no late frame",
        PaperStatement::exactly("0 %", 0.0),
    )
    .at_most("loss.paced.65536.late_pct", StudyUnit::Percent, NONE),
    row(
        "dre-late-failures",
        "table 1",
        "With links that fail in turn SCTP has no late frame",
        PaperStatement::exactly("0 %", 0.0),
    )
    .at_most("failures.paced.65536.late_pct", StudyUnit::Percent, NONE),
    row(
        "dre-gap-failures",
        "table 1",
        "With links that fail in turn SCTP's longest delay is 40 ms",
        PaperStatement::exactly("40 ms", 40.0),
    )
    .at_most("failures.paced.65536.max_gap_ms", StudyUnit::Ms, 40.0),
    row(
        "dre-latency-loss",
        "table 3",
        "With 1 % loss SCTP's longest round trip is 10.1 ms",
        PaperStatement::exactly("10.1 ms", 10.1),
    )
    .at_most("loss.ping-pong.1024.max_ms", StudyUnit::Ms, 10.1),
    row(
        "dre-latency-failures",
        "table 3",
        "With links that fail in turn SCTP's longest round trip is 7.5 ms",
        PaperStatement::exactly("7.5 ms", 7.5),
    )
    .at_most("failures.ping-pong.1024.max_ms", StudyUnit::Ms, 7.5),
];

/// Table 2.
const RATES: [SctpFigure; 3] = [
    row(
        "dre-rate",
        "table 2",
        "With both links up SCTP carries 122 Mbit/s",
        PaperStatement::exactly("122 Mbit/s", 122.0),
    )
    .more_than_tcp("both-up.throughput.65536.mbps", 94.0),
    row(
        "dre-rate-loss",
        "table 2",
        "With 1 % loss SCTP carries 100 Mbit/s",
        PaperStatement::exactly("100 Mbit/s", 100.0),
    )
    .more_than_tcp("loss.throughput.65536.mbps", 87.0),
    row(
        "dre-rate-failures",
        "table 2",
        "With links that fail SCTP carries 83 Mbit/s",
        PaperStatement::exactly("83 Mbit/s", 83.0),
    )
    .more_than_tcp("failures.throughput.65536.mbps", 38.0),
];

fn dre(scale: StudyScale) -> Study {
    let args = match scale.is_quick {
        true => {
            "transport --transport quic-duplicate,kernel-tcp --condition loss,failures --workload paced,ping-pong \
             --seconds 3 --runs 1"
        }
        false => "transport --transport quic,kernel-tcp,kernel-mptcp --seconds 6 --runs 1",
    };
    let mut claims: Vec<Claim> = TIMES.iter().map(|row| row.claim(&OURS)).collect();
    if !scale.is_quick {
        claims.extend(TIMES.iter().map(|row| row.claim(&MPTCP)));
        let rates = [STRIPED, MPTCP];
        claims.extend(RATES.iter().flat_map(|row| rates.each_ref().map(|carrier| row.claim(carrier))));
    }
    Study {
        title: "Frames over two links, of which one fails",
        about: "Two links of 100 Mbit/s between two hosts: both up, 1 % loss on the first, or each 2 s down after 4 s in \
                turn. Paced frames of 64 KB at 100 Hz, as many as there is room for, and 1 KB to and fro; ours over both \
                links, beside the kernel's TCP and MPTCP.",
        inferred: vec![
            "A paced frame is late if it comes more than 10 ms after it was due, or never. The paper counts those that the \
             sender could not begin when they were due, which are fewer.",
            "Of what is to be little the paper's statement ends at its figure; of rates it is that SCTP carries more than \
             TCP, whose figure of the same table is the end.",
        ],
        plots: vec![
            plot("table 1", "ours over both links", "quic-duplicate.failures.paced.65536.late_pct", StudyUnit::Percent),
            plot("table 1", "TCP", "kernel-tcp.failures.paced.65536.late_pct", StudyUnit::Percent),
            plot("table 3", "ours over both links", "quic-duplicate.loss.ping-pong.1024.max_ms", StudyUnit::Ms),
            plot("table 3", "TCP", "kernel-tcp.loss.ping-pong.1024.max_ms", StudyUnit::Ms),
        ],
        claims,
        ..study("dre", Paper::Dre, args, &["transport", "condition", "workload", "frame_bytes"], scale)
    }
}

fn sizes(scale: StudyScale) -> Study {
    const LARGEST: f64 = 65_536.0;
    let (transports, seconds) = match scale.is_quick {
        true => (["quic-duplicate", "kernel-tcp"].as_slice(), 3),
        false => (["quic-duplicate", "udp", "kernel-tcp"].as_slice(), 6),
    };
    let conditions = if scale.is_quick { "loss" } else { "loss,failures" };
    let args = |transport: &str, bytes: u32| {
        format!(
            "transport --transport {transport} --frame {bytes} --condition {conditions} --workload paced --seconds \
             {seconds} --runs 1"
        )
    };
    let sizes = scale.places(&[1024, 32_768, 65_536], &[1024, 65_536]);
    let said = |id, sentence, says, line: &str, holds, why| {
        let (ours, better) = (Estimator::Mean(MeasureKey::new(line, LARGEST, "loss.late_pct")), PreferredAmount::Less);
        let (id, sentence, unit) = (str::to_owned(id), str::to_owned(sentence), StudyUnit::Percent);
        Claim { id, figure: "frame sizes", sentence, says, ours, unit, holds, better, why }
    };
    Study {
        title: "Paced frames by their size",
        about: "Frames of 1 to 64 KB, 100 a second, over two links of 100 Mbit/s: 1 % loss on the first, and links \
                that fail in turn. Ours over both links at once, ours over the first alone (udp), TCP over the first.",
        inferred: vec![
            "A frame is late if it comes more than 10 ms after it was due, or never.",
            "The paper also sent fewer frames a second, of which fewer are late; and its UDP frames ended at 8 KB, \
             where ours are cut and repaired.",
        ],
        axis: "bytes of a frame",
        has_kinds: false,
        plots: vec![
            plot("frame sizes", "Late with 1 % loss", "loss.late_pct", StudyUnit::Percent),
            plot("frame sizes", "Late with links that fail", "failures.late_pct", StudyUnit::Percent),
            plot("frame sizes", "Longest delay with 1 % loss", "loss.max_ms", StudyUnit::Ms),
            plot("frame sizes", "Longest delay with links that fail", "failures.max_ms", StudyUnit::Ms),
        ],
        claims: vec![
            said(
                "dre-sizes-tcp",
                "With 1 % loss 6 % of TCP's frames of 64 KB at 100 Hz are late: here the kernel's TCP of today.",
                PaperStatement::exactly("6 %", 6.0),
                "kernel-tcp",
                Band::Above(0.5),
                "Repairs of TCP have come far since, and the links have no delay here.",
            ),
            said(
                "dre-sizes-sctp",
                "With 1 % loss SCTP is in time with frames of 64 KB, as with all others; here Roost's multipath over QUIC, \
                 each chunk over both links, in its place.",
                PaperStatement::exactly("0 %", 0.0),
                "quic-duplicate",
                Band::Below(NONE),
                "It is late more often than SCTP was.",
            ),
        ],
        ..empty_study("dre-sizes", Paper::Dre, by_size(transports, &sizes, args, &["condition"], scale))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::claim::StudyValues;
    use crate::verdict::ClaimVerdict;

    struct Always(f64);

    impl StudyValues for Always {
        fn at(&self, _: &MeasureKey) -> BTreeMap<u64, f64> {
            BTreeMap::from([(1, self.0), (2, self.0)])
        }

        fn places(&self, _: &str) -> Vec<f64> {
            Vec::new()
        }
    }

    #[test]
    fn exceeding_figure_many_times_fails() {
        let study = dre(StudyScale::new(false, None));
        let verdict = |id: &str, value| {
            let claim = study.claims.iter().find(|claim| claim.id == id).unwrap();
            claim.judge(&Always(value)).verdict
        };
        // 203 ms are 27 times SCTP's figure, though less than that of its TCP.
        assert_eq!(verdict("dre-latency-failures-mptcp", 203.0), ClaimVerdict::DoesNotHold);
        assert_eq!(verdict("dre-latency-failures", 3.4), ClaimVerdict::Holds);
        assert_eq!(verdict("dre-gap-failures", 40.0), ClaimVerdict::Equal);
        assert_eq!(verdict("dre-gap-failures", 41.0), ClaimVerdict::DoesNotHold);
        assert_eq!(verdict("dre-late-failures", 0.0), ClaimVerdict::Equal);
        assert_eq!(verdict("dre-late-failures", 1.0), ClaimVerdict::DoesNotHold);
        assert_eq!(verdict("dre-rate-failures", 39.0), ClaimVerdict::Holds);
    }
}
