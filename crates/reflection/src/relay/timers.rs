//! The timers of a relay: a time for each thing that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use roost_wire::{StreamId, StreamTag, Time};

/// A thing that waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Nothing has been offered under a tag.
    Tag(StreamTag),
    /// A hub is to be told once more where this host is.
    HolePunch(StreamTag),
    /// A downstream is to be offered the stream again, told that all is well, or forgotten.
    Downstream(StreamId, SocketAddr),
    /// Upstreams are to be reported to, or given up.
    Upstreams(StreamId),
    /// Missing packets are to be asked for.
    Repair(StreamId),
    /// Nothing more has come, perhaps.
    Pause(StreamId),
    /// A target's connection is free again.
    Pace(StreamId),
    /// Nobody has watched for a while.
    Idle(StreamId),
}

/// All of them. As many as there are tags and downstreams, and five for each stream.
#[derive(Debug, Default)]
pub(super) struct Timers {
    at: BTreeMap<Timer, Time>,
    order: BTreeSet<(Time, Timer)>,
}

impl Timers {
    /// Sets a timer, or sets it anew.
    pub(super) fn set(&mut self, timer: Timer, at: Time) {
        if let Some(before) = self.at.insert(timer, at) {
            self.order.remove(&(before, timer));
        }
        self.order.insert((at, timer));
    }

    /// Sets a timer unless it is set to an earlier time.
    pub(super) fn advance(&mut self, timer: Timer, at: Time) {
        if self.at.get(&timer).is_none_or(|before| at < *before) {
            self.set(timer, at);
        }
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        if let Some(before) = self.at.remove(&timer) {
            self.order.remove(&(before, timer));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The next that is due, which is cleared.
    pub(super) fn pop(&mut self, now: Time) -> Option<Timer> {
        let (at, timer) = self.order.first().copied().filter(|(at, _)| *at <= now)?;
        self.order.remove(&(at, timer));
        self.at.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_once() {
        let (mut timers, at) = (Timers::default(), Time::from_nanos);
        let stream = StreamId(1);
        timers.set(Timer::Upstreams(stream), at(5));
        timers.set(Timer::Idle(stream), at(3));
        timers.set(Timer::Upstreams(stream), at(2));
        timers.advance(Timer::Upstreams(stream), at(9));
        timers.set(Timer::Pace(stream), at(1));
        timers.clear(Timer::Pace(stream));
        assert_eq!(timers.next(), Some(at(2)));
        assert_eq!(timers.pop(at(1)), None);
        assert_eq!(timers.pop(at(4)), Some(Timer::Upstreams(stream)));
        assert_eq!(timers.pop(at(4)), Some(Timer::Idle(stream)));
        assert_eq!(timers.pop(at(4)), None);
    }
}
