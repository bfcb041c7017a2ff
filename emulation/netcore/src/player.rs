//! The playing of a trace: the values of a pipe at any time, and the ends of transmissions, without a step for every
//! change.

use std::sync::Arc;

use roost_topology::trace::{OPPORTUNITY_BYTES, OPPORTUNITY_FRAME, Playback, Steps, TraceContent, TraceValues};
use roost_wire::Time;

use super::HEADER_BYTES;

/// The bytes by which a frame is larger here than the packet of Mahimahi, which has 4 bytes of a TUN device.
const LARGER: u64 = HEADER_BYTES as u64 - 4;
const NEVER: Time = Time::from_nanos(u64::MAX);
const NANOS_PER_MS: u64 = 1_000_000;
/// Billionths of a bit in a byte.
const BYTE: u128 = 8_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Player {
    playback: Arc<Playback>,
    begin: Time,
    /// The bytes that it could have carried before it was begun anew.
    carried: u64,
    /// The end of the last transmission, not rounded.
    end: PlayerEnd,
}

#[derive(Clone, Copy, Debug)]
enum PlayerEnd {
    /// Steps: whole nanoseconds, and the bits of the next one that are used up.
    Steps { nanos: u64, part: u64 },
    /// Opportunities: the number of those that are over or in use, and the bytes left in the last one.
    Opportunities { used: u64, left: u64 },
}

impl Player {
    pub(super) fn new(playback: Arc<Playback>) -> Self {
        let end = match &playback.trace.content {
            TraceContent::Steps(_) => PlayerEnd::Steps { nanos: 0, part: 0 },
            TraceContent::Opportunities(_) => PlayerEnd::Opportunities { used: 0, left: 0 },
        };
        Self { playback, begin: Time::ZERO, carried: 0, end }
    }

    /// Plays from the beginning again, from a time on.
    pub(super) fn restart(&mut self, at: Time) {
        self.carried = self.capacity(at).unwrap_or(0);
        self.begin = at;
    }

    pub(super) fn has_rate(&self) -> bool {
        self.playback.trace.content.has_rate()
    }

    /// The values at a time; of opportunities the rate is the mean of the second before.
    pub(super) fn values(&self, at: Time) -> TraceValues {
        match &self.playback.trace.content {
            TraceContent::Steps(steps) => steps.values(self.within(at)),
            TraceContent::Opportunities(_) => {
                let second = 1_000_000_000;
                let begin = Time::from_nanos(at.as_nanos().saturating_sub(second).max(self.begin.as_nanos()));
                let frames = self.count(at) - self.count(begin);
                TraceValues { rate: Some(frames * OPPORTUNITY_FRAME * 8), ..TraceValues::default() }
            }
        }
    }

    /// The bytes that it could have carried by a time, as frames; `None` if it gives no rate.
    pub(super) fn capacity(&self, at: Time) -> Option<u64> {
        let bytes = match &self.playback.trace.content {
            TraceContent::Steps(steps) if !steps.has_rate() => return None,
            TraceContent::Steps(steps) => {
                let sum = self.sum(steps, self.place(at)) - self.sum(steps, self.place(self.begin));
                u64::try_from(sum / BYTE).unwrap_or(u64::MAX)
            }
            TraceContent::Opportunities(_) => (self.count(at) - self.count(self.begin)) * OPPORTUNITY_FRAME,
        };
        Some(self.carried.saturating_add(bytes))
    }

    /// Transmits a packet that became ready at `ready`, or right after the last one, which ended at `last`. Returns the
    /// end, rounded up to a nanosecond.
    pub(super) fn transmit(&mut self, ready: Time, last: Time, bytes: u32) -> Time {
        let is_idle = ready >= last;
        let playback = Arc::clone(&self.playback);
        match (&playback.trace.content, self.end) {
            (TraceContent::Steps(steps), PlayerEnd::Steps { nanos, part }) => {
                let (nanos, part) = if is_idle { (ready.as_nanos(), 0) } else { (nanos, part) };
                self.send_steps(steps, nanos, part, bytes)
            }
            (TraceContent::Opportunities(_), PlayerEnd::Opportunities { used, left }) => {
                let (used, left) = if is_idle { (self.count(ready), 0) } else { (used, left) };
                self.send_opportunities(used, left, bytes)
            }
            // The end has the form of the trace.
            _ => ready,
        }
    }

