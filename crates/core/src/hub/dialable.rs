//! The hub dials a node, or has others dial it, at hosts where it sees the node.
//!
//! A node may have more hosts than the hub sees, and a NAT may show another one, so one
//! that it names besides is tried as far as its allowance goes. Beyond that the hub relays.

use std::net::{IpAddr, SocketAddr};

use roost_wire::{Address, ConnectionId, NodeId};

use super::HubLimit;
use super::core::HubCore;
use crate::address_filter;
use crate::address_filter::NamedDial;

/// A repeated dial to the same provider is not charged again, and a standby, of which a node names one
/// at a time, is dialled on credit once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialAttempt {
    First,
    Again,
    Standby,
}

impl HubCore {
    /// Keeps the addresses at which a node may be dialled.
    pub(super) fn dialable(&mut self, node: NodeId, addresses: &[Address], turn: DialAttempt) -> Vec<Address> {
        let (mut dialable, elsewhere) = address_filter::split(addresses, &self.hosts_of(node));
        let other = address_filter::least(&elsewhere).filter(|address| self.may_dial(node, address, turn));
        dialable.extend(other);
        dialable
    }

    /// True if a host that `node` names, but at which it is not seen, may be dialled for it.
    pub(super) fn may_dial(&mut self, node: NodeId, address: &Address, turn: DialAttempt) -> bool {
        let now = self.now;
        let Some(host) = address.hosts.first().copied() else { return false };
        if turn == DialAttempt::Again && self.targets.has_admitted(node, host) {
            return true;
        }
        let Some(remote) = self.remotes.get_mut(node) else { return false };
        let dial = NamedDial { member: node, scheme: address.scheme, host, on_credit: turn == DialAttempt::Standby };
        let admitted = self.targets.admit(now, &mut remote.debt.allowance, dial);
        if !admitted {
            self.over_limit(node, HubLimit::Dials);
        }
        admitted
    }

    /// Keeps the addresses of a node that may be passed on, of all that another hub at `connection` tells.
    pub(super) fn told_by_hub(&self, connection: ConnectionId, addresses: Vec<Address>) -> Vec<Address> {
        let hub = self.remotes.connections.get(&connection).and_then(|connection| connection.address.primary());
        hub.map_or(Vec::new(), |hub| address_filter::few(address_filter::filter_reported(addresses, hub.ip())))
    }

    /// The hosts at which a remote is seen.
    pub(super) fn hosts_of(&self, node: NodeId) -> Vec<IpAddr> {
        let connections =
            self.remotes.connections_of(node).iter().filter_map(|connection| self.remotes.connections.get(connection));
        connections.flat_map(|connection| connection.address.hosts.iter().copied()).collect()
    }

    /// An address with an unspecified host replaced by where the remote is seen.
    pub(super) fn seen_from(&self, mut to: SocketAddr, connection: ConnectionId) -> SocketAddr {
        let seen = self.remotes.connections.get(&connection).and_then(|connection| connection.address.primary());
        if let Some(seen) = seen.filter(|_| to.ip().is_unspecified()) {
            to.set_ip(seen.ip());
        }
        to
    }
}
