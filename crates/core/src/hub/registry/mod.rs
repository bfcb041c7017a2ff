//! The nodes of a hub and their records: own ones, replicas, and what a cache was told.

mod cache;
mod claims;
mod homes;
mod join_limiter;
mod leases;
mod lookup;
mod moved;
mod records;
mod replicas;
mod standby;

use std::collections::VecDeque;
use std::time::Duration;

use roost_wire::messages::Candidate;
use roost_wire::{Area, NodeId, Record, Time};

use cache::RecordCache;
pub(super) use claims::Claim;
use claims::Claims;
use join_limiter::JoinRateLimiter;
pub(super) use lookup::encode_found;
use moved::MovedNodes;
pub(super) use records::Records;
use replicas::Replicas;

use super::HubConfig;
use super::core::HubCore;
use crate::directory::{Directory, DirectoryQuery, Hit, PreviousEntry};

#[derive(Debug)]
pub(super) struct Registry {
    pub(super) directory: Directory,
    /// Of a cache: what the server has named.
    cached: RecordCache,
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
            cached: RecordCache::new(config.lease),
            replicas: Replicas::default(),
            claims: Claims::default(),
            moved: MovedNodes::default(),
            join_limiter: JoinRateLimiter::default(),
            hits: Vec::new(),
            changes: VecDeque::new(),
        }
    }

    /// The server has named a node: a cache keeps a copy, unless what it holds is as new.
    pub(super) fn cache_candidate(&mut self, core: &mut HubCore, candidate: &Candidate) {
        let known = self.directory.get(candidate.node).is_some_and(|entry| entry.version() >= candidate.version);
        if !known && core.is_cache() {
            self.cached.store(core, candidate);
        }
    }

    /// Copies that a cache holds and that answer a lookup.
    pub(super) fn cached_for(
        &self,
        core: &mut HubCore,
        area: Area,
        query: &DirectoryQuery,
    ) -> Vec<(NodeId, Candidate)> {
        self.cached.answer(core, area, query)
    }

    pub(super) fn cached_nodes(&self) -> usize {
        self.cached.nodes()
    }

    pub(super) fn forget_cached(&mut self, node: NodeId) {
        self.cached.remove(node);
    }

    pub(super) fn expire_cached(&mut self, now: Time) {
        self.cached.expire(now);
    }

    pub(super) fn next_cache_expiry(&self) -> Option<Time> {
        self.cached.next_expiry()
    }

    /// The host stood still for so long.
    pub(super) fn slept(&mut self, slept: Duration) {
        self.directory.slept(slept);
        self.cached.slept(slept);
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
