//! Invariants of any network under any traffic and changes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use roost_topology::model::{Burst, PacketOrder, Red};

use super::*;
use crate::{Delivery, PipeCounters};

/// A link, or a LAN of some members.
#[derive(Clone, Debug)]
enum TestNet {
    Link(Box<[PipeConfig; 2]>),
    Lan(Vec<(PipeConfig, PipeConfig)>),
}

/// A step, after a pause in nanoseconds. Ports, destinations and pipes are numbers taken modulo their count.
#[derive(Clone, Debug)]
enum TestStep {
    Send { from: usize, to: Option<usize>, bytes: u32 },
    Schedule { after: u64, pipe: usize, change: TopologyChange },
    Apply { pipe: usize, change: TopologyChange },
    Poll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberedPacket {
    number: u32,
    from: Port,
    sent: Time,
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![Just(Rate::UNLIMITED), (100_000_u64..1_000_000_000).prop_map(Rate::from_bps)]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 0_u64..1_000, 0_u64..30_000_000].prop_map(Duration::from_nanos)
}

fn probability() -> impl Strategy<Value = f64> {
    prop_oneof![4 => Just(0.0), 2 => 0.0..0.3, 1 => Just(1.0)]
}

fn losing_bursts() -> impl Strategy<Value = Option<Burst>> {
    prop::option::weighted(0.3, (0.0..0.3, 0.1..1.0, 0.0..=1.0))
        .prop_map(|burst| burst.map(|(enter, leave, loss)| Burst { enter, leave, loss }))
}

fn queue() -> impl Strategy<Value = Queue> {
    let red = any::<bool>().prop_map(|gentle| Discipline::Red(Red { weight: 0.2, gentle, ..Red::DEFAULT }));
    (0_u32..60, any::<bool>(), prop_oneof![Just(Discipline::DropTail), red]).prop_map(
        |(limit, in_bytes, discipline)| Queue {
            limit: if in_bytes { limit * 500 } else { limit },
            in_bytes,
            discipline,
        },
    )
}

fn config() -> impl Strategy<Value = PipeConfig> {
    let order = prop_oneof![3 => Just(PacketOrder::Kept), 1 => Just(PacketOrder::Free)];
    let trace = prop::option::weighted(0.3, trace::any_playback());
    (rate(), duration(), duration(), probability(), losing_bursts(), queue(), order, trace).prop_map(
        |(rate, delay, jitter, loss, burst, queue, order, trace)| PipeConfig {
            rate,
            delay,
            jitter,
            order,
            loss: if loss < 1.0 { loss } else { 0.0 },
            burst: [burst, None],
            queue,
            trace,
        },
    )
}

fn part() -> impl Strategy<Value = TestNet> {
    prop_oneof![
        [config(), config()].prop_map(|pair| TestNet::Link(Box::new(pair))),
        prop::collection::vec((config(), config()), 1..5).prop_map(TestNet::Lan),
    ]
}

fn change() -> impl Strategy<Value = TopologyChange> {
    prop_oneof![
        2 => Just(TopologyChange::Up),
        1 => Just(TopologyChange::Down),
        1 => rate().prop_map(TopologyChange::Rate),
        1 => duration().prop_map(TopologyChange::Delay),
        1 => probability().prop_map(TopologyChange::Loss),
        1 => losing_bursts().prop_map(TopologyChange::Burst),
        1 => duration().prop_map(TopologyChange::Jitter),
        1 => queue().prop_map(TopologyChange::Queue),
    ]
}

fn step() -> impl Strategy<Value = (u64, TestStep)> {
    let step = prop_oneof![
        12 => (any::<usize>(), prop::option::weighted(0.8, any::<usize>()), 0_u32..2_000)
            .prop_map(|(from, to, bytes)| TestStep::Send { from, to, bytes }),
        1 => (0_u64..50_000_000, any::<usize>(), change())
            .prop_map(|(after, pipe, change)| TestStep::Schedule { after, pipe, change }),
        1 => (any::<usize>(), change()).prop_map(|(pipe, change)| TestStep::Apply { pipe, change }),
        4 => Just(TestStep::Poll),
    ];
    (prop_oneof![Just(0_u64), 0_u64..100, 0_u64..3_000_000], step)
}

