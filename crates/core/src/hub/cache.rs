//! A cache of the client/server baseline: a server with another one above it.
//!
//! What a cache is for is lookups. It holds the records of the nodes that
//! attach to it and copies of those that the server has named, and answers from
//! both; what it does not hold it asks for. A copy lasts for a lease, and nobody
//! tells the cache that a node has moved: a server that did would make of it
//! nearly a super node.
//!
//! All else stays the server's. The cache registers its nodes there, passes on
//! what they request, and relays what comes back, also between two nodes of its
//! own: data goes through the server, as without a cache.

use roost_wire::messages::Candidate;
use roost_wire::{Area, NodeId, Record};

use super::core::HubCore;
use super::registry::Registry;
use super::timers::MAX_PER_WAKE;
use super::{HubKind, HubLimit};
use crate::directory::{DirectoryQuery, PublishOutcome};

/// How many nodes of others a cache holds copies of, about 1 KB each; what is
/// beyond has to be asked for.
pub(super) const MAX_CACHED: u32 = 16 * 1024;

impl HubCore {
    /// Whether it is a cache.
    pub(super) fn is_cache(&self) -> bool {
        self.config.kind == HubKind::Server && !self.is_root()
    }

    /// The server of this cache, if it is one and that is up.
    pub(super) fn central(&self) -> Option<NodeId> {
        self.parents().first().copied().filter(|_| self.is_cache())
    }
}

impl Registry {
    /// The nodes of a cache cannot be reached for now: they are listed no
    /// more until it says again that they live.
    pub(super) fn suspend_registered(&mut self, core: &mut HubCore, cache: NodeId) {
        if core.config.kind == HubKind::Server {
            for node in self.replicas.nodes_of(cache).collect::<Vec<_>>() {
                self.directory.suspend(node);
            }
        }
    }

    /// The server has named a node: a cache keeps a copy, unless what it holds
    /// is as new.
    pub(super) fn cache_candidate(&mut self, core: &mut HubCore, candidate: &Candidate) {
        let now = core.now;
        let known = self.directory.get(candidate.node).is_some_and(|entry| entry.version() >= candidate.version);
        if known || !core.is_cache() {
            return;
        }
        let Candidate { node, version, cell, services, capacity, ref addresses, ref name } = *candidate;
        let record = Record { node, version, cell, services, capacity, addresses: addresses.clone() };
        if self.cached.publish(now, &record) == PublishOutcome::Full {
            core.counters.count_over_limit(HubLimit::CachedNodes);
        } else if let Some(name) = name {
            self.cached_names.insert(node, name.clone());
        }
    }

    /// The copies that answer a lookup: any at the place that it names, or wherever. Only the
    /// server knows which is nearest, all that there is, and who has a certain name.
    pub(super) fn cached_for(
        &mut self,
        core: &mut HubCore,
        area: Area,
        query: &DirectoryQuery,
    ) -> Vec<(NodeId, Candidate)> {
        let is_by_name = query.names.is_some_and(|selector| !selector.is_everybody());
        if !core.is_cache() || is_by_name || !matches!(area, Area::Exact(_) | Area::Anywhere) {
            return Vec::new();
        }
        let mut hits = Vec::new();
        self.cached.find(query, &mut hits);
        let candidates = hits.iter().map(|hit| self.cached.hit(*hit).candidate());
        let cached: Vec<Candidate> = match query.names {
            Some(_) => candidates.filter_map(|candidate| self.with_cached_name(candidate)).collect(),
            None => candidates.collect(),
        };
        // Some were named to a program, without their names: the server tells them.
        if cached.len() < hits.len() {
            return Vec::new();
        }
        core.counters.cache_hits += u64::from(!cached.is_empty());
        cached.into_iter().map(|candidate| (core.config.node, candidate)).collect()
    }

    fn with_cached_name(&self, candidate: Candidate) -> Option<Candidate> {
        let name = self.cached_names.get(&candidate.node).cloned()?;
        Some(Candidate { name: Some(name), ..candidate })
    }

    pub(super) fn expire_cached(&mut self, core: &mut HubCore) {
        let now = core.now;
        for _ in 0..MAX_PER_WAKE {
            if self.cached.expire(now).is_none() {
                break;
            }
        }
        if self.cached_names.len() > 2 * self.cached.nodes() {
            self.cached_names.retain(|node, _| self.cached.get(*node).is_some());
        }
    }
}
