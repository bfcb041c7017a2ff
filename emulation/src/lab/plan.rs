//! What each host's namespace is to hold, worked out before anything is made.

use std::net::Ipv4Addr;

use super::carrier::Mac;
use super::netlink::Request;
use crate::scenario::routes;
use crate::scenario::topology::{Net, NetIndex, NetKind, Routing, Topology};

/// The number of a host's first interface. A namespace may come with devices
/// of its own, `lo` and fallbacks of tunnels, which have the low numbers.
const FIRST_INDEX: u32 = 100;
/// The number of `lo`, in every namespace.
pub(crate) const LOOPBACK: u32 = 1;
/// Where IP multicast goes.
const MULTICAST: (Ipv4Addr, u8) = (Ipv4Addr::new(224, 0, 0, 0), 4);
/// Packets that an interface holds for the carrier: 40 ms of full packets at 1 Gbit/s.
const QUEUE_PACKETS: u32 = 4096;

/// One host.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    /// Its name.
    pub(crate) name: String,
    /// Whether it passes packets on.
    pub(crate) forwards: bool,
    /// Its interfaces, in the order of the nets.
    pub(crate) interfaces: Vec<Interface>,
    /// What remains to be set once the interfaces are up.
    pub(crate) routes: Vec<Request>,
}

/// One interface.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    /// Its name: `eth0`, `eth1`…
    pub(crate) name: String,
    /// Its number in its namespace.
    pub(crate) index: u32,
    /// Which link or LAN it is on.
    pub(crate) net: NetIndex,
    /// As which member.
    pub(crate) member: usize,
    /// Its address there.
    pub(crate) address: Ipv4Addr,
    /// The length of its subnet's prefix.
    prefix: u8,
}

impl Interface {
    /// What makes it usable, once its device is there.
    pub(crate) fn requests(&self) -> [Request; 2] {
        let Self { index, address, prefix, .. } = *self;
        let mac = Mac::of(address).0;
        [Request::Ready { index, mac, queue_packets: QUEUE_PACKETS }, Request::Address { index, address, prefix }]
    }
}

/// The plans of all hosts. Interfaces without an address are left out.
pub(crate) fn plan(topology: &Topology) -> Vec<HostPlan> {
    let mut plans: Vec<HostPlan> = topology.hosts.iter().map(|host| HostPlan::of(&host.name)).collect();
    for (number, net) in topology.nets.iter().enumerate() {
        for (member, place) in net.members.iter().enumerate() {
            let (Some(address), Some(plan)) = (place.address, plans.get_mut(place.host)) else { continue };
            plan.add_interface(number, member, address, place.prefix);
        }
    }
    for (plan, routes) in plans.iter_mut().zip(routes::compute(topology)) {
        plan.forwards = plan.interfaces.len() > 1 && topology.routing != Routing::None;
        plan.add_routes(&routes);
        plan.add_neighbours(&topology.nets);
    }
    plans
}

impl HostPlan {
    fn of(name: &str) -> Self {
        Self { name: name.to_owned(), forwards: false, interfaces: Vec::new(), routes: Vec::new() }
    }

    fn add_interface(&mut self, net: NetIndex, member: usize, address: Ipv4Addr, prefix: u8) {
        let place = self.interfaces.len();
        // A host has at most as many interfaces as there are nets, times its places on each.
        let index = FIRST_INDEX + place as u32;
        self.interfaces.push(Interface { name: format!("eth{place}"), index, net, member, address, prefix });
    }

    fn add_routes(&mut self, routes: &[routes::Route]) {
        let Some(first) = self.interfaces.first() else { return };
        let (destination, prefix) = MULTICAST;
        self.routes.push(Request::Route { index: first.index, destination, prefix, via: None });
        for route in routes {
            let on = self.interfaces.iter().find(|one| (one.net, one.member) == (route.net, route.member));
            let Some(&Interface { index, .. }) = on else { continue };
            let routes::Route { destination, prefix, via, .. } = *route;
            self.routes.push(Request::Route { index, destination, prefix, via });
        }
    }

    /// The other end of each link. On LANs the carrier answers who asks.
    fn add_neighbours(&mut self, nets: &[Net]) {
        for Interface { index, net, member, .. } in &self.interfaces {
            let net = &nets[*net];
            let [one, other] = net.members.as_slice() else { continue };
            let peer = if *member == 0 { other } else { one };
            if let (NetKind::Link, Some(address)) = (net.kind, peer.address) {
                self.routes.push(Request::Neighbour { index: *index, address, mac: Mac::of(address).0 });
            }
        }
    }
}
