//! A queue with a lane for each sender. The lanes are served in turn, so that no sender waits for another's items, and
//! a sender that fills its lane loses items before any other does.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The weight that one turn serves. An item of twice that takes two turns. A lighter one takes a whole turn, since
/// every item costs its receiver something, however small it is.
const TURN_WEIGHT: usize = 1500;

/// Weighted items in lanes, one for each sender `K`.
pub(crate) struct FairQueue<K, T> {
    lanes: HashMap<K, SenderQueue<T>>,
    /// The lanes that hold something, the next to be served first.
    turns: VecDeque<K>,
    weight: usize,
    max_weight: usize,
}

struct SenderQueue<T> {
    items: VecDeque<(usize, T)>,
    weight: usize,
    /// Turns that the first item has waited for.
    turns: usize,
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    /// A queue that holds items of `max_weight` together.
    pub(crate) fn new(max_weight: usize) -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), weight: 0, max_weight }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// True if a sender may add an item. With it, the lane may hold at most half of the weight that is free in the
    /// queue, so that senders which fill their lanes leave room for the next one (Choudhury and Hahne, "Dynamic Queue
    /// Length Thresholds for Shared-Memory Packet Switches", 1998).
    pub(crate) fn has_room(&self, sender: K, weight: usize) -> bool {
        let free = self.max_weight.saturating_sub(self.weight);
        let held = self.lanes.get(&sender).map_or(0, |lane| lane.weight);
        self.is_empty() || (held + weight) * 2 <= free
    }

    /// Adds an item, even if there is no room.
    pub(crate) fn push(&mut self, sender: K, weight: usize, item: T) {
        let lane = self.lanes.entry(sender).or_insert_with(|| {
            self.turns.push_back(sender);
            SenderQueue { items: VecDeque::new(), weight: 0, turns: 0 }
        });
        lane.items.push_back((weight, item));
        lane.weight += weight;
        self.weight += weight;
    }

    /// Removes the first item of the next lane that has had enough turns for it.
    pub(crate) fn pop(&mut self) -> Option<T> {
        loop {
            let sender = self.turns.pop_front()?;
            let lane = self.lanes.get_mut(&sender)?;
            lane.turns += 1;
            if lane.turns * TURN_WEIGHT < lane.items.front()?.0 {
                self.turns.push_back(sender);
                continue;
            }
            let (weight, item) = lane.items.pop_front()?;
            lane.turns = 0;
            lane.weight -= weight;
            self.weight -= weight;
            if lane.items.is_empty() {
                self.lanes.remove(&sender);
            } else {
                self.turns.push_back(sender);
            }
            return Some(item);
        }
    }

    /// Removes the items for which `is_meant` is true from a sender's lane. Returns them in order, with their weights.
    pub(crate) fn extract(&mut self, sender: K, mut is_meant: impl FnMut(&T) -> bool) -> VecDeque<(usize, T)> {
        let Some(lane) = self.lanes.get_mut(&sender) else { return VecDeque::new() };
        let (taken, left) = std::mem::take(&mut lane.items).into_iter().partition(|(_, item)| is_meant(item));
        let taken: VecDeque<_> = taken;
        let weight: usize = taken.iter().map(|(weight, _)| weight).sum();
        lane.items = left;
        lane.weight -= weight;
        self.weight -= weight;
        if lane.items.is_empty() {
            self.lanes.remove(&sender);
            self.turns.retain(|other| *other != sender);
        }
        taken
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
    fn heavy_item_takes_several_turns() {
        let mut queue = FairQueue::new(1 << 20);
        (0..10).for_each(|item| queue.push('a', 10 * TURN_WEIGHT, item));
        (100..120).for_each(|item| queue.push('b', 100, item));
        let served: Vec<_> = std::iter::from_fn(|| queue.pop()).take(20).collect();
        assert!(served.iter().filter(|item| **item < 100).count() <= 2, "{served:?}");
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 10);
    }

    #[test]
    fn full_lanes_leave_room_to_others() {
        let mut queue = FairQueue::new(4 << 20);
        for sender in 0..20 {
            assert!(queue.has_room(sender, 1), "{sender}");
            while queue.has_room(sender, 1) {
                queue.push(sender, 1, ());
            }
        }
        assert!(queue.weight <= 4 << 20);
    }

    #[test]
    fn many_senders_never_exceed_the_limit() {
        let mut queue = FairQueue::new(1 << 20);
        for sender in 0..10_000 {
            if queue.has_room(sender, 1400) {
                queue.push(sender, 1400, ());
            }
        }
        assert!(queue.weight <= 1 << 20 && queue.has_room(10_000, 100));
    }

    #[test]
    fn extracted_items_leave_the_others() {
        let mut queue = FairQueue::new(1 << 20);
        (0..10).for_each(|item| queue.push('a', 3, item));
        queue.push('b', 5, 100);
        let even: Vec<_> = queue.extract('a', |item| item % 2 == 0).into_iter().map(|(_, item)| item).collect();
        assert_eq!(even, [0, 2, 4, 6, 8]);
        assert_eq!(queue.extract('b', |_| true).len(), 1);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((left, queue.weight), (vec![1, 3, 5, 7, 9], 0));
    }

    proptest! {
        /// Each sender's items come in order and once, and no sender waits longer than one round.
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
