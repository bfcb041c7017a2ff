//! The row of a combination's trials.

use serde::Serialize;

use super::load::TrialResult;
use super::{Implementation, ReflectCase};
use crate::frame::{Column, Row, decimals, whole};
use crate::tally::Delays;

/// A row. Delays are in microseconds; `None` for a target that received nothing.
#[derive(Clone, Debug, Serialize)]
pub struct ReflectRow {
    pub implementation: Implementation,
    pub targets: u16,
    pub bytes: usize,
    /// True if the network card, and not the kernel, cuts messages into datagrams.
    pub offload: bool,
    /// Datagrams per second at all sinks, at the highest rate with hardly any loss.
    pub delivered_pps: f64,
    /// The payload of these, Mbit/s.
    pub delivered_mbps: f64,
    /// Processor time of the reflector for each delivered datagram, nanoseconds.
    pub ns_per_packet: f64,
    /// Median delay to the last target, at 0.7 of that rate.
    pub p50_us: Option<u32>,
    /// 99th percentile of that.
    pub p99_us: Option<u32>,
    /// Median delay to the first target.
    pub first_p50_us: Option<u32>,
    /// The lost fraction at 0.7 of the rate.
    pub lost: f64,
    /// The results at a video's rate, if that is less than 0.7 of the highest.
    pub video: Option<Video>,
    /// Datagrams that arrived after later ones, over all trials.
    pub reordered: u64,
}

/// Delays to the first and to the last target, and losses, at 30 Mbit/s.
#[derive(Clone, Debug, Serialize)]
pub struct Video {
    /// Median delay to the first target, microseconds.
    pub first_p50_us: Option<u32>,
    /// 99th percentile of that.
    pub first_p99_us: Option<u32>,
    /// Median delay to the last target, microseconds.
    pub last_p50_us: Option<u32>,
    /// 99th percentile of that.
    pub last_p99_us: Option<u32>,
    pub lost: f64,
}

impl Video {
    fn from_trial(cell: &ReflectCase, seen: &TrialResult) -> Self {
        let [first, last] = &seen.delays;
        Self {
            first_p50_us: percentile(first, 50),
            first_p99_us: percentile(first, 99),
            last_p50_us: percentile(last, 50),
            last_p99_us: percentile(last, 99),
            lost: lost(cell, seen),
        }
    }
}

/// In microseconds.
fn percentile(delays: &Delays, percent: u64) -> Option<u32> {
    delays.percentile(percent).map(|delay| delay.as_micros() as u32)
}

fn lost(cell: &ReflectCase, seen: &TrialResult) -> f64 {
    let expected = (seen.sent * u64::from(cell.targets)).max(1);
    1.0 - seen.received.min(expected) as f64 / expected as f64
}

impl Row for ReflectRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column(">BYTES", |row, _| row.bytes.to_string()),
        Column(">TARGETS", |row, _| row.targets.to_string()),
        Column("OFFLOAD", |row, _| if row.offload { "on" } else { "off" }.to_owned()),
        Column("BY", |row, _| row.implementation.to_string()),
        Column(">kpps", |row, _| decimals(row.delivered_pps / 1e3, 1)),
        Column(">OF C GSO", |row, all| decimals(row.part_of_gso(all), 2)),
        Column(">ns EACH", |row, _| decimals(row.ns_per_packet, 0)),
        Column(">FIRST p50 µs", |row, _| whole(row.first_p50_us)),
        Column(">LAST p50 µs", |row, _| whole(row.p50_us)),
        Column(">p99 µs", |row, _| whole(row.p99_us)),
        Column(">LOST %", |row, _| decimals(100.0 * row.lost, 3)),
        Column(">30M FIRST p50 µs", |row, _| whole(row.video.as_ref().and_then(|video| video.first_p50_us))),
        Column(">LAST p50 µs", |row, _| whole(row.video.as_ref().and_then(|video| video.last_p50_us))),
        Column(">p99 µs", |row, _| whole(row.video.as_ref().and_then(|video| video.last_p99_us))),
    ];

    fn remark(rows: &[Self]) -> String {
        match rows.iter().map(|row| row.reordered).sum::<u64>() {
            0 => "No datagram came after later ones; ".to_owned(),
            moved => format!("{moved} datagrams came after later ones; "),
        }
    }
}

