//! Packets from host to host: the links and LANs of a topology, and the hosts
//! that forward.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use roost_netcore::HEADER_BYTES;
use roost_netcore::wiring::{self, Wiring, WiringError};
use roost_netcore::{Crossing, Destination, Network, PartId, Port};
use roost_results::record;
use roost_topology::HostAddresses;
use roost_topology::addresses::{self, AddressError};
use roost_topology::model::{HostIndex, Topology};
use roost_topology::routes::{self, HostRoute};
use roost_wire::Time;
use rustc_hash::FxHashMap;

use super::fingerprint::RunFingerprint;
use super::partition::Partition;

/// Time of a packet between two programs of one host.
const LOOPBACK: Duration = Duration::from_micros(20);
/// The most hosts that may forward a packet: IP's default time to live.
const HOPS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct AddressedPacket<P> {
    pub(super) to: Ipv4Addr,
    /// Headers of IP and above included.
    pub(super) bytes: u32,
    pub(super) packet: P,
}

/// The most routes that a network remembers; each is of one host to one interface. Those of a thousand hosts to each
/// other fit, in some 250 MB.
const MAX_ROUTES: usize = 1 << 20;

/// A packet on its way, with its route.
#[derive(Clone, Debug)]
pub(super) struct RoutedPacket<P> {
    /// `None` for the multicast group.
    route: Option<Arc<PacketRoute>>,
    bytes: u32,
    /// The number of hops that are behind it.
    hops: u8,
    packet: P,
}

/// The way from a host to an interface. Routes never change, so that packets carry them.
#[derive(Debug)]
struct PacketRoute {
    /// Each hop's port by which packets leave, and the port to which they go. A port stands for its host's interface.
    hops: Vec<(Port, Port)>,
    /// False if a host on the way has no route further, where packets are dropped.
    is_whole: bool,
}

impl PacketRoute {
    /// True if packets are where they go after so many hops.
    fn ends_after(&self, hops: u8) -> bool {
        self.is_whole && usize::from(hops) == self.hops.len()
    }
}

/// The network, its hosts' routing tables, and the packets inside.
#[derive(Clone, Debug)]
pub(super) struct SimNetwork<P> {
    network: Network<RoutedPacket<P>>,
    map: Arc<NetworkMap>,
    /// Routes from a host to an interface, as far as they were needed.
    routes: FxHashMap<(HostIndex, Port), Arc<PacketRoute>>,
    local: VecDeque<SimArrival<P>>,
}

/// Addresses, routes and ports, which all parts share.
#[derive(Debug)]
struct NetworkMap {
    wiring: Wiring,
    members: FxHashMap<Ipv4Addr, SimInterface>,
    /// A host's routes beyond its own nets.
    routes: Vec<Vec<HostRoute>>,
    /// The host and address of each port.
    hosts: Vec<HostIndex>,
    addresses: Vec<Ipv4Addr>,
    host_addresses: HostAddresses,
    /// By host: its ports, by net.
    ports: Vec<Vec<(usize, Port)>>,
}

/// A packet that has come to the programs of a host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SimArrival<P> {
    pub(super) at: Time,
    pub(super) host: HostIndex,
    pub(super) packet: P,
}

#[derive(Clone, Copy, Debug)]
struct SimInterface {
    host: HostIndex,
    net: usize,
    port: Port,
}

impl NetworkMap {
    fn find_route(&self, from: HostIndex, target: Port) -> PacketRoute {
        let mut route = PacketRoute { hops: Vec::new(), is_whole: false };
        let mut host = from;
        while !route.is_whole
            && route.hops.len() < HOPS
            && let Some(hop) = self.hop(host, target)
        {
            route.hops.push(hop);
            host = self.hosts[hop.1.index()];
            route.is_whole = host == self.hosts[target.index()];
        }
        route.hops.shrink_to_fit();
        route
    }

    /// The port by which a packet leaves a host, and the port it goes to.
    fn hop(&self, host: HostIndex, target: Port) -> Option<(Port, Port)> {
        let own = |net: usize| self.ports[host].iter().find(|(of, _)| *of == net).map(|(_, port)| *port);
        let to = self.addresses[target.index()];
        if let Some(from) = own(self.members.get(&to)?.net) {
            return Some((from, target));
        }
        let fits = |route: &&HostRoute| route.subnet().contains(to);
        let route = self.routes[host].iter().filter(fits).max_by_key(|route| route.prefix)?;
        let gateway = self.members.get(&route.via.unwrap_or(to))?;
        Some((own(route.net)?, gateway.port))
    }
}

