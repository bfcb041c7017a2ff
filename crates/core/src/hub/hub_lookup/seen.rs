//! Searches that have come already.
//!
//! A hub has two parents and these have two again, so a search that goes down comes to it over several. The first to
//! ask gets what there is, and the others hear that somebody else has it.

use std::collections::{BTreeMap, VecDeque};

use roost_wire::messages::RouteDirection;
use roost_wire::{NodeId, Time};

use super::MAX_PATIENCE;

/// The most searches that are remembered. Beyond them the oldest is forgotten, which costs an answer that was
/// given already.
const MAX_SEEN: usize = 8_192;

/// The hub that asked first, by search.
#[derive(Debug, Default)]
pub(in crate::hub) struct SeenSearches {
    askers: BTreeMap<u64, Asker>,
    /// In the order in which they came.
    order: VecDeque<(Time, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Asker {
    hub: NodeId,
    way: RouteDirection,
}

impl SeenSearches {
    /// True if another hub, which `is_up`, has asked for the search already and as far as `way` leads. Otherwise
    /// `hub` is the one that gets the answer.
    pub(in crate::hub) fn is_asked_by_another(
        &mut self,
        now: Time,
        search: u64,
        (hub, way): (NodeId, RouteDirection),
        is_up: impl Fn(NodeId) -> bool,
    ) -> bool {
        let before = self.askers.get(&search);
        if before.is_some_and(|first| first.hub != hub && first.way <= way && is_up(first.hub)) {
            return true;
        }
        self.record(now, search, Asker { hub, way });
        false
    }

    /// Notes a search that this hub, `own`, begins: nobody else is to tell it what it has itself.
    pub(super) fn begin(&mut self, now: Time, search: u64, own: NodeId) {
        self.record(now, search, Asker { hub: own, way: RouteDirection::Up });
    }

    fn record(&mut self, now: Time, search: u64, asker: Asker) {
        if self.askers.insert(search, asker).is_none() {
            self.order.push_back((now, search));
            self.forget_old(now);
        }
    }

    fn forget_old(&mut self, now: Time) {
        let is_old = |(came, _): &(Time, u64)| *came + MAX_PATIENCE <= now;
        while self.order.front().is_some_and(is_old) || self.order.len() > MAX_SEEN {
            let Some((_, search)) = self.order.pop_front() else { return };
            self.askers.remove(&search);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hub::testing::node;

    #[test]
    fn table_is_bounded_and_forgets() {
        let mut seen = SeenSearches::default();
        let mut asks = |at_s: u64, search, hub| {
            let now = Time::ZERO + Duration::from_secs(at_s);
            seen.is_asked_by_another(now, search, (node(hub), RouteDirection::Down), |_| true)
        };
        for search in 0..=MAX_SEEN as u64 {
            assert!(!asks(0, search, 1));
        }
        assert!(asks(29, 1, 2));
        assert!(!asks(29, 0, 2), "the oldest made room");
        assert!(!asks(29, 1, 2), "and so did the next");
        assert!(!asks(30, MAX_SEEN as u64 + 1, 2));
        assert_eq!((seen.order.len(), seen.askers.len()), (3, 3));
    }
}
