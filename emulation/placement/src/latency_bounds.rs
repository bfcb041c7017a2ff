//! Lower bounds of a request's times, from distances and rates alone: no request through a hub can be faster.
//!
//! A request goes from the requester to its hub and on to the provider, and data goes from the provider to the
//! requester; with a server all of it returns the way it came. Packets do not queue, only links take time, and
//! messages have their real sizes.

use roost_experiment::{PlacedNode, Prepared};
use roost_topology::model::HostIndex;
use roost_wire::Service;

use super::distances::HostDistances;
use super::request_costs::RequestCosts;

/// The bytes of a full frame, such as the first of an object's data.
const FRAME_BYTES: f64 = 1514.0;

/// The bounds of a plan's requests on its undisturbed network.
pub struct LatencyBounds<'a> {
    prepared: &'a Prepared,
    ground: HostDistances<'a>,
    exchanges: RequestCosts,
    relayed: bool,
}

impl<'a> LatencyBounds<'a> {
    /// Measures distances and messages; it takes some bytes for each pair of hosts.
    pub fn from_prepared(prepared: &'a Prepared) -> Self {
        let relayed = prepared.plan.architecture.hub_role() == roost_wire::Role::Server;
        let exchanges = RequestCosts::measure(&prepared.plan, relayed);
        Self { prepared, ground: HostDistances::from_topology(&prepared.network), exchanges, relayed }
    }

    /// The least time from a request to its first byte, milliseconds. Nodes are indices in the placement.
    /// `None` without a hub or a path.
    pub fn first_byte_ms(&self, requester: usize, provider: usize, service: Service) -> Option<f64> {
        let way = self.way(requester, provider)?;
        Some(1e3 * (self.asking(&way) + self.carrying(&way, self.first(service))))
    }

    /// The least latency of a service: for an object the time to its last byte, whose packets follow one
    /// another at the rate of the slowest link.
    pub fn latency_ms(&self, requester: usize, provider: usize, service: Service) -> Option<f64> {
        let (way, first) = (self.way(requester, provider)?, self.first(service));
        let all = if service.is_stream() { first } else { self.exchanges.flows[place(service)].rounds[1].iter().sum() };
        let slowest =
            way.windows(2).skip(2).map(|step| self.ground.stretch(step[0], step[1]).slowest).fold(0.0, f64::max);
        let rest = (all - first).max(0.0) * slowest;
        Some(1e3 * (self.asking(&way) + self.carrying(&way, first) + rest))
    }

    /// A round trip of the data, milliseconds: from the provider to the requester and back, through a server if
    /// it relays.
    pub fn round_trip_ms(&self, requester: usize, provider: usize) -> Option<f64> {
        let way = self.way(requester, provider)?;
        Some(2e3 * self.carrying(&way, 0.0))
    }

    /// The hosts on the path of a request and its data.
    fn way(&self, requester: usize, provider: usize) -> Option<Vec<HostIndex>> {
        let placement = &self.prepared.placement;
        let (from, to): (&PlacedNode, &PlacedNode) = (&placement.nodes[requester], &placement.nodes[provider]);
        let hub = placement.hubs[*from.hubs.first()?].host;
        let back = if self.relayed { Some(hub) } else { None };
        let way: Vec<HostIndex> = [from.host, hub, to.host].into_iter().chain(back).chain([from.host]).collect();
        way.windows(2).all(|step| self.ground.leads(step[0], step[1])).then_some(way)
    }

    fn asking(&self, way: &[HostIndex]) -> f64 {
        self.ground.time(way[0], way[1], self.exchanges.request[0])
            + self.ground.time(way[1], way[2], self.exchanges.forward[0])
    }

    fn carrying(&self, way: &[HostIndex], bytes: f64) -> f64 {
        way.windows(2).skip(2).map(|step| self.ground.time(step[0], step[1], bytes)).sum()
    }

    /// The bytes up to the end of the first packet with data.
    fn first(&self, service: Service) -> f64 {
        let first = self.exchanges.flows[place(service)].rounds[1].first().copied().unwrap_or_default();
        if service.is_stream() { first } else { first.min(FRAME_BYTES) }
    }
}

