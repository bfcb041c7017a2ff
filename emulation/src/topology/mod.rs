//! What an experiment is: the network, and what happens in it.
//!
//! - [`model`] is the description itself; both formats are read into it.
//! - [`load()`] reads a file of either format, and [`validate`] looks it over.
//! - [`mod@file`] is our own format.
//! - [`generate`] makes the topologies of the published experiments.
//! - [`addresses`] and [`routes`] fill in what a file leaves open.
//! - [`describe`] shows it, to people and to programs.
//! - [`export`] writes it for other systems.
//! - [`emulab`] shows its events and programs as Emulab would.
//! - [`expect`] compares what is shown with what is expected.
//! - [`amend()`] keeps a description true while the network changes.
//! - [`wiring`] makes the network that carries packets, and keeps the names.

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
