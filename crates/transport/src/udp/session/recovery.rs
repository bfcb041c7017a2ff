//! Round trip, probe timeout and congestion window, similar to RFC 9002.

use std::time::{Duration, Instant};

/// The longest time by which an acknowledgement is delayed.
pub(super) const MAX_ACK_DELAY: Duration = Duration::from_millis(5);
/// The round trip assumed if the handshake did not measure one.
pub(super) const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The longest interval between probes, so that a link that comes back is noticed soon. RFC 9002 has no such limit.
const MAX_PTO: Duration = Duration::from_secs(2);
/// A timer shorter than this would fire on the scheduler's noise.
const GRANULARITY: Duration = Duration::from_millis(1);
/// A packet this many numbers behind an acknowledged one is lost.
pub(super) const REORDERING: u32 = 3;
/// The window of a new connection, packets (RFC 6928).
const INITIAL_PACKETS: usize = 10;
/// The factor by which packets leave faster than one window in a round trip.
const PACE: f64 = 1.25;
/// Packets closer together than this leave at once, since timers cannot separate them.
const CLUMP: Duration = Duration::from_millis(2);
/// The shortest round trip from which a rate is computed.
const SHORTEST_RTT: Duration = Duration::from_micros(50);
/// With fewer packets than this in the queues on the way, a loss is taken for noise and not for a full queue: TCP Veno,
/// C. P. Fu and S. C. Liew, IEEE JSAC 21 (2), 2003, where it is beta.
const SHORT_QUEUE: f64 = 3.0;
/// The most losses of one round trip that may be noise: these, or a sixteenth of the window. A full queue that holds
/// next to nothing loses more.
const LONE_LOSSES: usize = 2;
/// The largest window, bytes: the most that one connection has under way.
const MAX_WINDOW: usize = 1 << 20;

/// Estimates of the round trip (RFC 9002, section 5).
#[derive(Debug)]
pub(super) struct Rtt {
    pub(super) smoothed: Duration,
    variation: Duration,
    min: Duration,
    latest: Duration,
    measured: bool,
}

impl Rtt {
    pub(super) fn new(initial: Duration) -> Self {
        Self { smoothed: initial, variation: initial / 2, min: initial, latest: initial, measured: false }
    }

    /// Adds a sample. `delay` is the time for which the remote says it delayed the acknowledgement.
    pub(super) fn sample(&mut self, rtt: Duration, delay: Duration) {
        self.latest = rtt;
        if !self.measured {
            *self = Self { smoothed: rtt, variation: rtt / 2, min: rtt, latest: rtt, measured: true };
            return;
        }
        self.min = self.min.min(rtt);
        let delay = delay.min(MAX_ACK_DELAY);
        let adjusted = if rtt >= self.min + delay { rtt - delay } else { rtt };
        self.variation = (3 * self.variation + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
    }

    /// Makes the next sample replace all earlier ones, because the path has changed.
    pub(super) fn measure_anew(&mut self) {
        self.measured = false;
    }

    /// The time without an acknowledgement after which a probe is sent.
    pub(super) fn pto(&self, failures: u32) -> Duration {
        let base = self.smoothed + (4 * self.variation).max(GRANULARITY) + MAX_ACK_DELAY;
        base.saturating_mul(1 << failures.min(16)).min(MAX_PTO.max(base))
    }

    /// The time after which a packet is lost if a later one has arrived.
    pub(super) fn loss_delay(&self) -> Duration {
        (self.smoothed.max(self.latest) * 9 / 8).max(GRANULARITY)
    }

    /// The part of the last round trip that a packet spent in queues.
    fn queued(&self) -> f64 {
        1.0 - self.min.as_secs_f64() / self.latest.max(SHORTEST_RTT).as_secs_f64()
    }
}

/// The congestion window: NewReno, as in RFC 9002, section 7, with two differences for the links of the field.
///
/// - A few losses while the queues on the way are short are noise of a radio: they cost a fifth of the window instead of
///   half of it, as in TCP Veno, and what was known of the path stays.
/// - There is no collapse to two packets after a long outage. On slow links it would cost more than it protects.
#[derive(Debug)]
pub(super) struct Window {
    packet: usize,
    bytes: usize,
    /// The end of slow start; `None` before the first congestion.
    threshold: Option<usize>,
    /// Losses of packets sent before this belong to an event that was handled.
    recovery: Option<Instant>,
    /// The last event, while it may be noise.
    noise: Option<LoneLosses>,
}

/// Losses of one round trip that may be noise.
#[derive(Debug)]
struct LoneLosses {
    /// The window before them.
    window: usize,
    count: usize,
}

impl Window {
    pub(super) fn new(packet: usize) -> Self {
        Self { packet, bytes: INITIAL_PACKETS * packet, threshold: None, recovery: None, noise: None }
    }

