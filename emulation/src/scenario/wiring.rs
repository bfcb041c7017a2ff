//! From a description to pipes, and back to names.
//!
//! Descriptions speak of what goes from host to host; pipes have values of
//! their own. On a **link** each direction is one pipe, so the two are the
//! same. On a **LAN** a packet crosses two pipes, so for all members together:
//!
//! | end to end | sender's `to_net` | receiver's `from_net` |
//! |---|---|---|
//! | delay d | d/2 | d/2 |
//! | loss p | 1 − √(1 − p) | 1 − √(1 − p) |
//! | jitter, burst | all of it | none |
//! | rate, queue, up, down | the same | the same |
//!
//! which is how [`Leg::halves`] splits what a file says of a LAN.
//!
//! A change of one member's legs gives each leg the value as it is, not
//! halved, as Emulab's `tb-set-node-lan-delay` and its kin do. A LAN that is
//! down loses what is on its way to the switch, at the receivers' legs.

use std::time::Duration;

use roost_proto::Time;

use super::topology::{Action, Change, Event, HostIndex, Leg, Net, NetIndex, NetKind, Topology};
use crate::netcore::{Network, PipeChange, PipeConfig, PipeId, Port, ScheduleFull};
use crate::report::record;

/// Where the members of a topology's links and LANs are in the network, under
/// which names, and what is scheduled for them.
#[derive(Clone, Debug)]
pub struct Wiring {
    nets: Vec<WiredNet>,
    /// By port: its net, and its place among the members.
    places: Vec<(NetIndex, usize)>,
    schedule: Vec<NetEvent>,
}

/// Why a change cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WiringError {
    /// The topology has fewer nets.
    #[error("there is no link or LAN of number {0}")]
    NoSuchNet(NetIndex),
    /// The host has no interface there.
    #[error("host number {host} is not on link or LAN number {net}")]
    NotAMember {
        /// The link or LAN.
        net: NetIndex,
        /// The host.
        host: HostIndex,
    },
    /// Too much is scheduled at a time.
    #[error(transparent)]
    Full(#[from] ScheduleFull),
}

#[derive(Clone, Debug)]
struct WiredNet {
    name: String,
    is_link: bool,
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
    change: Change,
}

/// Makes the network of a topology; its losses and jitter follow from `seed`.
/// Nothing is scheduled before [`Wiring::begin`]. A link is expected to have
/// two members; with another number it is wired as a LAN.
pub fn build<P: Clone>(topology: &Topology, seed: u64) -> (Network<P>, Wiring) {
    let mut network = Network::new(seed);
    let mut wiring = Wiring { nets: Vec::new(), places: Vec::new(), schedule: schedule(topology) };
    for net in &topology.nets {
        wiring.add(&mut network, topology, net);
    }
    (network, wiring)
}

/// The pipe of a link's direction, from the sender's leg and the receiver's:
/// the two [joined](Leg::joined), with both models of bursts.
pub fn direction(to_net: &Leg, from_net: &Leg) -> PipeConfig {
    PipeConfig { burst: [to_net.burst, from_net.burst], ..PipeConfig::from(&to_net.joined(from_net)) }
}

impl Wiring {
    /// Where the packets of a net's member, by its place in the description, go in and out.
    pub fn port(&self, net: NetIndex, member: usize) -> Option<Port> {
        Some(self.nets.get(net)?.members.get(member)?.port)
    }

    /// Whose port it is: the net, and the member's place in its description.
    pub fn place(&self, port: Port) -> Option<(NetIndex, usize)> {
        self.places.get(port.index()).copied()
    }

    /// Schedules what the topology does to its nets at given times, for a
    /// workload that begins at `begin`. Events that wait for a program are left
    /// to whoever sees it end.
    ///
    /// # Errors
    /// When an event is about a host that is not there, or there are too many;
    /// those before it are scheduled.
    pub fn begin<P: Clone>(&self, network: &mut Network<P>, begin: Time) -> Result<(), WiringError> {
        for event in &self.schedule {
            for change in self.changes(event.net, event.from, event.change)? {
                network.schedule(begin + event.at, change)?;
            }
        }
        Ok(())
    }

