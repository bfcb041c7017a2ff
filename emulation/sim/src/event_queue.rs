//! A priority queue of simulated events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use roost_wire::Time;

/// Events by due time; those of one time in the order in which they were added.
#[derive(Clone, Debug)]
pub(super) struct SimEventQueue<T> {
    entries: BinaryHeap<Reverse<(Time, u64, T)>>,
    entered: u64,
}

impl<T: Ord> SimEventQueue<T> {
    pub(super) const fn new() -> Self {
        Self { entries: BinaryHeap::new(), entered: 0 }
    }

    pub(super) fn push(&mut self, at: Time, what: T) {
        self.entered += 1;
        self.entries.push(Reverse((at, self.entered, what)));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.entries.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the next event, if it is due by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        self.entries.pop().map(|Reverse((_, _, what))| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_by_time_then_order() {
        let mut calendar = SimEventQueue::new();
        for (at, what) in [(5, 'a'), (3, 'z'), (5, 'A'), (9, 'b')] {
            calendar.push(Time::from_nanos(at), what);
        }
        let now = Time::from_nanos(5);
        let due: String = std::iter::from_fn(|| calendar.take_due(now)).collect();
        assert_eq!((due.as_str(), calendar.next()), ("zaA", Some(Time::from_nanos(9))));
    }
}
