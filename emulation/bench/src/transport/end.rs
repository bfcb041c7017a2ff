//! The behaviour of a connection's two ends, over any transport.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::FrameWorkload;
use super::frame::{self, BenchFrameKind, Head};
use super::tally::{FrameCounts, TransportRun};
use crate::load::{Generated, Load, PacketSender};

/// The silence after which an end gives the other up: a TCP that backs off through an outage of 2 s is silent
/// for up to 5 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// The time from readiness to the first frame.
const LEAD: Duration = Duration::from_millis(20);

/// An end of a connection that keeps the boundaries and the order of frames.
pub(super) trait FrameEndpoint {
    /// Sends a frame; blocks while there is no room for it.
    fn send(&mut self, frame: Bytes) -> io::Result<()>;

    /// The next frame; `None` if none comes until then.
    fn receive(&mut self, until: Instant) -> io::Result<Option<Bytes>>;

    fn wait(&mut self, until: Instant) -> io::Result<()>;
}

#[derive(Clone, Copy)]
pub(super) struct FrameExchange<'a> {
    /// The origin of all clocks.
    pub(super) origin: Instant,
    pub(super) workload: FrameWorkload,
    pub(super) frame_bytes: usize,
    /// Paced frames per second.
    pub(super) hz: f64,
    pub(super) time: Duration,
    pub(super) stop: &'a AtomicBool,
}

impl FrameExchange<'_> {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Sends the workload; returns the frames sent, those that could not be begun in time, and the answers.
    pub(super) fn send_workload(&self, end: &mut impl FrameEndpoint) -> io::Result<TransportRun> {
        let begin = Instant::now() + LEAD;
        end.wait(begin)?;
        let rate = (self.workload == FrameWorkload::Paced).then_some(self.hz);
        let load = Load { begin, length: self.time, rate, burst: 1, stop: self.stop };
        let mut sender = FrameSender { exchange: self, end, tally: FrameCounts::default(), is_over: false };
        let Generated { sent, missed, .. } = load.generate(&mut sender)?;
        let tally = sender.tally;
        self.send(end, BenchFrameKind::End, sent, self.now())?;
        Ok(TransportRun { sent, missed, tally, stalled: None })
    }

    fn send(&self, end: &mut impl FrameEndpoint, kind: BenchFrameKind, number: u64, due: Duration) -> io::Result<()> {
        let bytes = if kind == BenchFrameKind::Data { self.frame_bytes } else { 0 };
        end.send(frame::write(Head { kind, number, due }, bytes))
    }

    /// Receives frames until their end, or until the silence lasts too long; with ping-pong it answers them.
    pub(super) fn receive_workload(&self, end: &mut impl FrameEndpoint) -> io::Result<FrameCounts> {
        let mut tally = FrameCounts::default();
        while let Some(frame) = end.receive(Instant::now() + PATIENCE)? {
            if record_frame(&mut tally, &frame, self.now()) == Some(BenchFrameKind::End) {
                break;
            }
            if self.workload == FrameWorkload::PingPong {
                end.send(frame)?;
            }
        }
        Ok(tally)
    }
}

struct FrameSender<'a, E> {
    exchange: &'a FrameExchange<'a>,
    end: &'a mut E,
    /// The answers, with ping-pong.
    tally: FrameCounts,
    /// True once an answer did not come.
    is_over: bool,
}

impl<E: FrameEndpoint> PacketSender for FrameSender<'_, E> {
    fn send(&mut self, number: u64, _count: u64, due: Instant) -> io::Result<u64> {
        let Self { exchange, end, tally, is_over } = self;
        exchange.send(*end, BenchFrameKind::Data, number, due.saturating_duration_since(exchange.origin))?;
        // A duplicate or late answer does not count.
        while exchange.workload == FrameWorkload::PingPong && tally.arrivals.received <= number {
            let Some(answer) = end.receive(Instant::now() + PATIENCE)? else {
                *is_over = true;
                break;
            };
            record_frame(tally, &answer, exchange.now());
        }
        Ok(1)
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        self.end.wait(until)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

fn record_frame(tally: &mut FrameCounts, frame: &[u8], now: Duration) -> Option<BenchFrameKind> {
    let Some(head) = frame::read(frame) else {
        tally.corrupted += 1;
        return None;
    };
    if head.kind == BenchFrameKind::Data {
        tally.record_frame(head, frame.len(), now);
    }
    Some(head.kind)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// An end whose frames return to it, as far as `trouble` lets them.
    struct Mirror<F> {
        frames: VecDeque<Bytes>,
        trouble: F,
    }

    impl<F: FnMut(Bytes) -> Vec<Bytes>> FrameEndpoint for Mirror<F> {
        fn send(&mut self, frame: Bytes) -> io::Result<()> {
            self.frames.extend((self.trouble)(frame));
            Ok(())
        }

        fn receive(&mut self, _until: Instant) -> io::Result<Option<Bytes>> {
            Ok(self.frames.pop_front())
        }

        fn wait(&mut self, until: Instant) -> io::Result<()> {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            Ok(())
        }
    }

    fn setting(workload: FrameWorkload, stop: &AtomicBool) -> FrameExchange<'_> {
        let (origin, time) = (Instant::now(), Duration::from_millis(55));
        FrameExchange { origin, workload, frame_bytes: 1000, hz: 100.0, time, stop }
    }

    #[test]
    fn paced_frames_match_periods() {
        let stop = AtomicBool::new(false);
        let setting = setting(FrameWorkload::Paced, &stop);
        let mut end = Mirror { frames: VecDeque::new(), trouble: |frame| vec![frame] };
        let run = setting.send_workload(&mut end).unwrap();
        let tally = setting.receive_workload(&mut end).unwrap();
        assert_eq!((run.sent, tally.arrivals.received, tally.arrivals.bytes), (6, 6, 6000));
        assert_eq!((tally.arrivals.duplicated, tally.arrivals.reordered, tally.corrupted), (0, 0, 0));
    }

    #[test]
    fn loss_corruption_duplication_are_counted() {
        let stop = AtomicBool::new(false);
        let setting = setting(FrameWorkload::Paced, &stop);
        let mut count = 0;
        let trouble = |frame: Bytes| {
            count += 1;
            match count {
                1 => vec![],
                2 => vec![frame.slice(..999)],
                3 => vec![frame.clone(), frame],
                _ => vec![frame],
            }
        };
        let mut end = Mirror { frames: VecDeque::new(), trouble };
        let run = setting.send_workload(&mut end).unwrap();
        let tally = setting.receive_workload(&mut end).unwrap();
        assert_eq!((run.sent, tally.arrivals.received, tally.corrupted, tally.arrivals.duplicated), (6, 4, 1, 1));
    }

    #[test]
    fn every_question_waits_for_its_answer() {
        let stop = AtomicBool::new(false);
        let setting = setting(FrameWorkload::PingPong, &stop);
        let mut end = Mirror { frames: VecDeque::new(), trouble: |frame: Bytes| vec![frame.clone(), frame] };
        let run = setting.send_workload(&mut end).unwrap();
        assert!(
            run.sent > 1 && run.tally.arrivals.received == run.sent && run.tally.arrivals.duplicated + 1 == run.sent
        );
    }
}
