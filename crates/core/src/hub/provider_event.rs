//! News of providers from requests that it hands on.

use std::time::Duration;

use roost_wire::Service;

/// A step of a request at its provider, which the directory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderEvent {
    Asked(Service),
    /// Time from the request to the answer.
    Answered(Duration),
    Served,
    Failed,
    /// No place is left for one more request.
    Busy,
    /// The provider is held back until it speaks.
    Suspended,
}
