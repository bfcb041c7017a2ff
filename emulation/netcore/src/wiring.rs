//! The pipes of a topology, and the names of their ports.
//!
//! Descriptions give values from host to host; pipes have values of their own. On a **link** each direction is
//! one pipe, so the two are the same. On a **LAN** a packet crosses two pipes, so for all members together:
//!
//! | end to end | sender's `to_net` | receiver's `from_net` |
//! |---|---|---|
//! | delay d | d/2 | d/2 |
//! | loss p | 1 − √(1 − p) | 1 − √(1 − p) |
//! | jitter, burst, trace | all of it | none |
//! | rate, queue, up, down | the same | the same |
//!
//! [`Leg::halves`] splits the values of a LAN in this way.
//!
//! A change of one member's legs gives each leg the value unchanged, not halved, like Emulab's
//! `tb-set-node-lan-delay` and its kin. A LAN that is down loses packets on their way to the switch, at the
//! receivers' legs.

use std::time::Duration;

use roost_motion::LinkCourse;
use roost_results::record;
use roost_topology::model::{
    Action, Event, HostIndex, Leg, Net, NetIndex, NetKind, RadioLinks, Topology, TopologyChange,
};
use roost_topology::units::Rate;
use roost_wire::Time;

use super::{Network, PipeChange, PipeConfig, PipeCounters, PipeId, Port, ScheduleFull};

#[cfg(test)]
mod tests;

