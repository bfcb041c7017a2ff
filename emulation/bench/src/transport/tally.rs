//! Observations of a run's frames.

use std::time::Duration;

use super::frame::Head;
use crate::tally::Arrivals;

/// The delay from which on a frame is late: the period of frames at 100 Hz.
const LATE: Duration = Duration::from_millis(10);

/// Frames, whose delays are from due time or sending to the arrival of the frame or of its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FrameCounts {
    pub(super) arrivals: Arrivals,
    /// The due time and the arrival of each late frame.
    late: Vec<(Duration, Duration)>,
    /// Frames that arrived changed.
    pub(super) corrupted: u64,
}

impl FrameCounts {
    /// Records a frame of `bytes`, which came `now` after the origin of all clocks.
    pub(super) fn record_frame(&mut self, head: Head, bytes: usize, now: Duration) {
        if !self.arrivals.record(head.number, bytes, now) {
            return;
        }
        let delay = now.saturating_sub(head.due);
        self.arrivals.delays.record(delay);
        if delay > LATE {
            self.late.push((head.due, now));
        }
    }

    pub(super) fn late(&self) -> u64 {
        self.late.len() as u64
    }

    /// The number of late frames that would have been in time without stalls; `stalled` gives the duration of
    /// stalls between two times.
    pub(super) fn late_by_stalls(&self, stalled: impl Fn(Duration, Duration) -> Duration) -> u64 {
        let is_excused = |(due, came): &&(Duration, Duration)| *came - *due <= LATE + stalled(*due, *came);
        self.late.iter().filter(is_excused).count() as u64
    }
}

/// A run: frames sent, and their observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransportRun {
    pub(super) sent: u64,
    /// Frames that the sender could not begin before the next was due.
    pub(super) missed: u64,
    pub(super) tally: FrameCounts,
    /// Late frames that would have been in time without stalls of the machine, and the longest stall; `None` if
    /// stalls cannot be observed.
    pub(super) stalled: Option<(u64, Duration)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::frame::BenchFrameKind;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn tally(frames: &[(u64, u64)]) -> FrameCounts {
        let mut tally = FrameCounts::default();
        for (number, at) in frames {
            let head = Head { kind: BenchFrameKind::Data, number: *number, due: ms(number * 10) };
            tally.record_frame(head, 100, ms(*at));
        }
        tally
    }

    #[test]
    fn frames_late_after_ten_milliseconds() {
        let tally = tally(&[(0, 1), (1, 20), (2, 31), (3, 90)]);
        let arrivals = &tally.arrivals;
        assert_eq!((tally.late(), arrivals.received, arrivals.bytes), (2, 4, 400));
        assert_eq!((arrivals.max_gap, arrivals.span()), (ms(59), ms(89)));
        assert_eq!(arrivals.delays, [1, 10, 11, 60].map(ms).into_iter().collect());
        // The third for 1 ms, the fourth for 50.
        assert_eq!(tally.late_by_stalls(|_, _| ms(1)), 1);
        assert_eq!(tally.late_by_stalls(|due, came| came - due - ms(10)), 2);
        assert_eq!(tally.late_by_stalls(|_, _| ms(0)), 0);
    }
}
