//! The generator of all loads: numbered packets at a steady rate, or as many as there is room for.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) trait PacketSender {
    /// Sends `count` packets, numbered from `number` on and due at a time; returns how many the system took. May block
    /// while there is no room.
    fn send(&mut self, number: u64, count: u64, due: Instant) -> io::Result<u64>;

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(())
    }

    /// True if nothing more need be sent.
    fn is_over(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) begin: Instant,
    /// No packet is due after this time.
    pub(crate) length: Duration,
    /// Packets per second; `None` for as many as possible.
    pub(crate) rate: Option<f64>,
    pub(crate) burst: u64,
    pub(crate) stop: &'a AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Generated {
    pub(crate) sent: u64,
    /// Bursts that could not be begun before the next was due.
    pub(crate) missed: u64,
    pub(crate) time: Duration,
}

impl Load<'_> {
    /// A burst that cannot be begun in time is begun as soon as possible, and keeps its due time.
    pub(crate) fn generate(&self, sender: &mut impl PacketSender) -> io::Result<Generated> {
        let (mut done, end) = (Generated::default(), self.begin + self.length);
        while !self.stop.load(Relaxed) && !sender.is_over() {
            let due = self
                .rate
                .map_or_else(Instant::now, |rate| self.begin + Duration::from_secs_f64(done.sent as f64 / rate));
            if due >= end {
                break;
            }
            if let Some(rate) = self.rate {
                sender.wait(due)?;
                let next = due + Duration::from_secs_f64(self.burst as f64 / rate);
                done.missed += u64::from(Instant::now() > next);
            }
            let taken = sender.send(done.sent, self.burst, due)?;
            // The due time stands still while nothing is taken.
            if taken == 0 && Instant::now() >= end {
                break;
            }
            done.sent += taken;
        }
        done.time = self.begin.elapsed();
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(Vec<(u64, Instant)>);

    struct Full;

    impl PacketSender for Full {
        fn send(&mut self, _number: u64, _count: u64, _due: Instant) -> io::Result<u64> {
            Ok(0)
        }
    }

    impl PacketSender for Counting {
        fn send(&mut self, number: u64, count: u64, due: Instant) -> io::Result<u64> {
            self.0.push((number, due));
            Ok(count.div_ceil(2))
        }
    }

    #[test]
    fn refused_packets_do_not_count() {
        let (stop, begin, length) = (AtomicBool::new(false), Instant::now(), Duration::from_millis(10));
        let load = Load { begin, length, rate: Some(1000.0), burst: 4, stop: &stop };
        let mut sender = Counting(Vec::new());
        let done = load.generate(&mut sender).unwrap();
        let due = [0, 2, 4, 6, 8].map(|number| (number, begin + Duration::from_millis(number)));
        assert_eq!((sender.0, done.sent), (due.to_vec(), 10));
    }

    #[test]
    fn load_ends_when_nothing_is_taken() {
        let (stop, begin, length) = (AtomicBool::new(false), Instant::now(), Duration::from_millis(5));
        let load = Load { begin, length, rate: Some(1000.0), burst: 1, stop: &stop };
        let done = load.generate(&mut Full).unwrap();
        assert!(done.sent == 0 && done.time >= length, "{done:?}");
    }

    #[test]
    fn late_bursts_keep_their_due_time() {
        let (stop, length) = (AtomicBool::new(false), Duration::from_millis(30));
        let begin = Instant::now().checked_sub(2 * length).unwrap();
        let load = Load { begin, length, rate: Some(100.0), burst: 1, stop: &stop };
        let mut sender = Counting(Vec::new());
        let done = load.generate(&mut sender).unwrap();
        assert_eq!((done.sent, done.missed), (3, 3));
        assert_eq!(sender.0[2], (2, begin + Duration::from_millis(20)));
        stop.store(true, Relaxed);
        assert_eq!(load.generate(&mut sender).unwrap().sent, 0);
    }
}
