//! The shared channel against Bianchi's model, and against the rules of its access.

use std::time::Duration;

use proptest::prelude::*;
use roost_motion::LinkState;
use roost_topology::model::{Contention, Queue};
use roost_topology::units::Rate;
use roost_wire::Time;

use super::packets;
use crate::medium::Medium;
use crate::pipe::Header;
use crate::{Destination, Network, NetworkLimits, Port};

/// The parameters of table II: the physical header takes 128 us at 1 Mbit/s, the MAC header 272 bits.
const BIANCHI: Contention = Contention {
    slot: Duration::from_micros(50),
    sifs: Duration::from_micros(28),
    difs: Duration::from_micros(128),
    window: 32,
    window_most: 1024,
    retries: u32::MAX,
    preamble: Duration::from_micros(128),
    header_bytes: 34,
    ack_bytes: 14,
    basic_rate: Rate::from_bps(1_000_000),
    sense_dbm: None,
};
const PAYLOAD_BYTES: u32 = 1023;

fn ports(count: usize) -> Vec<Port> {
    Network::<u32>::new(1).add_medium(count, Queue::DEFAULT, BIANCHI)
}

fn link(rate: Rate) -> LinkState {
    LinkState { is_up: true, is_sensed: true, rate, distance_m: 1.0, snr_db: 30.0, ..LinkState::NOWHERE }
}

/// A channel whose stations all hear each other.
fn channel(rules: Contention, count: usize, seed: u64) -> (Medium<u32>, Vec<Port>) {
    let ports = ports(count);
    let mut medium = Medium::new(rules, packets(1000), &ports, seed);
    for from in 0..count {
        (0..count).filter(|to| *to != from).for_each(|to| medium.set_link(from, to, link(rules.basic_rate)));
    }
    (medium, ports)
}

const fn to(port: Port) -> Header {
    Header { bytes: PAYLOAD_BYTES, to: Destination::Port(port) }
}

/// Runs a channel until a time; whoever gets a packet, another one is sent in its place.
fn saturated(medium: &mut Medium<u32>, ports: &[Port], until: Time) -> u64 {
    let next = |from: usize| to(ports[(from + 1) % ports.len()]);
    for from in 0..ports.len() {
        (0..2).for_each(|_| medium.offer(Time::ZERO, from, next(from), from as u32).unwrap());
    }
    let mut delivered = 0;
    while let Some(at) = medium.deadline().filter(|at| *at <= until) {
        for delivery in medium.step(at, usize::MAX).deliveries {
            let from = delivery.packet as usize;
            medium.offer(at, from, next(from), delivery.packet).unwrap();
            delivered += 1;
        }
    }
    delivered
}

/// The saturation throughput of `stations`, as a part of the channel's rate: the fixed point of equations 7 and 9, and
/// equation 13, of G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE
/// Journal on Selected Areas in Communications 18(3), 2000.
fn bianchi(stations: f64, rules: &Contention) -> f64 {
    let (window, stages) = (f64::from(rules.window), f64::from(rules.window_most / rules.window).log2());
    let attempt = |p: f64| {
        2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (window + 1.0) + p * window * (1.0 - (2.0 * p).powf(stages)))
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let tau: f64 = (low + high) / 2.0;
        // The attempts that this many collisions lead to; half a chance is a removable singularity.
        let collision = 1.0 - (1.0 - tau).powf(stations - 1.0);
        if attempt(collision + 1e-12) > tau { low = tau } else { high = tau }
    }
    let tau: f64 = (low + high) / 2.0;
    let any = 1.0 - (1.0 - tau).powf(stations);
    let alone = stations * tau * (1.0 - tau).powf(stations - 1.0) / any;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let bits_us = |bytes: u32| f64::from(bytes) * 8.0;
    let frame = us(rules.preamble) + bits_us(rules.header_bytes + PAYLOAD_BYTES);
    let success = frame + us(rules.sifs) + us(rules.preamble) + bits_us(rules.ack_bytes) + us(rules.difs);
    let collision = frame + us(rules.difs);
    let mean = (1.0 - any) * us(rules.slot) + any * alone * success + any * (1.0 - alone) * collision;
    any * alone * bits_us(PAYLOAD_BYTES) / mean
}

