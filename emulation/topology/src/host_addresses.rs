//! The addresses at which each host is reached.
//!
//! The way to one address of a host on several nets may lead through other hosts though a net is shared with it. That
//! takes a cycle through the host: without one all ways from a net lead straight to it, whichever address they end at.
//! A network without routes by itself has no way to other addresses at all.

use std::net::Ipv4Addr;

use super::model::{HostIndex, NetIndex, Routing, Topology};

/// The addresses of all hosts, once all are assigned.
#[derive(Clone, Debug)]
pub struct HostAddresses {
    interfaces: Vec<Vec<HostInterface>>,
}

#[derive(Clone, Copy, Debug)]
struct HostInterface {
    net: NetIndex,
    address: Ipv4Addr,
    /// The 2-connected part of the network to which it belongs.
    part: usize,
    /// True if others need this address: it is the host's first, or a cycle leads through the host over this net, or the
    /// network has no routes by itself.
    is_offered: bool,
}

/// A vertex of the graph of hosts and nets: hosts, then nets.
type Vertex = usize;
/// The place of a host on a net, counted over all nets.
type Edge = usize;

impl HostAddresses {
    pub fn from_topology(topology: &Topology) -> Self {
        let parts = two_connected_parts(topology);
        let mut interfaces: Vec<Vec<HostInterface>> = vec![Vec::new(); topology.hosts.len()];
        let nets = topology.nets.iter().enumerate();
        let members = nets.flat_map(|(net, of)| of.members.iter().map(move |member| (net, member)));
        for ((net, member), part) in members.zip(parts) {
            let Some(address) = member.address else { continue };
            let is_first = interfaces[member.host].is_empty();
            let is_offered = is_first || matches!(topology.routing, Routing::None | Routing::Manual);
            interfaces[member.host].push(HostInterface { net, address, part, is_offered });
        }
        interfaces.iter_mut().for_each(|interfaces| mark_cycles(interfaces));
        Self { interfaces }
    }

    /// The address on a host's first net.
    pub fn main(&self, host: HostIndex) -> Option<Ipv4Addr> {
        Some(self.interfaces.get(host)?.first()?.address)
    }

    /// The addresses of a host that others may need, its main one first.
    pub fn all(&self, host: HostIndex) -> Vec<Ipv4Addr> {
        self.offered(host).map(|interface| interface.address).collect()
    }

    /// All addresses of a host, with those on nets that `other` shares before the rest.
    pub fn toward(&self, host: HostIndex, other: HostIndex) -> Vec<Ipv4Addr> {
        let others = || self.interfaces.get(other).into_iter().flatten();
        let is_shared = |net: NetIndex| others().any(|interface| interface.net == net);
        let (shared, rest): (Vec<&HostInterface>, Vec<&HostInterface>) =
            self.offered(host).partition(|interface| is_shared(interface.net));
        shared.into_iter().chain(rest).map(|interface| interface.address).collect()
    }

    fn offered(&self, host: HostIndex) -> impl Iterator<Item = &HostInterface> {
        self.interfaces.get(host).into_iter().flatten().filter(|interface| interface.is_offered)
    }
}

/// Two nets of a host are in a cycle through it if they are in the same part.
fn mark_cycles(interfaces: &mut [HostInterface]) {
    let mut parts: Vec<usize> = interfaces.iter().map(|interface| interface.part).collect();
    parts.sort_unstable();
    for interface in interfaces {
        let first = parts.partition_point(|part| *part < interface.part);
        interface.is_offered |= parts.get(first + 1) == Some(&interface.part);
    }
}

/// The 2-connected part of each edge, by the algorithm of Hopcroft and Tarjan (1973).
fn two_connected_parts(topology: &Topology) -> Vec<usize> {
    let mut search = PartSearch::from_topology(topology);
    for host in 0..topology.hosts.len() {
        search.run(host);
    }
    search.parts
}

struct PartSearch {
    edges: Vec<Vec<(Edge, Vertex)>>,
    /// By vertex, its number in the order of the search from 1 on, and the lowest one that it or those below it lead
    /// to.
    order: Vec<usize>,
    low: Vec<usize>,
    seen: usize,
    /// Edges without a part so far.
    open: Vec<Edge>,
    parts: Vec<usize>,
    found: usize,
}

/// A vertex on the path of the search.
struct PathStep {
    vertex: Vertex,
    /// The way by which it was entered; none for the first one.
    entry: Option<VertexEntry>,
    next: usize,
}

#[derive(Clone, Copy)]
struct VertexEntry {
    edge: Edge,
    above: Vertex,
    /// The number of open edges before this one.
    open: usize,
}

impl PartSearch {
    fn from_topology(topology: &Topology) -> Self {
        let hosts = topology.hosts.len();
        let count = hosts + topology.nets.len();
        let mut edges = vec![Vec::new(); count];
        let mut edge = 0;
        for (net, members) in topology.nets.iter().map(|net| &net.members).enumerate() {
            for member in members {
                edges[member.host].push((edge, hosts + net));
                edges[hosts + net].push((edge, member.host));
                edge += 1;
            }
        }
        let (order, low) = (vec![0; count], vec![0; count]);
        Self { edges, order, low, seen: 0, open: Vec::new(), parts: vec![0; edge], found: 0 }
    }

    fn run(&mut self, first: Vertex) {
        if self.order[first] > 0 {
            return;
        }
        let mut path = vec![self.enter(first, None)];
        while let Some(step) = path.last_mut() {
            let vertex = step.vertex;
            let Some((edge, to)) = self.edges[vertex].get(step.next).copied() else {
                let entry = step.entry;
                path.pop();
                if let Some(entry) = entry {
                    self.leave(vertex, entry);
                }
                continue;
            };
            step.next += 1;
            if step.entry.is_some_and(|entry| entry.edge == edge) {
                continue;
            }
            if self.order[to] == 0 {
                let entry = VertexEntry { edge, above: vertex, open: self.open.len() };
                self.open.push(edge);
                path.push(self.enter(to, Some(entry)));
            } else if self.order[to] < self.order[vertex] {
                self.open.push(edge);
                self.low[vertex] = self.low[vertex].min(self.order[to]);
            }
        }
    }

    fn enter(&mut self, vertex: Vertex, entry: Option<VertexEntry>) -> PathStep {
        self.seen += 1;
        (self.order[vertex], self.low[vertex]) = (self.seen, self.seen);
        PathStep { vertex, entry, next: 0 }
    }

    /// Everything below `vertex` has been searched.
    fn leave(&mut self, vertex: Vertex, entry: VertexEntry) {
        let above = entry.above;
        self.low[above] = self.low[above].min(self.low[vertex]);
        if self.low[vertex] >= self.order[above] {
            for edge in self.open.drain(entry.open..) {
                self.parts[edge] = self.found;
            }
            self.found += 1;
        }
    }
}

#[cfg(test)]
mod tests;
