//! Requesters out of sight, whom a hub reaches.
//!
//! A connection may be dead without a word. A provider that hears nothing over it asks for a sign of life and dials. If
//! that leads nowhere, it leaves the request to the hub. The hub relays, and the session goes on by that way: its source
//! is not opened again, and its call is not run again.

use std::time::Duration;

use roost_wire::messages::{FlowDescription, Reason, RequestMessage, ResumePoint};
use roost_wire::{ConnectionId, Time};

use super::ProviderSessions;
use super::permission::way_to;
use super::progress::{AcceptanceProgress, HubWay, RepeatedRequest};
use super::serve_request::ServeRequest;
use super::session::{REDIAL_PAUSE, Session, SessionPhase};
use crate::flow::{SILENCE_TIMEOUT, StreamSender};
use crate::node::api::SessionId;
use crate::node::connections::{ConnectionLoss, DialTarget, SIGN_PAUSE};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The signs of life that a requester is asked for before it is dialled, as it asks again for an object that travelled
/// inline.
const SIGNS: u32 = 2;

impl ProviderSessions {
    /// Looks for the requester of a session, over whose connection nothing is heard, or which has none.
    pub(super) fn seek(&mut self, core: &mut Core, id: SessionId) {
        if !self.dial(core, id) {
            self.on_unreached(core, id);
        }
    }

    /// A request came again: its answer may have been lost, or the connection is dead.
    pub(super) fn repeat_answer(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let is_up = session.connection.is_some_and(|connection| core.connections.get(connection).is_some());
        let lost_hub = session.request.relayed && !is_up;
        // The hub asks over another connection than before.
        let hub = session.request.asked_by.filter(|hub| lost_hub && self.permits(core, &session.request, *hub));
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.connection = hub.or(session.connection);
        session.repeat_accept(core);
        if session.accept.is_none() || session.request.relayed {
            return;
        }
        let (connection, request) = (session.connection, &session.request);
        if self.unreached.holds(core.now, request.requester, &request.dialable()) {
            connection.into_iter().for_each(|connection| core.doubt(connection));
            return self.on_unreached(core, id);
        }
        let Some(connection) = connection else { return self.seek(core, id) };
        if session.repeats + 1 >= core.connections.doubtful_tries(core.now, connection) {
            self.seek(core, id);
        } else if session.is_inline() {
            session.await_sign(core, id, connection);
        }
    }

    /// An object that travelled inline was asked for again, and no sign of life has come since.
    pub(super) fn on_sign_late(&mut self, core: &mut Core, id: SessionId, connection: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if core.connections.is_sound(core.now, connection) {
            return;
        }
        if session.tries < SIGNS {
            session.await_sign(core, id, connection);
        } else {
            self.seek(core, id);
        }
    }

    /// A dial to a requester has failed. Who is not admitted there is not to
    /// serve in another way, through a hub, either.
    pub(crate) fn on_requester_unreachable(&mut self, core: &mut Core, way: DialTarget, loss: ConnectionLoss<'_>) {
        for id in self.end_dial(core, way) {
            let Some(session) = self.sessions.get(&id) else { continue };
            if matches!(session.phase, SessionPhase::Reaching) && loss.refused {
                self.refuse(core, id, Reason::NotAllowed);
            } else if loss.refused {
                self.finish(core, id, Some(Reason::NotAllowed));
            } else {
                self.on_dialed_in_vain(core, id);
            }
        }
    }

    /// A dial takes so long that the hub had better relay. It goes on: a
    /// later request may find the connection that it leads to.
    pub(crate) fn on_reach_timer(&mut self, core: &mut Core, id: SessionId) {
        let Some(way) = self.sessions.get(&id).map(|session| session.request.way()) else { return };
        let waits = |session: &Session| session.dialling && session.request.way() == way;
        let waiting: Vec<_> = self.sessions.iter().filter(|(_, session)| waits(session)).map(|(id, _)| *id).collect();
        for id in waiting {
            core.timers.clear(Timer::Reach(id));
            self.on_dialed_in_vain(core, id);
        }
    }

