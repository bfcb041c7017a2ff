//! Changes of a pipe with packets inside.

use roost_topology::model::Burst;

use super::*;

#[test]
fn down_pipe_refuses_but_still_delivers() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 50), pipe(0, 50));
    plan(&mut network, 100, a, TopologyChange::Down);
    plan(&mut network, 200, a, TopologyChange::Up);
    let mut fates = Vec::new();
    for (number, nanos) in [99_999_999, 100_000_000, 199_999_999, 200_000_000].into_iter().enumerate() {
        fates.push(network.send(Time::from_nanos(nanos), a, Destination::Port(b), 100, number as u32));
    }
    let down = SendOutcome::Dropped(DropCause::Down);
    assert_eq!(fates, [SendOutcome::Queued, down, down, SendOutcome::Queued]);
    assert_eq!(drain(&mut network, at_ms(300)), [(149_999_999, 1, 0), (250_000_000, 1, 3)]);
    let total = network.counters(up(&network, a)).total();
    assert_eq!((total.dropped_down.packets, total.dropped_down.bytes), (2, 200));
}

#[test]
fn packet_in_service_keeps_old_rate() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(1, 0), pipe(1, 0));
    // 1250 bytes: 10 ms at 1 Mbit/s, 5 ms at 2 Mbit/s.
    burst(&mut network, Time::ZERO, a, b, 1250, 5);
    plan(&mut network, 15, a, TopologyChange::Rate(Rate::from_bps(2_000_000)));
    plan(&mut network, 27, a, TopologyChange::Rate(Rate::UNLIMITED));
    assert_eq!(dues_us(&mut network, at_ms(100)), [10_000, 20_000, 25_000, 30_000, 30_000]);
}

#[test]
fn rate_change_at_transmission_end() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(1, 0), pipe(1, 0));
    burst(&mut network, Time::ZERO, a, b, 1250, 3);
    plan(&mut network, 10, a, TopologyChange::Rate(Rate::from_bps(2_000_000)));
    // The second begins at 10 ms, before the change at that instant.
    assert_eq!(dues_us(&mut network, at_ms(100)), [10_000, 20_000, 25_000]);
}

#[test]
fn a_shorter_delay_does_not_overtake() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 100), pipe(0, 100));
    network.send(at_ms(0), a, Destination::Port(b), 100, 0);
    plan(&mut network, 10, a, TopologyChange::Delay(Duration::from_millis(20)));
    network.send(at_ms(20), a, Destination::Port(b), 100, 1);
    network.send(at_ms(90), a, Destination::Port(b), 100, 2);
    assert_eq!(drain(&mut network, at_ms(500)), [(100_000_000, 1, 0), (100_000_000, 1, 1), (110_000_000, 1, 2)]);
}

#[test]
fn delay_change_affects_later_transmissions() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(1, 100), pipe(1, 100));
    burst(&mut network, Time::ZERO, a, b, 1250, 3);
    plan(&mut network, 15, a, TopologyChange::Delay(Duration::from_millis(200)));
    assert_eq!(dues_us(&mut network, at_ms(500)), [110_000, 220_000, 230_000]);

    // The only packet inside is in transmission: the deadline follows the change.
    network.send(at_ms(1_000), a, Destination::Port(b), 1250, 0);
    assert_eq!(network.poll_deadline(), Some(at_ms(1_210)));
    network.apply(at_ms(1_005), PipeChange { pipe: up(&network, a), change: TopologyChange::Delay(Duration::ZERO) });
    assert_eq!(network.poll_deadline(), Some(at_ms(1_010)));
    assert_eq!(dues_us(&mut network, at_ms(2_000)), [1_010_000]);
}

#[test]
fn changes_while_down_apply_on_up() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(1, 0), pipe(1, 0));
    burst(&mut network, Time::ZERO, a, b, 1250, 4);
    plan(&mut network, 5, a, TopologyChange::Down);
    plan(&mut network, 6, a, TopologyChange::Rate(Rate::from_bps(10_000_000)));
    plan(&mut network, 6, a, TopologyChange::Down);
    plan(&mut network, 25, a, TopologyChange::Up);
    plan(&mut network, 26, a, TopologyChange::Up);
    drain(&mut network, at_ms(7));
    assert!(!network.is_up(up(&network, a)));
    assert_eq!(network.config(up(&network, a)).unwrap().rate, Rate::from_bps(10_000_000));
    assert_eq!(dues_us(&mut network, at_ms(100)), [10_000, 20_000, 30_000, 31_000]);
    assert!(network.is_up(up(&network, a)));
}

#[test]
fn smaller_queue_applies_to_arrivals() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(1, 0), pipe(1, 0));
    assert_eq!(burst(&mut network, Time::ZERO, a, b, 1250, 10), 10);
    plan(&mut network, 5, a, TopologyChange::Queue(packets(3)));
    // At 75 ms seven have left; three are inside.
    assert_eq!(burst(&mut network, at_ms(75), a, b, 1250, 1), 0);
    assert_eq!(burst(&mut network, at_ms(80), a, b, 1250, 2), 1);
    assert_eq!(drain(&mut network, at_ms(500)).len(), 11);
}

#[test]
fn loss_bursts_and_jitter_can_change() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 0), pipe(0, 0));
    let always = Burst { enter: 1.0, leave: 0.0, loss: 1.0 };
    plan(&mut network, 10, a, TopologyChange::Loss(1.0));
    plan(&mut network, 20, a, TopologyChange::Loss(0.0));
    plan(&mut network, 30, a, TopologyChange::Burst(Some(always)));
    plan(&mut network, 40, a, TopologyChange::Burst(None));
    plan(&mut network, 50, a, TopologyChange::Jitter(Duration::from_nanos(1)));
    let taken: Vec<u32> = (0..5).map(|n| burst(&mut network, at_ms(10 * n + 5), a, b, 1, 10)).collect();
    assert_eq!(taken, [10, 0, 10, 0, 10]);
    drain(&mut network, at_ms(50));
    burst(&mut network, at_ms(60), a, b, 1, 10);
    let (first, last) = (60_000_000, 60_000_001);
    assert!(drain(&mut network, at_ms(70)).iter().all(|&(due, _, _)| due == first || due == last));
}

#[test]
fn simultaneous_changes_precede_sent_packets() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 0), pipe(0, 0));
    plan(&mut network, 10, a, TopologyChange::Delay(Duration::from_millis(7)));
    plan(&mut network, 10, a, TopologyChange::Delay(Duration::from_millis(3)));
    network.send(at_ms(10), a, Destination::Port(b), 1, 0);
    assert_eq!(dues_us(&mut network, at_ms(20)), [13_000]);
    // A change scheduled in the past takes effect with the next call.
    plan(&mut network, 5, a, TopologyChange::Down);
    assert_eq!(network.poll_deadline(), Some(at_ms(20)));
    assert_eq!(network.send(at_ms(20), a, Destination::Port(b), 1, 0), SendOutcome::Dropped(DropCause::Down));
}
