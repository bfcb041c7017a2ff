//! Rows of requests, with the way of their data through the network.

use std::collections::BTreeMap;

use roost_dashboard::{Change, Rows};
use roost_results::record::RequestRecord;
use roost_topology::Topology;
use roost_topology::model::{HostIndex, NetKind};
use roost_topology::routes::{Crossing, HostPaths};
use serde_json::{Value, json};

use crate::description::Description;
use crate::radio_links::radio_link_id;
use crate::wires::{is_radio, wire_id};

/// The time for which a request that has ended stays on the page, milliseconds.
const AFTERGLOW_MS: u64 = 1_000;

/// The most entries of the tables of ways, some 8 bytes each. A larger network has no ways on the page.
const MAX_ENTRIES: usize = 16_000_000;

/// Makes the rows of requests, which have numbers in the order in which they ended.
pub(crate) struct Requests<'a> {
    topology: &'a Topology,
    hosts: BTreeMap<&'a str, HostIndex>,
    /// The host of the first hub of each node.
    homes: BTreeMap<&'a str, HostIndex>,
    paths: Option<HostPaths<'a>>,
    count: u64,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(description: &'a Description) -> Self {
        let topology = &description.topology;
        let hosts = topology.hosts.iter().enumerate().map(|(index, host)| (host.name.as_str(), index)).collect();
        let placement = description.prepared.as_ref().map(|prepared| &prepared.placement);
        let homes = placement.into_iter().flat_map(|placement| {
            let home = |hubs: &[usize]| hubs.first().map(|hub| placement.hubs[*hub].host);
            placement.nodes.iter().filter_map(move |node| Some((node.name.as_str(), home(&node.hubs)?)))
        });
        let homes = homes.collect();
        let main_nets: std::collections::BTreeSet<_> =
            topology.interfaces().iter().filter_map(|own| own.first().map(|(net, _)| *net)).collect();
        let is_small = main_nets.len().saturating_mul(topology.hosts.len()) <= MAX_ENTRIES;
        let paths = is_small.then(|| HostPaths::from_topology(topology));
        Self { topology, hosts, homes, paths, count: 0 }
    }

    /// The changes at the start and after the end of a request.
    pub(crate) fn add(&mut self, request: &RequestRecord) -> [Change; 2] {
        self.count += 1;
        let key = format!("request/{}", self.count);
        let start = milliseconds(request.t);
        let end = start + request.elapsed_ms.max(0.0).round() as u64;
        let begins =
            Change { at_ms: start, set: Rows::from([(key.clone(), self.row(request, end))]), gone: Vec::new() };
        [begins, Change { at_ms: end + AFTERGLOW_MS, set: Rows::new(), gone: vec![key] }]
    }

    fn row(&self, request: &RequestRecord, end_ms: u64) -> Value {
        let RequestRecord { provider, transport, error, detail, .. } = request;
        let (way, is_whole) = self.way(request);
        json!({
            "request": self.count,
            "at_ms": milliseconds(request.t),
            "end_ms": end_ms,
            "node": request.node,
            "service": request.service,
            "target": request.target,
            "provider": provider,
            "outcome": request.outcome.name(),
            "error": error,
            "detail": detail,
            "latency_ms": request.latency_ms().map(tenths),
            "elapsed_ms": tenths(request.elapsed_ms),
            "bytes": request.bytes,
            "packets": request.packets,
            "lost": request.lost,
            "transport": transport,
            "relayed": request.relayed,
            "way": way,
            "whole": is_whole,
        })
    }

    /// The links from the provider, or the node that was meant, to the requester; over the hub of a request that was
    /// relayed. True if they lead all the way.
    fn way(&self, request: &RequestRecord) -> (Vec<String>, bool) {
        let host = |name: &str| self.hosts.get(name).copied();
        let from = host(request.provider.as_deref().unwrap_or(&request.target));
        let (Some(paths), Some(from), Some(to)) = (&self.paths, from, host(&request.node)) else {
            return (Vec::new(), false);
        };
        let hub = self.homes.get(request.node.as_str()).copied().filter(|_| request.relayed);
        let stops: Vec<HostIndex> = std::iter::once(from).chain(hub).chain([to]).collect();
        let (mut way, mut is_whole) = (Vec::new(), true);
        for pair in stops.windows(2) {
            let mut at = pair[0];
            for crossing in paths.crossings(pair[0], pair[1]) {
                at = paths.host(crossing);
                way.extend(self.wires(crossing));
            }
            is_whole &= at == pair[1];
        }
        (way, is_whole)
    }

    fn wires(&self, Crossing { net, from, to }: Crossing) -> impl Iterator<Item = String> {
        if is_radio(self.topology, net) {
            return std::iter::once(radio_link_id(self.topology, net, [from, to])).chain(None);
        }
        let wire = |member| wire_id(self.topology, net, member);
        let second = (self.topology.nets[net].kind == NetKind::Lan).then(|| wire(to));
        std::iter::once(wire(from)).chain(second)
    }
}

/// A time of the run in whole milliseconds.
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e3).round() as u64
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
