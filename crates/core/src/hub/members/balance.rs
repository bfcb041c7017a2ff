//! Nodes that were sent to other hubs, and hubs that still get a share of the nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{NodeId, Time};

/// The most that a node's round trip may grow by being sent elsewhere.
pub(super) const NEAR: Duration = Duration::from_millis(10);

/// Who was sent elsewhere, and who is still to go.
#[derive(Debug, Default)]
pub(super) struct Balance {
    pub(super) sent: BTreeMap<NodeId, SentNode>,
    pub(super) shares: BTreeMap<NodeId, Share>,
    /// The last node that was looked at.
    pub(super) cursor: Option<NodeId>,
}

/// A node that was sent elsewhere.
#[derive(Debug)]
pub(super) struct SentNode {
    /// Until when it is taken in if it comes (back).
    pub(super) until: Time,
    /// Where it has not arrived yet.
    pub(super) to: Option<NodeId>,
}

/// What a hub that has joined still gets.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) left: usize,
    pub(super) pause: Duration,
    pub(super) next: Time,
    /// Looks since the last one that found somebody.
    pub(super) vain: usize,
}

impl Balance {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.shares.values().map(|share| share.next).min()
    }
}
