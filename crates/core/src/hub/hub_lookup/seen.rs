//! Searches that have come already.
//!
//! A hub has two parents and these have two again, so a search that goes down comes to it over several. One of them
//! gets the answer, and the others hear that another one gets it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use roost_wire::messages::RouteDirection;
use roost_wire::{NodeId, Time};

/// Time for which a search is remembered: none lasts longer.
const MEMORY: Duration = Duration::from_secs(30);

/// The most searches that are remembered. Beyond them a hub that has many here loses its oldest, which costs a second
/// answer.
const MAX_SEEN: usize = 8_192;

/// The hub that gets the answer, by search.
#[derive(Debug, Default)]
pub(in crate::hub) struct SeenSearches {
    receivers: BTreeMap<u64, AnswerReceiver>,
    /// The searches of each hub, in the order in which they came.
    by_hub: BTreeMap<NodeId, VecDeque<(Time, u64)>>,
    listed: usize,
}

/// A hub that gets the answer to a search, and in which direction it has led that.
#[derive(Clone, Copy, Debug)]
pub(in crate::hub) struct AnswerReceiver {
    pub(in crate::hub) hub: NodeId,
    pub(in crate::hub) way: RouteDirection,
}

impl SeenSearches {
    /// Has `next` get the answer, unless another hub does, which `is_up` and has led the search as far. False if so.
    pub(in crate::hub) fn claim_answer(
        &mut self,
        now: Time,
        search: u64,
        next: AnswerReceiver,
        is_up: impl Fn(NodeId) -> bool,
    ) -> bool {
        let before = self.receivers.get(&search);
        if before.is_some_and(|first| first.hub != next.hub && first.way <= next.way && is_up(first.hub)) {
            return false;
        }
        self.record(now, search, next);
        true
    }

    /// Notes a search that this hub, `own`, begins: no other hub gets anything from here.
    pub(super) fn begin(&mut self, now: Time, search: u64, own: NodeId) {
        self.record(now, search, AnswerReceiver { hub: own, way: RouteDirection::Up });
    }

    fn record(&mut self, now: Time, search: u64, receiver: AnswerReceiver) {
        if let Some(before) = self.receivers.get_mut(&search).filter(|before| before.hub == receiver.hub) {
            before.way = before.way.min(receiver.way);
            return;
        }
        self.receivers.insert(search, receiver);
        self.by_hub.entry(receiver.hub).or_default().push_back((now, search));
        self.listed += 1;
        let is_old = |list: &VecDeque<(Time, u64)>| list.front().is_some_and(|(came, _)| *came + MEMORY <= now);
        while self.by_hub.get(&receiver.hub).is_some_and(is_old) {
            self.forget_oldest(receiver.hub);
        }
        while self.listed > MAX_SEEN {
            let most = self.by_hub.iter().max_by_key(|(_, list)| list.len()).map(|(hub, _)| *hub);
            most.into_iter().for_each(|hub| self.forget_oldest(hub));
        }
    }

    fn forget_oldest(&mut self, hub: NodeId) {
        let Some(list) = self.by_hub.get_mut(&hub) else { return };
        if let Some((_, search)) = list.pop_front() {
            self.listed -= 1;
            if self.receivers.get(&search).is_some_and(|receiver| receiver.hub == hub) {
                self.receivers.remove(&search);
            }
        }
        if list.is_empty() {
            self.by_hub.remove(&hub);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::testing::node;

    #[test]
    fn table_is_bounded_and_forgets() {
        let mut seen = SeenSearches::default();
        let mut claims = |at_s: u64, search, hub| {
            let now = Time::ZERO + Duration::from_secs(at_s);
            seen.claim_answer(now, search, AnswerReceiver { hub: node(hub), way: RouteDirection::Down }, |_| true)
        };
        assert!(claims(0, 1_000_000, 3));
        for search in 0..MAX_SEEN as u64 {
            assert!(claims(0, search, 1));
        }
        assert!(!claims(29, 1, 2));
        assert!(!claims(29, 1_000_000, 2), "the hub that has many loses its own");
        assert!(claims(29, 0, 2), "its oldest");
        assert!(claims(30, MAX_SEEN as u64, 1));
        assert_eq!((seen.listed, seen.receivers.len(), seen.by_hub.len()), (3, 3, 3));
    }
}
