//! Tests of the pipes that a description gets.

use proptest::prelude::*;
use roost_topology::model::{Burst, Queue};
use roost_topology::units::Rate;
use roost_topology::{addresses, amend, testing};

use super::*;
use crate::Destination;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(duration: Duration) -> Time {
    Time::ZERO + duration
}

/// A link between hosts 0 and 1, and a LAN of hosts 0, 2, 3; each 100 Mbit/s and 10 ms.
fn topology() -> Topology {
    testing::nets(4, &[&[0, 1], &[0, 2, 3]])
}

/// The time that 1250 bytes take, sent at `start` from one member of a net to another.
fn crossing(topology: &Topology, net: NetIndex, [from, to]: [usize; 2], start: Duration) -> Option<Duration> {
    let (mut network, wiring) = build::<()>(topology, 1);
    wiring.begin(&mut network, Time::ZERO).unwrap();
    let [from, to] = [from, to].map(|member| wiring.port(net, member).unwrap());
    network.send(at(start), from, Destination::Port(to), 1250, ());
    let delivery = network.poll_delivery(Time::from_nanos(u64::MAX))?;
    assert_eq!(delivery.port, to);
    Some(delivery.due - at(start))
}

fn event(at: Duration, net: NetIndex, from: Option<HostIndex>, change: TopologyChange) -> Event {
    let action = Action::Net { net, from, change };
    Event { at, after: None, object: String::new(), line: 0, action }
}

fn with(changes: &[(NetIndex, Option<HostIndex>, TopologyChange)]) -> Topology {
    let events = changes.iter().map(|&(net, from, change)| event(Duration::ZERO, net, from, change));
    Topology { events: events.collect(), ..topology() }
}

#[test]
fn link_is_one_pipe_lan_two() {
    let transmission = Duration::from_micros(100);
    assert_eq!(crossing(&topology(), 0, [0, 1], ms(0)), Some(ms(10) + transmission));
    assert_eq!(crossing(&topology(), 1, [0, 1], ms(0)), Some(ms(10) + 2 * transmission));
}

#[test]
fn link_direction_combines_both_legs() {
    let burst = |enter| Some(Burst { enter, leave: 0.5, loss: 1.0 });
    let queue = |limit| Queue { limit, ..Queue::DEFAULT };
    let leg = |mbit: u64, delay, loss, enter, limit| Leg {
        rate: Rate::from_bps(mbit * 1_000_000),
        delay: ms(delay),
        loss,
        burst: burst(enter),
        jitter: ms(delay),
        queue: queue(limit),
        ..Leg::default()
    };
    let pipe = direction(&leg(10, 3, 0.5, 0.1, 7), &leg(2, 4, 0.2, 0.3, 9));
    assert_eq!((pipe.rate, pipe.delay, pipe.jitter), (Rate::from_bps(2_000_000), ms(7), ms(7)));
    assert!((pipe.loss - 0.6).abs() < 1e-12);
    assert_eq!((pipe.burst, pipe.queue), ([burst(0.1), burst(0.3)], queue(7)));
}

#[test]
fn ports_and_places_are_each_others() {
    let (_, wiring) = build::<()>(&topology(), 1);
    for (net, members) in [(0, 2), (1, 3)] {
        for member in 0..members {
            assert_eq!(wiring.place(wiring.port(net, member).unwrap()), Some((net, member)));
        }
        assert_eq!(wiring.port(net, members), None);
    }
    assert_eq!(wiring.port(2, 0), None);
}

#[test]
fn end_to_end_changes_match() {
    let rate = Rate::from_bps(1_000_000);
    let changes =
        [0, 1].map(|net| [(net, None, TopologyChange::Delay(ms(31))), (net, None, TopologyChange::Rate(rate))]);
    let changed = with(changes.as_flattened());
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(crossing(&changed, 0, [from, to], ms(0)), Some(ms(31) + ms(10)));
    }
    assert_eq!(crossing(&changed, 1, [2, 1], ms(0)), Some(ms(31) + 2 * ms(10)));
}

