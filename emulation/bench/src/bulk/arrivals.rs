//! The progress of an object at its receiver.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Arrivals within this time are recorded together.
const GRAIN: Duration = Duration::from_millis(10);

/// Bytes that have arrived since the start; any thread may record them.
#[derive(Debug)]
pub(super) struct ByteArrivals {
    began: Instant,
    noted: Mutex<Vec<(Duration, u64)>>,
}

impl ByteArrivals {
    pub(super) const fn since(began: Instant) -> Self {
        Self { began, noted: Mutex::new(Vec::new()) }
    }

    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    /// Records the total number of bytes received.
    pub(super) fn record_bytes(&self, bytes: u64) {
        self.record_bytes_at(self.began.elapsed(), bytes);
    }

    fn record_bytes_at(&self, at: Duration, bytes: u64) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        match noted.last_mut() {
            Some(last) if at < last.0 + GRAIN => last.1 = bytes,
            _ => noted.push((at, bytes)),
        }
    }

    /// The number of bytes at a time.
    pub(super) fn bytes_by(&self, at: Duration) -> u64 {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let before = noted.partition_point(|(noted, _)| *noted <= at);
        before.checked_sub(1).map_or(0, |last| noted[last].1)
    }

    pub(super) fn rate(&self, from: Duration, to: Duration) -> f64 {
        (self.bytes_by(to) - self.bytes_by(from)) as f64 * 8.0 / (to - from).as_secs_f64()
    }
}

/// The fairness of two flows: 1 if both have the same, a half if one has all (Jain 1984).
pub(super) fn jain(one: f64, other: f64) -> f64 {
    let sum = one + other;
    if sum > 0.0 { sum * sum / (2.0 * (one * one + other * other)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_covers_given_interval() {
        let arrivals = ByteArrivals::since(Instant::now());
        let second = Duration::from_secs(1);
        (0..=20_u64).for_each(|tenth| arrivals.record_bytes_at(second * tenth as u32 / 10, tenth * 1000));
        assert_eq!(
            (arrivals.bytes_by(Duration::ZERO), arrivals.bytes_by(second), arrivals.bytes_by(9 * second)),
            (0, 10_000, 20_000)
        );
        assert!((arrivals.rate(second, 2 * second) - 80_000.0).abs() < 1.0);
        assert_eq!(ByteArrivals::since(Instant::now()).rate(second, 2 * second), 0.0);
    }

    #[test]
    fn who_has_all_shares_badly() {
        assert!((jain(3.0, 3.0) - 1.0).abs() < 1e-9 && (jain(7.0, 0.0) - 0.5).abs() < 1e-9 && jain(0.0, 0.0) == 0.0);
    }
}
