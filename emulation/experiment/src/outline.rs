//! A run in numbers, from which its needs are estimated before it begins.

use std::collections::{BTreeMap, VecDeque};

use roost_lab::needed_files;
use roost_resources::{NetworkOutline, RunOutline, TrafficOutline};
use roost_topology::model::{HostIndex, Topology};
use roost_topology::units::Rate;
use roost_wire::{FlowKind, Role, Service};

use super::job::NetworkRun;
use super::placement::PlacedNode;
use super::plan::{Plan, RoomMembers};
use super::prepare::Prepared;

/// Round trips of a request before its data: the discovery, and often a handshake.
const SETUP_TRIPS: f64 = 1.5;
/// Bytes of the first flight of an object; each further flight is twice as long, until the link is full.
const FIRST_FLIGHT_BYTES: f64 = 14_000.0;
/// Bytes of an object in a packet.
const CHUNK_BYTES: f64 = 1_150.0;
/// Bytes of a packet with its headers, on average: of a track 300, of a video 1200.
const PACKET_BYTES: f64 = 600.0;
/// Packets of an object with their acknowledgements, for each with data.
const OBJECT_PACKETS: f64 = 1.5;
/// The cost of a packet of an object beside a stream's, at its two daemons: they send and receive many at once.
const OBJECT_COST: f64 = 1.0 / 16.0;
/// A room's packet costs so much of that: a hub has copied it.
const ROOM_COST: f64 = 0.65;
/// Hosts from which ways are measured: means hardly change with more.
const MAX_SAMPLED: usize = 16;

impl Prepared {
    /// The daemons, the network and the expected traffic, in numbers.
    pub fn outline(&self) -> RunOutline {
        let Self { plan, placement, topology, .. } = self;
        let mut network = outline_network(topology);
        let (links, has_programs) = (HostLinks::of_hosts(topology), !self.network.programs.is_empty());
        let mut traffic = agents(topology, &links);
        if !plan.architecture.has_daemons() {
            return RunOutline { network, traffic, has_programs, ..RunOutline::default() };
        }
        let (nodes, hubs) = (placement.nodes.len(), placement.hubs.len());
        // Each request in progress has a connection to its daemon.
        network.open_files += (nodes + hubs) as u64;
        let ways = Ways::measure(self);
        if self.replay.is_some() {
            traffic.add(&ways.spread(self.replayed()));
        } else {
            let drawn = placement.nodes.iter().map(|node| drawn(plan, &links[node.host], node));
            drawn.for_each(|node| traffic.add(&ways.spread(node)));
        }
        traffic.add(&ways.spread(in_rooms(plan, nodes)));
        RunOutline { nodes, hubs, network, traffic, has_programs, ..RunOutline::default() }
    }

    /// The requests of a replay, on average.
    fn replayed(&self) -> DataRate {
        let mut sum = DataRate::default();
        let Some(replay) = &self.replay else { return sum };
        for node in 0..self.placement.nodes.len() {
            let lanes = replay.lanes(&self.plan, node, super::workload::WorkloadPhase::Measured);
            for request in lanes.iter().flatten() {
                let stream = request.stream.unwrap_or(self.plan.stream).as_secs_f64();
                sum.add_requests(1.0, request.service, stream);
            }
        }
        let seconds = self.plan.duration.as_secs_f64().max(1.0);
        sum.times(1.0 / seconds)
    }
}

impl NetworkRun {
    /// The network and its traffic agents, in numbers. The needs of its programs are not known.
    pub fn outline(&self) -> RunOutline {
        RunOutline {
            network: outline_network(&self.topology),
            traffic: agents(&self.topology, &HostLinks::of_hosts(&self.topology)),
            has_programs: !self.topology.programs.is_empty(),
            ..RunOutline::default()
        }
    }
}

fn outline_network(topology: &Topology) -> NetworkOutline {
    let interfaces = topology.nets.iter().map(|net| net.members.len()).sum();
    NetworkOutline {
        hosts: topology.hosts.len(),
        interfaces,
        open_files: needed_files(topology.hosts.len() as u64, interfaces as u64),
    }
}

