//! The line to one other machine: its numbers, its clock, its losses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::Time;
use serde::{Deserialize, Serialize};

use super::clock::RemoteClock;
use crate::carrier::{Lateness, LatenessHistogram};

#[derive(Debug)]
pub(super) struct TrunkLine {
    pub(super) address: Option<SocketAddr>,
    pub(super) clock: RemoteClock,
    pub(super) counts: LineCounts,
    travel: LatenessHistogram,
    /// By port, the latest due time of its frames.
    latest: BTreeMap<usize, Time>,
}

/// The counters of a line, as one of its machines sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineCounts {
    /// Frames that were to be sent, those that the socket refused included.
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    pub(crate) received: u64,
    /// Frames that the other machine has sent, as far as this one knows.
    pub(crate) announced: u64,
    /// Frames that did not fit into the hold.
    pub(crate) dropped: u64,
    /// Nanoseconds by which that clock is ahead of this one; `None` before the first pings.
    pub(crate) clock_ahead_ns: Option<i64>,
    /// Round trips of the latest pings: the shortest, the median and the 99th percentile.
    pub(crate) round_trips: [Duration; 3],
    /// Time that frames took from machine to machine.
    pub(crate) travel: Lateness,
}

impl LineCounts {
    pub(crate) const fn lost(&self) -> u64 {
        self.announced.saturating_sub(self.received) + self.dropped
    }
}

impl TrunkLine {
    pub(super) fn new(address: Option<SocketAddr>) -> Self {
        let (clock, counts) = (RemoteClock::default(), LineCounts::default());
        Self { address, clock, counts, travel: LatenessHistogram::new(), latest: BTreeMap::new() }
    }

    pub(super) const fn number_frame(&mut self) -> u64 {
        let sequence = self.counts.sent;
        self.counts.sent += 1;
        sequence
    }

    pub(super) fn receive_frame(&mut self, now: Time, sequence: u64, left: u64) {
        self.counts.received += 1;
        self.announce(sequence.saturating_add(1));
        if let Some(left) = self.clock.here(left) {
            self.travel.record(now.since(left));
        }
    }

    /// The due time at which a frame keeps its place among those of its port, whatever the clock's estimate did meanwhile.
    pub(super) fn in_order(&mut self, port: usize, due: Time) -> Time {
        let latest = self.latest.entry(port).or_insert(due);
        *latest = due.max(*latest);
        *latest
    }

    pub(super) fn announce(&mut self, frames: u64) {
        self.counts.announced = self.counts.announced.max(frames);
    }

    pub(super) fn snapshot(&self) -> LineCounts {
        LineCounts {
            clock_ahead_ns: self.clock.ahead(),
            round_trips: [0.0, 0.5, 0.99].map(|part| self.clock.round_trip(part)),
            travel: self.travel.snapshot(),
            ..self.counts.clone()
        }
    }
}
