//! The figures of a run that are stored, by name.
//!
//! | name | meaning |
//! |---|---|
//! | `completed`, `asked` | services |
//! | `at_target` | the fraction of completed requests whose provider is the host of the requested cell |
//! | `ended` | requests that could be completed: without those cut off by the run's end |
//! | `success` | the completed fraction of these |
//! | `track.success` | the same for one service; one for each |
//! | `completed.limit` | services if every request took the [least time](roost_placement::LatencyBounds) |
//! | `completed.ceiling` | services if requests took no time at all |
//! | `traffic.ports`, `traffic.offered` | bytes, as switches and hosts count them; with `.each` for each completed service |
//! | `overhead.each` | bytes of discovery and control, for each completed service |
//! | `hub.cpu` | the busiest hub's use of a processor, with real daemons |
//! | `first_contacts` | the fraction of requests that began with a handshake |
//! | `video.mean`, `.p50`, `.p95` | latency as in the paper, milliseconds; for each service |
//! | `video.warm.mean`, `video.cold.mean` | the same over existing and over new connections |
//! | `video.limit` | the mean of the least times of the same requests |
//! | `video.excess.p50`, `.p95` | warm first bytes over their least time |

use std::collections::{BTreeMap, HashMap};

use roost_experiment::Prepared;
use roost_placement::LatencyBounds;
use roost_results::Results;
use roost_results::metrics::{Metrics, per_service};
use roost_results::record::{RequestOutcome, RequestRecord};
use roost_sim::TrafficBreakdown;
use roost_statistics::{mean, quantile};
use roost_wire::{Role, Service};

/// The greatest cost of headers of a control message, with the packet that acknowledges it: Ethernet, IP, UDP
/// and DTLS twice.
const CONTROL_HEADERS: u64 = 2 * 80;
/// The cost of headers of a message in another's packet: a record's header and a message's.
const SHARED_HEADERS: u64 = 22 + 13;

/// Figures of a run, by name.
pub type Measures = BTreeMap<String, f64>;

/// The figures of a run of this plan.
pub(super) fn compute_measures(prepared: &Prepared, results: &Results, shares: Option<TrafficBreakdown>) -> Measures {
    let metrics = Metrics::from_results(results);
    let mut all = Measures::new();
    let completed = metrics.requests.completed;
    let mut put = |name: &str, value: Option<f64>| {
        all.extend(value.filter(|value| value.is_finite()).map(|value| (name.to_owned(), value)));
    };
    put("completed", Some(completed as f64));
    put("asked", Some(metrics.requests.asked as f64));
    let at_target = results.completed().filter(|request| request.provider.as_ref() == Some(&request.target)).count();
    put("at_target", per_service(at_target as u64, completed));
    put("ended", Some(metrics.requests.ended() as f64));
    put("success", metrics.requests.success_ratio());
    let traffic = &metrics.traffic;
    put("traffic.ports", traffic.port_bytes.map(|bytes| bytes as f64));
    put("traffic.offered", traffic.offered_bytes.map(|bytes| bytes as f64));
    let hubs = metrics.nodes.iter().filter(|node| node.is_hub());
    // Virtual time has no processors.
    put("hub.cpu", hubs.filter_map(|hub| hub.cpu_share).reduce(f64::max).filter(|_| shares.is_none()));
    put("traffic.ports.each", traffic.port_per_service);
    put("traffic.offered.each", traffic.offered_per_service);
    // With a server all traffic goes through a hub, including data.
    let shares = shares.filter(|_| prepared.plan.architecture.hub_role() == Role::SuperNode);
    let arranged = shares.map(arranged);
    put("overhead.each", arranged.and_then(|bytes| per_service(bytes, completed)));
    put("overhead.part", arranged.zip(shares).map(|(bytes, shares)| bytes as f64 / all_bytes(shares).max(1) as f64));
    for service in &metrics.services {
        let name = |what: &str| format!("{}.{what}", service.service);
        put(&name("completed"), Some(service.requests.completed as f64));
        put(&name("success"), service.requests.success_ratio());
        put(&name("mean"), service.latency.mean);
        put(&name("p50"), service.latency.p50);
        put(&name("p95"), service.latency.p95);
        put(&name("warm.mean"), service.warm.mean);
        put(&name("cold.mean"), service.first_contacts.mean);
    }
    all.extend(compare_with_bounds(prepared, results));
    all
}

/// The figures of a run whose nodes found no home.
pub(super) fn empty_measures() -> Measures {
    let services = Service::ALL.map(|service| format!("{}.success", service.name()));
    let names = ["completed", "asked", "ended", "success"].map(str::to_owned).into_iter().chain(services);
    names.map(|name| (name, 0.0)).collect()
}

/// Bytes of discovery and control: all traffic of hubs without relayed data, the nodes' control messages, and
/// their handshakes.
fn arranged(shares: TrafficBreakdown) -> u64 {
    let TrafficBreakdown {
        hub_bytes,
        relayed_bytes,
        handshake_bytes,
        multicast_bytes,
        control_messages,
        shared_control_messages,
        control_message_bytes,
        ..
    } = shares;
    let headers = control_messages * CONTROL_HEADERS + shared_control_messages * SHARED_HEADERS;
    // Relayed data counts as sent when it is queued, and may be lost there.
    hub_bytes.saturating_sub(relayed_bytes) + handshake_bytes + multicast_bytes + control_message_bytes + headers
}

