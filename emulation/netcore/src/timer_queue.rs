//! A priority queue of pipes.

use roost_wire::Time;

/// The due time of an event, and its order among events of the same time.
pub(super) type AgendaKey = (Time, u64);

const ABSENT: u32 = u32::MAX;

/// A binary heap of pipes by the key of their first packet, with an index of each pipe's position: the first is
/// found at once, and changing a key leaves no stale entry behind.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerQueue {
    heap: Vec<(AgendaKey, u32)>,
    places: Vec<u32>,
}

impl TimerQueue {
    /// Makes room for one more pipe, which has no event yet.
    pub(super) fn add(&mut self) {
        self.places.push(ABSENT);
    }

    pub(super) fn first(&self) -> Option<(AgendaKey, u32)> {
        self.heap.first().copied()
    }

    /// Sets the key of `pipe`, or removes the pipe.
    pub(super) fn set(&mut self, pipe: u32, key: Option<AgendaKey>) {
        match (self.places[pipe as usize], key) {
            (ABSENT, None) => {}
            (ABSENT, Some(key)) => {
                self.heap.push((key, pipe));
                self.rise(self.heap.len() - 1);
            }
            (place, None) => self.remove(place as usize),
            (place, Some(key)) => {
                self.heap[place as usize].0 = key;
                self.restore_order(place as usize);
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let (_, pipe) = self.heap.swap_remove(place);
        self.places[pipe as usize] = ABSENT;
        if place < self.heap.len() {
            self.restore_order(place);
        }
    }

    /// Moves the entry at `place` up or down to its position.
    fn restore_order(&mut self, place: usize) {
        if !self.rise(place) {
            self.sink(place);
        }
    }

    /// Moves an entry towards the top; true if it moved.
    fn rise(&mut self, from: usize) -> bool {
        let entry = self.heap[from];
        let mut place = from;
        while place > 0 && entry.0 < self.heap[(place - 1) / 2].0 {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
        place != from
    }

    fn sink(&mut self, from: usize) {
        let entry = self.heap[from];
        let mut place = from;
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].0 < self.heap[child].0 {
                child += 1;
            }
            if entry.0 <= self.heap[child].0 {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (AgendaKey, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_entry_has_least_key(
            steps in prop::collection::vec((0_u32..12, prop::option::of(0_u64..20)), 1..200),
        ) {
            let mut agenda = TimerQueue::default();
            (0..12).for_each(|_| agenda.add());
            let mut model = BTreeMap::new();
            for (number, (pipe, due)) in steps.into_iter().enumerate() {
                let key = due.map(|due| (Time::from_nanos(due), number as u64));
                agenda.set(pipe, key);
                match key {
                    Some(key) => model.insert(pipe, key),
                    None => model.remove(&pipe),
                };
                let least = model.iter().map(|(&pipe, &key)| (key, pipe)).min();
                prop_assert_eq!(agenda.first(), least);
            }
        }
    }
}
