//! UDT's congestion control: the rate grows with the capacity that seems to be free, and falls by a ninth with a loss
//! (Gu and Grossman, *UDT: UDP-based data transfer for high-speed wide area networks*, 2007).
//!
//! It follows UDT4 as far as QUIC allows. The receiver's arrival rate is the rate of acknowledged bytes. The capacity,
//! which UDT measures with pairs of packets, is the greatest such rate of the last half minute to minute. So the
//! capacity of a link that was never filled is unknown, and the rate then grows as slowly as UDT's near its capacity,
//! by 1.2 Mbit/s each second.
//!
//! One result is independent of the round trip: with random losses of a part `p` the rate is `3 sqrt(a / p)` packets
//! per second, where `a` is its growth in packets per second squared, at least 100.

use std::any::Any;
use std::time::{Duration, Instant};

use quinn::congestion::Controller;
use quinn_proto::RttEstimator;
use roost_wire::random::SplitMix64;

/// The interval of control, in which the rate grows once.
const SYN: Duration = Duration::from_millis(10);
/// The initial window in packets, which is also added to the later window.
const FIRST_PACKETS: f64 = 16.0;
/// The greatest window of the slow start, packets: UDT's flow window.
const MOST_PACKETS: f64 = 25_600.0;
/// The factor by which the time between packets grows after a loss.
const DECREASE: f64 = 1.125;
/// The most such steps in an epoch.
const MOST_DECREASES: u32 = 5;
/// The least growth in an interval, packets.
const LEAST_INCREASE: f64 = 0.01;
/// The growth in packets for one free bit per second, with packets of one byte, after rounding up to a power of ten.
const BETA: f64 = 1.5e-6;
/// Only this part of the capacity counts as free while the rate is below that of the last loss.
const CAUTION: f64 = 1.0 / 9.0;
/// The weight of a new sample in the smoothed arrival rate.
const SMOOTHING: f64 = 1.0 / 8.0;
/// The greatest rate of one to two such times is the capacity.
const CAPACITY_LIFE: Duration = Duration::from_secs(30);
/// The most that may be saved up of the rate until an acknowledgement releases it, since acknowledgements come in
/// clumps: this much time, and this many packets.
const CLUMP: f64 = 0.005;
const CLUMP_PACKETS: f64 = 6.0;
const LEAST_PACKETS: f64 = 2.0;
/// The seed of the random spacing of decreases. It is always the same, so that runs are repeatable.
const SEED: u64 = 4;

/// The growth of the rate in an interval, in packets, if `free` packets per second seem to be free: in steps of ten.
pub(super) fn increase(free: f64, packet_bytes: f64) -> f64 {
    if free <= 0.0 {
        return LEAST_INCREASE;
    }
    let decade = (free * packet_bytes * 8.0).log10().ceil();
    LEAST_INCREASE.max(10_f64.powf(decade) * BETA / packet_bytes)
}

/// The module's documentation explains it. Rates are in packets per second.
#[derive(Clone, Debug)]
pub(super) struct Udt {
    mtu: f64,
    srtt: Duration,
    /// The window of the slow start, which doubles in each round trip; `None` after it.
    slow_start: Option<f64>,
    rate: f64,
    /// The rate at the first loss of the epoch.
    cut_rate: f64,
    /// Packets that left before this time belong to the epoch.
    cut_at: Instant,
    epoch: LossEpoch,
    has_lost: bool,
    arrival: Arrival,
    next_syn: Instant,
    in_flight: u64,
    /// Packets that the rate allows and that have not left.
    due: f64,
    due_at: Instant,
    random: SplitMix64,
}

/// The time from one first loss to the next.
#[derive(Clone, Copy, Debug, Default)]
struct LossEpoch {
    /// The smoothed number of losses in an epoch, and the losses of this one.
    usual: f64,
    losses: u32,
    decreases: u32,
    /// The number of losses after which the rate decreases again.
    spacing: u32,
}

/// The rate at which packets arrive, smoothed, and its recent maximum.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    packets: f64,
    since: Instant,
    smoothed: Option<f64>,
    greatest: [f64; 2],
    greatest_since: Instant,
}

impl Arrival {
    const fn new(now: Instant) -> Self {
        Self { packets: 0.0, since: now, smoothed: None, greatest: [0.0; 2], greatest_since: now }
    }

    fn measure(&mut self, now: Instant, srtt: Duration) {
        let took = now.saturating_duration_since(self.since);
        if took < SYN.max(srtt / 4) {
            return;
        }
        let rate = self.packets / took.as_secs_f64();
        self.smoothed = Some(self.smoothed.map_or(rate, |old| old + SMOOTHING * (rate - old)));
        (self.packets, self.since) = (0.0, now);
        if now.saturating_duration_since(self.greatest_since) > CAPACITY_LIFE {
            self.greatest = [0.0, self.greatest[0]];
            self.greatest_since = now;
        }
        self.greatest[0] = self.greatest[0].max(self.smoothed.unwrap_or(rate));
    }

    fn capacity(&self) -> f64 {
        self.greatest[0].max(self.greatest[1])
    }
}

