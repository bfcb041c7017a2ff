//! Honest requests, counted and timed, without and beside hostile members.

use std::fmt;
use std::time::{Duration, Instant};

/// Requests of one measurement: `TEST_REQUESTS`, or ten.
#[must_use]
pub fn requests() -> usize {
    std::env::var("TEST_REQUESTS").ok().and_then(|count| count.parse().ok()).unwrap_or(10)
}

/// Requests one after the other, and the time that each served one took, sorted.
pub struct Served {
    of: usize,
    took: Vec<Duration>,
}

impl Served {
    /// Makes [`requests`] requests; `request` returns true if one was served.
    pub fn count(request: impl FnMut() -> bool) -> Self {
        Self::beside(|| {}, request)
    }

    /// As [`Self::count`], each right after an `attack`, which is not timed.
    pub fn beside(mut attack: impl FnMut(), mut request: impl FnMut() -> bool) -> Self {
        let of = requests();
        let time = |()| {
            attack();
            let began = Instant::now();
            request().then(|| began.elapsed())
        };
        let mut took: Vec<Duration> = std::iter::repeat_n((), of).filter_map(time).collect();
        took.sort_unstable();
        Self { of, took }
    }

    /// Prints the times. Returns true if all requests were served.
    #[must_use]
    pub fn all(&self, beside: &str) -> bool {
        eprintln!("{beside}: {self}");
        self.took.len() == self.of
    }

    fn part(&self, percent: usize) -> Duration {
        let at = self.took.len() * percent / 100;
        self.took.get(at.min(self.took.len().saturating_sub(1))).copied().unwrap_or(Duration::MAX)
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99] = [50, 99].map(|percent| self.part(percent));
        write!(f, "{} of {} served, p50 {median:.0?}, p99 {p99:.0?}", self.took.len(), self.of)
    }
}
