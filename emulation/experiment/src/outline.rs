//! A run in numbers, from which its needs are estimated before it begins.

use std::collections::{BTreeMap, VecDeque};

use roost_lab::{arp_pairs, needed_files};
use roost_resources::{NetworkOutline, RunOutline, TrafficOutline};
use roost_topology::model::{HostIndex, Topology};
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
        let is_replay = self.replay.is_some();
        if !plan.architecture.has_daemons() {
            return RunOutline { nodes: 0, hubs: 0, network, traffic: agents(topology) };
        }
        let (nodes, hubs) = (placement.nodes.len(), placement.hubs.len());
        // Each request in progress has a connection to its daemon.
        network.open_files += (nodes + hubs) as u64;
        let ways = Ways::measure(self);
        let mut traffic = agents(topology);
        if is_replay {
            traffic.add(&ways.spread(self.replayed()));
        } else {
            let drawn = placement.nodes.iter().map(|node| drawn(plan, topology, node));
            drawn.for_each(|node| traffic.add(&ways.spread(node)));
        }
        traffic.add(&ways.spread(in_rooms(plan, nodes)));
        RunOutline { nodes, hubs, network, traffic }
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
            traffic: agents(&self.topology),
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
        arp_pairs: arp_pairs(&topology.nets),
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
fn drawn(plan: &Plan, topology: &Topology, node: &PlacedNode) -> DataRate {
    if node.targets.is_empty() {
        return DataRate::default();
    }
    let [parts @ .., pause] = node.mix.percentages().map(|percent| percent / 100.0);
    let (stream, bytes_per_s) = (plan.stream.as_secs_f64(), link_bytes(topology, node.host));
    let round_trip = round_trip_s(topology, node.host);
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

/// The round trip to a host whose link has the same delay, at least that of a LAN.
fn round_trip_s(topology: &Topology, host: HostIndex) -> f64 {
    let own = topology.nets.iter().flat_map(|net| &net.members).find(|member| member.host == host);
    let one_way = own.map_or(0.0, |member| (member.to_net.delay + member.from_net.delay).as_secs_f64());
    (2.0 * one_way).max(0.001)
}

/// The bytes that a host can receive each second.
fn link_bytes(topology: &Topology, host: HostIndex) -> f64 {
    let members = topology.nets.iter().flat_map(|net| &net.members).filter(|member| member.host == host);
    let rate = |rate: roost_topology::units::Rate| if rate.is_unlimited() { 1e9 } else { rate.bps() as f64 / 8.0 };
    members.map(|member| rate(member.from_net.rate).min(rate(member.to_net.rate))).sum::<f64>().max(1.0)
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

/// The packets of traffic agents. All are taken to send all the time.
fn agents(topology: &Topology) -> TrafficOutline {
    let sources = topology.traffic.iter().filter(|agent| agent.is_source);
    let packets: f64 = sources
        .map(|agent| match agent.interval {
            Some(seconds) if seconds > 0.0 => 1.0 / seconds,
            _ => agent.rate.bps() as f64 / 8.0 / f64::from(agent.packet_bytes.max(1)),
        })
        .sum();
    // The emulator sends and receives them itself, without daemons: as cheaply as a hub passes one on.
    TrafficOutline { carried: packets * 2.0, relayed: packets, ..TrafficOutline::default() }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ways {
    /// Links and LANs between provider and requester.
    crossed: f64,
    /// Hubs that pass a packet on.
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
