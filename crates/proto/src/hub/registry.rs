//! The nodes of a hub and their records: own ones, replicas, and what a cache was told.

use std::collections::BTreeMap;

use super::claims::Claims;
use super::join_limiter::JoinRateLimiter;
use super::moved::MovedNodes;
use super::records::Records;
use super::replicas::Replicas;
use super::{HubConfig, cache};
use crate::directory::{Directory, Hit};
use crate::ids::NodeId;

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
        }
    }

    /// Records of the hub's nodes, and of those for which it stands by.
    pub(super) fn records(&self) -> Records<'_> {
        Records::new(&self.directory, &self.replicas)
    }
}
