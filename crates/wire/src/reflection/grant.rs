//! The word of a node's or a hub's machine to its relay: send this stream on.

use std::net::SocketAddr;

use super::StreamTag;
use crate::grid::Cell;
use crate::ids::NodeId;
use crate::service::Service;

/// The use that a stream is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownstreamKind {
    Subscriber,
    /// Sends the stream on. Packets at their limit of hops stop before it.
    Reflector,
}

/// A copy that a hub has admitted: the stream that is offered to the hub under its own tag may be offered
/// further, under the requester's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectionGrant {
    /// Under which the stream is offered to this hub.
    pub tag: StreamTag,
    /// The address of the downstream. Packets wait until the address has shown that it wants the stream.
    pub to: SocketAddr,
    /// The tag under which the stream is offered at `to`.
    pub their_tag: StreamTag,
    /// The use of the copy at that address.
    pub kind: DownstreamKind,
    pub service: Service,
    /// The provider's cell, if that is known. Without a provider the cell would, with the service, name a
    /// stream that is reflected already; hubs leave it out then, as another stream may be there.
    pub cell: Option<Cell>,
    /// The provider, if that is known: it names a stream that is reflected already. The grant comes again when
    /// the provider becomes known.
    pub provider: Option<NodeId>,
    pub begin: StartCondition,
}

/// The condition on which a downstream gets its first packet.
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
