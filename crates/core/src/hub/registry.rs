//! The nodes of a hub and their records: own ones, replicas, and what a cache was told.

use std::collections::{BTreeMap, VecDeque};

use roost_wire::{NodeId, Record};

use super::claims::Claims;
use super::join_limiter::JoinRateLimiter;
use super::moved::MovedNodes;
use super::records::Records;
use super::replicas::Replicas;
use super::{HubConfig, cache};
use crate::directory::{Directory, Hit, PreviousEntry};

#[derive(Debug)]
pub(super) struct Registry {
    pub(super) directory: Directory,
    /// Of a cache: what the server has named.
    pub(super) cached: Directory,
    /// Names of nodes whose copies are held, of at most twice as many.
    pub(super) cached_names: BTreeMap<NodeId, String>,
    pub(super) replicas: Replicas,
    pub(super) claims: Claims,
    pub(super) moved: MovedNodes,
    pub(super) join_limiter: JoinRateLimiter,
    /// Where searches put their answer, kept for its memory.
    pub(super) hits: Vec<Hit>,
    /// Changes of which other parts have not heard.
    changes: VecDeque<RecordChange>,
}

/// A change of a record that came from another hub.
#[derive(Debug)]
pub(super) enum RecordChange {
    /// A node of this hub has another home.
    Claimed(PreviousEntry),
    /// A record that is kept for another hub has come, changed or gone.
    Registered(NodeId, Option<PreviousEntry>),
    /// The new home of a claimed node has this hub keep the record.
    Replicated { home: NodeId, record: Record },
}

/// What becomes of a node that makes this hub its home.
pub(super) enum AdoptOutcome {
    /// It is here already: the answer was lost.
    Renewed,
    /// Its record is not here.
    Unknown,
    /// It has come from this home.
    Adopted(Option<NodeId>),
}

impl Registry {
    pub(super) fn new(config: &HubConfig) -> Self {
        Self {
            directory: Directory::new(config.limits.nodes, config.lease),
            cached: Directory::new(cache::MAX_CACHED, config.lease),
            cached_names: BTreeMap::new(),
            replicas: Replicas::default(),
            claims: Claims::default(),
            moved: MovedNodes::default(),
            join_limiter: JoinRateLimiter::default(),
            hits: Vec::new(),
            changes: VecDeque::new(),
        }
    }

    /// The next change of which other parts are to hear.
    pub(super) fn next_change(&mut self) -> Option<RecordChange> {
        self.changes.pop_front()
    }

    pub(super) fn record_change_by_hub(&mut self, change: RecordChange) {
        self.changes.push_back(change);
    }

    /// Records of the hub's nodes, and of those for which it stands by.
    pub(super) fn records(&self) -> Records<'_> {
        Records::new(&self.directory, &self.replicas, &self.moved)
    }
}