    fn send_steps(&mut self, steps: &Steps, nanos: u64, part: u64, bytes: u32) -> Time {
        let from = self.place(Time::from_nanos(nanos));
        let sum = self.sum(steps, from) + u128::from(part) + u128::from(bytes.max(1)) * BYTE;
        let Some((place, part)) = self.place_of(steps, sum) else { return NEVER };
        // A place before the beginning is the beginning.
        let nanos = (place - self.start()).saturating_add(self.begin.as_nanos());
        self.end = PlayerEnd::Steps { nanos, part };
        Time::from_nanos(nanos.saturating_add(u64::from(part > 0)))
    }

    fn send_opportunities(&mut self, used: u64, left: u64, bytes: u32) -> Time {
        let bytes = u64::from(bytes).saturating_sub(LARGER).max(1);
        let more = bytes.saturating_sub(left).div_ceil(OPPORTUNITY_BYTES);
        let (used, left) = (used + more, left + more * OPPORTUNITY_BYTES - bytes);
        let Some(place) = self.opportunity(used) else { return NEVER };
        self.end = PlayerEnd::Opportunities { used, left };
        let nanos = place.saturating_sub(self.start()).saturating_add(self.begin.as_nanos());
        Time::from_nanos(nanos)
    }

    fn start(&self) -> u64 {
        u64::try_from(self.playback.start.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The place of a time in the trace, as if it were endless. Before it begins it stands at its start.
    fn place(&self, at: Time) -> u64 {
        self.start().saturating_add(u64::try_from(at.since(self.begin).as_nanos()).unwrap_or(u64::MAX))
    }

    fn period(&self) -> u64 {
        u64::try_from(self.playback.trace.content.period().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// The place of a time within the trace.
    fn within(&self, at: Time) -> u64 {
        let (place, period) = (self.place(at), self.period());
        if self.playback.once { place.min(period - 1) } else { place % period }
    }

    /// The bits until a place of the endless trace, in billionths.
    fn sum(&self, steps: &Steps, place: u64) -> u128 {
        let period = self.period();
        match self.playback.once {
            true if place >= period => steps.total() + u128::from(last_rate(steps)) * u128::from(place - period),
            true => steps.sum(place),
            false => u128::from(place / period) * steps.total() + steps.sum(place % period),
        }
    }

    /// The place of the endless trace at which so many bits are over, and those of the nanosecond after it. `None` if it
    /// has no such place within the range of times.
    fn place_of(&self, steps: &Steps, sum: u128) -> Option<(u64, u64)> {
        let (total, period) = (steps.total(), self.period());
        if self.playback.once && sum > total {
            let rate = u128::from(last_rate(steps));
            let rest = sum - total;
            let over = u64::try_from(rest.checked_div(rate)?).ok()?;
            return Some((period.checked_add(over)?, (rest % rate) as u64));
        }
        // A sum at the end of a period belongs to that period, in which its last bit was sent.
        let loops = (sum - 1) / total;
        let (place, part) = steps.place_of(sum - loops * total);
        let place = u64::try_from(loops).ok()?.checked_mul(period)?.checked_add(place)?;
        Some((place, part))
    }

    fn times(&self) -> &[u32] {
        match &self.playback.trace.content {
            TraceContent::Opportunities(times) => times,
            TraceContent::Steps(_) => &[],
        }
    }

    /// The number of opportunities up to a time.
    fn count(&self, at: Time) -> u64 {
        let (place, period, times) = (self.place(at), self.period(), self.times());
        let within = |place: u64| times.partition_point(|ms| u64::from(*ms) * NANOS_PER_MS <= place) as u64;
        match self.playback.once {
            true => within(place),
            false => (place / period) * times.len() as u64 + within(place % period),
        }
    }

    /// The place of an opportunity, from the first on; `None` after the last one.
    fn opportunity(&self, number: u64) -> Option<u64> {
        let times = self.times();
        let index = number.checked_sub(1)?;
        let loops = index / times.len() as u64;
        if self.playback.once && loops > 0 {
            return None;
        }
        let within = u64::from(*times.get((index % times.len() as u64) as usize)?) * NANOS_PER_MS;
        loops.checked_mul(self.period())?.checked_add(within)
    }
}

fn last_rate(steps: &Steps) -> u64 {
    steps.steps().last().and_then(|step| step.values.rate).unwrap_or(0)
}
