//! Connections between machines, and the packets that come for them: `dialing` opens connections, `ends` drives them.

mod dialing;
mod ends;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roost_netcore::{Crossing, HEADER_BYTES, PartId};
use roost_topology::model::HostIndex;
use roost_transport::simulated::{Detail, multicast_bytes};
use roost_wire::RemoteIdentity as Remote;
use roost_wire::{Address, Channel, ConnectionId, Delivery, DialId, Role, Scheme, Time};
use rustc_hash::FxHashMap;

use super::TrafficBreakdown;
use super::event_queue::SimEventQueue;
use super::fingerprint::RunFingerprint;
use super::network::{AddressedPacket, RoutedPacket, SimArrival, SimNetwork};
use super::partition::Partition;
use dialing::SimPendingDial;
use ends::SimConnectionEnd;

/// The index of a machine among all machines.
pub(super) type MachineId = usize;

/// The buffer that the system keeps for a frozen process, bytes: the default of a socket.
const SOCKET_BYTES: u64 = 208 * 1024;
/// The headers of IPv4 and UDP, bytes.
const UDP_HEADERS: u32 = 28;

#[derive(Clone, Debug)]
pub(super) enum MachineInput {
    Up {
        connection: ConnectionId,
        dial: Option<DialId>,
        remote: Remote,
        address: Address,
        rtt: Duration,
    },
    Down {
        connection: ConnectionId,
        reason: String,
    },
    Unreachable {
        dial: DialId,
        reason: String,
    },
    Message {
        connection: ConnectionId,
        message: Bytes,
    },
    Multicast {
        from: IpAddr,
        message: Bytes,
    },
    /// For its media port.
    Datagram {
        from: SocketAddr,
        content: Bytes,
    },
}

/// The host of a machine, and the content of its certificate.
#[derive(Clone, Debug)]
pub(super) struct MachineEndpoint {
    pub(super) host: HostIndex,
    /// The main address of its host, then the others at which it listens.
    pub(super) addresses: Vec<Ipv4Addr>,
    pub(super) port: fn(Scheme) -> u16,
    /// The port at which it receives and sends reflected streams.
    pub(super) media_port: u16,
    pub(super) identity: Remote,
}

#[derive(Clone, Debug)]
pub(super) struct WirePacket {
    way: PacketDestination,
    bytes: u32,
    content: Bytes,
}

#[derive(Clone, Copy, Debug)]
enum PacketDestination {
    Connection {
        from: MachineId,
        to: SocketAddrV4,
        scheme: Scheme,
        connection: ConnectionId,
        path: u8,
    },
    /// All members of the multicast group, from this address.
    Group(Ipv4Addr),
    /// A media port.
    Media {
        from: SocketAddrV4,
        to: SocketAddrV4,
    },
}

type SocketAddrV4 = (Ipv4Addr, u16);

pub(super) struct SimConnections {
    wire: SimNetwork<WirePacket>,
    detail: Detail,
    /// The time-out of a handshake, if it does not depend on the path.
    handshake: Option<Duration>,
    sites: Arc<[MachineEndpoint]>,
    listeners: Arc<FxHashMap<SocketAddrV4, MachineId>>,
    /// By machine, true while it runs: packets for others are lost.
    running: Vec<bool>,
    /// By number. A connection's two ends have an even number and the next one.
    ends: Vec<Option<Box<SimConnectionEnd>>>,
    /// The part of the network that this is, and the number of parts: each numbers connections of its own.
    part: PartId,
    parts: PartId,
    dialed: u64,
    of_machine: Vec<BTreeSet<ConnectionId>>,
    pending_dials: BTreeMap<(MachineId, DialId), SimPendingDial>,
    timers: SimEventQueue<Timer>,
    news: VecDeque<(MachineId, MachineInput)>,
    /// Ends with new messages, which leave with [`SimConnections::flush`].
    fresh: Vec<ConnectionId>,
    /// The members of the multicast group, by host.
    group: BTreeMap<HostIndex, MachineId>,
    held: Vec<Option<Held>>,
    /// Bytes of packets that each machine sent and received.
    counted: Vec<[u64; 2]>,
    /// The packets of all machines, by purpose.
    shares: TrafficBreakdown,
}

