//! Load of this machine, and the lateness of its wake-ups.

use std::fs;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use roost_experiment::host_facts::Processors;
use roost_lab::kernel;
use rustix::time::{ClockId, clock_gettime};

/// The carrier's priority, above all threads that are not real-time.
pub(super) const PRIORITY: u8 = 1;
/// The position of a process's own and its ended children's times in `/proc/self/stat`, counted from the field
/// after its name (proc_pid_stat(5): 14 to 17).
const FIRST_TIME: usize = 11;
const TIMES: usize = 4;

/// The processor time of all threads of this process, to the nanosecond; without programs in hosts.
pub(super) fn processor_time() -> Duration {
    since_start(ClockId::ProcessCPUTime)
}

/// The processor time of the calling thread.
pub(super) fn thread_time() -> Duration {
    since_start(ClockId::ThreadCPUTime)
}

fn since_start(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Neither is negative: both count from zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The lateness of wake-ups of a thread that only sleeps, nanoseconds: no emulation can be more exact. With
/// `realtime` it has the carrier's priority.
pub(super) fn wake_ups(count: u32, interval: Duration, realtime: bool, stop: &AtomicBool) -> Vec<f64> {
    let body = || {
        // Both are best effort, as in the carrier.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        if realtime {
            let _ = kernel::become_realtime(PRIORITY);
        }
        let mut late = Vec::new();
        for _ in 0..count {
            if stop.load(Relaxed) {
                break;
            }
            let due = Instant::now() + interval;
            thread::sleep(interval);
            late.push(due.elapsed().as_nanos() as f64);
        }
        late
    };
    // A separate thread, since its priority ends with it.
    thread::scope(|scope| scope.spawn(body).join().unwrap_or_default())
}

/// In ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProcessorSnapshot {
    machine: Processors,
    /// Of this process and of its children that have ended.
    own: f64,
}

impl ProcessorSnapshot {
    /// Reads the times; `None` if `/proc` does not show them.
    pub(super) fn read_now() -> Option<Self> {
        Some(Self { machine: Processors::now()?, own: own_times(&fs::read_to_string("/proc/self/stat").ok()?)? })
    }

    /// The fraction of the machine used by others since `earlier`, 0 to 1. The kernel's work for this process
    /// outside it counts as the others'.
    pub(super) fn other_load_since(&self, earlier: &Self) -> f64 {
        let all = self.machine.all - earlier.machine.all;
        let others = (self.machine.busy - earlier.machine.busy) - (self.own - earlier.own);
        if all > 0.0 { (others / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn own_times(stat: &str) -> Option<f64> {
    // The name is in brackets, and may contain brackets and spaces itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let times = rest.split_whitespace().skip(FIRST_TIME).take(TIMES);
    let times: Vec<f64> = times.filter_map(|text| text.parse().ok()).collect();
    (times.len() == TIMES).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_load_excludes_own_time() {
        let at = |all, busy, own| ProcessorSnapshot { machine: Processors { busy, all }, own };
        let (before, after) = (at(1_000.0, 500.0, 100.0), at(1_400.0, 660.0, 140.0));
        assert!((after.other_load_since(&before) - 0.3).abs() < 1e-12);
        // Ticks are coarse: our own time may exceed the machine's.
        assert!(at(1_100.0, 510.0, 120.0).other_load_since(&before).abs() < 1e-12);
        assert!(before.other_load_since(&before).abs() < 1e-12);
    }

    #[test]
    fn proc_stat_times_are_parsed() {
        assert_eq!(
            own_times("42 (odd ) name) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 20 0"),
            Some(11.0 + 12.0 + 13.0 + 14.0)
        );
        assert_eq!(own_times("42 (short) S 1"), None);
    }

    #[test]
    fn nobody_is_woken_early() {
        let late = wake_ups(3, Duration::from_micros(100), false, &AtomicBool::new(false));
        assert!(late.len() == 3 && late.iter().all(|late| *late >= 0.0), "{late:?}");
        assert!(wake_ups(3, Duration::from_secs(9), false, &AtomicBool::new(true)).is_empty());
    }

    #[test]
    fn this_machine_has_times() {
        let before = ProcessorSnapshot::read_now().unwrap();
        assert!(ProcessorSnapshot::read_now().unwrap().other_load_since(&before) <= 1.0);
        assert!(processor_time() >= thread_time());
    }
}
