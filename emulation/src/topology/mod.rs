//! The description of a network and its schedule.
//!
//! - [`model`] is the description itself; both formats are read into it.
//! - [`load()`] reads a file of either format, and [`validate`] checks it.
//! - [`mod@file`] is our own format.
//! - [`generate`] makes the topologies of the published experiments.
//! - [`addresses`] and [`routes`] fill in what a file leaves open.
//! - [`describe`] shows it to people and programs.
//! - [`export`] writes it for other systems.
//! - [`emulab`] shows its events and programs as Emulab would.
//! - [`expect`] compares such a listing with an expected one.
//! - [`amend()`] updates a description as the network changes.
//! - [`wiring`] makes the network that carries packets, and maps its ports to names.

pub mod addresses;
mod amend;
pub mod describe;
pub mod emulab;
pub mod expect;
pub mod export;
pub mod file;
pub mod generate;
mod load;
pub mod model;
pub mod routes;
pub(crate) mod suggest;
#[cfg(test)]
pub(crate) mod testing;
pub mod validate;
pub mod wiring;

pub use amend::amend;
pub use load::{LoadError, load, parse};
pub use model::Topology;
