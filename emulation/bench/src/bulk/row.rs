//! The row of a combination's runs.

use std::time::Duration;

use serde::Serialize;

use super::arrivals::{ByteArrivals, jain};
use super::{BulkCase, LATER, SETTLED};
use crate::frame::{Column, Row, decimals};
use crate::probe::PacketTimes;

/// A sender over a path, or two that share it: means over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BulkRow {
    pub path: &'static str,
    /// The sender; two are joined by a plus, the later one last.
    pub sender: String,
    /// Bytes of the object received, as a fraction of the link's capacity, with the time of the handshake; for
    /// two flows the sum once they have settled.
    pub goodput_ratio: f64,
    /// The goodput of the second half of the time.
    pub steady_ratio: f64,
    /// Packets at the bottleneck beyond those that the bytes need, relative to these.
    pub waste: f64,
    /// Queueing delay of probes, ms.
    pub mean_queue_ms: f64,
    /// 95th percentile of that.
    pub p95_queue_ms: f64,
    /// The fairness of two flows: 1 if both have the same, a half if one has all.
    pub jain: Option<f64>,
    /// The later flow's fraction of the sum.
    pub later_share: Option<f64>,
    /// Complete runs, over which all figures are means.
    pub runs: usize,
    pub aborted: usize,
}

/// Published measurements of TCP cubic, TCP BBR and UDT4: goodput over link rate.
const ELSEWHERE: [(&str, [f64; 3]); 5] = [
    ("thin", [0.19, 0.86, 0.37]),
    ("regional", [0.27, 0.92, 0.15]),
    ("satellite", [0.18, 0.70, 0.35]),
    ("clean", [0.88, 0.88, 0.70]),
    ("nearly-clean", [0.42, 0.87, 0.60]),
];

impl Row for BulkRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column("PATH", |row, _| row.path.to_owned()),
        Column("SENDER", |row, _| row.sender.clone()),
        Column(">GOODPUT", |row, _| decimals(row.goodput_ratio, 2)),
        Column(">ELSEWHERE", |row, _| decimals(row.elsewhere(), 2)),
        Column(">STEADY", |row, _| decimals(row.steady_ratio, 2)),
        Column(">WASTE %", |row, _| decimals(row.waste * 100.0, 1)),
        Column(">QUEUE ms", |row, _| decimals(row.mean_queue_ms, 0)),
        Column(">p95 ms", |row, _| decimals(row.p95_queue_ms, 0)),
        Column(">JAIN", |row, _| decimals(row.jain, 2)),
        Column(">LATER", |row, _| decimals(row.later_share, 2)),
    ];
}

impl BulkRow {
    /// Published goodput of this sender on this path.
    fn elsewhere(&self) -> Option<f64> {
        let (_, seen) = ELSEWHERE.iter().find(|(path, _)| *path == self.path)?;
        let sender = ["tcp-cubic", "tcp-bbr", "udt4"].iter().position(|one| *one == self.sender)?;
        Some(seen[sender])
    }
}

#[derive(Clone, Debug, Default)]
pub struct BulkRun {
    goodput: f64,
    steady: f64,
    waste: f64,
    mean_queue_ms: f64,
    p95_queue_ms: f64,
    shares: Option<(f64, f64)>,
}

impl BulkRun {
    pub(super) fn from_arrivals(
        cell: &BulkCase,
        arrivals: &[&ByteArrivals],
        time: Duration,
        packets: u64,
        probes: &PacketTimes,
    ) -> Self {
        let link = cell.route.bits_per_second();
        let rate = |from: Duration, to: Duration| {
            // The second began later, and its clock with it.
            let rates = (0..).zip(arrivals).map(|(number, one)| {
                let late = LATER * number;
                one.rate(from.saturating_sub(late), to.saturating_sub(late))
            });
            rates.collect::<Vec<f64>>()
        };
        let all = |from, to| rate(from, to).iter().sum::<f64>() / link;
        let settled = if cell.competitor.is_some() { SETTLED } else { Duration::ZERO };
        let needed: f64 =
            cell.senders().zip(arrivals).map(|(sender, one)| one.bytes_by(time) as f64 / sender.payload()).sum();
        let (mean_queue_ms, p95_queue_ms) = queue(probes, cell.route.one_way());
        Self {
            goodput: all(settled, time),
            steady: all(time / 2, time),
            waste: if needed > 0.0 { packets as f64 / needed - 1.0 } else { 0.0 },
            mean_queue_ms,
            p95_queue_ms,
            shares: cell.competitor.map(|_| {
                let rates = rate(settled, time);
                (rates[0], rates[1])
            }),
        }
    }
}

/// The mean and the 95th percentile of the probes' queueing delay, ms.
fn queue(probes: &PacketTimes, delay: Duration) -> (f64, f64) {
    let mut queues: Vec<f64> =
        probes.delays().map(|nanos| (nanos / 1e6 - delay.as_secs_f64() * 1e3).max(0.0)).collect();
    queues.sort_by(f64::total_cmp);
    let mean = queues.iter().sum::<f64>() / queues.len().max(1) as f64;
    (mean, queues.get(queues.len() * 95 / 100).copied().unwrap_or(0.0))
}

/// The row of a cell's runs, of which there is at least one.
pub(super) fn pooled(cell: &BulkCase, runs: &[BulkRun], aborted: usize) -> BulkRow {
    let mean = |of: &dyn Fn(&BulkRun) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let shares = |of: &dyn Fn((f64, f64)) -> f64| cell.competitor.map(|_| mean(&|run| run.shares.map_or(0.0, of)));
    BulkRow {
        path: cell.route.name,
        sender: cell.name(),
        goodput_ratio: mean(&|run| run.goodput),
        steady_ratio: mean(&|run| run.steady),
        waste: mean(&|run| run.waste),
        mean_queue_ms: mean(&|run| run.mean_queue_ms),
        p95_queue_ms: mean(&|run| run.p95_queue_ms),
        jain: shares(&|(one, other)| jain(one, other)),
        later_share: shares(&|(one, other)| if one + other > 0.0 { other / (one + other) } else { 0.0 }),
        runs: runs.len(),
        aborted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_probe_excess_delay() {
        let probes =
            PacketTimes { sent: vec![0; 5], received: [30, 31, 35, 10].map(|ms| Some(ms * 1_000_000)).to_vec() };
        let (mean, p95) = queue(&probes, Duration::from_millis(30));
        assert!((mean - 1.5).abs() < 1e-9 && (p95 - 5.0).abs() < 1e-9);
        assert_eq!(queue(&PacketTimes::default(), Duration::ZERO), (0.0, 0.0));
    }
}
