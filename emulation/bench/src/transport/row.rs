//! The row of a workload's runs.

use std::time::Duration;

use serde::Serialize;

use super::tally::TransportRun;
use super::{BenchTransport, Condition, FrameWorkload, TransportCase, network};
use crate::frame::{Column, Row, decimals, whole};
use crate::tally::Delays;

/// A transport under one condition with one workload, over all its runs. Figures that a workload lacks are
/// `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransportRow {
    pub condition: Condition,
    pub transport: BenchTransport,
    pub workload: FrameWorkload,
    pub frame_bytes: u32,
    /// Due frames per second, of paced ones.
    pub hz: Option<u32>,
    /// Payload rate from the first frame to the last, Mbit/s: the mean of all runs.
    pub mbps: Option<f64>,
    /// Payload rate of the worst run.
    pub mbps_least: Option<f64>,
    /// For throughput the mean rate, in % of the rates of both links while they are up.
    pub capacity_pct: Option<f64>,
    /// Paced frames that came more than 10 ms after they were due, or never: %.
    pub late_pct: Option<f64>,
    /// Late frames that came, and would have been in time without stalls of this machine: % of all. `None` if
    /// the rights to observe stalls are missing.
    pub stalled_late_pct: Option<f64>,
    /// Paced frames that could not be begun before the next was due: %.
    pub missed_pct: Option<f64>,
    /// The longest time from one frame to the next, ms.
    pub max_gap_ms: Option<f64>,
    /// Mean delay, ms: of a paced frame from its due time, of another from its beginning, to its arrival or,
    /// for ping-pong, that of its answer.
    pub avg_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// The longest stall of a processor of this machine meanwhile, ms.
    pub stall_ms: Option<f64>,
    pub sent: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Frames that arrived changed.
    pub corrupted: u64,
    pub runs: u32,
}

impl Row for TransportRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column("WORKLOAD", |row, _| row.workload.to_string()),
        Column(">BYTES", |row, _| row.frame_bytes.to_string()),
        Column(">HZ", |row, _| whole(row.hz)),
        Column("CONDITION", |row, _| row.condition.to_string()),
        Column("TRANSPORT", |row, _| row.transport.to_string()),
        Column(">Mbit/s", |row, _| decimals(row.mbps, 1)),
        Column(">OF C %", |row, _| decimals(row.capacity_pct, 1)),
        Column(">LATE %", |row, _| decimals(row.late_pct, 2)),
        Column(">STALLED %", |row, _| decimals(row.stalled_late_pct, 2)),
        Column(">GAP ms", |row, _| decimals(row.max_gap_ms, 1)),
        Column(">AVG ms", |row, _| decimals(row.avg_ms, 3)),
        Column(">p99 ms", |row, _| decimals(row.p99_ms, 2)),
        Column(">MAX ms", |row, _| decimals(row.max_ms, 1)),
        Column(">STALL ms", |row, _| decimals(row.stall_ms, 1)),
        Column(">LOST", |row, _| row.lost.to_string()),
        Column(">TWICE", |row, _| row.duplicated.to_string()),
    ];

    fn remark(rows: &[Self]) -> String {
        match rows.iter().map(|row| row.reordered + row.corrupted).sum::<u64>() {
            0 => "no frame came out of order or changed; ".to_owned(),
            wrong => format!("{wrong} frames came out of order or changed; "),
        }
    }
}

impl TransportRow {
    pub(super) fn from_runs(cell: &TransportCase, runs: &[TransportRun]) -> Self {
        let sum = |count: fn(&TransportRun) -> u64| runs.iter().map(count).sum::<u64>();
        let (sent, late) = (sum(|run| run.sent), sum(|run| run.tally.late()));
        let lost = sum(|run| run.sent.saturating_sub(run.tally.arrivals.received));
        let part = |count: u64| (sent > 0).then(|| round(100.0 * count as f64 / sent as f64));
        let is_paced = cell.workload == FrameWorkload::Paced;
        let is_one_way = cell.workload != FrameWorkload::PingPong;
        let rates: Vec<f64> = runs.iter().filter(|_| is_one_way).filter_map(rate).collect();
        let mut delays = Delays::default();
        runs.iter().for_each(|run| delays.merge(&run.tally.arrivals.delays));
        let mean = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64);
        let capacity = network::capacity_mbps(cell.condition);
        let stalled: Option<Vec<(u64, Duration)>> = runs.iter().map(|run| run.stalled).collect();
        let excused = stalled.as_ref().map(|runs| runs.iter().map(|(excused, _)| excused).sum());
        let gap = runs.iter().map(|run| run.tally.arrivals.max_gap).max();
        Self {
            condition: cell.condition,
            transport: cell.transport,
            workload: cell.workload,
            frame_bytes: cell.frame_bytes,
            hz: is_paced.then_some(cell.hz),
            mbps: mean.map(round),
            mbps_least: rates.iter().copied().min_by(f64::total_cmp).map(round),
            capacity_pct: mean.filter(|_| !is_paced).map(|mean| round(100.0 * mean / capacity)),
            late_pct: part(late + lost).filter(|_| is_paced),
            stalled_late_pct: excused.and_then(part).filter(|_| is_paced),
            missed_pct: part(sum(|run| run.missed)).filter(|_| is_paced),
            max_gap_ms: gap.filter(|_| is_one_way).map(ms),
            avg_ms: delays.mean().map(ms),
            p99_ms: delays.percentile(99).map(ms),
            max_ms: delays.max().map(ms),
            stall_ms: stalled.and_then(|runs| runs.iter().map(|(_, longest)| *longest).max()).map(ms),
            sent,
            lost,
            duplicated: sum(|run| run.tally.arrivals.duplicated),
            reordered: sum(|run| run.tally.arrivals.reordered),
            corrupted: sum(|run| run.tally.corrupted),
            runs: runs.len() as u32,
        }
    }
}

