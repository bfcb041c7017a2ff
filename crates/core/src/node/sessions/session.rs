//! A session: one request being served.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{
    Accept, FlowDescription, FlowMessage, Hop, HopAction, HopReport, Message, Reason, Report, RequestMessage,
    STALL_TIMEOUT,
};
use roost_wire::{Cell, Channel, ConnectionId, Delivery, RequestId, Time};

use super::body_reception::BodyReception;
use super::progress::{AcceptanceProgress, HubWay, RepeatedRequest};
use super::publications::{LiveStream, MEMBER_SILENCE};
use super::serve_request::ServeRequest;
use crate::flow::{ObjectSender, SILENCE_TIMEOUT, StreamSender, usual_kbps};
use crate::node::api::SessionId;
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The longest time for which a requester may take nothing more of an object. Honest ones give up earlier.
const MAX_STALL: Duration = Duration::from_secs(60);

/// The longest time to find a requester again that is back at the end of its patience.
const REDIAL_TIME: Duration = Duration::from_secs(10);

/// Between two dials to a requester whose connection has gone.
pub(super) const REDIAL_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) request: ServeRequest,
    pub(super) phase: SessionPhase,
    /// The way to the requester; `None` while it is being reached (again).
    pub(super) connection: Option<ConnectionId>,
    /// True if a dial to the requester is under way for it.
    pub(super) dialling: bool,
    pub(super) started: Time,
    /// Time of the first way to the requester.
    pub(super) reached: Time,
    /// Uplink that the stream takes, kbit/s.
    pub(super) kbps: u32,
    pub(super) accept: Option<Accept>,
    pub(super) tries: u32,
    /// True if the requester was heard since the last change of the way to it.
    pub(super) confirmed: bool,
    pub(super) repeats: u32,
    /// The latest request of a hub, under another number, by a requester to which nothing comes.
    pub(super) latest_repetition: Option<Box<RepeatedRequest>>,
    pub(super) acceptance: AcceptanceProgress,
    pub(super) hub_way: HubWay,
    /// The end of the request's deadline.
    pub(super) expires: Time,
    pub(super) heard: Time,
    /// Time at which the requester was found to have more of the flow.
    pub(super) moved: Time,
    /// The source has ended but the end could not be sent yet.
    pub(super) ending: bool,
}

/// An object that a session accepts with.
#[derive(Debug)]
pub(super) struct ObjectOffer {
    pub(super) length: u64,
    pub(super) digest: [u8; 32],
    pub(super) format: String,
}

#[derive(Debug)]
pub(super) enum SessionPhase {
    /// The requester is being dialled.
    Reaching,
    /// The body of a call is on its way.
    Fetching(BodyReception),
    /// The source is being started.
    Opening,
    /// A stream is under way.
    Streaming(StreamSender),
    /// An object is under way.
    Sending(ObjectSender),
    /// The requester has what opens a reflected stream.
    Member,
    /// Kept so that a repetition is recognised.
    Done {
        /// Payload bytes sent.
        bytes: u64,
        reason: Option<Reason>,
        /// The requester never heard of it.
        missed: bool,
    },
}

impl Session {
    pub(super) fn new(request: ServeRequest, now: Time) -> Self {
        let (kbps, deadline) = (usual_kbps(request.offer.flow_kind()), request.deadline);
        Self {
            request,
            phase: SessionPhase::Reaching,
            connection: None,
            dialling: false,
            started: now,
            reached: now,
            kbps,
            accept: None,
            tries: 0,
            confirmed: false,
            repeats: 0,
            latest_repetition: None,
            acceptance: AcceptanceProgress::Unsent,
            hub_way: HubWay::Unchanged,
            expires: now + deadline,
            heard: now,
            moved: now,
            ending: false,
        }
    }

    /// The longest silence of the requester.
    pub(super) fn patience(&self, core: &Core) -> Duration {
        // Over a long path a requester has more patience, too.
        let patience = self.at_its_pace(core, STALL_TIMEOUT) + REDIAL_TIME;
        if self.request.reflect.is_some() { MEMBER_SILENCE } else { patience }
    }

    fn at_its_pace(&self, core: &Core, usual: Duration) -> Duration {
        self.connection.map_or(usual, |connection| core.scaled_timeout(connection, usual))
    }

    /// Time at which its requester is dialled anew: after half of the time in which others may take its
    /// place, but not before an answer can have come on a long path.
    pub(super) fn is_doubted_at(&self, core: &Core) -> Time {
        let trips = self.connection.map_or(Duration::ZERO, |connection| core.pto(connection) * 3);
        self.heard + (SILENCE_TIMEOUT / 2).max(trips)
    }

    /// True if its requester has been silent for so long that another one may have its place.
    pub(super) fn gives_way(&self, core: &Core) -> bool {
        let is_under_way = matches!(self.phase, SessionPhase::Streaming(_) | SessionPhase::Sending(_));
        let trips = self.connection.map_or(Duration::ZERO, |connection| core.pto(connection) * 3);
        is_under_way && core.now.since(self.heard) >= SILENCE_TIMEOUT.max(trips)
    }