/// A network, with the least time that a packet can take in each pipe.
struct TestNetwork {
    keeps_order: bool,
    network: Network<NumberedPacket>,
    ports: Vec<Port>,
    /// By port: the ports it reaches.
    neighbours: Vec<Vec<Port>>,
    lans: Vec<Vec<Port>>,
    pipes: Vec<PipeId>,
    least: BTreeMap<PipeId, (Duration, Rate)>,
    now: Time,
    trace: Vec<Delivery<NumberedPacket>>,
}

impl TestNetwork {
    fn new(parts: &[TestNet], seed: u64) -> Self {
        let mut network = Network::new(seed);
        let (mut ports, mut neighbours, mut lans) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let added = match part {
                TestNet::Link(pair) => network.add_link(pair[0].clone(), pair[1].clone()).to_vec(),
                TestNet::Lan(members) => network.add_lan(members),
            };
            for &port in &added {
                neighbours.push(added.iter().copied().filter(|&other| other != port).collect());
            }
            ports.extend(&added);
            if let TestNet::Lan(_) = part {
                lans.push(added);
            }
        }
        let mut pipes: Vec<PipeId> =
            ports.iter().flat_map(|&port| [network.to_net(port), network.from_net(port)]).flatten().collect();
        pipes.sort_unstable();
        pipes.dedup();
        let least = pipes.iter().map(|&pipe| {
            let config = network.config(pipe).unwrap();
            let rate = if config.trace.is_some() { Rate::UNLIMITED } else { config.rate };
            (pipe, (config.delay, rate))
        });
        let least = least.collect();
        let keeps_order = pipes.iter().all(|&pipe| network.config(pipe).unwrap().order == PacketOrder::Kept);
        Self { keeps_order, network, ports, neighbours, lans, pipes, least, now: Time::ZERO, trace: Vec::new() }
    }

    fn step(&mut self, number: u32, step: &TestStep) {
        match *step {
            TestStep::Send { from, to, bytes } => {
                let from = self.ports[from % self.ports.len()];
                let others = &self.neighbours[from.index()];
                let to = match to {
                    Some(to) if !others.is_empty() => Destination::Port(others[to % others.len()]),
                    _ => Destination::Others,
                };
                let packet = NumberedPacket { number, from, sent: self.now };
                self.network.send(self.now, from, to, bytes, packet);
            }
            TestStep::Schedule { after, pipe, change } => {
                let change = self.change(pipe, change);
                self.network.schedule(self.now + Duration::from_nanos(after), change).unwrap();
            }
            TestStep::Apply { pipe, change } => {
                let change = self.change(pipe, change);
                self.network.apply(self.now, change);
            }
            TestStep::Poll => self.poll(self.now),
        }
    }

    fn change(&mut self, pipe: usize, change: TopologyChange) -> PipeChange {
        let pipe = self.pipes[pipe % self.pipes.len()];
        let (delay, rate) = self.least.get_mut(&pipe).unwrap();
        match change {
            TopologyChange::Delay(new) => *delay = new.min(*delay),
            TopologyChange::Rate(new) if new.is_unlimited() || (!rate.is_unlimited() && new > *rate) => *rate = new,
            _ => {}
        }
        PipeChange { pipe, change }
    }

    fn poll(&mut self, now: Time) {
        while let Some(delivery) = self.network.poll_delivery(now) {
            self.trace.push(delivery);
        }
    }

    fn counters(&self, pipe: Option<PipeId>) -> PipeCounters {
        self.network.counters(pipe.unwrap())
    }

    /// In every pipe and for each kind, arrived = delivered + dropped + inside; the sum of those inside is the
    /// number held.
    fn check_conservation(&self) {
        let mut inside = 0;
        for &pipe in &self.pipes {
            let counters = self.network.counters(pipe);
            assert!(counters.unicast.conserves() && counters.multicast.conserves(), "{pipe:?} {counters:?}");
            inside += counters.total().in_flight.packets;
        }
        let came_out = |&port: &Port| self.counters(self.network.from_net(port)).total().delivered.packets;
        let not_fetched = self.ports.iter().map(came_out).sum::<u64>() - self.trace.len() as u64;
        assert_eq!(inside + not_fetched, self.network.held() as u64);
        assert_eq!(self.network.overflows(), 0);
    }

    /// Packets delivered to a switch equal those that arrive at its outgoing pipes.
    fn check_switches(&self) {
        for members in &self.lans {
            let up = |port: &Port| self.counters(self.network.to_net(*port));
            let down = |port: &Port| self.counters(self.network.from_net(*port));
            let sent: u64 = members.iter().map(|port| up(port).unicast.delivered.bytes).sum();
            assert_eq!(sent, members.iter().map(|port| down(port).unicast.arrived.bytes).sum::<u64>());
            for port in members {
                let others = members.iter().filter(|other| *other != port);
                let sent: u64 = others.map(|other| up(other).multicast.delivered.bytes).sum();
                assert_eq!(sent, down(port).multicast.arrived.bytes);
            }
        }
    }

    /// Deliveries come in order of time, in the order of their pipes, and not too early.
    fn check_trace(&self) {
        assert!(self.trace.is_sorted_by_key(|delivery| delivery.due));
        let mut last: BTreeMap<(Port, Port), u32> = BTreeMap::new();
        let mut delivered: BTreeMap<Port, u64> = BTreeMap::new();
        for Delivery { due, port, bytes, packet } in &self.trace {
            let before = last.insert((packet.from, *port), packet.number);
            assert!(
                !self.keeps_order || before.is_none_or(|before| before < packet.number),
                "{packet:?} overtook {before:?}"
            );
            assert!(*due >= packet.sent + self.least_time(packet.from, *port, *bytes), "{packet:?} at {due}");
            *delivered.entry(*port).or_default() += u64::from(*bytes);
        }
        for &port in &self.ports {
            let counted = self.counters(self.network.from_net(port)).total().delivered.bytes;
            assert_eq!(counted, delivered.get(&port).copied().unwrap_or(0));
        }
    }

    fn least_time(&self, from: Port, to: Port, bytes: u32) -> Duration {
        let (up, down) = (self.network.to_net(from).unwrap(), self.network.from_net(to).unwrap());
        let of = |pipe: &PipeId| {
            let (delay, rate) = self.least[pipe];
            delay + rate.time_for(bytes.into())
        };
        if up == down { of(&up) } else { of(&up) + of(&down) }
    }
}

