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

impl BulkRow {
    pub(super) fn from_arrivals(
        cell: &BulkCase,
        arrivals: &[&ByteArrivals],
        time: Duration,
        packets: u64,
        probes: &PacketTimes,
    ) -> Self {
        let rates = |from: Duration, to: Duration| -> Vec<f64> {
            // The second began later, and its clock with it.
            let rate =
                |(late, one): (Duration, &&ByteArrivals)| one.rate(from.saturating_sub(late), to.saturating_sub(late));
            [Duration::ZERO, LATER].into_iter().zip(arrivals).map(rate).collect()
        };
        let part = |from, to| rates(from, to).iter().sum::<f64>() / cell.route.bits_per_second();
        let settled = if cell.competitor.is_some() { SETTLED } else { Duration::ZERO };
        let needed: f64 =
            cell.senders().zip(arrivals).map(|(sender, one)| one.bytes_by(time) as f64 / sender.payload()).sum();
        let (mean_queue_ms, p95_queue_ms) = queue(probes, cell.route.one_way());
        let shares = match rates(settled, time)[..] {
            [one, other] => Some((jain(one, other), if one + other > 0.0 { other / (one + other) } else { 0.0 })),
            _ => None,
        };
        Self {
            path: cell.route.name,
            sender: cell.name(),
            goodput_ratio: part(settled, time),
            steady_ratio: part(time / 2, time),
            waste: if needed > 0.0 { packets as f64 / needed - 1.0 } else { 0.0 },
            mean_queue_ms,
            p95_queue_ms,
            jain: shares.map(|(jain, _)| jain),
            later_share: shares.map(|(_, later)| later),
            runs: 1,
            aborted: 0,
        }
    }

    /// The row of a cell's runs, of which there is at least one.
    pub(super) fn pooled(runs: &[Self], aborted: usize) -> Self {
        let mean = |of: fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let shared = |of: fn(&Self) -> Option<f64>| {
            let all: Option<Vec<f64>> = runs.iter().map(of).collect();
            all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        Self {
            path: runs[0].path,
            sender: runs[0].sender.clone(),
            goodput_ratio: mean(|run| run.goodput_ratio),
            steady_ratio: mean(|run| run.steady_ratio),
            waste: mean(|run| run.waste),
            mean_queue_ms: mean(|run| run.mean_queue_ms),
            p95_queue_ms: mean(|run| run.p95_queue_ms),
            jain: shared(|run| run.jain),
            later_share: shared(|run| run.later_share),
            runs: runs.len(),
            aborted,
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