    /// True if another packet may leave with `in_flight` bytes under way.
    pub(super) fn allows(&self, in_flight: usize) -> bool {
        in_flight + self.packet <= self.bytes
    }

    /// Notes that a packet of `size` bytes has arrived. `full` says that the window was what held the sender back.
    pub(super) fn acknowledged(&mut self, sent: Instant, size: usize, full: bool) {
        if !full || self.recovery.is_some_and(|start| sent <= start) {
            return;
        }
        let growth = if self.threshold.is_none_or(|threshold| self.bytes < threshold) {
            size
        } else {
            self.packet * size / self.bytes
        };
        self.bytes = (self.bytes + growth).min(MAX_WINDOW);
    }

    /// Notes that a packet sent at `sent` is lost.
    pub(super) fn lost(&mut self, now: Instant, sent: Instant, rtt: &Rtt) {
        if self.recovery.is_some_and(|start| sent <= start) {
            return self.lost_more();
        }
        self.recovery = Some(now);
        let queued = rtt.queued() * self.bytes as f64 / self.packet as f64;
        if queued < SHORT_QUEUE {
            self.noise = Some(LoneLosses { window: self.bytes, count: 1 });
            self.bytes = (self.bytes * 4 / 5).max(2 * self.packet);
        } else {
            self.noise = None;
            self.halve(self.bytes);
        }
    }

    /// One more packet of the same round trip is lost.
    fn lost_more(&mut self) {
        let Some(LoneLosses { window, count }) = &mut self.noise else { return };
        *count += 1;
        if *count > LONE_LOSSES.max(*window / self.packet / 16) {
            let window = *window;
            self.noise = None;
            self.halve(window);
        }
    }

    fn halve(&mut self, window: usize) {
        self.bytes = (window / 2).max(2 * self.packet);
        self.threshold = Some(self.bytes);
    }

    /// Halves the window this many times, but not below that of a new connection. It may soon grow back to what it was
    /// (RFC 2861).
    #[cfg(any(test, feature = "simulated"))]
    pub(super) fn decay(&mut self, times: u32) {
        let floor = self.bytes.min(INITIAL_PACKETS * self.packet);
        self.threshold = self.threshold.map(|threshold| threshold.max(self.bytes * 3 / 4));
        self.bytes = self.bytes.checked_shr(times).unwrap_or(0).max(floor);
    }
}

/// Spreads a window's packets over the round trip, a quarter faster than that takes (RFC 9002, section 7.7), so that a
/// short queue on the way does not overflow from a burst that the window allows.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// Bytes that may leave as of the time in `at`; negative after a probe.
    credit: f64,
    at: Option<Instant>,
}

