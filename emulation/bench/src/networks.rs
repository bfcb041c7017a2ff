//! The networks that the cases use.

use std::time::Duration;

use roost_topology::Topology;
use roost_topology::model::{Host, HostIndex, Leg, Net, NetIndex, NetKind, NetMember, Queue, Routing};
use roost_topology::units::Rate;

/// Links without common hosts: the sending and the receiving end of link `n`.
pub(super) const fn ends(link: NetIndex) -> (HostIndex, HostIndex) {
    (2 * link, 2 * link + 1)
}

/// Links without common hosts, with these values in both directions.
pub(super) fn links(directions: impl IntoIterator<Item = Leg>) -> Topology {
    let mut topology = Topology { name: "bench".to_owned(), routing: Routing::Static, ..Topology::default() };
    for (number, whole) in directions.into_iter().enumerate() {
        let (from, to) = ends(number);
        topology.hosts.push(host(format!("from{number}")));
        topology.hosts.push(host(format!("to{number}")));
        let members = [from, to].map(|host| member(host, &whole)).to_vec();
        topology.nets.push(Net { name: format!("link{number}"), kind: NetKind::Link, members, cost: 1.0 });
    }
    topology
}

/// Parallel links between two hosts, 0 and 1, with these values in both directions.
pub(super) fn between_two(directions: impl IntoIterator<Item = Leg>) -> Topology {
    let hosts = ["from", "to"].map(|name| host(name.to_owned())).to_vec();
    let nets = directions.into_iter().enumerate().map(|(number, whole)| {
        let members = [0, 1].map(|host| member(host, &whole)).to_vec();
        Net { name: format!("link{number}"), kind: NetKind::Link, members, cost: 1.0 }
    });
    Topology { name: "bench".to_owned(), hosts, nets: nets.collect(), routing: Routing::None, ..Topology::default() }
}

/// A direction of a link: its rate, delay, and queue in packets.
pub(super) fn direction(rate: Rate, delay: Duration, packets: u32) -> Leg {
    Leg { rate, delay, queue: Queue { limit: packets, ..Queue::DEFAULT }, ..Leg::default() }
}

/// A LAN of `hosts` hosts, 10 ms apart.
pub(super) fn star(hosts: usize) -> Topology {
    lan(hosts, Duration::from_millis(10))
}

/// A LAN of 100 Mbit/s with `hosts` hosts, `delay` apart.
pub(super) fn lan(hosts: usize, delay: Duration) -> Topology {
    let whole = direction(Rate::from_bps(100_000_000), delay, Queue::DEFAULT.limit);
    let members = (0..hosts).map(|host| member(host, &whole)).collect();
    Topology {
        name: "bench".to_owned(),
        hosts: (0..hosts).map(|number| host(format!("host{number}"))).collect(),
        nets: vec![Net { name: "lan".to_owned(), kind: NetKind::Lan, members, cost: 1.0 }],
        routing: Routing::Static,
        ..Topology::default()
    }
}

fn host(name: String) -> Host {
    Host { name, ..Host::default() }
}

/// A member with half of a direction on each of its legs.
fn member(host: HostIndex, whole: &Leg) -> NetMember {
    let (to_net, from_net) = whole.halves();
    NetMember { host, address: None, prefix: PREFIX, to_net, from_net }
}

/// Room for all hosts of a star.
const PREFIX: u8 = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_requested_values() {
        let [slow, fast] = [1, 1000]
            .map(|mbit| direction(Rate::from_bps(mbit * 1_000_000), Duration::from_nanos(5_000_001), mbit as u32));
        let topology = links([slow.clone(), fast]);
        assert_eq!((topology.hosts.len(), topology.nets.len()), (4, 2));
        let members = &topology.nets[0].members;
        assert_eq!((members[0].host, members[1].host), ends(0));
        assert_eq!(members[0].to_net.joined(&members[1].from_net), slow);
        assert_eq!(topology.nets[1].members[1].to_net.queue.limit, 1000);
    }

    #[test]
    fn large_star_has_enough_addresses() {
        assert!(roost_topology::addresses::assign(&star(501)).is_ok());
    }
}
