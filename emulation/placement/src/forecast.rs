//! The costs of a placement: latencies, bytes, and loads of links.

use roost_topology::model::HostIndex;
use roost_wire::Service;

use super::demand::{Demand, DemandPair};
use super::distances::{HostDistances, NetDirection, PathCost};
use super::request_costs::{RelayedData, RequestCosts, RequestFlow};
use super::search::PlacementCost;

/// The size of a data packet that passes through the pipes of a path, bytes.
const PACKET: f64 = 1500.0;
/// The iterations between demand and latencies: a node that waits longer requests less often.
const ROUNDS: usize = 3;

/// A network, its demand, and the costs of each request.
pub(super) struct ForecastModel<'a> {
    pub(super) ground: &'a HostDistances<'a>,
    pub(super) demand: Demand<'a>,
    pub(super) exchanges: &'a RequestCosts,
    /// True if one server relays all data.
    pub(super) relayed: bool,
    /// True if streams and objects share connections.
    pub(super) one_transport: bool,
    /// By pair: the path of data, and the path back. Empty if all data is relayed.
    pub(super) direct: Vec<(PathCost, PathCost)>,
}

#[derive(Clone, Debug)]
pub(super) struct Forecast {
    /// Requests a second, by service.
    pub(super) asked: [f64; 4],
    /// Median and mean latency of each service, seconds.
    pub(super) median: [f64; 4],
    pub(super) mean: [f64; 4],
    /// Bytes of a request for each service, over all links together.
    pub(super) bytes: [f64; 4],
    /// Every pipe and the fraction of its rate in use, the fullest first.
    pub(super) shares: Vec<(NetDirection, f64)>,
}

/// A choice of hubs, and the home of each node.
struct HomeAssignment<'c> {
    hubs: &'c [HostIndex],
    of: Vec<usize>,
    mesh: Vec<f64>,
    /// By node: the path to its server and the path back. Empty without a server.
    served: Vec<(PathCost, PathCost)>,
}

impl HomeAssignment<'_> {
    fn between(&self, from: usize, to: usize) -> f64 {
        self.mesh[from * self.hubs.len() + to]
    }
}

/// The state that a request finds between two nodes.
#[derive(Clone, Copy)]
struct ColdStart {
    /// The fraction of requests that have to dial first.
    dial: f64,
    /// The fraction whose object uses a connection that has carried none yet.
    cold: f64,
}

