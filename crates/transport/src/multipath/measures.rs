//! Measurements of a path: the transfer time of a byte, the recent best of a value, and the delivery rate.

use std::time::{Duration, Instant};

use super::chunk::CHUNK_BYTES;
use super::path::{PathMetrics, SendSnapshot};

/// The transfer time of a byte that waits behind others: the time that recent chunks needed beyond the round trip,
/// divided by the bytes that were under way before them. Unlike a rate, it is right for a path that is never full as
/// well.
///
/// The fewer bytes a chunk had before it, the more its time is due to chance, and the less it counts.
#[derive(Debug)]
pub(super) struct TransferTime {
    /// The pace with which congestion control starts, seconds per byte.
    guess: f64,
    /// The pace if the handshake's round trip was spent on nothing but its packets, seconds per byte.
    bound: f64,
    /// The time that recent chunks took beyond the round trip.
    seconds: f64,
    /// The bytes under way before these chunks, and their own.
    bytes: f64,
}

/// The pace of the slowest path that is relied on before a measurement: 100 kbit/s.
const SLOWEST_PACE: f64 = 1.0 / 12_500.0;
/// The bytes that a handshake's round trip carries both ways together: a full packet each (RFC 9000, section 14.1, pads
/// Initial packets).
const HANDSHAKE_BYTES: f64 = 2.0 * 1200.0;
/// Bytes that a chunk costs besides its content.
const CHUNK_COST: usize = 200;
/// The weight of the guess, in bytes.
const GUESS_WEIGHT: f64 = 2048.0;
/// The most weight of the recent chunks, in bytes.
const MOST_WEIGHT: f64 = 8.0 * CHUNK_BYTES as f64;

impl TransferTime {
    pub(super) fn new(measured: PathMetrics) -> Self {
        let rtt = measured.rtt.as_secs_f64();
        let guess = rtt / measured.window.max(1) as f64;
        Self { guess, bound: (rtt / HANDSHAKE_BYTES).min(SLOWEST_PACE), seconds: 0.0, bytes: 0.0 }
    }

    /// The likely transfer time of `bytes`, for deadlines.
    pub(super) fn expected_time(&self, bytes: usize) -> Duration {
        let pace = if self.bytes > 0.0 { self.seconds / self.bytes } else { self.bound };
        Duration::from_secs_f64(bytes as f64 * pace)
    }

    /// The rate that the handshake has proved, in bytes per second.
    pub(super) fn least_rate(&self) -> f64 {
        1.0 / self.bound
    }

    /// The time after which a path is suspected: twice the likely time. Before the first measurement the likely time is
    /// an upper bound already.
    pub(super) fn pessimistic_time(&self, bytes: usize) -> Duration {
        self.expected_time(bytes) * if self.bytes > 0.0 { 2 } else { 1 }
    }

    /// The time for the choice of a path. It starts from the guess, so that a new path is tried.
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

/// The shortest window, as a time and in round trips. The longer of the two counts.
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

    /// Begins another window if the current one is over.
    pub(super) fn age(&mut self, now: Instant, rtt: Duration) {
        if now.saturating_duration_since(self.since) > WINDOW.max(WINDOW_ROUNDS * rtt) {
            self.previous = self.current.take();
            self.since = now;
        }
    }
}

/// The rate at which chunks arrive while the path has enough to send: the greatest of the recent samples. A sample from
/// an idle path counts only if it is greater, so the last known rate stays.
#[derive(Debug)]
pub(super) struct DeliveryRate {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    greatest: WindowedBest<f64>,
}

/// The shortest time over which a rate is computed.
const SHORTEST: Duration = Duration::from_millis(1);

impl DeliveryRate {
    pub(super) const fn new(now: Instant) -> Self {
        Self { delivered: 0, delivered_at: now, greatest: WindowedBest::new(now) }
    }

    pub(super) fn known(&self) -> Option<f64> {
        self.greatest.best(f64::max)
    }

    /// Starts a new sample after a pause with nothing under way.
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
