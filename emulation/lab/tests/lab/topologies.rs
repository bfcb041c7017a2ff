//! Small networks.

use std::time::Duration;

use roost_topology::model::{Host, Leg, Net, NetKind, NetMember, Routing, Topology};

/// Unconnected hosts of these names, with computed routes.
pub(crate) fn hosts(names: &[&str]) -> Topology {
    let host = |name: &&str| Host { name: (*name).to_owned(), ..Host::default() };
    Topology { hosts: names.iter().map(host).collect(), routing: Routing::Static, ..Topology::default() }
}

/// Adds a link with this delay each way.
pub(crate) fn link(topology: &mut Topology, ends: [usize; 2], delay: Duration) {
    net(topology, NetKind::Link, &ends, delay / 2);
}

/// Adds a LAN with this delay from host to host.
pub(crate) fn lan(topology: &mut Topology, members: &[usize], delay: Duration) {
    net(topology, NetKind::Lan, members, delay / 2);
}

pub(crate) fn star(count: usize) -> Topology {
    let names: Vec<String> = (0..count).map(|number| format!("host{number}")).collect();
    let mut topology = hosts(&names.iter().map(String::as_str).collect::<Vec<_>>());
    lan(&mut topology, &(0..count).collect::<Vec<_>>(), Duration::from_millis(2));
    topology
}

fn net(topology: &mut Topology, kind: NetKind, hosts: &[usize], delay: Duration) {
    let leg = Leg { delay, ..Leg::default() };
    let member =
        |host: &usize| NetMember { host: *host, address: None, prefix: 24, to_net: leg.clone(), from_net: leg.clone() };
    let name = format!("net{}", topology.nets.len());
    topology.nets.push(Net { name, kind, members: hosts.iter().map(member).collect(), cost: 1.0 });
}
