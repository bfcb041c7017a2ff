//! Tests of the controllers alone, with the acknowledgements that a path would give them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use roost_wire::Congestion;
use roost_wire::random::SplitMix64;

use super::rate::RateController;
use super::udt::{Udt, increase};
use super::{INITIAL_WINDOW, controller};

const MTU: u16 = 1500;
const RTT: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(10);

/// UDT on a path that is never full.
struct Loop {
    udt: Udt,
    now: Instant,
    under_way: VecDeque<(Instant, Instant, u64, u64)>,
    random: SplitMix64,
    owed: f64,
}

impl Loop {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        Self { udt: Udt::new(now, MTU), now, under_way: VecDeque::new(), random: SplitMix64::new(seed), owed: 0.0 }
    }

    /// Sends for one tick as much as the window allows, at most `most` packets per second. Each packet is lost with
    /// probability `loss`.
    fn tick(&mut self, loss: f64, most: f64) {
        self.now += TICK;
        let under_way: u64 = self.under_way.iter().map(|(_, _, arrived, lost)| arrived + lost).sum();
        self.owed = (self.owed + most * TICK.as_secs_f64()).min(1e6);
        let packets = (self.udt.allowed() / u64::from(MTU)).saturating_sub(under_way).min(self.owed as u64);
        self.owed -= packets as f64;
        let is_lost = |random: &mut SplitMix64| (random.below(1 << 32) as f64) < loss * (1_u64 << 32) as f64;
        let lost = (0..packets).filter(|_| is_lost(&mut self.random)).count() as u64;
        if packets > 0 {
            self.udt.record_sent(self.now, packets * u64::from(MTU));
            self.under_way.push_back((self.now + RTT, self.now, packets - lost, lost));
        }
        while let Some((_, sent, arrived, lost)) = self.under_way.pop_front_if(|(at, ..)| *at <= self.now) {
            self.udt.record_acknowledged(arrived * u64::from(MTU), RTT);
            self.udt.acknowledged(self.now);
            if lost > 0 {
                self.udt.lost(self.now, sent, lost * u64::from(MTU));
            }
        }
    }

    /// The rate of UDT's control law, in packets per second.
    fn rate(&self) -> f64 {
        self.udt.rate()
    }
}

#[test]
fn udt_increase_scales_with_free_decades() {
    let bits = |free: f64| free / 8.0 / f64::from(MTU);
    // Packets per interval of 10 ms, of which a second has a hundred.
    let mbit_per_second = |free| increase(bits(free), f64::from(MTU)) * 1e4 * f64::from(MTU) * 8.0 / 1e6;
    for (free, expected) in [(-1e6, 1.2), (0.0, 1.2), (9e6, 1.2), (11e6, 12.0), (99e6, 12.0), (500e6, 120.0)] {
        let seen = mbit_per_second(free);
        assert!((seen / expected - 1.0).abs() < 0.01, "{free}: {seen}");
    }
}

#[test]
fn udt_climbs_hundred_packets_per_second() {
    let mut path = Loop::new(1);
    (0..100).for_each(|_| path.tick(0.0, 400.0));
    path.tick(1.0, 400.0);
    (0..10).for_each(|_| path.tick(0.0, 400.0));
    (0..50).for_each(|_| path.tick(0.0, 1e9));
    let before = path.rate();
    (0..500).for_each(|_| path.tick(0.0, 1e9));
    let slope = (path.rate() - before) / 5.0;
    assert!((slope / 100.0 - 1.0).abs() < 0.1, "{slope}");
}

/// With a loss of `p` the rate falls by a ninth `p` times per packet, and grows by 100 packets per second each second
/// in between.
#[test]
fn udt_settles_at_loss_law_rate() {
    for loss in [0.005, 0.004, 0.001] {
        let mut path = Loop::new(7);
        (0..3_000).for_each(|_| path.tick(loss, 1e9));
        let rates: Vec<f64> = (0..20_000)
            .map(|_| {
                path.tick(loss, 1e9);
                path.rate()
            })
            .collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let law = 3.0 * (100.0 / loss).sqrt();
        assert!((mean / law - 1.0).abs() < 0.25, "loss {loss}: {mean:.0} packets per second, by the law {law:.0}");
    }
}

