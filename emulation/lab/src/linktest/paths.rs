//! The paths through a link or LAN that are measured.

use std::collections::BTreeSet;

use roost_topology::model::Net;
use roost_topology::units::Rate;

use super::expect::ExpectedPath;

/// The indices of the sending and the receiving member.
pub(super) type MemberPair = (usize, usize);

/// Every ordered pair of `members`, in rounds in each of which every member sends once and receives once.
pub(super) fn all(members: usize) -> Vec<MemberPair> {
    (1..members).flat_map(|distance| round(members, distance)).collect()
}

/// Every member to the next one and back: each leg is used, and each direction has its counterpart.
pub(super) fn ring(members: usize) -> Vec<MemberPair> {
    match members {
        0 | 1 => Vec::new(),
        2 => all(2),
        _ => [1, members - 1].into_iter().flat_map(|distance| round(members, distance)).collect(),
    }
}

/// Every member to the next one: each leg is used once.
pub(super) fn circle(members: usize) -> Vec<MemberPair> {
    if members < 3 { all(members) } else { round(members, 1).collect() }
}

fn round(members: usize, distance: usize) -> impl Iterator<Item = MemberPair> {
    (0..members).map(move |from| (from, (from + distance) % members))
}

/// Paths on which, together, every leg is the slowest, so that its rate shows. A leg without a partner as fast
/// as itself is used too, and its rate stays hidden.
pub(super) fn rates(net: &Net) -> Vec<MemberPair> {
    let members = net.members.len();
    let place = |rate: Rate| if rate.is_unlimited() { u64::MAX } else { rate.bps() };
    let by_rate = |rate: &dyn Fn(usize) -> Rate| {
        let mut places: Vec<usize> = (0..members).collect();
        places.sort_by_key(|member| (std::cmp::Reverse(place(rate(*member))), *member));
        places
    };
    let senders = by_rate(&|member| net.members[member].to_net.rate);
    let receivers = by_rate(&|member| net.members[member].from_net.rate);
    // The fastest sends to the fastest: they are adjacent in both orders, so shifting one order by one keeps
    // similar members together.
    let mut pairs = Vec::new();
    let mut open = UncoveredLegs::for_members(members);
    for (index, &from) in senders.iter().enumerate() {
        let to = receivers[index];
        let partner = if from == to { receivers[(index + 1) % members.max(1)] } else { to };
        open.add_pair(net, (from, partner), &mut pairs);
    }
    for &member in &senders {
        if open.sends.contains(&member)
            && let Some(&to) = receivers.iter().find(|other| **other != member)
        {
            open.add_pair(net, (member, to), &mut pairs);
        }
        if open.receives.contains(&member)
            && let Some(&from) = senders.iter().find(|other| **other != member)
        {
            open.add_pair(net, (from, member), &mut pairs);
        }
    }
    pairs
}

/// The legs whose rate no path shows yet.
struct UncoveredLegs {
    sends: BTreeSet<usize>,
    receives: BTreeSet<usize>,
}

impl UncoveredLegs {
    fn for_members(members: usize) -> Self {
        Self { sends: (0..members).collect(), receives: (0..members).collect() }
    }

    fn add_pair(&mut self, net: &Net, pair: MemberPair, pairs: &mut Vec<MemberPair>) {
        let (from, to) = pair;
        let Some(path) = ExpectedPath::between(net, from, to).filter(|_| from != to && !pairs.contains(&pair)) else {
            return;
        };
        let slowest = path.rate();
        if net.members[from].to_net.rate == slowest {
            self.sends.remove(&from);
        }
        if net.members[to].from_net.rate == slowest {
            self.receives.remove(&to);
        }
        pairs.push(pair);
    }
}

#[cfg(test)]
mod tests {
    use roost_topology::testing;

    use super::*;

    fn lan(rates: &[(u64, u64)]) -> Net {
        let members: Vec<usize> = (0..rates.len()).collect();
        let mut net = testing::nets(rates.len(), &[&members]).nets.remove(0);
        for (member, (to_net, from_net)) in net.members.iter_mut().zip(rates) {
            member.to_net.rate = Rate::from_bps(*to_net);
            member.from_net.rate = Rate::from_bps(*from_net);
        }
        net
    }

    #[test]
    fn ring_uses_each_leg_both_ways() {
        assert_eq!(all(4).len(), 12);
        assert_eq!(all(4).into_iter().collect::<BTreeSet<_>>().len(), 12);
        assert_eq!(ring(2), [(0, 1), (1, 0)]);
        assert_eq!(ring(3).len(), 6);
        assert!(ring(5).iter().all(|(a, b)| ring(5).contains(&(*b, *a))));
        assert_eq!(circle(2), [(0, 1), (1, 0)]);
        assert_eq!(circle(5).iter().map(|(_, to)| *to).collect::<BTreeSet<_>>().len(), 5);
        assert!(ring(1).is_empty() && all(0).is_empty() && circle(1).is_empty());
    }

    #[test]
    fn each_leg_is_some_paths_bottleneck() {
        // A slow server among fast clients, and one client with a slow uplink.
        let net = lan(&[(10, 10), (100, 100), (100, 100), (5, 100), (0, 0)]);
        let pairs = rates(&net);
        let shown_send = |member: usize| {
            pairs.iter().any(|(a, b)| {
                *a == member
                    && net.members[*b].from_net.rate.slower(net.members[*a].to_net.rate) == net.members[*a].to_net.rate
            })
        };
        let shown_receive = |member: usize| {
            pairs.iter().any(|(a, b)| {
                *b == member
                    && net.members[*a].to_net.rate.slower(net.members[*b].from_net.rate)
                        == net.members[*b].from_net.rate
            })
        };
        // The unlimited one has no partner as fast as itself.
        assert!((0..4).all(|member| shown_send(member) && shown_receive(member)), "{pairs:?}");
        assert!(pairs.len() <= 9, "{pairs:?}");
        assert!(pairs.iter().all(|(a, b)| a != b));
    }

    #[test]
    fn equal_legs_need_one_path_each() {
        let net = lan(&[(100, 100); 51]);
        assert_eq!(rates(&net).len(), 51);
    }

    #[test]
    fn a_link_is_measured_both_ways() {
        let mut net = lan(&[(7, 100), (100, 3)]);
        net.kind = roost_topology::model::NetKind::Link;
        assert_eq!(rates(&net).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([(0, 1), (1, 0)]));
    }
}
