//! Congestion control of QUIC paths.
//!
//! [`Congestion`] names the choices of an endpoint. quinn asks a [`Controller`] for a window whenever it sends. Two
//! controllers are quinn's own, [`udt`] and [`rate`] are ours. quinn keeps at most the window under way and spreads it
//! over four fifths of the round trip, so that the sending rate follows from the window and the round trip. A
//! controller that wants a certain rate returns the rate times the round trip, plus the bytes that wait for clumped
//! acknowledgements.
//!
//! No controller can make quinn end a connection for too many gaps in a stream, as a single long stream does when it
//! overshoots on a long fat path: each stream carries one chunk, which is some twenty packets at most.

mod delivery;
mod rate;
mod trains;
mod udt;

use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig};
use roost_wire::Congestion;

use rate::RateController;
use udt::Udt;

/// The initial window of our controllers, in packets of 1200 bytes: about twice the initial window of TCP today.
const INITIAL_PACKETS: u64 = 32;
const INITIAL_WINDOW: u64 = INITIAL_PACKETS * 1200;

/// Makes the controller of a new path with packets of `mtu` bytes.
pub(super) fn controller(congestion: Congestion, now: Instant, mtu: u16) -> Box<dyn Controller> {
    match congestion {
        Congestion::Cubic => Arc::new(CubicConfig::default()).build(now, mtu),
        Congestion::Bbr => Arc::new(BbrConfig::default()).build(now, mtu),
        Congestion::Udt => Box::new(Udt::new(now, mtu)),
        Congestion::Rate => Box::new(RateController::new(now, mtu)),
    }
}

#[cfg(test)]
mod laws;
#[cfg(all(test, feature = "simulated"))]
mod tests;
