//! Copies of streams: where each goes, and whose stream it is.

use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::messages::CopyTarget;
use roost_wire::reflection::DownstreamKind;
use roost_wire::{NodeId, Service};

/// How long room is kept for a copy that was granted: until then it should have begun, on a
/// satellite path as well, and the owner have said so. If it comes another way meanwhile nobody says
/// so, and others do without that room.
pub(super) const BEGINNING: Duration = Duration::from_secs(3);

/// A copy that somebody wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamCopy {
    pub(crate) to: SocketAddr,
    pub(crate) kind: DownstreamKind,
    pub(crate) service: Service,
    /// `None` until a hub has told which provider has the request.
    pub(crate) provider: Option<NodeId>,
}

/// The destination of a copy of a provider's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CopyReceiver {
    pub(super) to: SocketAddr,
    pub(super) service: Service,
    pub(super) provider: NodeId,
}

/// A provider's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReflectedStreamId {
    pub(super) service: Service,
    pub(super) provider: NodeId,
}

impl CopyReceiver {
    pub(super) fn stream(&self) -> ReflectedStreamId {
        ReflectedStreamId { service: self.service, provider: self.provider }
    }
}

impl StreamCopy {
    pub(super) fn receiver(&self) -> Option<CopyReceiver> {
        let Self { to, service, provider, .. } = *self;
        provider.map(|provider| CopyReceiver { to, service, provider })
    }
}

/// Who is sent a copy: a hub says that it reflects.
pub(crate) fn kind_of(reflect: CopyTarget) -> DownstreamKind {
    if reflect.hops > 0 { DownstreamKind::Reflector } else { DownstreamKind::Subscriber }
}
