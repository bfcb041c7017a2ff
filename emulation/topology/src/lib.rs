//! The description of a network and its schedule: values alone, without a network that carries packets.
//!
//! Readers report every mistake of a file at once, each with its line. What has been read is valid: names are unique,
//! members exist, and all hosts can be reached. A lab takes at most [`model::MAX_LAB_HOSTS`] hosts.
//!
//! - [`model`] is the description itself; both formats are read into it.
//! - [`mod@file`] is our own format, and [`validate`] checks what a file says.
//! - [`generate`] makes the topologies of the published experiments.
//! - [`addresses`] and [`routes`] fill in what a file leaves open.
//! - [`HostAddresses`] are the addresses at which each host is reached.
//! - [`describe`] shows it to people and programs.
//! - [`rspec`] writes it for CloudLab and other systems.
//! - [`shares`] divides it among machines.
//! - [`emulab`] shows its events and programs as Emulab would.
//! - [`amend()`] updates a description as the network changes.
//! - [`trace`] has the values of a link over time.
//! - [`units`] are rates and durations in its notation.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

pub mod addresses;
mod amend;
pub mod describe;
pub mod emulab;
pub mod file;
mod file_name;
pub mod generate;
mod host_addresses;
pub mod model;
pub mod routes;
pub mod rspec;
pub mod shares;
pub mod suggest;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;
pub mod units;
pub mod validate;

pub use amend::amend;
pub use file_name::file_name;
pub use host_addresses::HostAddresses;
pub use model::Topology;
