//! Links of radios in a whole network.

use std::time::Duration;

use roost_topology::Topology;
use roost_wire::Time;

use super::at_ms;
use crate::wiring::{Wiring, build};
use crate::{Destination, Network};

const HOSTS: &str = "lenient = true\n[[host]]\nname = ['a', 'b', 'c']\n\
    [[motion.host]]\nname = 'a'\nposition = [0, 0]\n[[motion.host]]\nname = 'b'\nposition = [900, 0]\n\
    [[motion.host]]\nname = 'c'\npath = [{ at = '0s', position = [100, 0] }, { at = '10s', position = [3100, 0] }]\n\
    [[radio]]\nname = 'r'\nmembers = ['a', 'b', 'c']\nfrequency = '2.4GHz'\npower = '20dBm'\nbandwidth = '20MHz'\n\
    rate = '8Mbit'\nrange = '1km'\n";

fn network(links: &str) -> (Network<u32>, Wiring, Topology) {
    let mut topology = roost_topology::file::parse("t", &format!("{HOSTS}{links}")).unwrap();
    roost_motion::resolve(&mut topology, |_| Err(String::new())).unwrap();
    let (network, wiring) = build(&topology, 1);
    (network, wiring, topology)
}

/// Sends a packet of 1000 bytes; returns the receiver and the time that it takes.
fn carried(network: &mut Network<u32>, wiring: &Wiring, ms: u64, ends: [usize; 2]) -> Option<u64> {
    let [from, to] = ends.map(|member| wiring.port(0, member).unwrap());
    network.send(at_ms(ms), from, Destination::Port(to), 1000, 0);
    let delivery = network.poll_delivery(at_ms(ms + 200))?;
    assert_eq!(delivery.port, to);
    Some(delivery.due.as_nanos() - ms * 1_000_000)
}

#[test]
fn pair_is_down_beyond_its_range() {
    let (mut network, wiring, _) = network("");
    // 1 ms at 8 Mbit/s, and light over 900 m, 100 m and 800 m.
    assert_eq!(carried(&mut network, &wiring, 10, [0, 1]), Some(1_003_002));
    assert_eq!(carried(&mut network, &wiring, 1000, [0, 2]), Some(1_000_334));
    // Before the start of the schedule nothing moves.
    assert_eq!(carried(&mut network, &wiring, 60_000, [2, 1]), Some(1_002_669));
    wiring.begin(&mut network, at_ms(61_000)).unwrap();
    assert!(carried(&mut network, &wiring, 63_000, [0, 2]).is_some());
    assert_eq!(carried(&mut network, &wiring, 65_000, [0, 2]), None);
    assert!(carried(&mut network, &wiring, 65_500, [1, 2]).is_some());
    assert_eq!(carried(&mut network, &wiring, 68_000, [2, 1]), None);
    let total = wiring.name(wiring.count(&network));
    assert!(total.iter().all(|link| link.packets_in == link.packets_out + link.dropped_down), "{total:?}");
    assert_eq!(total.iter().map(|link| link.dropped_down).sum::<u64>(), 2);
}

#[test]
fn multicast_reaches_who_is_in_range() {
    for links in ["", "links = 'shared'\n"] {
        let (mut network, wiring, _) = network(links);
        wiring.begin(&mut network, Time::ZERO).unwrap();
        let from = wiring.port(0, 0).unwrap();
        let mut reached = |ms| {
            network.send(at_ms(ms), from, Destination::Others, 500, 0);
            let mut reached: Vec<usize> = Vec::new();
            while let Some(delivery) = network.poll_delivery(at_ms(ms + 100)) {
                reached.push(delivery.port.index());
            }
            reached.sort_unstable();
            reached
        };
        assert_eq!((reached(100), reached(5000)), (vec![1, 2], vec![1]), "{links}");
        assert_eq!(network.held(), 0);
    }
}

#[test]
fn shared_channel_carries_frames_in_turn() {
    let (mut network, wiring, _) = network("links = 'shared'\n");
    let [a, b, c] = [0, 1, 2].map(|member| wiring.port(0, member).unwrap());
    for (from, to) in [(a, b), (c, b)] {
        (0..10).for_each(|number| {
            network.send(Time::ZERO, from, Destination::Port(to), 1000, number);
        });
    }
    let mut dues = Vec::new();
    while let Some(delivery) = network.poll_delivery(at_ms(1000)) {
        dues.push(delivery.due);
    }
    assert_eq!((dues.len(), network.held()), (20, 0));
    // Twenty frames of more than a millisecond, one after the other.
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] > Duration::from_millis(1)), "{dues:?}");
}

#[test]
fn access_point_carries_between_its_hosts() {
    let links = "links = 'access'\naccess = ['a', 'b']\nhysteresis = '3dB'\nhandover = '100ms'\n";
    let (mut network, wiring, _) = network(links);
    wiring.begin(&mut network, Time::ZERO).unwrap();
    assert!(carried(&mut network, &wiring, 100, [2, 0]).is_some());
    // The first access point takes it to the other.
    assert!(carried(&mut network, &wiring, 1000, [2, 1]).is_some());
    assert!(carried(&mut network, &wiring, 3000, [1, 2]).is_some());
    // Beyond a kilometer from the second one there is nobody.
    assert_eq!(carried(&mut network, &wiring, 7000, [2, 0]), None);
}
