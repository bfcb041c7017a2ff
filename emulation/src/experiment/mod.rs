//! Plans: the real daemons under the workload of the published experiments.
//!
//! - [`plan`] is what to run, read from TOML.
//! - [`prepare`](Prepared) checks a plan against its network and places it.
//! - [`workload`] decides what each node asks for, and [`walk`] where it is, without a clock.
//! - [`Solo`] is a network that runs by itself: its programs and its traffic.
//! - [`run()`] makes the lab, starts the daemons, lets the nodes ask, breaks what
//!   is to break, and writes down what came of it.

mod bar;
mod cast;
mod conduct;
mod daemon;
mod doubts;
mod error;
mod fleet;
mod identities;
mod interrupt;
mod job;
mod journal;
mod last_words;
mod launch;
mod measure;
mod placement;
pub mod plan;
mod prepare;
mod private;
mod programs;
mod redirection;
pub(crate) mod requester;
mod run;
mod sampler;
mod script;
mod siblings;
mod stagehands;
mod traffic;
mod vary;
mod verdict;
pub mod walk;
mod windows;
pub mod workload;

pub(crate) use daemon::{Daemon, Launch, Role};
pub use error::RunError;
pub(crate) use identities::{issue, make_group};
pub use interrupt::Interrupt;
pub use job::NetworkRun;
pub use placement::{HubPlace, NodePlace, Placement, Targets, classes_that_ask};
pub use plan::{Architecture, Plan};
pub use prepare::Prepared;
pub use run::{FinishedRun, run, run_network};
pub(crate) use sampler::since;
pub(crate) use siblings::Binaries;
pub use siblings::{hashes, own_digest};
pub use vary::{SweepRun, sweep_runs, with_values};
