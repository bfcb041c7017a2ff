//! A request as a provider sees it.

use std::time::Duration;

use roost_wire::messages::{CopyTarget, RequestSpec};
use roost_wire::{Address, ConnectionId, DeliveryPreferences, NodeId, Nonce, RequestId};

use super::api::Ticket;
use super::connections::DialTarget;

/// Names a flow between this node and the remote that takes it: the
/// requester, or the hub that relays.
pub(super) type SessionFlowKey = (NodeId, RequestId);

/// A request as a provider sees it, whoever brought it.
#[derive(Debug)]
pub(super) struct ServeRequest {
    pub(super) key: SessionFlowKey,
    pub(super) relayed: bool,
    /// The hub or node that asks; `None` if it asks by multicast.
    pub(super) asked_by: Option<ConnectionId>,
    pub(super) requester: NodeId,
    pub(super) nonce: Nonce,
    pub(super) spec: RequestSpec,
    /// Addresses at which the requester may be dialed.
    pub(super) addresses: Vec<Address>,
    /// The length of the stream: the requester's, or this node's default.
    pub(super) duration: Option<Duration>,
    pub(super) deadline: Duration,
    pub(super) terms: DeliveryPreferences,
    /// The object that is wanted, if it was offered.
    pub(super) pushed: Option<PushedObject>,
    /// The destination of a copy of the reflected stream, if one is wanted.
    pub(super) reflect: Option<CopyTarget>,
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
pub(super) struct PushedObject {
    pub(super) ticket: Ticket,
    pub(super) length: u64,
    pub(super) digest: [u8; 32],
}
