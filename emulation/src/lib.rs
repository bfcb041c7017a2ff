//! Emulab-style experiments on one machine: a network is described, hosts are
//! placed on it, the real programs run there, and what they did is measured.
//!
//! - [`topology`] is the description: the network, and what is scheduled in it.
//! - [`ns`] reads Emulab's NS files into the same description.
//! - [`netcore`] carries packets: one link model in exact nanoseconds, with no
//!   clock inside, so that wall clock and virtual time drive the same code.
//! - [`lab`] makes the hosts: a network namespace each, and one thread that
//!   carries their packets through the core.
//! - [`experiment`] runs plans: the daemons, the workload, the faults.
//! - [`sim`] runs plans in virtual time: the same machines over the same core.
//! - [`reproduce`] makes the published experiments again, and judges their claims.
//! - [`placement`] says where super nodes or the server are best put.
//! - [`report`] is what a run leaves behind, and what people look at.
//! - [`mod@bench`] measures the emulator itself.

pub mod bench;
pub mod experiment;
mod host_facts;
pub mod lab;
pub mod netcore;
pub mod ns;
pub mod placement;
pub mod report;
pub mod reproduce;
pub mod sim;
pub mod statistics;
pub mod topology;
pub mod units;