impl ForecastModel<'_> {
    fn host(&self, node: usize) -> HostIndex {
        self.demand.nodes[node].host
    }

    /// The home of every node, as plans choose it: the nearest hub; among equally near ones the one with the
    /// fewest nodes. Nodes without a choice come first.
    fn homes<'c>(&self, hubs: &'c [HostIndex]) -> HomeAssignment<'c> {
        let far = |node: usize, hub: usize| self.ground.distance(self.host(node), hubs[hub]);
        let (mut of, mut attached) = (vec![0; self.demand.nodes.len()], vec![0_usize; hubs.len()]);
        let mut choosing = Vec::new();
        for (node, home) in of.iter_mut().enumerate() {
            let (mut nearest, mut least, mut ties) = (0, (u64::MAX, u16::MAX), 0);
            for hub in 0..hubs.len() {
                match far(node, hub) {
                    far if far < least => (nearest, least, ties) = (hub, far, 0),
                    far => ties += usize::from(far == least),
                }
            }
            if ties > 0 {
                choosing.push((node, least));
            } else {
                *home = nearest;
                attached[nearest] += 1;
            }
        }
        for (node, least) in choosing {
            let equal = (0..hubs.len()).filter(|hub| far(node, *hub) == least);
            of[node] = equal.min_by_key(|hub| attached[*hub]).unwrap_or(0);
            attached[of[node]] += 1;
        }
        HomeAssignment { hubs, of, mesh: self.mesh(hubs), served: Vec::new() }
    }

    /// The homes, with the paths of data to and from a server that relays.
    fn homes_and_ways<'c>(&self, hubs: &'c [HostIndex]) -> HomeAssignment<'c> {
        let mut homes = self.homes(hubs);
        if self.relayed {
            homes.served =
                (0..homes.of.len()).map(|node| there_and_back(self.ground, self.host(node), hubs[0])).collect();
        }
        homes
    }

    /// The expected time from each hub to each other one. A hub that owns the block forwards directly to the
    /// provider's home; any other goes through the block's first owner. Of all hubs two own a block; which two
    /// is as good as random, since it follows from their keys.
    fn mesh(&self, hubs: &[HostIndex]) -> Vec<f64> {
        let (count, bytes) = (hubs.len(), self.exchanges.route_request[0]);
        let time = |from: usize, to: usize| self.ground.time(hubs[from], hubs[to], bytes);
        let own = 2.0 / count.max(2) as f64;
        let mut mesh = vec![0.0; count * count];
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                let over = (0..count).filter(|over| *over != from && *over != to);
                let around: f64 = over.map(|over| time(from, over) + time(over, to)).sum();
                let by_owner = (time(from, to) + around) / (count - 1) as f64;
                mesh[from * count + to] = own * time(from, to) + (1.0 - own) * by_owner;
            }
        }
        mesh
    }

    /// The mean number of hubs that forward a request from one hub to another.
    fn carries(&self, hubs: usize) -> f64 {
        let count = hubs as f64;
        if hubs < 2 { 0.0 } else { 1.0 + (1.0 - 2.0 / count) * (count - 2.0) / (count - 1.0) }
    }

    /// The objective to minimize: the mean time of a request to its provider, and with a server of the path
    /// back as well. Direct data takes the same path with any hubs.
    pub(super) fn cost(&self, hubs: &[HostIndex]) -> PlacementCost {
        let homes = self.homes(hubs);
        let returns = if self.relayed { 1.0 } else { 0.0 };
        let (mut seconds, mut asked) = (0.0, 0.0);
        for (node, home) in self.demand.nodes.iter().zip(&homes.of) {
            let there = self.ground.time(node.host, hubs[*home], self.exchanges.request[0]);
            let back = self.ground.time(hubs[*home], node.host, self.exchanges.forward[0]);
            let [asks, given] = [node.asks, node.given].map(|requests| requests.iter().sum::<f64>());
            seconds += asks * (there + returns * back) + given * (back + returns * there);
            asked += asks;
        }
        seconds += self.between_hubs(&homes);
        let over = if self.relayed { self.server_load(hubs[0]).max(1.0) } else { 1.0 };
        PlacementCost { over, seconds: seconds / asked }
    }

    /// Request-seconds between hubs, per second. Nodes that request everywhere are summed up for each hub.
    fn between_hubs(&self, homes: &HomeAssignment<'_>) -> f64 {
        let asks_of = |node: usize| self.demand.nodes[node].asks.iter().sum::<f64>();
        let (count, others) = (homes.hubs.len(), (homes.of.len() - 1) as f64);
        if count < 2 {
            return 0.0;
        }
        let (mut asks, mut has) = (vec![0.0; count], vec![0.0; count]);
        for (node, home) in homes.of.iter().enumerate() {
            has[*home] += 1.0 / others;
            asks[*home] += if self.demand.asks_everywhere(node) { asks_of(node) } else { 0.0 };
        }
        let mut seconds = 0.0;
        for (from, asks) in asks.iter().enumerate() {
            for (to, has) in has.iter().enumerate().filter(|(to, _)| *to != from) {
                seconds += asks * has * homes.between(from, to);
            }
        }
        let near = self
            .demand
            .near()
            .map(|pair| asks_of(pair.from) * pair.weight * homes.between(homes.of[pair.from], homes.of[pair.to]));
        seconds + near.sum::<f64>()
    }

    /// The load of the fullest link, as a fraction of its rate, if a server relays all data.
    fn server_load(&self, server: HostIndex) -> f64 {
        let mut loads = self.ground.no_load();
        for node in &self.demand.nodes {
            let (mut up, mut down) = (0.0, 0.0);
            for (flow, (asks, given)) in self.exchanges.flows.iter().zip(node.asks.iter().zip(node.given)) {
                up += given * flow.bytes[0] + asks * flow.bytes[1];
                down += asks * flow.bytes[0] + given * flow.bytes[1];
            }
            self.ground.load(&mut loads, node.host, server, up);
            self.ground.load(&mut loads, server, node.host, down);
        }
        self.ground.shares(&loads).map(|(_, share)| share).fold(0.0, f64::max)
    }

    /// Computes the rates of requests for the latencies with these hubs.
    pub(super) fn update_demand(&mut self, hubs: &[HostIndex]) {
        for _ in 0..ROUNDS {
            let homes = self.homes_and_ways(hubs);
            let mut latencies = vec![[0.0; 4]; self.demand.nodes.len()];
            for (index, pair) in self.demand.pairs.iter().enumerate() {
                for service in Service::ALL {
                    self.latencies(&homes, index, service, |seconds, part| {
                        latencies[pair.from][service.row()] += seconds * part * pair.weight;
                    });
                }
            }
            self.demand.update_rates(&latencies);
        }
    }

    pub(super) fn forecast(&mut self, hubs: &[HostIndex]) -> Forecast {
        self.update_demand(hubs);
        let homes = self.homes_and_ways(hubs);
        let mut loads = self.ground.no_load();
        let mut forecast = Forecast {
            asked: Service::ALL.map(|service| self.demand.asked(service)),
            median: [0.0; 4],
            mean: [0.0; 4],
            bytes: [0.0; 4],
            shares: Vec::new(),
        };
        for service in Service::ALL {
            let at = service.row();
            let mut spread: Vec<(f64, f64)> = Vec::new();
            for (index, pair) in self.demand.pairs.iter().enumerate() {
                let rate = self.demand.nodes[pair.from].asks[at] * pair.weight;
                if rate > 0.0 {
                    self.latencies(&homes, index, service, |seconds, part| spread.push((seconds, part * rate)));
                    forecast.bytes[at] += self.bytes(&homes, *pair, service, rate, &mut loads);
                }
            }
            if forecast.asked[at] > 0.0 {
                forecast.bytes[at] /= forecast.asked[at];
                (forecast.median[at], forecast.mean[at]) = middle(&mut spread);
            }
        }
        forecast.shares = self.ground.shares(&loads).collect();
        forecast.shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        forecast
    }

    /// The fraction of a pair's requests that find no state.
    fn fresh(&self, pair: DemandPair, service: Service) -> ColdStart {
        let DemandPair { from, to, .. } = pair;
        let object = |other: Service| other == service;
        if self.relayed {
            // Every node has its connection with the server; an object finds the state left by all objects of
            // both nodes.
            let flows = |node: usize| self.demand.fresh(self.demand.nodes[node].asks[service.row()]);
            return ColdStart { dial: 0.0, cold: flows(from).max(flows(to)) };
        }
        let shared = |other: Service| self.one_transport || other.is_stream() == service.is_stream();
        let dial = self.demand.fresh(self.demand.uses(from, to, shared) + self.demand.uses(to, from, shared));
        ColdStart { dial, cold: self.demand.fresh(self.demand.uses(from, to, object)).max(dial) }
    }

    /// The latencies of a pair's requests for a service, each with its fraction of the requests: to the first
    /// byte of a stream, to the end of an object.
    fn latencies(&self, homes: &HomeAssignment<'_>, index: usize, service: Service, mut each: impl FnMut(f64, f64)) {
        let pair = self.demand.pairs[index];
        let (from, to) = (self.host(pair.from), self.host(pair.to));
        let (home, away) = (homes.of[pair.from], homes.of[pair.to]);
        let flow = &self.exchanges.flows[service.row()];
        let asking = self.ground.time(from, homes.hubs[home], self.exchanges.request[0])
            + homes.between(home, away)
            + self.ground.time(homes.hubs[away], to, self.exchanges.forward[0]);
        let fresh = self.fresh(pair, service);
        if self.relayed {
            let (up, down) = homes.served[pair.from];
            let ways = [homes.served[pair.to], (down, up)];
            let [cold, warm] = [0, 1].map(|state| asking + relayed(ways, &flow.rounds[state], &flow.onward[state]));
            each(cold, fresh.cold);
            return each(warm, 1.0 - fresh.cold);
        }
        let (way, back) = self.direct[index];
        let dial = flow.dial_trips * (way.delay + back.delay)
            + flow.handshake[0] * way.byte_time
            + flow.handshake[1] * back.byte_time;
        let [cold, warm] = [&flow.rounds[0], &flow.rounds[1]].map(|rounds| {
            let (waits, last) = paced((way, back), rounds);
            asking + waits + last
        });
        each(cold + dial, fresh.dial);
        each(cold, fresh.cold - fresh.dial);
        each(warm, 1.0 - fresh.cold);
    }

    /// Adds the load of a pair's requests at this rate; returns the bytes over all links together.
    fn bytes(
        &self,
        homes: &HomeAssignment<'_>,
        pair: DemandPair,
        service: Service,
        rate: f64,
        loads: &mut [f64],
    ) -> f64 {
        let (from, to) = (self.host(pair.from), self.host(pair.to));
        let (home, away) = (homes.hubs[homes.of[pair.from]], homes.hubs[homes.of[pair.to]]);
        let RequestCosts { request, forward, route_request: carry, pending, flows } = self.exchanges;
        let RequestFlow { bytes, handshake, .. } = &flows[service.row()];
        let mut total = 0.0;
        let mut put = |a: HostIndex, b: HostIndex, [there, back]: [f64; 2], rate: f64| {
            for (a, b, bytes) in [(a, b, there), (b, a, back)] {
                total += f64::from(self.ground.load(loads, a, b, bytes * rate)) * bytes * rate;
            }
        };
        put(from, home, *request, rate);
        put(away, to, *forward, rate);
        put(home, away, *carry, rate * self.carries(homes.hubs.len()));
        if self.relayed {
            put(to, home, *bytes, rate);
            put(home, from, *bytes, rate);
        } else {
            let dials = rate * self.fresh(pair, service).dial;
            put(to, from, *bytes, rate);
            put(to, from, *handshake, dials);
            put(to, away, *pending, dials);
        }
        total
    }
}

