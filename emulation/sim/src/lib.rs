//! Simulation: a plan in virtual time.
//!
//! It runs the machines of the daemons over the transport's connections and the same
//! [`netcore`](roost_netcore) that carries packets in emulation, without waiting. A run is faster than real
//! time, repeats exactly from its seed, and is checked after every step.
//!
//! | file | its part |
//! |---|---|
//! | `network` | packets from host to host, forwarding included |
//! | `partition` | the parts of a large network, which run side by side |
//! | `connections` | dials, both ends of each connection, their packets and timers |
//! | `machine` | a node or a hub with the parts of its daemon |
//! | `media` | reflected streams: the media ports of nodes and hubs |
//! | `world` | all machines, started, driven, frozen, killed |
//! | `requester` | the workload |
//! | `rooms` | the members of rooms |
//! | `part` | one part of a run: its machines, and the requests of their nodes |
//! | `run` | a plan from its machines' start to its last request, with its faults |
//! | `invariants` | invariants of every run |
//! | [`areas`] | searches under churn, beside those of a geographic DHT |
//! | [`growth`] | one network in several sizes, measured |
//! | `record` | the same records as a run in emulation |
//!
//! A [`Detail`] sets the detail of connections: at packet level QUIC is quinn's own protocol machine; at
//! message level all connections use the cheaper session of `udp://`.
//!
//! Processors, the daemons' local API and disks take no time here. Revoked certificates have no effect, since
//! no machine has a certificate.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

pub mod areas;
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
mod part;
mod partition;
mod record;
mod requester;
mod rooms;
mod run;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use roost_experiment::{Prepared, RunError};
use roost_netcore::wiring::WiringError;
use roost_results::metrics::RoomUse;
use roost_topology::addresses::AddressError;

pub use invariants::Violation;
pub use record::{ProgressListener, ServiceCounts, SimProgress};
pub use roost_transport::simulated::Detail;
pub use world::check_settings;

use record::Recorder;

#[derive(Clone, Debug, PartialEq)]
pub struct SimOutcome {
    /// The fingerprint of every packet and message and of their times.
    pub trace_hash: u64,
    pub requested: u64,
    pub completed: u64,
    /// Virtual time of the workload and its drain, seconds.
    pub virtual_s: f64,
    /// The part of it that was the drain.
    pub drain_s: f64,
    /// Real time of the computation, seconds.
    pub wall_s: f64,
    pub nodes: usize,
    /// Events processed: packets that arrive, timers, starts.
    pub steps: u64,
    /// The outcome of the requests for each service.
    pub by_service: BTreeMap<String, ServiceCounts>,
    pub rooms: Vec<RoomUse>,
    /// The packets of all machines, by purpose.
    pub shares: TrafficBreakdown,
    /// Violated invariants; empty if all is well.
    pub violations: Vec<Violation>,
    /// Packets dropped at a limit of the simulated network. If there are any, the run does not show the plan's
    /// network.
    pub overflows: u64,
}

/// Bytes of packets by purpose, with the headers of frames, counted at the sender and since the machines'
/// start.
///
/// Packets are classified by destination, as the published experiments did by ports: packets to or from a hub
/// are discovery, unless the hub relays data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficBreakdown {
    /// Packets of connections with hubs, and of hubs with one another.
    pub hub_bytes: u64,
    /// The part of that which is relayed data, without any header.
    pub relayed_bytes: u64,
    /// Handshakes of nodes with one another.
    pub handshake_bytes: u64,
    /// All other packets from node to node: data, its acknowledgements, and `control_messages`.
    pub node_bytes: u64,
    /// Packets of multicast, counted once at the sender.
    pub multicast_bytes: u64,
    /// Messages from node to node other than data, mostly acceptances, in packets of their own.
    pub control_messages: u64,
    /// Such messages in another message's packet, with the same route and time.
    pub shared_control_messages: u64,
    /// The bytes of both, without any header.
    pub control_message_bytes: u64,
}

impl TrafficBreakdown {
    fn plus(self, other: Self) -> Self {
        Self {
            hub_bytes: self.hub_bytes + other.hub_bytes,
            relayed_bytes: self.relayed_bytes + other.relayed_bytes,
            handshake_bytes: self.handshake_bytes + other.handshake_bytes,
            node_bytes: self.node_bytes + other.node_bytes,
            multicast_bytes: self.multicast_bytes + other.multicast_bytes,
            control_messages: self.control_messages + other.control_messages,
            shared_control_messages: self.shared_control_messages + other.shared_control_messages,
            control_message_bytes: self.control_message_bytes + other.control_message_bytes,
        }
    }

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
    /// True if the run matched the plan and violated no invariant.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.overflows == 0
    }

    /// Describes packets that a limit dropped.
    pub fn overflow(&self) -> Option<String> {
        let Self { overflows, .. } = self;
        (*overflows > 0).then(|| {
            format!("the simulated network had no memory for {overflows} packets: it was not the network of the plan")
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    #[error(transparent)]
    Addresses(#[from] AddressError),
    /// The schedule does not fit the network.
    #[error(transparent)]
    Schedule(#[from] WiringError),
    #[error("the host of {0} is on no link or LAN, so nobody reaches it")]
    Unreachable(String),
    #[error("{node} has found no home within two minutes of the run's own time: can its host reach a hub at {dialed}?")]
    NotReady {
        node: String,
        /// The addresses that it dialed, in their order.
        dialed: String,
    },
    /// A file of the results cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Simulates a plan without writing results.
///
/// # Errors
/// Fails when the plan does not fit its network.
pub fn simulate(prepared: &Prepared, detail: Detail) -> Result<SimOutcome, SimulateError> {
    run::run(prepared, detail, &mut Recorder::new(&prepared.topology))
}

/// Simulates a plan and keeps in memory the results that [`simulate_into`] would write.
///
/// # Errors
/// Fails when the plan does not fit its network.
pub fn simulate_with_results(
    prepared: &Prepared,
    detail: Detail,
) -> Result<(SimOutcome, roost_results::Results), SimulateError> {
    record::simulate_to_memory(prepared, detail)
}

/// Simulates a plan, and writes the results of `emulate run` to `folder`, which must be empty or not exist: the
/// plan, the topology, the records.
///
/// # Errors
/// Fails when the plan does not fit its network, or a file cannot be written.
pub fn simulate_into(prepared: &Prepared, detail: Detail, folder: &Path) -> Result<SimOutcome, SimulateError> {
    record::simulate_to_folder(prepared, detail, folder, &BTreeMap::new(), None)
}

/// Simulates a run of a sweep, as [`simulate_into`] does; `varied` holds the values of the sweep, by name.
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

/// Simulates a plan, into a folder if one is given, and reports the progress often and irregularly.
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
