//! Measures the emulator itself, on the machine that it runs on: how exact its
//! delays, rates, losses and schedules are, how much it carries, and what it
//! costs.
//!
//! Every measurement is a [`TransportRow`] with a target, what was seen, and a verdict,
//! which may be that a target is missed, or that it could not be measured.
//! What is seen comes from packets that arrived at hosts, not from what the
//! emulator counts: from probes on the machine's monotonic clock, which all
//! hosts share, and from programs that others wrote, `ping`, `iperf3` and
//! `tcpdump`.
//!
//! A machine that is busy with something else measures worse, and whose fault
//! that is cannot be seen from a row: [`BulkReport::competitor`] has what other
//! programs used while each case ran.

mod analysis;
pub mod bulk;
pub mod capacity;
mod capture;
mod cases;
mod flood;
mod iperf;
mod machine;
mod measured;
mod networks;
mod probe;
mod program;
pub mod reflect;
mod row;
mod stalls;
pub mod subscription;
mod testbed;
pub mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::lab::{DeviceBackend, Lab, LabError};
use crate::topology::Topology;
use machine::ProcessorSnapshot;
pub use measured::Measured;
pub use row::{BenchReport, BenchRow, BenchVerdict, StretchTarget};

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenchCase {
    /// How exact delays are.
    Delay,
    /// The same beside programs that keep all processors busy.
    Busy,
    /// How exact rates are, and what TCP makes of them.
    Rate,
    /// How exact losses are, and whether they repeat.
    Loss,
    /// How exact times of scheduled changes are.
    Schedule,
    /// How much goes through.
    Capacity,
    /// How late packets are in a large network.
    Scale,
    /// How long networks take to come and go.
    Setup,
    /// What a network costs in which nothing happens.
    Idle,
}

impl BenchCase {
    /// All, in the order in which they are measured.
    pub const ALL: [Self; 9] = [
        Self::Delay,
        Self::Busy,
        Self::Rate,
        Self::Loss,
        Self::Schedule,
        Self::Capacity,
        Self::Scale,
        Self::Setup,
        Self::Idle,
    ];

    /// Its name on command lines and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Busy => "busy",
            Self::Rate => "rate",
            Self::Loss => "loss",
            Self::Schedule => "schedule",
            Self::Capacity => "capacity",
            Self::Scale => "scale",
            Self::Setup => "setup",
            Self::Idle => "idle",
        }
    }
}

impl fmt::Display for BenchCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BenchCase {
    type Err = String;

    /// Reads a [name](BenchCase::name).
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|case| case.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{text}` is nothing that can be measured: write {}", names.join(", "))
        })
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// What losses and the times of probes are drawn from.
    pub seed: u64,
    /// How frames get to the core.
    pub backend: DeviceBackend,
    /// Whether the core, and the probes with it, ask for a real-time priority.
    pub realtime: bool,
    /// How long each measurement takes; each case has a length of its own
    /// without it. Shorter ones see less and vary more.
    pub length: Option<Duration>,
    /// The shell command that keeps the processors busy in [`BenchCase::Busy`],
    /// instead of the usual one.
    pub load_command: Option<String>,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self { seed: 1, backend: DeviceBackend::Auto, realtime: true, length: None, load_command: None }
    }
}

/// Why the measurements end early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No lab, or it broke.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Something other than a lab was refused.
    #[error("cannot {what}: {error}")]
    System {
        /// What was to be done.
        what: String,
        /// The answer.
        error: std::io::Error,
    },
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> BenchError {
    move |error| BenchError::System { what: what.into(), error }
}

/// What a case measures with.
struct BenchContext<'a> {
    options: &'a BenchOptions,
    stop: &'a AtomicBool,
    facts: BTreeMap<String, String>,
}

/// Measures each of `cases`, in their order, [inside a sandbox](crate::lab::sandbox::enter).
///
/// `subscription` hears which case begins. When `stop` is set it ends within about a
/// second, and the report has the cases that were complete by then.
///
/// # Errors
/// When a lab cannot be made, or breaks. What one program lacks is no error:
/// its rows say that they were not measured, and why.
pub fn run(
    cases: &[BenchCase],
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(BenchCase),
) -> Result<BenchReport, BenchError> {
    let began = Instant::now();
    let mut report = BenchReport::default();
    let mut bench = BenchContext { options, stop, facts: crate::host_facts::facts() };
    for case in cases {
        if bench.is_stopped() {
            break;
        }
        watch(*case);
        let before = ProcessorSnapshot::read_now();
        let rows = bench.measure(*case)?;
        if bench.is_stopped() {
            break;
        }
        if let Some(part) = before.and_then(|before| Some(ProcessorSnapshot::read_now()?.other_load_since(&before))) {
            report.beside.insert(case.name(), part);
        }
        report.rows.extend(rows);
    }
    report.interrupted = bench.is_stopped();
    report.machine = bench.facts;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

impl BenchContext<'_> {
    fn measure(&mut self, case: BenchCase) -> Result<Vec<BenchRow>, BenchError> {
        match case {
            BenchCase::Delay => cases::delay::quiet(self),
            BenchCase::Busy => cases::delay::busy(self),
            BenchCase::Rate => cases::rate::measure(self),
            BenchCase::Loss => cases::loss::measure(self),
            BenchCase::Schedule => cases::schedule::measure(self),
            BenchCase::Capacity => cases::capacity::measure(self),
            BenchCase::Scale => cases::scale::measure(self),
            BenchCase::Setup => cases::setup::measure(self),
            BenchCase::Idle => cases::idle::measure(self),
        }
    }

    /// A lab as the options ask for it.
    fn lab(&mut self, topology: &Topology) -> Result<Lab, BenchError> {
        self.lab_with_seed(topology, self.options.seed)
    }

    fn lab_with_seed(&mut self, topology: &Topology, seed: u64) -> Result<Lab, BenchError> {
        let BenchOptions { backend, realtime, .. } = *self.options;
        let lab = Lab::start(topology, &crate::lab::LabOptions { seed, backend, realtime, ..Default::default() })?;
        // What every lab of this bench has in common; the number of interfaces is not.
        for name in ["backend", "realtime", "tcp", "exact_timers", "frame_overhead"] {
            if let Some(fact) = lab.facts().get(name) {
                self.facts.insert(name.to_owned(), fact.clone());
            }
        }
        Ok(lab)
    }

    /// How long to measure, where `usual` is what gives the figure its worth.
    fn length(&self, usual: Duration) -> Duration {
        self.options.length.unwrap_or(usual)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Waits, unless it is stopped.
    fn sleep_unless_stopped(&self, time: Duration) {
        /// After which a wish to stop is noticed; looking costs a little of what `idle` measures.
        const NAP: Duration = Duration::from_millis(500);
        let end = Instant::now() + time;
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// Whether the carrier of a lab has a real-time priority.
fn is_realtime(lab: &Lab) -> bool {
    lab.facts().get("realtime").is_some_and(|fact| fact.starts_with("yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_names_round_trip() {
        for case in BenchCase::ALL {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert!("latency".parse::<BenchCase>().unwrap_err().contains("delay, busy, rate"));
    }
}
