//! What both machines know of their connections, the dials that lead to more, and the way there and back.

mod backoff;
mod connection;
mod dials;
mod probe;
mod rtt;

pub(crate) use backoff::Backoff;
pub(crate) use connection::{Connection, excess};
pub(crate) use dials::Dials;
pub(crate) use probe::Probe;
pub(crate) use rtt::{PACE_TRIPS, Rtt};
