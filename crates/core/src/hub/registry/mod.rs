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
use roost_wire::{Area, Cell, ConnectionId, NodeId, Record, Time};

use cache::RecordCache;
pub(super) use claims::Claim;
use claims::{Claims, LeasedRecord};
use join_limiter::JoinRateLimiter;
pub(super) use lookup::{HubsFound, LookupReply, Viewer, encode_found};
use moved::MovedNodes;
pub(super) use records::Records;
use replicas::Replicas;

use super::HubConfig;
use super::core::HubCore;
use super::provider_event::ProviderEvent;
use super::timers::{HubTimer, HubTimers};
use crate::directory::{Directory, DirectoryQuery, Hit, PreviousEntry};
use crate::hub::found_candidate::FoundCandidate;
use crate::wall::WallClock;

/// Watchers and summaries hear of records in motion so late at most; a lookup lists them anew itself.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Registry {
    directory: Directory,
    /// The time at which records in motion were listed where they were.
    followed: Time,
    /// Of a cache: what the server has named.
    cached: RecordCache,
    replicas: Replicas,
    claims: Claims,
    moved: MovedNodes,
    join_limiter: JoinRateLimiter,
    /// The list of the last search, kept for its memory.
    hits: Vec<Hit>,
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
    Replicated { home: NodeId, record: LeasedRecord },
}

#[derive(Debug)]
pub(super) enum ExpiredRecord {
    Own(PreviousEntry),
    Replica,
}

/// The fate of a node that makes this hub its home.
pub(super) enum AdoptOutcome {
    /// The record is here already: the answer was lost.
    Renewed,
    Unknown,
    Adopted(Option<NodeId>),
}

impl Registry {
    pub(super) fn new(config: &HubConfig) -> Self {
        Self {
            directory: Directory::new(config.limits.nodes, config.lease).with_datum(config.datum),
            followed: Time::ZERO,
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
    pub(super) fn cached_for(&self, core: &mut HubCore, area: Area, query: &DirectoryQuery) -> Vec<FoundCandidate> {
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

    pub(super) fn plan_timers(&self, timers: &mut HubTimers) {
        timers.plan(HubTimer::Lease, self.directory.next_expiry());
        timers.plan(HubTimer::CachedRecord, self.cached.next_expiry());
        timers.plan(HubTimer::Claim, self.claims.next_due());
    }

    pub(super) fn tick(&mut self, now: Time) {
        self.directory.tick(now);
    }

    pub(super) fn set_clock(&mut self, now: Time, clock: WallClock) {
        self.directory.set_clock(now, clock);
    }

    pub(super) fn next_follow(&self) -> Option<Time> {
        self.directory.next_move().map(|due| due.max(self.followed + FOLLOW_PAUSE))
    }

    /// Lists a record in motion in its cell of now. Gives what it was, until there is none.
    pub(super) fn follow(&mut self, now: Time) -> Option<PreviousEntry> {
        self.followed = now;
        self.directory.follow(now)
    }

    /// The cell in which a record is listed if it is published now.
    pub(super) fn cell_of(&self, now: Time, record: &Record) -> Cell {
        self.directory.cell_of(now, record)
    }

    pub(super) fn mark_heard(&mut self, now: Time, node: NodeId) {
        self.directory.mark_heard(now, node);
    }

    pub(super) fn suspend(&mut self, node: NodeId) {
        self.directory.suspend(node);
    }

    pub(super) fn record_provider_event(&mut self, node: NodeId, event: ProviderEvent) {
        match event {
            ProviderEvent::Asked(service) => self.directory.deduct(node, service),
            ProviderEvent::Answered(after) => self.directory.record_response_time(node, after),
            ProviderEvent::Served => self.directory.record_success(node),
            ProviderEvent::Failed => self.directory.record_failure(node),
            ProviderEvent::Busy => self.directory.mark_busy(node),
            ProviderEvent::Suspended => self.directory.suspend(node),
        }
    }

    /// True if new nodes wait for their turns.
    pub(super) fn is_crowded(&self, now: Time) -> bool {
        self.join_limiter.is_crowded(now)
    }

    /// A connection with a home is gone.
    pub(super) fn close_receiver(&mut self, home: NodeId, connection: ConnectionId, is_last: bool) {
        self.replicas.close_receiver(home, connection, is_last);
    }

    /// Removes a record whose lease is over. Gives the record's last place; `None` if no other one is over.
    pub(super) fn expire_lease(&mut self, core: &mut HubCore) -> Option<ExpiredRecord> {
        let place = self.directory.expire(core.now)?;
        if !self.replicas.release(place.node) {
            return Some(ExpiredRecord::Own(place));
        }
        self.registered(core, place.node, Some(place));
        Some(ExpiredRecord::Replica)
    }

    /// Takes back the list of a search, for its memory.
    pub(super) fn give_back(&mut self, mut hits: Vec<Hit>) {
        hits.clear();
        self.hits = hits;
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
