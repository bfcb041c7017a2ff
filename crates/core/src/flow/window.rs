//! The window of an object's sender: how far it goes beyond the reports.

use std::time::Duration;

use roost_wire::Time;

use super::{MAX_WINDOW_BYTES, WINDOW_BYTES};

/// Three of them: one for what is under way, one for what waits behind a loss until that was sent again, one
/// so that it grows.
const ROUND_TRIPS: u64 = 3;

/// As much as is delivered within [`ROUND_TRIPS`], so that neither a path nor its
/// congestion control ever waits for credit, and a thin path or a slow reader
/// is not given what would only wait: it is multiplied with each round until it
/// is no longer what limits.
#[derive(Clone, Debug)]
pub(super) struct Window {
    bytes: u64,
    round: Option<WindowSample>,
}

/// From the sending of a chunk to its report.
#[derive(Clone, Copy, Debug)]
struct WindowSample {
    began: Time,
    /// The bytes reported when it began.
    reported: u64,
    /// The bytes reported when it is over.
    until: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { bytes: WINDOW_BYTES, round: None }
    }
}

impl Window {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A chunk that ends at `until` is sent.
    pub(super) fn sent(&mut self, now: Time, reported: u64, until: u64) {
        self.round.get_or_insert(WindowSample { began: now, reported, until });
    }

    /// So much has been reported over a path with this round trip.
    pub(super) fn reported(&mut self, now: Time, rtt: Duration, reported: u64) {
        let Some(round) = self.round.filter(|round| reported >= round.until) else { return };
        self.round = None;
        let span = now.since(round.began).max(rtt).as_micros().max(1);
        let delivered = u128::from(reported - round.reported);
        let target = u128::from(ROUND_TRIPS) * delivered * rtt.as_micros() / span;
        // A single bad round is not yet another path.
        let least = self.bytes - self.bytes / 4;
        self.bytes = u64::try_from(target).unwrap_or(u64::MAX).max(least).clamp(WINDOW_BYTES, MAX_WINDOW_BYTES);
    }

    /// The path has changed: nothing is known of the new one.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window after 10 s on a path that carries so many bytes per second, sent and reported in chunks.
    fn after_ten_seconds(rate: u64, rtt: Duration) -> u64 {
        const CHUNK: u64 = 16 * 1024;
        let (mut window, mut sent, mut reported) = (Window::default(), 0, 0);
        let mut under_way = std::collections::VecDeque::new();
        let (mut now, mut free) = (Time::ZERO, Time::ZERO);
        while now.since(Time::ZERO) < Duration::from_secs(10) {
            while sent + CHUNK - reported <= window.bytes() {
                sent += CHUNK;
                window.sent(now, reported, sent);
                free = free.max(now) + Duration::from_micros(CHUNK * 1_000_000 / rate);
                under_way.push_back((free + rtt, sent));
            }
            let Some((at, until)) = under_way.pop_front() else { break };
            (now, reported) = (at, until);
            window.reported(now, rtt, reported);
        }
        window.bytes()
    }

    #[test]
    fn window_grows_to_bandwidth_delay_multiple() {
        let ms = Duration::from_millis;
        for (rate, rtt) in [(25_000_000, ms(40)), (2_500_000, ms(600)), (10_000_000, ms(100))] {
            let carried = rate * rtt.as_millis() as u64 / 1000;
            let window = after_ten_seconds(rate, rtt);
            let most = (ROUND_TRIPS * carried + 48 * 1024).min(MAX_WINDOW_BYTES);
            assert!(window >= most * 9 / 10 && window <= most, "{rate} B/s, {rtt:?}: {window} for {carried}");
        }
    }

    #[test]
    fn slow_path_keeps_initial_window() {
        assert_eq!(after_ten_seconds(125_000, Duration::from_millis(600)), WINDOW_BYTES);
        assert_eq!(after_ten_seconds(1_000_000, Duration::from_millis(20)), WINDOW_BYTES);
    }

    #[test]
    fn fast_path_window_reaches_limit() {
        assert!(after_ten_seconds(25_000_000, Duration::from_millis(100)) >= 2 * 2_400_000);
        assert_eq!(after_ten_seconds(125_000_000, Duration::from_millis(600)), MAX_WINDOW_BYTES);
    }
}
