//! The nodes whose records are here for other hubs.

use std::collections::BTreeMap;

use roost_wire::{ConnectionId, NodeId};

use super::claims::Claim;
use crate::hub::replica_sync::ReplicaReceiver;

/// The most such nodes that several hubs want. The hub that wants most loses first.
const MAX_CONTESTED: usize = 1_024;

/// The nodes whose records are here for other hubs, and the home of each.
/// Bounded by the directory.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    homes: BTreeMap<NodeId, NodeId>,
    /// What each home has told. As many as remotes, with as many lines as
    /// there may be nodes, all together.
    receivers: BTreeMap<NodeId, ReplicaReceiver>,
    /// Words of other hubs that these nodes are theirs, while their homes hold on to them. At most
    /// [`MAX_CONTESTED`].
    contested: BTreeMap<NodeId, Claim>,
}

impl Replicas {
    /// Whether the node's record is here for another hub.
    pub(crate) fn holds(&self, node: NodeId) -> bool {
        self.homes.contains_key(&node)
    }

    /// The home of a node whose record is here for it.
    pub(crate) fn home_of(&self, node: NodeId) -> Option<NodeId> {
        self.homes.get(&node).copied()
    }

    /// The nodes whose records are here for `home`.
    pub(crate) fn nodes_of(&self, home: NodeId) -> impl Iterator<Item = NodeId> {
        self.homes.iter().filter(move |(_, of)| **of == home).map(|(node, _)| *node)
    }

    /// Another hub says that a node of `home`, whose record is here, is its own.
    pub(crate) fn record_contested_claim(&mut self, node: NodeId, claim: Claim) {
        let known = self.contested.get(&node);
        if known.is_some_and(|known| known.version > claim.version) {
            return;
        }
        let update =
            self.contested.remove(&node).filter(|known| known.version == claim.version && claim.record.is_none());
        self.contested.insert(node, Claim { record: claim.record.or(update.and_then(|known| known.record)), ..claim });
        if self.contested.len() > MAX_CONTESTED {
            let mut missing = BTreeMap::<NodeId, usize>::new();
            self.contested.values().for_each(|claim| *missing.entry(claim.home).or_default() += 1);
            let most = missing.into_iter().max_by_key(|(_, count)| *count).map(|(home, _)| home);
            let loser = self.contested.iter().find(|(_, claim)| Some(claim.home) == most).map(|(node, _)| *node);
            loser.map(|node| self.contested.remove(&node));
        }
    }

    /// How many records are here for other hubs.
    pub(crate) fn len(&self) -> usize {
        self.homes.len()
    }

    /// A connection with a home is gone, and with it what was agreed on over
    /// it; what comes late over others is known as such until the last one is.
    pub(crate) fn close_receiver(&mut self, home: NodeId, connection: ConnectionId, last: bool) {
        if last {
            self.receivers.remove(&home);
        } else if let Some(receiver) = self.receivers.get_mut(&home) {
            receiver.close(connection);
        }
    }

    /// Releases a copy of the home that has most of them here, and gives its node. Looks at all copies.
    pub(super) fn evict_replica(&mut self) -> Option<NodeId> {
        let mut held = BTreeMap::<NodeId, usize>::new();
        self.homes.values().for_each(|home| *held.entry(*home).or_default() += 1);
        let most = held.into_iter().max_by_key(|(_, count)| *count).map(|(home, _)| home)?;
        let node = self.nodes_of(most).last()?;
        if let Some(receiver) = self.receivers.get_mut(&most) {
            receiver.remove_node(node);
        }
        self.release(node);
        Some(node)
    }

    /// How many nodes have numbers by which their homes tell of them.
    pub(crate) fn numbered(&self) -> usize {
        self.receivers.values().map(ReplicaReceiver::len).sum()
    }

    /// The record is this hub's own now, or gone. True if it was another hub's.
    pub(crate) fn release(&mut self, node: NodeId) -> bool {
        self.contested.remove(&node);
        self.homes.remove(&node).is_some()
    }

    /// Notes that a node's record is here for `home`.
    pub(super) fn hold(&mut self, node: NodeId, home: NodeId) {
        self.homes.insert(node, home);
    }

    /// Takes out what a home has told, which comes over `connection` if it is the first.
    pub(super) fn take_receiver(&mut self, home: NodeId, connection: ConnectionId) -> ReplicaReceiver {
        self.receivers.remove(&home).unwrap_or_else(|| ReplicaReceiver::new(connection))
    }

    pub(super) fn put_receiver(&mut self, home: NodeId, receiver: ReplicaReceiver) {
        self.receivers.insert(home, receiver);
    }

    /// The word of another hub that a node is its own, while the node's home holds on to it.
    pub(super) fn contested_claim(&self, node: NodeId) -> Option<&Claim> {
        self.contested.get(&node)
    }

    pub(super) fn take_contested(&mut self, node: NodeId) -> Option<Claim> {
        self.contested.remove(&node)
    }
}
