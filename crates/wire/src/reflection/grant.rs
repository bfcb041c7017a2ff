//! The word of a node's or a hub's machine to its relay: send this stream on.

use std::net::SocketAddr;

use super::StreamTag;
use crate::grid::Cell;
use crate::ids::NodeId;
use crate::service::Service;

/// What a stream is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownstreamKind {
    /// It watches.
    Subscriber,
    /// It sends on; never what has been sent on too often.
    Reflector,
}

/// What a hub has admitted: the stream that is offered to it under its own tag, of this provider if that
/// is known, it may offer further under the tag of the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectionGrant {
    /// Under which the stream is offered to this hub.
    pub tag: StreamTag,
    /// Where it is sent on to, once that address has shown that it wants it.
    pub to: SocketAddr,
    /// Under which it is offered there.
    pub their_tag: StreamTag,
    /// What is there.
    pub kind: DownstreamKind,
    /// What was asked for.
    pub service: Service,
    /// Where its provider is, if that is known. Without a provider it would, with the service, name
    /// a stream that is carried already; hubs do not say it then, as another one may be there.
    pub cell: Option<Cell>,
    /// Whose, if that is known: it names a stream that is carried already. The grant comes again
    /// when it becomes known.
    pub provider: Option<NodeId>,
    /// When it is sent.
    pub begin: StartCondition,
}

/// When one that a stream is offered to is sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCondition {
    /// Once it has answered the offer; with the offer if it has answered another one lately.
    Answered,
    /// With the offer: its host is the one that the connection comes from over which it was asked
    /// for, and need not show that it wants it.
    Offered,
    /// Once it has answered: it has the stream already, and says how much of it.
    Resumed,
}