    /// What a change of a net, or of one host's legs of it, does to the pipes.
    ///
    /// # Errors
    /// When there is no such net, or the host is not on it.
    pub fn changes(
        &self,
        net: NetIndex,
        from: Option<HostIndex>,
        change: Change,
    ) -> Result<Vec<PipeChange>, WiringError> {
        let wired = self.nets.get(net).ok_or(WiringError::NoSuchNet(net))?;
        let concerned = |member: &&WiredMember| from.is_none_or(|host| host == member.host);
        let members: Vec<&WiredMember> = wired.members.iter().filter(concerned).collect();
        if let (Some(host), true) = (from, members.is_empty()) {
            return Err(WiringError::NotAMember { net, host });
        }
        let [to_net, from_net] = match from {
            None if !wired.is_link => legs(change),
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

    /// What went through every direction, by net and member in their order.
    pub fn counters<P: Clone>(&self, network: &Network<P>) -> Vec<record::Link> {
        let mut links = Vec::new();
        for net in &self.nets {
            for member in &net.members {
                links.push(count(network, net, member, "to-net", member.to_net));
                if !net.is_link {
                    links.push(count(network, net, member, "from-net", member.from_net));
                }
            }
        }
        links
    }

    fn add<P: Clone>(&mut self, network: &mut Network<P>, topology: &Topology, net: &Net) {
        let pair = match (net.kind, net.members.as_slice()) {
            (NetKind::Link, [a, b]) => Some((a, b)),
            _ => None,
        };
        let ports = match pair {
            Some((a, b)) => {
                network.add_link(direction(&a.to_net, &b.from_net), direction(&b.to_net, &a.from_net)).to_vec()
            }
            None => {
                let legs = net.members.iter().map(|member| ((&member.to_net).into(), (&member.from_net).into()));
                network.add_lan(&legs.collect::<Vec<_>>())
            }
        };
        let index = self.nets.len();
        let mut members = Vec::with_capacity(ports.len());
        for (place, (member, port)) in net.members.iter().zip(ports).enumerate() {
            let (Some(to_net), Some(from_net)) = (network.to_net(port), network.from_net(port)) else { continue };
            let name = topology.hosts.get(member.host).map(|host| host.name.clone()).unwrap_or_default();
            members.push(WiredMember { host: member.host, name, port, to_net, from_net });
            self.places.push((index, place));
        }
        self.nets.push(WiredNet { name: net.name.clone(), is_link: pair.is_some(), members });
    }
}

/// What is to happen to links and LANs, whatever programs do.
fn schedule(topology: &Topology) -> Vec<NetEvent> {
    let net_event = |event: &Event| match event.action {
        Action::Net { net, from, change } if event.after.is_none() => {
            Some(NetEvent { at: event.at, net, from, change })
        }
        _ => None,
    };
    topology.events.iter().filter_map(net_event).collect()
}

/// What each sender's and each receiver's leg of a LAN gets of a value from host to host.
fn legs(change: Change) -> [Change; 2] {
    match change {
        Change::Delay(delay) => [Change::Delay(delay - delay / 2), Change::Delay(delay / 2)],
        Change::Jitter(jitter) => [Change::Jitter(jitter), Change::Jitter(Duration::ZERO)],
        Change::Loss(loss) => [Change::Loss(1.0 - (1.0 - loss).max(0.0).sqrt()); 2],
        Change::Burst(burst) => [Change::Burst(burst), Change::Burst(None)],
        Change::Up | Change::Down | Change::Rate(_) | Change::Queue(_) => [change; 2],
    }
}

fn count<P: Clone>(
    network: &Network<P>,
    net: &WiredNet,
    member: &WiredMember,
    direction: &str,
    pipe: PipeId,
) -> record::Link {
    let counters = network.counters(pipe);
    let total = counters.total();
    record::Link {
        link: net.name.clone(),
        host: member.name.clone(),
        direction: direction.to_owned(),
        packets_in: total.arrived.packets,
        bytes_in: total.arrived.bytes,
        packets_out: total.delivered.packets,
        bytes_out: total.delivered.bytes,
        multicast_bytes_in: counters.multicast.arrived.bytes,
        // The network's own limits are a queue too: the run says so by its overflows.
        dropped_queue: total.dropped_queue.packets + total.dropped_limit.packets,
        dropped_loss: total.dropped_loss.packets,
        dropped_down: total.dropped_down.packets,
        in_flight: total.in_flight.packets,
        rate_bps: network.config(pipe).map_or(0, |config| config.rate.bps()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixture;
    use super::*;
    use crate::netcore::Destination;
    use crate::scenario::topology::{Burst, Queue};
    use crate::units::Rate;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(duration: Duration) -> Time {
        Time::ZERO + duration
    }

    /// A link between hosts 0 and 1, and a LAN of hosts 0, 2, 3; each 100 Mbit/s and 10 ms.
    fn topology() -> Topology {
        fixture::nets(4, &[&[0, 1], &[0, 2, 3]])
    }

    /// How long 1250 bytes take that are sent at `start` from one member of a net to another.
    fn crossing(topology: &Topology, net: NetIndex, [from, to]: [usize; 2], start: Duration) -> Option<Duration> {
        let (mut network, wiring) = build::<()>(topology, 1);
        wiring.begin(&mut network, Time::ZERO).unwrap();
        let [from, to] = [from, to].map(|member| wiring.port(net, member).unwrap());
        network.send(at(start), from, Destination::Port(to), 1250, ());
        let delivery = network.poll_delivery(Time::from_nanos(u64::MAX))?;
        assert_eq!(delivery.port, to);
        Some(delivery.due - at(start))
    }

    fn event(at: Duration, net: NetIndex, from: Option<HostIndex>, change: Change) -> Event {
        let action = Action::Net { net, from, change };
        Event { at, after: None, object: String::new(), line: 0, action }
    }

    fn with(changes: &[(NetIndex, Option<HostIndex>, Change)]) -> Topology {
        let events = changes.iter().map(|&(net, from, change)| event(Duration::ZERO, net, from, change));
        Topology { events: events.collect(), ..topology() }
    }

    #[test]
    fn a_link_is_one_pipe_and_a_lan_two() {
        let transmission = Duration::from_micros(100);
        assert_eq!(crossing(&topology(), 0, [0, 1], ms(0)), Some(ms(10) + transmission));
        assert_eq!(crossing(&topology(), 1, [0, 1], ms(0)), Some(ms(10) + 2 * transmission));
    }

    #[test]
    fn a_links_direction_has_the_slower_rate_all_delays_all_losses_and_the_senders_queue() {
        let burst = |enter| Some(Burst { enter, leave: 0.5, loss: 1.0 });
        let queue = |limit| Queue { limit, ..Queue::DEFAULT };
        let leg = |mbit: u64, delay, loss, enter, limit| Leg {
            rate: Rate::from_bps(mbit * 1_000_000),
            delay: ms(delay),
            loss,
            burst: burst(enter),
            jitter: ms(delay),
            queue: queue(limit),
        };
        let pipe = direction(&leg(10, 3, 0.5, 0.1, 7), &leg(2, 4, 0.2, 0.3, 9));
        assert_eq!((pipe.rate, pipe.delay, pipe.jitter), (Rate::from_bps(2_000_000), ms(7), ms(7)));
        assert!((pipe.loss - 0.6).abs() < 1e-12);
        assert_eq!((pipe.burst, pipe.queue), ([burst(0.1), burst(0.3)], queue(7)));
    }

    #[test]
    fn ports_and_places_are_each_others() {
        let (_, wiring) = build::<()>(&topology(), 1);
        for (net, members) in [(0, 2), (1, 3)] {
            for member in 0..members {
                assert_eq!(wiring.place(wiring.port(net, member).unwrap()), Some((net, member)));
            }
            assert_eq!(wiring.port(net, members), None);
        }
        assert_eq!(wiring.port(2, 0), None);
    }

    #[test]
    fn end_to_end_changes_are_so_on_links_and_lans() {
        let rate = Rate::from_bps(1_000_000);
        let changes = [0, 1].map(|net| [(net, None, Change::Delay(ms(31))), (net, None, Change::Rate(rate))]);
        let changed = with(changes.as_flattened());
        for (from, to) in [(0, 1), (1, 0)] {
            assert_eq!(crossing(&changed, 0, [from, to], ms(0)), Some(ms(31) + ms(10)));
        }
        assert_eq!(crossing(&changed, 1, [2, 1], ms(0)), Some(ms(31) + 2 * ms(10)));
    }

    #[test]
    fn the_loss_of_a_lan_is_that_of_both_legs() {
        let (_, wiring) = build::<()>(&topology(), 1);
        let kept = |change: &PipeChange| match change.change {
            Change::Loss(loss) => 1.0 - loss,
            _ => panic!("another change"),
        };
        let legs = wiring.changes(1, None, Change::Loss(0.19)).unwrap();
        assert_eq!(legs.len(), 6);
        assert!(legs.iter().all(|leg| (kept(leg).powi(2) - 0.81).abs() < 1e-12));
        let leg = wiring.changes(1, Some(2), Change::Loss(0.19)).unwrap();
        assert!(leg.len() == 2 && leg.iter().all(|leg| kept(leg).to_bits() == 0.81_f64.to_bits()));
        let link = wiring.changes(0, None, Change::Loss(0.19)).unwrap();
        assert!(link.len() == 2 && link.iter().all(|leg| kept(leg).to_bits() == 0.81_f64.to_bits()));
    }

    #[test]
    fn jitter_and_bursts_of_a_lan_strike_once() {
        let (_, wiring) = build::<()>(&topology(), 1);
        let burst = Some(Burst { enter: 0.1, leave: 0.2, loss: 1.0 });
        for (change, none) in
            [(Change::Burst(burst), Change::Burst(None)), (Change::Jitter(ms(4)), Change::Jitter(Duration::ZERO))]
        {
            let legs = wiring.changes(1, None, change).unwrap();
            let halves: Vec<[Change; 2]> = legs.chunks(2).map(|legs| [legs[0].change, legs[1].change]).collect();
            assert_eq!(halves, [[change, none]; 3]);
            let own = wiring.changes(1, Some(0), change).unwrap();
            assert!(own.iter().all(|leg| leg.change == change));
        }
    }

    #[test]
    fn one_hosts_change_is_its_direction_of_a_link_and_both_legs_of_a_lan() {
        let transmission = Duration::from_micros(100);
        let link = with(&[(0, Some(1), Change::Delay(ms(40)))]);
        assert_eq!(crossing(&link, 0, [0, 1], ms(0)), Some(ms(10) + transmission));
        assert_eq!(crossing(&link, 0, [1, 0], ms(0)), Some(ms(40) + transmission));
        // As tb-set-node-lan-delay: a leg of 25 ms, and the other's of 5 ms.
        let lan = with(&[(1, Some(2), Change::Delay(ms(25)))]);
        for pair in [[0, 1], [1, 0]] {
            assert_eq!(crossing(&lan, 1, pair, ms(0)), Some(ms(30) + 2 * transmission));
        }
        assert_eq!(crossing(&lan, 1, [0, 2], ms(0)), Some(ms(10) + 2 * transmission));
    }

    #[test]
    fn the_schedule_starts_at_its_beginning_and_waits_for_programs() {
        let mut topology = topology();
        topology.events.push(event(ms(100), 0, None, Change::Down));
        topology.events.push(event(ms(200), 0, None, Change::Up));
        topology.events.push(Event { after: Some(0), ..event(ms(0), 0, None, Change::Delay(ms(500))) });
        let (mut network, wiring) = build::<()>(&topology, 1);
        let pipe = network.to_net(wiring.port(0, 1).unwrap()).unwrap();
        wiring.begin(&mut network, at(ms(1_000))).unwrap();
        for (now, up) in [(1_099, true), (1_100, false), (1_199, false), (1_200, true)] {
            assert_eq!(network.poll_delivery(at(ms(now))), None);
            assert_eq!(network.is_up(pipe), up, "{now}");
        }
        assert_eq!(network.config(pipe).unwrap().delay, ms(10));
    }

    #[test]
    fn changes_of_what_is_not_there_are_refused() {
        let (_, wiring) = build::<()>(&topology(), 1);
        assert_eq!(wiring.changes(7, None, Change::Up), Err(WiringError::NoSuchNet(7)));
        assert_eq!(wiring.changes(0, Some(3), Change::Up), Err(WiringError::NotAMember { net: 0, host: 3 }));
    }

    #[test]
    fn counters_bear_the_names_of_the_description() {
        let (mut network, wiring) = build::<()>(&topology(), 1);
        let port = |net, member| wiring.port(net, member).unwrap();
        network.send(Time::ZERO, port(0, 1), Destination::Port(port(0, 0)), 1000, ());
        network.send(Time::ZERO, port(1, 1), Destination::Others, 500, ());
        while network.poll_delivery(at(ms(7))).is_some() {}

        let counters = wiring.counters(&network);
        let row = |link: &str, host: &str, direction: &str| {
            let named = |row: &&record::Link| (&*row.link, &*row.host, &*row.direction) == (link, host, direction);
            counters.iter().find(named).unwrap()
        };
        assert_eq!(counters.len(), 2 + 2 * 3);
        let link = row("net0", "h1", "to-net");
        assert_eq!((link.packets_in, link.bytes_in, link.in_flight, link.packets_out), (1, 1000, 1, 0));
        assert_eq!(link.rate_bps, 100_000_000);
        let up = row("net1", "h2", "to-net");
        assert_eq!((up.bytes_in, up.multicast_bytes_in, up.bytes_out), (500, 500, 500));
        assert_eq!(row("net1", "h2", "from-net").packets_in, 0);
        assert_eq!(row("net1", "h3", "from-net").multicast_bytes_in, 500);
    }

    proptest! {
        #[test]
        fn any_topology_is_wired_and_its_schedule_fits(topology in fixture::any_topology()) {
            let (mut network, wiring) = build::<()>(&topology, 1);
            wiring.begin(&mut network, Time::ZERO).unwrap();
            for (net, described) in topology.nets.iter().enumerate() {
                for member in 0..described.members.len() {
                    prop_assert!(wiring.port(net, member).is_some());
                }
            }
            while let Some(deadline) = network.poll_deadline() {
                prop_assert!(network.poll_delivery(deadline).is_none());
            }
            prop_assert!(wiring.counters(&network).iter().all(|row| row.packets_in == 0));
        }
    }
}
