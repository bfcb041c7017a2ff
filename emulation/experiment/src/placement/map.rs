//! Distances between hosts, without a table of all pairs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use roost_topology::model::{HostIndex, NetIndex, NetMember, Routing, Topology};

/// The round trip by the delays of legs alone, then the hops of that path.
pub(super) type Distance = (Duration, u32);

/// The number of nearest hosts that a search finds.
const LOOKED_FOR: usize = 32;

pub(super) struct DistanceMap<'a> {
    topology: &'a Topology,
    /// By host: its nets, and the round trip over its own legs there.
    interfaces: Vec<Vec<(NetIndex, Duration)>>,
    /// By host: its connected component.
    parts: Vec<usize>,
}

/// A vertex of a path: a host, or a link or LAN between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GraphVertex {
    Host(HostIndex),
    Net(NetIndex),
}

impl<'a> DistanceMap<'a> {
    pub(super) fn from_topology(topology: &'a Topology) -> Self {
        let mut interfaces = vec![Vec::new(); topology.hosts.len()];
        for (index, net) in topology.nets.iter().enumerate() {
            net.members.iter().for_each(|member| interfaces[member.host].push((index, legs(member))));
        }
        let parts = parts(topology, &interfaces);
        Self { topology, interfaces, parts }
    }

    /// True if two hosts share a link or LAN.
    pub(super) fn share_a_net(&self, one: HostIndex, other: HostIndex) -> bool {
        let on = |net: NetIndex| self.interfaces[other].iter().any(|(of, _)| *of == net);
        self.interfaces[one].iter().any(|(net, _)| on(*net))
    }

    /// The hosts with which a host shares a link or LAN.
    pub(super) fn adjacent_hosts(&self, host: HostIndex) -> BTreeSet<HostIndex> {
        let members = self.interfaces[host].iter().flat_map(|(net, _)| &self.topology.nets[*net].members);
        members.map(|member| member.host).filter(|other| *other != host).collect()
    }

    /// True if packets get from one host to the other.
    pub(super) fn reaches(&self, from: HostIndex, to: HostIndex) -> bool {
        from == to
            || match self.topology.routing {
                Routing::None => self.share_a_net(from, to),
                // The experimenter sets the routes.
                Routing::Manual => true,
                _ => self.parts[from] == self.parts[to],
            }
    }

    /// True if every one of these hosts reaches every other one, as far as that is known without checking all
    /// pairs.
    pub(super) fn all_reach(&self, mut hosts: impl Iterator<Item = HostIndex>) -> bool {
        match self.topology.routing {
            Routing::None => false,
            Routing::Manual => true,
            _ => hosts.next().is_none_or(|first| hosts.all(|host| self.parts[host] == self.parts[first])),
        }
    }

    /// For each host of `from`, the nearest of `to` as indices into `to`, nearest first. The order of equally
    /// near ones is arbitrary.
    pub(super) fn nearest(&self, from: &[HostIndex], to: &[HostIndex]) -> Vec<Vec<(Distance, usize)>> {
        let wanted: BTreeMap<HostIndex, usize> = to.iter().enumerate().map(|(place, host)| (*host, place)).collect();
        // Paths end at, or lead through, these members of each net.
        let leads = |member: &&NetMember| self.interfaces[member.host].len() > 1 || wanted.contains_key(&member.host);
        let ways = |members: &[NetMember]| -> Vec<(HostIndex, Duration)> {
            members.iter().filter(leads).map(|member| (member.host, legs(member))).collect()
        };
        let ways: Vec<_> = self.topology.nets.iter().map(|net| ways(&net.members)).collect();
        from.iter().map(|host| self.search(*host, &wanted, &ways)).collect()
    }

    fn search(
        &self,
        from: HostIndex,
        wanted: &BTreeMap<HostIndex, usize>,
        ways: &[Vec<(HostIndex, Duration)>],
    ) -> Vec<(Distance, usize)> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut open = BinaryHeap::from([Reverse(((Duration::ZERO, 0), GraphVertex::Host(from)))]);
        while let Some(Reverse(((trip, hops), place))) = open.pop() {
            if !seen.insert(place) {
                continue;
            }
            match place {
                GraphVertex::Host(host) => {
                    found.extend(wanted.get(&host).map(|place| ((trip, hops), *place)));
                    if found.len() >= LOOKED_FOR {
                        break;
                    }
                    let nets = self.interfaces[host].iter();
                    open.extend(nets.map(|(net, leg)| Reverse(((trip + *leg, hops), GraphVertex::Net(*net)))));
                }
                GraphVertex::Net(net) => {
                    let hosts = ways[net].iter().filter(|(host, _)| !seen.contains(&GraphVertex::Host(*host)));
                    open.extend(hosts.map(|(host, leg)| Reverse(((trip + *leg, hops + 1), GraphVertex::Host(*host)))));
                }
            }
        }
        found
    }
}

fn legs(member: &NetMember) -> Duration {
    member.to_net.delay + member.from_net.delay
}

/// The number of each host's connected component.
fn parts(topology: &Topology, interfaces: &[Vec<(NetIndex, Duration)>]) -> Vec<usize> {
    let mut parts = vec![usize::MAX; topology.hosts.len()];
    let mut crossed = vec![false; topology.nets.len()];
    for first in 0..parts.len() {
        let mut open = vec![first];
        while let Some(host) = open.pop() {
            if parts[host] != usize::MAX {
                continue;
            }
            parts[host] = first;
            for (net, _) in &interfaces[host] {
                if !std::mem::replace(&mut crossed[*net], true) {
                    open.extend(topology.nets[*net].members.iter().map(|member| member.host));
                }
            }
        }
    }
    parts
}
