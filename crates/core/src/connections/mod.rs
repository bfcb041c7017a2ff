//! Connections of both machines: the facts of each, the dials that lead to more, and the round trips.

mod connection;
mod dials;
mod probe;

pub(crate) use connection::{Connection, excess};
pub(crate) use dials::Dials;
pub(crate) use probe::Probe;
