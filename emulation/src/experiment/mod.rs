//! Plans: the real daemons under the workload of the published experiments.
//!
//! - [`plan`] describes a run, in TOML.
//! - [`prepare`](Prepared) checks a plan against its network and places it.
//! - [`workload`] draws each node's requests, and [`mobility`] its positions, without a clock.
//! - [`NetworkRun`] is a network that runs by itself: its programs and its traffic.
//! - [`run()`] makes the lab, starts the daemons, runs the requesters and the faults, and writes the records.

mod abort_on_drop;
mod bar;
mod binaries;
mod daemon;
mod error;
mod fault_injector;
mod final_stats;
mod fleet;
pub(crate) mod host_facts;
mod identities;
mod job;
mod journal;
mod launch;
mod measure;
pub mod mobility;
mod participants;
mod placement;
pub mod plan;
mod plan_sweep;
mod plan_warnings;
mod prepare;
mod private;
mod programs;
mod redirection;
pub(crate) mod requester;
mod run;
mod run_loop;
mod sampler;
mod script;
mod traffic;
mod verdict;
mod windows;
pub mod workload;

pub(crate) use binaries::Binaries;
pub use binaries::{hashes, own_digest};
pub(crate) use daemon::{Daemon, Launch, Role};
pub use error::RunError;
pub(crate) use identities::{issue, make_group};
pub use job::NetworkRun;
pub use placement::{PlacedHub, PlacedNode, Placement, Targets, classes_that_ask};
pub use plan::{Architecture, Plan};
pub use plan_sweep::{SweepRun, sweep_runs, with_values};
pub use prepare::Prepared;
pub use run::{FinishedRun, run, run_network};
pub(crate) use sampler::since;