#[derive(Default)]
struct Held {
    packets: Vec<WirePacket>,
    news: Vec<MachineInput>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    End(ConnectionId),
    NextAttempt(MachineId, DialId),
}
impl SimConnections {
    pub(super) fn in_parts(
        wire: SimNetwork<WirePacket>,
        partition: &Partition,
        sites: Vec<MachineEndpoint>,
        detail: Detail,
        handshake: Option<Duration>,
    ) -> Vec<Self> {
        let mut listeners = FxHashMap::default();
        for (machine, site) in sites.iter().enumerate() {
            for (scheme, address) in
                Scheme::ALL.into_iter().flat_map(|scheme| wire.addresses(site.host).map(move |at| (scheme, at)))
            {
                listeners.insert((address, (site.port)(scheme)), machine);
            }
            for address in wire.addresses(site.host) {
                listeners.insert((address, site.media_port), machine);
            }
        }
        let (sites, listeners): (Arc<[_]>, _) = (sites.into(), Arc::new(listeners));
        let count = sites.len();
        let part = |(part, wire)| Self {
            wire,
            detail,
            handshake,
            sites: Arc::clone(&sites),
            listeners: Arc::clone(&listeners),
            running: vec![false; count],
            ends: Vec::new(),
            part,
            parts: partition.count(),
            dialed: 0,
            of_machine: vec![BTreeSet::new(); count],
            pending_dials: BTreeMap::new(),
            timers: SimEventQueue::new(),
            news: VecDeque::new(),
            fresh: Vec::new(),
            group: BTreeMap::new(),
            held: (0..count).map(|_| None).collect(),
            counted: vec![[0; 2]; count],
            shares: TrafficBreakdown::default(),
        };
        (0..).zip(wire.split(partition)).map(part).collect()
    }

    pub(super) fn wire(&mut self) -> &mut SimNetwork<WirePacket> {
        &mut self.wire
    }

    pub(super) fn counted(&self, machine: MachineId) -> [u64; 2] {
        self.counted[machine]
    }

    /// The packets of all machines since their start, by purpose.
    pub(super) const fn shares(&self) -> TrafficBreakdown {
        self.shares
    }

    /// The time since which a machine has had a connection to another over this transport; the oldest of
    /// several.
    pub(super) fn up_since(&self, machine: MachineId, other: MachineId, scheme: Scheme) -> Option<Time> {
        let ends = self.of_machine[machine].iter().filter_map(|connection| self.ends[connection.0 as usize].as_ref());
        ends.filter(|end| end.far == other && end.scheme == scheme).filter_map(|end| end.up_since).min()
    }

    pub(super) fn start(&mut self, machine: MachineId) {
        self.running[machine] = true;
    }

    /// Ends a machine's process. The system closes its TCP connections; remotes do not learn of the others.
    pub(super) fn end(&mut self, now: Time, machine: MachineId) {
        self.running[machine] = false;
        self.held[machine] = None;
        let connections = std::mem::take(&mut self.of_machine[machine]);
        for connection in connections {
            let Some(mut end) = self.slot(connection).take() else { continue };
            if end.scheme == Scheme::Tcp && end.up_since.is_some() {
                end.state.abort(now, "the connection was closed");
                self.post(now, connection, &mut end);
            }
        }
        self.pending_dials.retain(|(of, _), _| *of != machine);
    }

    /// Freezes a machine's process. The system goes on with its TCP connections, and buffers packets for it up
    /// to a limit.
    pub(super) fn freeze(&mut self, machine: MachineId) {
        self.held[machine].get_or_insert_default();
    }

    pub(super) fn thaw(&mut self, now: Time, machine: MachineId) {
        let Some(held) = self.held[machine].take() else { return };
        self.news.extend(held.news.into_iter().map(|news| (machine, news)));
        for packet in held.packets {
            self.take_in(now, machine, packet);
        }
        for connection in self.of_machine[machine].clone() {
            if let Some(end) = self.slot(connection)
                && end.state.deadline().is_some_and(|at| at <= now)
            {
                end.state.handle_timeout(now);
            }
            self.drive_end(now, connection);
        }
        let dials = self.pending_dials.range((machine, DialId(0))..=(machine, DialId(u64::MAX)));
        for dial in dials.map(|((_, dial), _)| *dial).collect::<Vec<_>>() {
            if self.has_more(machine, dial) {
                self.attempt(now, machine, dial);
            }
        }
    }

    /// Adds a machine to the multicast group on its host's links and LANs.
    pub(super) fn join(&mut self, machine: MachineId) {
        self.group.insert(self.sites[machine].host, machine);
    }

    /// Sends a message to all members of the multicast group next to a machine's host; a message that is too
    /// long is dropped.
    pub(super) fn multicast(&mut self, now: Time, machine: MachineId, message: &Bytes) {
        let Some(bytes) = multicast_bytes(message.len()) else { return };
        self.counted[machine][0] += u64::from(bytes);
        self.shares.multicast_bytes += u64::from(bytes) + HEADER_BYTES as u64;
        let packet = |from| WirePacket { way: PacketDestination::Group(from), bytes, content: message.clone() };
        self.wire.multicast(now, self.sites[machine].host, bytes, packet);
    }

