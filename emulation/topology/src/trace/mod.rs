//! Traces: the values of a link over time, recorded or made.
//!
//! A trace has one of two forms. Mahimahi's has a line for each packet that may leave; ours is CSV with a row for
//! each change of the rate, the delay, the loss, or of up and down.

pub mod make;
mod read;
mod steps;
mod store;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use read::{MAX_TRACE_BYTES, read_trace};
pub use steps::{Steps, TraceStep, TraceValues};
pub use store::{
    TRACE_FOLDER, TraceLoadError, TraceSide, TraceStore, digests, gather, keep, name_absolutely, play, use_means,
};
pub use summary::{QUANTILES, TraceSummary, rates};

/// The bytes of an opportunity, as Mahimahi counts a packet of 1500 bytes: with 4 bytes of a TUN device.
pub const OPPORTUNITY_BYTES: u64 = 1504;
/// The bytes of an Ethernet frame with such a packet.
pub const OPPORTUNITY_FRAME: u64 = 1514;

/// The playing of a trace by one direction of a link, or by a leg.
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    /// The path as the topology gives it.
    pub file: String,
    /// The place in the trace at which it begins.
    pub start: Duration,
    /// True if it is not repeated: the last values then stay, and of opportunities no more come.
    pub once: bool,
    pub trace: Arc<Trace>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub path: PathBuf,
    pub sha256: String,
    pub content: TraceContent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TraceContent {
    /// The milliseconds at which a packet may leave, in order, as in Mahimahi.
    Opportunities(Vec<u32>),
    Steps(Steps),
}

impl TraceContent {
    /// The time after which the trace begins again.
    pub fn period(&self) -> Duration {
        match self {
            Self::Opportunities(times) => Duration::from_millis(times.last().copied().unwrap_or(0).into()),
            Self::Steps(steps) => Duration::from_nanos(steps.period()),
        }
    }

    /// True if the trace gives the rate, so that the link's own has no effect.
    pub fn has_rate(&self) -> bool {
        match self {
            Self::Opportunities(_) => true,
            Self::Steps(steps) => steps.has_rate(),
        }
    }

    /// The values at its beginning, which has all that it gives; opportunities have no values.
    pub fn first(&self) -> TraceValues {
        match self {
            Self::Opportunities(_) => TraceValues::default(),
            Self::Steps(steps) => steps.values(0),
        }
    }

    /// The form, and all that it gives, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Opportunities(_) => "opportunities (Mahimahi)".to_owned(),
            Self::Steps(_) => {
                let first = self.first();
                let given = [
                    first.rate.map(|_| "rate"),
                    first.delay.map(|_| "delay"),
                    first.loss.map(|_| "loss"),
                    first.is_up.map(|_| "up"),
                ];
                given.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl Playback {
    /// The values so long after it began; opportunities have none.
    pub fn values(&self, since: Duration) -> TraceValues {
        let TraceContent::Steps(steps) = &self.trace.content else { return TraceValues::default() };
        let place = u64::try_from(self.start.saturating_add(since).as_nanos()).unwrap_or(u64::MAX);
        let period = steps.period().max(1);
        steps.values(if self.once { place.min(period - 1) } else { place % period })
    }

    pub fn describe(&self) -> String {
        let mut text = self.file.clone();
        if !self.start.is_zero() {
            text.push_str(&format!(" from {}", crate::units::format_duration(self.start)));
        }
        if self.once {
            text.push_str(" once");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn played_values_repeat_or_stay() {
        let content = read_trace("time_s,delay_ms\n0,10\n2,30\n4,50\n").unwrap();
        let trace = Arc::new(Trace { path: PathBuf::new(), sha256: String::new(), content });
        let period = trace.content.period();
        let mut playback = Playback { file: String::new(), start: Duration::from_secs(2), once: false, trace };
        let delay = |playback: &Playback, since| playback.values(since).delay.unwrap().as_millis();
        assert_eq!([0, 2].map(|s| delay(&playback, Duration::from_secs(s))), [30, 50]);
        assert_eq!(delay(&playback, period), 30);
        playback.once = true;
        assert_eq!([delay(&playback, period), delay(&playback, Duration::MAX)], [50, 50]);
    }
}