impl Udt {
    pub(super) fn new(now: Instant, mtu: u16) -> Self {
        Self {
            mtu: mtu.into(),
            srtt: Duration::ZERO,
            slow_start: Some(FIRST_PACKETS),
            rate: 0.0,
            cut_rate: 0.0,
            cut_at: now,
            epoch: LossEpoch::default(),
            has_lost: false,
            arrival: Arrival::new(now),
            next_syn: now + SYN,
            in_flight: 0,
            due: 0.0,
            due_at: now,
            random: SplitMix64::new(SEED),
        }
    }

    /// Notes that a packet leaves. The time in which nothing was under way does not count: it measured nothing, and the
    /// rate did not grow.
    pub(super) fn record_sent(&mut self, now: Instant, bytes: u64) {
        if self.in_flight == 0 {
            (self.arrival.packets, self.arrival.since, self.next_syn) = (0.0, now, now + SYN);
        }
        self.in_flight += bytes;
        self.fall_due(now);
        self.due = (self.due - bytes as f64 / self.mtu).max(0.0);
    }

    /// Adds the packets that the rate has allowed since the last call.
    fn fall_due(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.due_at).as_secs_f64();
        self.due = (self.due + self.rate * since).min(self.rate * CLUMP + CLUMP_PACKETS);
        self.due_at = now;
    }

    pub(super) fn record_acknowledged(&mut self, bytes: u64, srtt: Duration) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.arrival.packets += bytes as f64 / self.mtu;
        self.srtt = srtt;
        if let Some(window) = &mut self.slow_start {
            *window += bytes as f64 / self.mtu;
        }
    }

    /// Runs the intervals of control that have ended. A clump of acknowledgements may end several.
    pub(super) fn acknowledged(&mut self, now: Instant) {
        self.arrival.measure(now, self.srtt);
        self.fall_due(now);
        if self.slow_start.is_some_and(|window| window > MOST_PACKETS) {
            self.end_slow_start(now);
        }
        while self.next_syn <= now {
            self.next_syn += SYN;
            if self.slow_start.is_none() && !std::mem::take(&mut self.has_lost) {
                self.grow();
            }
        }
    }

    fn grow(&mut self) {
        let mut free = self.arrival.capacity() - self.rate;
        if self.rate < self.cut_rate {
            free = free.min(self.arrival.capacity() * CAUTION);
        }
        self.rate += increase(free, self.mtu) / SYN.as_secs_f64();
    }

    fn end_slow_start(&mut self, now: Instant) {
        let Some(window) = self.slow_start.take() else { return };
        let by_window = window / (self.srtt + SYN).as_secs_f64();
        self.rate = self.arrival.smoothed.filter(|rate| *rate > 0.0).unwrap_or(by_window);
        (self.cut_rate, self.cut_at) = (self.rate, now);
    }

    /// Notes that packets were lost, the last of which left at `sent`.
    pub(super) fn lost(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if self.slow_start.is_some() {
            return self.end_slow_start(now);
        }
        self.has_lost = true;
        let packets = (bytes as f64 / self.mtu).round().max(1.0) as u32;
        if sent > self.cut_at {
            self.begin_epoch(now);
            self.go_on_losing(now, packets - 1);
        } else {
            self.go_on_losing(now, packets);
        }
    }

    fn begin_epoch(&mut self, now: Instant) {
        let LossEpoch { usual, losses, .. } = self.epoch;
        let usual = (usual * 7.0 / 8.0 + f64::from(losses) / 8.0).ceil();
        // At most the losses of an epoch.
        let spacing = self.random.below(usual as u64 + 1).max(1) as u32;
        self.epoch = LossEpoch { usual, losses: 1, decreases: 1, spacing };
        self.cut_rate = self.rate;
        self.slow_down(now);
    }

    /// Handles further losses of the same epoch. Few of them decrease the rate again.
    fn go_on_losing(&mut self, now: Instant, packets: u32) {
        for _ in 0..packets {
            self.epoch.losses += 1;
            if self.epoch.decreases < MOST_DECREASES && self.epoch.losses.is_multiple_of(self.epoch.spacing) {
                self.epoch.decreases += 1;
                self.slow_down(now);
            }
        }
    }

    fn slow_down(&mut self, now: Instant) {
        self.rate /= DECREASE;
        self.cut_at = now;
    }

    #[cfg(test)]
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn allowed(&self) -> u64 {
        let packets = self.slow_start.unwrap_or_else(|| {
            // More than a round trip of the rate is allowed only as far as acknowledgements are late.
            let held = self.rate * self.srtt.as_secs_f64();
            let wanted = held.max(self.in_flight as f64 / self.mtu + self.due);
            let arrival = self.arrival.smoothed.unwrap_or(self.rate);
            wanted.min(arrival * (self.srtt + SYN).as_secs_f64() + FIRST_PACKETS)
        });
        (packets.max(LEAST_PACKETS) * self.mtu) as u64
    }
}

impl Controller for Udt {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.record_sent(now, bytes);
    }

    fn on_ack(&mut self, _now: Instant, _sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        self.record_acknowledged(bytes, rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.in_flight = in_flight;
        self.acknowledged(now);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, _is_persistent: bool, lost_bytes: u64) {
        self.lost(now, sent, lost_bytes);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    fn window(&self) -> u64 {
        self.allowed()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        (FIRST_PACKETS * self.mtu) as u64
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
