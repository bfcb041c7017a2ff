//! A queue with a lane for each sender. The lanes are served in turn, so that nobody waits for what another has sent,
//! and a sender that fills its lane loses before anyone else does.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items of weight, by their sender `K`.
pub(crate) struct FairQueue<K, T> {
    lanes: HashMap<K, Lane<T>>,
    /// The lanes that hold something, the next to be served first.
    turns: VecDeque<K>,
    weight: usize,
    max_weight: usize,
}

struct Lane<T> {
    items: VecDeque<(usize, T)>,
    weight: usize,
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    /// A queue in which `max_weight` may wait.
    pub(crate) fn new(max_weight: usize) -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), weight: 0, max_weight }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Tells if a sender may add to its lane, which is while it has less waiting than half of what is free. However
    /// many fill their lanes, some room is left for the next (Choudhury and Hahne, "Dynamic Queue Length Thresholds
    /// for Shared-Memory Packet Switches", 1998).
    pub(crate) fn has_room(&self, sender: K) -> bool {
        let free = self.max_weight.saturating_sub(self.weight);
        let held = self.lanes.get(&sender).map_or(0, |lane| lane.weight);
        held * 2 < free
    }

    /// Adds an item, also where there is no room.
    pub(crate) fn push(&mut self, sender: K, weight: usize, item: T) {
        let lane = self.lanes.entry(sender).or_insert_with(|| {
            self.turns.push_back(sender);
            Lane { items: VecDeque::new(), weight: 0 }
        });
        lane.items.push_back((weight, item));
        lane.weight += weight;
        self.weight += weight;
    }

    /// Takes the first item of the next lane.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let sender = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&sender)?;
        let (weight, item) = lane.items.pop_front()?;
        lane.weight -= weight;
        self.weight -= weight;
        if lane.items.is_empty() {
            self.lanes.remove(&sender);
        } else {
            self.turns.push_back(sender);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn newcomer_is_served_next_but_one() {
        let mut queue = FairQueue::new(10_000);
        (0..1000).for_each(|item| queue.push('a', 1, item));
        queue.push('b', 1, 5000);
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(0), Some(5000), Some(1)]);
    }

    #[test]
    fn full_lanes_leave_room_to_others() {
        let mut queue = FairQueue::new(100_000);
        for sender in 0..20 {
            assert!(queue.has_room(sender), "{sender}");
            while queue.has_room(sender) {
                queue.push(sender, 1, ());
            }
        }
        assert!(queue.weight <= 100_000);
    }

    proptest! {
        /// Each sender's items come in their order, all of them once, and nobody waits longer than one round.
        #[test]
        fn every_lane_comes_in_order(pushes in proptest::collection::vec((0u8..6, 0usize..50), 1..200)) {
            let mut queue = FairQueue::new(1 << 20);
            for (number, (sender, weight)) in pushes.iter().enumerate() {
                queue.push(*sender, *weight, (*sender, number));
            }
            let mut last = HashMap::new();
            let mut served: Vec<u8> = Vec::new();
            while let Some((sender, number)) = queue.pop() {
                prop_assert!(last.insert(sender, number).is_none_or(|before| before < number));
                let since = served.iter().rev().take_while(|other| **other != sender).count();
                prop_assert!(since < 6);
                served.push(sender);
            }
            prop_assert_eq!(served.len(), pushes.len());
            prop_assert!(queue.is_empty() && queue.weight == 0 && queue.lanes.is_empty());
        }
    }
}
