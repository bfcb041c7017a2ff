//! The records of a hub, to read.

use roost_wire::messages::{MAX_CANDIDATES, Request};
use roost_wire::{Area, Cell, NodeId, NodeSelector, Scope};

use super::moved::MovedNodes;
use super::replicas::Replicas;
use crate::directory::{Admits, Directory, DirectoryEntry, DirectoryQuery, Hit, SearchPurpose};
use crate::hub::core::HubCore;

/// Records of this hub's nodes, and replicas of those of others.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    directory: &'a Directory,
    replicas: &'a Replicas,
    moved: &'a MovedNodes,
}

impl<'a> Records<'a> {
    pub(crate) fn new(directory: &'a Directory, replicas: &'a Replicas, moved: &'a MovedNodes) -> Self {
        Self { directory, replicas, moved }
    }

    pub(crate) fn directory(self) -> &'a Directory {
        self.directory
    }

    pub(crate) fn get(self, node: NodeId) -> Option<DirectoryEntry<'a>> {
        self.directory.get(node)
    }

    /// True if the node's record is here for another hub.
    pub(crate) fn is_replica(self, node: NodeId) -> bool {
        self.replicas.holds(node)
    }

    /// The home of a node whose record is here for it.
    pub(crate) fn home_of(self, node: NodeId) -> Option<NodeId> {
        self.replicas.home_of(node)
    }

    pub(crate) fn replica_count(self) -> usize {
        self.replicas.len()
    }

    /// Nodes that have numbers by which their homes tell of them.
    pub(crate) fn numbered(self) -> usize {
        self.replicas.numbered()
    }

    /// Nodes whose home is this hub.
    pub(crate) fn leases(self) -> usize {
        self.directory.nodes().saturating_sub(self.replicas.len())
    }

    /// The hub to which a node went, if that hub can be asked.
    pub(crate) fn moved_to(self, core: &HubCore, node: NodeId) -> Option<NodeId> {
        self.moved.moved_to(core, node)
    }

    /// True if a node was here a moment ago and has another home now.
    pub(crate) fn has_moved(self, core: &HubCore, node: NodeId) -> bool {
        self.moved.has_moved(core, node)
    }

    /// The search for what `node` requests. Anywhere means near the one who
    /// asks, as far as the hub knows where that is.
    pub(crate) fn query(self, node: NodeId, request: &Request, default: usize) -> DirectoryQuery {
        let count = match request.spec.count {
            0 => default,
            count => usize::from(count).min(MAX_CANDIDATES),
        };
        let origin = self.directory.get(node).map_or(Cell::new(0, 0), |entry| entry.cell());
        let area = match request.spec.area {
            Area::Anywhere => Area::Nearest(origin),
            area => area,
        };
        let filter = request.spec.filter.clone();
        let query = DirectoryQuery::new(request.spec.service, area, SearchPurpose::Serve, count);
        let query = DirectoryQuery { filter, origin, ..query };
        DirectoryQuery { viewpoint: self.directory.viewpoint(node, query.center()), ..query }
    }

    /// Searches for a request that goes so far: one that is to stay with the home's nodes does not get
    /// those of another home, as long as that lives.
    pub(crate) fn search_within(self, core: &mut HubCore, scope: Scope, query: &DirectoryQuery, into: &mut Vec<Hit>) {
        if scope.admits_any_home() {
            return self.search(core, query, into);
        }
        self.search(core, &DirectoryQuery { count: MAX_CANDIDATES, ..query.clone() }, into);
        into.retain(|hit| self.home_of(hit.rank.node()).is_none_or(|home| !core.is_lively(home)));
        into.truncate(query.count);
    }

    pub(crate) fn search(self, core: &mut HubCore, query: &DirectoryQuery, into: &mut Vec<Hit>) {
        core.counters.searches += 1;
        let admits = |cell| core.admits(query, cell);
        let admits: Option<Admits<'_>> = if core.is_limited(query) { Some(&admits) } else { None };
        core.examined += match query.names.filter(|selector| !selector.is_everybody()) {
            Some(selector) => self.find_selected(core, query, selector, into),
            None => self.directory.find_where(query, admits, into),
        };
    }

    /// Searches for one node by its id, else among those that are connected, whose names are known.
    /// Gives how many it has looked at.
    fn find_selected(
        self,
        core: &HubCore,
        query: &DirectoryQuery,
        selector: NodeSelector,
        into: &mut Vec<Hit>,
    ) -> usize {
        into.clear();
        let find = |node| {
            let is_admitted = self.directory.get(node).is_some_and(|entry| core.admits(query, entry.cell()));
            self.directory.find_one(query, node).filter(|_| is_admitted)
        };
        if let Ok(node) = selector.as_str().parse() {
            into.extend(find(node));
            return 1;
        }
        into.extend(core.remotes.nodes_selected_by(selector).filter_map(find));
        into.sort_unstable_by_key(|hit| hit.rank);
        into.truncate(query.count);
        core.remotes.count()
    }
}
