//! Networks in parts, which run side by side.
//!
//! Each part is a copy of the network that has the packets of its own ports. A packet that has been transmitted comes
//! out a known delay later. So a part that has run up to a time can say which packets come out in another part by that
//! time and the shortest such delay, and both go on alone until then.

use std::collections::{BTreeSet, VecDeque};

use roost_wire::Time;

use super::network::{Attachment, Delivery, Destination, Exit, Network, PipeId, Port};
use super::pipe::Header;

pub type PartId = u8;

/// A packet that comes out in another part.
#[derive(Clone, Debug)]
pub struct Crossing<P> {
    pub to: PartId,
    due: Time,
    pipe: PipeId,
    sequence: u64,
    header: Header,
    packet: P,
}

#[derive(Clone, Debug)]
pub(super) struct NetworkPart<P> {
    own: PartId,
    parts_of_ports: Vec<PartId>,
    /// The pipes whose packets may come out in other parts.
    pipes: Vec<PipeId>,
    /// The time up to which their packets have crossed.
    crossed: Time,
    /// Packets from other parts, in the order in which they come out.
    arrivals: VecDeque<Crossing<P>>,
}

impl<P> NetworkPart<P> {
    fn is_own(&self, port: Port) -> bool {
        self.parts_of_ports[port.index()] == self.own
    }
}

impl<P: Clone> Network<P> {
    /// Makes this copy of a network, which must be empty, the part `own` of it. `parts` gives the part of each port.
    pub fn set_part(&mut self, own: PartId, parts: Vec<PartId>) {
        let mut part = NetworkPart {
            own,
            parts_of_ports: parts,
            pipes: Vec::new(),
            crossed: Time::ZERO,
            arrivals: VecDeque::new(),
        };
        let own_ports = self.ports.iter().enumerate().filter(|(index, _)| part.is_own(Port::from_index(*index)));
        let crosses = |port: &Attachment| self.far_ports(port).any(|far| !part.is_own(far));
        part.pipes = own_ports.filter(|(_, port)| crosses(port)).map(|(_, port)| port.to_net).collect();
        self.part = Some(Box::new(part));
    }

    fn far_ports(&self, port: &Attachment) -> impl Iterator<Item = Port> {
        let lan = if port.other_end.is_none() { self.lans[port.lan].as_slice() } else { &[] };
        port.other_end.into_iter().chain(lan.iter().copied())
    }

    /// The packets that come out in other parts before `until`, unless they were in an earlier result. Every event
    /// before `now` is over, and no packet that is transmitted from `now` on may come out before `until`.
    pub fn crossings(&mut self, now: Time, until: Time) -> Vec<Crossing<P>> {
        let Some(mut part) = self.part.take() else { return Vec::new() };
        let before = Time::from_nanos(now.as_nanos().saturating_sub(1));
        let mut found = Vec::new();
        for id in &part.pipes {
            let in_flight = self.pipes[id.0 as usize].in_flight(before);
            let due = in_flight.filter(|inside| inside.due >= part.crossed && inside.due < until);
            for inside in due {
                let crossing = |to| Crossing {
                    to,
                    due: inside.due,
                    pipe: *id,
                    sequence: inside.sequence,
                    header: inside.header,
                    packet: inside.packet.clone(),
                };
                let parts = match (inside.header.to, self.exits[id.0 as usize]) {
                    (Destination::Port(to), _) | (Destination::Others, Exit::Port(to)) => {
                        BTreeSet::from([part.parts_of_ports[to.index()]])
                    }
                    (Destination::Others, Exit::Switch(from)) => {
                        let lan = &self.lans[self.ports[from.index()].lan];
                        lan.iter().map(|port| part.parts_of_ports[port.index()]).collect()
                    }
                };
                found.extend(parts.into_iter().filter(|to| *to != part.own).map(crossing));
            }
        }
        part.crossed = part.crossed.max(until);
        self.part = Some(part);
        found
    }

    /// Adds packets of other parts that come out here at or after [`Network::now`]. Those beyond the limit of packets,
    /// which holds for each part, are dropped and counted as overflows.
    pub fn add_crossings(&mut self, mut crossings: Vec<Crossing<P>>) {
        let Some(part) = &mut self.part else { return };
        let room = self.limits.network_packets.saturating_sub(self.held);
        self.overflows += crossings.len().saturating_sub(room) as u64;
        crossings.truncate(room);
        self.held += crossings.len();
        part.arrivals.extend(crossings);
        let order = |crossing: &Crossing<P>| (crossing.due, crossing.pipe, crossing.sequence);
        part.arrivals.make_contiguous().sort_by_key(order);
    }

    /// True if a port's packets are those of this network.
    pub(super) fn is_own(&self, port: Port) -> bool {
        self.part.as_ref().is_none_or(|part| part.is_own(port))
    }

    pub(super) fn next_crossing(&self) -> Option<Time> {
        self.part.as_ref()?.arrivals.front().map(|crossing| crossing.due)
    }

    /// Lets the next packet of another part come out if it is due by `now` and before all else; false if there is
    /// none.
    pub(super) fn step_crossing(&mut self, now: Time) -> bool {
        let Some(due) = self.next_crossing().filter(|due| *due <= now) else { return false };
        let is_later = self.agenda.first().is_some_and(|((first, _), _)| first < due);
        if is_later || self.next_change().is_some_and(|change| change <= due) {
            return false;
        }
        let arrival = self.part.as_mut().and_then(|part| part.arrivals.pop_front());
        let Some(Crossing { pipe, header, packet, .. }) = arrival else { return false };
        self.proceed(due);
        match self.exits[pipe.0 as usize] {
            Exit::Port(port) => self.ready.push_back(Delivery { due, port, bytes: header.bytes, packet }),
            Exit::Switch(from) => {
                self.held -= 1;
                self.switch(from, header, packet);
            }
        }
        true
    }
}