#[test]
fn lan_loss_combines_both_legs() {
    let (_, wiring) = build::<()>(&topology(), 1);
    let kept = |change: &PipeChange| match change.change {
        TopologyChange::Loss(loss) => 1.0 - loss,
        _ => panic!("another change"),
    };
    let legs = wiring.changes(1, None, TopologyChange::Loss(0.19)).unwrap();
    assert_eq!(legs.len(), 6);
    assert!(legs.iter().all(|leg| (kept(leg).powi(2) - 0.81).abs() < 1e-12));
    let leg = wiring.changes(1, Some(2), TopologyChange::Loss(0.19)).unwrap();
    assert!(leg.len() == 2 && leg.iter().all(|leg| kept(leg).to_bits() == 0.81_f64.to_bits()));
    let link = wiring.changes(0, None, TopologyChange::Loss(0.19)).unwrap();
    assert!(link.len() == 2 && link.iter().all(|leg| kept(leg).to_bits() == 0.81_f64.to_bits()));
}

#[test]
fn lan_jitter_and_bursts_apply_once() {
    let (_, wiring) = build::<()>(&topology(), 1);
    let burst = Some(Burst { enter: 0.1, leave: 0.2, loss: 1.0 });
    for (change, none) in [
        (TopologyChange::Burst(burst), TopologyChange::Burst(None)),
        (TopologyChange::Jitter(ms(4)), TopologyChange::Jitter(Duration::ZERO)),
    ] {
        let legs = wiring.changes(1, None, change).unwrap();
        let halves: Vec<[TopologyChange; 2]> = legs.chunks(2).map(|legs| [legs[0].change, legs[1].change]).collect();
        assert_eq!(halves, [[change, none]; 3]);
        let own = wiring.changes(1, Some(0), change).unwrap();
        assert!(own.iter().all(|leg| leg.change == change));
    }
}

#[test]
fn host_change_affects_own_direction() {
    let transmission = Duration::from_micros(100);
    let link = with(&[(0, Some(1), TopologyChange::Delay(ms(40)))]);
    assert_eq!(crossing(&link, 0, [0, 1], ms(0)), Some(ms(10) + transmission));
    assert_eq!(crossing(&link, 0, [1, 0], ms(0)), Some(ms(40) + transmission));
    // As with `tb-set-node-lan-delay`: a leg of 25 ms, and the other's of 5 ms.
    let lan = with(&[(1, Some(2), TopologyChange::Delay(ms(25)))]);
    for pair in [[0, 1], [1, 0]] {
        assert_eq!(crossing(&lan, 1, pair, ms(0)), Some(ms(30) + 2 * transmission));
    }
    assert_eq!(crossing(&lan, 1, [0, 2], ms(0)), Some(ms(10) + 2 * transmission));
}

#[test]
fn schedule_waits_for_start_and_programs() {
    let mut topology = topology();
    topology.events.push(event(ms(100), 0, None, TopologyChange::Down));
    topology.events.push(event(ms(200), 0, None, TopologyChange::Up));
    topology.events.push(Event { after: Some(0), ..event(ms(0), 0, None, TopologyChange::Delay(ms(500))) });
    let (mut network, wiring) = build::<()>(&topology, 1);
    let pipe = network.to_net(wiring.port(0, 1).unwrap()).unwrap();
    wiring.begin(&mut network, at(ms(1_000))).unwrap();
    for (now, up) in [(1_099, true), (1_100, false), (1_199, false), (1_200, true)] {
        assert_eq!(network.poll_delivery(at(ms(now))), None);
        assert_eq!(network.is_up(pipe), up, "{now}");
    }
    assert_eq!(network.config(pipe).unwrap().delay, ms(10));
}

