//! The one table of timers of a machine.

use std::collections::{BTreeMap, BTreeSet};

use roost_wire::Time;

use crate::machine::Deadline;

/// A reason for which a machine is woken.
pub(crate) trait WakeReason {
    /// In words, for the log.
    fn reason(self) -> &'static str;
}

/// Timers that are set, each at most once. Bounded by the tables whose entries
/// they belong to.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    times: BTreeMap<T, Time>,
    queue: BTreeSet<(Time, T)>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { times: BTreeMap::new(), queue: BTreeSet::new() }
    }
}

impl<T: WakeReason + Copy + Ord> Timers<T> {
    /// Sets a timer, instead of an earlier setting.
    pub(crate) fn set(&mut self, timer: T, at: Time) {
        self.clear(timer);
        self.times.insert(timer, at);
        self.queue.insert((at, timer));
    }

    /// Takes a timer back.
    pub(crate) fn clear(&mut self, timer: T) {
        if let Some(at) = self.times.remove(&timer) {
            self.queue.remove(&(at, timer));
        }
    }

    /// True if a timer is set.
    pub(crate) fn is_set(&self, timer: T) -> bool {
        self.times.contains_key(&timer)
    }

    /// Takes all timers back.
    pub(crate) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<T> {
        let (at, timer) = *self.queue.first()?;
        if at > now {
            return None;
        }
        self.clear(timer);
        Some(timer)
    }

    /// The earliest timer.
    pub(crate) fn next(&self) -> Option<Deadline> {
        self.queue.first().map(|(at, timer)| Deadline { at: *at, reason: timer.reason() })
    }

    /// Timers that are set.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }
}
