//! The pace of a stream, by which packets that nobody has numbered are counted.

use std::time::Duration;

/// Packets and the time that they took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) packets: u64,
    pub(super) span: Duration,
}

impl Pace {
    /// The usual time from one packet to the next.
    pub(super) fn pause(self) -> Duration {
        self.span / u32::try_from(self.packets).unwrap_or(u32::MAX).max(1)
    }

    /// Packets that are due in so much time.
    pub(super) fn within(self, time: Duration) -> u64 {
        let due = u128::from(self.packets) * time.as_micros() / self.span.as_micros().max(1);
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}