/// The cost of the path from one host to another, and of the path back.
pub(super) fn there_and_back(ground: &HostDistances<'_>, from: HostIndex, to: HostIndex) -> (PathCost, PathCost) {
    (ground.stretch(from, to), ground.stretch(to, from))
}

/// The time for which data waits for acknowledgements of earlier data, and the time of its last part then. Each
/// round of a slow start takes a round trip, or as long as the slowest pipe needs for it (Kurose and Ross,
/// "static windows"; Cardwell, Savage and Anderson 2000 with losses, which are left out here).
fn paced((way, back): (PathCost, PathCost), rounds: &[f64]) -> (f64, f64) {
    let Some((last, before)) = rounds.split_last() else { return (0.0, 0.0) };
    let passing = |bytes: f64| bytes.min(PACKET) * (way.byte_time - way.slowest);
    let trip = way.delay + back.delay + way.byte_time * PACKET;
    let waits = before.iter().map(|bytes| trip.max(bytes * way.slowest)).sum();
    (waits, way.delay + passing(*last) + last * way.slowest)
}

/// The time of data through a server, which passes on whole messages: it waits for the first, then for the
/// slower one of the two connections.
fn relayed(ways: [(PathCost, PathCost); 2], rounds: &[f64], onward: &RelayedData) -> f64 {
    let (waits, last) = paced(ways[0], rounds);
    let (lead, _) = paced(ways[0], &rounds[..rounds.len().min(onward.lead + 1)]);
    let (passed_on, end) = paced(ways[1], &onward.rounds);
    waits.max(lead + passed_on) + last + end
}

/// The median and the mean of weighted values.
fn middle(spread: &mut [(f64, f64)]) -> (f64, f64) {
    spread.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole: f64 = spread.iter().map(|(_, weight)| weight).sum();
    let mean = spread.iter().map(|(value, weight)| value * weight).sum::<f64>() / whole;
    let mut below = 0.0;
    let median = spread.iter().find(|(_, weight)| {
        below += weight;
        below >= whole / 2.0
    });
    (median.map_or(0.0, |(value, _)| *value), mean)
}
