//! The throughput of the link model in packets, without system calls.
//!
//! Run with `cargo bench -p roost-netcore --bench netcore`. Each network is in its steady state, with many
//! packets in flight; one element is one packet delivered. For comparison: a link of 1 Gbit/s carries 83 000
//! packets of 1500 bytes a second.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use roost_netcore::{Destination, Network, PipeConfig, Port};
use roost_topology::units::Rate;
use roost_wire::Time;
use roost_wire::random::SplitMix64;

const BYTES: u32 = 1500;
const BATCH: u64 = 1_000;

/// 100 Mbit/s and 50 ms, as in the published scaling runs, with a little loss.
fn pipe() -> PipeConfig {
    PipeConfig {
        rate: Rate::from_bps(100_000_000),
        delay: Duration::from_millis(50),
        loss: 0.001,
        ..PipeConfig::default()
    }
}

/// Traffic through a network: between any two ports, or from any to all others.
struct NetcoreTraffic {
    network: Network<u64>,
    ports: Vec<Port>,
    random: SplitMix64,
    gap: Duration,
    to_others: bool,
    now: Time,
    sent: u64,
}

impl NetcoreTraffic {
    /// Sends packets `gap` apart, for long enough that as many come out as go in.
    fn warm(network: Network<u64>, ports: Vec<Port>, gap: Duration, to_others: bool) -> Self {
        let random = SplitMix64::new(1);
        let mut traffic = Self { network, ports, random, gap, to_others, now: Time::ZERO, sent: 0 };
        while traffic.now < Time::ZERO + Duration::from_millis(300) {
            traffic.send();
        }
        traffic
    }

    /// Sends one packet; returns the number that came out until the next.
    fn send(&mut self) -> u64 {
        let members = self.ports.len() as u64;
        let from = self.random.below(members);
        let to = (from + 1 + self.random.below(members - 1)) % members;
        let to = if self.to_others { Destination::Others } else { Destination::Port(self.ports[to as usize]) };
        self.network.send(self.now, self.ports[from as usize], to, BYTES, self.sent);
        self.sent += 1;
        self.now = self.now + self.gap;
        let mut delivered = 0;
        // Like a driver, it waits for the deadline and fetches due packets.
        while self.network.poll_deadline().is_some_and(|deadline| deadline <= self.now) {
            while let Some(delivery) = self.network.poll_delivery(self.now) {
                black_box(&delivery);
                delivered += 1;
            }
        }
        delivered
    }

    fn batch(&mut self) -> u64 {
        (0..BATCH).map(|_| self.send()).sum()
    }
}

fn measure(criterion: &mut Criterion, name: &str, deliveries: u64, mut traffic: NetcoreTraffic) {
    let mut group = criterion.benchmark_group("netcore");
    group.throughput(Throughput::Elements(BATCH * deliveries));
    group.bench_function(name, |bencher| bencher.iter(|| traffic.batch()));
    group.finish();
    assert!(traffic.batch() > BATCH * deliveries * 9 / 10, "{name}: the network drops what it is to carry");
}

/// A link at 96 % of its rate in both directions.
fn link(criterion: &mut Criterion) {
    let mut network = Network::new(1);
    let ports = network.add_link(pipe(), pipe()).to_vec();
    measure(criterion, "link", 1, NetcoreTraffic::warm(network, ports, Duration::from_nanos(62_500), false));
}

/// A switch with 100 members, any to any, at half of their legs' rate.
fn star(criterion: &mut Criterion) {
    let mut network = Network::new(1);
    let ports = network.add_lan(&vec![(pipe(), pipe()); 100]);
    measure(criterion, "star of 100", 1, NetcoreTraffic::warm(network, ports, Duration::from_nanos(2_400), false));
}

/// 16 members, each packet to all others, at half of their legs' rate.
fn multicast(criterion: &mut Criterion) {
    let mut network = Network::new(1);
    let ports = network.add_lan(&vec![(pipe(), pipe()); 16]);
    measure(criterion, "multicast in 16", 15, NetcoreTraffic::warm(network, ports, Duration::from_micros(240), true));
}

criterion_group!(benches, link, star, multicast);
criterion_main!(benches);
