//! The way to the requester of a session: a connection that is up, or a dial.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::Reason;
use roost_wire::{ConnectionId, NodeId, Time};

use super::ProviderSessions;
use super::permission::way_to;
use super::serve_request::{PushedObject, ServeRequest};
use super::session::{Session, SessionPhase};
use crate::node::api::{SessionId, SourceOutput};
use crate::node::connections::DialTarget;
use crate::node::core::{Core, ToldNode};
use crate::node::timers::Timer;

/// The longest dial to a requester, besides the round trips of a handshake, before the hub is told to relay.
/// The requester waits meanwhile.
const REACH_TIME: Duration = Duration::from_secs(2);

/// The round trips that a handshake may need, one of them repeated.
const HANDSHAKE_TRIPS: u32 = 4;

impl ProviderSessions {
    /// Finds the way to the requester: a connection that is up, or a dial.
    pub(super) fn reach(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let request = &session.request;
        if let Some(connection) = way_to(core, request) {
            return self.open(core, id, connection);
        }
        for doubted in core.connections.doubted(core.now, request.requester, request.spec.transports) {
            core.doubt(doubted);
        }
        if self.unreached.holds(core.now, request.requester, &request.dialable()) {
            return self.refuse(core, id, Reason::Unreachable);
        }
        let is_somewhere = !request.dialable().is_empty();
        if self.dial(core, id) {
            return self.tell_pending(core, id);
        }
        self.refuse(core, id, if is_somewhere { Reason::Unreachable } else { Reason::NoTransport });
    }

    /// True if the requester has an address over an allowed transport at which
    /// dialling it has not failed lately.
    pub(super) fn can_dial(&self, now: Time, request: &ServeRequest) -> bool {
        let addresses = request.dialable();
        !addresses.is_empty() && !self.unreached.holds(now, request.requester, &addresses)
    }

    /// Dials the requester, if there is an address over an allowed transport, and doubts the connection that there is.
    /// False as well if hubs have had too many requesters dialed in vain.
    pub(super) fn dial(&mut self, core: &mut Core, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let request = &session.request;
        session.connection.into_iter().for_each(|connection| core.doubt(connection));
        let addresses = request.dialable();
        if addresses.is_empty() {
            return false;
        }
        let (way, patience) = (request.way(), reach_time(core, request));
        if request.asked_by.is_none_or(|asked_by| !core.is_hub(asked_by)) {
            core.dial_node(way, addresses);
            session.dialling = true;
        } else {
            session.dialling = core.dial_as_told(ToldNode::Requester, way, addresses);
        }
        if session.dialling && !core.timers.is_set(Timer::Reach(id)) {
            core.set(Timer::Reach(id), patience);
        }
        session.dialling
    }

    fn open(&mut self, core: &mut Core, id: SessionId, connection: ConnectionId) {
        if self.sessions.get(&id).is_some_and(|session| !self.permits(core, &session.request, connection)) {
            return self.turn_away(core, id, connection);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.connection = Some(connection);
        session.reached = core.now;
        session.phase = SessionPhase::Opening;
        core.timers.clear(Timer::Reach(id));
        match session.request.pushed {
            Some(PushedObject { length, digest, .. }) => {
                let format = String::new();
                self.on_opened(core, id, SourceOutput::Stored { length, digest, format });
            }
            None if session.request.reflect.is_some() => self.join_publication(core, id),
            None if session.request.offer.service.is_call() => self.fetch_body(core, id),
            None => self.open_source(core, id, Bytes::new()),
        }
    }

    /// A dial has led to a node: the requester of those that wait for it.
    pub(crate) fn on_requester_reached(&mut self, core: &mut Core, way: DialTarget, connection: ConnectionId) {
        self.unreached.forget(way.node);
        for id in self.end_dial(core, way) {
            self.join(core, id, connection);
        }
    }

    /// The sessions for which this dial was, which is over.
    pub(super) fn end_dial(&mut self, core: &mut Core, way: DialTarget) -> Vec<SessionId> {
        let meant = |session: &Session| session.dialling && session.request.way() == way;
        let sessions = self.sessions.iter_mut().filter(|(_, session)| meant(session));
        let ended = sessions.map(|(id, session)| {
            session.dialling = false;
            *id
        });
        let ended: Vec<_> = ended.collect();
        ended.iter().for_each(|id| core.timers.clear(Timer::Reach(*id)));
        ended
    }

    /// A node is there: perhaps one for which a session waits.
    pub(crate) fn on_node_up(&mut self, core: &mut Core, node: NodeId, connection: ConnectionId) {
        self.unreached.forget(node);
        let Some(scheme) = core.connections.get(connection).map(|connection| connection.address.scheme) else { return };
        let is_sound = |connection| core.connections.is_sound(core.now, connection);
        let waits = |session: &Session| {
            !session.connection.is_some_and(is_sound)
                && session.request.requester == node
                && session.request.spec.transports.contains(scheme)
        };
        for id in self.live_where(waits) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.dialling = false;
            }
            core.timers.clear(Timer::Reach(id));
            self.join(core, id, connection);
        }
    }

    pub(super) fn join(&mut self, core: &mut Core, id: SessionId, connection: ConnectionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        if matches!(session.phase, SessionPhase::Reaching) {
            return self.open(core, id, connection);
        }
        if matches!(session.phase, SessionPhase::Done { .. }) {
            let is_permitted = self.permits(core, &session.request, connection);
            if let Some(session) = self.sessions.get_mut(&id).filter(|_| is_permitted) {
                session.answers_over(core, connection);
            }
        } else {
            self.resume(core, id, connection);
        }
    }
}

/// The longest dial to a requester before the hub is told to relay; at least half of the time is left to the hub.
fn reach_time(core: &Core, request: &ServeRequest) -> Duration {
    let asked_by = request.asked_by.and_then(|connection| core.connections.get(connection));
    let trips = asked_by.map_or(Duration::ZERO, |connection| connection.rtt.smoothed() * HANDSHAKE_TRIPS);
    (REACH_TIME + trips).min(request.deadline / 2)
}