impl ReflectRow {
    fn part_of_gso(&self, all: &[Self]) -> Option<f64> {
        let key = |row: &Self| (row.targets, row.bytes, row.offload);
        let gso = all.iter().find(|row| row.implementation == Implementation::Gso && key(row) == key(self))?;
        Some(self.delivered_pps / gso.delivered_pps.max(1.0))
    }

    /// Combines the trial with the highest rate, that at 0.7 of it, and that at a video's rate.
    pub(super) fn from_trials(
        cell: &ReflectCase,
        best: &TrialResult,
        calm: &TrialResult,
        video: Option<&TrialResult>,
    ) -> Self {
        let [first, last] = &calm.delays;
        let delivered_pps = (best.received as f64 / best.seconds).round();
        Self {
            implementation: cell.implementation,
            targets: cell.targets,
            bytes: cell.bytes,
            offload: cell.offload,
            delivered_pps,
            delivered_mbps: (delivered_pps * cell.bytes as f64 * 8.0 / 1e6).round(),
            ns_per_packet: (best.cpu * 1e9 / best.received.max(1) as f64).round(),
            p50_us: percentile(last, 50),
            p99_us: percentile(last, 99),
            first_p50_us: percentile(first, 50),
            lost: lost(cell, calm),
            video: video.map(|video| Video::from_trial(cell, video)),
            reordered: best.reordered + calm.reordered + video.map_or(0, |video| video.reordered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_has_stable_json_names() {
        let cell = ReflectCase { implementation: Implementation::Ours, targets: 10, bytes: 200, offload: false };
        let best = TrialResult { sent: 1000, received: 10_000, seconds: 0.5, cpu: 0.005, ..TrialResult::default() };
        let delays = [1..3, 0..100].map(|range| range.map(std::time::Duration::from_micros).collect());
        let calm = TrialResult { sent: 100, received: 999, delays, ..best.clone() };
        let row = serde_json::to_value(ReflectRow::from_trials(&cell, &best, &calm, Some(&calm))).unwrap();
        assert_eq!((&row["implementation"], &row["targets"], &row["bytes"]), (&"ours".into(), &10.into(), &200.into()));
        assert_eq!(row["offload"], false);
        assert_eq!((row["delivered_pps"].as_f64(), row["ns_per_packet"].as_f64()), (Some(20_000.0), Some(500.0)));
        assert_eq!(row["delivered_mbps"].as_f64(), Some(32.0));
        assert_eq!((row["p50_us"].as_u64(), row["p99_us"].as_u64()), (Some(50), Some(99)));
        assert_eq!(row["first_p50_us"].as_u64(), Some(2));
        let video = &row["video"];
        assert_eq!((video["first_p99_us"].as_u64(), video["last_p99_us"].as_u64()), (Some(2), Some(99)));
        assert_eq!(video["lost"], row["lost"]);
        assert!((row["lost"].as_f64().unwrap() - 0.001).abs() < 1e-9);
    }

    #[test]
    fn what_nobody_got_has_no_delay() {
        let cell = ReflectCase { implementation: Implementation::Gso, targets: 1, bytes: 200, offload: true };
        let row = ReflectRow::from_trials(
            &cell,
            &TrialResult { seconds: 1.0, ..TrialResult::default() },
            &TrialResult { sent: 5, ..TrialResult::default() },
            None,
        );
        assert_eq!((row.p50_us, row.first_p50_us, row.lost), (None, None, 1.0));
    }
}
