//! Connections between machines: dials, both ends of each connection, and their packets on the wire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roost_netcore::{Crossing, HEADER_BYTES, PartId};
use roost_topology::model::HostIndex;
use roost_transport::simulated::{ConnectionEnd, Detail, EndEvent, multicast_bytes};
use roost_wire::RemoteIdentity as Remote;
use roost_wire::address::MAX_HOSTS;
use roost_wire::{Address, Channel, ConnectionId, Delivery, DialId, NodeId, Role, RoleSet, Scheme, Time};
use rustc_hash::FxHashMap;

use super::TrafficBreakdown;
use super::event_queue::SimEventQueue;
use super::fingerprint::RunFingerprint;
use super::network::{AddressedPacket, RoutedPacket, SimArrival, SimNetwork};
use super::partition::Partition;

/// The index of a machine among all machines.
pub(super) type MachineId = usize;

/// The time before the next address of a dial is tried beside the last one, as in the transport.
const HEAD_START: Duration = Duration::from_millis(250);
/// The most addresses that a dial tries, as in the transport.
const MAX_ADDRESSES: usize = 24;
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

struct SimConnectionEnd {
    machine: MachineId,
    scheme: Scheme,
    to: Vec<SocketAddrV4>,
    far: MachineId,
    state: ConnectionEnd,
    begun: Time,
    /// The dial that it is an attempt of, until it is up.
    dial: Option<DialId>,
    up_since: Option<Time>,
    /// The time of its entry in the event queue.
    armed: Option<Time>,
}

impl SimConnectionEnd {
    /// True if the system acts for it while its process does not.
    fn is_of_system(&self) -> bool {
        self.scheme == Scheme::Tcp && self.up_since.is_some()
    }
}

/// The hosts of an address, each with the transport.
fn targets(address: &Address) -> impl Iterator<Item = (Scheme, SocketAddrV4)> {
    let hosts = address.hosts.iter().filter_map(|host| if let IpAddr::V4(host) = host { Some(*host) } else { None });
    hosts.map(|host| (address.scheme, (host, address.port)))
}

struct SimPendingDial {
    expect: RoleSet,
    node: Option<NodeId>,
    targets: VecDeque<(Scheme, SocketAddrV4)>,
    attempts: usize,
    reason: String,
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

    pub(super) fn dial(
        &mut self,
        now: Time,
        machine: MachineId,
        dial: DialId,
        addresses: Vec<Address>,
        expect: RoleSet,
        node: Option<NodeId>,
    ) {
        let reason = "no address was given".to_owned();
        let targets = addresses.iter().take(MAX_ADDRESSES).flat_map(targets).collect();
        let pending = SimPendingDial { expect, node, targets, attempts: 0, reason };
        self.pending_dials.insert((machine, dial), pending);
        self.attempt(now, machine, dial);
    }

    /// Tries the next address of a dial, if there is one.
    fn attempt(&mut self, now: Time, machine: MachineId, dial: DialId) {
        let Some(pending) = self.pending_dials.get_mut(&(machine, dial)) else { return };
        let Some((scheme, to)) = pending.targets.pop_front() else { return self.give_up(machine, dial) };
        pending.attempts += 1;
        if !pending.targets.is_empty() {
            self.timers.push(now + HEAD_START, Timer::NextAttempt(machine, dial));
        }
        let far = self.listeners.get(&to).copied().unwrap_or(machine);
        let ways = self.ways(machine, far, scheme, to.0);
        let to = if ways.len() > 1 { ways.iter().map(|(_, there)| (*there, to.1)).collect() } else { vec![to] };
        let state = ConnectionEnd::dial_over(to.len() as u8, scheme, self.detail, now);
        let end = SimConnectionEnd {
            machine,
            scheme,
            to,
            far,
            state,
            begun: now,
            dial: Some(dial),
            up_since: None,
            armed: None,
        };
        let connection = self.next_number();
        *self.slot(connection) = Some(Box::new(end));
        self.of_machine[machine].insert(connection);
        self.drive_end(now, connection);
    }

    /// The number of the next connection that is dialed in this part.
    fn next_number(&mut self) -> ConnectionId {
        self.dialed += 1;
        ConnectionId(2 * ((self.dialed - 1) * u64::from(self.parts) + u64::from(self.part)))
    }

