use std::time::Duration;

use roost_wire::messages::ReflectionPolicy;
use serde::Serialize;

use super::{ONE_WAY, SubscriptionCase};
use crate::frame::{Column, Row, decimals, whole};

/// The tolerance of a join beyond a round trip, and of a gap while a path changes.
const MARGIN_MS: f64 = 20.0;
const GAP_MS: f64 = 25.0;
/// The most that one copy may take, relative to its payload: headers, seals and control messages are added.
const ONE_COPY: f64 = 1.25;

/// A row. Figures that a case does not measure are `None`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SubscriptionRow {
    pub case: &'static str,
    /// Receivers, all at one super node that is not the provider's.
    pub watchers: usize,
    /// Round trip between any two hosts, on the links alone, ms.
    pub round_trip_ms: f64,
    /// Time from the request to the first complete key frame, ms.
    pub picture_ms: Option<f64>,
    /// The longest gap between two datagrams at a receiver while the super node leaves, ms.
    pub gap_ms: Option<f64>,
    /// The longest gap in an equal time before that, ms.
    pub gap_before_ms: Option<f64>,
    /// Datagrams that a receiver's reader missed while the super node left.
    pub lost: Option<u64>,
    /// Datagrams that it received more than once.
    pub twice: Option<u64>,
    /// Bytes that the provider sent, with all headers, relative to those of the stream.
    pub copies: Option<f64>,
    /// True if the target is met; `None` without a target.
    pub met: Option<bool>,
}

impl Row for SubscriptionRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column("CASE", |row, _| row.case.to_owned()),
        Column(">WATCHERS", |row, _| row.watchers.to_string()),
        Column(">RTT ms", |row, _| decimals(row.round_trip_ms, 0)),
        Column(">PICTURE ms", |row, _| decimals(row.picture_ms, 1)),
        Column(">GAP ms", |row, _| decimals(row.gap_ms, 1)),
        Column(">BEFORE ms", |row, _| decimals(row.gap_before_ms, 1)),
        Column(">LOST", |row, _| whole(row.lost)),
        Column(">TWICE", |row, _| whole(row.twice)),
        Column(">COPIES", |row, _| decimals(row.copies, 2)),
        Column("RESULT", |row, _| row.met.map_or("", |met| if met { "met" } else { "NOT MET" }).to_owned()),
    ];
}

impl SubscriptionRow {
    pub(super) fn for_case(case: SubscriptionCase) -> Self {
        let round_trip_ms = millis(2 * ONE_WAY);
        Self { case: case.name(), watchers: case.subscribers(), round_trip_ms, ..Self::default() }
    }

    pub(super) fn joined(case: SubscriptionCase, after: Duration) -> Self {
        let row = Self::for_case(case);
        let within = millis(after) <= row.round_trip_ms + MARGIN_MS;
        // The first subscriber waits for a key frame to begin.
        let met = (case != SubscriptionCase::JoinFirst).then_some(within);
        Self { picture_ms: Some(millis(after)), met, ..row }
    }

    /// The row of receivers whose path changed: the longest gaps before and during the change, and lost and
    /// duplicate datagrams.
    pub(super) fn moved(case: SubscriptionCase, gaps: [Duration; 2], (lost, twice): (u64, u64)) -> Self {
        let [before, gap] = gaps.map(millis);
        let met = Some(gap <= GAP_MS && (lost, twice) == (0, 0));
        let (gap_ms, gap_before_ms) = (Some(gap), Some(before));
        Self { gap_ms, gap_before_ms, lost: Some(lost), twice: Some(twice), met, ..Self::for_case(case) }
    }

    pub(super) fn sent(case: SubscriptionCase, copies: f64) -> Self {
        let met = (case.reflection() != ReflectionPolicy::Never).then_some(copies <= ONE_COPY);
        Self { copies: Some(copies), met, ..Self::for_case(case) }
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_states_whether_target_met() {
        let time = |ms| Duration::from_millis(ms);
        let joined = |case, after| SubscriptionRow::joined(case, 2 * ONE_WAY + time(after)).met;
        assert_eq!([19, 21].map(|after| joined(SubscriptionCase::JoinReflected, after)), [Some(true), Some(false)]);
        assert_eq!(joined(SubscriptionCase::JoinFirst, 900), None);
        let moved =
            |gap, counts| SubscriptionRow::moved(SubscriptionCase::LeaveProviders, [time(9), time(gap)], counts).met;
        let seen = [moved(25, (0, 0)), moved(26, (0, 0)), moved(9, (1, 0)), moved(9, (0, 1))];
        assert_eq!(seen, [true, false, false, false].map(Some));
        assert_eq!(
            [1.1, 2.1].map(|copies| SubscriptionRow::sent(SubscriptionCase::Uplink4, copies).met),
            [true, false].map(Some)
        );
        assert_eq!(SubscriptionRow::sent(SubscriptionCase::Direct4, 4.2).met, None);
    }
}