#[test]
fn unknown_targets_are_refused() {
    let (_, wiring) = build::<()>(&topology(), 1);
    assert_eq!(wiring.changes(7, None, TopologyChange::Up), Err(WiringError::NoSuchNet(7)));
    assert_eq!(wiring.changes(0, Some(3), TopologyChange::Up), Err(WiringError::NotAMember { net: 0, host: 3 }));
}

#[test]
fn counters_use_topology_names() {
    let (mut network, wiring) = build::<()>(&topology(), 1);
    let port = |net, member| wiring.port(net, member).unwrap();
    network.send(Time::ZERO, port(0, 1), Destination::Port(port(0, 0)), 1000, ());
    network.send(Time::ZERO, port(1, 1), Destination::Others, 500, ());
    while network.poll_delivery(at(ms(7))).is_some() {}

    let counters = wiring.name(wiring.count(&network));
    let row = |link: &str, host: &str, direction: &str| {
        let named = |row: &&record::LinkRecord| (&*row.link, &*row.host, &*row.direction) == (link, host, direction);
        counters.iter().find(named).unwrap()
    };
    assert_eq!(counters.len(), 2 + 2 * 3);
    let link = row("net0", "h1", "to-net");
    assert_eq!((link.packets_in, link.bytes_in, link.in_flight, link.packets_out), (1, 1000, 1, 0));
    assert_eq!(link.rate_bps, 100_000_000);
    let up = row("net1", "h2", "to-net");
    assert_eq!((up.bytes_in, up.multicast_bytes_in, up.bytes_out), (500, 500, 500));
    assert_eq!(row("net1", "h2", "from-net").packets_in, 0);
    assert_eq!(row("net1", "h3", "from-net").multicast_bytes_in, 500);
}

proptest! {
    #[test]
    fn any_topology_wires_with_schedule(topology in testing::any_topology()) {
        let (mut network, wiring) = build::<()>(&topology, 1);
        wiring.begin(&mut network, Time::ZERO).unwrap();
        for (net, described) in topology.nets.iter().enumerate() {
            for member in 0..described.members.len() {
                prop_assert!(wiring.port(net, member).is_some());
            }
        }
        while let Some(deadline) = network.poll_deadline() {
            prop_assert!(network.poll_delivery(deadline).is_none());
        }
        prop_assert!(wiring.name(wiring.count(&network)).iter().all(|row| row.packets_in == 0));
    }
}

/// The settings of every pipe with rounded losses: the two ways add them up in different orders.
fn pipes(network: &Network<()>, wiring: &Wiring, topology: &Topology) -> Vec<PipeConfig> {
    let places = topology.nets.iter().enumerate().flat_map(|(net, it)| (0..it.members.len()).map(move |at| (net, at)));
    let ports: Vec<Port> = places.filter_map(|(net, place)| wiring.port(net, place)).collect();
    let both = ports.iter().flat_map(|port| [network.to_net(*port), network.from_net(*port)]);
    let round = |config: &PipeConfig| PipeConfig { loss: (config.loss * 1e9).round(), ..config.clone() };
    both.flatten().filter_map(|pipe| network.config(pipe)).map(round).collect()
}

proptest! {
    #[test]
    fn amended_topology_matches_changed_network(topology in testing::any_topology()) {
        let topology = addresses::assign(&topology).unwrap();
        let (mut network, wiring) = build::<()>(&topology, 1);
        let mut amended = topology.clone();
        for event in &topology.events {
            let Action::Net { net, from, change } = event.action else { continue };
            amend(&mut amended, net, from, change);
            let now = network.now();
            wiring.changes(net, from, change).unwrap().into_iter().for_each(|change| network.apply(now, change));
        }
        let (again, wired) = build::<()>(&amended, 1);
        let (changed, described) = (pipes(&network, &wiring, &topology), pipes(&again, &wired, &amended));
        prop_assert_eq!(changed, described);
    }
}
