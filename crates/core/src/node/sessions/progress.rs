//! The progress of a session on its way to the requester, as far as this node knows it.

use roost_wire::Time;

use super::serve_request::ServeRequest;

/// The way that an acceptance has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AcceptanceProgress {
    Unsent,
    /// This node has sent it at least once.
    Sent,
    /// The requester has reported, or asked again for what it has in part.
    Taken,
}

/// The part of a hub in the way to a requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HubWay {
    /// The session goes the way that it began, directly or through a hub.
    Unchanged,
    /// The hub was told that there is no way to the requester.
    Left,
    /// The session goes on by way of the hub, after another way.
    Moved,
}

/// A request for a flow under way that a hub brings, perhaps several times.
#[derive(Debug)]
pub(super) struct RepeatedRequest {
    pub(super) request: ServeRequest,
    /// The times at which it came first and last.
    pub(super) first: Time,
    pub(super) last: Time,
}
