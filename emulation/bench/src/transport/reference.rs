//! Published measurements over two links of 100 Mbit/s under the same three conditions, for comparison.

use super::{Condition, FrameWorkload};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceFigure {
    pub name: &'static str,
    pub condition: Condition,
    /// 64 KiB at 100 Hz, 64 KiB as fast as possible, or 1 KiB to and fro.
    pub workload: FrameWorkload,
    /// Paced: late frames, %. Throughput: Mbit/s. Ping-pong: mean round trip, ms.
    pub value: f64,
    /// The longest delay of paced frames (in the paper) or gap between them (in other measurements), the
    /// longest round trip; ms.
    pub longest_ms: Option<f64>,
}

/// The paper's: *Using SCTP to Improve QoS and Network Fault-Tolerance of DRE Systems*, 2004, on Pentium III
/// with OpenSS7's SCTP; its UDP frames had 8 KB.
const SEED: [TransportFigures; 3] = [
    TransportFigures {
        name: "UDP (2004)",
        paced: [Some((0.0, 14.0)), Some((7.0, 400.0)), Some((33.0, 2000.0))],
        throughput: [None; 3],
        ping_pong: [None; 3],
    },
    TransportFigures {
        name: "TCP (2004)",
        paced: [Some((0.0, 13.0)), Some((6.0, 720.0)), Some((58.0, 4000.0))],
        throughput: [Some(94.0), Some(87.0), Some(38.0)],
        ping_pong: [Some((0.6, 1.1)), Some((5.4, 717.0)), Some((5.8, 3641.0))],
    },
    TransportFigures {
        name: "SCTP (2004)",
        paced: [Some((0.0, 14.0)), Some((0.0, 26.0)), Some((0.0, 40.0))],
        throughput: [Some(122.0), Some(100.0), Some(83.0)],
        ping_pong: [Some((0.6, 1.1)), Some((0.6, 10.1)), Some((0.6, 7.5))],
    },
];

/// Comparable implementations, measured in November 2026 over links of the kernel's token buckets, runs of 2 to
/// 6 s: usrsctp 0.9.5 with retransmission after 10 to 20 ms, the same with concurrent multipath transfer, and
/// noq 1.4.0, multipath QUIC, whose frames were not kept in order.
const REMEASURED: [TransportFigures; 3] = [
    TransportFigures {
        name: "SCTP (usrsctp)",
        paced: [Some((1.36, 26.9)), Some((2.5, 32.7)), Some((9.03, 126.6))],
        throughput: [Some(97.9), Some(100.2), Some(94.7)],
        ping_pong: [Some((0.09, 2.8)), None, Some((0.112, 399.7))],
    },
    TransportFigures {
        name: "SCTP-CMT (usrsctp)",
        paced: [Some((0.0, 10.5)), Some((0.94, 18.4)), Some((51.29, 152.2))],
        throughput: [Some(190.2), Some(186.6), Some(126.6)],
        ping_pong: [Some((0.083, 4.2)), Some((0.213, 25.6)), Some((0.223, 35.1))],
    },
    TransportFigures {
        name: "QUIC (noq)",
        paced: [Some((0.0, 13.6)), Some((0.62, 18.1)), Some((4.19, 107.4))],
        throughput: [Some(110.0), Some(143.7), Some(102.9)],
        ping_pong: [Some((0.178, 8.9)), Some((0.242, 12.0)), Some((0.178, 72.8))],
    },
];

/// All figures of one transport, by condition in the order of [`Condition::ALL`].
struct TransportFigures {
    name: &'static str,
    paced: [Option<(f64, f64)>; 3],
    throughput: [Option<f64>; 3],
    ping_pong: [Option<(f64, f64)>; 3],
}

/// All figures for a workload under a condition.
pub fn references(workload: FrameWorkload, condition: Condition) -> impl Iterator<Item = ReferenceFigure> {
    let place = Condition::ALL.iter().position(|one| *one == condition).unwrap_or_default();
    REMEASURED.iter().chain(&SEED).filter_map(move |of| {
        let (value, longest_ms) = match workload {
            FrameWorkload::Paced => of.paced[place].map(|(value, longest)| (value, Some(longest))),
            FrameWorkload::Throughput => of.throughput[place].map(|value| (value, None)),
            FrameWorkload::PingPong => of.ping_pong[place].map(|(value, longest)| (value, Some(longest))),
        }?;
        Some(ReferenceFigure { name: of.name, condition, workload, value, longest_ms })
    })
}
