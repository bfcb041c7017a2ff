//! The time that the machine is told, for pauses and for what others read: it reads no clock.

use std::time::{Instant, SystemTime};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) at: Instant,
    pub(crate) wall: SystemTime,
}

impl Clock {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), wall: SystemTime::now() }
    }
}
