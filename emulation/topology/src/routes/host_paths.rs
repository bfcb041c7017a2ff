//! The path of a packet from host to host, hop by hop, by the routes.

use super::super::model::{HostIndex, NetIndex, Routing, Topology};
use super::RouteGraph;

/// A crossing of a link or LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    pub net: NetIndex,
    /// The sender's index among the net's members.
    pub from: usize,
    /// The receiver's index among the net's members.
    pub to: usize,
}

/// The paths between all hosts of a topology with computed routes. It takes 4 bytes for each host and each net
/// that is some host's main one.
#[derive(Debug)]
pub struct HostPaths<'a> {
    topology: &'a Topology,
    interfaces: Vec<Vec<(NetIndex, usize)>>,
    /// By net: the next hop of each host towards it.
    tables: Vec<Vec<Option<Hop>>>,
}

/// The outgoing interface, and the gateway's index on that net. Both fit: a host has far fewer interfaces, and
/// a net no more members.
#[derive(Clone, Copy, Debug)]
struct Hop {
    interface: u16,
    gateway: u16,
}

impl<'a> HostPaths<'a> {
    /// Computes the paths along the routes of [`compute`](super::compute), without explicit routes of the file.
    pub fn from_topology(topology: &'a Topology) -> Self {
        let map = RouteGraph::from_topology(topology);
        let interfaces = topology.interfaces();
        let mut tables = vec![Vec::new(); topology.nets.len()];
        for (net, _) in interfaces.iter().filter_map(|own| own.first()) {
            if tables[*net].is_empty() {
                // Without routes a host only reaches the hosts on its own nets.
                let forwards = !matches!(topology.routing, Routing::None | Routing::Manual);
                let distances = map.distances(*net);
                let hop = |host: HostIndex| {
                    let host = Some(host).filter(|_| forwards)?;
                    let (net, _, gateway) = map.next_gateway(host, &distances)?;
                    let interface = interfaces[host].iter().position(|(own, _)| *own == net)?;
                    Some(Hop { interface: u16::try_from(interface).ok()?, gateway: u16::try_from(gateway).ok()? })
                };
                tables[*net] = (0..topology.hosts.len()).map(hop).collect();
            }
        }
        Self { topology, interfaces, tables }
    }

    /// The next crossing of a packet at one host towards another; `None` without a route, or within a host.
    pub fn next(&self, at: HostIndex, to: HostIndex) -> Option<Crossing> {
        // A host is addressed by its main interface.
        let &(target, place) = self.interfaces[to].first().filter(|_| at != to)?;
        if let Some((_, own)) = self.interfaces[at].iter().find(|(net, _)| *net == target) {
            return Some(Crossing { net: target, from: *own, to: place });
        }
        let Hop { interface, gateway } = self.tables[target][at]?;
        let (net, own) = self.interfaces[at][usize::from(interface)];
        Some(Crossing { net, from: own, to: usize::from(gateway) })
    }

    /// All crossings in order, as far as routes lead.
    pub fn crossings(&self, from: HostIndex, to: HostIndex) -> impl Iterator<Item = Crossing> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            let crossing = self.next(at, to)?;
            at = self.host(crossing);
            Some(crossing)
        })
    }

    pub fn host(&self, crossing: Crossing) -> HostIndex {
        self.topology.nets[crossing.net].members[crossing.to].host
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Tree, TreeShape};

    #[test]
    fn a_way_leads_over_the_hierarchy() {
        let tree = Tree::published(TreeShape::inferred(11)).topology().unwrap();
        let ways = HostPaths::from_topology(&tree);
        let host = |name| tree.host_index(name).unwrap();
        let over = |from, to| -> Vec<&str> {
            ways.crossings(host(from), host(to)).map(|crossing| tree.nets[crossing.net].name.as_str()).collect()
        };
        assert_eq!(over("low1", "low2"), ["edge1"]);
        assert_eq!(over("low1", "low6"), ["edge1", "mid1", "high", "mid2", "edge3"]);
        assert!(over("low1", "low1").is_empty());
    }

    #[test]
    fn no_path_leaves_component() {
        let mut tree = Tree::published(TreeShape::inferred(11)).topology().unwrap();
        let high = tree.net_index("high").unwrap();
        tree.nets.remove(high);
        let ways = HostPaths::from_topology(&tree);
        let host = |name| tree.host_index(name).unwrap();
        assert_eq!(ways.next(host("low1"), host("low6")), None);
        assert!(ways.next(host("low1"), host("low2")).is_some());
    }
}
