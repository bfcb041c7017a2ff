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
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use roost_lab::sandbox;

pub use self::model::STREAMS;
pub use self::row::{CapacityRow, CapacitySample, LOST};
use super::measured::{BenchStart, Measured};
use super::{BenchContext, BenchError, BenchOptions};

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

impl CapacityMode {
    pub const ALL: [Self; 3] = [Self::Count, Self::Residual, Self::Track];

    /// The name on command lines, in tables and in JSON.
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

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|what| what.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is nothing that can be measured: write {names}")
        })
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
        write!(f, "{}, {} super nodes", self.what.name(), self.hubs)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacitySettings {
    /// The number of streams that a super node's uplink carries; the original has [`STREAMS`].
    pub streams: f64,
    /// The time over which losses are counted. In 10 s a hundredth is two records.
    pub window: Duration,
}

pub type CapacityReport = Measured<CapacityRow>;

/// The approximate duration if the model's predictions hold.
pub fn duration(cases: &[CapacityCase], settings: CapacitySettings) -> Duration {
    cases.iter().map(|case| search::duration(*case, settings)).sum()
}

/// Measures each of `cases`, in their order, [inside a sandbox](roost_lab::sandbox::enter).
///
/// `watch` is called with each case that begins. When `stop` is set it ends soon, with the complete cases.
///
/// # Errors
/// When this is no sandbox. A case that fails is no error: a note reports it.
pub fn run(
    cases: &[CapacityCase],
    settings: CapacitySettings,
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&CapacityCase),
) -> Result<CapacityReport, BenchError> {
    let begun = BenchStart::now();
    sandbox::expect_inside()?;
    let mut bench = BenchContext { options, stop, facts: roost_experiment::host_facts::facts() };
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