    pub(super) fn waits_for_connection(&self) -> bool {
        self.connection.is_none() && !matches!(self.phase, SessionPhase::Done { .. })
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.phase {
            SessionPhase::Reaching | SessionPhase::Fetching(_) | SessionPhase::Opening | SessionPhase::Member => 0,
            SessionPhase::Streaming(stream) => stream.bytes(),
            SessionPhase::Sending(object) => object.delivered(),
            SessionPhase::Done { bytes, .. } => *bytes,
        }
    }

    /// Sends a message of the flow to the requester, exactly once and in order.
    pub(super) fn send_reliably(&self, core: &mut Core, message: impl Into<Message>) {
        self.send_over(core, Channel::Reliable { flow: self.request.key.1.0 }, message.into());
    }

    /// Sends a datagram of its stream, reliably if that must come whole.
    fn send_packet(&self, core: &mut Core, message: FlowMessage) {
        match &self.phase {
            SessionPhase::Streaming(stream) if stream.is_whole() => self.send_reliably(core, message),
            _ => self.send_over(core, Channel::Datagram, message.into()),
        }
    }

    fn send_over(&self, core: &mut Core, channel: Channel, message: Message) {
        if let Some(connection) = self.connection {
            core.transmit(
                connection,
                channel,
                Delivery::for_request(self.request.offer.service, self.request.terms),
                message,
            );
        }
    }

    /// Sends the acceptance, if there is one and a way.
    pub(super) fn send_accept(&mut self, core: &mut Core) {
        if let (Some(accept), Some(connection)) = (&self.accept, self.connection) {
            self.acceptance = self.acceptance.max(AcceptanceProgress::Sent);
            core.send(connection, RequestMessage::Accept(accept.clone()));
        }
    }

    /// Sends it once more; the path has shown that it loses, so reliably.
    pub(super) fn repeat_accept(&mut self, core: &mut Core) {
        if let Some(accept) = &self.accept {
            if self.connection.is_some() {
                self.acceptance = self.acceptance.max(AcceptanceProgress::Sent);
            }
            self.send_reliably(core, RequestMessage::Accept(accept.clone()));
        }
    }

    /// True if the object travels in the acceptance.
    pub(super) fn is_inline(&self) -> bool {
        let is_inline = |accept: &Accept| matches!(&accept.flow, FlowDescription::Object { inline: Some(_), .. });
        self.accept.as_ref().is_some_and(is_inline)
    }

    /// An answer that travelled inline goes over a new way to the requester.
    pub(super) fn answers_over(&mut self, core: &mut Core, connection: ConnectionId) {
        if self.is_inline() {
            self.connection = Some(connection);
            self.repeat_accept(core);
        }
    }

    /// True if the session has ended without the requester's knowledge.
    pub(super) fn was_missed(&self) -> bool {
        matches!(self.phase, SessionPhase::Done { missed: true, .. })
    }

    /// True for a stream whose place went to another one without the requester's knowledge.
    pub(super) fn has_given_way(&self) -> bool {
        let gave_way = matches!(self.phase, SessionPhase::Done { missed: true, reason: Some(Reason::Busy), .. });
        gave_way && self.request.offer.service.is_stream()
    }

    /// Memory that the object under way takes as long as it is, bytes.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.phase {
            SessionPhase::Sending(object) => object.held_bytes(),
            _ => 0,
        }
    }

    /// Sends a piece of its stream.
    pub(super) fn stream(&mut self, core: &mut Core, payload: Bytes) {
        let SessionPhase::Streaming(stream) = &mut self.phase else { return };
        if let Some(message) = stream.packet(core.now, payload) {
            self.send_packet(core, message);
        }
    }

    /// The requester has so much. True if it is everything.
    pub(super) fn reported(&mut self, core: &mut Core, report: &Report) -> bool {
        let rtt = self.connection.and_then(|connection| core.connections.get(connection));
        let rtt = rtt.map(|connection| connection.rtt.smoothed()).unwrap_or_default();
        let (again, has_more, is_done) = match &mut self.phase {
            SessionPhase::Sending(object) => {
                let before = object.delivered();
                object.report(core.now, rtt, report.bytes);
                (Vec::new(), object.delivered() > before, object.is_done())
            }
            SessionPhase::Streaming(stream) => {
                let has_more = stream.advance(report.packets);
                let is_whole = stream.is_whole() && self.connection.is_some();
                let again = if is_whole { stream.report(report.packets) } else { Vec::new() };
                (again, has_more, is_whole && stream.is_done())
            }
            _ => (Vec::new(), false, false),
        };
        if has_more {
            (self.moved, self.latest_repetition) = (core.now, None);
        }
        again.into_iter().for_each(|message| self.send_reliably(core, message));
        is_done
    }

    /// True if the requester takes no more of an object, however much it says.
    pub(super) fn is_stalled(&self, core: &Core) -> bool {
        let longest = self.at_its_pace(core, MAX_STALL);
        matches!(self.phase, SessionPhase::Sending(_)) && core.now.since(self.moved) > longest
    }

    /// The way to the requester has changed: what was under way may be lost.
    pub(super) fn interrupt(&mut self) {
        match &mut self.phase {
            SessionPhase::Sending(object) => object.interrupt(),
            SessionPhase::Streaming(stream) => stream.interrupt(),
            _ => {}
        }
    }
}

