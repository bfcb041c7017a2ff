//! The time that the machine is told: it reads no clock.

use std::time::{Instant, SystemTime};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// For pauses and ends.
    pub(crate) at: Instant,
    /// For what others read.
    pub(crate) wall: SystemTime,
}

impl Clock {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), wall: SystemTime::now() }
    }
}