impl<P: Clone> SimNetwork<P> {
    /// The network of a topology; its losses and jitter follow from `seed`.
    pub(super) fn new(topology: &Topology, seed: u64) -> Result<Self, AddressError> {
        let topology = addresses::assign(topology)?;
        let (network, wiring) = wiring::build(&topology, seed);
        let count = topology.hosts.len();
        let mut map = NetworkMap {
            wiring,
            members: FxHashMap::default(),
            routes: routes::compute(&topology),
            hosts: Vec::new(),
            addresses: Vec::new(),
            host_addresses: HostAddresses::from_topology(&topology),
            ports: vec![Vec::new(); count],
        };
        for (net, members) in topology.nets.iter().map(|net| &net.members).enumerate() {
            for (place, member) in members.iter().enumerate() {
                let (Some(port), Some(address)) = (map.wiring.port(net, place), member.address) else { continue };
                // Ports are numbered in this very order.
                map.hosts.push(member.host);
                map.addresses.push(address);
                map.ports[member.host].push((net, port));
                map.members.insert(address, SimInterface { host: member.host, net, port });
            }
        }
        Ok(Self { network, map: Arc::new(map), routes: FxHashMap::default(), local: VecDeque::new() })
    }

    /// Copies of an empty network, one for each part.
    pub(super) fn split(self, partition: &Partition) -> Vec<Self> {
        if partition.count() == 1 {
            return vec![self];
        }
        let parts: Vec<PartId> = self.map.hosts.iter().map(|host| partition.part(*host)).collect();
        let copy = |own| {
            let mut copy = self.clone();
            copy.network.set_part(own, parts.clone());
            copy
        };
        (0..partition.count()).map(copy).collect()
    }

    /// The packets that come to hosts of other parts before `until`.
    pub(super) fn crossings(&mut self, now: Time, until: Time) -> Vec<Crossing<RoutedPacket<P>>> {
        self.network.crossings(now, until)
    }

    pub(super) fn add_crossings(&mut self, crossings: Vec<Crossing<RoutedPacket<P>>>) {
        self.network.add_crossings(crossings);
    }

    pub(super) fn address(&self, host: HostIndex) -> Option<Ipv4Addr> {
        self.map.host_addresses.main(host)
    }

    pub(super) fn host_addresses(&self) -> &HostAddresses {
        &self.map.host_addresses
    }

    /// The address of a host on the net over which it sends to another address.
    pub(super) fn source(&mut self, host: HostIndex, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let target = self.map.members.get(&to)?.port;
        self.route(host, target).hops.first().map(|(from, _)| self.map.addresses[from.index()])
    }

    /// The addresses of a host, one for each net that it is on.
    pub(super) fn addresses(&self, host: HostIndex) -> impl Iterator<Item = Ipv4Addr> {
        self.map.ports[host].iter().map(|(_, port)| self.map.addresses[port.index()])
    }

