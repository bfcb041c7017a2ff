//! Wall clocks of hosts, by which certificates are valid and satellites are where they are. No other decision of a
//! machine depends on one: it tells others what its driver says, and people how far the clocks of others are off.

use std::time::Duration;

use roost_wire::Time;

/// The time of the Unix epoch that a host's clock showed at a time of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallClock {
    at: Time,
    unix: Duration,
}

impl WallClock {
    pub(crate) fn new(now: Time, unix: Duration) -> Self {
        Self { at: now, unix }
    }

    /// The time that it shows, unless it was set meanwhile.
    pub(crate) fn unix(self, now: Time) -> Duration {
        self.unix.saturating_add(now.since(self.at))
    }

    pub(crate) fn unix_s(self, now: Time) -> u64 {
        self.unix(now).as_secs()
    }

    /// Seconds by which it is ahead of another one; below zero it is behind.
    pub(crate) fn ahead_of(self, other: Self, now: Time) -> i64 {
        let signed = |clock: Self| i64::try_from(clock.unix_s(now)).unwrap_or(i64::MAX);
        signed(self) - signed(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(at: Time, unix_s: u64) -> WallClock {
        WallClock::new(at, Duration::from_secs(unix_s))
    }

    #[test]
    fn difference_stays_while_time_passes() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let (remote, own) = (clock(at(5), 1_000), clock(at(95), 2_000));
        assert_eq!(remote.ahead_of(own, at(100)), 1_095 - 2_005);
        assert_eq!(own.ahead_of(remote, at(4_000)), 910);
    }

    #[test]
    fn absurd_clock_is_just_far_ahead() {
        let (remote, own) = (clock(Time::ZERO, u64::MAX), clock(Time::ZERO, 1));
        assert_eq!(remote.ahead_of(own, Time::ZERO + Duration::from_secs(9)), i64::MAX - 10);
        assert!(own.ahead_of(remote, Time::ZERO) < 0);
    }
}
