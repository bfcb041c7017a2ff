//! What is measured of a path: how long a byte takes, the best of late, the rate.

use std::time::{Duration, Instant};

use super::chunk::CHUNK_BYTES;
use super::path::{PathMetrics, SendSnapshot};

/// How long a byte takes that waits for its turn: what chunks need beyond the
/// round trip over the bytes that were under way before them, of the last ones.
/// Right for a path that is never full as well, where a rate would not be.
///
/// The fewer bytes a chunk had before it, the more of what it needed is chance,
/// and the less it counts.
#[derive(Debug)]
pub(super) struct TransferTime {
    /// What the congestion control begins with, seconds per byte.
    guess: f64,
    /// The same if the handshake's round trip was nothing but the time for its packets.
    bound: f64,
    /// What the last chunks took.
    seconds: f64,
    /// What was under way before them, and their own.
    bytes: f64,
}

/// The slowest path that is counted on until it is measured: 100 kbit/s.
const SLOWEST_PACE: f64 = 1.0 / 12_500.0;
/// What the round trip of a handshake carries both ways together: a full packet
/// each (RFC 9000, section 14.1, has Initial packets padded).
const HANDSHAKE_BYTES: f64 = 2.0 * 1200.0;
/// What a chunk costs beside its bytes.
const CHUNK_COST: usize = 200;
/// How many bytes the guess weighs.
const GUESS_WEIGHT: f64 = 2048.0;
/// How many bytes the last chunks weigh, at most.
const MOST_WEIGHT: f64 = 8.0 * CHUNK_BYTES as f64;

impl TransferTime {
    pub(super) fn new(measured: PathMetrics) -> Self {
        let rtt = measured.rtt.as_secs_f64();
        let guess = rtt / measured.window.max(1) as f64;
        Self { guess, bound: (rtt / HANDSHAKE_BYTES).min(SLOWEST_PACE), seconds: 0.0, bytes: 0.0 }
    }

    /// To be counted on.
    pub(super) fn expected_time(&self, bytes: usize) -> Duration {
        let pace = if self.bytes > 0.0 { self.seconds / self.bytes } else { self.bound };
        Duration::from_secs_f64(bytes as f64 * pace)
    }

    /// Least rate of the path that the handshake has shown, bytes per second.
    pub(super) fn least_rate(&self) -> f64 {
        1.0 / self.bound
    }

    /// To be waited for: twice as long as it takes. What is not measured yet is a bound as it is.
    pub(super) fn pessimistic_time(&self, bytes: usize) -> Duration {
        self.expected_time(bytes) * if self.bytes > 0.0 { 2 } else { 1 }
    }

    /// To be tried.
    pub(super) fn optimistic_time(&self, bytes: usize) -> Duration {
        let pace = (self.guess * GUESS_WEIGHT + self.seconds) / (GUESS_WEIGHT + self.bytes);
        Duration::from_secs_f64(bytes as f64 * pace)
    }

    pub(super) fn sample(&mut self, beyond: Duration, ahead: usize) {
        self.seconds += beyond.as_secs_f64();
        self.bytes += (ahead + CHUNK_COST) as f64;
        let fading = (MOST_WEIGHT / self.bytes).min(1.0);
        self.seconds *= fading;
        self.bytes *= fading;
    }
}

/// The best value of the last one to two windows.
#[derive(Debug)]
pub(super) struct WindowedBest<T> {
    current: Option<T>,
    previous: Option<T>,
    since: Instant,
}

/// The least time that the best is kept, and the same in round trips.
const WINDOW: Duration = Duration::from_millis(500);
const WINDOW_ROUNDS: u32 = 10;

impl<T: Copy> WindowedBest<T> {
    pub(super) const fn new(now: Instant) -> Self {
        Self { current: None, previous: None, since: now }
    }

    pub(super) fn best(&self, better: fn(T, T) -> T) -> Option<T> {
        match (self.current, self.previous) {
            (Some(current), Some(previous)) => Some(better(current, previous)),
            (current, previous) => current.or(previous),
        }
    }

    pub(super) fn add_sample(&mut self, value: T, better: fn(T, T) -> T) {
        self.current = Some(self.current.map_or(value, |current| better(current, value)));
    }

    /// Another window begins if it is time to.
    pub(super) fn age(&mut self, now: Instant, rtt: Duration) {
        if now.saturating_duration_since(self.since) > WINDOW.max(WINDOW_ROUNDS * rtt) {
            self.previous = self.current.take();
            self.since = now;
        }
    }
}

/// The rate at which chunks arrive while there is enough to do: the greatest
/// seen of late. What an idle path lets through tells nothing unless it is more,
/// so the last that is known stays.
#[derive(Debug)]
pub(super) struct DeliveryRate {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    greatest: WindowedBest<f64>,
}

/// The least time over which a rate is taken.
const SHORTEST: Duration = Duration::from_millis(1);

impl DeliveryRate {
    pub(super) const fn new(now: Instant) -> Self {
        Self { delivered: 0, delivered_at: now, greatest: WindowedBest::new(now) }
    }

    pub(super) fn known(&self) -> Option<f64> {
        self.greatest.best(f64::max)
    }

    /// Something is under way again after a pause.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.delivered_at = now;
    }

    pub(super) fn sample(&mut self, now: Instant, bytes: usize, departure: SendSnapshot, rtt: Duration) {
        self.delivered += bytes as u64;
        self.delivered_at = now;
        let over = now.saturating_duration_since(departure.delivered_at).max(SHORTEST).max(rtt / 2);
        let sample = (self.delivered - departure.delivered) as f64 / over.as_secs_f64();
        if departure.was_full {
            self.greatest.age(now, rtt);
        }
        self.greatest.add_sample(sample, f64::max);
    }
}