#[test]
fn saturation_throughput_is_bianchis() {
    for (window, window_most) in [(32, 256), (32, 1024), (128, 1024)] {
        let rules = Contention { window, window_most, ..BIANCHI };
        for count in [5, 10, 20, 30, 50] {
            let (mut medium, ports) = channel(rules, count, 7);
            let seconds = 100.0;
            let delivered = saturated(&mut medium, &ports, Time::ZERO + Duration::from_secs_f64(seconds));
            let simulated = delivered as f64 * f64::from(PAYLOAD_BYTES) * 8.0 / (seconds * 1e6);
            let model = bianchi(count as f64, &rules);
            println!("W {window}, most {window_most}, n {count}: {simulated:.4} simulated, {model:.4} in the model");
            assert!((simulated / model - 1.0).abs() < 0.02, "{window} {window_most} {count}: {simulated} {model}");
        }
    }
}

#[test]
fn lone_station_waits_half_a_window() {
    // A frame of 8584 us, SIFS, an acknowledgement of 240 us, DIFS, and 15.5 slots on average.
    let alone = 8184.0 / (8584.0 + 28.0 + 240.0 + 128.0 + 15.5 * 50.0);
    assert!((bianchi(1.0, &BIANCHI) - alone).abs() < 1e-6, "{} {alone}", bianchi(1.0, &BIANCHI));
}

fn us(medium: &mut Medium<u32>) -> Vec<(u64, usize)> {
    let mut out = Vec::new();
    while let Some(at) = medium.deadline() {
        out.extend(
            medium.step(at, usize::MAX).deliveries.iter().map(|delivery| (at.as_nanos() / 1000, delivery.station)),
        );
    }
    out
}

#[test]
fn lone_packet_waits_for_difs_alone() {
    let (mut medium, ports) = channel(BIANCHI, 3, 1);
    medium.offer(Time::ZERO, 0, to(ports[1]), 0).unwrap();
    // DIFS, and 128 us and 8456 bits on the air.
    assert_eq!(us(&mut medium), [(128 + 128 + 8456, 1)]);
    let late = Time::from_nanos(50_000_000);
    medium.offer(late, 0, Header { bytes: PAYLOAD_BYTES, to: Destination::Others }, 0).unwrap();
    // The channel was idle for long. All receive it.
    assert_eq!(us(&mut medium), [(58_584, 1), (58_584, 2)]);
}

#[test]
fn two_at_once_collide_and_retry() {
    let (mut medium, ports) = channel(BIANCHI, 3, 3);
    medium.offer(Time::ZERO, 0, to(ports[2]), 0).unwrap();
    medium.offer(Time::ZERO, 1, to(ports[2]), 0).unwrap();
    let out = us(&mut medium);
    assert_eq!(out.len(), 2);
    assert!(out.iter().all(|(at, station)| *at > 2 * 8584 && *station == 2), "{out:?}");
    assert!(medium.sent(0).total().conserves() && medium.received(2).total().conserves());
}

#[test]
fn hidden_stations_collide_more() {
    let lost = |is_hidden: bool| {
        let rules = Contention { retries: 3, ..BIANCHI };
        let (mut medium, ports) = channel(rules, 3, 5);
        if is_hidden {
            let hidden = LinkState { is_up: false, is_sensed: false, ..link(rules.basic_rate) };
            medium.set_link(0, 1, hidden);
            medium.set_link(1, 0, hidden);
        }
        for round in 0..200_u64 {
            let at = Time::from_nanos(round * 40_000_000);
            while medium.deadline().is_some_and(|due| due <= at) {
                medium.step(medium.deadline().unwrap(), usize::MAX);
            }
            medium.offer(at, 0, to(ports[2]), 0).unwrap();
            medium.offer(at + Duration::from_millis(1), 1, to(ports[2]), 0).unwrap();
        }
        us(&mut medium);
        medium.sent(0).total().dropped_loss.packets + medium.sent(1).total().dropped_loss.packets
    };
    assert!(lost(false) < 5 && lost(true) > 20, "{} {}", lost(false), lost(true));
}

