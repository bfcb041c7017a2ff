//! Asking a provider that the node knows, without a hub: the same message, over
//! a connection with the provider itself.

use roost_wire::messages::Reason;
use roost_wire::{Address, ConnectionId, RequestId};

use super::OutgoingRequests;
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use crate::node::api::Provider;
use crate::node::connections::{ConnectionLoss, DialTarget};
use crate::node::core::Core;
use crate::node::timers::Timer;

impl OutgoingRequests {
    /// Sends a request to the provider that it names, or reaches for it.
    pub(super) fn ask_provider(&mut self, core: &mut Core, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let Some((way, addresses)) = way_of(asked) else { return };
        // After so much silence the connection may be dead without a word.
        let is_doubted =
            |connection| asked.tries == core.connections.doubtful_tries(core.now, connection) && !addresses.is_empty();
        let tunnel = || core.connections.way_to(way.node).filter(|_| asked.request.pushed);
        let direct = core.connections.between(core.now, way.node, way.schemes, &addresses);
        // An offer that came through hubs, and after all else, shows that the direct connection may be dead.
        let heard = |way: &ConnectionId| core.connections.get(*way).map(|entry| entry.heard);
        let connection = tunnel().into_iter().chain(direct).max_by_key(heard);
        if let Some(connection) = connection.filter(|connection| !is_doubted(*connection)) {
            return asked.send(core, &mut self.traces, id, connection);
        }
        if addresses.is_empty() {
            let unknown = asked.provider.as_ref().is_none_or(|provider| provider.addresses.is_empty());
            return self.fail(core, id, if unknown { Reason::Unreachable } else { Reason::NoTransport });
        }
        asked.phase = RequestPhase::Reaching;
        core.timers.clear(Timer::Ask(id));
        core.dial_node(way, addresses);
    }

    /// A dial has led to a node: the provider of those that wait for it. Who is
    /// served already is found by the provider, which goes on.
    pub(crate) fn on_provider_reached(&mut self, core: &mut Core, way: DialTarget, connection: ConnectionId) {
        for id in self.reaching(|asked| goes(asked, way)) {
            if let Some(asked) = self.asked.get_mut(&id) {
                asked.send(core, &mut self.traces, id, connection);
            }
        }
    }

    pub(crate) fn on_provider_unreachable(&mut self, core: &mut Core, way: DialTarget, loss: ConnectionLoss<'_>) {
        let reason = if loss.refused { Reason::NotAllowed } else { Reason::Unreachable };
        for id in self.reaching(|asked| goes(asked, way)) {
            self.fail_because(core, id, reason, format!("that node could not be reached: {}", loss.reason));
        }
    }

    /// The connection over which a named provider served has gone: the
    /// provider does not know where to dial, so this end does.
    pub(super) fn reach_lost_providers(&mut self, core: &mut Core, connection: ConnectionId) {
        let lost = |asked: &OutgoingRequest| matches!(&asked.phase, RequestPhase::Receiving(receiving) if receiving.connection == connection);
        for asked in self.asked.values().filter(|asked| lost(asked)) {
            if let Some((way, addresses)) = way_of(asked).filter(|(_, addresses)| !addresses.is_empty()) {
                core.dial_node(way, addresses);
            }
        }
    }
}

/// The provider that a request names, and where it can be dialled over a
/// transport that the request allows.
fn way_of(asked: &OutgoingRequest) -> Option<(DialTarget, Vec<Address>)> {
    let Provider { node, addresses } = asked.provider.as_ref().filter(|_| asked.is_direct())?;
    let schemes = asked.request.transports;
    let fits = |address: &&Address| schemes.contains(address.scheme);
    Some((DialTarget { node: *node, schemes }, addresses.iter().filter(fits).cloned().collect()))
}

/// True if a request goes this way.
fn goes(asked: &OutgoingRequest, way: DialTarget) -> bool {
    let node = asked.provider.as_ref().map(|provider| provider.node).filter(|_| asked.is_direct());
    node == Some(way.node) && asked.request.transports == way.schemes
}