    fn on_dialed_in_vain(&mut self, core: &mut Core, id: SessionId) {
        let request = self.sessions.get(&id).map(|session| &session.request);
        if let Some(request) = request.filter(|request| way_to(core, request).is_none()) {
            self.unreached.record_failure(core.now, request.requester, request.dialable());
        }
        self.on_unreached(core, id);
    }

    /// The requester of a session cannot be dialled, at least not soon.
    fn on_unreached(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (now, request) = (core.now, &session.request);
        let is_sound = session.connection.is_some_and(|connection| core.connections.is_sound(now, connection));
        if is_sound && !session.hears_nothing(core) {
            return;
        }
        if let Some(other) = way_to(core, request).filter(|way| session.connection != Some(*way)) {
            return self.join(core, id, other);
        }
        if matches!(session.phase, SessionPhase::Reaching) {
            return self.refuse(core, id, Reason::Unreachable);
        }
        if session.waits_for_connection() && !request.dialable().is_empty() {
            core.set(Timer::Accept(id), REDIAL_PAUSE);
        }
        self.leave_to_hub(core, id);
    }

    /// Tells the hub that its requests of a session have no way to the requester, so that it relays.
    fn leave_to_hub(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if !session.may_be_moved() {
            return;
        }
        // A requester that has the acceptance does not repeat its request.
        let is_open = match session.acceptance {
            AcceptanceProgress::Unsent => true,
            AcceptanceProgress::Sent => session.repeats > 0,
            AcceptanceProgress::Taken => false,
        };
        let is_of_hub = session.request.asked_by.is_some_and(|asked_by| core.is_hub(asked_by));
        let first = (is_open && is_of_hub && !session.request.relayed).then(|| session.request.clone());
        let repetition = session.latest_repetition.take().map(|repeated| *repeated);
        // The hub has forgotten one that is past its deadline.
        let is_known = |repeated: &RepeatedRequest| core.now < repeated.last + repeated.request.deadline;
        let repetition = repetition.filter(is_known).map(|repeated| repeated.request);
        for request in first.into_iter().chain(repetition) {
            session.hub_way = HubWay::Left;
            super::decline(core, &request, Reason::Unreachable, None);
        }
    }

    /// True if a session that goes on by another hub serves a request, which is to wait: one that was moved there, or a
    /// call.
    pub(super) fn goes_on_by_hub(&self, core: &mut Core, request: &ServeRequest) -> bool {
        let Some(hub) = request.asked_by.filter(|hub| core.is_hub(*hub)) else { return false };
        let asked_by = core.connections.get(hub).map(|connection| connection.node);
        let serves = |session: &Session| {
            let is_up = session.connection.is_some_and(|connection| core.connections.get(connection).is_some());
            let is_call = request.offer.service.is_call();
            let is_heard = core.now.since(session.heard) < SILENCE_TIMEOUT;
            let is_of_other = session.request.relayed && Some(session.request.key.0) != asked_by;
            // A call is run once, and whoever is silent may have lost its way.
            let goes_on = match session.hub_way {
                HubWay::Moved => is_call || is_heard,
                HubWay::Unchanged | HubWay::Left => {
                    is_call && is_of_other && (is_heard || !matches!(session.phase, SessionPhase::Fetching(_)))
                }
            };
            goes_on && session.is_for(request) && !session.is_over() && is_up
        };
        let is_served = self.sessions.values().any(serves);
        if is_served {
            let requester = Some(request.requester).filter(|_| !request.relayed);
            core.send(hub, RequestMessage::Pending { id: request.key.1, requester, provider: None });
        }
        is_served
    }