impl Pacer {
    /// The time for which the next packet has to wait; `None` if it may leave.
    pub(super) fn wait(&mut self, now: Instant, window: &Window, rtt: Duration) -> Option<Duration> {
        let rate = PACE * window.bytes as f64 / rtt.max(SHORTEST_RTT).as_secs_f64();
        let most = ((INITIAL_PACKETS * window.packet) as f64).max(rate * CLUMP.as_secs_f64());
        let gained = self.at.map_or(most, |at| rate * now.saturating_duration_since(at).as_secs_f64());
        self.credit = (self.credit + gained).min(most);
        self.at = Some(now);
        let missing = window.packet as f64 - self.credit;
        (missing > 0.0).then(|| Duration::from_secs_f64(missing / rate).max(GRANULARITY))
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.credit -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_replaces_the_guess() {
        let mut rtt = Rtt::new(INITIAL_RTT);
        rtt.sample(Duration::from_millis(8), Duration::ZERO);
        assert_eq!(rtt.smoothed, Duration::from_millis(8));
        assert_eq!(rtt.pto(0), Duration::from_millis(8 + 16 + 5));
        assert_eq!(rtt.pto(1), 2 * rtt.pto(0));
        assert_eq!(rtt.pto(30), MAX_PTO);
    }

    #[test]
    fn idle_window_decays_to_initial() {
        let mut window = Window::new(1000);
        (0..30).for_each(|_| window.acknowledged(Instant::now(), 1000, true));
        assert!(window.allows(39_000) && !window.allows(39_001));
        window.decay(1);
        assert!(window.allows(19_000) && !window.allows(19_001));
        window.decay(99);
        assert!(window.allows(9_000) && !window.allows(9_001));
    }

    #[test]
    fn window_is_paced_over_rtt() {
        let (mut pacer, window, rtt) = (Pacer::default(), Window::new(1000), Duration::from_millis(100));
        let start = Instant::now();
        let (mut now, mut left) = (start, 0);
        while left < 110 {
            match pacer.wait(now, &window, rtt) {
                Some(wait) => now += wait,
                None => {
                    pacer.spend(1000);
                    left += 1;
                }
            }
        }
        // The first ten leave at once, the others at 12.5 packets in 100 ms.
        let took = (now - start).as_secs_f64();
        assert!((took / 0.8 - 1.0).abs() < 0.02, "{took}");
    }

    /// Estimates of a path with a round trip of 100 ms, and so much more in its queues.
    fn path(queues: Duration) -> Rtt {
        let mut rtt = Rtt::new(INITIAL_RTT);
        rtt.sample(INITIAL_RTT, Duration::ZERO);
        rtt.sample(INITIAL_RTT + queues, Duration::ZERO);
        rtt
    }

    /// The packets that the window lets out after so many losses of one round trip.
    fn left_after(losses: usize, rtt: &Rtt) -> usize {
        let mut window = Window::new(1200);
        let sent = Instant::now();
        (0..losses).for_each(|_| window.lost(sent + Duration::from_millis(1), sent, rtt));
        (0..10).take_while(|packets| window.allows(packets * 1200)).count()
    }

    #[test]
    fn loss_event_halves_window_once() {
        let rtt = path(Duration::from_millis(50));
        assert_eq!([1, 2, 9].map(|losses| left_after(losses, &rtt)), [5, 5, 5]);
    }

    #[test]
    fn lone_losses_cost_a_fifth() {
        let rtt = path(Duration::from_millis(20));
        assert_eq!([0, 1, 2].map(|losses| left_after(losses, &rtt)), [10, 8, 8]);
        assert_eq!([3, 4, 9].map(|losses| left_after(losses, &rtt)), [5, 5, 5], "more are no noise");
    }

    #[test]
    fn lone_loss_ends_no_slow_start() {
        let (mut window, start) = (Window::new(1200), Instant::now());
        window.lost(start, start - Duration::from_millis(1), &path(Duration::ZERO));
        (0..8).for_each(|_| window.acknowledged(start + Duration::from_millis(1), 1200, true));
        assert!(window.allows(15 * 1200) && !window.allows(16 * 1200));
    }
}
