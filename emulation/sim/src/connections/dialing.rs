//! Dials: the addresses of a remote, one after the other, until one answers as the node that was meant.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use roost_transport::simulated::{ConnectionEnd, Detail};
use roost_wire::address::MAX_HOSTS;
use roost_wire::{Address, ConnectionId, DialId, NodeId, RoleSet, Scheme, Time};

use super::ends::SimConnectionEnd;
use super::{MachineEndpoint, MachineId, MachineInput, SimConnections, SocketAddrV4, Timer};

/// The time before the next address of a dial is tried beside the last one, as in the transport.
const HEAD_START: Duration = Duration::from_millis(250);
/// The most addresses that a dial tries, as in the transport.
const MAX_ADDRESSES: usize = 24;

/// A dial under way, and the addresses that it has not tried yet.
pub(super) struct SimPendingDial {
    pub(super) expect: RoleSet,
    pub(super) node: Option<NodeId>,
    pub(super) targets: VecDeque<(Scheme, SocketAddrV4)>,
    pub(super) attempts: usize,
    pub(super) reason: String,
}

/// The hosts of an address, each with the transport.
fn targets(address: &Address) -> impl Iterator<Item = (Scheme, SocketAddrV4)> {
    let hosts = address.hosts.iter().filter_map(|host| if let IpAddr::V4(host) = host { Some(*host) } else { None });
    hosts.map(|host| (address.scheme, (host, address.port)))
}

impl SimConnections {
    pub(crate) fn dial(
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
    pub(super) fn attempt(&mut self, now: Time, machine: MachineId, dial: DialId) {
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
    pub(super) fn ways(
        &self,
        from: MachineId,
        to: MachineId,
        scheme: Scheme,
        first: Ipv4Addr,
    ) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        let (from, to) = (self.sites[from].host, self.sites[to].host);
        let is_several = scheme == Scheme::Quic && self.detail == Detail::Packet && from != to;
        let mut ways = if is_several { self.wire.paths(from, to, first) } else { Vec::new() };
        // The first path is to the address that is dialed.
        let is_shared = ways.first().is_some_and(|(_, there)| *there == first);
        ways.truncate(if is_shared { MAX_HOSTS } else { 0 });
        ways
    }

    /// The address from which a machine dials another one.
    pub(super) fn source(&mut self, machine: MachineId, to: Ipv4Addr) -> Ipv4Addr {
        let MachineEndpoint { host, addresses, .. } = &self.sites[machine];
        if let [only] = addresses[..] {
            return only;
        }
        let source = self.wire.source(*host, to).filter(|source| addresses.contains(source));
        source.unwrap_or(addresses[0])
    }

    /// True if a dial has addresses that were not tried yet.
    pub(super) fn has_more(&self, machine: MachineId, dial: DialId) -> bool {
        self.pending_dials.get(&(machine, dial)).is_some_and(|pending| !pending.targets.is_empty())
    }

    /// Reports a dial as failed once it has no attempt left.
    fn give_up(&mut self, machine: MachineId, dial: DialId) {
        if let Some(pending) = self.pending_dials.get(&(machine, dial)).filter(|pending| pending.attempts == 0) {
            self.news.push_back((machine, MachineInput::Unreachable { dial, reason: pending.reason.clone() }));
            self.pending_dials.remove(&(machine, dial));
        }
    }

    pub(super) fn attempt_failed(&mut self, now: Time, machine: MachineId, dial: DialId, reason: String) {
        if let Some(pending) = self.pending_dials.get_mut(&(machine, dial)) {
            pending.attempts -= 1;
            pending.reason = reason;
            self.attempt(now, machine, dial);
        }
    }
}