    /// A requester to which nothing comes asks under another number: its session goes on under the one before. Returns
    /// whether there is such a session.
    pub(super) fn resume_session(&mut self, core: &mut Core, request: &ServeRequest) -> bool {
        let is_same = |session: &Session| session.is_flow_of(request) && !request.relayed;
        let Some(id) = self.live_where(is_same).first().copied() else { return false };
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        session.acceptance = AcceptanceProgress::Taken;
        if !request.addresses.is_empty() {
            session.request.addresses.clone_from(&request.addresses);
        }
        let is_of_hub = request.asked_by.is_some_and(|asked_by| core.is_hub(asked_by));
        if let Some(connection) = request.asked_by.filter(|_| !is_of_hub) {
            self.resume(core, id, connection);
            return true;
        }
        let is_lost = !session.connection.is_some_and(|connection| core.connections.is_sound(core.now, connection));
        let is_out_of_reach = is_lost && self.unreached.holds(core.now, request.requester, &request.dialable());
        if is_of_hub && is_out_of_reach && !session.waits_for_requester() {
            session.hub_way = HubWay::Left;
            super::decline(core, request, Reason::Unreachable, None);
            return true;
        }
        if let Some(hub) = request.asked_by {
            let (id, requester) = (request.key.1, Some(request.requester));
            core.send(hub, RequestMessage::Pending { id, requester, provider: None });
            session.record_repetition(core.now, request);
        }
        // Whatever was under way has not come.
        session.interrupt();
        session.repeat_accept(core);
        if session.is_unheard(core) || session.hears_nothing(core) {
            self.seek(core, id);
        }
        self.pump(core);
        true
    }

    /// A hub relays for a requester that was out of sight: the session that was left to it, or that is not there yet, goes on
    /// by this way. Returns whether there is such a session.
    pub(super) fn move_to_hub(&mut self, core: &mut Core, request: &ServeRequest) -> bool {
        let Some(hub) = request.asked_by.filter(|_| request.relayed) else { return false };
        let is_moved = |session: &Session| {
            let is_there = session.hub_way == HubWay::Left || matches!(session.phase, SessionPhase::Reaching);
            session.is_of(request) && is_there
        };
        let Some(id) = self.sessions.iter().find(|(_, session)| is_moved(session)).map(|(id, _)| *id) else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        if session.waits_for_requester() {
            super::decline(core, request, Reason::Unreachable, None);
            return true;
        }
        self.index.remove(&session.request.key);
        self.index.insert(request.key, id);
        session.move_to(core, id, request, hub);
        let is_ending = session.ending;
        match &session.phase {
            SessionPhase::Reaching => self.join(core, id, hub),
            SessionPhase::Fetching(_) => self.ask_for_body(core, id),
            _ if is_ending => self.on_ended(core, id),
            _ => self.pump(core),
        }
        self.tell_pending(core, id);
        true
    }
}

impl Session {
    /// True if a request, perhaps of another number, is for what this session sends to its requester directly.
    fn is_of(&self, request: &ServeRequest) -> bool {
        let own = &self.request;
        self.is_for(request) && !own.relayed && own.reflect.is_none() && own.pushed.is_none() && !self.is_over()
    }

    /// True if nothing more is to be said of it; an answer that travelled inline may have to be repeated.
    fn is_over(&self) -> bool {
        match self.phase {
            SessionPhase::Done { reason, .. } => reason.is_some() || !self.is_inline(),
            _ => false,
        }
    }

    /// True if it may go on by way of a hub.
    fn may_be_moved(&self) -> bool {
        self.request.reflect.is_none() && self.request.pushed.is_none() && !self.waits_for_requester()
    }

    /// True if a request, perhaps of another number, is for what this session serves.
    fn is_for(&self, request: &ServeRequest) -> bool {
        let own = &self.request;
        (own.requester, own.nonce, own.spec.service) == (request.requester, request.nonce, request.spec.service)
    }

    /// True if a request is for the flow that is under way here.
    fn is_flow_of(&self, request: &ServeRequest) -> bool {
        self.is_of(request) && matches!(self.phase, SessionPhase::Streaming(_) | SessionPhase::Sending(_))
    }

    /// True for a stream that must come whole and may have come in part. Its requester alone knows the part, and does not
    /// tell it to a hub.
    fn waits_for_requester(&self) -> bool {
        let is_whole = matches!(&self.phase, SessionPhase::Streaming(stream) if stream.is_whole());
        is_whole && self.acceptance == AcceptanceProgress::Taken
    }

    /// True if its requester has not been heard for some round trips, or cannot be.
    fn is_unheard(&self, core: &Core) -> bool {
        let longest = |connection| core.pto(connection) * 3;
        self.connection.is_none_or(|connection| core.now.since(self.heard) > longest(connection))
    }

