//! Exact times of deliveries.

use super::*;
use crate::NetworkLimits;

#[test]
fn packet_takes_transmission_plus_delay() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(100, 50), pipe(1, 20));
    network.send(at_ms(3), a, Destination::Port(b), 1500, 7);
    assert_eq!(network.poll_deadline(), Some(Time::from_nanos(53_120_000)));
    assert_eq!(network.poll_delivery(Time::from_nanos(53_119_999)), None);
    assert_eq!(drain(&mut network, at_ms(60)), [(53_120_000, b.index(), 7)]);
    assert_eq!(network.poll_deadline(), None);
}

#[test]
fn back_to_back_packets_match_rate() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(3, 10), pipe(3, 10));
    burst(&mut network, Time::ZERO, a, b, 125, 3);
    // 1000 bit at 3 Mbit/s: 333 333 1/3 ns each.
    let out = drain(&mut network, at_ms(100));
    assert_eq!(out, [(10_333_334, 1, 0), (10_666_667, 1, 1), (11_000_000, 1, 2)]);
}

#[test]
fn long_run_has_exact_rate() {
    let mut network = Network::new(1);
    let rate = Rate::from_bps(9_999_991);
    let [a, b] = network.add_link(PipeConfig { rate, ..roomy(0, 0) }, pipe(1, 0));
    burst(&mut network, Time::ZERO, a, b, 1514, 50_000);
    let last = drain(&mut network, Time::from_nanos(u64::MAX)).pop().unwrap();
    assert_eq!(u128::from(last.0), (50_000 * 1514 * 8_000_000_000_u128).div_ceil(9_999_991));
}

#[test]
fn time_outside_shortens_delay() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(100, 50), pipe(100, 1));
    for port in [a, b] {
        let pipe = up(&network, port);
        network.set_outside(pipe, Duration::from_millis(2));
    }
    network.send(Time::ZERO, a, Destination::Port(b), 1250, 0);
    network.send(Time::ZERO, b, Destination::Port(a), 1250, 1);
    // A shorter delay leaves the transmission.
    assert_eq!(drain(&mut network, at_ms(100)), [(100_000, a.index(), 1), (48_100_000, b.index(), 0)]);
    plan(&mut network, 200, a, TopologyChange::Delay(Duration::from_millis(30)));
    network.send(at_ms(300), a, Destination::Port(b), 1250, 2);
    assert_eq!(drain(&mut network, at_ms(400)), [(328_100_000, b.index(), 2)]);
}

#[test]
fn directions_are_apart() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(100, 5), pipe(1, 40));
    network.send(Time::ZERO, a, Destination::Port(b), 1250, 0);
    network.send(Time::ZERO, b, Destination::Port(a), 1250, 1);
    assert_eq!(drain(&mut network, at_ms(100)), [(5_100_000, b.index(), 0), (50_000_000, a.index(), 1)]);
}

#[test]
fn unlimited_pipe_delivers_at_once() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 0), pipe(0, 0));
    assert_eq!(burst(&mut network, at_ms(1), a, b, 1500, 1000), 1000);
    assert!(drain(&mut network, at_ms(1)).iter().all(|&(due, _, _)| due == 1_000_000));
}

/// Four links in a row; each receiver forwards a packet at the time of its delivery.
#[test]
fn hops_add_up_exactly() {
    let mut network = Network::new(1);
    let hops: Vec<[Port; 2]> = (0..4).map(|_| network.add_link(pipe(10, 7), pipe(10, 7))).collect();
    for number in 0..3 {
        network.send(Time::ZERO, hops[0][0], Destination::Port(hops[0][1]), 1250, number);
    }
    let mut arrived = Vec::new();
    while let Some(delivery) = network.poll_delivery(at_ms(1_000)) {
        match hops.iter().position(|hop| hop[1] == delivery.port) {
            Some(3) => arrived.push((delivery.due.as_nanos(), delivery.packet)),
            Some(hop) => {
                let [from, to] = hops[hop + 1];
                let fate = network.send(delivery.due, from, Destination::Port(to), delivery.bytes, delivery.packet);
                assert_eq!(fate, SendOutcome::Queued);
            }
            None => panic!("nothing is sent back"),
        }
    }
    // 1 ms of transmission and 7 ms of delay for each hop; later packets follow one transmission apart.
    assert_eq!(arrived, [(32_000_000, 0), (33_000_000, 1), (34_000_000, 2)]);
}

