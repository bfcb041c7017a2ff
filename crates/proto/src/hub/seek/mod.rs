//! Searching at the peers, many askers at once.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::requests::Key;
use super::{Hub, MAX_PER_WAKE, Sender};
use crate::address::SchemeSet;
use crate::directory::Query;
use crate::grid::{Area, Cell};
use crate::ids::{LinkId, NodeId, RequestId};
use crate::machine::{Channel, Traffic};
use crate::service::Service;
use crate::time::Time;
use crate::wire::{Candidate, Coverage, Found, MAX_CANDIDATES, Message, Seek};

/// Least time that the peers get for an answer, beyond twice their round trip.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most time that they get.
const MAX_PATIENCE: Duration = Duration::from_secs(2);

/// How many may wait for the same search.
const MAX_WAITERS: usize = 1_024;

/// Searches at the peers that are under way.
#[derive(Debug, Default)]
pub(super) struct Seeks {
    table: BTreeMap<RequestId, Seeking>,
    /// The same search for somebody else joins the one under way.
    by_want: BTreeMap<Want, RequestId>,
    timers: BTreeSet<(Time, RequestId)>,
    last: u32,
}

type Want = (Service, Area, usize);

#[derive(Debug)]
struct Seeking {
    want: Want,
    due: Time,
    patience: Duration,
    /// Whether the peers were asked a second time.
    repeated: bool,
    waiters: Vec<Waiter>,
    awaited: BTreeSet<NodeId>,
    /// With the hub that holds each; of a node's records the newest only.
    found: Vec<(NodeId, Candidate)>,
    coverage: Coverage,
}

/// Who waits for a search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    /// A lookup, which is answered with what was found.
    Lookup { link: LinkId, node: NodeId, id: RequestId, query: Query },
    /// A request, which goes on to what was found.
    Request { key: Key, query: Query },
}

impl Seeks {
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn take(&mut self, id: RequestId) -> Option<Seeking> {
        let seeking = self.table.remove(&id)?;
        self.by_want.remove(&seeking.want);
        self.timers.remove(&(seeking.due, id));
        Some(seeking)
    }
}

impl Hub {
    /// Asks all peers, or joins who has asked them the same. False if too many
    /// wait, of all or of this node.
    pub(super) fn seek(&mut self, now: Time, query: Query, waiter: Waiter) -> bool {
        let allowed = self.config.limits.requests_per_node;
        if self.neighbours.get(waiter.node()).is_none_or(|node| node.searches >= allowed) {
            return false;
        }
        let want = (query.service, query.area, query.count);
        if let Some(seeking) = self.seeks.by_want.get(&want).and_then(|id| self.seeks.table.get_mut(id)) {
            self.counters.merged_seeks += 1;
            // A repeated lookup is answered once.
            if !seeking.waiters.iter().any(|other| other.is_same(&waiter)) {
                if seeking.waiters.len() >= MAX_WAITERS {
                    return false;
                }
                seeking.waiters.push(waiter);
                self.count_search(waiter.node());
            }
            return true;
        }
        if self.seeks.table.len() >= self.config.limits.seeks {
            return false;
        }
        self.count_search(waiter.node());
        self.start_seek(now, want, waiter);
        true
    }

    fn count_search(&mut self, node: NodeId) {
        if let Some(neighbour) = self.neighbours.get_mut(node) {
            neighbour.searches += 1;
        }
    }

    fn start_seek(&mut self, now: Time, want: Want, waiter: Waiter) {
        self.seeks.last = self.seeks.last.wrapping_add(1);
        let id = RequestId(self.seeks.last);
        let awaited: BTreeSet<NodeId> = self.neighbours.hubs().collect();
        let missing = awaited.len() < self.peer_count();
        let coverage = if missing { Coverage::Partial } else { Coverage::Whole };
        let patience = self.patience(&awaited);
        let due = now + patience;
        let waiters = vec![waiter];
        let nobody = awaited.is_empty();
        let seeking = Seeking { want, due, patience, repeated: false, waiters, awaited, found: Vec::new(), coverage };
        self.seeks.table.insert(id, seeking);
        self.seeks.by_want.insert(want, id);
        self.seeks.timers.insert((due, id));
        self.counters.seeks += 1;
        if nobody {
            self.conclude(now, id);
        } else {
            self.ask_awaited(id);
        }
    }

    /// Half of the time that the peers get: after it they are asked again.
    fn patience(&self, peers: &BTreeSet<NodeId>) -> Duration {
        let rtt = |peer: &NodeId| {
            let link = self.neighbours.best_link(*peer, SchemeSet::ALL)?;
            self.neighbours.links.get(&link).map(|link| link.rtt)
        };
        let slowest = peers.iter().filter_map(rtt).max().unwrap_or_default();
        (slowest * 2 + PATIENCE).min(MAX_PATIENCE) / 2
    }

