//! A cache of the client/server baseline: a server with another one above it.
//!
//! A cache serves lookups. It holds the records of the nodes that attach to it
//! and copies of those that the server has named, and answers from both; it asks
//! the server for what it does not hold. A copy lasts for a lease, and nobody
//! tells the cache that a node has moved: a server that did would make of it
//! nearly a super node.
//!
//! All else stays the server's. The cache registers its nodes there, passes on
//! what they request, and relays what comes back, also between two nodes of its
//! own: data goes through the server, as without a cache.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_geo::is_moving;
use roost_wire::messages::Candidate;
use roost_wire::{Area, NodeId, Record, Time};

use crate::directory::{Directory, DirectoryQuery, PublishOutcome};
use crate::hub::HubLimit;
use crate::hub::core::HubCore;
use crate::hub::found_candidate::FoundCandidate;
use crate::hub::timers::MAX_PER_WAKE;

/// Number of nodes that a cache holds copies of, about 1 KB each; what is
/// beyond has to be asked for.
const MAX_CACHED: u32 = 16 * 1024;

/// Copies of records that the server has named.
#[derive(Debug)]
pub(crate) struct RecordCache {
    directory: Directory,
    /// Names of nodes whose copies are held, of at most twice as many.
    names: BTreeMap<NodeId, String>,
}

impl RecordCache {
    pub(super) fn new(lease: Duration) -> Self {
        Self { directory: Directory::new(MAX_CACHED, lease), names: BTreeMap::new() }
    }

    pub(super) fn nodes(&self) -> usize {
        self.directory.nodes()
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.directory.next_expiry()
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.directory.remove(node);
    }

    /// Keeps a copy of a record that the server has named. Of a node in motion there is none: the server knows the place
    /// of now, and the turns that the node has told since.
    pub(super) fn store(&mut self, core: &mut HubCore, candidate: &Candidate) {
        if candidate.position.as_ref().is_some_and(is_moving) {
            return self.remove(candidate.node);
        }
        let Candidate { node, version, cell, ref services, capacity, ref addresses, ref name, position } = *candidate;
        let (services, addresses) = (services.clone(), addresses.clone());
        let record = Record { node, version, cell, services, capacity, addresses, position, orbit: None };
        if self.directory.publish(core.now, &record) == PublishOutcome::Full {
            core.counters.count_over_limit(HubLimit::CachedNodes);
        } else if let Some(name) = name {
            self.names.insert(node, name.clone());
        }
    }

    /// The copies that answer a lookup: any at the place that it names, or wherever. Only the
    /// server knows which is nearest, all that there is, and who has a certain name.
    pub(super) fn answer(&self, core: &mut HubCore, area: Area, query: &DirectoryQuery) -> Vec<FoundCandidate> {
        let is_by_name = query.names.is_some_and(|selector| !selector.is_everybody());
        if !core.is_cache() || is_by_name || !matches!(area, Area::Exact(_) | Area::Anywhere) {
            return Vec::new();
        }
        let mut hits = Vec::new();
        let admits = |cell| core.admits(query, cell);
        self.directory.find_where(query, if core.is_limited(query) { Some(&admits) } else { None }, &mut hits);
        let candidates = hits.iter().map(|hit| self.directory.hit(*hit).candidate());
        let cached: Vec<Candidate> = match query.names {
            Some(_) => candidates.filter_map(|candidate| self.with_name(candidate)).collect(),
            None => candidates.collect(),
        };
        // Some were named to a program, without their names: the server tells them.
        if cached.len() < hits.len() {
            return Vec::new();
        }
        core.counters.cache_hits += u64::from(!cached.is_empty());
        cached.into_iter().map(|candidate| FoundCandidate { hub: core.config.node, candidate }).collect()
    }

    fn with_name(&self, candidate: Candidate) -> Option<Candidate> {
        let name = self.names.get(&candidate.node).cloned()?;
        Some(Candidate { name: Some(name), ..candidate })
    }

    pub(super) fn expire(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            if self.directory.expire(now).is_none() {
                break;
            }
        }
        if self.names.len() > 2 * self.directory.nodes() {
            self.names.retain(|node, _| self.directory.get(*node).is_some());
        }
    }
}