#[test]
fn a_late_caller_changes_nothing() {
    let run = |step: u64| {
        let mut network = Network::new(5);
        let jittery = PipeConfig { jitter: Duration::from_millis(9), loss: 0.1, ..pipe(1, 3) };
        let [a, b] = network.add_link(jittery, pipe(1, 3));
        let mut out = Vec::new();
        for number in 0..500 {
            network.send(at_ms(u64::from(number)), a, Destination::Port(b), 100, number);
            if u64::from(number) % step == 0 {
                out.extend(drain(&mut network, at_ms(u64::from(number))));
            }
        }
        out.extend(drain(&mut network, at_ms(2_000)));
        out
    };
    assert_eq!(run(1), run(97));
}

#[test]
fn jitter_delays_and_keeps_the_order() {
    let mut network = Network::new(3);
    let jittery = PipeConfig { jitter: Duration::from_millis(10), ..pipe(0, 20) };
    let [a, b] = network.add_link(jittery, pipe(0, 0));
    // The packets are further apart than the jitter: each delay is independent.
    for number in 0..2_000 {
        network.send(at_ms(20 * number), a, Destination::Port(b), 100, number as u32);
    }
    let out = drain(&mut network, at_ms(100_000));
    let extra: Vec<u64> = out.iter().map(|&(due, _, number)| due - u64::from(number) * 20_000_000).collect();
    assert!(extra.iter().all(|extra| (20_000_000..=30_000_000).contains(extra)));
    let mean = extra.iter().sum::<u64>() / 2_000;
    assert!((24_800_000..25_200_000).contains(&mean), "{mean}");

    // The packets are close together: jitter would reorder many, and none may be.
    let start = 200_000;
    for number in 0..2_000 {
        network.send(at_ms(start + number), a, Destination::Port(b), 100, number as u32);
    }
    let out = drain(&mut network, at_ms(300_000));
    assert!(out.iter().map(|&(_, _, number)| number).eq(0..2_000));
    assert!(out.is_sorted());
}

#[test]
fn unreachable_destination_is_not_counted() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 0), pipe(0, 0));
    let [c, _] = network.add_link(pipe(0, 0), pipe(0, 0));
    let lan = network.add_lan(&[(pipe(0, 0), pipe(0, 0)), (pipe(0, 0), pipe(0, 0))]);
    let other = network.add_lan(&[(pipe(0, 0), pipe(0, 0))]);
    for (from, to) in [(a, a), (a, c), (a, lan[0]), (lan[0], a), (lan[0], lan[0]), (lan[0], other[0])] {
        assert_eq!(network.send(Time::ZERO, from, Destination::Port(to), 1, 0), SendOutcome::Unreachable);
    }
    assert_eq!(network.counters(up(&network, a)).total().arrived.packets, 0);
    assert_eq!(network.send(Time::ZERO, other[0], Destination::Others, 1, 0), SendOutcome::Queued);
    assert_eq!(drain(&mut network, at_ms(1)), []);
    assert_eq!((network.held(), b.index()), (0, 1));
}

#[test]
fn packets_beyond_limits_are_dropped() {
    let limits = NetworkLimits { pipe_packets: 3, network_packets: 5, changes: 1 };
    let mut network = Network::with_limits(1, limits);
    let [a, b] = network.add_link(pipe(0, 10), pipe(0, 10));
    assert_eq!(burst(&mut network, Time::ZERO, a, b, 100, 4), 3);
    assert_eq!(burst(&mut network, Time::ZERO, b, a, 100, 4), 2);
    let total = network.counters(up(&network, b)).total();
    assert_eq!((total.dropped_limit.packets, total.dropped_limit.bytes, network.overflows()), (2, 200, 3));
    assert!(total.conserves());
    // Delivered packets count as held until they are fetched.
    assert_eq!(network.send(at_ms(20), a, Destination::Port(b), 1, 0), SendOutcome::Dropped(DropCause::Limit));
    assert_eq!(drain(&mut network, at_ms(20)).len(), 5);
    assert_eq!(network.send(at_ms(20), a, Destination::Port(b), 1, 0), SendOutcome::Queued);

    plan(&mut network, 30, a, TopologyChange::Down);
    let change = PipeChange { pipe: up(&network, a), change: TopologyChange::Up };
    assert!(network.schedule(at_ms(31), change).is_err());
    drain(&mut network, at_ms(30));
    assert!(network.schedule(at_ms(31), change).is_ok());
}
