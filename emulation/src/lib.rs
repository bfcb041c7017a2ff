//! Emulab-style experiments on one machine: a network is described, hosts are placed on it, the real programs
//! run there, and their behaviour is measured.
//!
//! - [`experiment`] runs plans: the daemons, the workload, the faults.
//! - [`sim`] runs plans in virtual time: the same machines over the same core.
//! - [`reproduce`] repeats the published experiments, and judges their claims.
//! - [`placement`] finds the best hosts for super nodes or the server.
//! - [`report`] shows results.
//! - [`mod@bench`] measures the emulator itself.

pub mod bench;
pub mod experiment;
pub mod placement;
pub mod report;
pub mod reproduce;
pub mod sim;