/// Requests and packets from provider to requester, each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DataRate {
    requests: f64,
    packets: f64,
    /// The cost of the packets at daemons, in packets of streams.
    cost: f64,
}

impl DataRate {
    /// Adds requests for a service, of which each has this length if it is a stream.
    fn add_requests(&mut self, count: f64, service: Service, stream_s: f64) {
        let packets = count * packets(service, stream_s);
        self.requests += count;
        self.packets += packets;
        self.cost += if service.is_stream() { packets } else { packets * OBJECT_COST };
    }

    fn times(self, factor: f64) -> Self {
        Self { requests: self.requests * factor, packets: self.packets * factor, cost: self.cost * factor }
    }
}

fn packets(service: Service, stream_s: f64) -> f64 {
    match service.flow_kind() {
        FlowKind::Stream { bits_per_second, packet_bytes } => {
            f64::from(bits_per_second) / 8.0 / packet_bytes.max(1) as f64 * stream_s
        }
        FlowKind::Object { bytes } => (bytes as f64 / CHUNK_BYTES).ceil() * OBJECT_PACKETS,
    }
}

/// The requests of a node that draws the next one when the last is over.
fn drawn(plan: &Plan, links: &HostLinks, node: &PlacedNode) -> DataRate {
    if node.targets.is_empty() {
        return DataRate::default();
    }
    let [parts @ .., pause] = node.mix.percentages().map(|percent| percent / 100.0);
    let (stream, bytes_per_s, round_trip) = (plan.stream.as_secs_f64(), links.bytes_per_s(), links.round_trip_s());
    let (mut cycle, mut drawn) = (pause * plan.idle.as_secs_f64(), DataRate::default());
    for (service, part) in Service::ALL.into_iter().zip(parts) {
        let seconds = match service.flow_kind() {
            FlowKind::Stream { .. } => stream,
            FlowKind::Object { bytes } => {
                let flights = (bytes as f64 / FIRST_FLIGHT_BYTES).log2().max(0.0);
                bytes as f64 / bytes_per_s + flights * round_trip
            }
        };
        cycle += part * (seconds + SETUP_TRIPS * round_trip);
        drawn.add_requests(part, service, stream);
    }
    let rate = drawn.times(1.0 / cycle.max(1e-3));
    // Thin links lose or delay the rest.
    let fitting = (bytes_per_s / PACKET_BYTES / rate.packets.max(1.0)).min(1.0);
    DataRate { requests: rate.requests, ..rate.times(fitting) }
}

/// The links and LANs of a host, together.
#[derive(Clone, Copy, Debug, Default)]
struct HostLinks {
    /// The bytes that all of them receive each second.
    bytes: f64,
    /// The delay of the first, there and back.
    delay_s: Option<f64>,
}

impl HostLinks {
    /// All hosts are measured in one pass over the members of links and LANs.
    fn of_hosts(topology: &Topology) -> Vec<Self> {
        let mut hosts = vec![Self::default(); topology.hosts.len()];
        for member in topology.nets.iter().flat_map(|net| &net.members) {
            let Some(host) = hosts.get_mut(member.host) else { continue };
            host.bytes += bytes_per_s(member.from_net.rate.slower(member.to_net.rate));
            host.delay_s.get_or_insert((member.to_net.delay + member.from_net.delay).as_secs_f64());
        }
        hosts
    }

    const fn bytes_per_s(&self) -> f64 {
        self.bytes.max(1.0)
    }

    /// The round trip to a host whose link has the same delay, at least that of a LAN.
    fn round_trip_s(&self) -> f64 {
        (2.0 * self.delay_s.unwrap_or(0.0)).max(0.001)
    }
}

/// An unlimited rate counts as that of a fast processor's memory.
fn bytes_per_s(rate: Rate) -> f64 {
    if rate.is_unlimited() { 1e9 } else { rate.bps() as f64 / 8.0 }
}

