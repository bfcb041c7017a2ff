//! Counts of requests by outcome.

use serde::Serialize;

use crate::record::{RequestOutcome, RequestRecord};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    pub asked: u64,
    /// Found, granted, and completely delivered: the successful services.
    pub completed: u64,
    /// The overlay declined, or the transfer broke.
    pub failed: u64,
    pub timed_out: u64,
    pub cut: u64,
    /// Completed requests that ended in the drain.
    pub drained: u64,
    /// Datagrams of streams that the emulator was too slow to read from daemons.
    pub dropped_by_reader: u64,
}

impl RequestCounts {
    pub fn from_requests<'a>(requests: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let mut tally = Self::default();
        requests.into_iter().for_each(|request| tally.add(request));
        tally
    }

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

    pub const fn ended(&self) -> u64 {
        self.completed + self.failed + self.timed_out
    }

    /// The fraction completed of those that could end, without those cut off by the run's end. `None` if there
    /// are none.
    pub fn success_ratio(&self) -> Option<f64> {
        let ended = self.ended();
        (ended > 0).then(|| self.completed as f64 / ended as f64)
    }
}
