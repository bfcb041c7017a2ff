//! Whom a request is put to, over which connection, and when it is put again.

use roost_wire::messages::{Reason, RequestMessage, RequestMode};
use roost_wire::{ConnectionId, RequestId, Role, Time};

use super::OutgoingRequests;
use super::outgoing_request::{OutgoingRequest, RequestPhase, SHORT_PAUSE};
use crate::node::connections::{ConnectionLoss, DialTarget};
use crate::node::core::Core;
use crate::node::home::HomeRegistration;
use crate::node::home::liveness::answers_since;
use crate::node::timers::Timer;

impl OutgoingRequests {
    /// Sends a request to the home, or reaches for the home over a transport
    /// that the request allows.
    pub(super) fn ask(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if asked.is_direct() {
            return self.ask_provider(core, id);
        }
        let Some(home) = attach.home() else {
            asked.phase = RequestPhase::NoHub;
            return core.timers.clear(Timer::Ask(id));
        };
        let Some(entry) = core.connections.get(home) else { return };
        let schemes = asked.request.transports;
        let relayed = asked.request.mode == RequestMode::Relay || core.hub_role == Role::Server;
        let hub = entry.node;
        let connection =
            if relayed && asked.request.mode != RequestMode::Lookup && !schemes.contains(entry.address.scheme) {
                core.connections.between(core.now, hub, schemes, &[])
            } else {
                Some(home)
            };
        if let Some(connection) = connection {
            asked.send(core, &mut self.traces, id, connection);
            return self.hedge(core, attach, id);
        }
        let addresses = attach.home_addresses(schemes);
        if addresses.is_empty() {
            return self.fail(core, id, Reason::NoTransport);
        }
        asked.phase = RequestPhase::Reaching;
        core.timers.clear(Timer::Ask(id));
        core.dial_hub(DialTarget { node: hub, schemes }, addresses);
    }

    /// The home has been silent: puts the same request to the standby as well.
    /// Whoever is asked twice knows it by its number and nonce. A call that a provider has may run, and the standby
    /// might give it to another one.
    fn hedge(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) {
        let is_due = |asked: &&mut OutgoingRequest| asked.tries > 1 && !asked.body.was_given();
        let Some(asked) = self.asked.get_mut(&id).filter(is_due) else { return };
        let Some(standby) = attach.standby().filter(|standby| asked.may_go_over(core, *standby)) else { return };
        core.counters.hedges += u64::from(asked.hedge.is_none());
        asked.hedge = Some(standby);
        let (request, ticket) = (asked.wire_request(core, id), asked.ticket);
        core.send(standby, RequestMessage::Request(request));
        self.traces.record_sent(core, ticket, id, standby);
    }

    /// A hub was reached over the transport that requests want. If it is no
    /// longer the home, they are asked at the new one.
    pub(crate) fn on_hub_reached(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        way: DialTarget,
        connection: ConnectionId,
    ) {
        core.mind_idleness(connection);
        for id in self.reaching_home(core, attach, way) {
            if let Some(asked) = self.asked.get_mut(&id) {
                asked.send(core, &mut self.traces, id, connection);
            }
        }
    }

    pub(crate) fn on_hub_unreachable(&mut self, core: &mut Core, attach: &HomeRegistration, way: DialTarget) {
        for id in self.reaching_home(core, attach, way) {
            self.fail(core, id, Reason::NoTransport);
        }
    }

    /// The requests that wait for the home to be reached in this way.
    fn reaching_home(&self, core: &Core, attach: &HomeRegistration, way: DialTarget) -> Vec<RequestId> {
        let home = attach.home().and_then(|home| core.connections.get(home)).map(|connection| connection.node);
        if home != Some(way.node) {
            return Vec::new();
        }
        self.reaching(|asked| !asked.is_direct() && asked.request.transports == way.schemes)
    }

    /// The requests that wait for a dial and of which `which` holds.
    pub(super) fn reaching(&self, which: impl Fn(&OutgoingRequest) -> bool) -> Vec<RequestId> {
        let meant = |asked: &OutgoingRequest| matches!(asked.phase, RequestPhase::Reaching) && which(asked);
        self.asked.iter().filter(|(_, asked)| meant(asked)).map(|(id, _)| *id).collect()
    }

    /// Nothing was heard in time: asks again. Returns since when the home has
    /// been silent, if it may be gone.
    pub(crate) fn on_ask_timer(&mut self, core: &mut Core, attach: &HomeRegistration, id: RequestId) -> Option<Time> {
        let open = |asked: &&OutgoingRequest| !matches!(asked.phase, RequestPhase::Receiving(_));
        let asked = self.asked.get(&id).filter(open)?;
        let silent =
            !asked.is_direct() && asked.via.is_some_and(|connection| !answers_since(core, connection, asked.sent));
        let since = silent.then_some(asked.sent);
        if asked.tries > 0 && !matches!(asked.phase, RequestPhase::NoHub) {
            core.counters.retries += 1;
            core.is_patient &= !matches!(asked.phase, RequestPhase::Waiting);
        }
        if asked.ways.is_idle() {
            self.begin_search(core, attach, id);
        } else if asked.ways.hub {
            self.ask(core, attach, id);
        }
        since
    }

    /// There is a (new) home: everything unanswered is asked there.
    pub(crate) fn on_attached(&mut self, core: &mut Core, attach: &HomeRegistration) {
        let home = attach.home();
        for id in self.unaccepted() {
            let now = core.now;
            let is_asked = |asked: &OutgoingRequest| asked.via == home && asked.sent == now && asked.tries > 0;
            let due = |asked: &&mut OutgoingRequest| !asked.is_direct() && asked.ways.hub && !is_asked(asked);
            if let Some(asked) = self.asked.get_mut(&id).filter(due) {
                asked.tries = 0;
                asked.hedge = None;
                self.ask(core, attach, id);
            }
        }
        if let Some(home) = home {
            self.resubscribe_all(core, attach, home);
        }
    }

    /// A connection has gone: what was asked over it is asked elsewhere, and
    /// what a hub relayed over it has lost its provider.
    pub(crate) fn on_connection_down(
        &mut self,
        core: &mut Core,
        attach: &HomeRegistration,
        connection: ConnectionId,
        loss: ConnectionLoss<'_>,
    ) {
        for asked in self.asked.values_mut().filter(|asked| asked.hedge == Some(connection)) {
            asked.hedge = None;
        }
        for id in self.unaccepted() {
            let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.via == Some(connection)) else { continue };
            asked.via = None;
            asked.phase = RequestPhase::NoHub;
            core.timers.clear(Timer::Ask(id));
            if asked.is_direct() {
                core.set(Timer::Ask(id), SHORT_PAUSE);
            } else if attach.home().is_some_and(|home| home != connection) {
                self.ask(core, attach, id);
            }
        }
        self.on_way_lost(core, attach, connection, loss);
        self.reach_lost_providers(core, connection);
        self.on_relay_lost(core, attach, connection);
    }

    fn unaccepted(&self) -> Vec<RequestId> {
        let open = self.asked.iter().filter(|(_, asked)| !matches!(asked.phase, RequestPhase::Receiving(_)));
        open.map(|(id, _)| *id).collect()
    }
}
