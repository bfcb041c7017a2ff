//! The content of each host's namespace, planned before anything is made.

use std::net::Ipv4Addr;

use roost_topology::model::{Net, NetIndex, Routing, Topology};
use roost_topology::routes;

use super::carrier::Mac;
use super::netlink::NetlinkRequest;

/// The index of a host's first interface. A namespace may come with devices of its own, `lo` and fallback
/// tunnels, which have low indices.
const FIRST_INDEX: u32 = 100;
/// The index of `lo`, in every namespace.
pub const LOOPBACK: u32 = 1;
const MULTICAST: (Ipv4Addr, u8) = (Ipv4Addr::new(224, 0, 0, 0), 4);
/// Packets that an interface queues for the carrier: 40 ms of full packets at 1 Gbit/s.
const QUEUE_PACKETS: u32 = 4096;

/// Permanent ARP entries of all hosts together: enough for a LAN of 548 whose members all talk to one another.
/// All hosts share the kernel's table, which holds 1024 learned entries (`gc_thresh3`, which only the system's
/// own namespace may raise) and any number of permanent ones. Each entry costs some 400 bytes and 3
/// microseconds.
const NEIGHBOURS: usize = 300_000;
/// Learned ARP entries that the kernel keeps by default.
const ASKED_FOR: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) name: String,
    pub(crate) forwards: bool,
    pub(crate) interfaces: Vec<InterfacePlan>,
    /// Requests to send once the interfaces are up.
    pub(crate) routes: Vec<NetlinkRequest>,
}

#[derive(Clone, Debug)]
pub(crate) struct InterfacePlan {
    /// `eth0`, `eth1`…
    pub(crate) name: String,
    /// Index in its namespace.
    pub(crate) index: u32,
    pub(crate) net: NetIndex,
    pub(crate) member: usize,
    pub(crate) address: Ipv4Addr,
    prefix: u8,
}

impl InterfacePlan {
    /// The requests that bring it up, once its device exists.
    pub(crate) fn requests(&self) -> [NetlinkRequest; 2] {
        let Self { index, address, prefix, .. } = *self;
        let mac = Mac::from_ipv4(address).0;
        [
            NetlinkRequest::Ready { index, mac, queue_packets: QUEUE_PACKETS },
            NetlinkRequest::Address { index, address, prefix },
        ]
    }
}

/// Plans all hosts. Interfaces without an address are left out.
pub(crate) fn plan(topology: &Topology) -> Vec<HostPlan> {
    let mut plans: Vec<HostPlan> = topology.hosts.iter().map(|host| HostPlan::for_host(&host.name)).collect();
    for (number, net) in topology.nets.iter().enumerate() {
        for (member, place) in net.members.iter().enumerate() {
            let (Some(address), Some(plan)) = (place.address, plans.get_mut(place.host)) else { continue };
            plan.add_interface(number, member, address, place.prefix);
        }
    }
    let known = known(&topology.nets);
    for (plan, routes) in plans.iter_mut().zip(routes::compute(topology)) {
        plan.forwards = plan.interfaces.len() > 1 && topology.routing != Routing::None;
        plan.add_routes(&routes);
        plan.add_neighbours(&topology.nets, &known);
    }
    plans
}

impl HostPlan {
    fn for_host(name: &str) -> Self {
        Self { name: name.to_owned(), forwards: false, interfaces: Vec::new(), routes: Vec::new() }
    }

    fn add_interface(&mut self, net: NetIndex, member: usize, address: Ipv4Addr, prefix: u8) {
        let place = self.interfaces.len();
        // Fits u32: a host has at most as many interfaces as nets times its memberships of each.
        let index = FIRST_INDEX + place as u32;
        self.interfaces.push(InterfacePlan { name: format!("eth{place}"), index, net, member, address, prefix });
    }

    fn add_routes(&mut self, routes: &[routes::HostRoute]) {
        let Some(first) = self.interfaces.first() else { return };
        let (destination, prefix) = MULTICAST;
        self.routes.push(NetlinkRequest::Route { index: first.index, destination, prefix, via: None });
        for route in routes {
            let on = self.interfaces.iter().find(|one| (one.net, one.member) == (route.net, route.member));
            let Some(&InterfacePlan { index, .. }) = on else { continue };
            let routes::HostRoute { destination, prefix, via, .. } = *route;
            self.routes.push(NetlinkRequest::Route { index, destination, prefix, via });
        }
    }

    /// Adds entries for the other members of each net, as many as are `known`. The carrier answers ARP requests
    /// for the rest.
    fn add_neighbours(&mut self, nets: &[Net], known: &[usize]) {
        for InterfacePlan { index, net, member, .. } in &self.interfaces {
            let others = nets[*net].members.iter().enumerate().take(known[*net]).filter(|(place, _)| place != member);
            self.routes.extend(others.filter_map(|(_, other)| other.address).map(|address| {
                let mac = Mac::from_ipv4(address).0;
                NetlinkRequest::Remote { index: *index, address, mac }
            }));
        }
    }
}

/// The number of members, of each net, that all others know from the start: all on small nets, and as many as
/// [`NEIGHBOURS`] allows on large ones.
fn known(nets: &[Net]) -> Vec<usize> {
    let mut order: Vec<NetIndex> = (0..nets.len()).collect();
    order.sort_by_key(|net| nets[*net].members.len());
    let mut known = vec![0; nets.len()];
    let mut left = NEIGHBOURS;
    for net in order {
        let members = nets[net].members.len();
        known[net] = members.min(left / members.max(1));
        left -= known[net] * members;
    }
    known
}

/// Pairs of members of large LANs that do not know one another from the start, and have to find one another by ARP.
fn arp_pairs(nets: &[Net]) -> usize {
    let unknown = |(net, known): (&Net, usize)| net.members.len().saturating_mul(net.members.len() - known);
    nets.iter().zip(known(nets)).map(unknown).sum()
}

/// A warning about LANs so large that not all members know all others from the start.
pub(crate) fn warning(nets: &[Net]) -> Option<String> {
    let asked_for = arp_pairs(nets);
    (asked_for > ASKED_FOR).then(|| {
        format!(
            "up to {asked_for} pairs of neighbours on large LANs have to find one another, and for all hosts together \
             this system remembers {ASKED_FOR} unless it was told otherwise; what does not fit is lost, so \
             `sudo sysctl -w net.ipv4.neigh.default.gc_thresh3={}` before",
            asked_for.next_power_of_two()
        )
    })
}

#[cfg(test)]
mod tests {
    use roost_topology::{addresses, testing};

    use super::*;

    fn neighbours(plan: &HostPlan) -> usize {
        plan.routes.iter().filter(|request| matches!(request, NetlinkRequest::Remote { .. })).count()
    }

    #[test]
    fn members_know_one_another() {
        let lan: Vec<usize> = (0..51).collect();
        let topology = addresses::assign(&testing::nets(60, &[&lan, &[0, 59]])).unwrap();
        let counts: Vec<usize> = plan(&topology).iter().map(neighbours).collect();
        assert_eq!((counts[0], counts[50], counts[59]), (51, 50, 1));
    }

    #[test]
    fn large_lan_keeps_first_neighbors() {
        let (all, few): (Vec<usize>, Vec<usize>) = ((0..2000).collect(), (0..100).collect());
        let topology = testing::nets(2000, &[&all, &few]);
        assert_eq!(known(&topology.nets), [145, 100]);
        let warning = warning(&topology.nets).unwrap();
        assert!(warning.contains("3710000 pairs") && warning.contains("gc_thresh3=4194304"), "{warning}");
        assert_eq!(self::warning(&topology.nets[1..]), None);
    }
}
