//! Queues: waiting packets and drops.

use roost_topology::model::Red;

use super::*;
use crate::PacketCount;

#[test]
fn full_queue_drops_next_packet() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(1, 10), pipe(1, 10));
    // 1250 bytes take 10 ms.
    assert_eq!(burst(&mut network, Time::ZERO, a, b, 1250, 60), 50);
    assert_eq!(
        network.send(Time::from_nanos(9_999_999), a, Destination::Port(b), 1250, 0),
        SendOutcome::Dropped(DropCause::Queue)
    );
    // The end of the transmission makes room for one packet.
    assert_eq!(burst(&mut network, at_ms(10), a, b, 1250, 2), 1);
    assert_eq!(burst(&mut network, at_ms(35), a, b, 1250, 5), 2);
    let total = network.counters(up(&network, a)).total();
    assert_eq!(total.dropped_queue, PacketCount { packets: 15, bytes: 15 * 1250 });
    assert_eq!(drain(&mut network, at_ms(10_000)).len(), 53);
    assert!(network.counters(up(&network, a)).total().conserves());
}

#[test]
fn packets_in_flight_leave_queue() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(PipeConfig { queue: packets(1), ..pipe(1, 1_000) }, pipe(1, 0));
    for number in 0..20 {
        assert_eq!(burst(&mut network, at_ms(10 * number), a, b, 1250, 2), 1);
    }
    assert_eq!(network.counters(up(&network, a)).total().in_flight.packets, 20);
}

#[test]
fn a_queue_in_bytes_counts_bytes() {
    let mut network = Network::new(1);
    let queue = Queue { limit: 3_000, in_bytes: true, discipline: Discipline::DropTail };
    let [a, b] = network.add_link(PipeConfig { queue, ..pipe(1, 0) }, pipe(1, 0));
    let mut fates = Vec::new();
    for bytes in [1500, 1400, 101, 100, 1] {
        fates.push(network.send(Time::ZERO, a, Destination::Port(b), bytes, bytes) == SendOutcome::Queued);
    }
    assert_eq!(fates, [true, true, false, true, false]);
    // The first has left after 12 ms.
    assert_eq!(burst(&mut network, Time::from_nanos(11_999_999), a, b, 1500, 1), 0);
    assert_eq!(burst(&mut network, at_ms(12), a, b, 1500, 1), 1);
}

#[test]
fn unlimited_rate_has_no_queue() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(PipeConfig { queue: packets(0), ..pipe(0, 10) }, pipe(0, 0));
    assert_eq!(burst(&mut network, Time::ZERO, a, b, 1250, 1_000), 1_000);
}

/// Sends `count` packets of 10 ms, one every `gap_us`; returns the drops of the queue, and the queue length at
/// each admission.
fn overload(red: Red, gap_us: u64, count: u64) -> (u64, Vec<u64>) {
    let queue = Queue { limit: 50, in_bytes: false, discipline: Discipline::Red(red) };
    let mut network = Network::new(2);
    let [a, b] = network.add_link(PipeConfig { queue, ..pipe(1, 0) }, pipe(1, 0));
    for number in 0..count {
        network.send(Time::from_nanos(number * gap_us * 1_000), a, Destination::Port(b), 1250, number as u32);
    }
    let out = drain(&mut network, Time::from_nanos(u64::MAX));
    let waited = out.iter().map(|&(due, _, number)| (due - u64::from(number) * gap_us * 1_000) / 10_000_000 - 1);
    (network.counters(up(&network, a)).total().dropped_queue.packets, waited.collect())
}

#[test]
fn red_spares_short_queue() {
    assert_eq!(overload(Red::DEFAULT, 10_000, 5_000).0, 0);
}

/// The load is a tenth above the rate, so an eleventh must be dropped. The probability reaches that between the
/// thresholds: the queue settles there and is never full.
#[test]
fn red_holds_queue_between_thresholds() {
    let red = Red { weight: 0.02, ..Red::DEFAULT };
    let (dropped, waited) = overload(red, 9_091, 40_000);
    let share = dropped as f64 / 40_000.0;
    assert!((share - 1.0 / 11.0).abs() < 0.003, "{share}");
    let settled = &waited[5_000..];
    let mean = settled.iter().sum::<u64>() as f64 / settled.len() as f64;
    assert!((5.0..15.0).contains(&mean), "{mean}");
    assert!(settled.iter().all(|&length| length < 40));
}

/// The load is twice the rate: between the thresholds too few packets are dropped. Plain RED cuts off at the
/// upper threshold; gentle RED goes on towards twice of it.
#[test]
fn gentle_red_settles_above_upper_threshold() {
    let mean = |gentle| {
        let (dropped, waited) = overload(Red { weight: 0.02, gentle, ..Red::DEFAULT }, 5_000, 40_000);
        assert!((dropped as f64 / 40_000.0 - 0.5).abs() < 0.01);
        let settled = &waited[5_000..];
        settled.iter().sum::<u64>() as f64 / settled.len() as f64
    };
    let (plain, gentle) = (mean(false), mean(true));
    assert!((12.0..16.0).contains(&plain), "{plain}");
    assert!((15.0..30.0).contains(&gentle) && gentle > plain + 1.0, "{gentle}");
}

#[test]
fn red_respects_queue_limit() {
    // With an average that hardly moves the queue fills before RED reacts.
    let (dropped, waited) = overload(Red { weight: 0.000_001, ..Red::DEFAULT }, 1_000, 200);
    assert!(waited.iter().all(|&length| length < 50), "{waited:?}");
    assert!(dropped > 100, "{dropped}");
}
