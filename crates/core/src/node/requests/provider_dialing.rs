//! Dialling a provider that does not reach this node, which may be behind a translator of addresses.
//! The hub has told where the provider is. It is let in front: of two who can both be dialled one
//! dials. If both are behind translators, both dial, and what each sends opens the way for the other.

use std::time::Duration;

use roost_wire::messages::ProviderAddress;
use roost_wire::{Address, ConnectionId, RequestId, Scheme, SchemeSet};

use super::OutgoingRequests;
use super::outgoing_request::{OutgoingRequest, ProviderDial, RequestPhase};
use crate::node::connections::DialTarget;
use crate::node::core::{Core, ToldNode};
use crate::node::timers::Timer;

/// Most providers dialled for one request: hubs tell their addresses, and could aim dials at a
/// victim again and again.
const MAX_MEETINGS: u8 = 4;

/// The longest answer that tells a distance: a later one comes from a provider that hubs asked after others.
const LONGEST_ANSWER: Duration = Duration::from_secs(1);

impl OutgoingRequest {
    /// A hub says where the provider is that has the request.
    pub(super) fn await_provider(
        &mut self,
        core: &mut Core,
        id: RequestId,
        connection: ConnectionId,
        provider: ProviderAddress,
    ) {
        let is_open = !matches!(self.phase, RequestPhase::Receiving(_)) && !self.is_direct();
        let ProviderDial { at, met, count } = &self.meeting;
        if !is_open || provider.node == core.node || *met == Some(provider.node) || *count >= MAX_MEETINGS {
            return;
        }
        let is_new = at.as_ref().is_none_or(|at| at.node != provider.node);
        self.meeting.at = Some(provider);
        if is_new {
            core.set(Timer::Meet(id), self.time_to_reach(core, connection));
        }
    }

    /// The time that a provider has to reach this node. Its request has gone to the provider and its
    /// answer come back, both by hubs, so that the two are no farther from one another; the provider's
    /// dial began in the middle of that and takes one and a half round trips, over TCP two and a half.
    fn time_to_reach(&self, core: &Core, connection: ConnectionId) -> Duration {
        let pto = core.pto(connection);
        let slack =
            core.connections.get(connection).map_or(pto, |connection| pto.saturating_sub(connection.rtt.smoothed()));
        let answered = core.now.since(self.first_sent).min(LONGEST_ANSWER.max(pto));
        let trips = if self.request.transports == SchemeSet::only(Scheme::Tcp) { 2 } else { 1 };
        pto.max(answered * trips + slack)
    }
}

impl OutgoingRequests {
    /// A provider has had its time to reach this node.
    pub(crate) fn on_provider_late(&mut self, core: &mut Core, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id).filter(|asked| !matches!(asked.phase, RequestPhase::Receiving(_)))
        else {
            return;
        };
        let Some(ProviderAddress { node, addresses }) = asked.meeting.at.take() else { return };
        let way = DialTarget { node, schemes: asked.request.transports };
        let fits = |address: &Address| way.schemes.contains(address.scheme);
        let addresses: Vec<Address> = addresses.into_iter().filter(fits).collect();
        let connection = core.connections.between(core.now, node, way.schemes, &addresses);
        // A connection that was there before is dead for the provider.
        let has_come = connection
            .and_then(|connection| core.connections.get(connection))
            .is_some_and(|connection| connection.heard >= asked.first_sent);
        if !has_come && core.dial_as_told(ToldNode::Provider, way, addresses) {
            (asked.meeting.met, asked.meeting.count) = (Some(node), asked.meeting.count + 1);
            core.counters.provider_dials += 1;
        }
    }
}
