use serde::Serialize;

use super::{CapacityCase, CapacityMode, model};
use crate::frame::{Column, Row, decimals, whole};

/// A room or a stream with a number of participants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CapacitySample {
    /// The number of members, or of subscribers.
    pub count: usize,
    /// Streams that a receiver should get and that do not arrive at all.
    pub missing: usize,
    /// The largest lost fraction of a stream, over all receivers and streams.
    pub lost: f64,
    /// The rate of the busiest super node, in streams, with control messages.
    pub sent: f64,
}

/// The limit of a stream's lost fraction: the criterion of the original.
const LOST: f64 = 0.01;

impl CapacitySample {
    /// True if every receiver gets every stream.
    pub(super) fn holds(&self) -> bool {
        self.missing == 0 && self.lost < LOST
    }

    /// Describes why there are too many: missing streams, and losses of the others.
    fn too_many(&self) -> String {
        let lost = format!("{:.1} % lost", 100.0 * self.lost);
        match self.missing {
            0 => lost,
            missing if self.lost < LOST => format!("{missing} refused"),
            missing => format!("{lost}, {missing} missing"),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct CapacityRow {
    pub what: CapacityMode,
    pub hubs: usize,
    /// Streams that the uplink of each carries.
    pub streams: f64,
    /// The original's printed maximum for this number, if any: clients that all send.
    pub printed: Option<usize>,
    /// The original's printed maximum with a client that only receives.
    pub printed_receive_only: Option<usize>,
    /// The maximum if clients are split by their number: equation (4) of the original.
    pub counted: usize,
    /// The maximum if all super nodes share the copies evenly.
    pub balanced: usize,
    /// The largest measured number that receives everything.
    pub most: CapacitySample,
    /// The next number, which is too many.
    pub beyond: CapacitySample,
}

impl Row for CapacityRow {
    const COLUMNS: &'static [Column<Self>] = &[
        Column(">HUBS", |row, _| row.hubs.to_string()),
        Column("BY", |row, _| row.what.to_string()),
        Column(">TABLE 3", |row, _| whole(row.printed)),
        Column(">TABLE 2", |row, _| whole(row.printed_receive_only)),
        Column(">COUNTED", |row, _| row.counted.to_string()),
        Column(">BALANCED", |row, _| row.balanced.to_string()),
        Column(">MEASURED", |row, _| row.most.count.to_string()),
        Column(">LOST %", |row, _| decimals(100.0 * row.most.lost, 1)),
        Column(">SENT", |row, _| decimals(row.most.sent, 1)),
        Column(">ONE MORE", |row, _| row.beyond.too_many()),
    ];
}

impl CapacityRow {
    pub(super) fn from_samples(case: CapacityCase, streams: f64, [most, beyond]: [CapacitySample; 2]) -> Self {
        let CapacityCase { what, hubs } = case;
        let ([printed, printed_receive_only], counted, balanced) = match what {
            CapacityMode::Count | CapacityMode::Residual => {
                (model::printed(hubs, streams), model::counted(hubs, streams), model::balanced(hubs, streams))
            }
            CapacityMode::Track => {
                ([None; 2], model::track_counted(hubs, streams), model::track_balanced(hubs, streams))
            }
        };
        Self { what, hubs, streams, printed, printed_receive_only, counted, balanced, most, beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_allows_under_one_percent() {
        let look = |missing, lost| CapacitySample { missing, lost, ..CapacitySample::default() }.holds();
        assert_eq!([look(0, 0.0), look(0, 0.009), look(0, 0.01), look(1, 0.0)], [true, true, false, false]);
    }

    #[test]
    fn row_includes_reference_figures() {
        let row = CapacityRow::from_samples(
            CapacityCase { what: CapacityMode::Residual, hubs: 4 },
            model::STREAMS,
            Default::default(),
        );
        assert_eq!((row.printed, row.printed_receive_only, row.counted, row.balanced), (Some(8), Some(9), 8, 10));
        let row =
            CapacityRow::from_samples(CapacityCase { what: CapacityMode::Track, hubs: 4 }, 10.0, Default::default());
        assert_eq!((row.printed, row.counted, row.balanced), (None, 28, 37));
    }
}
