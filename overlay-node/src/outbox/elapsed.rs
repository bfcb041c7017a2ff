//! The time for which the daemon has run, suspends included, over all its starts.
//!
//! A wall clock may go back before a restart, and this time does not: what is left of a delivery shrinks with it. It is
//! noted on disk every [`NOTE_PAUSE`], so a restart adds at most that to an end, and the time in which nothing ran.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use roost_runtime::clock::Clock;

pub(super) const NOTE_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Elapsed {
    clock: Box<dyn Clock>,
    /// The seconds before this start, and the clock at the start.
    begun: Mutex<(u64, Duration)>,
}

impl Elapsed {
    pub(super) const NAME: &str = "elapsed";

    pub(super) fn new(clock: impl Clock + 'static) -> Self {
        let begun = Mutex::new((0, clock.passed()));
        Self { clock: Box::new(clock), begun }
    }

    /// Goes on from the noted time, or from `least` if the note is older or lost. Blocks.
    pub(super) fn restore(&self, folder: &Path, least: u64) {
        let noted = std::fs::read_to_string(folder.join(Self::NAME)).ok();
        let noted = noted.and_then(|noted| noted.trim().parse::<u64>().ok());
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun = (noted.unwrap_or(0).max(least), self.clock.passed());
    }

    pub(super) fn seconds(&self) -> u64 {
        let (before, start) = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        before.saturating_add(self.clock.passed().saturating_sub(start).as_secs())
    }

    /// The wall clock, Unix seconds; 1970 if it is before that.
    pub(super) fn unix_s(&self) -> u64 {
        self.clock.date().as_secs()
    }
}
