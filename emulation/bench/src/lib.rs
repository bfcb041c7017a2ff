//! Measures the emulator itself, on the machine that it runs on: the errors of its delays, rates, losses and
//! schedules, its capacity, and its costs.
//!
//! Every measurement is a [`BenchRow`] with a target, an observation, and a verdict: the target may be met,
//! missed or not measured. Observations come from packets that arrived at hosts, not from the emulator's
//! counters: from probes on the machine's monotonic clock, which all hosts share, and from the independent
//! programs `ping`, `iperf3` and `tcpdump`.
//!
//! A machine that is busy with other work measures worse, and a row does not show the cause:
//! [`BenchReport::beside`] has the load of other programs during each case.
//!
//! [`transport`] and [`bulk`] measure transports between two hosts, [`reflect`] the data path of a super node, and
//! [`subscription`] and [`capacity`] the daemons.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

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

use roost_lab::{DeviceBackend, Lab, LabError};
use roost_topology::Topology;

use machine::ProcessorSnapshot;
pub use measured::Measured;
pub use row::{BenchReport, BenchRow, BenchVerdict, StretchTarget};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenchCase {
    Delay,
    /// Errors of delays beside programs that keep all processors busy.
    Busy,
    /// Errors of rates, and the throughput of TCP.
    Rate,
    Loss,
    /// Errors of the times of scheduled changes.
    Schedule,
    Capacity,
    Scale,
    /// Times to make and remove networks.
    Setup,
    Idle,
}

impl BenchCase {
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

    /// The name on command lines and in tables.
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

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|case| case.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{text}` is nothing that can be measured: write {}", names.join(", "))
        })
    }
}

#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The seed of losses and of the times of probes.
    pub seed: u64,
    /// The way of frames to the core.
    pub backend: DeviceBackend,
    /// True to request a real-time priority for the core and the probes.
    pub realtime: bool,
    /// The length of each measurement; each case has a default. Shorter ones see less and vary more.
    pub length: Option<Duration>,
    /// A command for `sh` that keeps the processors busy in [`BenchCase::Busy`], in place of the default.
    pub load_command: Option<String>,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self { seed: 1, backend: DeviceBackend::Auto, realtime: true, length: None, load_command: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The lab could not be made, or broke.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The system refused something other than a lab.
    #[error("cannot {what}: {error}")]
    System { what: String, error: std::io::Error },
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> BenchError {
    move |error| BenchError::System { what: what.into(), error }
}

struct BenchContext<'a> {
    options: &'a BenchOptions,
    stop: &'a AtomicBool,
    facts: BTreeMap<String, String>,
}

/// Measures each of `cases`, in their order, [inside a sandbox](roost_lab::sandbox::enter).
///
/// `watch` is called with each case that begins. When `stop` is set it ends within about a second, and the
/// report has the complete cases.
///
/// # Errors
/// When a lab cannot be made, or breaks. A missing program is no error: its rows are not measured and give the
/// reason.
pub fn run(
    cases: &[BenchCase],
    options: &BenchOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(BenchCase),
) -> Result<BenchReport, BenchError> {
    let began = Instant::now();
    let mut report = BenchReport::default();
    let mut bench = BenchContext { options, stop, facts: roost_experiment::host_facts::facts() };
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

    fn lab(&mut self, topology: &Topology) -> Result<Lab, BenchError> {
        self.lab_with_seed(topology, self.options.seed)
    }

    fn lab_with_seed(&mut self, topology: &Topology, seed: u64) -> Result<Lab, BenchError> {
        let BenchOptions { backend, realtime, .. } = *self.options;
        let lab = Lab::start(topology, &roost_lab::LabOptions { seed, backend, realtime, ..Default::default() })?;
        // Facts that all labs of this bench share; the number of interfaces differs.
        for name in ["backend", "realtime", "tcp", "exact_timers", "frame_overhead"] {
            if let Some(fact) = lab.facts().get(name) {
                self.facts.insert(name.to_owned(), fact.clone());
            }
        }
        Ok(lab)
    }

    /// The length of a measurement; `usual` is the default, which gives the figure its precision.
    fn length(&self, usual: Duration) -> Duration {
        self.options.length.unwrap_or(usual)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Waits until the time is up or the bench is stopped.
    fn sleep_unless_stopped(&self, time: Duration) {
        /// The delay until a request to stop is noticed; checking costs a little of the time that `idle`
        /// measures.
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

/// True if the carrier of a lab has a real-time priority.
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
