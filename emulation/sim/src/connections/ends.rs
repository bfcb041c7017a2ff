//! The two ends of each connection: their packets on the wire, their timers, and the events for their machines.

use std::net::SocketAddr;

use roost_netcore::HEADER_BYTES;
use roost_transport::simulated::{ConnectionEnd, EndEvent};
use roost_wire::{Address, ConnectionId, DialId, Role, Scheme, Time};

use super::{MachineId, MachineInput, PacketDestination, SimConnections, SocketAddrV4, Timer, WirePacket};
use crate::network::AddressedPacket;

/// An end of a connection, at the machine that it is of.
pub(super) struct SimConnectionEnd {
    pub(super) machine: MachineId,
    pub(super) scheme: Scheme,
    pub(super) to: Vec<SocketAddrV4>,
    pub(super) far: MachineId,
    pub(super) state: ConnectionEnd,
    pub(super) begun: Time,
    /// The dial that it is an attempt of, until it is up.
    pub(super) dial: Option<DialId>,
    pub(super) up_since: Option<Time>,
    /// The time of its entry in the event queue.
    pub(super) armed: Option<Time>,
}

impl SimConnectionEnd {
    /// True if the system acts for it while its process does not.
    pub(super) fn is_of_system(&self) -> bool {
        self.scheme == Scheme::Tcp && self.up_since.is_some()
    }
}

impl SimConnections {
    pub(super) fn take_in(&mut self, now: Time, machine: MachineId, packet: WirePacket) {
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
    pub(super) fn drive_end(&mut self, now: Time, connection: ConnectionId) {
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
    pub(super) fn post(&mut self, now: Time, connection: ConnectionId, end: &mut SimConnectionEnd) {
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

    pub(super) fn time_out(&mut self, now: Time, connection: ConnectionId) {
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
}