#[test]
fn unreachable_station_is_given_up() {
    let rules = Contention { retries: 4, ..BIANCHI };
    let (mut medium, ports) = channel(rules, 2, 1);
    medium.set_link(0, 1, LinkState::NOWHERE);
    medium.offer(Time::ZERO, 0, to(ports[1]), 0).unwrap();
    assert_eq!(us(&mut medium), []);
    let sent = medium.sent(0).total();
    assert_eq!((sent.dropped_loss.packets, sent.in_flight.packets), (1, 0));
}

#[test]
fn shared_channel_obeys_limit_of_network() {
    let limits = NetworkLimits { network_packets: 2, ..NetworkLimits::default() };
    let mut network = Network::with_limits(1, limits);
    let ports = network.add_medium(4, packets(100), BIANCHI);
    for from in 0..4 {
        let others = (0..4).filter(|to| *to != from);
        others.for_each(|to| network.air.media[0].set_link(from, to, link(BIANCHI.basic_rate)));
    }
    for _ in 0..20 {
        network.send(Time::ZERO, ports[0], Destination::Others, 500, 0);
        network.poll_delivery(Time::ZERO);
    }
    while let Some(at) = network.poll_deadline() {
        while network.poll_delivery(at).is_some() {}
        assert!(network.held() <= 3, "{}", network.held());
    }
    assert!(network.overflows() > 10, "{}", network.overflows());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_are_conserved_and_runs_repeat(
        packets in prop::collection::vec((0_u64..200_000, 0_usize..5, 0_usize..6, 60_u32..1500), 1..80),
        links in prop::collection::vec((any::<bool>(), any::<bool>(), 0.0..1.0_f64), 25),
        seed in any::<u64>(),
    ) {
        let run = || {
            let rules = Contention { retries: 3, ..Contention::OFDM };
            let ports = ports(5);
            let mut medium = Medium::new(rules, super::packets(10), &ports, seed);
            for (place, (is_up, is_sensed, loss)) in links.iter().enumerate() {
                let state = LinkState { is_up: *is_up, is_sensed: *is_sensed, loss: *loss, ..link(rules.basic_rate) };
                if place / 5 != place % 5 {
                    medium.set_link(place / 5, place % 5, state);
                }
            }
            let mut sorted = packets.clone();
            sorted.sort_unstable();
            let mut out = Vec::new();
            for (number, (at_us, from, to, bytes)) in sorted.into_iter().enumerate() {
                let at = Time::from_nanos(at_us * 1000);
                while let Some(due) = medium.deadline().filter(|due| *due <= at) {
                    out.extend(medium.step(due, usize::MAX).deliveries.iter().map(|it| (due, it.station, it.packet)));
                }
                let to = ports.get(to).filter(|_| to != from).map_or(Destination::Others, |port| Destination::Port(*port));
                let _ = medium.offer(at, from, Header { bytes, to }, number as u32);
            }
            while let Some(due) = medium.deadline() {
                out.extend(medium.step(due, usize::MAX).deliveries.iter().map(|it| (due, it.station, it.packet)));
            }
            let counters: Vec<_> = (0..5).flat_map(|station| [medium.sent(station), medium.received(station)]).collect();
            (out, counters)
        };
        let (out, counters) = run();
        for counters in &counters {
            prop_assert!(counters.total().conserves() && counters.total().in_flight.packets == 0);
        }
        prop_assert_eq!((out, counters), run());
    }
}
