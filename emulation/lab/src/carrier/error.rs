//! Errors of the carrier.

use std::net::Ipv4Addr;

use roost_netcore::wiring::WiringError;

/// Frames cannot be carried, or a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    #[error("the carrier of packets cannot {what}: {error}")]
    System { what: &'static str, error: std::io::Error },
    /// Two interfaces of one net have the same address; the carrier did not start.
    #[error("{address} is the address of two interfaces of one link or LAN: give each its own")]
    SameAddress { address: Ipv4Addr },
    /// There is no such net or host; nothing was changed.
    #[error(transparent)]
    Change(#[from] WiringError),
    /// The schedule can begin only once; nothing was changed.
    #[error("the schedule has begun already: start another lab to begin again")]
    Begun,
    #[error("packets are no longer carried: the carrier has ended{}", because(.cause))]
    Ended { cause: Option<String> },
}

fn because(cause: &Option<String>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"))
}

pub(super) fn system<E: Into<std::io::Error>>(what: &'static str) -> impl Fn(E) -> CarrierError {
    move |error| CarrierError::System { what, error: error.into() }
}
