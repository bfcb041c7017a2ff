//! Simulation: a plan in virtual time.
//!
//! The machines of the daemons, over the transport's links, over the same
//! [`netcore`](crate::netcore) that carries packets in emulation: what differs
//! is that nobody waits. A run is faster than real time, it repeats exactly
//! from its seed, and it is looked at after every step.
//!
//! | file | its part |
//! |---|---|
//! | `network` | packets from host to host, forwarding included |
//! | `connections` | dials, both ends of each link, their packets and timers |
//! | `machine` | a node or a hub with what its daemon does around it |
//! | `media` | reflected streams: the media ports of nodes and hubs |
//! | `world` | all machines, started, driven, frozen, killed |
//! | `requester` | the workload |
//! | `run` | a plan from its machines' start to its last request, with its faults |
//! | `invariants` | what must hold in every run |
//! | [`growth`] | one network in several sizes, measured |
//! | `record` | the same records as a run in emulation |
//!
//! How detailed links are is a [`Detail`]: at packet level QUIC is quinn's own
//! protocol machine, at message level all links are carried by the cheaper
//! session of `udp://`.
//!
//! What takes no time here: processors, the daemons' local API, disks. What
//! takes no notice: that a certificate is revoked, since nobody has one.

mod connections;
mod control_messages;
mod event_queue;
mod fingerprint;
pub mod growth;
#[cfg(test)]
mod injected_faults;
mod invariants;
mod machine;
mod media;
mod network;
mod record;
mod requester;
#[cfg(test)]
mod rooms;
mod run;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use invariants::Violation;
pub use record::{ProgressListener, ServiceCounts, SimProgress};
pub use roost_transport::simulated::Detail;

use crate::experiment::{Prepared, RunError};
use crate::report;
use crate::topology::addresses::AddressError;
use crate::topology::wiring::WiringError;
use record::Recorder;

/// What came of a simulated run.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOutcome {
    /// The fingerprint of every packet and message and of their times.
    pub trace_hash: u64,
    /// Requests made.
    pub requested: u64,
    /// Requests completed.
    pub completed: u64,
    /// How long the workload and its drain took in the run's own time, seconds.
    pub virtual_s: f64,
    /// The part of it that was the drain.
    pub drain_s: f64,
    /// How long it took to compute all of it, seconds.
    pub wall_s: f64,
    /// Hosts that request and provide.
    pub nodes: usize,
    /// Things that happened: packets, timers, starts.
    pub steps: u64,
    /// How the requests for each service ended.
    pub by_service: BTreeMap<String, ServiceCounts>,
    /// What the packets of all machines were for.
    pub shares: TrafficBreakdown,
    /// What must not have been; empty if all is well.
    pub violations: Vec<Violation>,
    /// Packets that the simulated network had no memory for: with any, it was
    /// not the network of the plan.
    pub overflows: u64,
}

/// What packets were for, in bytes with the headers of frames, counted where
/// they were sent and from the machines' start on.
///
/// It is told by where packets go, as the published experiments told it by
/// ports: what goes to or from a hub finds services, unless the hub relays them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficBreakdown {
    /// Packets of associations with hubs, and of hubs with one another.
    pub hub_bytes: u64,
    /// Of that, data which hubs relayed, without any header.
    pub relayed_bytes: u64,
    /// Handshakes of nodes with one another.
    pub handshake_bytes: u64,
    /// All else from node to node: data, its acknowledgements, and `control_messages`.
    pub node_bytes: u64,
    /// Packets of multicast, once where they were sent.
    pub multicast_bytes: u64,
    /// Messages from node to node that are no data, acceptances above all: those with a packet of their own.
    pub control_messages: u64,
    /// Those that leave in the packet of another message, as they go the same way at the same time.
    pub shared_control_messages: u64,
    /// The bytes of both, without any header.
    pub control_message_bytes: u64,
}

impl TrafficBreakdown {
    fn add(&mut self, is_hubs: bool, is_greeting: bool, bytes: u64) {
        let share = match (is_hubs, is_greeting) {
            (true, _) => &mut self.hub_bytes,
            (false, true) => &mut self.handshake_bytes,
            (false, false) => &mut self.node_bytes,
        };
        *share += bytes;
    }
}

impl SimOutcome {
    /// Whether the run was that of the plan, and nothing was amiss.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.overflows == 0
    }

    /// What there is to say of packets for which there was no memory.
    pub fn overflow(&self) -> Option<String> {
        let Self { overflows, .. } = self;
        (*overflows > 0).then(|| {
            format!("the simulated network had no memory for {overflows} packets: it was not the network of the plan")
        })
    }
}

/// Why a plan cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// There are not addresses for all.
    #[error(transparent)]
    Addresses(#[from] AddressError),
    /// What is scheduled does not fit the network.
    #[error(transparent)]
    Schedule(#[from] WiringError),
    /// A host has no interface.
    #[error("the host of {0} is on no link or LAN, so nobody reaches it")]
    Unreachable(String),
    /// Not all nodes found a home.
    #[error("{0} has found no home within two minutes of the run's own time: can its host reach a hub?")]
    NotReady(String),
    /// A file of the results cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The results' folder cannot be used.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Simulates a plan; nothing is written.
///
/// # Errors
/// When the plan does not fit its network.
pub fn simulate(prepared: &Prepared, detail: Detail) -> Result<SimOutcome, SimulateError> {
    run::run(prepared, detail, &mut Recorder::new(&prepared.topology))
}

/// Simulates a plan; what [`simulate_into`] would write is kept instead.
///
/// # Errors
/// When the plan does not fit its network.
pub fn simulate_with_results(
    prepared: &Prepared,
    detail: Detail,
) -> Result<(SimOutcome, report::Results), SimulateError> {
    record::simulate_to_memory(prepared, detail)
}

/// Simulates a plan, and writes to `folder`, which must be empty or not be
/// there, what `emulate run` would: the plan, the topology, the records.
///
/// # Errors
/// When the plan does not fit its network, or a file cannot be written.
pub fn simulate_into(prepared: &Prepared, detail: Detail, folder: &Path) -> Result<SimOutcome, SimulateError> {
    record::simulate_to_folder(prepared, detail, folder, &BTreeMap::new(), None)
}

/// Simulates a run of a sweep, as [`simulate_into`] does; `varied` is what the sweep has varied, by name.
///
/// # Errors
/// As [`simulate_into`].
pub fn simulate_varied(
    prepared: &Prepared,
    folder: &Path,
    varied: &BTreeMap<String, String>,
) -> Result<SimOutcome, SimulateError> {
    record::simulate_to_folder(prepared, Detail::default(), folder, varied, None)
}

/// Simulates a plan, into a folder if one is given, and tells how far it is: often, and at no set pace.
///
/// # Errors
/// As [`simulate_into`].
pub fn simulate_with_progress(
    prepared: &Prepared,
    detail: Detail,
    folder: Option<&Path>,
    tell: ProgressListener,
) -> Result<SimOutcome, SimulateError> {
    match folder {
        Some(folder) => record::simulate_to_folder(prepared, detail, folder, &BTreeMap::new(), Some(tell)),
        None => run::run(prepared, detail, &mut Recorder::new(&prepared.topology).telling(Some(tell))),
    }
}
