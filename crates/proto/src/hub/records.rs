//! The records of a hub, to read.

use super::replicas::Replicas;
use crate::directory::{Directory, DirectoryEntry};
use crate::ids::NodeId;

/// Records of this hub's nodes, and replicas of those of others.
#[derive(Clone, Copy)]
pub(super) struct Records<'a> {
    directory: &'a Directory,
    replicas: &'a Replicas,
}

impl<'a> Records<'a> {
    pub(super) fn new(directory: &'a Directory, replicas: &'a Replicas) -> Self {
        Self { directory, replicas }
    }

    pub(super) fn directory(self) -> &'a Directory {
        self.directory
    }

    pub(super) fn get(self, node: NodeId) -> Option<DirectoryEntry<'a>> {
        self.directory.get(node)
    }

    /// True if the node's record is here for another hub.
    pub(super) fn is_replica(self, node: NodeId) -> bool {
        self.replicas.holds(node)
    }

    /// The home of a node whose record is here for it.
    pub(super) fn home_of(self, node: NodeId) -> Option<NodeId> {
        self.replicas.home_of(node)
    }

    /// Nodes whose home is this hub.
    pub(super) fn leases(self) -> usize {
        self.directory.nodes().saturating_sub(self.replicas.len())
    }
}