/// The streams of rooms: each member has those of every other one.
fn in_rooms(plan: &Plan, nodes: usize) -> DataRate {
    let mut sum = DataRate::default();
    for room in &plan.rooms {
        let members = match &room.members {
            RoomMembers::All => nodes,
            RoomMembers::Count(count) => *count,
            RoomMembers::Hosts(hosts) => hosts.len(),
        };
        let pairs = (members * members.saturating_sub(1)) as f64;
        let streams = room.services.iter().map(|service| pairs * packets(*service, 1.0)).sum::<f64>();
        (sum.packets, sum.cost) = (sum.packets + streams, sum.cost + streams * ROOM_COST);
    }
    sum
}

/// The packets of traffic agents. All are taken to send all the time, and no more than their links carry.
fn agents(topology: &Topology, links: &[HostLinks]) -> TrafficOutline {
    let sources = topology.traffic.iter().filter(|agent| agent.is_source);
    let packets: f64 = sources
        .map(|agent| {
            let bytes = f64::from(agent.packet_bytes.max(1));
            let sent = match agent.interval {
                Some(seconds) if seconds > 0.0 => 1.0 / seconds,
                _ => bytes_per_s(agent.rate) / bytes,
            };
            sent.min(links[agent.host].bytes_per_s() / bytes)
        })
        .sum();
    // The emulator sends and receives them itself, without daemons: as cheaply as a hub passes one on.
    TrafficOutline { carried: packets * 2.0, relayed: packets, ..TrafficOutline::default() }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ways {
    /// Links and LANs between provider and requester.
    crossed: f64,
    /// Hubs that pass a packet on, on its way to the requester.
    relays: f64,
}

impl Ways {
    fn measure(prepared: &Prepared) -> Self {
        let Prepared { topology, placement, plan, .. } = prepared;
        let nodes: Vec<HostIndex> = placement.nodes.iter().map(|node| node.host).collect();
        let through_hub = placement.hubs.first().filter(|_| plan.architecture.hub_role() == Role::Server);
        match through_hub {
            Some(hub) => {
                let once = mean_nets(topology, &[hub.host], &nodes);
                Self { crossed: 2.0 * once, relays: 1.0 }
            }
            None => {
                let step = nodes.len().div_ceil(MAX_SAMPLED).max(1);
                let sampled: Vec<HostIndex> = nodes.iter().copied().step_by(step).collect();
                Self { crossed: mean_nets(topology, &sampled, &nodes), relays: 0.0 }
            }
        }
    }

    fn spread(&self, data: DataRate) -> TrafficOutline {
        TrafficOutline {
            requests: data.requests,
            delivered: data.cost,
            relayed: data.packets * self.relays,
            carried: data.packets * self.crossed,
        }
    }
}

/// The mean number of links and LANs from hosts to others.
fn mean_nets(topology: &Topology, from: &[HostIndex], to: &[HostIndex]) -> f64 {
    let mut nets_of: BTreeMap<HostIndex, Vec<usize>> = BTreeMap::new();
    for (net, found) in topology.nets.iter().enumerate() {
        found.members.iter().for_each(|member| nets_of.entry(member.host).or_default().push(net));
    }
    let (mut sum, mut count) = (0usize, 0usize);
    for start in from {
        let far = distances(topology, &nets_of, *start);
        let others = to.iter().filter(|host| *host != start).filter_map(|host| far.get(host));
        others.for_each(|nets| (sum, count) = (sum + nets, count + 1));
    }
    if count == 0 { 1.0 } else { sum as f64 / count as f64 }
}

/// The number of links and LANs from one host to each other one that can be reached.
fn distances(
    topology: &Topology,
    nets_of: &BTreeMap<HostIndex, Vec<usize>>,
    start: HostIndex,
) -> BTreeMap<HostIndex, usize> {
    let mut far = BTreeMap::from([(start, 0)]);
    let mut seen = vec![false; topology.nets.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(host) = queue.pop_front() {
        let next = far[&host] + 1;
        for net in nets_of.get(&host).into_iter().flatten() {
            if std::mem::replace(&mut seen[*net], true) {
                continue;
            }
            for member in &topology.nets[*net].members {
                far.entry(member.host).or_insert_with(|| {
                    queue.push_back(member.host);
                    next
                });
            }
        }
    }
    far
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use roost_topology::model::TrafficAgent;

    use super::*;

    fn outline(plan: &str) -> RunOutline {
        let plan = format!("architecture = 'super-node'\nduration = '60s'\n{plan}");
        Prepared::from_text(&plan, Path::new("plan.toml")).unwrap().outline()
    }

    #[test]
    fn star_of_published_mix() {
        let run = outline("topology = { star = { nodes = 101 } }");
        assert_eq!((run.nodes, run.hubs, run.network.hosts, run.network.interfaces), (100, 1, 101, 101));
        assert!((14.0..17.0).contains(&run.traffic.requests), "{run:?}");
        // A stream of 700 kbit/s from one in six, and one of 40 kbit/s from three in four.
        assert!((2400.0..3600.0).contains(&run.traffic.delivered), "{run:?}");
        assert!((2700.0..3900.0).contains(&run.traffic.carried), "one LAN: {run:?}");
    }

    #[test]
    fn server_relays_all_data() {
        let run = outline("topology = { star = { nodes = 101 } }").traffic;
        let text = "architecture = 'client-server'\nduration = '60s'\ntopology = { star = { nodes = 101 } }";
        let served = Prepared::from_text(text, Path::new("plan.toml")).unwrap().outline().traffic;
        assert_eq!((served.relayed, served.carried), (run.carried, 2.0 * run.carried));
        assert_eq!(served.delivered, run.delivered);
    }

    #[test]
    fn thin_links_carry_less() {
        let fast = outline("topology = { star = { nodes = 11 } }").traffic;
        let slow = outline("topology = { star = { nodes = 11, rate = '56kbit' } }").traffic;
        assert!(slow.delivered < fast.delivered && slow.requests < fast.requests, "{slow:?}");
    }

    #[test]
    fn unlimited_traffic_fills_its_link() {
        let mut topology = roost_topology::testing::nets(2, &[&[0, 1]]);
        topology.nets[0].members.iter_mut().for_each(|member| {
            (member.to_net.rate, member.from_net.rate) = (Rate::from_bps(8_000_000), Rate::from_bps(8_000_000));
        });
        topology.traffic = vec![TrafficAgent {
            name: "t".to_owned(),
            host: 0,
            is_source: true,
            rate: Rate::from_bps(0),
            packet_bytes: 1000,
            interval: None,
            tcp: false,
            port: 1,
            target: Some(1),
        }];
        let relayed = agents(&topology, &HostLinks::of_hosts(&topology)).relayed;
        assert!((relayed - 1000.0).abs() < 1e-6, "{relayed}");
    }

    #[test]
    fn large_network_is_outlined_quickly() {
        // Passes over all members for each node would be some 10^9 steps.
        let run = outline("topology = { star = { nodes = 50001 } }");
        assert_eq!((run.nodes, run.network.hosts), (50_000, 50_001));
    }

    #[test]
    fn tree_crosses_several_links() {
        let run = outline("topology = { tree = { nodes = 31 } }");
        assert!(run.traffic.carried > 1.5 * run.traffic.delivered, "{run:?}");
    }

    #[test]
    fn rooms_grow_by_pairs() {
        let room = |members: usize| {
            outline(&format!(
                "reflect = true\ntopology = {{ star = {{ nodes = 21 }} }}\n[rooms.r]\nmembers = {members}\nservices = ['track']\n"
            ))
        };
        let extra = room(10).traffic.delivered - room(5).traffic.delivered;
        assert!((extra - (90.0 - 20.0) * 20.0 * ROOM_COST).abs() < 1.0, "{extra}");
    }
}
