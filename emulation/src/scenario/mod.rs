//! What an experiment is: the network, and what happens in it.

pub mod topology;

pub use topology::Topology;
