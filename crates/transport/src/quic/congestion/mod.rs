//! How much a QUIC path may have under way.
//!
//! [`Congestion`] names what an endpoint may choose; quinn asks a [`Controller`]
//! for a window whenever it sends. Two are quinn's own, [`udt`] and [`rate`] are
//! ours. quinn lets at most the window be under way and spreads it over the
//! round trip, a quarter faster than that takes, so that what is sent per second
//! is the window over the round trip: who has a rate in mind answers the rate
//! times the round trip, plus what waits for acknowledgements that come in clumps.
//!
//! None of them can make quinn give up a connection for too many gaps in a
//! stream, as an overshoot over a long fat path does with one long stream: a
//! stream here carries one chunk, which is a score of packets at most.

mod delivery;
mod rate;
mod trains;
mod udt;

use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig};
use roost_proto::Congestion;

use rate::RateController;
use udt::Udt;

/// What QUIC lets be under way before anything is known, packets of 1200 bytes:
/// about what TCP takes today, twice over.
const INITIAL_PACKETS: u64 = 32;
const INITIAL_WINDOW: u64 = INITIAL_PACKETS * 1200;

/// The control of a new path whose packets are of `mtu` bytes.
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
