//! Traffic of the network, of each host and of each link.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::parts::{TrafficPart, counted, has_only_services, parts, since};
use super::{RequestCounts, per_service};
use crate::record::{LinkRecord, NodeRecord, RequestOutcome};
use crate::{NodeSpan, Results};

/// Traffic of the network in the workload and its drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrafficMetrics {
    /// Bytes that hosts sent into their links, with the frame's header. Forwarded packets count once for each
    /// hop. `None` if neither links nor samples were recorded.
    pub offered_bytes: Option<u64>,
    /// Bytes summed over the ports of the switches, as in the paper: into one port and out of another, so a
    /// unicast frame counts twice, and a multicast frame once plus once for each receiver. A link of two hosts
    /// counts as two ports.
    pub port_bytes: Option<u64>,
    /// The part of `offered_bytes` that was multicast or broadcast.
    pub multicast_bytes: Option<u64>,
    /// Payload bytes delivered to requesters, including those of failed requests.
    pub payload_bytes: u64,
    /// `offered_bytes` without `payload_bytes`: everything beyond the requested data.
    pub overhead_bytes: Option<u64>,
    /// `offered_bytes` for each completed service; like the two below `None` if programs ran, whose traffic is among it.
    pub offered_per_service: Option<f64>,
    pub port_per_service: Option<f64>,
    pub overhead_per_service: Option<f64>,
    /// The parts of the offered bytes, which add up to them.
    pub parts: Vec<TrafficPart>,
    pub drops: Drops,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    pub queue: u64,
    pub loss: u64,
    pub down: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeUse {
    /// The host, or a hub's daemon on it.
    pub node: String,
    pub class: String,
    /// `node`, `supernode`, `server` or `cache`; empty if its daemon left no record.
    pub role: String,
    pub requests: RequestCounts,
    /// Completed services that it provided to others.
    pub provided: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Bytes of messages that it sent, by class.
    pub traffic_bytes: BTreeMap<String, u64>,
    /// Bytes that the host of this name sent into its links, including forwarded ones.
    pub offered_bytes: u64,
    /// Processor time used, seconds; virtual time has none.
    pub cpu_s: Option<f64>,
    /// Processor time as a fraction of one processor.
    pub cpu_share: Option<f64>,
    /// The fraction of time for which it was ready to run and waited for a processor.
    pub waited_share: Option<f64>,
    /// Peak memory in use, bytes; unknown in virtual time.
    pub memory_bytes: Option<u64>,
}

impl NodeUse {
    /// True for a super node or the server.
    pub fn is_hub(&self) -> bool {
        !matches!(self.role.as_str(), "node" | "")
    }
}

/// The use of one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkUse {
    #[serde(flatten)]
    pub link: LinkRecord,
    /// The mean arriving rate, Mbit/s.
    pub mbit_s: Option<f64>,
    /// The used fraction of its rate: bytes out over the possible bytes.
    pub utilization: Option<f64>,
}

pub(super) fn traffic(results: &Results, completed: u64) -> TrafficMetrics {
    let offered_bytes = offered(results);
    let counted = !results.links.is_empty();
    let port_bytes = counted.then(|| ports(&results.links));
    let payload_bytes = results.requests.iter().map(|request| request.bytes).sum();
    // The payload of requests in progress is unknown for a run that broke off.
    let overhead_bytes = offered_bytes.filter(|_| counted).map(|offered| offered.saturating_sub(payload_bytes));
    let of_services = has_only_services(results);
    let each = |bytes: Option<u64>| bytes.filter(|_| of_services).and_then(|bytes| per_service(bytes, completed));
    TrafficMetrics {
        offered_bytes,
        port_bytes,
        multicast_bytes: counted.then(|| sent(&results.links).map(|link| link.multicast_bytes_in).sum()),
        payload_bytes,
        overhead_bytes,
        offered_per_service: each(offered_bytes),
        port_per_service: each(port_bytes),
        overhead_per_service: each(overhead_bytes),
        parts: parts(results, offered_bytes, payload_bytes, completed),
        drops: drops(&results.links),
    }
}

/// The directions that hosts send into.
pub(super) fn sent(links: &[LinkRecord]) -> impl Iterator<Item = &LinkRecord> {
    links.iter().filter(|link| link.direction == "to-net")
}

fn offered(results: &Results) -> Option<u64> {
    if results.links.is_empty() {
        return results.samples.last().map(|sample| sample.offered_bytes);
    }
    Some(sent(&results.links).map(|link| link.bytes_in).sum())
}

/// The growth of the counters of the switches' ports, bytes.
fn ports(links: &[LinkRecord]) -> u64 {
    let lans: BTreeSet<&str> =
        links.iter().filter(|link| link.direction != "to-net").map(|link| link.link.as_str()).collect();
    let counted = |link: &LinkRecord| match link.direction.as_str() {
        "to-net" if lans.contains(link.link.as_str()) => link.bytes_in,
        "to-net" => link.bytes_in + link.bytes_out,
        _ => link.bytes_out,
    };
    links.iter().map(counted).sum()
}

