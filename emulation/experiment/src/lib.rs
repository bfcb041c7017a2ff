//! Plans: the real daemons under the workload of the published experiments.
//!
//! - [`plan`] describes a run, in TOML.
//! - [`prepare`](Prepared) checks a plan against its network and places it.
//! - [`workload`] draws each node's requests, and [`mobility`] its positions, without a clock.
//! - [`NetworkRun`] is a network that runs by itself: its programs and its traffic.
//! - [`run()`] makes the lab, starts the daemons, runs the requesters and the faults, and writes the records.
//!
//! A run ends in a folder of records, also when it is interrupted or a daemon dies. It is marked as invalid if the
//! machine could not keep up. One run at a time uses the machine: runs share its processors.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod abort_on_drop;
mod bar;
mod binaries;
mod daemon;
mod endpoints;
mod error;
mod fault_injector;
mod final_stats;
mod fleet;
pub mod host_facts;
mod identities;
mod job;
mod journal;
mod launch;
mod measure;
pub mod mobility;
mod motion_recorder;
mod outline;
mod outlook;
mod participants;
mod placement;
pub mod plan;
mod plan_links;
mod plan_programs;
mod plan_warnings;
mod prepare;
mod private;
mod program_environment;
mod program_output;
mod program_reader;
mod programs;
mod redirection;
mod replay;
mod request_recorder;
mod requester;
mod room_recorder;
mod room_stays;
mod room_visitor;
mod rooms;
mod run;
mod run_loop;
mod sampler;
mod script;
mod sweep;
mod traffic;
mod verdict;
mod windows;
pub mod workload;

pub use binaries::Binaries;
pub use binaries::{hashes, own_digest};
pub use daemon::{Daemon, Launch, Role};
pub use endpoints::Endpoints;
pub use error::RunError;
pub use identities::{issue, make_group};
pub use job::NetworkRun;
pub use motion_recorder::MotionRecorder;
pub use placement::{PlacedHub, PlacedNode, Placement, Targets, classes_that_ask};
pub use plan::{Architecture, Plan};
pub use prepare::Prepared;
pub use replay::{Replay, ReplayedRequest};
pub use request_recorder::{RequestEnd, RequestRecorder, RequestSettings, TransferFigures};
pub use room_recorder::{RoomRecorder, RoomRequestId, RoomStep, RoomStreamKey};
pub use room_stays::{REENTRY_PAUSE, RoomStays, StayEnd};
pub use rooms::RoomStay;
pub use run::{FinishedRun, run, run_network};
pub use sampler::since;
pub use script::describe_change;
pub use sweep::{PlanKey, Sweep, SweepExtras, SweepMistakes, SweepRun, parse_variation, read_sweep, with_values};