#[test]
fn udt_does_not_grow_while_idle() {
    let mut path = Loop::new(1);
    (0..100).for_each(|_| path.tick(0.0, 400.0));
    path.tick(1.0, 400.0);
    (0..100).for_each(|_| path.tick(0.0, 400.0));
    // All packets have arrived.
    (0..10).for_each(|_| path.tick(0.0, 0.0));
    let before = path.rate();
    (0..6000).for_each(|_| path.tick(0.0, 0.0));
    (0..20).for_each(|_| path.tick(0.0, 400.0));
    assert!((path.rate() / before - 1.0).abs() < 0.05, "{before} became {}", path.rate());
}

#[test]
fn rate_restarts_after_outage() {
    let began = Instant::now();
    let (mut now, rtt) = (began, Duration::from_millis(600));
    let mut rate = RateController::new(began, 1200);
    let mut under_way: VecDeque<(Instant, u64)> = VecDeque::new();
    // A path of 2.5 MB/s that never queues, with a sender that always has enough to send.
    let mut ticks = |rate: &mut RateController, count: u32, under_way: &mut VecDeque<(Instant, u64)>| {
        for _ in 0..count {
            now += TICK;
            while let Some((sent, bytes)) = under_way.pop_front_if(|(sent, _)| *sent + rtt <= now) {
                rate.record_acknowledged(now, sent, bytes, false);
                rate.acknowledged(now, under_way.iter().map(|(_, bytes)| bytes).sum());
            }
            let room = rate.allowed().saturating_sub(under_way.iter().map(|(_, bytes)| bytes).sum());
            let bytes = room.min(25_000) / 1200 * 1200;
            if bytes > 0 {
                rate.record_sent(now, bytes);
                under_way.push_back((now, bytes));
            }
        }
        now
    };
    let at = ticks(&mut rate, 1000, &mut under_way);
    let held = 2.5e6 * rtt.as_secs_f64();
    assert!(rate.allowed() as f64 > 0.9 * held, "{}", rate.allowed());
    let lost: u64 = under_way.drain(..).map(|(_, bytes)| bytes).sum();
    rate.lost(at, lost, true);
    // The window doubles in each round trip.
    ticks(&mut rate, 60 * 8, &mut under_way);
    assert!(rate.allowed() as f64 > 0.8 * held, "{} of {held}", rate.allowed());
}

#[test]
fn rate_measures_very_long_rtt() {
    let began = Instant::now();
    let mut rate = RateController::new(began, 1200);
    let (mut now, rtt) = (began, Duration::from_millis(600));
    // Ten packets per 10 ms, acknowledged a round trip later.
    for tick in 0..300_u32 {
        now = began + TICK * tick;
        (0..10).for_each(|_| rate.record_sent(now, 1200));
        if tick >= 60 {
            (0..10).for_each(|_| rate.record_acknowledged(now, now - rtt, 1200, false));
            rate.acknowledged(now, 10 * 1200 * 60);
        }
    }
    let held = 1.2e6 * rtt.as_secs_f64();
    assert!((0.8..2.2).contains(&(rate.allowed() as f64 / held)), "{} of {held}", rate.allowed());
    // After a long silence the window starts again from its initial size.
    rate.lost(now, 600 * 1200, true);
    assert!(rate.allowed() <= INITIAL_WINDOW);
}

proptest! {
    #[test]
    fn no_window_is_ever_empty(events in prop::collection::vec((0..5_u8, 0..200_u64, 1..50_u64), 0..300)) {
        let began = Instant::now();
        let mut now = began;
        let (mut udt, mut rate) = (Udt::new(now, 1200), RateController::new(now, 1200));
        for (kind, later, packets) in events {
            now += Duration::from_millis(later);
            let (sent, bytes) = (now - Duration::from_millis(later.min(40)), packets * 1200);
            match kind {
                0 => {
                    udt.record_sent(now, bytes);
                    rate.record_sent(now, bytes);
                }
                1 => {
                    udt.record_acknowledged(bytes, Duration::from_millis(later));
                    rate.record_acknowledged(now, sent, bytes, later % 2 == 0);
                }
                2 => {
                    udt.acknowledged(now);
                    rate.acknowledged(now, bytes);
                }
                3 => {
                    udt.lost(now, sent, bytes);
                    rate.lost(sent, bytes, false);
                }
                _ => rate.lost(sent, bytes, packets > 45),
            }
            prop_assert!(udt.allowed() >= 1200 && rate.allowed() >= 1200);
        }
    }
}

#[test]
fn every_control_begins_with_a_window() {
    for congestion in Congestion::ALL {
        assert!(controller(congestion, Instant::now(), 1200).window() >= 10 * 1200, "{congestion}");
    }
}
