//! Distances between hosts, with the pipes between them, for a placement.

use roost_netcore::wiring;
use roost_topology::Topology;
use roost_topology::model::{HostIndex, Leg, NetIndex, NetKind};
use roost_topology::routes::{Crossing, HostPaths};
use roost_topology::units::Rate;

/// No path leads there.
const NOWHERE: u32 = u32::MAX;

/// Distances between all hosts. It takes 10 bytes for each pair.
pub(super) struct HostDistances<'a> {
    pub(super) topology: &'a Topology,
    ways: HostPaths<'a>,
    /// By net: the number of its first pipe. Each member has two.
    pipes: Vec<usize>,
    /// Propagation from host to host, microseconds; rows are origins.
    delays: Vec<u32>,
    /// Seconds that the pipes of a path take to send a byte, in sequence.
    byte_times: Vec<f32>,
    hops: Vec<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathCost {
    /// Seconds of propagation.
    pub(super) delay: f64,
    /// Seconds to send a byte over all pipes, in sequence.
    pub(super) byte_time: f64,
    /// Seconds to send a byte over the slowest pipe.
    pub(super) slowest: f64,
    pub(super) crossings: u32,
}

/// A direction of a link or LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NetDirection {
    pub(super) net: NetIndex,
    /// Index among the net's members.
    pub(super) member: usize,
    /// True for the direction from the host into the net.
    pub(super) to_net: bool,
}

impl<'a> HostDistances<'a> {
    pub(super) fn from_topology(topology: &'a Topology) -> Self {
        let count = topology.hosts.len();
        let mut pipes = Vec::with_capacity(topology.nets.len());
        let mut next = 0;
        for net in &topology.nets {
            pipes.push(next);
            next += 2 * net.members.len();
        }
        let ways = HostPaths::from_topology(topology);
        let (delays, byte_times) = (vec![NOWHERE; count * count], vec![0.0; count * count]);
        let hops = vec![0; count * count];
        let mut ground = Self { topology, ways, pipes, delays, byte_times, hops };
        (0..count).for_each(|to| ground.measure(to));
        ground
    }

    /// Computes the distances to a host from all others, each from that of its next hop.
    fn measure(&mut self, to: HostIndex) {
        let count = self.topology.hosts.len();
        self.delays[to * count + to] = 0;
        let mut way: Vec<(HostIndex, Crossing)> = Vec::new();
        for from in 0..count {
            let mut at = from;
            while self.delays[at * count + to] == NOWHERE {
                let Some(crossing) = self.ways.next(at, to) else { break };
                way.push((at, crossing));
                at = self.ways.host(crossing);
            }
            while let Some((host, crossing)) = way.pop() {
                let before = self.delays[at * count + to];
                let stretch = self.cross(crossing);
                if before != NOWHERE {
                    // Saturates below the value for "nowhere".
                    let micros = (stretch.delay * 1e6).round() as u32;
                    self.delays[host * count + to] = before.saturating_add(micros).min(NOWHERE - 1);
                    self.byte_times[host * count + to] = self.byte_times[at * count + to] + stretch.byte_time as f32;
                    self.hops[host * count + to] = self.hops[at * count + to].saturating_add(1);
                }
                at = host;
            }
        }
    }

    /// The cost of one crossing: a link is one pipe, a LAN two.
    fn cross(&self, Crossing { net, from, to }: Crossing) -> PathCost {
        let net = &self.topology.nets[net];
        let (out, back) = (&net.members[from].to_net, &net.members[to].from_net);
        // The mean of a jitter that is uniform from zero.
        let delay = |leg: &Leg| leg.delay.as_secs_f64() + leg.jitter.as_secs_f64() / 2.0;
        let times = match net.kind {
            NetKind::Link => [byte_time(wiring::direction(out, back).rate), 0.0],
            NetKind::Lan => [byte_time(out.rate), byte_time(back.rate)],
        };
        PathCost {
            delay: delay(out) + delay(back),
            byte_time: times[0] + times[1],
            slowest: times[0].max(times[1]),
            crossings: 1,
        }
    }

    /// True if packets get from one host to another.
    pub(super) fn leads(&self, from: HostIndex, to: HostIndex) -> bool {
        self.delays[from * self.topology.hosts.len() + to] != NOWHERE
    }

    /// Seconds that a packet of `bytes` takes.
    pub(super) fn time(&self, from: HostIndex, to: HostIndex, bytes: f64) -> f64 {
        let at = from * self.topology.hosts.len() + to;
        f64::from(self.delays[at]) / 1e6 + f64::from(self.byte_times[at]) * bytes
    }

    /// The measure of nearness: the round trip by propagation alone, microseconds, then the hops.
    pub(super) fn distance(&self, a: HostIndex, b: HostIndex) -> (u64, u16) {
        let (count, there) = (self.topology.hosts.len(), a * self.topology.hosts.len() + b);
        (u64::from(self.delays[there]) + u64::from(self.delays[b * count + a]), self.hops[there])
    }

    /// The cost of the path from one host to another.
    pub(super) fn stretch(&self, from: HostIndex, to: HostIndex) -> PathCost {
        self.ways.crossings(from, to).map(|crossing| self.cross(crossing)).fold(PathCost::default(), |sum, next| {
            PathCost {
                delay: sum.delay + next.delay,
                byte_time: sum.byte_time + next.byte_time,
                slowest: sum.slowest.max(next.slowest),
                crossings: sum.crossings + 1,
            }
        })
    }

    /// Adds bytes per second to every pipe from one host to another; returns the number of links and LANs.
    pub(super) fn load(&self, loads: &mut [f64], from: HostIndex, to: HostIndex, bytes: f64) -> u32 {
        let mut count = 0;
        for Crossing { net, from, to } in self.ways.crossings(from, to) {
            count += 1;
            loads[self.pipes[net] + 2 * from] += bytes;
            if self.topology.nets[net].kind == NetKind::Lan {
                loads[self.pipes[net] + 2 * to + 1] += bytes;
            }
        }
        count
    }

    pub(super) fn no_load(&self) -> Vec<f64> {
        vec![0.0; self.topology.nets.iter().map(|net| 2 * net.members.len()).sum()]
    }

    /// Every pipe with the fraction of its rate in use. A link has one in each direction, listed as the one
    /// into it.
    pub(super) fn shares<'s>(&'s self, loads: &'s [f64]) -> impl Iterator<Item = (NetDirection, f64)> + 's {
        self.topology.nets.iter().enumerate().flat_map(move |(index, net)| {
            net.members.iter().enumerate().flat_map(move |(member, legs)| {
                let first = self.pipes[index] + 2 * member;
                let other = net.members.get(1 - member.min(1)).filter(|_| net.kind == NetKind::Link);
                let out = other.map_or(legs.to_net.rate, |other| wiring::direction(&legs.to_net, &other.from_net).rate);
                let pipe = |to_net: bool| NetDirection { net: index, member, to_net };
                [
                    (pipe(true), loads[first] * byte_time(out)),
                    (pipe(false), loads[first + 1] * byte_time(legs.from_net.rate)),
                ]
            })
        })
    }
}

fn byte_time(rate: Rate) -> f64 {
    if rate.is_unlimited() { 0.0 } else { 8.0 / rate.bps() as f64 }
}