/// Payload rate in Mbit/s.
fn rate(run: &TransportRun) -> Option<f64> {
    let span = run.tally.arrivals.span().as_secs_f64();
    (span > 0.0).then(|| run.tally.arrivals.bytes as f64 * 8.0 / 1e6 / span)
}

fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

/// To three decimals: more is noise.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::frame::{BenchFrameKind, Head};
    use crate::transport::tally::FrameCounts;

    /// Frames every 10 ms that arrive after these delays; `None` is a lost one.
    fn run(delays_ms: &[Option<u64>]) -> TransportRun {
        let mut tally = FrameCounts::default();
        for (number, delay) in delays_ms.iter().enumerate() {
            let due = Duration::from_millis(10) * number as u32;
            let Some(delay) = delay else { continue };
            let head = Head { kind: BenchFrameKind::Data, number: number as u64, due };
            tally.record_frame(head, 12_500, due + Duration::from_millis(*delay));
        }
        TransportRun { sent: delays_ms.len() as u64, missed: 1, tally, stalled: Some((1, Duration::from_millis(4))) }
    }

    fn cell(workload: FrameWorkload) -> TransportCase {
        let (condition, transport) = (Condition::Loss, BenchTransport::QuicStripe);
        TransportCase { condition, transport, workload, frame_bytes: 12_500, hz: 100 }
    }

    #[test]
    fn runs_are_added_up() {
        let runs = [run(&[Some(1), Some(3), None, Some(11)]), run(&[Some(1), Some(1), Some(1), Some(1)])];
        let row = TransportRow::from_runs(&cell(FrameWorkload::Paced), &runs);
        assert_eq!((row.sent, row.lost, row.runs), (8, 1, 2));
        assert_eq!((row.late_pct, row.missed_pct, row.max_gap_ms), (Some(25.0), Some(25.0), Some(28.0)));
        assert_eq!((row.stalled_late_pct, row.stall_ms), (Some(25.0), Some(4.0)));
        assert_eq!((row.avg_ms, row.p99_ms, row.max_ms), (Some(2.714), Some(11.0), Some(11.0)));
        // 3 frames of 0.1 Mbit in 40 ms, and 4 in 30 ms.
        assert_eq!((row.mbps, row.mbps_least), (Some(10.417), Some(7.5)));
    }

    #[test]
    fn unmeasured_columns_are_none() {
        let row = TransportRow::from_runs(&cell(FrameWorkload::PingPong), &[run(&[Some(1), Some(3)])]);
        assert_eq!((row.mbps, row.late_pct, row.hz, row.max_gap_ms), (None, None, None, None));
        assert_eq!(row.avg_ms, Some(2.0));
        let nothing = TransportRow::from_runs(&cell(FrameWorkload::Throughput), &[TransportRun::default()]);
        assert_eq!((nothing.mbps, nothing.avg_ms, nothing.lost), (None, None, 0));
        let half = run(&[Some(0), Some(0)]);
        let row = TransportRow::from_runs(&cell(FrameWorkload::Throughput), &[half]);
        // 0.2 Mbit in 10 ms of 200 Mbit/s.
        assert_eq!((row.mbps, row.capacity_pct), (Some(20.0), Some(10.0)));
    }

    #[test]
    fn row_has_stable_json_names() {
        let row =
            serde_json::to_value(TransportRow::from_runs(&cell(FrameWorkload::Paced), &[run(&[Some(1)])])).unwrap();
        assert_eq!(
            (&row["condition"], &row["transport"], &row["workload"]),
            (&"loss".into(), &"quic-stripe".into(), &"paced".into())
        );
        for name in
            ["frame_bytes", "mbps", "late_pct", "max_gap_ms", "avg_ms", "p99_ms", "max_ms", "lost", "duplicated"]
        {
            assert!(row.get(name).is_some(), "{name}");
        }
    }
}