fn all_bytes(shares: TrafficBreakdown) -> u64 {
    shares.hub_bytes + shares.handshake_bytes + shares.multicast_bytes + shares.node_bytes
}

/// Latencies relative to their lower bounds, if only hubs find providers.
fn compare_with_bounds(prepared: &Prepared, results: &Results) -> Measures {
    let limits =
        Some(LatencyBounds::from_prepared(prepared)).filter(|_| prepared.plan.architecture.discovery().is_none());
    let nodes = &prepared.placement.nodes;
    let places: HashMap<&str, usize> = nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let mut least: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut excess: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let (mut waited_s, mut least_s, mut known) = (0.0, 0.0, (0_u64, 0_u64));
    for request in &results.requests {
        waited_s += request.latency_ms().unwrap_or(request.elapsed_ms) / 1e3;
        if request.outcome != RequestOutcome::Completed {
            continue;
        }
        known = (known.0 + u64::from(request.first_contact == Some(true)), known.1 + 1);
        let limit = limits.as_ref().and_then(|limits| limits_of(limits, &places, request));
        let Some((limit, first_byte)) = limit else { continue };
        least.entry(&request.service).or_default().push(limit);
        least_s += limit / 1e3;
        let is_warm = request.first_contact == Some(false);
        let over = request.first_byte_ms.filter(|_| is_warm && first_byte > 0.0).map(|seen| seen / first_byte);
        excess.entry(&request.service).or_default().extend(over);
    }
    let mut all: Vec<(String, Option<f64>)> =
        least.iter().map(|(service, limits)| (format!("{service}.limit"), mean(limits))).collect();
    for (service, over) in &mut excess {
        over.sort_by(f64::total_cmp);
        let part = |p| quantile(over, p);
        all.extend([(format!("{service}.excess.p50"), part(0.5)), (format!("{service}.excess.p95"), part(0.95))]);
    }
    let (run, completed) = (&results.run, results.completed().count() as f64);
    let time_s = run.ran_s * f64::from(run.nodes);
    // The rest of the nodes' time is streams and pauses, in proportion to each service.
    let busy_s = time_s - waited_s;
    let with = |wait_s: f64| (busy_s > 0.0).then(|| completed * time_s / (busy_s + wait_s));
    all.extend([
        ("first_contacts".to_owned(), (known.1 > 0).then(|| known.0 as f64 / known.1 as f64)),
        ("completed.ceiling".to_owned(), with(0.0)),
        ("completed.limit".to_owned(), with(least_s).filter(|_| least_s > 0.0)),
    ]);
    all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| value.is_finite())?))).collect()
}

/// The least latency of a request, and its least time to the first byte.
fn limits_of(limits: &LatencyBounds<'_>, places: &HashMap<&str, usize>, request: &RequestRecord) -> Option<(f64, f64)> {
    let from = *places.get(request.node.as_str())?;
    let to = *places.get(request.provider.as_deref()?)?;
    let service: Service = Service::ALL.into_iter().find(|service| service.name() == request.service)?;
    Some((limits.latency_ms(from, to, service)?, limits.first_byte_ms(from, to, service)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use roost_sim::Detail;

    use super::*;

    #[test]
    fn setup_traffic_is_separated_from_data() {
        let shares = TrafficBreakdown {
            hub_bytes: 1300,
            relayed_bytes: 1000,
            handshake_bytes: 50,
            node_bytes: 9000,
            multicast_bytes: 7,
            control_messages: 2,
            shared_control_messages: 1,
            control_message_bytes: 40,
        };
        assert_eq!(arranged(shares), 300 + 50 + 7 + 40 + 2 * CONTROL_HEADERS + SHARED_HEADERS);
    }

    #[test]
    fn idle_star_matches_latency_bounds() {
        let plan = "topology = { star = { nodes = 4 } }\narchitecture = 'super-node'\nduration = '120s'\n\
                    idle = '2s'\nstream = '1s'\n[classes.star]\nmix = { track = 30, sensor = 20, idle = 50 }\n";
        let prepared = Prepared::from_text(plan, Path::new("p.toml")).unwrap();
        let (outcome, results) = roost_sim::simulate_with_results(&prepared, Detail::Packet).unwrap();
        let measures = compute_measures(&prepared, &results, Some(outcome.shares));
        let at = |name: &str| measures[name];
        assert_eq!(at("completed"), outcome.completed as f64);
        assert!(at("track.excess.p50") >= 1.0 && at("track.excess.p95") < 1.15, "{measures:?}");
        assert!(at("track.warm.mean") < at("track.cold.mean") && at("track.limit") <= at("track.warm.mean"));
        // Six pairs, each over at most two transports and in both directions.
        assert!(at("first_contacts") > 0.0 && at("first_contacts") < 0.5, "{measures:?}");
        assert!(at("completed") <= at("completed.limit") && at("completed.limit") < at("completed.ceiling"));
        assert!(at("overhead.each") > 200.0 && at("overhead.each") < 3000.0, "{measures:?}");
        // With multicast on the link, discovery may be faster.
        let both = plan.replace("super-node", "super-node-multicast");
        let prepared = Prepared::from_text(&both, Path::new("p.toml")).unwrap();
        let (outcome, results) = roost_sim::simulate_with_results(&prepared, Detail::Packet).unwrap();
        let measures = compute_measures(&prepared, &results, Some(outcome.shares));
        assert!(measures.contains_key("first_contacts") && !measures.contains_key("track.limit"), "{measures:?}");
    }
}
