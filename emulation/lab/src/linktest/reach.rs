//! Tests of reachability between all hosts where packets are routed.

use std::time::Duration;

use roost_topology::model::{HostIndex, Net, NetIndex, Routing, Topology};

use super::LinktestOptions;
use super::expect::ExpectedPath;
use super::flow::{LinktestFlow, LinktestTrace, SMALLEST_FRAME};
use super::report::Reachability;

pub(super) const ATTEMPTS: u32 = 4;
/// Probes a second at the most.
const PACE: f64 = 4000.0;
/// Nets that a packet crosses at most: Linux's default time to live.
const HOPS: usize = 64;
const NAMED: usize = 100;

pub(super) type ReachPair = (HostIndex, HostIndex);

/// The pairs of hosts that a path connects, in rounds in each of which a host sends once and receives once;
/// empty without routing. There may be millions, so the iterator computes them lazily.
pub(super) fn pairs(topology: &Topology) -> impl Iterator<Item = ReachPair> + use<> {
    let is_routed = !matches!(topology.routing, Routing::None | Routing::Manual);
    let group = if is_routed { groups(topology) } else { Vec::new() };
    let count = group.len();
    let round = move |distance: usize| (0..count).map(move |from| (from, (from + distance) % count));
    (1..count).flat_map(round).filter(move |(from, to)| group[*from].is_some() && group[*from] == group[*to])
}

/// The number of pairs, and a selection for which there is time, spread evenly over all.
pub(super) fn chosen(topology: &Topology, options: &LinktestOptions) -> (usize, Vec<ReachPair>) {
    let all = pairs(topology).count();
    let time = if options.quick { 1.0 } else { 8.0 };
    // Time over interval is at most 32 000.
    let room = ((time / interval(topology)) as usize).max(topology.hosts.len());
    (all, pairs(topology).step_by(all.div_ceil(room).max(1)).collect())
}

/// True if a trace may stop or lose the probes of a net for a while.
fn plays_trace(net: &Net) -> bool {
    net.members.iter().any(|member| member.to_net.trace.is_some() || member.from_net.trace.is_some())
}

/// By host, the first host of its component without the nets that play traces; `None` without an interface.
fn groups(topology: &Topology) -> Vec<Option<HostIndex>> {
    let mut parent: Vec<HostIndex> = (0..topology.hosts.len()).collect();
    let find = |parent: &[HostIndex], mut host: HostIndex| {
        while parent[host] != host {
            host = parent[host];
        }
        host
    };
    for net in topology.wired_nets().iter().filter(|net| !plays_trace(net)) {
        for pair in net.members.windows(2) {
            let (a, b) = (find(&parent, pair[0].host), find(&parent, pair[1].host));
            parent[a.max(b)] = a.min(b);
        }
    }
    let interfaces = topology.interfaces();
    (0..parent.len())
        .map(|host| interfaces.get(host).filter(|own| !own.is_empty()).map(|_| find(&parent, host)))
        .collect()
}

/// Makes one probe for each pair; also returns the pairs that can be tested.
pub(super) fn flows(topology: &Topology, pairs: &[ReachPair]) -> (Vec<LinktestFlow>, Vec<ReachPair>) {
    let interval = interval(topology);
    let interfaces = topology.interfaces();
    let patience = patience(topology);
    let flow = |(index, pair): (usize, &ReachPair)| {
        let (net, place) = *interfaces.get(pair.1)?.first()?;
        let flow = LinktestFlow {
            from: pair.0,
            to: pair.1,
            address: topology.nets[net].members[place].address?,
            way: None,
            frame: SMALLEST_FRAME,
            count: 1,
            interval: Duration::from_millis(1),
            burst: 1,
            start: Duration::from_secs_f64(interval * index as f64),
            patience,
        };
        Some((flow, *pair))
    };
    pairs.iter().enumerate().filter_map(flow).unzip()
}

fn interval(topology: &Topology) -> f64 {
    (1.0 / PACE).max(slowest(topology).as_secs_f64())
}

