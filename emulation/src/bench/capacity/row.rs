//! What a measurement has come to.

use serde::Serialize;

use super::{CapacityCase, CapacityMode, model};

/// A room, or a stream, with so many in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CapacitySample {
    /// How many: members, or subscribers.
    pub count: usize,
    /// Streams that somebody is to receive and that do not come at all.
    pub missing: usize,
    /// The part of a stream that is lost, of the receiver and the stream where that is most.
    pub lost: f64,
    /// What the super node that sends most sent, in streams; control messages are in it.
    pub sent: f64,
}

/// Losses of such a part of a stream are too many: the criterion of the original.
pub const LOST: f64 = 0.01;

impl CapacitySample {
    /// Whether everybody receives everything.
    pub(super) fn holds(&self) -> bool {
        self.missing == 0 && self.lost < LOST
    }
}

/// A row.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityRow {
    /// What was measured: `count`, `residual` or `track`.
    pub what: &'static str,
    /// Super nodes.
    pub hubs: usize,
    /// Streams that the uplink of each carries.
    pub streams: f64,
    /// The most that the original printed, if it did so for this many: clients that all send.
    pub printed: Option<usize>,
    /// The same with a client that only receives.
    pub printed_receive_only: Option<usize>,
    /// The most if all are split by their number: equation (4) of the original.
    pub counted: usize,
    /// The most if all super nodes share the copies evenly.
    pub balanced: usize,
    /// The most that were measured to receive everything.
    pub most: CapacitySample,
    /// One more, who did not.
    pub beyond: CapacitySample,
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
        Self { what: what.name(), hubs, streams, printed, printed_receive_only, counted, balanced, most, beyond }
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
