//! Events of sessions: sources start and end, requesters report, stop, fall silent, get lost and come back.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{FlowMessage, Reason, Report, Sentence};
use roost_wire::object::MAX_HELD_BYTES;
use roost_wire::{ConnectionId, RequestId};

use super::object_scheduler::probe_path;
use super::progress::AcceptanceProgress;
use super::publications::LiveStream;
use super::session::{ObjectOffer, SessionPhase};
use crate::flow::{INLINE_BYTES, MAX_PACKET_BYTES, ObjectSender, WINDOW_BYTES};
use crate::node::api::{NodeEvent, SessionId, SourceOutput, Ticket};
use crate::node::connections::ConnectionLoss;
use crate::node::core::Core;
use crate::node::sessions::{MAX_ANSWERS, ProviderSessions};
use crate::node::timers::Timer;

/// The memory of the objects under way that are held, together, bytes. Beyond it: "busy".
const MAX_OBJECT_MEMORY: usize = 4 * MAX_HELD_BYTES;

/// The shortest pause between two dials to a requester that is silent.
const SHORTEST_REDIAL: Duration = Duration::from_secs(1);

/// The limit of acceptances that nobody confirms.
const ACCEPT_TRIES: u32 = 5;

impl ProviderSessions {
    /// The source of a session has started, or its object is here.
    pub(crate) fn on_opened(&mut self, core: &mut Core, id: SessionId, opened: SourceOutput) {
        if let SourceOutput::Reflected { bits_per_second, format, stream, epoch, secret } = opened {
            let live = LiveStream::new(core.now, bits_per_second, format, stream, epoch, secret);
            return self.published(core, id, live);
        }
        if self.publications.has(id) {
            return self.unpublish(core, id, Some(Reason::SourceFailed));
        }
        let bytes = match &opened {
            SourceOutput::Stream { .. } | SourceOutput::Stored { .. } | SourceOutput::Reflected { .. } => 0,
            SourceOutput::Object { bytes, .. } => bytes.len(),
        };
        let Some(session) = self.sessions.get(&id).filter(|s| matches!(s.phase, SessionPhase::Opening)) else { return };
        let is_stream = matches!(opened, SourceOutput::Stream { .. });
        if session.request.offer.service.is_stream() != is_stream || bytes > MAX_HELD_BYTES {
            return self.refuse(core, id, Reason::SourceFailed);
        }
        if let SourceOutput::Stream { bits_per_second, .. } = opened
            && self.decline_slow_rate(core, id, bits_per_second)
        {
            return;
        }
        if !self.make_memory(core, id, bytes) {
            core.counters.declined_busy += 1;
            return self.refuse(core, id, Reason::Busy);
        }
        self.start(core, id, opened);
    }

    /// Ends objects of others until one of so many bytes can be held. False if they keep their places.
    fn make_memory(&mut self, core: &mut Core, id: SessionId, bytes: usize) -> bool {
        let held: usize = self.under_way().map(|(_, session)| session.held_bytes()).sum();
        let excess = (held + bytes).saturating_sub(MAX_OBJECT_MEMORY) as u64;
        let Some(session) = self.sessions.get(&id).filter(|_| excess > 0) else { return true };
        let displaced = self.displaced_from_memory(core.now, &session.request, bytes as u64, excess);
        self.displace(core, &displaced);
        !displaced.is_empty()
    }

    /// Accepts with what the source gives.
    fn start(&mut self, core: &mut Core, id: SessionId, opened: SourceOutput) {
        let cell = self.cell;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        core.counters.accepted += 1;
        core.timers.clear(Timer::Expire(id));
        match opened {
            SourceOutput::Stream { bits_per_second, format } => {
                session.start_stream(core, id, cell, bits_per_second, format)
            }
            SourceOutput::Object { bytes, digest, format } if bytes.len() <= INLINE_BYTES => {
                let is_connected = session.connection.is_some();
                session.answer_inline(core, cell, bytes, digest, format);
                self.finish(core, id, None);
                if !is_connected {
                    self.seek(core, id);
                }
            }
            SourceOutput::Object { bytes, digest, format } => {
                let (length, make) = (bytes.len() as u64, |flow| ObjectSender::held(flow, bytes, digest));
                session.start_object(core, id, cell, ObjectOffer { length, digest, format }, make);
                self.pump(core);
            }
            SourceOutput::Stored { length, digest, format } => {
                let make = |flow| ObjectSender::read(flow, length, digest);
                session.start_object(core, id, cell, ObjectOffer { length, digest, format }, make);
                self.pump(core);
            }
            // `on_opened` has given it to the members of its publication.
            SourceOutput::Reflected { .. } => {}
        }
    }

    /// Gives a session back to the hub if its stream is slower than the requester admits.
    pub(super) fn decline_slow_rate(&mut self, core: &mut Core, id: SessionId, bits_per_second: u32) -> bool {
        let is_slow = self.sessions.get(&id).is_some_and(|session| !session.request.spec.admits_rate(bits_per_second));
        if is_slow {
            self.refuse(core, id, Reason::TooSlow);
        }
        is_slow
    }

