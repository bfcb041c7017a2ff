//! The demand: the plan's workload in the long run, as requests between nodes.

use std::time::Duration;

use roost_core::node;
use roost_experiment::{PlacedNode, Plan};
use roost_topology::model::HostIndex;
use roost_wire::Service;

/// The most pairs of nodes that are treated singly. Beyond it each node's targets are sampled in even steps:
/// requests are spread evenly, so the sample is representative.
const MAX_PAIRS: usize = 1 << 18;

#[derive(Clone)]
pub(super) struct Demand<'a> {
    places: &'a [PlacedNode],
    pub(super) nodes: Vec<NodeDemand>,
    /// Requesters and providers, as indices into `nodes`.
    pub(super) pairs: Vec<DemandPair>,
    /// The pairs of nodes that do not request from all others.
    near: Vec<DemandPair>,
    /// In seconds.
    length: f64,
    /// In seconds.
    pause: f64,
    stream: f64,
}

#[derive(Clone)]
pub(super) struct NodeDemand {
    pub(super) host: HostIndex,
    /// The probability of each service and of a pause, at each decision.
    shares: [f64; 5],
    /// Requests per second for each service, made and received.
    pub(super) asks: [f64; 4],
    pub(super) given: [f64; 4],
}

/// A requester and one of its targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandPair {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The fraction of the requester's requests that go there.
    pub(super) weight: f64,
}

impl<'a> Demand<'a> {
    /// The demand of placed nodes, before latencies are known.
    pub(super) fn from_places(plan: &Plan, places: &'a [PlacedNode]) -> Self {
        let all: usize = places.iter().map(|place| place.targets.len()).sum();
        let step = all.div_ceil(MAX_PAIRS).max(1);
        let mut pairs = Vec::with_capacity(all.min(MAX_PAIRS) + places.len());
        for (from, place) in places.iter().enumerate() {
            // The first sampled target differs from node to node, so that all are covered.
            let (targets, begin) = (&place.targets, from % step.min(place.targets.len().max(1)));
            let taken: Vec<usize> = (begin..targets.len()).step_by(step).map(|number| targets.get(number)).collect();
            let weight = 1.0 / taken.len().max(1) as f64;
            pairs.extend(taken.into_iter().map(|to| DemandPair { from, to, weight }));
        }
        let node = |place: &PlacedNode| {
            let shares = place.mix.percentages().map(|percent| percent / 100.0);
            NodeDemand { host: place.host, shares, asks: [0.0; 4], given: [0.0; 4] }
        };
        let seconds = |duration: Duration| duration.as_secs_f64();
        let mut demand = Self {
            places,
            nodes: places.iter().map(node).collect(),
            near: pairs.iter().filter(|pair| places[pair.from].targets.len() + 1 < places.len()).copied().collect(),
            pairs,
            length: seconds(plan.duration),
            pause: seconds(plan.idle),
            stream: seconds(plan.stream),
        };
        demand.update_rates(&vec![[0.0; 4]; places.len()]);
        demand
    }

    /// Computes each node's request rate from the duration of its requests, seconds by service: it requests
    /// again when the last one is over.
    pub(super) fn update_rates(&mut self, latencies: &[[f64; 4]]) {
        for (node, latencies) in self.nodes.iter_mut().zip(latencies) {
            let mut cycle = node.shares[4] * self.pause;
            for (service, share) in Service::ALL.into_iter().zip(node.shares) {
                let length = if service.is_stream() { self.stream } else { 0.0 };
                cycle += share * (latencies[service.row()] + length);
            }
            for (asks, share) in node.asks.iter_mut().zip(node.shares) {
                // A bound for nodes with objects alone, whose latency is not known at first.
                *asks = share / cycle.max(1e-3);
            }
            node.given = [0.0; 4];
        }
        for pair in &self.pairs {
            let asks = self.nodes[pair.from].asks;
            for (given, asks) in self.nodes[pair.to].given.iter_mut().zip(asks) {
                *given += asks * pair.weight;
            }
        }
    }

    /// True if a node requests from all others.
    pub(super) fn asks_everywhere(&self, node: usize) -> bool {
        self.places[node].targets.len() + 1 == self.nodes.len()
    }

    /// The pairs of nodes that request only from some.
    pub(super) fn near(&self) -> impl Iterator<Item = &DemandPair> {
        self.near.iter()
    }

    /// The rate at which a node requests services in `which` from another, per second.
    pub(super) fn uses(&self, from: usize, to: usize, which: impl Fn(Service) -> bool) -> f64 {
        let targets = &self.places[from].targets;
        if !targets.contains(to) {
            return 0.0;
        }
        let asked = Service::ALL.into_iter().filter(|service| which(*service));
        asked.map(|service| self.nodes[from].asks[service.row()]).sum::<f64>() / targets.len() as f64
    }

    /// The rate of all requests for a service, per second.
    pub(super) fn asked(&self, service: Service) -> f64 {
        self.nodes.iter().map(|node| node.asks[service.row()]).sum()
    }

    /// The fraction of uses, at `rate` per second, that find no state of an earlier one: there was none yet, or
    /// it was longer ago than an idle connection is kept. Uses are assumed to be random (Poisson).
    pub(super) fn fresh(&self, rate: f64) -> f64 {
        if rate <= 0.0 || self.length <= 0.0 {
            return 1.0;
        }
        let kept = node::IDLE.as_secs_f64();
        let young = self.length.min(kept);
        let first = (1.0 - (-rate * young).exp()) / rate;
        let later = (self.length - young) * (-rate * kept).exp();
        ((first + later) / self.length).min(1.0)
    }
}
