//! A request as a provider sees it.

use std::time::Duration;

use roost_wire::messages::{CopyTarget, RequestSpec};
use roost_wire::{Address, ConnectionId, DeliveryPreferences, NodeId, Nonce, Offer, RequestId};

use crate::node::api::Ticket;
use crate::node::connections::DialTarget;

/// Names a flow between this node and the remote that takes it: the
/// requester, or the hub that relays.
pub(super) type SessionFlowKey = (NodeId, RequestId);

/// A request as a provider sees it, whoever brought it.
#[derive(Clone, Debug)]
pub(crate) struct ServeRequest {
    pub(crate) key: SessionFlowKey,
    pub(crate) relayed: bool,
    /// The hub or node that asks; `None` if it asks by multicast.
    pub(crate) asked_by: Option<ConnectionId>,
    pub(crate) requester: NodeId,
    pub(crate) nonce: Nonce,
    pub(crate) spec: RequestSpec,
    /// The offer of this node that is meant.
    pub(crate) offer: Offer,
    /// Addresses at which the requester may be dialed.
    pub(crate) addresses: Vec<Address>,
    /// The length of the stream: the requester's, or this node's default.
    pub(crate) duration: Option<Duration>,
    pub(crate) deadline: Duration,
    pub(crate) terms: DeliveryPreferences,
    /// The object that is wanted, if it was offered.
    pub(crate) pushed: Option<PushedObject>,
    /// The destination of a copy of the reflected stream, if one is wanted.
    pub(crate) reflect: Option<CopyTarget>,
}

impl ServeRequest {
    /// The requester's addresses over an allowed transport.
    pub(super) fn dialable(&self) -> Vec<Address> {
        let fits = |address: &&Address| self.spec.transports.contains(address.scheme);
        self.addresses.iter().filter(fits).cloned().collect()
    }

    pub(super) fn way(&self) -> DialTarget {
        DialTarget { node: self.requester, schemes: self.spec.transports }
    }
}

/// The offered object that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PushedObject {
    pub(crate) ticket: Ticket,
    pub(crate) length: u64,
    pub(crate) digest: [u8; 32],
}
