//! Measures the emulator itself, on the machine that it runs on: the errors of its delays, rates, losses and
//! schedules, its capacity, and its costs.
//!
//! Every measurement is a [`BenchRow`] with a target, an observation, and a verdict: the target may be met,
//! missed or not measured. Observations come from packets that arrived at hosts, not from the emulator's
//! counters: from probes on the machine's monotonic clock, which all hosts share, and from the independent
//! programs `ping`, `iperf3` and `tcpdump`.
//!
//! A machine that is busy with other work measures worse, and a row does not show the cause:
//! [`Measured::beside_each`] has the load of other programs during each case.
//!
//! [`transport`] and [`bulk`] measure transports between two hosts, [`reflect`] the data path of a super node, and
//! [`subscription`] and [`capacity`] the daemons.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod analysis;
pub mod bulk;
pub mod capacity;
mod capture;
mod cases;
mod frame;
mod iperf;
mod load;
mod machine;
mod networks;
mod probe;
mod program;
pub mod reflect;
mod row;
mod stalls;
pub mod subscription;
mod tally;
mod testbed;
pub mod transport;

use std::io;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use roost_lab::{DeviceBackend, Lab, LabError};
use roost_topology::model::HostIndex;

pub use cases::{BenchCase, EmulatorBench};
pub use frame::{Bench, BenchContext, CaseError, Column, Measured, Row, decimals, measure, whole};
pub use row::{BenchRow, BenchVerdict, StretchTarget};

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
    System { what: String, error: io::Error },
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> BenchError {
    move |error| BenchError::System { what: what.into(), error }
}

/// True if the carrier of a lab has a real-time priority.
fn is_realtime(lab: &Lab) -> bool {
    lab.facts().get("realtime").is_some_and(|fact| fact.starts_with("yes"))
}

fn in_host<T: Send>(lab: &Lab, host: HostIndex, call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    lab.run_in(host, call).map_err(io::Error::other)?
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
