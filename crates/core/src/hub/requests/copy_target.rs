//! Where copies may go: nobody has a super node aim at somebody else's host.

use std::net::{IpAddr, SocketAddr};

use roost_wire::messages::{HubHop, Request};
use roost_wire::{Address, NodeId};

use super::{RequestTurn, RequestView};
use crate::hub::core::HubCore;

use crate::hub::route::HOPS;
use crate::hub::sender::Sender;

impl RequestTurn<'_> {
    /// Whether a node asks for no copy, or for one at a host of its own.
    pub(super) fn targets_own_host(&self, from: Sender, request: &Request) -> bool {
        request.copy_target.is_none_or(|reflect| {
            self.core.is_allowed_destination(from, reflect.to) && self.is_host_of(from, reflect.to)
        })
    }

    /// Whether the copy that another hub passes a request on for, if any, may go where that says.
    /// It has judged the address of whom it asks for. Where every hub on the way reflects, the
    /// address is its own.
    pub(super) fn is_valid_target(&self, from: Sender, request: &Request, hop: HubHop) -> bool {
        let Some(reflect) = request.copy_target else { return true };
        let is_own = reflect.hops > 0 && reflect.hops >= HOPS.saturating_sub(hop.hops_left);
        self.core.is_allowed_destination(from, reflect.to) && (!is_own || self.is_host_of(from, reflect.to))
    }

    /// Whether the remote that asks is at this host: it is seen there over one of its connections, or
    /// says so in its record. One that is unspecified is where it is seen.
    pub(super) fn is_host_of(&self, from: Sender, to: SocketAddr) -> bool {
        let host = self.core.seen_from(to, from.connection).ip().to_canonical();
        let connections = self
            .core
            .remotes
            .connections_of(from.node)
            .iter()
            .filter_map(|connection| self.core.remotes.connections.get(connection));
        let mut seen = connections.flat_map(|connection| &connection.address.hosts);
        seen.any(|seen| seen.to_canonical() == host) || self.view.named_hosts(from.node).any(|named| named == host)
    }
}

impl RequestView<'_> {
    /// The hosts at which a node or a hub says that it is.
    fn named_hosts(self, node: NodeId) -> impl Iterator<Item = IpAddr> {
        let of_node = self.records.get(node).map_or(Vec::new(), |entry| entry.addresses());
        let of_hub = self.members.addresses_of(node).to_vec();
        let hosts = |address: Address| address.hosts.into_iter().map(|host| host.to_canonical());
        of_node.into_iter().chain(of_hub).flat_map(hosts)
    }
}

impl HubCore {
    fn is_allowed_destination(&self, from: Sender, to: SocketAddr) -> bool {
        roost_wire::is_destination(self.seen_from(to, from.connection).ip(), self.is_here(from.connection))
    }
}
