//! Where copies may go: nobody has a super node aim at somebody else's host.

use std::net::{IpAddr, SocketAddr};

use roost_wire::messages::{HubHop, Request};
use roost_wire::{Address, NodeId};

use crate::hub::core::HubCore;
use crate::hub::requests::{RequestTurn, RequestView, Requests};
use crate::hub::route::HOPS;
use crate::hub::sender::Sender;

impl Requests {
    /// Whether a node asks for no copy, or for one at a host of its own.
    pub(crate) fn targets_own_host(&self, turn: &RequestTurn<'_>, from: Sender, request: &Request) -> bool {
        request.copy_target.is_none_or(|reflect| {
            turn.core.is_allowed_destination(from, reflect.to) && self.is_host_of(turn, from, reflect.to)
        })
    }

    /// Whether the copy that another hub passes a request on for, if any, may go where that says.
    /// It has judged the address of whom it asks for. Where every hub on the way reflects, the
    /// address is its own.
    pub(crate) fn is_valid_target(&self, turn: &RequestTurn<'_>, from: Sender, request: &Request, hop: HubHop) -> bool {
        let Some(reflect) = request.copy_target else { return true };
        let is_own = reflect.hops > 0 && reflect.hops >= HOPS.saturating_sub(hop.hops_left);
        turn.core.is_allowed_destination(from, reflect.to) && (!is_own || self.is_host_of(turn, from, reflect.to))
    }

    /// Whether the remote that asks is at this host: it is seen there over one of its connections, or
    /// says so in its record. One that is unspecified is where it is seen.
    pub(crate) fn is_host_of(&self, turn: &RequestTurn<'_>, from: Sender, to: SocketAddr) -> bool {
        let host = turn.core.seen_from(to, from.connection).ip().to_canonical();
        let connections = turn
            .core
            .remotes
            .connections_of(from.node)
            .iter()
            .filter_map(|connection| turn.core.remotes.connections.get(connection));
        let mut seen = connections.flat_map(|connection| &connection.address.hosts);
        seen.any(|seen| seen.to_canonical() == host)
            || self.named_hosts(turn.view, from.node).any(|named| named == host)
    }

    /// The hosts at which a node or a hub says that it is.
    fn named_hosts(&self, view: RequestView<'_>, node: NodeId) -> impl Iterator<Item = IpAddr> {
        let of_node = view.records.get(node).map_or(Vec::new(), |entry| entry.addresses());
        let of_hub = view.members.addresses_of(node).to_vec();
        let hosts = |address: Address| address.hosts.into_iter().map(|host| host.to_canonical());
        of_node.into_iter().chain(of_hub).flat_map(hosts)
    }
}

impl HubCore {
    fn is_allowed_destination(&self, from: Sender, to: SocketAddr) -> bool {
        roost_wire::is_destination(self.seen_from(to, from.connection).ip(), self.is_here(from.connection))
    }
}
