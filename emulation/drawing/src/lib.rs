//! Drawings of networks.
//!
//! - [`neighbors`] is the graph of a network: hosts and LANs are its vertices.
//! - [`layout()`] finds a place for each vertex by the links alone, [`by_place`] by the places of hosts, and
//!   [`ground()`] one on the grid of cells.
//! - [`lines()`] are its links and legs, with the values that are worth a label.
//! - [`dot`] is a graph for Graphviz.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod apart;
mod disks;
pub mod dot;
mod ground;
mod lan_places;
mod layout;
mod leg_text;
mod lines;
mod places;

pub use disks::Spot;
pub use ground::ground;
pub use layout::{layout, neighbors};
pub use lines::{LanLabel, Line, Lines, lines};
pub use places::by_place;