    /// Keeps a request that a hub brings, with the time since which it comes again and again.
    fn record_repetition(&mut self, now: Time, request: &ServeRequest) {
        let known = self.latest_repetition.take().filter(|known| known.request.key.1 == request.key.1);
        let first = known.map_or(now, |known| known.first);
        self.latest_repetition = Some(Box::new(RepeatedRequest { request: request.clone(), first, last: now }));
    }

    /// True if its requester, which is heard itself, goes on to ask by a hub for what was sent it directly: a requester that
    /// had the repeated acceptance would not.
    fn hears_nothing(&self, core: &Core) -> bool {
        let trips = self.connection.map_or(Duration::ZERO, |connection| core.pto(connection) * 3);
        let (longest, latest) = ((SILENCE_TIMEOUT / 2).max(trips), SILENCE_TIMEOUT.max(trips * 2));
        let is_late = |known: &RepeatedRequest| known.last.since(known.first) >= longest;
        let is_recent = |known: &RepeatedRequest| core.now.since(known.last) <= latest;
        let repeated = self.latest_repetition.as_ref().filter(|_| !self.waits_for_requester());
        repeated.is_some_and(|known| is_late(known) && is_recent(known))
    }

    /// Asks for a sign of life, and waits for it: a probe time-out, and twice as long the next time.
    fn await_sign(&mut self, core: &mut Core, id: SessionId, connection: ConnectionId) {
        core.doubt(connection);
        let wait = core.pto(connection).max(SIGN_PAUSE) * (1 << self.tries.min(SIGNS));
        core.set(Timer::Accept(id), wait);
        self.tries += 1;
    }

    /// Goes on by way of a hub, for a request of another number.
    fn move_to(&mut self, core: &mut Core, id: SessionId, request: &ServeRequest, hub: ConnectionId) {
        core.timers.clear(Timer::Reach(id));
        core.timers.clear(Timer::Accept(id));
        self.request = request.clone();
        (self.hub_way, self.dialling) = (HubWay::Moved, false);
        self.expires = self.expires.max(core.now + request.deadline);
        self.heard = core.now;
        if matches!(self.phase, SessionPhase::Reaching) {
            return core.timers.set(Timer::Expire(id), self.expires);
        }
        (self.connection, self.latest_repetition) = (Some(hub), None);
        (self.tries, self.repeats, self.confirmed) = (0, 0, false);
        self.acceptance = AcceptanceProgress::Unsent;
        self.go_on_as(core, request);
        self.repeat_accept(core);
        match self.phase {
            SessionPhase::Streaming(_) | SessionPhase::Sending(_) => self.await_requester(core, id),
            _ => core.timers.set(Timer::Expire(id), self.expires),
        }
    }

    /// Gives the flow and its acceptance the number of a request, and what that asks for.
    fn go_on_as(&mut self, core: &Core, request: &ServeRequest) {
        let flow = request.key.1;
        let has = |digest: &[u8; 32]| {
            let point = request.spec.resume.filter(|ResumePoint { digest: of, .. }| of == digest);
            point.map(|ResumePoint { offset, .. }| offset)
        };
        match &mut self.phase {
            SessionPhase::Sending(object) => object.go_on_as(flow, has(object.digest()).unwrap_or(0)),
            SessionPhase::Streaming(stream) if stream.is_whole() => stream.go_on_as(flow),
            SessionPhase::Streaming(stream) => *stream = StreamSender::new(flow, core.now),
            SessionPhase::Fetching(body) => body.asks = 0,
            _ => {}
        }
        if let Some(accept) = &mut self.accept {
            (accept.id, accept.nonce, accept.provider) = (flow, request.nonce, Some(core.node));
            match &mut accept.flow {
                FlowDescription::Object { digest, offset, inline: None, .. } => *offset = has(digest),
                FlowDescription::Object { .. } => {}
                FlowDescription::Stream { duration_ms, .. } => {
                    let duration = request.duration.unwrap_or_default();
                    *duration_ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
                }
            }
        }
    }
}
