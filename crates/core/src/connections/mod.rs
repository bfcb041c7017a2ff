//! What both machines know of their connections, the dials that lead to more, and the way there and back.

mod connection;
mod dials;
mod probe;

pub(crate) use connection::{Connection, excess};
pub(crate) use dials::Dials;
pub(crate) use probe::Probe;
