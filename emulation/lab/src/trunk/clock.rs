//! The clock of another machine, measured by pings.
//!
//! Of the latest pings the one with the shortest round trip is believed: its error is at most half of that round trip,
//! and about half of the difference between its two ways. The window is short, since clocks drift: by 50 parts in a
//! million the oldest ping of it is 32 us wrong.

use std::collections::VecDeque;
use std::time::Duration;

use roost_wire::Time;

const WINDOW: usize = 64;
/// Pings before the clock counts as known.
const ENOUGH: usize = 16;

/// A ping and its answer; times in nanoseconds, the middle two by the other clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) answered: u64,
    pub(crate) returned: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteClock {
    /// Round trip and advance of the other clock, nanoseconds.
    samples: VecDeque<ClockSample>,
}

#[derive(Clone, Copy, Debug)]
struct ClockSample {
    round_trip: u64,
    ahead: i64,
}

impl RemoteClock {
    pub(crate) fn add(&mut self, exchange: Exchange) {
        let Exchange { sent, received, answered, returned } = exchange;
        let (Some(whole), Some(inside)) = (returned.checked_sub(sent), answered.checked_sub(received)) else { return };
        let Some(round_trip) = whole.checked_sub(inside) else { return };
        let between = |later: u64, earlier: u64| i128::from(later) - i128::from(earlier);
        let Ok(ahead) = i64::try_from((between(received, sent) + between(answered, returned)) / 2) else { return };
        if self.samples.len() == WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back(ClockSample { round_trip, ahead });
    }

    /// Nanoseconds by which that clock is ahead of this one.
    pub(crate) fn ahead(&self) -> Option<i64> {
        if self.samples.len() < ENOUGH {
            return None;
        }
        self.samples.iter().min_by_key(|sample| sample.round_trip).map(|sample| sample.ahead)
    }

    /// The time here of a time of the other clock.
    pub(crate) fn here(&self, there: u64) -> Option<Time> {
        let here = i128::from(there) - i128::from(self.ahead()?);
        Some(Time::from_nanos(u64::try_from(here).unwrap_or(0)))
    }

    /// The round trip that `part` of the pings did not exceed.
    pub(crate) fn round_trip(&self, part: f64) -> Duration {
        let mut trips: Vec<u64> = self.samples.iter().map(|sample| sample.round_trip).collect();
        trips.sort_unstable();
        let place = (part * trips.len() as f64).ceil().max(1.0) as usize - 1;
        trips.get(place).map_or(Duration::ZERO, |nanos| Duration::from_nanos(*nanos))
    }
}
