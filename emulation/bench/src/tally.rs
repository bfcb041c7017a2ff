//! The tally of arrivals of numbered packets: counts, gaps and delays.

use std::time::Duration;

use hdrhistogram::Histogram;

/// No run has so many packets: a greater number is that of a corrupted one.
const MAX_PACKETS: u64 = 1 << 28;

/// Significant digits of a delay.
const DIGITS: u8 = 3;

/// The packets of one flow, in the order in which they come. Times are since an origin that the caller chooses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// By number, true once it has come.
    seen: Vec<bool>,
    least: Option<u64>,
    /// The greatest number that has come, plus one.
    next: u64,
    first: Option<Duration>,
    last: Duration,
    pub(crate) received: u64,
    pub(crate) bytes: u64,
    /// The longest time from one packet to the next.
    pub(crate) max_gap: Duration,
    pub(crate) delays: Delays,
    pub(crate) duplicated: u64,
    /// Packets that came after one with a greater number.
    pub(crate) reordered: u64,
}

impl Arrivals {
    /// Records a packet; false if it is a duplicate or corrupted.
    pub(crate) fn record(&mut self, number: u64, bytes: usize, now: Duration) -> bool {
        if number >= MAX_PACKETS {
            return false;
        }
        let place = number as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, false);
        }
        if std::mem::replace(&mut self.seen[place], true) {
            self.duplicated += 1;
            return false;
        }
        self.reordered += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        self.least = Some(self.least.map_or(number, |least| least.min(number)));
        self.max_gap = self.first.map_or(Duration::ZERO, |_| self.max_gap.max(now.saturating_sub(self.last)));
        self.first.get_or_insert(now);
        self.last = now;
        self.received += 1;
        self.bytes += bytes as u64;
        true
    }

    /// From the first to the last.
    pub(crate) fn span(&self) -> Duration {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
    }

    /// Numbers between the least and the greatest that have not come.
    pub(crate) fn missing(&self) -> u64 {
        self.next - self.least.unwrap_or(self.next) - self.received
    }

    /// The longest gap since the last call, with that from the last packet until now.
    pub(crate) fn take_gap(&mut self, now: Duration) -> Duration {
        std::mem::take(&mut self.max_gap).max(now.saturating_sub(self.last))
    }
}

/// Delays, with their count and sum; the greatest and the mean are exact.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    /// In nanoseconds.
    all: Option<Histogram<u64>>,
    total: Duration,
    max: Duration,
}

impl Delays {
    pub(crate) fn record(&mut self, delay: Duration) {
        if self.all.is_none() {
            self.all = Histogram::new(DIGITS).ok();
        }
        // Fits u64 for 584 years, and the histogram grows as needed.
        let _ = self.all.as_mut().map(|all| all.record(delay.as_nanos() as u64));
        self.total += delay;
        self.max = self.max.max(delay);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        match (&mut self.all, &other.all) {
            // As above.
            (Some(all), Some(other)) => drop(all.add(other)),
            (all @ None, other) => all.clone_from(other),
            (Some(_), None) => {}
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    fn count(&self) -> u64 {
        self.all.as_ref().map_or(0, Histogram::len)
    }

    /// The delay that `percent` of all do not exceed; `None` if there are none.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = self.count() * percent / 100;
        let all = self.all.as_ref()?;
        // The middle of the rank's place, so that rounding does not choose the next.
        let value = all.value_at_quantile((rank as f64 + 0.5) / all.len() as f64);
        Some(Duration::from_nanos(value).min(self.max))
    }

    pub(crate) fn mean(&self) -> Option<Duration> {
        (self.count() > 0).then(|| self.total.div_f64(self.count() as f64))
    }

    pub(crate) fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }
}

#[cfg(test)]
impl FromIterator<Duration> for Delays {
    fn from_iter<I: IntoIterator<Item = Duration>>(all: I) -> Self {
        let mut delays = Self::default();
        all.into_iter().for_each(|delay| delays.record(delay));
        delays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn arrivals(packets: &[(u64, u64)]) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for (number, at) in packets {
            arrivals.record(*number, 100, ms(*at));
        }
        arrivals
    }

    #[test]
    fn duplicates_and_reordering_are_counted() {
        let arrivals = arrivals(&[(0, 1), (2, 2), (1, 3), (2, 4), (3, 5)]);
        assert_eq!((arrivals.received, arrivals.duplicated, arrivals.reordered), (4, 1, 1));
        assert_eq!((arrivals.bytes, arrivals.missing(), arrivals.span()), (400, 0, ms(4)));
        assert_eq!((Arrivals::default().span(), Arrivals::default().missing()), (Duration::ZERO, 0));
    }

    #[test]
    fn missing_counts_between_first_and_last() {
        assert_eq!(arrivals(&[(3, 0), (4, 8), (4, 8), (7, 16), (6, 24), (10, 30)]).missing(), 3);
    }

    #[test]
    fn gap_across_two_calls_counts() {
        let mut arrivals = arrivals(&[(0, 0), (1, 9)]);
        assert_eq!(arrivals.take_gap(ms(10)), ms(9));
        arrivals.record(2, 100, ms(40));
        assert_eq!((arrivals.take_gap(ms(41)), arrivals.take_gap(ms(80))), (ms(31), ms(40)));
    }

    #[test]
    fn merged_delays_have_exact_ends() {
        let mut delays: Delays = (0..100).map(ms).collect();
        delays.merge(&[ms(123_456), ms(1)].into_iter().collect());
        assert_eq!(
            [1, 50].map(|percent| delays.percentile(percent).map(|delay| delay.as_millis())),
            [Some(1), Some(50)]
        );
        assert_eq!((delays.percentile(100), delays.max()), (Some(ms(123_456)), Some(ms(123_456))));
        assert_eq!(delays.mean(), Some((ms(4950) + ms(123_457)).div_f64(102.0)));
        let none = Delays::default();
        assert_eq!((none.percentile(50), none.mean(), none.max()), (None, None, None));
        let mut merged = none.clone();
        merged.merge(&delays);
        assert_eq!(merged, delays);
    }
}
