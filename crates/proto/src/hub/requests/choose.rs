//! Which providers are tried, and in which order.

use super::super::seek::Waiter;
use super::table::{Choice, Key, Stage};
use crate::directory::{Query, Rank};
use crate::hub::Hub;
use crate::ids::NodeId;
use crate::time::Time;
use crate::wire::{Candidate, Coverage, Reason, Request};

impl Hub {
    pub(super) fn choose_or_seek(&mut self, now: Time, key: Key, request: &Request, query: Query) {
        let mut hits = self.search_within(now, request.scope.unwrap_or_default(), &query);
        if self.must_seek(request, hits.iter().any(|hit| hit.rank.is_free())) {
            self.hits = hits;
            if !self.seek(now, query, Waiter::Request { key, query }) {
                self.counters.over_limit += 1;
                self.refuse(now, key, Reason::TooMany);
            }
            return;
        }
        hits.sort_unstable_by_key(|hit| hit.rank.by_availability());
        let choices: Vec<Choice> = hits.iter().map(|hit| self.choice(hit.rank.node())).collect();
        if let Some(asked) = self.requests.table.get_mut(&key) {
            asked.choices.extend(choices);
        }
        self.hits = hits;
        self.advance(now, key);
    }

    /// How a node of the directory is reached: a mirrored one that is not
    /// connected through its home.
    fn choice(&self, node: NodeId) -> Choice {
        let connected = self.neighbours.is_up(node);
        Choice { node, via: self.mirror.home_of(node).filter(|_| !connected) }
    }

    /// The peers have been asked: ranks what they and this hub have.
    pub(in crate::hub) fn choose(
        &mut self,
        now: Time,
        key: Key,
        query: &Query,
        remote: &[(NodeId, Candidate)],
        coverage: Coverage,
    ) {
        if !self.requests.get(key).is_some_and(|asked| asked.stage == Stage::Seeking) {
            return;
        }
        let hits = self.search(query);
        let mut ranked: Vec<(Rank, Choice)> = Vec::with_capacity(hits.len() + remote.len());
        for hit in &hits {
            let entry = self.directory.hit(*hit);
            let node = entry.node();
            let newer = |(_, other): &&(NodeId, Candidate)| other.node == node && other.version > entry.version();
            if !remote.iter().any(|other| newer(&other)) {
                ranked.push((hit.rank, self.choice(node)));
            }
        }
        self.hits = hits;
        for (hub, Candidate { node, cell, capacity, .. }) in remote {
            let known = ranked.iter().any(|(_, choice)| choice.node == *node);
            if !known && query.except != Some(*node) {
                let rank = Rank::new(query.service, query.centre(), *cell, *capacity, false, *node);
                ranked.push((rank, Choice { node: *node, via: Some(*hub) }));
            }
        }
        ranked.sort_unstable_by_key(|(rank, _)| rank.by_availability());
        if let Some(asked) = self.requests.table.get_mut(&key) {
            asked.choices.extend(ranked.iter().take(query.count).map(|(_, choice)| *choice));
            if asked.choices.is_empty() && coverage != Coverage::Whole {
                asked.reason = if coverage == Coverage::Partial { Reason::Unreachable } else { Reason::NotYetKnown };
            }
        }
        self.advance(now, key);
    }

    /// Hands the request to the next provider that can be had.
    pub(super) fn advance(&mut self, now: Time, key: Key) {
        loop {
            let Some(asked) = self.requests.table.get_mut(&key) else { return };
            let Some(choice) = asked.choices.pop_front() else { break };
            let relay = asked.is_relay();
            match self.hand(now, key, choice, relay) {
                Ok(()) => return,
                Err(reason) => self.note(key, reason),
            }
        }
        let Some(asked) = self.requests.get(key) else { return };
        let young = asked.reason == Reason::NotFound && !asked.is_carried() && self.is_young(now);
        let reason = if young { Reason::NotYetKnown } else { asked.reason };
        self.refuse(now, key, reason);
    }

    /// Keeps the gravest reason: what the requester can do most about.
    pub(super) fn note(&mut self, key: Key, reason: Reason) {
        let weight = |reason| match reason {
            Reason::Busy => 4,
            Reason::TooMany => 3,
            Reason::NoTransport => 2,
            Reason::NotFound | Reason::NotYetKnown => 0,
            _ => 1,
        };
        if let Some(asked) = self.requests.table.get_mut(&key)
            && weight(reason) > weight(asked.reason)
        {
            asked.reason = reason;
        }
    }
}