    /// Sends a datagram from a machine's media port.
    pub(super) fn send_datagram(&mut self, now: Time, machine: MachineId, to: SocketAddr, content: Bytes) {
        let SocketAddr::V4(to) = to else { return };
        let to = (*to.ip(), to.port());
        let source = self.source(machine, to.0);
        let site = &self.sites[machine];
        let bytes = UDP_HEADERS + content.len() as u32;
        let is_hubs = [Some(machine), self.listeners.get(&to).copied()]
            .into_iter()
            .flatten()
            .any(|at| self.sites[at].identity.role != Role::Node);
        self.shares.add(is_hubs, false, u64::from(bytes) + HEADER_BYTES as u64);
        self.counted[machine][0] += u64::from(bytes);
        let way = PacketDestination::Media { from: (source, site.media_port), to };
        let packet = WirePacket { way, bytes, content };
        self.wire.send(now, site.host, AddressedPacket { to: to.0, bytes, packet });
    }

    /// Gives an end a message, which leaves with [`Self::flush`]: messages of one time are sent together, as by
    /// the tasks of the transport.
    pub(super) fn send(&mut self, now: Time, connection: ConnectionId, how: (Channel, Delivery), message: Bytes) {
        if let Some(end) = self.slot(connection) {
            end.state.send_as(now, how.0, &how.1, message);
            if self.fresh.last() != Some(&connection) {
                self.fresh.push(connection);
            }
        }
    }

    pub(super) fn flush(&mut self, now: Time) {
        for connection in std::mem::take(&mut self.fresh) {
            self.drive_end(now, connection);
        }
    }

    pub(super) fn close(&mut self, now: Time, connection: ConnectionId, reason: &str) {
        if let Some(end) = self.slot(connection) {
            end.state.close(now, reason);
            self.drive_end(now, connection);
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.wire.deadline(), self.timers.next()].into_iter().flatten().min()
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Moves packets on until one comes to a machine's host by `until`; its time.
    pub(super) fn carry(&mut self, until: Time, trace: &mut RunFingerprint) -> Option<Time> {
        let arrival = self.wire.poll(until, trace)?;
        let at = arrival.at;
        self.arrive(arrival);
        Some(at)
    }

    /// Handles one timer that is due by `now`, if there is one.
    pub(super) fn handle_timer(&mut self, now: Time) {
        match self.timers.take_due(now) {
            Some(Timer::End(connection)) => self.time_out(now, connection),
            Some(Timer::NextAttempt(machine, dial)) if self.has_more(machine, dial) => {
                // A frozen machine continues with it after its thaw.
                if self.held[machine].is_none() {
                    self.attempt(now, machine, dial);
                }
            }
            Some(Timer::NextAttempt(..)) | None => {}
        }
    }

    /// The packets that come to hosts of other parts before `until`.
    pub(super) fn crossings(&mut self, now: Time, until: Time) -> Vec<Crossing<RoutedPacket<WirePacket>>> {
        self.wire.crossings(now, until)
    }

    pub(super) fn add_crossings(&mut self, crossings: Vec<Crossing<RoutedPacket<WirePacket>>>) {
        self.wire.add_crossings(crossings);
    }

    pub(super) fn poll(&mut self) -> Option<(MachineId, MachineInput)> {
        self.news.pop_front()
    }

    pub(super) fn far(&self, connection: ConnectionId) -> Option<MachineId> {
        self.ends.get(connection.0 as usize)?.as_ref().map(|end| end.far)
    }

    /// The end that one machine has of a connection to another.
    #[cfg(test)]
    pub(super) fn between(&self, machine: MachineId, other: MachineId) -> Option<ConnectionId> {
        let leads_there = |connection: &&ConnectionId| {
            self.ends[connection.0 as usize].as_ref().is_some_and(|end| end.up_since.is_some() && end.far == other)
        };
        self.of_machine[machine].iter().find(leads_there).copied()
    }

    fn slot(&mut self, connection: ConnectionId) -> &mut Option<Box<SimConnectionEnd>> {
        // Only this type assigns numbers, and they are dense.
        let index = connection.0 as usize;
        if index >= self.ends.len() {
            self.ends.resize_with(index + 1, || None);
        }
        &mut self.ends[index]
    }

    /// Handles a packet that has come to a host.
    fn arrive(&mut self, arrival: SimArrival<WirePacket>) {
        let SimArrival { at, host, packet } = arrival;
        let machine = match packet.way {
            PacketDestination::Connection { to, .. } | PacketDestination::Media { to, .. } => self.listeners.get(&to),
            PacketDestination::Group(_) => self.group.get(&host),
        };
        let Some(machine) = machine.copied().filter(|machine| self.running[*machine]) else { return };
        self.counted[machine][1] += u64::from(packet.bytes);
        let of_system = match packet.way {
            PacketDestination::Connection { connection, .. } => {
                self.slot(connection).as_ref().is_some_and(|end| end.is_of_system())
            }
            PacketDestination::Group(_) | PacketDestination::Media { .. } => false,
        };
        if let Some(held) = &mut self.held[machine] {
            if held.bytes + u64::from(packet.bytes) > SOCKET_BYTES {
                return;
            }
            if !of_system {
                held.bytes += u64::from(packet.bytes);
                return held.packets.push(packet);
            }
        }
        self.take_in(at, machine, packet);
    }
}
