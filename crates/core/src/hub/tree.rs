//! How other hubs stand to this one: above it, below it, or beside it.

use roost_wire::messages::HierarchyMessage;
use roost_wire::{ConnectionId, NodeId, SchemeSet};

use super::HubKind;
use super::core::HubCore;
use super::relation::Relation;

impl HubCore {
    /// Whether nothing is above this hub.
    pub(super) fn is_root(&self) -> bool {
        self.config.parents.is_empty()
    }

    /// How a remote stands to this hub, if it is a hub.
    pub(super) fn relation(&self, hub: NodeId) -> Option<Relation> {
        self.remotes.relation(hub)
    }

    /// The parents that are up: the primary one first, unless it left a
    /// question unanswered.
    pub(super) fn parents(&self) -> Vec<NodeId> {
        let mut parents: Vec<NodeId> = self.mesh.parents().collect();
        parents.sort_by_key(|parent| self.remotes.is_unresponsive(*parent));
        parents
    }

    /// Whether this hub should have a parent to ask and has none.
    pub(super) fn is_cut_off(&self) -> bool {
        !self.is_root() && self.parents().is_empty()
    }

    /// The hubs beside this one that are up.
    pub(super) fn siblings_up(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.remotes.hubs().filter(|hub| self.relation(*hub) == Some(Relation::Sibling))
    }

    /// A dial has led to a parent: takes a place below it. A server knows its
    /// caches by their role.
    pub(super) fn register_at_parent(&mut self, parent: NodeId) {
        self.remotes.relate(parent, Relation::Parent);
        if self.config.kind == HubKind::SuperNode {
            let enrol = HierarchyMessage::RegisterChild { tier: self.config.tier };
            self.send_to_hub(parent, enrol);
        }
    }

    /// The connection over which to ask a hub something.
    pub(super) fn connection_to(&self, hub: NodeId) -> Option<ConnectionId> {
        self.remotes.best_connection(hub, SchemeSet::ALL)
    }

    /// Whether it is a cache.
    pub(super) fn is_cache(&self) -> bool {
        self.config.kind == HubKind::Server && !self.is_root()
    }

    /// The server of this cache, if it is one and that is up.
    pub(super) fn central(&self) -> Option<NodeId> {
        self.parents().first().copied().filter(|_| self.is_cache())
    }
}