    /// The paths between two hosts: their addresses on each net that both are on, that of `first` before the
    /// others.
    pub(super) fn paths(&self, from: HostIndex, to: HostIndex, first: Ipv4Addr) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        let address = |port: &Port| self.map.addresses[port.index()];
        let on = |net: usize| self.map.ports[to].iter().find(|(other, _)| *other == net);
        let shared = self.map.ports[from].iter().filter_map(|(net, here)| Some((here, &on(*net)?.1)));
        let mut ways: Vec<_> = shared.map(|(here, there)| (address(here), address(there))).collect();
        ways.sort_by_key(|(_, there)| *there != first);
        ways
    }

    /// Schedules the topology's changes of its nets from `begin` on.
    pub(super) fn begin(&mut self, begin: Time) -> Result<(), WiringError> {
        self.map.wiring.begin(&mut self.network, begin)
    }

    pub(super) fn counters(&self) -> Vec<record::LinkRecord> {
        self.map.wiring.name(self.map.wiring.count(&self.network))
    }

    /// Packets dropped at a limit of the network itself.
    pub(super) fn overflows(&self) -> u64 {
        self.network.overflows()
    }

    /// Sends a packet of a program on `host`; one to an address that nobody has is dropped.
    pub(super) fn send(&mut self, now: Time, host: HostIndex, packet: AddressedPacket<P>) {
        let AddressedPacket { to, bytes, packet } = packet;
        let Some(to) = self.map.members.get(&to) else { return };
        if to.host == host {
            self.local.push_back(SimArrival { at: now + LOOPBACK, host, packet });
        } else {
            let route = Some(self.route(host, to.port));
            self.forward(now, RoutedPacket { route, bytes, hops: 0, packet });
        }
    }

    /// Sends a packet of a program on `host` to the host's links and LANs; no host forwards it. `packet` makes
    /// it from the address that it leaves from.
    pub(super) fn multicast(&mut self, now: Time, host: HostIndex, bytes: u32, packet: impl Fn(Ipv4Addr) -> P) {
        for (_, port) in self.map.ports[host].clone() {
            let from = self.map.addresses[port.index()];
            let routed = RoutedPacket { route: None, bytes, hops: 0, packet: packet(from) };
            self.network.send(now, port, Destination::Others, bytes + HEADER_BYTES as u32, routed);
        }
    }

    /// Sends a packet over its next hop; one whose route ends here is dropped.
    fn forward(&mut self, now: Time, packet: RoutedPacket<P>) {
        let next = packet.route.as_ref().and_then(|route| route.hops.get(usize::from(packet.hops)).copied());
        if let Some((from, to)) = next {
            let bytes = packet.bytes + HEADER_BYTES as u32;
            self.network.send(now, from, Destination::Port(to), bytes, packet);
        }
    }

    fn route(&mut self, host: HostIndex, target: Port) -> Arc<PacketRoute> {
        if let Some(known) = self.routes.get(&(host, target)) {
            return Arc::clone(known);
        }
        if self.routes.len() >= MAX_ROUTES {
            self.routes.clear();
        }
        let route = Arc::new(self.map.find_route(host, target));
        self.routes.insert((host, target), Arc::clone(&route));
        route
    }

    /// The next packet for a program by `until`, with its time. Hosts on its path have forwarded it at once.
    pub(super) fn poll(&mut self, until: Time, trace: &mut RunFingerprint) -> Option<SimArrival<P>> {
        loop {
            // Packets within a host come before all others of their time.
            let local = self.local.front().map(|arrival| arrival.at).filter(|at| *at <= until);
            let before = local.map_or(until, |at| Time::from_nanos(at.as_nanos() - 1));
            let Some(delivery) = self.network.poll_delivery(before) else {
                return local.and_then(|_| self.local.pop_front());
            };
            trace.record_event(delivery.due, delivery.port.index() as u64, u64::from(delivery.bytes));
            let mut packet = delivery.packet;
            packet.hops += 1;
            // Multicast packets are not forwarded.
            if packet.route.as_ref().is_none_or(|route| route.ends_after(packet.hops)) {
                let host = self.map.hosts[delivery.port.index()];
                return Some(SimArrival { at: delivery.due, host, packet: packet.packet });
            }
            self.forward(delivery.due, packet);
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let local = self.local.front().map(|arrival| arrival.at);
        [self.network.poll_deadline(), local].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use roost_topology::generate::{Star, Tree, TreeShape};

    use super::*;

    fn arrives(topology: &Topology, from: &str, to: &str) -> Option<Duration> {
        let mut wire = SimNetwork::new(topology, 1).unwrap();
        let host = |name| topology.host_index(name).unwrap();
        let to = wire.address(host(to)).unwrap();
        wire.send(Time::ZERO, host(from), AddressedPacket { to, bytes: 1000, packet: 7 });
        let end = Time::ZERO + Duration::from_secs(10);
        wire.poll(end, &mut RunFingerprint::default()).map(|arrival| {
            assert_eq!(arrival.packet, 7);
            arrival.at - Time::ZERO
        })
    }

    #[test]
    fn packet_takes_delays_of_path() {
        let star = Star::published(4).topology().unwrap();
        let took = arrives(&star, "node1", "server").unwrap();
        // 175 ms, and 1014 bytes over two legs of 100 Mbit/s.
        assert_eq!(took.as_nanos(), 175_000_000 + 2 * 81_120);
        assert_eq!(arrives(&star, "node1", "node1"), Some(LOOPBACK));
    }

    #[test]
    fn hosts_on_the_way_forward() {
        let tree = Tree::published(TreeShape::inferred(11)).topology().unwrap();
        let all: Vec<&str> = tree.hosts.iter().map(|host| host.name.as_str()).collect();
        for to in &all[1..] {
            assert!(arrives(&tree, all[0], to).is_some(), "{to}");
        }
    }

    #[test]
    fn multicast_stays_on_its_link() {
        let tree = Tree::published(TreeShape::inferred(11)).topology().unwrap();
        let mut wire = SimNetwork::new(&tree, 1).unwrap();
        let from = tree.nets[0].members[0].host;
        let nets = tree.nets.iter().filter(|net| net.members.iter().any(|member| member.host == from));
        let mut neighbours: Vec<HostIndex> =
            nets.flat_map(|net| net.members.iter().map(|member| member.host).filter(|host| *host != from)).collect();
        wire.multicast(Time::ZERO, from, 100, |address| address);
        let end = Time::ZERO + Duration::from_secs(10);
        let mut reached = Vec::new();
        while let Some(arrival) = wire.poll(end, &mut RunFingerprint::default()) {
            assert_eq!(wire.map.members[&arrival.packet].host, from);
            reached.push(arrival.host);
        }
        reached.sort_unstable();
        neighbours.sort_unstable();
        assert_eq!(reached, neighbours);
        assert!(!reached.is_empty());
    }
}