    /// The paths of a connection from one machine to another. QUIC gets one for each net that both hosts are
    /// on, as with daemons that listen on all their addresses.
    fn ways(&self, from: MachineId, to: MachineId, scheme: Scheme, first: Ipv4Addr) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        let (from, to) = (self.sites[from].host, self.sites[to].host);
        let is_several = scheme == Scheme::Quic && self.detail == Detail::Packet && from != to;
        let mut ways = if is_several { self.wire.paths(from, to, first) } else { Vec::new() };
        // The first path is to the address that is dialed.
        let is_shared = ways.first().is_some_and(|(_, there)| *there == first);
        ways.truncate(if is_shared { MAX_HOSTS } else { 0 });
        ways
    }

    /// The address from which a machine dials another one.
    fn source(&mut self, machine: MachineId, to: Ipv4Addr) -> Ipv4Addr {
        let MachineEndpoint { host, addresses, .. } = &self.sites[machine];
        if let [only] = addresses[..] {
            return only;
        }
        let source = self.wire.source(*host, to).filter(|source| addresses.contains(source));
        source.unwrap_or(addresses[0])
    }

    /// True if a dial has addresses that were not tried yet.
    fn has_more(&self, machine: MachineId, dial: DialId) -> bool {
        self.pending_dials.get(&(machine, dial)).is_some_and(|pending| !pending.targets.is_empty())
    }

    /// Reports a dial as failed once it has no attempt left.
    fn give_up(&mut self, machine: MachineId, dial: DialId) {
        if let Some(pending) = self.pending_dials.get(&(machine, dial)).filter(|pending| pending.attempts == 0) {
            self.news.push_back((machine, MachineInput::Unreachable { dial, reason: pending.reason.clone() }));
            self.pending_dials.remove(&(machine, dial));
        }
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

    fn time_out(&mut self, now: Time, connection: ConnectionId) {
        let Some(mut end) = self.slot(connection).take_if(|end| end.armed == Some(now)) else { return };
        end.armed = None;
        let stands_still = self.held[end.machine].is_some() && !end.is_of_system();
        if !stands_still {
            end.state.handle_timeout(now);
        }
        *self.slot(connection) = Some(end);
        if !stands_still {
            self.drive_end(now, connection);
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

    fn take_in(&mut self, now: Time, machine: MachineId, packet: WirePacket) {
        let content = packet.content;
        let (from, to, scheme, connection, path) = match packet.way {
            PacketDestination::Connection { from, to, scheme, connection, path } => {
                (from, to, scheme, connection, path)
            }
            PacketDestination::Media { from, .. } => {
                let from = SocketAddr::from(from);
                return self.news.push_back((machine, MachineInput::Datagram { from, content }));
            }
            PacketDestination::Group(from) => {
                return self.news.push_back((machine, MachineInput::Multicast { from: from.into(), message: content }));
            }
        };
        if self.slot(connection).is_none()
            && connection.0 % 2 == 1
            && path == 0
            && ConnectionEnd::is_first_packet(&content)
        {
            let port = (self.sites[from].port)(scheme);
            let back = (self.source(from, to.0), port);
            let ways = self.ways(from, machine, scheme, to.0);
            let back = if ways.len() > 1 { ways.iter().map(|(there, _)| (*there, port)).collect() } else { vec![back] };
            let state = ConnectionEnd::accept_over(back.len() as u8, scheme, self.detail, now);
            let end = SimConnectionEnd {
                machine,
                scheme,
                to: back,
                far: from,
                state,
                begun: now,
                dial: None,
                up_since: None,
                armed: None,
            };
            *self.slot(connection) = Some(Box::new(end));
            self.of_machine[machine].insert(connection);
        }
        // A packet for a connection that is gone gets no answer.
        let Some(end) = self.slot(connection).as_mut().filter(|end| end.machine == machine) else { return };
        end.state.handle_packet(now, path, &content);
        self.drive_end(now, connection);
    }

    /// Sends an end's packets and reports its events.
    fn drive_end(&mut self, now: Time, connection: ConnectionId) {
        let Some(mut end) = self.slot(connection).take() else { return };
        while let Some(happening) = end.state.poll_event() {
            self.notify_machine(now, connection, &mut end, happening);
        }
        self.post(now, connection, &mut end);
        if end.state.is_over() {
            return self.remove(now, connection, &end);
        }
        let given_up = self.handshake.filter(|_| end.up_since.is_none()).map(|limit| end.begun + limit);
        if given_up.is_some_and(|at| at <= now) {
            return self.remove(now, connection, &end);
        }
        if let Some(at) = end.state.deadline().into_iter().chain(given_up).min().map(|at| at.max(now))
            && end.armed.is_none_or(|armed| at < armed)
        {
            end.armed = Some(at);
            self.timers.push(at, Timer::End(connection));
        }
        *self.slot(connection) = Some(end);
    }

    /// Puts an end's packets on the wire.
    fn post(&mut self, now: Time, connection: ConnectionId, end: &mut SimConnectionEnd) {
        let site = &self.sites[end.machine];
        while let Some(parcel) = end.state.poll_packet(now) {
            let Some(to) = end.to.get(usize::from(parcel.path)).copied() else { continue };
            let (from, scheme, path) = (end.machine, end.scheme, parcel.path);
            let is_hubs = [end.machine, end.far].iter().any(|at| self.sites[*at].identity.role != Role::Node);
            let is_greeting = ConnectionEnd::is_of_handshake(&parcel.content);
            self.shares.add(is_hubs, is_greeting, u64::from(parcel.bytes) + HEADER_BYTES as u64);
            let way =
                PacketDestination::Connection { from, to, scheme, connection: ConnectionId(connection.0 ^ 1), path };
            let packet = WirePacket { way, bytes: parcel.bytes, content: parcel.content };
            self.counted[end.machine][0] += u64::from(parcel.bytes);
            let addressed = AddressedPacket { to: to.0, bytes: parcel.bytes, packet };
            self.wire.send(now, site.host, addressed);
        }
    }

    fn remove(&mut self, now: Time, connection: ConnectionId, end: &SimConnectionEnd) {
        self.of_machine[end.machine].remove(&connection);
        if let Some(dial) = end.dial {
            self.attempt_failed(now, end.machine, dial, "nobody answers there".to_owned());
        }
    }

    fn attempt_failed(&mut self, now: Time, machine: MachineId, dial: DialId, reason: String) {
        if let Some(pending) = self.pending_dials.get_mut(&(machine, dial)) {
            pending.attempts -= 1;
            pending.reason = reason;
            self.attempt(now, machine, dial);
        }
    }

    /// Passes an event of an end to its machine.
    fn notify_machine(&mut self, now: Time, connection: ConnectionId, end: &mut SimConnectionEnd, happening: EndEvent) {
        let news = match happening {
            EndEvent::Message(message) => MachineInput::Message { connection, message },
            EndEvent::Down { reason } => MachineInput::Down { connection, reason },
            EndEvent::Up { rtt } => {
                let remote = self.sites[end.far].identity.clone();
                let dial = end.dial.take();
                if let Some(dial) = dial {
                    let Some(pending) = self.pending_dials.get_mut(&(end.machine, dial)) else {
                        return end.state.close(now, "another address was faster");
                    };
                    let unexpected =
                        !pending.expect.contains(remote.role) || pending.node.is_some_and(|node| node != remote.node);
                    if unexpected {
                        // The end is removed when its farewell has left, and the attempt with it.
                        end.dial = Some(dial);
                        pending.reason = "another node answers there".to_owned();
                        return end.state.close(now, "you are not the node that was expected");
                    }
                    self.pending_dials.remove(&(end.machine, dial));
                }
                end.up_since = Some(now);
                let address = Address::single(end.scheme, SocketAddr::from(end.to[0]));
                MachineInput::Up { connection, dial, remote, address, rtt }
            }
        };
        match (&mut self.held[end.machine], &news) {
            (Some(held), MachineInput::Message { message, .. }) => {
                held.bytes += message.len() as u64;
                held.news.push(news);
            }
            (Some(held), _) => held.news.push(news),
            (None, _) => self.news.push_back((end.machine, news)),
        }
    }
}
