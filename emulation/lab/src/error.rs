//! Errors of a lab.

use std::io;

use super::carrier::CarrierError;

/// A lab that does not start, or refuses a request.
///
/// Nothing is left behind: hosts made before the error are removed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The system lacks something, or denies it to this user; the message says what, and what to do.
    #[error("{0}")]
    System(String),
    #[error("cannot {what}: {source}")]
    Kernel {
        /// The step, such as `set up host uav1`.
        what: String,
        source: io::Error,
    },
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    #[error("{0}")]
    Topology(String),
    /// Another machine of the lab is gone, or refuses a request.
    #[error("machine {machine}: {why}")]
    Machine { machine: String, why: String },
    /// Ctrl-C came while the lab was made.
    #[error("interrupted; everything has been stopped")]
    Interrupted,
    /// The host, the net, or the host's interface on it does not exist.
    #[error("{0}")]
    NoSuch(String),
}

impl LabError {
    /// Wraps the kernel's error for the step `what`.
    pub fn kernel(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Kernel { what: what.into(), source: source.into() }
    }

    /// True if the system is at fault, and not the topology or the request.
    pub const fn is_of_the_system(&self) -> bool {
        matches!(self, Self::System(_) | Self::Kernel { .. } | Self::Carrier(CarrierError::System { .. }))
    }
}