/// The interval of probes that loads no leg to more than half, on any path.
fn slowest(topology: &Topology) -> Duration {
    let interfaces = topology.interfaces();
    let hosts = topology.hosts.len().max(1);
    let mut interval = Duration::ZERO;
    for (index, net) in topology.nets.iter().enumerate() {
        for member in &net.members {
            // A host that does not forward sends and receives once a round.
            let crossing = match interfaces[member.host].len() {
                1 => 1,
                _ => crossing(topology, &interfaces, index, member.host),
            };
            let time = member.to_net.rate.slower(member.from_net.rate).time_for(SMALLEST_FRAME.into());
            interval = interval.max(time * 2 * crossing as u32 / hosts as u32);
        }
    }
    interval
}

/// The most probes of a round that cross a forwarding host's legs of a net: the number of hosts on the smaller
/// side. If there is another path round, both sides contain all hosts.
fn crossing(topology: &Topology, interfaces: &[Vec<(NetIndex, usize)>], net: NetIndex, host: HostIndex) -> usize {
    let mut seen = vec![false; topology.hosts.len()];
    let mut open = vec![net];
    let mut entered = vec![false; topology.nets.len()];
    entered[net] = true;
    while let Some(net) = open.pop() {
        for member in &topology.nets[net].members {
            // The legs themselves are not crossed, but the host may be reached from elsewhere.
            if std::mem::replace(&mut seen[member.host], true) || member.host == host {
                continue;
            }
            for (next, _) in &interfaces[member.host] {
                if !std::mem::replace(&mut entered[*next], true) {
                    open.push(*next);
                }
            }
        }
    }
    let others_of_host = interfaces[host].iter().filter(|(other, _)| *other != net);
    let count = topology.hosts.len();
    if others_of_host.clone().any(|(other, _)| entered[*other]) {
        return count;
    }
    let beyond = seen.iter().filter(|seen| **seen).count().saturating_sub(1);
    beyond.min(count - beyond)
}

/// The longest time of a probe: it crosses at most this many nets, none twice, so it takes no longer than the
/// slowest of them together.
fn patience(topology: &Topology) -> Duration {
    let crossing = |net: &Net| {
        // The longest leg in and the longest leg out make the longest path.
        let ways = (0..net.members.len())
            .filter_map(|to| ExpectedPath::between(net, 0, to).zip(ExpectedPath::between(net, to, 0)));
        let both = ways.map(|(there, back)| there.longest(SMALLEST_FRAME) + back.longest(SMALLEST_FRAME));
        both.max().unwrap_or_default()
    };
    let mut times: Vec<Duration> = topology.nets.iter().map(crossing).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.into_iter().take(longest_way(topology)).sum::<Duration>() + Duration::from_millis(200)
}

/// The most nets that a packet crosses. With costs, paths may be longer than necessary.
fn longest_way(topology: &Topology) -> usize {
    let is_even = topology.nets.windows(2).all(|pair| pair[0].cost == pair[1].cost);
    if !is_even {
        return HOPS;
    }
    let interfaces = topology.interfaces();
    let farthest = |from: HostIndex| {
        let mut entered = vec![false; topology.nets.len()];
        let mut reached = vec![false; topology.hosts.len()];
        let (mut edge, mut nets) = (vec![from], 0);
        loop {
            let mut next = Vec::new();
            for (net, _) in edge.iter().flat_map(|host| &interfaces[*host]) {
                if !std::mem::replace(&mut entered[*net], true) {
                    let members = topology.nets[*net].members.iter().map(|member| member.host);
                    next.extend(members.filter(|host| !std::mem::replace(&mut reached[*host], true)));
                }
            }
            if next.iter().all(|host| *host == from) {
                return nets;
            }
            (edge, nets) = (next, nets + 1);
        }
    };
    (0..topology.hosts.len()).map(farthest).max().unwrap_or_default().min(HOPS)
}

pub(super) fn report(topology: &Topology, pairs: usize, tried: usize, failed: &[ReachPair]) -> Reachability {
    let name = |host: HostIndex| topology.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default();
    Reachability {
        pairs: pairs as u64,
        tried: tried as u64,
        failed: failed.len() as u64,
        unreached: failed.iter().take(NAMED).map(|(from, to)| (name(*from), name(*to))).collect(),
    }
}

