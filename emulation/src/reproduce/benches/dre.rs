//! The DRE paper of 2004: frames over two links.

use super::{Said, at, by_size, of, plot, study};
use crate::reproduce::claim::{At, Estimator};
use crate::reproduce::study::{Paper, Scale, Study, Unit};

pub(super) fn studies(scale: Scale) -> Vec<Study> {
    vec![dre(scale), sizes(scale)]
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
    let conditions = if scale.is_quick { "loss" } else { "loss,failures" };
    let args = |transport: &str, bytes: u32| {
        format!(
            "transport --transport {transport} --frame {bytes} --condition {conditions} --workload paced --seconds \
             {seconds} --runs 1"
        )
    };
    let sizes = scale.places(&[1024, 32_768, 65_536], &[1024, 65_536]);
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
