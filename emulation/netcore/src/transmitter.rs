//! The ends of transmissions, exact to a fraction of a nanosecond.

use roost_topology::units::Rate;
use roost_wire::Time;

/// A transmitter that sends packets one after the other. Its last transmission ends exactly at `end + part
/// of` nanoseconds, with `part < of`.
#[derive(Clone, Debug)]
pub(super) struct Transmitter {
    end: u64,
    part: u64,
    of: u64,
}

impl Transmitter {
    /// A transmitter that has always been idle.
    pub(super) const fn new() -> Self {
        Self { end: 0, part: 0, of: 1 }
    }

    /// The end of the last transmission, rounded up to a nanosecond.
    pub(super) const fn end(&self) -> Time {
        Time::from_nanos(self.end.saturating_add((self.part > 0) as u64))
    }

    /// Makes the last transmission end at a time that something else has found.
    pub(super) const fn end_at(&mut self, end: Time) {
        (self.end, self.part) = (end.as_nanos(), 0);
    }

    /// Transmits `bytes` from `ready` on, or right after the last transmission. With an unlimited rate that
    /// takes no time.
    pub(super) fn transmit(&mut self, ready: Time, bytes: u32, rate: Rate) {
        if ready >= self.end() {
            (self.end, self.part) = (ready.as_nanos(), 0);
        }
        if rate.is_unlimited() {
            return;
        }
        self.count_in(rate.bps());
        let total = u128::from(bytes) * 8_000_000_000 + u128::from(self.part);
        // Nearly always 64 bits suffice, and dividing them is cheaper.
        let (whole, part) = match u64::try_from(total) {
            Ok(total) => (total / self.of, total % self.of),
            Err(_) => divide(total, self.of),
        };
        (self.end, self.part) = (self.end.saturating_add(whole), part);
    }

    /// Changes the denominator to `of`; the numerator is rounded down if that is coarser.
    fn count_in(&mut self, of: u64) {
        if self.of != of {
            let part = u128::from(self.part) * u128::from(of) / u128::from(self.of);
            // Smaller than `of`, since `part` was smaller than the old one.
            self.part = part as u64;
            self.of = of;
        }
    }
}

/// Quotient and remainder; a quotient beyond u64 becomes the largest time.
fn divide(total: u128, by: u64) -> (u64, u64) {
    let by = u128::from(by);
    (u64::try_from(total / by).unwrap_or(u64::MAX), (total % by) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(transmitter: &Transmitter) -> u64 {
        transmitter.end().as_nanos()
    }

    #[test]
    fn back_to_back_packets_match_rate() {
        // A byte at 3 bit/s takes 8/3 s; rounding every end up would gain a second in three thousand million.
        let mut transmitter = Transmitter::new();
        let rate = Rate::from_bps(3);
        let ends = [2_666_666_667, 5_333_333_334, 8_000_000_000, 10_666_666_667];
        for end in ends {
            transmitter.transmit(Time::ZERO, 1, rate);
            assert_eq!(nanos(&transmitter), end);
        }
        // 9 999 991 bit/s is a prime: the end of a million frames is rounded once, not a million times.
        let (mut transmitter, rate) = (Transmitter::new(), Rate::from_bps(9_999_991));
        (0..1_000_000).for_each(|_| transmitter.transmit(Time::ZERO, 1514, rate));
        assert_eq!(u128::from(nanos(&transmitter)), (1_514_000_000_u128 * 8_000_000_000).div_ceil(9_999_991));
    }

    #[test]
    fn idle_transmitter_starts_on_arrival() {
        let mut transmitter = Transmitter::new();
        let rate = Rate::from_bps(3);
        transmitter.transmit(Time::from_nanos(5), 1, rate);
        assert_eq!(nanos(&transmitter), 2_666_666_672);
        transmitter.transmit(Time::from_nanos(2_666_666_672), 1, rate);
        assert_eq!(nanos(&transmitter), 2 * 2_666_666_667 + 5);
    }

    #[test]
    fn a_new_rate_keeps_the_fraction() {
        let mut transmitter = Transmitter::new();
        transmitter.transmit(Time::ZERO, 1, Rate::from_bps(3));
        transmitter.transmit(Time::ZERO, 1, Rate::from_bps(6_000_000_000));
        // 2 666 666 666 2/3 + 1 1/3.
        assert_eq!(nanos(&transmitter), 2_666_666_668);
        transmitter.transmit(Time::ZERO, 1, Rate::UNLIMITED);
        assert_eq!(nanos(&transmitter), 2_666_666_668);
    }

    #[test]
    fn transmission_saturates_at_end_of_time() {
        let mut transmitter = Transmitter::new();
        (0..100).for_each(|_| transmitter.transmit(Time::ZERO, u32::MAX, Rate::from_bps(1)));
        assert_eq!(nanos(&transmitter), u64::MAX);
    }
}
