//! Measures how many a mesh of super nodes serves, with the real daemons: how many
//! can be in one room, and how many can watch one stream.
//!
//! The links of super nodes are as wide as so many streams, everything else is wider. In
//! a room everyone sends and everyone receives, and nodes are spread over their homes by
//! number; they enter one after the other. The most that are in while nobody loses
//! a hundredth of any stream, and that one more is too many, is both measured.

mod listener;
mod model;
mod participants;
mod row;
mod search;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use self::model::STREAMS;
pub use self::row::{CapacityRow, CapacitySample, LOST};
use super::measured::{BenchStart, Measured};
use super::{BenchContext, BenchError, BenchOptions};
use crate::lab::sandbox;

/// The most super nodes: as many as figures were printed for.
pub const MAX_HUBS: usize = 16;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityMode {
    /// A room whose members are each served by their own homes: the original's policy.
    Count,
    /// A room with placement by what uplinks have left.
    Residual,
    /// Subscribers of one stream, with the same placement.
    Track,
}

/// How super nodes decide whom they serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServePolicy {
    Count,
    Residual,
}

impl CapacityMode {
    /// All, in the order in which they are measured.
    pub const ALL: [Self; 3] = [Self::Count, Self::Residual, Self::Track];

    /// Its name on command lines, in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Residual => "residual",
            Self::Track => "track",
        }
    }

    const fn policy(self) -> ServePolicy {
        match self {
            Self::Count => ServePolicy::Count,
            Self::Residual | Self::Track => ServePolicy::Residual,
        }
    }
}

impl FromStr for CapacityMode {
    type Err = String;

    /// Reads a [name](CapacityMode::name).
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|what| what.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is nothing that can be measured: write {names}")
        })
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityCase {
    /// What.
    pub what: CapacityMode,
    /// With so many super nodes, at most [`MAX_HUBS`].
    pub hubs: usize,
}

impl fmt::Display for CapacityCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} super nodes", self.what.name(), self.hubs)
    }
}

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacitySettings {
    /// How many streams the uplink of a super node carries; [`STREAMS`] of the original.
    pub streams: f64,
    /// How long losses are counted: 10 s, for a hundredth of that is two records.
    pub window: Duration,
}

/// What was measured.
pub type CapacityReport = Measured<CapacityRow>;

/// About how long it takes if everything is as the model says.
pub fn duration(cases: &[CapacityCase], settings: CapacitySettings) -> Duration {
    cases.iter().map(|case| search::duration(*case, settings)).sum()
}

/// Measures each of `cases`, in their order, [inside a sandbox](crate::lab::sandbox::enter).
///
/// `watch` hears which begins. When `stop` is set it ends soon, with the cases that were complete.
///
/// # Errors
/// When this is no sandbox. A case that fails is no error: a note says so.
pub fn run(
    cases: &[CapacityCase],
    settings: CapacitySettings,
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&CapacityCase),
) -> Result<CapacityReport, BenchError> {
    let begun = BenchStart::now();
    sandbox::expect_inside()?;
    let mut bench = BenchContext { options, stop, facts: crate::host_facts::facts() };
    let mut report = CapacityReport::default();
    for case in cases {
        watch(case);
        let found = search::find_limit(&mut bench, *case, settings);
        if bench.is_stopped() {
            break;
        }
        match found {
            Ok(looks) => report.rows.push(CapacityRow::from_samples(*case, settings.streams, looks)),
            Err(why) => {
                report.unmeasured += 1;
                report.notes.push(format!("{case}: not measured: {why}"));
            }
        }
    }
    report.end(&begun, bench.facts);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_by_its_name() {
        for what in CapacityMode::ALL {
            assert_eq!(what.name().parse(), Ok(what));
        }
        assert!("room".parse::<CapacityMode>().unwrap_err().contains("count, residual"));
    }
}
