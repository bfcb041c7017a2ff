//! How requests ended.

use serde::Serialize;

use crate::report::record::{RequestOutcome, RequestRecord};

/// How many requests there were, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// Requests made.
    pub asked: u64,
    /// Found, granted, and all of it delivered: the successful services.
    pub completed: u64,
    /// The overlay said no, or it broke.
    pub failed: u64,
    /// No end within the plan's time-out.
    pub timed_out: u64,
    /// The run ended first.
    pub cut: u64,
    /// How many of the completed ended in the drain.
    pub drained: u64,
    /// Datagrams of streams that the emulator was too slow to take from daemons.
    pub dropped_by_reader: u64,
}

impl RequestCounts {
    /// The tally of these.
    pub fn from_requests<'a>(requests: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let mut tally = Self::default();
        requests.into_iter().for_each(|request| tally.add(request));
        tally
    }

    /// Counts one more.
    pub fn add(&mut self, request: &RequestRecord) {
        self.asked += 1;
        match request.outcome {
            RequestOutcome::Completed => self.completed += 1,
            RequestOutcome::Failed => self.failed += 1,
            RequestOutcome::TimedOut => self.timed_out += 1,
            RequestOutcome::Cut => self.cut += 1,
        }
        self.drained += u64::from(request.drained && request.outcome == RequestOutcome::Completed);
        self.dropped_by_reader += request.dropped_by_reader;
    }

    /// Those that could end.
    pub const fn ended(&self) -> u64 {
        self.completed + self.failed + self.timed_out
    }

    /// The part that was completed of those that could end: what the run's
    /// end cut off is not held against it. `None` if nothing could.
    pub fn success_ratio(&self) -> Option<f64> {
        let ended = self.ended();
        (ended > 0).then(|| self.completed as f64 / ended as f64)
    }
}
