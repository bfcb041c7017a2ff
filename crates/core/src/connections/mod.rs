//! Connections of both machines: the facts of each, the dials that lead to more, and the round trips.

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
