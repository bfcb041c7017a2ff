//! When packets come out.

use super::*;

#[test]
fn a_packet_takes_its_transmission_and_the_delay() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(100, 50), pipe(1, 20));
    network.send(at_ms(3), a, Destination::Port(b), 1500, 7);
    assert_eq!(network.poll_deadline(), Some(Time::from_nanos(53_120_000)));
    assert_eq!(network.poll_delivery(Time::from_nanos(53_119_999)), None);
    assert_eq!(drain(&mut network, at_ms(60)), [(53_120_000, b.index(), 7)]);
    assert_eq!(network.poll_deadline(), None);
}

#[test]
fn back_to_back_packets_follow_at_the_rate() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(3, 10), pipe(3, 10));
    burst(&mut network, Time::ZERO, a, b, 125, 3);
    // 1000 bit at 3 Mbit/s: 333 333 1/3 ns each.
    let out = drain(&mut network, at_ms(100));
    assert_eq!(out, [(10_333_334, 1, 0), (10_666_667, 1, 1), (11_000_000, 1, 2)]);
}
