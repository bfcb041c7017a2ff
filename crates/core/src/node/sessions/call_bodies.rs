//! The bodies of calls. A provider that has a call asks its requester for the body, over the connection over which it
//! will answer, and opens its source once the body is whole.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::ConnectionId;
use roost_wire::messages::{BodyRequest, Chunk, Reason, RequestMessage, ServiceRequest};

use super::ProviderSessions;
use super::body_reception::BodyReception;
use super::session::{Session, SessionPhase};
use crate::flow::{BodyReceiver, BodyState, MAX_BODY_TIMES};
use crate::node::api::{NodeEvent, SessionId};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The shortest pause before a body is asked for again. What is under way comes once its connection has repeated it.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// The times that a body is asked for while nothing of it comes, with pauses twice as long each time: 15 s at least.
const ASKS: u32 = 4;

/// All questions while nothing of it comes, also those over new connections.
const MAX_QUESTIONS: u32 = ASKS + MAX_BODY_TIMES as u32;

impl ProviderSessions {
    /// Asks the requester of a call for the body.
    pub(super) fn fetch_body(&mut self, core: &mut Core, id: SessionId) {
        let run = core.random.next_u64();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let receiver = BodyReceiver::new(session.request.key.1, session.request.spec.body);
        session.phase =
            SessionPhase::Fetching(BodyReception { receiver, run, asks: 0, questions: 0, pause: SHORTEST_PAUSE });
        self.ask_for_body(core, id);
    }

    /// Asks for what is missing, and again unless it comes, over whichever connections.
    pub(super) fn ask_for_body(&mut self, core: &mut Core, id: SessionId) {
        let cell = self.cell;
        let Some(Session { request, phase: SessionPhase::Fetching(body), connection: Some(connection), .. }) =
            self.sessions.get_mut(&id)
        else {
            return;
        };
        if body.asks >= ASKS || body.questions >= MAX_QUESTIONS {
            // The hub may relay where the two do not reach each other, and does not blame this provider.
            return self.refuse(core, id, Reason::Unreachable);
        }
        let (key, nonce, connection) = (request.key, request.nonce, *connection);
        // A body is shorter than that.
        let offset = u32::try_from(body.receiver.received()).unwrap_or(u32::MAX);
        let provider = Some(core.node).filter(|_| request.relayed);
        let asked = BodyRequest { id: key.1, nonce, run: body.run, offset, cell, provider };
        core.send_reliably(connection, key.1, RequestMessage::BodyRequest(asked));
        let pause = SHORTEST_PAUSE.max(core.pto(connection) * 4);
        core.set(Timer::Accept(id), pause * (1 << body.asks));
        body.pause = pause;
        body.questions += 1;
    }

    /// Nothing of a body has come for a while.
    pub(super) fn on_body_late(&mut self, core: &mut Core, id: SessionId) {
        let Some(Session { request, phase: SessionPhase::Fetching(body), .. }) = self.sessions.get_mut(&id) else {
            return;
        };
        body.asks += 1;
        // The connection may be dead without a word.
        let is_doubted = !request.relayed;
        self.ask_for_body(core, id);
        if is_doubted {
            self.seek(core, id);
        }
    }

    /// A piece of a body has come.
    pub(crate) fn on_body(&mut self, core: &mut Core, connection: ConnectionId, chunk: Chunk) {
        let Some(id) = self.find(core, connection, chunk.id) else {
            core.counters.stale += 1;
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let SessionPhase::Fetching(body) = &mut session.phase else {
            core.counters.stale += 1;
            return;
        };
        let before = body.receiver.received();
        let state = body.receiver.add(chunk);
        if body.receiver.received() > before {
            (body.asks, body.questions) = (0, body.questions.min(1));
            (session.heard, session.repeats) = (core.now, 0);
            core.set(Timer::Accept(id), body.pause);
        }
        match state {
            BodyState::Partial => {}
            BodyState::Wrong => self.refuse(core, id, Reason::WrongBody),
            BodyState::Whole(body) => {
                core.timers.clear(Timer::Accept(id));
                self.open_source(core, id, body);
            }
        }
    }

    /// Has the owner start the source of a session.
    pub(super) fn open_source(&mut self, core: &mut Core, id: SessionId, body: Bytes) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.phase = SessionPhase::Opening;
        let request = &session.request;
        let (service, duration, requester) = (request.offer.service, request.duration, request.requester);
        let request = Box::new(ServiceRequest { service, duration, ..ServiceRequest::clone(&request.spec) });
        core.emit(NodeEvent::OpenSource { session: id, request, requester, body, reflected: false });
    }
}
