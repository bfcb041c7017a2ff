//! Schedules of constant-rate streams, without clocks.

use std::time::Duration;

use bytes::Bytes;

/// The most datagrams that leave at once after a late wake-up.
pub const MAX_BURST: u32 = 16;

/// The pause after a burst of [`MAX_BURST`] datagrams.
pub const BURST_PAUSE: Duration = Duration::from_millis(1);

/// A datagram and when it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Time since the start of the stream.
    pub at: Duration,
    pub payload: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub sequence: u64,
    /// The due time, since the start of the stream.
    pub at: Duration,
    pub bytes: u32,
}

/// A constant-rate stream of exactly `floor(rate × duration / 8)` bytes.
///
/// Every due time is computed from the start, so rounding does not add up and
/// the rate does not drift. All datagrams but the last have the same size.
#[derive(Clone, Debug)]
pub struct Schedule {
    bits_per_second: u32,
    packet_bytes: u32,
    bytes_left: u64,
    next: u64,
}

impl Schedule {
    /// A stream of `bits_per_second` over `duration` in datagrams of
    /// `packet_bytes`. A rate or size of 0 makes an empty stream.
    pub fn new(bits_per_second: u32, packet_bytes: u32, duration: Duration) -> Self {
        let bits = u128::from(bits_per_second) * duration.as_nanos() / 1_000_000_000;
        let bytes_left = if packet_bytes == 0 { 0 } else { u64::try_from(bits / 8).unwrap_or(u64::MAX) };
        Self { bits_per_second, packet_bytes, bytes_left, next: 0 }
    }
}

impl Iterator for Schedule {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        if self.bytes_left == 0 {
            return None;
        }
        let bytes = u32::try_from(self.bytes_left).map_or(self.packet_bytes, |left| left.min(self.packet_bytes));
        let sequence = self.next;
        let at = transmission_time(u128::from(sequence) * u128::from(self.packet_bytes), self.bits_per_second);
        self.next += 1;
        self.bytes_left -= u64::from(bytes);
        Some(Slot { sequence, at, bytes })
    }
}

/// Computes the time that `bytes` take. A rate of 0 counts as 1 bit/s.
fn transmission_time(bytes: u128, bits_per_second: u32) -> Duration {
    let nanos = bytes * 8 * 1_000_000_000 / u128::from(bits_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Lets late datagrams catch up, [`MAX_BURST`] at a time.
///
/// A late wake must not flood the queues behind the sender, and must not lose
/// anything either.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    late: u32,
    not_before: Duration,
}

impl Pacer {
    /// Returns the time at which a datagram due at `at` may leave; both count from the start of the stream. A
    /// time in the past means at once.
    pub fn release(&self, at: Duration) -> Duration {
        at.max(self.not_before)
    }

    /// Notes that a datagram due at `at` left at `now`.
    pub fn left(&mut self, at: Duration, now: Duration) {
        if now <= at + BURST_PAUSE {
            self.late = 0;
            return;
        }
        self.late += 1;
        if self.late >= MAX_BURST {
            self.late = 0;
            self.not_before = now + BURST_PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn video_of_ten_seconds_is_exact() {
        let slots: Vec<_> = Schedule::new(700_000, 1128, Duration::from_secs(10)).collect();
        assert_eq!(slots.iter().map(|slot| u64::from(slot.bytes)).sum::<u64>(), 875_000);
        assert_eq!(slots.len(), 776);
        assert_eq!(slots[775].bytes, 875_000 - 775 * 1128);
        assert_eq!(slots[0].at, Duration::ZERO);
        assert_eq!(slots[1].at, Duration::from_nanos(12_891_428));
        assert_eq!(slots[700].at, Duration::from_millis(9_024));
    }

    #[test]
    fn zero_parameters_give_empty_stream() {
        assert_eq!(Schedule::new(0, 1128, Duration::from_secs(1)).count(), 0);
        assert_eq!(Schedule::new(1000, 0, Duration::from_secs(1)).count(), 0);
        assert_eq!(Schedule::new(1000, 10, Duration::ZERO).count(), 0);
    }

    #[test]
    fn late_sender_pauses_between_bursts() {
        let mut pacer = Pacer::default();
        let now = Duration::from_secs(5);
        for _ in 0..MAX_BURST {
            assert!(pacer.release(Duration::ZERO) <= now);
            pacer.left(Duration::ZERO, now);
        }
        assert_eq!(pacer.release(Duration::ZERO), now + BURST_PAUSE);
    }

    #[test]
    fn punctual_sender_never_waits() {
        let mut pacer = Pacer::default();
        for slot in Schedule::new(700_000, 1128, Duration::from_secs(10)) {
            assert_eq!(pacer.release(slot.at), slot.at);
            pacer.left(slot.at, slot.at);
        }
    }

    proptest! {
        #[test]
        fn total_rounds_down_times_increase(rate in 0u32..5_000_000, size in 1u32..2000, millis in 0u64..3000) {
            let slots: Vec<_> = Schedule::new(rate, size, Duration::from_millis(millis)).collect();
            let total: u64 = slots.iter().map(|slot| u64::from(slot.bytes)).sum();
            prop_assert_eq!(total, u64::from(rate) * millis / 8000);
            prop_assert!(slots.windows(2).all(|pair| pair[0].at <= pair[1].at));
            prop_assert!(slots.iter().all(|slot| slot.at <= Duration::from_millis(millis)));
        }
    }
}
