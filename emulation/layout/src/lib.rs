//! Places for the hosts and LANs of a network in a drawing.
//!
//! - [`neighbors`] is the graph of a network: hosts and LANs are its vertices.
//! - [`layout`] finds a place for each vertex by the links alone, [`ground`] one on the grid of cells.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod disks;
mod ground;
mod layout;

pub use disks::Spot;
pub use ground::ground;
pub use layout::{layout, neighbors};
