//! What an experiment is: the network, and what happens in it.
//!
//! - [`topology`] is the description itself; both formats are read into it.
//! - [`addresses`] and [`routes`] fill in what a file leaves open.
//! - [`emulab`] shows its events and programs as Emulab would.
//! - [`wiring`] makes the network that carries packets, and keeps the names.

pub mod addresses;
pub mod emulab;
#[cfg(test)]
pub(crate) mod fixture;
pub mod routes;
pub mod topology;
pub mod wiring;

pub use topology::Topology;
