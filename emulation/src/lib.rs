//! Emulab-style experiments on one machine: a network is described, hosts are placed on it, the real programs
//! run there, and their behaviour is measured.
//!
//! - [`ns`] reads Emulab's NS files into the same description.
//! - [`netcore`] carries packets: one link model in exact nanoseconds, without a clock, so that wall clock and
//!   virtual time drive the same code.
//! - [`lab`] makes the hosts: a network namespace each, and one thread that carries their packets through the
//!   core.
//! - [`experiment`] runs plans: the daemons, the workload, the faults.
//! - [`sim`] runs plans in virtual time: the same machines over the same core.
//! - [`reproduce`] repeats the published experiments, and judges their claims.
//! - [`placement`] finds the best hosts for super nodes or the server.
//! - [`report`] shows results.
//! - [`mod@bench`] measures the emulator itself.

pub mod bench;
pub mod experiment;
pub mod lab;
pub mod netcore;
pub mod ns;
pub mod placement;
pub mod report;
pub mod reproduce;
pub mod sim;
