//! Observations of a run's frames.

use std::time::Duration;

use super::frame::Head;

/// The delay from which on a frame is late: the period of frames at 100 Hz.
pub(super) const LATE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FrameCounts {
    /// By number, true once it has come.
    seen: Vec<bool>,
    /// The greatest number that has come, plus one.
    next: u64,
    first: Option<Duration>,
    last: Duration,
    pub(super) bytes: u64,
    /// The longest time from one frame to the next.
    pub(super) max_gap: Duration,
    /// Delays from due time or sending to the arrival of the frame or of its answer.
    pub(super) delays: Vec<Duration>,
    /// The due time and the arrival of each late frame.
    late: Vec<(Duration, Duration)>,
    pub(super) duplicated: u64,
    /// Frames that arrived after one with a greater number.
    pub(super) reordered: u64,
    /// Frames that arrived changed.
    pub(super) corrupted: u64,
}

impl FrameCounts {
    /// Records a frame of `bytes`, which came `now` after the origin of all clocks.
    pub(super) fn record_frame(&mut self, head: Head, bytes: usize, now: Duration) {
        let place = head.number as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, false);
        }
        if std::mem::replace(&mut self.seen[place], true) {
            self.duplicated += 1;
            return;
        }
        self.reordered += u64::from(head.number < self.next);
        self.next = self.next.max(head.number + 1);
        match self.first {
            None => self.first = Some(now),
            Some(_) => self.max_gap = self.max_gap.max(now.saturating_sub(self.last)),
        }
        self.last = now;
        self.bytes += bytes as u64;
        let delay = now.saturating_sub(head.due);
        self.delays.push(delay);
        if delay > LATE {
            self.late.push((head.due, now));
        }
    }

    /// Without duplicates.
    pub(super) fn received(&self) -> u64 {
        self.delays.len() as u64
    }

    /// From the first to the last.
    pub(super) fn span(&self) -> Duration {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
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
        assert_eq!((tally.late(), tally.received(), tally.bytes), (2, 4, 400));
        assert_eq!((tally.max_gap, tally.span()), (ms(59), ms(89)));
        assert_eq!(tally.delays, [ms(1), ms(10), ms(11), ms(60)]);
        // The third for 1 ms, the fourth for 50.
        assert_eq!(tally.late_by_stalls(|_, _| ms(1)), 1);
        assert_eq!(tally.late_by_stalls(|due, came| came - due - ms(10)), 2);
        assert_eq!(tally.late_by_stalls(|_, _| ms(0)), 0);
    }

    #[test]
    fn duplicates_and_reordering_are_counted() {
        let tally = tally(&[(0, 1), (2, 2), (1, 3), (2, 4), (3, 5)]);
        assert_eq!((tally.received(), tally.duplicated, tally.reordered), (4, 1, 1));
        assert_eq!(FrameCounts::default().span(), Duration::ZERO);
    }
}