    /// The source of a session gives nothing, or nothing more. `sentence` is for a requester that
    /// has no acceptance yet.
    pub(crate) fn on_open_failed(&mut self, core: &mut Core, id: SessionId, sentence: Option<Sentence>) {
        if self.publications.has(id) {
            return self.unpublish_saying(core, id, Some(Reason::SourceFailed), sentence);
        }
        match self.sessions.get(&id).map(|session| &session.phase) {
            Some(SessionPhase::Opening) => self.refuse_saying(core, id, Reason::SourceFailed, sentence),
            Some(SessionPhase::Streaming(_) | SessionPhase::Sending(_)) => {
                self.stop_requester(core, id, Reason::SourceFailed)
            }
            _ => {}
        }
    }

    /// A datagram of a session's stream. What comes while the requester is
    /// being reached again is lost, as its numbers will show, unless the stream
    /// must come whole; then its requester must keep up.
    pub(crate) fn on_payload(&mut self, core: &mut Core, id: SessionId, payload: Bytes) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let mut rest = payload;
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(MAX_PACKET_BYTES));
            session.stream(core, piece);
        }
        if matches!(&session.phase, SessionPhase::Streaming(stream) if stream.is_too_far_ahead()) {
            self.stop_requester(core, id, Reason::TimedOut);
        }
    }

    /// The source of a session's stream has ended.
    pub(crate) fn on_ended(&mut self, core: &mut Core, id: SessionId) {
        if self.publications.has(id) {
            return self.unpublish(core, id, None);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let SessionPhase::Streaming(stream) = &mut session.phase else { return };
        let is_whole = stream.is_whole();
        if session.connection.is_none() && !is_whole {
            session.ending = true;
            return;
        }
        let (end, is_done) = (stream.end(), stream.is_done());
        if let Some(end) = end {
            session.send_reliably(core, end);
        }
        // A stream that must come whole is not over before that is known.
        if is_done {
            self.finish(core, id, None);
        }
    }

    /// The requester tells what it has.
    pub(crate) fn on_report(&mut self, core: &mut Core, connection: ConnectionId, report: Report) {
        let Some(id) = self.find(core, connection, report.id) else {
            core.counters.stale += 1;
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if core.now >= session.is_doubted_at(core) && session.request.reflect.is_none() {
            // After such a silence what was under way may be lost, whatever the connection says.
            session.interrupt();
        }
        session.heard = core.now;
        (session.confirmed, session.acceptance) = (true, AcceptanceProgress::Taken);
        core.timers.clear(Timer::Accept(id));
        let (is_object, is_large) = match &session.phase {
            SessionPhase::Sending(object) => (true, object.length() > WINDOW_BYTES),
            _ => (false, false),
        };
        if session.reported(core, &report) {
            self.finish(core, id, None);
        } else if session.is_stalled(core) {
            self.stop_requester(core, id, Reason::TimedOut);
        }
        if is_large {
            probe_path(core, connection);
        }
        if is_object {
            self.pump(core);
        }
    }

    /// A message of a session was not taken, as too much waits for the requester.
    pub(crate) fn on_flow_broken(&mut self, core: &mut Core, connection: ConnectionId, id: RequestId) {
        if let Some(session) = self.find(core, connection, id) {
            self.stop_requester(core, session, Reason::TimedOut);
        }
    }

    /// The requester wants no more. Returns false if no session is meant.
    pub(crate) fn on_stop(&mut self, core: &mut Core, connection: ConnectionId, id: RequestId, reason: Reason) -> bool {
        let Some(session) = self.find(core, connection, id) else { return false };
        self.finish(core, session, Some(reason));
        true
    }

    /// An acceptance is unconfirmed, or a lost requester is to be dialled again.
    pub(crate) fn on_accept_timer(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.connection.is_some() && matches!(session.phase, SessionPhase::Fetching(_)) {
            return self.on_body_late(core, id);
        }
        let Some(connection) = session.connection else { return self.seek(core, id) };
        if session.is_inline() {
            return self.on_sign_late(core, id, connection);
        }
        if session.confirmed || session.tries >= ACCEPT_TRIES {
            return;
        }
        session.repeat_accept(core);
        session.wait_for_confirmation(core, id);
        if session.tries == core.connections.doubtful_tries(core.now, connection) && !session.request.relayed {
            self.seek(core, id);
        }
    }

    /// The requester may have fallen silent.
    pub(crate) fn on_serve_timer(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let silent_at = session.heard + session.patience(core);
        if core.now >= silent_at {
            return self.stop_requester(core, id, Reason::TimedOut);
        }
        let (doubted_at, request) = (session.is_doubted_at(core), &session.request);
        if request.relayed || request.reflect.is_some() || request.addresses.is_empty() {
            return core.timers.set(Timer::Serve(id), silent_at);
        }
        if core.now < doubted_at {
            return core.timers.set(Timer::Serve(id), doubted_at.min(silent_at));
        }
        let trips = session.connection.map_or(SHORTEST_REDIAL, |connection| core.pto(connection) * 3);
        core.timers.set(Timer::Serve(id), silent_at.min(core.now + trips.max(SHORTEST_REDIAL)));
        self.seek(core, id);
    }

    /// A connection has gone: the requester is dialled again, and the flow
    /// goes on where it was. What a hub relayed goes on while there is another connection with that hub.
    pub(crate) fn on_connection_down(&mut self, core: &mut Core, connection: ConnectionId, loss: ConnectionLoss<'_>) {
        for id in self.live_where(|session| session.connection == Some(connection)) {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.connection = None;
            session.confirmed = false;
            if loss.refused {
                self.finish(core, id, Some(Reason::NotAllowed));
                continue;
            }
            if session.request.relayed {
                self.resume_over_hub(core, id);
                continue;
            }
            session.interrupt();
            core.timers.clear(Timer::Accept(id));
            self.seek(core, id);
        }
    }

    /// The connection with the hub that relays is gone: the hub takes what comes over another one.
    fn resume_over_hub(&mut self, core: &mut Core, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (hub, transports) = (session.request.key.0, session.request.spec.transports);
        match core.connections.between(core.now, hub, transports, &[]) {
            Some(other) => {
                session.request.asked_by = Some(other);
                self.resume(core, id, other);
            }
            None => self.finish(core, id, Some(Reason::Unreachable)),
        }
    }

    /// There is a way to the requester again.
    pub(super) fn resume(&mut self, core: &mut Core, id: SessionId, connection: ConnectionId) {
        if self.sessions.get(&id).is_some_and(|session| !self.permits(core, &session.request, connection)) {
            return self.turn_away(core, id, connection);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.connection = Some(connection);
        session.tries = 0;
        session.confirmed = false;
        session.latest_repetition = None;
        session.interrupt();
        if session.accept.is_some() {
            session.repeat_accept(core);
            session.wait_for_confirmation(core, id);
        }
        if matches!(session.phase, SessionPhase::Fetching(_)) {
            return self.ask_for_body(core, id);
        }
        if session.ending {
            self.on_ended(core, id);
        }
    }

    /// A session is over: its source stops, its share of the limits is free.
    pub(super) fn finish(&mut self, core: &mut Core, id: SessionId, reason: Option<Reason>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let bytes = session.bytes();
        let opened = match session.phase {
            SessionPhase::Done { .. } => return,
            SessionPhase::Reaching | SessionPhase::Fetching(_) => false,
            SessionPhase::Opening | SessionPhase::Streaming(_) | SessionPhase::Sending(_) | SessionPhase::Member => {
                true
            }
        };
        let member = session
            .request
            .reflect
            .map(|_| (session.request.offer.service, matches!(session.phase, SessionPhase::Member)));
        let expires = session.expires;
        if !session.is_inline() {
            session.accept = None;
        }
        let unwanted = matches!(reason, Some(Reason::Cancelled | Reason::Leaving));
        let missed = opened && !session.confirmed && session.accept.is_none() && !unwanted;
        session.phase = SessionPhase::Done { bytes, reason, missed };
        let (was_stream, was_pushed) = (session.request.offer.service.is_stream(), session.request.pushed.is_some());
        self.live.remove(&id);
        self.done.insert(id);
        (session.dialling, session.latest_repetition) = (false, None);
        core.timers.clear(Timer::Reach(id));
        core.timers.clear(Timer::Accept(id));
        core.timers.clear(Timer::Serve(id));
        core.timers.set(Timer::Expire(id), expires);
        if let Some((service, could_open)) = member {
            self.member_gone(core, id, service, could_open);
        } else if was_stream {
            core.stream_freed();
        }
        if opened && !was_pushed && member.is_none() {
            core.emit(NodeEvent::CloseSource { session: id, bytes, reason });
        }
        self.forget_oldest(core);
    }

    fn forget_oldest(&mut self, core: &mut Core) {
        if self.done.len() > MAX_ANSWERS
            && let Some(oldest) = self.done.first().copied()
        {
            self.remove(core, oldest);
        }
    }

    /// Ends a session and tells the requester.
    pub(super) fn stop_requester(&mut self, core: &mut Core, id: SessionId, reason: Reason) {
        if let Some(session) = self.sessions.get(&id)
            && let SessionPhase::Streaming(_) | SessionPhase::Sending(_) | SessionPhase::Member = &session.phase
        {
            session.send_reliably(core, FlowMessage::Stop { id: session.request.key.1, reason });
        }
        self.finish(core, id, Some(reason));
    }

    /// An object that was offered is offered no longer.
    pub(crate) fn cancel_pushed(&mut self, core: &mut Core, ticket: Ticket) {
        for id in self.live_where(|session| session.request.pushed.is_some_and(|pushed| pushed.ticket == ticket)) {
            self.stop_requester(core, id, Reason::Cancelled);
        }
    }

    /// Ends everything.
    pub(crate) fn leave(&mut self, core: &mut Core) {
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.stop_requester(core, id, Reason::Leaving);
            self.remove(core, id);
        }
        for id in self.publications.ids() {
            self.unpublish(core, id, Some(Reason::Leaving));
        }
    }
}