    fn ask_awaited(&mut self, id: RequestId) {
        let Some(Seeking { want: (service, area, count), awaited, .. }) = self.seeks.table.get(&id) else { return };
        let count = u8::try_from(*count).unwrap_or(u8::MAX);
        let seek = Message::Seek(Seek { id, service: *service, area: *area, count });
        let links: Vec<LinkId> =
            awaited.iter().filter_map(|peer| self.neighbours.best_link(*peer, SchemeSet::ALL)).collect();
        for link in links {
            self.send(link, Channel::Datagram, Traffic::Mesh, &seek);
        }
    }

    /// A peer asks: only what is held here counts, so a search never goes round.
    pub(super) fn sought(&mut self, now: Time, from: Sender, seek: Seek) {
        self.counters.sought += 1;
        let count = usize::from(seek.count).min(MAX_CANDIDATES);
        let (service, area, origin) = (seek.service, seek.area, Cell::new(0, 0));
        let hits = self.search(&Query { service, area, origin, count, except: None, suspended: false });
        let candidates = hits.iter().map(|hit| self.shown(from.link, self.directory.hit(*hit).candidate())).collect();
        self.hits = hits;
        let coverage = if self.is_young(now) { Coverage::Young } else { Coverage::Whole };
        let found = Message::Found(Found { id: seek.id, candidates, coverage });
        self.send(from.link, Channel::Datagram, Traffic::Mesh, &found);
    }

    /// A peer has answered.
    pub(super) fn peer_found(&mut self, now: Time, from: Sender, found: Found) {
        let Some(seeking) = self.seeks.table.get_mut(&found.id) else {
            self.counters.stray += 1;
            return;
        };
        if !seeking.awaited.remove(&from.node) {
            self.counters.stray += 1;
            return;
        }
        if found.coverage != Coverage::Whole && seeking.coverage == Coverage::Whole {
            seeking.coverage = found.coverage;
        }
        let (service, area, _) = seeking.want;
        for candidate in found.candidates {
            if candidate.services.contains(service) && area.contains(candidate.cell) {
                seeking.add(from.node, candidate);
            }
        }
        if seeking.awaited.is_empty() {
            self.conclude(now, found.id);
        }
    }

    /// A peer is gone: nobody waits for it any longer.
    pub(super) fn seek_without(&mut self, now: Time, peer: NodeId) {
        let mut done = Vec::new();
        for (id, seeking) in &mut self.seeks.table {
            if seeking.awaited.remove(&peer) {
                seeking.coverage = Coverage::Partial;
                if seeking.awaited.is_empty() {
                    done.push(*id);
                }
            }
        }
        for id in done {
            self.conclude(now, id);
        }
    }

    pub(super) fn expire_seeks(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some((_, id)) = self.seeks.timers.first().copied().filter(|(at, _)| *at <= now) else { return };
            let Some(seeking) = self.seeks.table.get_mut(&id) else { return };
            if seeking.repeated {
                seeking.coverage = Coverage::Partial;
                self.counters.partial_seeks += 1;
                self.conclude(now, id);
                continue;
            }
            seeking.repeated = true;
            self.seeks.timers.remove(&(seeking.due, id));
            seeking.due = now + seeking.patience;
            self.seeks.timers.insert((seeking.due, id));
            self.ask_awaited(id);
        }
    }

    fn conclude(&mut self, now: Time, id: RequestId) {
        let Some(seeking) = self.seeks.take(id) else { return };
        let coverage = match seeking.coverage {
            Coverage::Whole if self.is_young(now) => Coverage::Young,
            coverage => coverage,
        };
        for waiter in seeking.waiters {
            if let Some(neighbour) = self.neighbours.get_mut(waiter.node()) {
                neighbour.searches = neighbour.searches.saturating_sub(1);
            }
            match waiter {
                Waiter::Lookup { link, id, query, .. } => self.list((link, id), &query, &seeking.found, coverage),
                Waiter::Request { key, query } => self.choose(now, key, &query, &seeking.found, coverage),
            }
        }
    }
}

impl Seeking {
    /// Keeps the newest record of each node, at most as many as all peers may send.
    fn add(&mut self, hub: NodeId, candidate: Candidate) {
        match self.found.iter_mut().find(|(_, held)| held.node == candidate.node) {
            Some((_, held)) if held.version >= candidate.version => {}
            Some(held) => *held = (hub, candidate),
            None => self.found.push((hub, candidate)),
        }
    }
}

impl Waiter {
    /// Who waits.
    fn node(&self) -> NodeId {
        match self {
            Self::Lookup { node, .. } => *node,
            Self::Request { key, .. } => key.asker,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lookup { node: a, id: x, .. }, Self::Lookup { node: b, id: y, .. }) => (a, x) == (b, y),
            (Self::Request { key: a, .. }, Self::Request { key: b, .. }) => a == b,
            _ => false,
        }
    }
}
