//! What can go wrong with a lab.

use std::io;

use super::carrier::CarrierError;

/// Why a lab does not start, or refuses a request.
///
/// Nothing is left behind in any case: what had been made is gone with the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// This system lacks something, or does not let this user have it; the
    /// sentence says which and what to do.
    #[error("{0}")]
    System(String),
    /// The kernel refused one step.
    #[error("cannot {what}: {source}")]
    Kernel {
        /// What was to be done: `set up host uav1`.
        what: String,
        /// Its answer.
        source: io::Error,
    },
    /// Packets are not carried.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The topology cannot be built.
    #[error("{0}")]
    Topology(String),
    /// The host, the net, or the host's place on it does not exist.
    #[error("{0}")]
    NoSuch(String),
}

impl LabError {
    /// Wraps what the kernel answered when `what` was to be done.
    pub(crate) fn kernel(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Kernel { what: what.into(), source: source.into() }
    }

    /// Whether the system is at fault, and not the topology or the request.
    pub const fn is_of_the_system(&self) -> bool {
        matches!(self, Self::System(_) | Self::Kernel { .. } | Self::Carrier(CarrierError::System { .. }))
    }
}
