//! Standstills of this machine itself: its host had other work for a processor, or the kernel kept it busy.
//! Packets that are late for this reason blame neither the network nor the implementation under test.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use roost_lab::kernel;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::machine::PRIORITY;

/// The interval at which each processor is checked.
const LOOK: Duration = Duration::from_millis(1);
/// A lateness from here on is a stall; less is a normal wake-up.
const STALL: Duration = Duration::from_millis(1);
/// The most stalls of a processor that are kept.
const MOST: usize = 100_000;

/// The stalls of processors: start and end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stalls(Vec<(Instant, Instant)>);

/// Runs `body`, and watches each processor meanwhile with a thread of a priority above everything measured.
/// `None` if such a priority is not allowed.
pub(super) fn watch<T>(body: impl FnOnce() -> T) -> (T, Option<Stalls>) {
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let watchers: Vec<_> = processors().into_iter().map(|cpu| scope.spawn(move || look(cpu, over))).collect();
        let done = body();
        over.store(true, Relaxed);
        let seen: Option<Vec<_>> = watchers.into_iter().map(|watcher| watcher.join().ok().flatten()).collect();
        (done, seen.map(|seen| Stalls::new(seen.concat())))
    })
}

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

fn look(cpu: usize, over: &AtomicBool) -> Option<Vec<(Instant, Instant)>> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).ok()?;
    kernel::become_realtime(PRIORITY + 1).ok()?;
    let mut seen = Vec::new();
    while !over.load(Relaxed) {
        let due = Instant::now() + LOOK;
        thread::sleep(LOOK);
        let now = Instant::now();
        if now.saturating_duration_since(due) > STALL && seen.len() < MOST {
            seen.push((due, now));
        }
    }
    Some(seen)
}

impl Stalls {
    /// Sorts the stalls and merges overlapping ones.
    fn new(mut all: Vec<(Instant, Instant)>) -> Self {
        all.sort_unstable();
        let mut apart: Vec<(Instant, Instant)> = Vec::new();
        for (from, until) in all {
            match apart.last_mut().filter(|last| last.1 >= from) {
                Some(last) => last.1 = last.1.max(until),
                None => apart.push((from, until)),
            }
        }
        Self(apart)
    }

    pub(super) fn longest(&self) -> Duration {
        self.0.iter().map(|(from, until)| *until - *from).max().unwrap_or_default()
    }

    /// The duration of stalls within this time.
    pub(super) fn within(&self, from: Instant, until: Instant) -> Duration {
        let before = self.0.partition_point(|stall| stall.1 <= from);
        let during = self.0[before..].iter().take_while(|stall| stall.0 < until);
        during.map(|stall| stall.1.min(until) - stall.0.max(from)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_several_processors_count_once() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let stalls = Stalls::new(vec![(at(50), at(60)), (at(10), at(15)), (at(12), at(20))]);
        assert_eq!(stalls.0, [(at(10), at(20)), (at(50), at(60))]);
        assert_eq!(stalls.longest(), Duration::from_millis(10));
        for (from, until, ms) in [(0, 100, 20), (15, 55, 10), (20, 50, 0), (52, 53, 1), (70, 90, 0)] {
            assert_eq!(stalls.within(at(from), at(until)), Duration::from_millis(ms), "{from} to {until}");
        }
        assert_eq!(Stalls::default().longest(), Duration::ZERO);
    }

    #[test]
    fn every_processor_watched_during_run() {
        let (done, stalls) = watch(|| processors().len());
        assert!(done >= 1);
        // Without a right to real-time priority nothing is observed.
        let allowed = thread::spawn(|| kernel::become_realtime(PRIORITY + 1).is_ok()).join().unwrap();
        assert_eq!(stalls.is_some(), allowed);
    }
}
