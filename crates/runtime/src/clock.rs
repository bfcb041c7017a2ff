//! Clocks of the host: the time that passes, suspends included, and the date, which may be set.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_wire::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The pause between two looks at the clocks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// A host or process that did not look for so long stood still: suspended, stopped, or without a processor.
const STANDSTILL: Duration = Duration::from_secs(5);

/// A date was set if it differs by more from the time that passed: corrections of a running clock are slower.
const SET: Duration = Duration::from_secs(2);

/// On Linux `CLOCK_MONOTONIC` stops in suspend.
#[cfg(target_os = "linux")]
const PASSING: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const PASSING: ClockId = ClockId::Monotonic;

pub trait Clock: Send + Sync + fmt::Debug {
    /// The time since a moment of the clock's own; it goes on in suspend.
    fn passed(&self) -> Duration;

    /// The date, as the time since the Unix epoch; a date before it counts as the epoch.
    fn date(&self) -> Duration;
}

#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn passed(&self) -> Duration {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(PASSING);
        let [seconds, nanos] = [tv_sec, tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
        Duration::from_secs(seconds) + Duration::from_nanos(nanos)
    }

    fn date(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// A clock's time since a start, and what befell it between two looks.
pub(crate) struct ClockWatch {
    clock: Box<dyn Clock>,
    started: Duration,
    /// The time and the date of the last look.
    last: (Duration, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockLook {
    pub(crate) standstill: Option<Duration>,
    /// Seconds by which the date was put forward, or back if below zero.
    pub(crate) date_set: Option<i64>,
}

impl ClockWatch {
    pub(crate) fn new(clock: impl Clock + 'static) -> Self {
        let (passed, date) = (clock.passed(), clock.date());
        Self { clock: Box::new(clock), started: passed, last: (passed, date) }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.clock.passed().saturating_sub(self.started)
    }

    /// The time since the Unix epoch at the last look.
    pub(crate) fn unix(&self) -> Duration {
        self.last.1
    }

    pub(crate) fn unix_s(&self) -> u64 {
        self.last.1.as_secs()
    }

    /// Compares the clocks with those of the last look. Tells each standstill and each new date once.
    pub(crate) fn look(&mut self) -> ClockLook {
        let fresh = (self.clock.passed(), self.clock.date());
        let (passed, date) = std::mem::replace(&mut self.last, fresh);
        let since = fresh.0.saturating_sub(passed);
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let ahead = millis(fresh.1) - millis(date + since);
        ClockLook {
            standstill: Some(since).filter(|since| *since >= STANDSTILL),
            date_set: Some(ahead / 1_000).filter(|_| ahead.unsigned_abs() > SET.as_millis() as u64),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    /// A clock that a test moves on: the time that passed, and the date.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct SettableClock(Arc<Mutex<(Duration, Duration)>>);

    impl SettableClock {
        pub(crate) fn pass(&self, time: Duration) {
            let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *times = (times.0 + time, times.1 + time);
        }

        pub(crate) fn set_date(&self, date: Duration) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = date;
        }
    }

    impl Clock for SettableClock {
        fn passed(&self) -> Duration {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).0
        }

        fn date(&self) -> Duration {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::SettableClock;
    use super::*;

    const NOTHING: ClockLook = ClockLook { standstill: None, date_set: None };
    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn system_clocks_go_on_together() {
        let mut watch = ClockWatch::new(SystemClock);
        let begin = watch.now();
        assert_eq!((watch.look(), watch.look()), (NOTHING, NOTHING));
        assert!(watch.now() > begin && watch.unix_s() > 1_000_000_000);
    }

    #[test]
    fn each_standstill_is_told_once() {
        let clock = SettableClock::default();
        let mut watch = ClockWatch::new(clock.clone());
        let told = [0, 1, 4, 60, 1, 3_600, 0].map(|seconds| {
            clock.pass(Duration::from_secs(seconds));
            watch.look()
        });
        let still = |seconds| ClockLook { standstill: Some(Duration::from_secs(seconds)), ..NOTHING };
        assert_eq!(told, [NOTHING, NOTHING, NOTHING, still(60), NOTHING, still(3_600), NOTHING]);
        assert_eq!(watch.now(), Time::ZERO + Duration::from_secs(3_666));
    }

    #[test]
    fn each_new_date_is_told_once() {
        let clock = SettableClock::default();
        clock.set_date(HOUR);
        let mut watch = ClockWatch::new(clock.clone());
        let told = [HOUR * 2, Duration::ZERO, Duration::from_secs(2)].map(|date| {
            clock.set_date(date);
            (watch.look().date_set, watch.look().date_set)
        });
        assert_eq!(told, [(Some(3_600), None), (Some(-7_200), None), (None, None)]);
    }

    #[test]
    fn date_after_suspend_is_not_set() {
        let clock = SettableClock::default();
        let mut watch = ClockWatch::new(clock.clone());
        clock.pass(HOUR * 24 * 7);
        assert_eq!(watch.look(), ClockLook { standstill: Some(HOUR * 24 * 7), date_set: None });
    }
}