fn drops(links: &[LinkRecord]) -> Drops {
    Drops {
        queue: links.iter().map(|link| link.dropped_queue).sum(),
        loss: links.iter().map(|link| link.dropped_loss).sum(),
        down: links.iter().map(|link| link.dropped_down).sum(),
    }
}

pub(super) fn nodes(results: &Results) -> Vec<NodeUse> {
    let mut uses: BTreeMap<&str, NodeUse> = BTreeMap::new();
    for (node, span) in &results.nodes {
        let mut one = daemon(span, results.run.ran_s + results.run.drain_s);
        if results.run.is_simulated() {
            (one.cpu_s, one.cpu_share, one.waited_share, one.memory_bytes) = (None, None, None, None);
        }
        uses.insert(node, one);
    }
    for request in &results.requests {
        let one = uses.entry(&request.node).or_default();
        one.requests.add(request);
        one.class.clone_from(&request.class);
        let provider = request.provider.as_deref().filter(|_| request.outcome == RequestOutcome::Completed);
        if let Some(provider) = provider {
            uses.entry(provider).or_default().provided += 1;
        }
    }
    for link in sent(&results.links) {
        if let Some(one) = uses.get_mut(link.host.as_str()) {
            one.offered_bytes += link.bytes_in;
        }
    }
    uses.into_iter().map(|(node, one)| NodeUse { node: node.to_owned(), ..one }).collect()
}

fn daemon(span: &NodeSpan, run_s: f64) -> NodeUse {
    let (first, last) = (&span.first, &span.last);
    let lasted = if last.t > first.t { last.t - first.t } else { run_s };
    let grown = |of: fn(&NodeRecord) -> f64| if of(last) < of(first) { of(last) } else { of(last) - of(first) };
    // The growth of a daemon with a single record is unknown.
    let share = |seconds: f64| (lasted > 0.0 && first != last).then(|| seconds / lasted);
    NodeUse {
        class: last.class.clone(),
        role: last.role.clone(),
        sent_bytes: since(first.sent_bytes, last.sent_bytes),
        received_bytes: since(first.received_bytes, last.received_bytes),
        traffic_bytes: counted(span),
        cpu_s: Some(grown(|node| node.cpu_s)),
        cpu_share: share(grown(|node| node.cpu_s)),
        waited_share: share(grown(|node| node.waited_s)),
        memory_bytes: Some(last.memory_bytes),
        ..NodeUse::default()
    }
}

pub(super) fn links(results: &Results) -> Vec<LinkUse> {
    let seconds = results.run.ran_s + results.run.drain_s;
    let rate = |bytes: u64| (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds);
    let one = |link: &LinkRecord| LinkUse {
        link: link.clone(),
        mbit_s: rate(link.bytes_in).map(|bps| bps / 1e6),
        utilization: match link.capacity_bytes {
            Some(0) => None,
            Some(capacity) => Some((link.bytes_out as f64 / capacity as f64).min(1.0)),
            None => rate(link.bytes_out).filter(|_| link.rate_bps > 0).map(|bps| bps / link.rate_bps as f64),
        },
    };
    let mut links: Vec<LinkUse> = results.links.iter().map(one).collect();
    links.sort_by_key(|one| Reverse(one.link.bytes_in));
    links
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use crate::testing;

    #[test]
    fn byte_counts_match_switch_counters() {
        let traffic = Metrics::from_results(&testing::by_hand()).traffic;
        // The LAN: a and b offer 1000 + 3000, of which 100 are multicast to two others; out of the ports come
        // 4100 less 200 dropped. The link takes 5000 and delivers 4800.
        assert_eq!(traffic.offered_bytes, Some(1000 + 3000 + 5000));
        assert_eq!(traffic.port_bytes, Some(4000 + 3900 + 5000 + 4800));
        assert_eq!(traffic.multicast_bytes, Some(100));
        assert_eq!((traffic.drops.queue, traffic.drops.loss, traffic.drops.down), (1, 2, 0));
    }

    #[test]
    fn nodes_get_their_own_share() {
        let metrics = Metrics::from_results(&testing::by_hand());
        let by_name = |name: &str| metrics.nodes.iter().find(|node| node.node == name).unwrap();
        let hub = by_name("hub");
        assert_eq!((hub.role.as_str(), hub.sent_bytes, hub.cpu_share), ("supernode", 600, Some(0.25)));
        let a = by_name("a");
        assert_eq!((a.requests.asked, a.provided, a.offered_bytes), (4, 1, 1000));
        // b was restarted: its counters fell, and count as a whole.
        assert_eq!(by_name("b").sent_bytes, 250);
    }

    #[test]
    fn links_sorted_by_load_with_utilization() {
        let links = Metrics::from_results(&testing::by_hand()).links;
        assert_eq!(links[0].link.link, "up");
        // 4800 bytes in 12 s of 6400 bit/s.
        assert_eq!(links[0].utilization, Some(0.5));
        assert_eq!(links[1].utilization, None);
    }
}
