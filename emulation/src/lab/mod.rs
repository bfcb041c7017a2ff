//! Hosts as network namespaces, and the thread that carries their packets.

pub mod carrier;
mod kernel;