impl Session {
    /// Tells a requester that traces its request how it is served, ahead of the
    /// acceptance.
    fn report(&self, core: &mut Core) {
        let Some(connection) = self.connection.filter(|_| self.request.spec.trace) else { return };
        let micros = |at: Time| u32::try_from(at.since(self.started).as_micros()).unwrap_or(u32::MAX);
        let hop = Hop {
            node: core.node,
            index: 1,
            tier: None,
            step: if self.reached > self.started { HopAction::Dialed } else { HopAction::ReusedConnection },
            reason: None,
            elapsed_us: micros(core.now),
            other: None,
            name: None,
            round_trip_us: None,
            connected_us: Some(micros(self.reached)),
        };
        core.send(connection, RequestMessage::HopReport(HopReport { id: self.request.key.1, requester: None, hop }));
    }

    pub(super) fn start_stream(
        &mut self,
        core: &mut Core,
        id: SessionId,
        cell: Cell,
        bits_per_second: u32,
        format: String,
    ) {
        self.kbps = bits_per_second.div_ceil(1000);
        self.accept = Some(self.new_accept(core, cell, self.stream_description(bits_per_second, format)));
        let is_whole = self.request.terms.is_whole();
        let make = if is_whole { StreamSender::reliable } else { StreamSender::new };
        self.phase = SessionPhase::Streaming(make(self.request.key.1, core.now));
        self.report(core);
        if is_whole {
            // Ahead of the datagrams on their own flow.
            self.repeat_accept(core);
        } else {
            self.send_accept(core);
        }
        self.await_requester(core, id);
    }

    /// Accepts with a stream that is reflected.
    pub(super) fn start_member(&mut self, core: &mut Core, id: SessionId, cell: Cell, live: &LiveStream) {
        self.set_stream_keys(core, cell, live);
        self.phase = SessionPhase::Member;
        self.report(core);
        self.send_accept(core);
        self.await_requester(core, id);
    }

    /// Has the acceptance, whenever it is sent, say what opens the stream now.
    pub(super) fn set_stream_keys(&mut self, core: &Core, cell: Cell, live: &LiveStream) {
        let flow = self.stream_description(live.bits_per_second, live.format.clone());
        let (stream_keys, provider) = (Some(live.keys(core.now)), None);
        self.accept = Some(Accept { stream_keys, provider, ..self.new_accept(core, cell, flow) });
    }

    fn stream_description(&self, bits_per_second: u32, format: String) -> FlowDescription {
        let duration = self.request.duration.unwrap_or_default();
        let duration_ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        FlowDescription::Stream { duration_ms, bits_per_second, format }
    }

    /// Accepts with an object of `length` bytes; `make` makes its sender.
    pub(super) fn start_object(
        &mut self,
        core: &mut Core,
        id: SessionId,
        cell: Cell,
        ObjectOffer { length, digest, format }: ObjectOffer,
        make: impl FnOnce(RequestId) -> ObjectSender,
    ) {
        let resume = self.request.spec.resume.filter(|has| has.digest == digest && has.offset <= length);
        let offset = resume.map(|has| has.offset);
        let flow = FlowDescription::Object { bytes: length, digest, format, inline: None, offset };
        let accept = self.new_accept(core, cell, flow);
        self.report(core);
        // Ahead of the chunks on their own flow, so that they cannot overtake it.
        self.accept = Some(accept);
        self.repeat_accept(core);
        self.phase = SessionPhase::Sending(make(self.request.key.1).starting_at(offset.unwrap_or(0)));
        self.await_requester(core, id);
    }

    pub(super) fn answer_inline(
        &mut self,
        core: &mut Core,
        cell: Cell,
        object: Bytes,
        digest: [u8; 32],
        format: String,
    ) {
        let flow =
            FlowDescription::Object { bytes: object.len() as u64, digest, format, inline: Some(object), offset: None };
        self.accept = Some(self.new_accept(core, cell, flow));
        self.repeats = 0;
        self.report(core);
        self.send_accept(core);
    }

    fn new_accept(&self, core: &Core, cell: Cell, flow: FlowDescription) -> Accept {
        let provider = Some(core.node).filter(|_| self.request.relayed);
        Accept { id: self.request.key.1, nonce: self.request.nonce, flow, cell, provider, stream_keys: None }
    }

    pub(super) fn await_requester(&mut self, core: &mut Core, id: SessionId) {
        (self.heard, self.moved, self.repeats) = (core.now, core.now, 0);
        core.set(Timer::Serve(id), self.patience(core));
        self.wait_for_confirmation(core, id);
    }

    /// Arms the repetition of the acceptance: a probe time-out, doubled each time.
    pub(super) fn wait_for_confirmation(&mut self, core: &mut Core, id: SessionId) {
        if let Some(connection) = self.connection {
            let wait = core.pto(connection) * (1 << self.tries.min(6));
            core.set(Timer::Accept(id), wait);
            self.tries += 1;
        }
    }
}
