//! Suspends of the host, during which the machine's clock stands still.

use std::time::Duration;

/// Two clocks that are read one after the other differ by less than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// Tells by how much the clock that goes on in suspend is ahead of the one that stops.
pub trait SuspendClock: Send {
    fn ahead(&self) -> Duration;
}

#[derive(Clone, Copy, Debug)]
pub struct SystemClocks;

impl SuspendClock for SystemClocks {
    #[cfg(target_os = "linux")]
    fn ahead(&self) -> Duration {
        use rustix::time::{ClockId, Timespec, clock_gettime};
        let since = |at: Timespec| {
            let seconds = Duration::from_secs(u64::try_from(at.tv_sec).unwrap_or_default());
            seconds + Duration::from_nanos(u64::try_from(at.tv_nsec).unwrap_or_default())
        };
        let [stops, goes_on] = [ClockId::Monotonic, ClockId::Boottime].map(|clock| since(clock_gettime(clock)));
        goes_on.saturating_sub(stops)
    }

    #[cfg(not(target_os = "linux"))]
    fn ahead(&self) -> Duration {
        Duration::ZERO
    }
}

/// Reports each suspend of the host once.
pub(super) struct SuspendDetector {
    clocks: Box<dyn SuspendClock>,
    ahead: Duration,
}

impl SuspendDetector {
    pub(super) fn new(clocks: Box<dyn SuspendClock>) -> Self {
        Self { ahead: clocks.ahead(), clocks }
    }

    /// Returns the time that the host was suspended since the last look.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let ahead = self.clocks.ahead();
        let slept = ahead.saturating_sub(self.ahead);
        if slept < SHORTEST {
            return None;
        }
        self.ahead = ahead;
        Some(slept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn system_clocks_differ_by_past_suspends() {
        let mut sleep = SuspendDetector::new(Box::new(SystemClocks));
        assert_eq!((sleep.look(), sleep.look()), (None, None));
    }

    #[test]
    fn each_suspend_is_told_once() {
        struct AdvancingClock(Arc<AtomicU64>);
        impl SuspendClock for AdvancingClock {
            fn ahead(&self) -> Duration {
                Duration::from_millis(self.0.load(Ordering::Relaxed))
            }
        }
        let millis = Arc::new(AtomicU64::new(5_000));
        let mut sleep = SuspendDetector::new(Box::new(AdvancingClock(Arc::clone(&millis))));
        let told = [5_000, 5_001, 65_000, 65_001, 65_400, 67_000].map(|at| {
            millis.store(at, Ordering::Relaxed);
            sleep.look()
        });
        let [minute, seconds] = [60_000, 2_000].map(|millis| Some(Duration::from_millis(millis)));
        assert_eq!(told, [None, None, minute, None, None, seconds]);
    }
}
