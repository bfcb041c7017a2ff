//! The hub dials a node, or has others dial it, at hosts where it sees the node.
//!
//! A node may have more hosts than the hub sees, and a NAT may show another one, so one
//! that it names besides is tried as far as its allowance goes. Beyond that the hub relays.

use std::net::IpAddr;

use super::Hub;
use crate::address::Address;
use crate::address_filter;
use crate::ids::{LinkId, NodeId};
use crate::time::Time;

/// A repeated dial to the same provider is not charged again, and a stand-by, of which a node names one
/// at a time, is dialled on credit once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialAttempt {
    First,
    Again,
    StandBy,
}

impl Hub {
    /// Those of a node's addresses at which it may be dialled.
    pub(super) fn dialable(
        &mut self,
        now: Time,
        node: NodeId,
        addresses: &[Address],
        turn: DialAttempt,
    ) -> Vec<Address> {
        let (mut dialable, elsewhere) = address_filter::split(addresses, &self.hosts_of(node));
        let other = address_filter::least(&elsewhere).filter(|address| self.may_dial(now, node, address, turn));
        dialable.extend(other);
        dialable
    }

    /// True if a host that `node` names, but at which it is not seen, may be dialled for it.
    pub(super) fn may_dial(&mut self, now: Time, node: NodeId, address: &Address, turn: DialAttempt) -> bool {
        let Some(host) = address.hosts.first().copied() else { return false };
        if turn == DialAttempt::Again && self.targets.has_admitted(node, host) {
            return true;
        }
        let Some(neighbour) = self.neighbours.get_mut(node) else { return false };
        let payer = (node, &mut neighbour.debt.allowance);
        let admitted = self.targets.admit(now, payer, (address.scheme, host), turn == DialAttempt::StandBy);
        self.counters.over_limit += u64::from(!admitted);
        admitted
    }

    /// Those of a node's addresses, of which another hub at `link` tells, that may be passed on.
    pub(super) fn told_by_hub(&self, link: LinkId, addresses: Vec<Address>) -> Vec<Address> {
        let hub = self.neighbours.links.get(&link).and_then(|link| link.address.primary());
        hub.map_or(Vec::new(), |hub| address_filter::few(address_filter::filter_reported(addresses, hub.ip())))
    }

    /// The hosts at which a neighbour is seen.
    pub(super) fn hosts_of(&self, node: NodeId) -> Vec<IpAddr> {
        let links = self.neighbours.links_of(node).iter().filter_map(|link| self.neighbours.links.get(link));
        links.flat_map(|link| link.address.hosts.iter().copied()).collect()
    }
}
