//! The switch: receivers of a packet and its counters.

use super::*;
use crate::FlowCounters;

fn lan(network: &mut Network<u32>, members: usize, leg: &PipeConfig) -> Vec<Port> {
    network.add_lan(&vec![(leg.clone(), leg.clone()); members])
}

fn multicast(network: &Network<u32>, pipe: PipeId) -> FlowCounters {
    network.counters(pipe).multicast
}

#[test]
fn unicast_crosses_two_pipes() {
    let mut network = Network::new(1);
    let ports = lan(&mut network, 4, &pipe(10, 5));
    network.send(Time::ZERO, ports[1], Destination::Port(ports[3]), 1250, 9);
    assert_eq!(drain(&mut network, at_ms(100)), [(12_000_000, ports[3].index(), 9)]);
    let quiet = network.counters(network.from_net(ports[0]).unwrap()).total();
    assert_eq!(quiet.arrived.packets, 0);
}

#[test]
fn multicast_counts_once_per_pipe() {
    let mut network = Network::new(1);
    let ports = lan(&mut network, 5, &pipe(10, 5));
    network.send(Time::ZERO, ports[2], Destination::Others, 1250, 9);
    network.send(Time::ZERO, ports[2], Destination::Port(ports[0]), 1250, 8);
    let out = drain(&mut network, at_ms(100));
    let to_others = [0, 1, 3, 4].map(|port| (12_000_000, port, 9));
    assert_eq!(out[..4], to_others);
    assert_eq!(out[4..], [(13_000_000, 0, 8)]);

    let sender = multicast(&network, up(&network, ports[2]));
    assert_eq!((sender.arrived.packets, sender.arrived.bytes, sender.delivered.packets), (1, 1250, 1));
    for &port in &ports {
        let received = multicast(&network, network.from_net(port).unwrap());
        assert_eq!(received.delivered.packets, u64::from(port != ports[2]));
        assert_eq!(multicast(&network, up(&network, port)).arrived.packets, u64::from(port == ports[2]));
    }
    assert_eq!(network.counters(up(&network, ports[2])).unicast.arrived.packets, 1);
}

#[test]
fn multicast_on_link_reaches_other_end() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 1), pipe(0, 1));
    network.send(Time::ZERO, b, Destination::Others, 60, 4);
    assert_eq!(drain(&mut network, at_ms(10)), [(1_000_000, a.index(), 4)]);
    assert_eq!(multicast(&network, up(&network, b)).delivered.bytes, 60);
}

#[test]
fn members_share_the_receivers_leg() {
    let mut network = Network::new(1);
    let ports = lan(&mut network, 3, &pipe(1, 0));
    network.send(Time::ZERO, ports[0], Destination::Port(ports[2]), 1250, 0);
    network.send(Time::ZERO, ports[1], Destination::Port(ports[2]), 1250, 1);
    // Both are at the switch after 10 ms; one waits for the other.
    assert_eq!(drain(&mut network, at_ms(100)), [(20_000_000, 2, 0), (30_000_000, 2, 1)]);
}

#[test]
fn down_leg_drops_switch_packets() {
    let mut network = Network::new(1);
    let ports = lan(&mut network, 3, &pipe(0, 10));
    let pipe = network.from_net(ports[1]).unwrap();
    network.schedule(at_ms(5), PipeChange { pipe, change: TopologyChange::Down }).unwrap();
    network.send(Time::ZERO, ports[0], Destination::Others, 100, 1);
    assert_eq!(drain(&mut network, at_ms(50)), [(20_000_000, 2, 1)]);
    assert_eq!(multicast(&network, pipe).dropped_down.packets, 1);
}

#[test]
fn change_precedes_packets_arriving_then() {
    for (change_at, arrives) in [(9_999_999, false), (10_000_000, false), (10_000_001, true)] {
        let mut network = Network::new(1);
        let ports = lan(&mut network, 2, &pipe(0, 10));
        network.send(Time::ZERO, ports[0], Destination::Port(ports[1]), 100, 1);
        let pipe = network.from_net(ports[1]).unwrap();
        let change = PipeChange { pipe, change: TopologyChange::Down };
        network.schedule(Time::from_nanos(change_at), change).unwrap();
        assert_eq!(drain(&mut network, at_ms(50)).len(), usize::from(arrives), "{change_at}");
    }
}

#[test]
fn simultaneous_packets_keep_arrival_order() {
    let mut network = Network::new(1);
    let ports = lan(&mut network, 4, &pipe(0, 10));
    for (number, member) in [2, 0, 1].into_iter().enumerate() {
        network.send(Time::ZERO, ports[member], Destination::Port(ports[3]), 100, number as u32);
    }
    assert_eq!(drain(&mut network, at_ms(50)), [0, 1, 2].map(|number| (20_000_000, 3, number)));
}

#[test]
fn host_with_two_ports_joins_both() {
    let mut network = Network::new(1);
    let [a, b] = network.add_link(pipe(0, 1), pipe(0, 1));
    let ports = lan(&mut network, 2, &pipe(0, 2));
    network.send(Time::ZERO, a, Destination::Port(b), 10, 1);
    let delivery = network.poll_delivery(at_ms(10)).unwrap();
    // The host of `b` has the port `ports[0]` as well.
    network.send(delivery.due, ports[0], Destination::Port(ports[1]), delivery.bytes, delivery.packet);
    assert_eq!(drain(&mut network, at_ms(10)), [(5_000_000, ports[1].index(), 1)]);
}
