//! Measures the capacity of a mesh of super nodes, with the real daemons: the members of one room, and the
//! subscribers of one stream.
//!
//! The links of super nodes carry a given number of streams; all other links are faster. In a room all members
//! send and receive, and nodes are spread evenly over their homes; they join one after the other. The capacity
//! is the largest membership at which no member loses a hundredth of any stream; that one more is too many is
//! measured as well.

mod listener;
mod model;
mod participants;
mod row;
mod search;

use std::fmt;
use std::time::Duration;

pub use self::model::STREAMS;
pub use self::row::CapacityRow;
use self::row::CapacitySample;
use super::frame::{Bench, BenchContext, CaseError, named};

/// The most super nodes: as many as in the printed figures.
pub const MAX_HUBS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityMode {
    /// A room whose members are each served by their own homes: the original's policy.
    Count,
    /// A room with placement by the residual capacity of uplinks.
    Residual,
    /// Subscribers of one stream, with placement by residual capacity.
    Track,
}

/// The policy by which super nodes choose whom to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServePolicy {
    Count,
    Residual,
}

named!(
    CapacityMode,
    "nothing that can be measured",
    Self::Count => "count",
    Self::Residual => "residual",
    Self::Track => "track",
);

impl CapacityMode {
    const fn policy(self) -> ServePolicy {
        match self {
            Self::Count => ServePolicy::Count,
            Self::Residual | Self::Track => ServePolicy::Residual,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityCase {
    pub what: CapacityMode,
    /// The number of super nodes, at most [`MAX_HUBS`].
    pub hubs: usize,
}

impl fmt::Display for CapacityCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} super nodes", self.what, self.hubs)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacitySettings {
    /// The number of streams that a super node's uplink carries; the original has [`STREAMS`].
    pub streams: f64,
    /// The time over which losses are counted. In 10 s a hundredth is two records.
    pub window: Duration,
}

/// The approximate duration if the model's predictions hold.
pub fn duration(cases: &[CapacityCase], settings: CapacitySettings) -> Duration {
    cases.iter().map(|case| search::duration(*case, settings)).sum()
}

pub struct CapacityBench {
    pub settings: CapacitySettings,
}

impl Bench for CapacityBench {
    type Case = CapacityCase;
    type Run = CapacityRow;
    type Row = CapacityRow;

    const NAME: &'static str = "bench reflect --capacity";

    fn run(&mut self, context: &mut BenchContext<'_>, case: &CapacityCase) -> Result<CapacityRow, CaseError> {
        let samples = search::find_limit(context, *case, self.settings)?;
        Ok(CapacityRow::from_samples(*case, self.settings.streams, samples))
    }

    fn rows(_case: &CapacityCase, runs: Vec<CapacityRow>, _failed: usize) -> Vec<CapacityRow> {
        runs
    }
}