/// The map between the members of a topology's links and LANs and the ports of the network, with the schedule.
#[derive(Clone, Debug)]
pub struct Wiring {
    nets: Vec<WiredNet>,
    /// By port: its net, and its index among the members.
    places: Vec<(NetIndex, usize)>,
    schedule: Vec<NetEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WiringError {
    #[error("there is no link or LAN of number {0}")]
    NoSuchNet(NetIndex),
    #[error("host number {host} is not on link or LAN number {net}")]
    NotAMember { net: NetIndex, host: HostIndex },
    #[error("link or LAN number {0} is a radio, and its links follow from places")]
    Radio(NetIndex),
    /// Too many changes are scheduled at a time.
    #[error(transparent)]
    Full(#[from] ScheduleFull),
}

#[derive(Clone, Debug)]
struct WiredNet {
    name: String,
    is_link: bool,
    is_radio: bool,
    members: Vec<WiredMember>,
}

#[derive(Clone, Debug)]
struct WiredMember {
    host: HostIndex,
    name: String,
    port: Port,
    to_net: PipeId,
    from_net: PipeId,
}

#[derive(Clone, Copy, Debug)]
struct NetEvent {
    at: Duration,
    net: NetIndex,
    from: Option<HostIndex>,
    change: TopologyChange,
}

/// Builds the network of a topology; its losses and jitter follow from `seed`. Nothing is scheduled before
/// [`Wiring::begin`]. A link is expected to have two members; with another number it is wired as a LAN.
pub fn build<P: Clone>(topology: &Topology, seed: u64) -> (Network<P>, Wiring) {
    let mut network = Network::new(seed);
    let mut wiring = Wiring { nets: Vec::new(), places: Vec::new(), schedule: schedule(topology) };
    for net in &topology.nets {
        wiring.add(&mut network, topology, net);
    }
    // A topology that was not resolved has no places, and its radios stay silent.
    if let Ok(Some(course)) = LinkCourse::new(topology, seed) {
        let ports = topology.radios.iter().map(|radio| wiring.ports(radio.net)).collect();
        network.follow(course, ports);
    }
    (network, wiring)
}

/// The pipe of a link's direction: the sender's leg and the receiver's [joined](Leg::joined), with both models
/// of bursts.
pub fn direction(to_net: &Leg, from_net: &Leg) -> PipeConfig {
    PipeConfig { burst: [to_net.burst, from_net.burst], ..PipeConfig::from(&to_net.joined(from_net)) }
}

impl Wiring {
    /// The port of a net's member, which is given by its index in the description.
    pub fn port(&self, net: NetIndex, member: usize) -> Option<Port> {
        Some(self.nets.get(net)?.members.get(member)?.port)
    }

    /// The net of a port, and the index of its member in the description.
    pub fn place(&self, port: Port) -> Option<(NetIndex, usize)> {
        self.places.get(port.index()).copied()
    }

    /// Schedules the topology's timed changes of its nets, for a workload that begins at `begin`, and begins its
    /// traces there. Events that wait for a program are left to the caller, who sees it end.
    ///
    /// # Errors
    /// Fails when an event is about an unknown host, or there are too many; nothing is scheduled then.
    pub fn begin<P: Clone>(&self, network: &mut Network<P>, begin: Time) -> Result<(), WiringError> {
        let mut changes = Vec::new();
        for event in &self.schedule {
            let of_event = self.changes(event.net, event.from, event.change)?;
            changes.extend(of_event.into_iter().map(|change| (begin + event.at, change)));
        }
        network.schedule_all(changes)?;
        network.play(begin);
        network.begin_motion(begin);
        Ok(())
    }

    fn ports(&self, net: NetIndex) -> Vec<Port> {
        self.nets.get(net).into_iter().flat_map(|net| net.members.iter().map(|member| member.port)).collect()
    }

    /// Translates a change of a net, or of one host's legs of it, into changes of pipes.
    ///
    /// # Errors
    /// Fails when there is no such net, it is a radio, or the host is not on it.
    pub fn changes(
        &self,
        net: NetIndex,
        from: Option<HostIndex>,
        change: TopologyChange,
    ) -> Result<Vec<PipeChange>, WiringError> {
        let wired = self.nets.get(net).ok_or(WiringError::NoSuchNet(net))?;
        if wired.is_radio {
            return Err(WiringError::Radio(net));
        }
        let concerned = |member: &&WiredMember| from.is_none_or(|host| host == member.host);
        let members: Vec<&WiredMember> = wired.members.iter().filter(concerned).collect();
        if let (Some(host), true) = (from, members.is_empty()) {
            return Err(WiringError::NotAMember { net, host });
        }
        let [to_net, from_net] = match from {
            None if !wired.is_link => change.halves(),
            _ => [change, change],
        };
        let mut changes = Vec::with_capacity(2 * members.len());
        for member in members {
            changes.push(PipeChange { pipe: member.to_net, change: to_net });
            if !wired.is_link {
                changes.push(PipeChange { pipe: member.from_net, change: from_net });
            }
        }
        Ok(changes)
    }

    /// Counts every direction, by net and member in their order. This is quick, since it gives only numbers;
    /// [`Self::name`] adds the names.
    pub fn count<P: Clone>(&self, network: &Network<P>) -> Vec<DirectionCounters> {
        let count = |pipe: PipeId| DirectionCounters {
            counters: network.counters(pipe),
            rate_bps: network.rate(pipe).map_or(0, Rate::bps),
            capacity_bytes: network.capacity(pipe),
            is_down: !network.is_up(pipe),
        };
        self.directions().map(|(_, _, _, pipe)| count(pipe)).collect()
    }

    /// Adds names to the result of [`Self::count`].
    pub fn name(&self, counts: Vec<DirectionCounters>) -> Vec<record::LinkRecord> {
        let named = self.directions().zip(counts);
        named.map(|((net, member, direction, _), count)| count.named(net, member, direction)).collect()
    }

    /// The directions of a net, as its counters name them.
    pub fn pipes(&self, net: NetIndex) -> Vec<NamedPipe> {
        let name = |wired: &WiredNet, member: &WiredMember, direction: &str| {
            format!("{} {} {direction}", wired.name, member.name)
        };
        let Some(chosen) = self.nets.get(net) else { return Vec::new() };
        let of_net = self.directions().filter(|(wired, ..)| std::ptr::eq(*wired, chosen));
        of_net
            .map(|(wired, member, direction, pipe)| NamedPipe { pipe, name: name(wired, member, direction) })
            .collect()
    }

    fn directions(&self) -> impl Iterator<Item = (&WiredNet, &WiredMember, &'static str, PipeId)> {
        self.nets.iter().flat_map(|net| net.members.iter().map(move |member| (net, member))).flat_map(
            |(net, member)| {
                let from_net = (!net.is_link).then_some((net, member, "from-net", member.from_net));
                std::iter::once((net, member, "to-net", member.to_net)).chain(from_net)
            },
        )
    }

    fn add<P: Clone>(&mut self, network: &mut Network<P>, topology: &Topology, net: &Net) {
        let pair = match (net.kind, net.members.as_slice()) {
            (NetKind::Link, [a, b]) => Some((a, b)),
            _ => None,
        };
        let radio = topology.radio(self.nets.len());
        let ports = match pair {
            Some((a, b)) => {
                network.add_link(direction(&a.to_net, &b.from_net), direction(&b.to_net, &a.from_net)).to_vec()
            }
            None => match radio.map(|radio| (radio, &radio.links)) {
                Some((radio, RadioLinks::Pairs)) => network.add_pairs(net.members.len(), radio.queue),
                Some((radio, RadioLinks::Shared(rules))) => network.add_medium(net.members.len(), radio.queue, *rules),
                Some((_, RadioLinks::Access(_))) | None => {
                    let legs = net.members.iter().map(|member| ((&member.to_net).into(), (&member.from_net).into()));
                    network.add_lan(&legs.collect::<Vec<_>>())
                }
            },
        };
        let index = self.nets.len();
        let mut members = Vec::with_capacity(ports.len());
        for (place, (member, port)) in net.members.iter().zip(ports).enumerate() {
            let (Some(to_net), Some(from_net)) = (network.to_net(port), network.from_net(port)) else { continue };
            let name = topology.hosts.get(member.host).map(|host| host.name.clone()).unwrap_or_default();
            members.push(WiredMember { host: member.host, name, port, to_net, from_net });
            self.places.push((index, place));
        }
        self.nets.push(WiredNet {
            name: net.name.clone(),
            is_link: pair.is_some(),
            is_radio: radio.is_some(),
            members,
        });
    }
}

/// A direction of a net, with its name: `LINK HOST DIRECTION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPipe {
    pub pipe: PipeId,
    pub name: String,
}

/// The scheduled changes of links and LANs that do not wait for a program.
fn schedule(topology: &Topology) -> Vec<NetEvent> {
    let net_event = |event: &Event| match event.action {
        Action::Net { net, from, change } if event.after.is_none() => {
            Some(NetEvent { at: event.at, net, from, change })
        }
        _ => None,
    };
    topology.events.iter().filter_map(net_event).collect()
}

/// The counters of one direction of a net.
#[derive(Clone, Copy, Debug)]
pub struct DirectionCounters {
    counters: PipeCounters,
    rate_bps: u64,
    capacity_bytes: Option<u64>,
    is_down: bool,
}

impl DirectionCounters {
    fn named(self, net: &WiredNet, member: &WiredMember, direction: &str) -> record::LinkRecord {
        let total = self.counters.total();
        record::LinkRecord {
            link: net.name.clone(),
            host: member.name.clone(),
            direction: direction.to_owned(),
            packets_in: total.arrived.packets,
            bytes_in: total.arrived.bytes,
            packets_out: total.delivered.packets,
            bytes_out: total.delivered.bytes,
            multicast_bytes_in: self.counters.multicast.arrived.bytes,
            // Drops at the network's own limits count as queue drops; the run reports them as overflows as
            // well.
            dropped_queue: total.dropped_queue.packets + total.dropped_limit.packets,
            dropped_loss: total.dropped_loss.packets,
            dropped_down: total.dropped_down.packets,
            in_flight: total.in_flight.packets,
            in_flight_bytes: total.in_flight.bytes,
            rate_bps: self.rate_bps,
            capacity_bytes: self.capacity_bytes,
            is_down: self.is_down,
        }
    }
}
