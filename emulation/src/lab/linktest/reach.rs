//! Whether every host reaches every other where packets are routed.

use std::time::Duration;

use super::Options;
use super::expect::Path;
use super::flow::{Flow, SMALLEST_FRAME, Trace};
use super::report::Reach;
use crate::scenario::topology::{HostIndex, NetIndex, Routing, Topology};

/// How often a pair is tried.
pub(super) const ATTEMPTS: u32 = 4;
/// Probes a second at the most.
const PACE: f64 = 4000.0;
/// Hops that a probe's patience allows for.
const HOPS: u32 = 12;
/// Pairs that a report names.
const NAMED: usize = 100;

/// From one host to another.
pub(super) type Pair = (HostIndex, HostIndex);

/// The pairs of hosts between which there is a way, in rounds in each of which
/// a host sends once and receives once; none where nothing is routed.
pub(super) fn pairs(topology: &Topology) -> Vec<Pair> {
    if matches!(topology.routing, Routing::None | Routing::Manual) {
        return Vec::new();
    }
    let group = groups(topology);
    let count = topology.hosts.len();
    let round = |distance: usize| (0..count).map(move |from| (from, (from + distance) % count));
    (1..count).flat_map(round).filter(|(from, to)| group[*from].is_some() && group[*from] == group[*to]).collect()
}

/// By host, the first host of those it is joined with; none without an interface.
fn groups(topology: &Topology) -> Vec<Option<HostIndex>> {
    let mut parent: Vec<HostIndex> = (0..topology.hosts.len()).collect();
    let find = |parent: &[HostIndex], mut host: HostIndex| {
        while parent[host] != host {
            host = parent[host];
        }
        host
    };
    for net in &topology.nets {
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

/// One probe for each pair that there is time for; the second is how many
/// that is, and they are spread evenly over all.
pub(super) fn flows(topology: &Topology, pairs: &[Pair], options: &Options) -> (Vec<Flow>, Vec<Pair>) {
    let time = if options.quick { 1.0 } else { 8.0 };
    let interval = 1.0 / PACE.min(1.0 / slowest(topology).as_secs_f64().max(1e-9));
    // Time over interval is at most 32 000.
    let room = ((time / interval) as usize).max(topology.hosts.len());
    let step = pairs.len().div_ceil(room).max(1);
    let interfaces = topology.interfaces();
    let patience = patience(topology);
    let flow = |(index, pair): (usize, &Pair)| {
        let (net, place) = *interfaces.get(pair.1)?.first()?;
        let flow = Flow {
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
    pairs.iter().step_by(step).enumerate().filter_map(flow).unzip()
}

/// The time between two probes by which no leg is loaded to more than half,
/// whatever way they take.
fn slowest(topology: &Topology) -> Duration {
    let interfaces = topology.interfaces();
    let hosts = topology.hosts.len().max(1);
    let mut interval = Duration::ZERO;
    for (index, net) in topology.nets.iter().enumerate() {
        for member in &net.members {
            // One that does not forward sends and receives once a round.
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

/// The most probes of a round that cross a forwarding host's legs of a net:
/// as many as there are hosts on the smaller side of them. Where there is
/// another way round, both sides are all hosts.
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

fn patience(topology: &Topology) -> Duration {
    let nets = topology.nets.iter().filter_map(|net| {
        // The longest leg there and the longest back are as far apart as two can be.
        let ways = (0..net.members.len()).filter_map(|to| Path::between(net, 0, to).zip(Path::between(net, to, 0)));
        ways.map(|(there, back)| there.longest(SMALLEST_FRAME) + back.longest(SMALLEST_FRAME)).max()
    });
    let hops = HOPS.min(topology.nets.len() as u32);
    nets.max().unwrap_or_default() * hops + Duration::from_millis(200)
}

/// What came of it.
pub(super) fn report(topology: &Topology, pairs: usize, tried: usize, failed: &[Pair]) -> Reach {
    let name = |host: HostIndex| topology.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default();
    Reach {
        pairs: pairs as u64,
        tried: tried as u64,
        failed: failed.len() as u64,
        unreached: failed.iter().take(NAMED).map(|(from, to)| (name(*from), name(*to))).collect(),
    }
}

/// Those of the pairs whose probe did not arrive.
pub(super) fn unanswered(pairs: &[Pair], traces: &[Trace]) -> Vec<Pair> {
    pairs.iter().zip(traces).filter(|(_, trace)| trace.arrivals.is_empty()).map(|(pair, _)| *pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{addresses, fixture};

    fn routed(hosts: usize, nets: &[&[usize]]) -> Topology {
        let topology = Topology { routing: Routing::Static, ..fixture::nets(hosts, nets) };
        addresses::assign(&topology).unwrap()
    }

    #[test]
    fn hosts_are_paired_with_those_they_are_joined_with() {
        let topology = routed(6, &[&[0, 1], &[1, 2], &[3, 4]]);
        let pairs = pairs(&topology);
        assert_eq!(pairs.len(), 3 * 2 + 2, "{pairs:?}");
        assert!(pairs.contains(&(2, 0)) && pairs.contains(&(4, 3)) && !pairs.contains(&(2, 3)));
        assert!(self::pairs(&fixture::nets(3, &[&[0, 1, 2]])).is_empty());
    }

    #[test]
    fn all_pairs_are_tried_where_there_is_time() {
        let topology = routed(4, &[&[0, 1, 2, 3]]);
        let all = pairs(&topology);
        let (flows, chosen) = flows(&topology, &all, &Options::default());
        assert_eq!((flows.len(), chosen.len()), (12, 12));
        assert!(flows.is_sorted_by_key(|flow| flow.start));
    }

    #[test]
    fn the_smaller_side_of_a_leg_is_what_crosses_it() {
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
    fn a_slow_link_in_between_leaves_time_for_fewer() {
        let mut topology = routed(40, &[&(0..20).collect::<Vec<_>>(), &[0, 20], &(20..40).collect::<Vec<_>>()]);
        for member in &mut topology.nets[1].members {
            member.to_net.rate = crate::units::Rate::from_bps(56_000);
        }
        let all = pairs(&topology);
        let (flows, chosen) = flows(&topology, &all, &Options::default());
        assert_eq!(all.len(), 40 * 39);
        assert!((700..900).contains(&flows.len()) && chosen.len() == flows.len(), "{}", flows.len());
        assert!(flows.last().unwrap().start < Duration::from_secs(9));
    }
}