fn place(service: Service) -> usize {
    Service::ALL.iter().position(|one| *one == service).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Three nodes in a star whose legs take 10, 20 and 40 ms, at 1 Mbit/s; the super node is on the first
    /// one's host, and the server's leg takes 80 ms.
    const NETWORK: &str = "
[[host]]
name = ['node1', 'node2', 'node3', 'server']
class = 'star'
cell = [0, 0]
step = [1, 0]

[[lan]]
name = 'net'
members = ['node1', 'node2', 'node3', 'server']
rate = '1Mbit'
leg = [
  { host = 'node1', delay = '10ms' }, { host = 'node2', delay = '20ms' }, { host = 'node3', delay = '40ms' },
  { host = 'server', delay = '80ms' },
]
";

    fn prepared(architecture: &str, network: &str) -> (tempfile::TempDir, Prepared) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), network).unwrap();
        let plan = format!(
            "topology = 'net.toml'\narchitecture = '{architecture}'\nduration = '10s'\n{}",
            if architecture == "super-node" { "super_nodes = ['node1']" } else { "server = 'server'" }
        );
        let prepared = Prepared::from_text(&plan, &Path::new(folder.path()).join("plan.toml")).unwrap();
        (folder, prepared)
    }

    /// Milliseconds to send bytes over two legs.
    fn sent(bytes: f64) -> f64 {
        2.0 * bytes * 8.0 / 1e3
    }

    #[test]
    fn triangle_path_sums_its_sides() {
        let (_folder, prepared) = prepared("super-node", NETWORK);
        let limits = LatencyBounds::from_prepared(&prepared);
        let sizes = &limits.exchanges;
        let data = sizes.flows[1].rounds[1][0];
        let asked = sent(sizes.request[0]);
        // From the second over the first to the third, and from there to the second.
        let expected = (20.0 + 10.0) + (10.0 + 40.0) + (40.0 + 20.0) + asked + sent(sizes.forward[0]) + sent(data);
        let limit = limits.first_byte_ms(1, 2, Service::ALL[1]).unwrap();
        assert!((limit - expected).abs() < 0.01, "{limit} {expected}");
        // On the super node's host nothing lies between the request and it.
        let expected = (10.0 + 40.0) + (40.0 + 10.0) + sent(sizes.forward[0]) + sent(data);
        let limit = limits.first_byte_ms(0, 2, Service::ALL[1]).unwrap();
        assert!((limit - expected).abs() < 0.01 && asked > 0.1, "{limit} {expected}");
    }

    #[test]
    fn last_byte_comes_at_slowest_rate() {
        // The provider's leg has half of the others' rate; the super node's has a tenth, and only requests
        // cross it.
        let network = NETWORK
            .replace("delay = '40ms'", "delay = '40ms', rate = '500kbit'")
            .replace("delay = '10ms'", "delay = '10ms', rate = '100kbit'");
        let (_folder, prepared) = prepared("super-node", &network);
        let limits = LatencyBounds::from_prepared(&prepared);
        let [first, last] = [limits.first_byte_ms(1, 2, Service::Image), limits.latency_ms(1, 2, Service::Image)];
        let all: f64 = limits.exchanges.flows[2].rounds[1].iter().sum();
        let rest = last.unwrap() - first.unwrap();
        assert!((rest - (all - FRAME_BYTES) * 8.0 / 500.0).abs() < 0.01, "{rest}");
        assert!(all > 100_000.0);
    }

    #[test]
    fn server_relay_returns_same_way() {
        let (_folder, prepared) = prepared("client-server", NETWORK);
        let limits = LatencyBounds::from_prepared(&prepared);
        let sizes = &limits.exchanges;
        // The direct path from the third to the second would take 160 ms less.
        let propagation = (20.0 + 80.0) + (80.0 + 40.0) + (40.0 + 80.0) + (80.0 + 20.0);
        let data = sizes.flows[1].rounds[1][0];
        let expected = propagation + sent(sizes.request[0]) + sent(sizes.forward[0]) + 2.0 * sent(data);
        let limit = limits.first_byte_ms(1, 2, Service::ALL[1]).unwrap();
        assert!((limit - expected).abs() < 0.01, "{limit} {expected}");
    }
}