/// The pairs whose probe did not arrive.
pub(super) fn unanswered(pairs: &[ReachPair], traces: &[LinktestTrace]) -> Vec<ReachPair> {
    pairs.iter().zip(traces).filter(|(_, trace)| trace.arrivals.is_empty()).map(|(pair, _)| *pair).collect()
}

#[cfg(test)]
mod tests {
    use roost_topology::{addresses, testing};

    use super::*;

    fn routed(hosts: usize, nets: &[&[usize]]) -> Topology {
        let topology = Topology { routing: Routing::Static, ..testing::nets(hosts, nets) };
        addresses::assign(&topology).unwrap()
    }

    #[test]
    fn hosts_pair_with_connected_hosts() {
        let topology = routed(6, &[&[0, 1], &[1, 2], &[3, 4]]);
        let pairs: Vec<ReachPair> = pairs(&topology).collect();
        assert_eq!(pairs.len(), 3 * 2 + 2, "{pairs:?}");
        assert!(pairs.contains(&(2, 0)) && pairs.contains(&(4, 3)) && !pairs.contains(&(2, 3)));
        assert_eq!(self::pairs(&testing::nets(3, &[&[0, 1, 2]])).next(), None);
    }

    #[test]
    fn all_pairs_run_when_time_allows() {
        let topology = routed(4, &[&[0, 1, 2, 3]]);
        let (all, chosen) = chosen(&topology, &LinktestOptions::default());
        let (flows, tried) = flows(&topology, &chosen);
        assert_eq!((all, flows.len(), tried.len()), (12, 12, 12));
        assert!(flows.is_sorted_by_key(|flow| flow.start));
    }

    #[test]
    fn smaller_side_crosses_leg() {
        // A tree: 0 joins 1 and 2, which each have hosts below.
        let topology = routed(10, &[&[0, 1, 2], &[1, 3, 4, 5], &[2, 6, 7, 8, 9]]);
        let interfaces = topology.interfaces();
        assert_eq!(crossing(&topology, &interfaces, 1, 1), 3, "those below 1");
        assert_eq!(crossing(&topology, &interfaces, 0, 1), 4, "1 and those below");
        assert_eq!(crossing(&topology, &interfaces, 0, 2), 5);
        let ring = routed(4, &[&[0, 1], &[1, 2], &[2, 3], &[3, 0]]);
        assert_eq!(crossing(&ring, &ring.interfaces(), 0, 1), 4);
    }

    #[test]
    fn long_chain_extends_probe_wait() {
        let nets: Vec<[usize; 2]> = (0..30).map(|host| [host, host + 1]).collect();
        let mut topology = routed(31, &nets.iter().map(|ends| &ends[..]).collect::<Vec<_>>());
        let delay = Duration::from_millis(300);
        for member in topology.nets.iter_mut().flat_map(|net| &mut net.members) {
            member.to_net.delay = delay;
        }
        assert_eq!(longest_way(&topology), 30);
        assert!(patience(&topology) > delay * 30);
        let star = routed(4, &[&[0, 1], &[0, 2], &[0, 3]]);
        assert_eq!(longest_way(&star), 2, "it grows with the way, not with the number of links");
        topology.nets[3].cost = 5.0;
        assert_eq!(longest_way(&topology), HOPS);
    }

    #[test]
    fn slow_link_reduces_tried_pairs() {
        let mut topology = routed(40, &[&(0..20).collect::<Vec<_>>(), &[0, 20], &(20..40).collect::<Vec<_>>()]);
        for member in &mut topology.nets[1].members {
            member.to_net.rate = roost_topology::units::Rate::from_bps(56_000);
        }
        let (all, chosen) = chosen(&topology, &LinktestOptions::default());
        let (flows, _) = flows(&topology, &chosen);
        assert_eq!(all, 40 * 39);
        assert!((700..900).contains(&flows.len()) && chosen.len() == flows.len(), "{}", flows.len());
        assert!(flows.last().unwrap().start < Duration::from_secs(9));
    }
}