/// Runs the steps; with `lazy` deliveries are only fetched at the end.
fn run(parts: &[TestNet], steps: &[(u64, TestStep)], seed: u64, lazy: bool) -> TestNetwork {
    let mut world = TestNetwork::new(parts, seed);
    for (number, (gap, step)) in steps.iter().enumerate() {
        world.now = world.now + Duration::from_nanos(*gap);
        if !(lazy && matches!(step, TestStep::Poll)) {
            world.step(number as u32, step);
        }
        world.check_conservation();
    }
    while let Some(deadline) = world.network.poll_deadline() {
        world.poll(if lazy { Time::from_nanos(u64::MAX) } else { deadline });
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_network_conserves_orders_and_repeats(
        parts in prop::collection::vec(part(), 1..4),
        steps in prop::collection::vec(step(), 1..250),
        seed in any::<u64>(),
    ) {
        let world = run(&parts, &steps, seed, false);
        world.check_conservation();
        prop_assert_eq!(world.network.held(), 0);
        world.check_switches();
        world.check_trace();

        let again = run(&parts, &steps, seed, true);
        prop_assert_eq!(&world.trace, &again.trace);
        for &pipe in &world.pipes {
            prop_assert_eq!(world.network.counters(pipe), again.network.counters(pipe));
        }
    }
}
