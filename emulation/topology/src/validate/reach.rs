//! Connected components of a network.

use std::collections::BTreeSet;

use crate::model::{HostIndex, Topology};

/// The components: hosts in different ones have no path between them.
pub(super) struct NetworkComponents {
    pub(super) of: Vec<usize>,
    /// The number of hosts in each component.
    pub(super) size: Vec<usize>,
}

pub(super) fn parts(topology: &Topology) -> NetworkComponents {
    let (interfaces, count) = (topology.interfaces(), topology.hosts.len());
    let mut of = vec![usize::MAX; count];
    let mut crossed = vec![false; topology.nets.len()];
    let mut size = Vec::new();
    for start in 0..count {
        if of[start] != usize::MAX {
            continue;
        }
        let mut found = vec![start];
        of[start] = size.len();
        let mut next = 0;
        while let Some(&host) = found.get(next) {
            next += 1;
            for &(net, _) in &interfaces[host] {
                if std::mem::replace(&mut crossed[net], true) {
                    continue;
                }
                for member in &topology.nets[net].members {
                    if of[member.host] == usize::MAX {
                        of[member.host] = size.len();
                        found.push(member.host);
                    }
                }
            }
        }
        size.push(found.len());
    }
    NetworkComponents { of, size }
}

/// The first pair of hosts that are connected, but not by one net.
pub(super) fn unrouted(topology: &Topology, parts: &NetworkComponents) -> Option<(HostIndex, HostIndex)> {
    let interfaces = topology.interfaces();
    (0..topology.hosts.len()).find_map(|host| {
        let nets = interfaces[host].iter().map(|(net, _)| &topology.nets[*net]);
        let near: BTreeSet<HostIndex> = nets.flat_map(|net| net.members.iter().map(|member| member.host)).collect();
        if near.len() >= parts.size[parts.of[host]] {
            return None;
        }
        let far =
            (0..topology.hosts.len()).find(|it| *it != host && parts.of[*it] == parts.of[host] && !near.contains(it));
        far.map(|far| (host, far))
    })
}
