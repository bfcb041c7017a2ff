//! Whether to ask the link first or a hub: the choice of
//! [`Discovery::Auto`](super::Discovery::Auto).
//!
//! A provider in the node's own block is probably on its link, one elsewhere
//! is not: that is the first guess. Then the time until somebody accepted
//! decides, the time that a vain first choice took included: each service and
//! block has the mean of both choices, and the shorter one is made, but for
//! one in sixteen, by which a change of the network is noticed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::grid::{Area, Cell};
use crate::service::Service;
use crate::time::Time;

/// The most kinds of requests with a memory. The one that is not asked for
/// longest makes room.
const MAX_KINDS: usize = 64;

/// How long a memory is believed after the last request of its kind.
const MEMORY: Duration = Duration::from_secs(60);

/// Every so many requests of a kind the other choice is tried.
const PROBE_EVERY: u32 = 16;

/// The side of a block, in cells.
const BLOCK: i32 = 8;

/// Of what kind a request is: what it asks for, and in which block; `None` is anywhere.
pub(super) type Kind = (Service, Option<(i32, i32)>);

/// Which way is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The link, by multicast.
    Link,
    /// The home hub.
    Hub,
}

/// What was learnt.
#[derive(Debug, Default)]
pub(super) struct Judge {
    kinds: BTreeMap<Kind, Learnt>,
}

#[derive(Debug)]
struct Learnt {
    link: Option<Duration>,
    hub: Option<Duration>,
    asked: u32,
    at: Time,
}

/// The kind of a request.
pub(super) fn kind(service: Service, area: Area) -> Kind {
    let cell = match area {
        Area::Rectangle { min, .. } => Some(min),
        area => area.centre(),
    };
    (service, cell.map(block))
}

fn block(cell: Cell) -> (i32, i32) {
    (cell.x.div_euclid(BLOCK), cell.y.div_euclid(BLOCK))
}

impl Judge {
    /// Which way to try first, from `here` and on a link that is `quiet` or not.
    pub(super) fn first(&mut self, now: Time, kind: Kind, here: Cell, quiet: bool) -> First {
        let near = kind.1.is_none_or(|there| there == block(here));
        let guess = if near { First::Link } else { First::Hub };
        self.kinds.retain(|_, learnt| now.since(learnt.at) < MEMORY);
        let choice = match self.kinds.get_mut(&kind) {
            Some(learnt) => learnt.choose(guess),
            None => guess,
        };
        if quiet { choice } else { First::Hub }
    }

    /// A request that tried `first` first has ended after `took`.
    pub(super) fn learn(&mut self, now: Time, kind: Kind, first: First, took: Duration) {
        let full = self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind);
        let oldest = self.kinds.iter().min_by_key(|(_, learnt)| learnt.at).map(|(kind, _)| *kind);
        if let Some(oldest) = oldest.filter(|_| full) {
            self.kinds.remove(&oldest);
        }
        let learnt = self.kinds.entry(kind).or_insert(Learnt { link: None, hub: None, asked: 0, at: now });
        learnt.at = now;
        let mean = if first == First::Link { &mut learnt.link } else { &mut learnt.hub };
        *mean = Some(mean.map_or(took, |mean| (mean * 3 + took) / 4));
    }
}

impl Learnt {
    fn choose(&mut self, guess: First) -> First {
        self.asked = self.asked.wrapping_add(1);
        let best = match (self.link, self.hub) {
            (Some(link), Some(hub)) if link <= hub => First::Link,
            (Some(_), Some(_)) => First::Hub,
            _ => guess,
        };
        match (self.asked % PROBE_EVERY, best) {
            (0, First::Link) => First::Hub,
            (0, First::Hub) => First::Link,
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

    fn near() -> Kind {
        kind(Service::Track, Area::At(Cell::new(7, 0)))
    }

    fn far() -> Kind {
        kind(Service::Track, Area::Near(Cell::new(8, 0)))
    }

    #[test]
    fn own_block_prefers_quiet_multicast() {
        let mut judge = Judge::default();
        assert_eq!(judge.first(at(0), near(), HERE, true), First::Link);
        assert_eq!(judge.first(at(0), kind(Service::Track, Area::Anywhere), HERE, true), First::Link);
        assert_eq!(judge.first(at(0), near(), HERE, false), First::Hub);
        assert_eq!(judge.first(at(0), far(), HERE, true), First::Hub);
    }

    #[test]
    fn slower_method_is_only_probed() {
        let mut judge = Judge::default();
        judge.learn(at(0), near(), First::Link, 2_000 * MS);
        judge.learn(at(0), near(), First::Hub, 100 * MS);
        let choices: Vec<_> = (0..64).map(|_| judge.first(at(1), near(), HERE, true)).collect();
        assert_eq!(choices.iter().filter(|first| **first == First::Link).count(), 4);
        for _ in 0..16 {
            judge.learn(at(2), near(), First::Link, 20 * MS);
        }
        assert_eq!(judge.first(at(2), near(), HERE, true), First::Link, "the network has changed");
    }

    #[test]
    fn learned_times_are_bounded_and_expire() {
        let mut judge = Judge::default();
        for number in 0..10_000 {
            let there = kind(Service::Track, Area::At(Cell::new(number * 8, 0)));
            judge.learn(at(number as u64), there, First::Link, MS);
        }
        assert_eq!(judge.kinds.len(), MAX_KINDS);
        judge.first(at(100_000), near(), HERE, true);
        assert_eq!(judge.kinds.len(), 0);
    }
}
