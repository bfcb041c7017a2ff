//! What can go wrong with the carrying of frames.

use std::net::Ipv4Addr;

use crate::topology::wiring::WiringError;

/// Why frames cannot be carried, or a change was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// The system refuses what is needed.
    #[error("the carrier of packets cannot {what}: {error}")]
    System {
        /// What it cannot do.
        what: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
    /// Two interfaces of one net have the same address; nothing was started.
    #[error("{address} is the address of two interfaces of one link or LAN: give each its own")]
    SameAddress {
        /// Which.
        address: Ipv4Addr,
    },
    /// There is no such net or host; nothing was changed.
    #[error(transparent)]
    Change(#[from] WiringError),
    /// The schedule counts from one time; nothing was changed.
    #[error("the schedule has begun already: start another lab to begin again")]
    Begun,
    /// Its thread has ended.
    #[error("packets are no longer carried: the carrier has ended{}", because(.cause))]
    Ended {
        /// What ended it, if that is known.
        cause: Option<String>,
    },
}

fn because(cause: &Option<String>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"))
}

pub(super) fn system<E: Into<std::io::Error>>(what: &'static str) -> impl Fn(E) -> CarrierError {
    move |error| CarrierError::System { what, error: error.into() }
}
