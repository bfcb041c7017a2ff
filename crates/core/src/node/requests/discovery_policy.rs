//! The choice between multicast and a hub: that of [`Discovery::Auto`](crate::node::Discovery::Auto).
//!
//! A provider in the node's own block is probably on its link, one elsewhere
//! is not: that is the first guess. Then the time until somebody accepted
//! decides, the time that a vain first choice took included: each service and
//! block has the mean of both choices, and the shorter one is made, but for
//! one in sixteen, by which a change of the network is noticed.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::{Area, Cell, Service, Time};

/// The most kinds of requests with a memory. The one that is not asked for
/// longest makes room.
const MAX_KINDS: usize = 64;

/// Time for which a memory is believed after the last request of its kind.
const MEMORY: Duration = Duration::from_secs(60);

/// Every so many requests of a kind the other choice is tried.
const PROBE_EVERY: u32 = 16;

/// The side of a block, in cells.
const BLOCK: i32 = 8;

/// Of what kind a request is: what it asks for, and in which block; `None` is anywhere.
pub(super) type DiscoveryKey = (Service, Option<(i32, i32)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscoveryMethod {
    /// The connection, by multicast.
    Multicast,
    /// The home hub.
    Hub,
}

#[derive(Debug, Default)]
pub(super) struct DiscoveryPolicy {
    kinds: BTreeMap<DiscoveryKey, DiscoveryTimes>,
}

#[derive(Debug)]
struct DiscoveryTimes {
    multicast: Option<Duration>,
    hub: Option<Duration>,
    asked: u32,
    at: Time,
}

/// The kind of a request.
pub(super) fn discovery_key(service: Service, area: Area) -> DiscoveryKey {
    let cell = match area {
        Area::Rectangle { min, .. } => Some(min),
        area => area.center(),
    };
    (service, cell.map(block))
}

fn block(cell: Cell) -> (i32, i32) {
    (cell.x.div_euclid(BLOCK), cell.y.div_euclid(BLOCK))
}

impl DiscoveryPolicy {
    /// The way to try first, from `here` and on a link that is `quiet` or not.
    pub(super) fn first(&mut self, now: Time, kind: DiscoveryKey, here: Cell, quiet: bool) -> DiscoveryMethod {
        let near = kind.1.is_none_or(|there| there == block(here));
        let guess = if near { DiscoveryMethod::Multicast } else { DiscoveryMethod::Hub };
        self.kinds.retain(|_, learnt| now.since(learnt.at) < MEMORY);
        let choice = match self.kinds.get_mut(&kind) {
            Some(learnt) => learnt.choose(guess),
            None => guess,
        };
        if quiet { choice } else { DiscoveryMethod::Hub }
    }

    /// A request that tried `first` first has ended after `took`.
    pub(super) fn learn(&mut self, now: Time, kind: DiscoveryKey, first: DiscoveryMethod, took: Duration) {
        let full = self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind);
        let oldest = self.kinds.iter().min_by_key(|(_, learnt)| learnt.at).map(|(kind, _)| *kind);
        if let Some(oldest) = oldest.filter(|_| full) {
            self.kinds.remove(&oldest);
        }
        let learnt = self.kinds.entry(kind).or_insert(DiscoveryTimes { multicast: None, hub: None, asked: 0, at: now });
        learnt.at = now;
        let mean = if first == DiscoveryMethod::Multicast { &mut learnt.multicast } else { &mut learnt.hub };
        *mean = Some(mean.map_or(took, |mean| (mean * 3 + took) / 4));
    }
}

impl DiscoveryTimes {
    fn choose(&mut self, guess: DiscoveryMethod) -> DiscoveryMethod {
        self.asked = self.asked.wrapping_add(1);
        let best = match (self.multicast, self.hub) {
            (Some(connection), Some(hub)) if connection <= hub => DiscoveryMethod::Multicast,
            (Some(_), Some(_)) => DiscoveryMethod::Hub,
            _ => guess,
        };
        match (self.asked % PROBE_EVERY, best) {
            (0, DiscoveryMethod::Multicast) => DiscoveryMethod::Hub,
            (0, DiscoveryMethod::Hub) => DiscoveryMethod::Multicast,
            (_, best) => best,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Cell = Cell::new(3, 3);
    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn near() -> DiscoveryKey {
        discovery_key(Service::Track, Area::Exact(Cell::new(7, 0)))
    }

    fn far() -> DiscoveryKey {
        discovery_key(Service::Track, Area::Nearest(Cell::new(8, 0)))
    }

    #[test]
    fn own_block_prefers_quiet_multicast() {
        let mut judge = DiscoveryPolicy::default();
        assert_eq!(judge.first(at(0), near(), HERE, true), DiscoveryMethod::Multicast);
        assert_eq!(
            judge.first(at(0), discovery_key(Service::Track, Area::Anywhere), HERE, true),
            DiscoveryMethod::Multicast
        );
        assert_eq!(judge.first(at(0), near(), HERE, false), DiscoveryMethod::Hub);
        assert_eq!(judge.first(at(0), far(), HERE, true), DiscoveryMethod::Hub);
    }

    #[test]
    fn slower_method_is_only_probed() {
        let mut judge = DiscoveryPolicy::default();
        judge.learn(at(0), near(), DiscoveryMethod::Multicast, 2_000 * MS);
        judge.learn(at(0), near(), DiscoveryMethod::Hub, 100 * MS);
        let choices: Vec<_> = (0..64).map(|_| judge.first(at(1), near(), HERE, true)).collect();
        assert_eq!(choices.iter().filter(|first| **first == DiscoveryMethod::Multicast).count(), 4);
        for _ in 0..16 {
            judge.learn(at(2), near(), DiscoveryMethod::Multicast, 20 * MS);
        }
        assert_eq!(judge.first(at(2), near(), HERE, true), DiscoveryMethod::Multicast, "the network has changed");
    }

    #[test]
    fn learned_times_are_bounded_and_expire() {
        let mut judge = DiscoveryPolicy::default();
        for number in 0..10_000 {
            let there = discovery_key(Service::Track, Area::Exact(Cell::new(number * 8, 0)));
            judge.learn(at(number as u64), there, DiscoveryMethod::Multicast, MS);
        }
        assert_eq!(judge.kinds.len(), MAX_KINDS);
        judge.first(at(100_000), near(), HERE, true);
        assert_eq!(judge.kinds.len(), 0);
    }
}
