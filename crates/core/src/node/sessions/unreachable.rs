//! Requesters that could not be dialled, so that the next request of the same
//! one need not wait until that has failed again: the hub relays at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use roost_wire::{Address, NodeId, Scheme, Time};

/// Time for which a failure is believed to last.
const MEMORY: Duration = Duration::from_secs(60);

/// The most requesters remembered. The oldest failure makes room for one more.
const MAX_UNREACHED: usize = 256;

/// Requesters that could not be dialled, and where.
#[derive(Debug, Default)]
pub(crate) struct UnreachableNodes {
    nodes: BTreeMap<NodeId, DialFailure>,
}

#[derive(Debug)]
struct DialFailure {
    /// Over which transport to which host, whatever the port.
    ways: BTreeSet<(Scheme, IpAddr)>,
    until: Time,
}

impl UnreachableNodes {
    /// Dialling `node` at all of `addresses` has failed.
    pub(super) fn record_failure(&mut self, now: Time, node: NodeId, addresses: Vec<Address>) {
        self.nodes.retain(|_, failure| now < failure.until);
        if self.nodes.len() >= MAX_UNREACHED
            && let Some(oldest) = self.nodes.iter().min_by_key(|(_, failure)| failure.until).map(|(node, _)| *node)
        {
            self.nodes.remove(&oldest);
        }
        let ways = ways(&addresses).collect();
        self.nodes.insert(node, DialFailure { ways, until: now + MEMORY });
    }

    /// The node's own way into the network is another one, or has been away: what failed before says nothing now.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    /// There is a way to `node` after all.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// True if dialling `node` has failed lately, at each of `addresses`.
    pub(crate) fn holds(&self, now: Time, node: NodeId, addresses: &[Address]) -> bool {
        let failed = |failure: &&DialFailure| ways(addresses).all(|way| failure.ways.contains(&way));
        !addresses.is_empty() && self.nodes.get(&node).filter(failed).is_some_and(|failure| now < failure.until)
    }
}

fn ways(addresses: &[Address]) -> impl Iterator<Item = (Scheme, IpAddr)> {
    addresses.iter().flat_map(|address| address.hosts.iter().map(|host| (address.scheme, host.to_canonical())))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn node(number: u16) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn at(scheme: Scheme, host: u8) -> Address {
        Address::single(scheme, SocketAddr::from(([10, 0, 0, host], 7700)))
    }

    #[test]
    fn dial_failure_expires_per_address() {
        let mut unreached = UnreachableNodes::default();
        let (udp, tcp) = (at(Scheme::Udp, 1), at(Scheme::Tcp, 1));
        unreached.record_failure(Time::ZERO, node(1), vec![udp.clone(), tcp.clone()]);
        let holds = |seconds, number, addresses: &[Address]| {
            unreached.holds(Time::ZERO + Duration::from_secs(seconds), node(number), addresses)
        };
        assert!(holds(59, 1, &[udp.clone(), tcp.clone()]) && holds(59, 1, std::slice::from_ref(&tcp)));
        assert!(!holds(60, 1, std::slice::from_ref(&udp)), "it is worth another try");
        assert!(!holds(1, 1, &[udp.clone(), at(Scheme::Udp, 2)]), "it has moved");
        assert!(!holds(1, 2, &[udp.clone(), tcp]), "another node");
        unreached.forget(node(1));
        assert!(!unreached.holds(Time::ZERO, node(1), &[udp]));
    }

    #[test]
    fn the_oldest_failure_makes_room() {
        let mut unreached = UnreachableNodes::default();
        let start = Time::ZERO;
        for number in 0..=MAX_UNREACHED as u16 {
            let now = start + Duration::from_millis(u64::from(number));
            unreached.record_failure(now, node(number), vec![at(Scheme::Udp, 1)]);
        }
        let holds = |number| unreached.holds(start, node(number), &[at(Scheme::Udp, 1)]);
        assert_eq!((unreached.nodes.len(), holds(0), holds(1)), (MAX_UNREACHED, false, true));
    }
}
