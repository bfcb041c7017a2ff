//! The requester's end of a flow: what has come, what is said in return, how it went.

mod summary;

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{
    Chunk, Datagram, FlowDescription, FlowMessage, Reason, ResumePoint, ServiceRequest, StreamKeys,
};
use roost_wire::{Cell, ConnectionId, NodeId, Profile, RequestId, Scheme, Time};

use super::flow_receiver::FlowReceiver;
use super::pace::Pace;
use super::subscription::Subscription;
use crate::flow::{PROGRESS_BYTES, REPORT_BYTES, SILENCE_TIMEOUT, STRAGGLERS, StreamReceiver, StreamStatistics};
use crate::node::core::Core;
use crate::node::timers::Timer;

/// A pause of a stream that counts as an interruption.
const GAP: Duration = Duration::from_secs(2);

/// The time of a provider to come back over another connection before it is asked to.
const RETURN: Duration = Duration::from_secs(1);

/// The requester's end of a flow.
#[derive(Debug)]
pub(super) struct IncomingFlow {
    pub(super) connection: ConnectionId,
    pub(super) provider: NodeId,
    cell: Cell,
    scheme: Scheme,
    pub(super) relayed: bool,
    flow: FlowReceiver,
    /// Time at which a stream has gone on for too long.
    pub(super) until: Option<Time>,
    /// End of a stream that goes on after an outage: its provider was asked for the rest before it was
    /// known how long that would last.
    over_at: Option<Time>,
    /// True if its provider keeps what has not been reported.
    pub(super) is_kept: bool,
    /// The payload bytes of a stream that were reported last.
    reported: u64,
    /// Why the connection over which it came has gone, until there is another.
    broken: Option<String>,
    began: Time,
    pub(super) heard: Time,
    /// Longest silence before it is doubted.
    silence: Duration,
    first: Option<Time>,
    last: Time,
    /// Time at which an object came further, or its reader did.
    moved: Time,
    /// The bytes that had come then.
    moved_at: u64,
    /// The longest time without progress.
    patience: Duration,
    /// Since when it has no way.
    pub(super) lost: Option<Time>,
    /// The questions to a silent provider; `None` once it is heard.
    pub(super) question: Option<ProviderProbe>,
    /// True once the provider has given its place to another requester. Late data changes nothing of that.
    displaced: bool,
    /// The counts of the providers before this one.
    past: StreamStatistics,
    /// Of the provider before: nobody has numbered what that would have sent until this one's first packet.
    pace: Option<Pace>,
    /// The interruptions of a stream, and their sum.
    gaps: (u32, Duration),
}

/// The questions to a provider that has fallen silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProviderProbe {
    /// Time of the first one.
    pub(super) since: Time,
    /// Time of the next one.
    pub(super) next: Time,
    pub(super) tries: u32,
}

/// The provider of an acceptance, and the way of that.
#[derive(Clone, Debug)]
pub(super) struct FlowOrigin {
    pub(super) provider: NodeId,
    pub(super) relayed: bool,
    pub(super) scheme: Scheme,
    /// The keys of the stream, if it is reflected.
    pub(super) reflected: Option<StreamKeys>,
}

impl IncomingFlow {
    /// A flow that is accepted now and has not begun to come.
    pub(super) fn new(
        now: Time,
        connection: ConnectionId,
        id: RequestId,
        origin: FlowOrigin,
        cell: Cell,
        description: &FlowDescription,
        request: &ServiceRequest,
    ) -> Self {
        let FlowOrigin { provider, relayed, scheme, reflected } = origin;
        let (profile, patience) = (request.profile, request.patience());
        let flow = FlowReceiver::new(id, description, reflected.as_ref(), profile);
        Self {
            connection,
            provider,
            cell,
            scheme,
            relayed,
            flow,
            until: None,
            over_at: None,
            is_kept: profile.is_some_and(Profile::is_whole),
            reported: 0,
            broken: None,
            began: now,
            heard: now,
            silence: SILENCE_TIMEOUT,
            first: None,
            last: now,
            moved: now,
            moved_at: 0,
            patience,
            lost: None,
            question: None,
            displaced: false,
            past: StreamStatistics::default(),
            pace: None,
            gaps: (0, Duration::ZERO),
        }
    }

    /// A path that is long is silent for long: what was lost comes again after a time-out of
    /// several round trips, and through a hub the way is as long again.
    pub(super) fn measure(&mut self, core: &Core) {
        self.silence = SILENCE_TIMEOUT.max(core.pto(self.connection) * 3);
    }

    /// Goes on with what another flow has brought. An object is the same one, see
    /// [`Self::may_go_on_with`].
    pub(super) fn go_on_from(&mut self, id: RequestId, before: Self, ends: Option<Time>) {
        self.over_at = ends.filter(|_| matches!(self.flow, FlowReceiver::Stream(_)) && !self.is_kept);
        self.past = before.counted();
        self.pace = before.pace.or_else(|| before.measured_pace());
        (self.first, self.last, self.gaps) = (before.first, before.last, before.gaps);
        (self.moved, self.moved_at) = (before.moved, before.moved_at);
        match (&mut self.flow, before.flow) {
            (FlowReceiver::Object(object), FlowReceiver::Object(before)) => *object = before.going_on_as(id),
            // The provider numbers on, and repeats what was not reported.
            (FlowReceiver::Stream(stream), FlowReceiver::Stream(same)) if self.is_kept && same.is_of(id) => {
                (*stream, self.past, self.pace) = (same, before.past, None);
                (self.began, self.reported) = (before.began, before.reported);
            }
            _ => {}
        }
    }

    /// True if a provider that offers this may go on with it.
    pub(super) fn may_go_on_with(&self, flow: &FlowDescription) -> bool {
        self.flow.may_go_on_with(flow)
    }

    /// The part of an object that is here.
    pub(super) fn has(&self) -> Option<ResumePoint> {
        self.flow.resume_point()
    }

    /// The provider has given its place to another requester, and has none for it yet.
    pub(super) fn mark_displaced(&mut self) {
        self.displaced = true;
    }

    /// The flow has no way any more, and its provider does not come back.
    pub(super) fn mark_lost(&mut self) {
        self.lost = Some(Time::ZERO);
    }

    /// Time at which its provider is asked again.
    pub(super) fn is_doubted_at(&self) -> Time {
        match self.lost {
            Some(since) => since + RETURN,
            None if self.waits_for_reader() => self.gives_up_at(),
            None => self.heard + self.silence,
        }
    }

    /// True if it has been silent for so long that it is asked for again.
    pub(super) fn is_doubted(&self, now: Time) -> bool {
        self.may_be_resumed() && now >= self.is_doubted_at()
    }

    /// Why it ends when it comes no further.
    pub(super) fn why_it_ends(&self) -> Reason {
        match &self.flow {
            _ if self.displaced => Reason::Busy,
            FlowReceiver::Object(_) if self.waits_for_reader() => Reason::Cancelled,
            _ => Reason::TimedOut,
        }
    }

    /// True if its reader has so much to take that its provider may have been told to wait.
    pub(super) fn waits_for_reader(&self) -> bool {
        self.flow.waits_for_reader()
    }

    /// The provider repeats its acceptance: over a new connection, or because
    /// it has not heard of us.
    pub(super) fn on_accept_repeated(&mut self, core: &mut Core, id: RequestId, connection: ConnectionId) {
        self.connection = connection;
        self.measure(core);
        self.record_heard(core.now);
        core.send_reliably(connection, id, self.flow.report(id));
    }

    /// True if what comes over `connection` may belong to it.
    pub(super) fn may_come_over(&self, core: &Core, connection: ConnectionId) -> bool {
        let Some(entry) = core.connections.get(connection) else { return false };
        if self.relayed { connection == self.connection } else { entry.node == self.provider }
    }

    /// The provider has said something.
    pub(super) fn record_heard(&mut self, now: Time) {
        self.heard = now;
        (self.broken, self.lost, self.question) = (None, None, None);
    }

    /// The connection over which it comes has gone.
    pub(super) fn record_way_lost(&mut self, now: Time, reason: &str) {
        self.broken = Some(reason.to_owned());
        self.lost = Some(now);
    }

    /// Takes a datagram of a stream; returns what is new in it.
    pub(super) fn packet(&mut self, core: &mut Core, packet: Datagram) -> Option<Bytes> {
        let id = packet.id;
        let FlowReceiver::Stream(stream) = &mut self.flow else { return None };
        let sequence = packet.sequence;
        let fresh = stream.packet(core.now, packet)?;
        self.count_unsent(core.now, sequence);
        self.note_data(core.now);
        self.report_kept(core, id);
        Some(fresh)
    }

    /// Tells who keeps what was not reported that much of it has come, or all.
    fn report_kept(&mut self, core: &mut Core, id: RequestId) {
        let FlowReceiver::Stream(stream) = &self.flow else { return };
        let bytes = stream.statistics().bytes;
        if self.is_kept && (bytes - self.reported >= REPORT_BYTES || stream.has_everything()) {
            self.reported = bytes;
            core.send_reliably(self.connection, id, FlowMessage::Report(stream.report()));
        }
    }

    /// True if a stream's provider numbers its datagrams, or counts them, beyond what can have been sent.
    pub(super) fn is_incredible(&self, now: Time, datagrams: u64) -> bool {
        matches!(self.flow, FlowReceiver::Stream(_)) && StreamReceiver::is_incredible(now.since(self.began), datagrams)
    }

    /// True if a piece of an object is beyond all credit.
    pub(super) fn is_overdrawn(&self, chunk: &Chunk) -> bool {
        matches!(&self.flow, FlowReceiver::Object(object) if object.exceeds_credit(chunk))
    }

    /// Takes a piece of an object; returns what is new in it.
    pub(super) fn chunk(&mut self, now: Time, chunk: Chunk) -> Option<Bytes> {
        let FlowReceiver::Object(object) = &mut self.flow else { return None };
        let fresh = object.chunk(chunk);
        if fresh.is_some() {
            self.note_data(now);
        }
        fresh
    }

    /// Tells the provider that nothing of an object is missing. The other reports follow what the reader takes.
    pub(super) fn confirm_object(&mut self, core: &mut Core, id: RequestId) {
        if matches!(&self.flow, FlowReceiver::Object(object) if object.has_everything()) {
            core.send_reliably(self.connection, id, self.flow.report(id));
        }
    }

    /// The reader has taken so many bytes more of an object.
    pub(super) fn record_read(&mut self, core: &mut Core, id: RequestId, bytes: u64) {
        let was_awaited = self.waits_for_reader();
        let FlowReceiver::Object(object) = &mut self.flow else { return };
        object.read(bytes);
        // A reader that waits for the next byte makes no progress by reading it.
        if was_awaited {
            (self.moved, self.moved_at) = (core.now, object.bytes());
        }
        if object.wants_report() {
            let report = FlowMessage::Report(object.report());
            core.send_reliably(self.connection, id, report);
        }
    }

    /// The provider says how much there was; stragglers still have some time.
    pub(super) fn end(&mut self, core: &mut Core, id: RequestId, packets: u64, bytes: u64, digest: [u8; 32]) {
        match &mut self.flow {
            FlowReceiver::Stream(stream) => {
                stream.end(packets, bytes, digest);
                core.set(Timer::Receive(id), STRAGGLERS);
                self.report_kept(core, id);
            }
            FlowReceiver::Reflected(subscription) => subscription.ended = true,
            FlowReceiver::Object(_) => {}
        }
    }

    /// The reflected stream, if it is one.
    pub(super) fn subscription(&mut self) -> Option<&mut Subscription> {
        self.flow.subscription()
    }

    /// True if its packets come another way.
    pub(super) fn is_reflected(&self) -> bool {
        matches!(self.flow, FlowReceiver::Reflected(_))
    }

    /// True if the connection over which it comes has gone.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The provider's position when it accepted.
    pub(super) fn cell(&self) -> Cell {
        self.cell
    }

    /// Keeps the provider going: a stream while it lasts, a slow object as long
    /// as it makes progress, or its reader may.
    pub(super) fn report(&mut self, core: &mut Core, id: RequestId) {
        let is_credit = match &self.flow {
            FlowReceiver::Stream(_) => false,
            FlowReceiver::Object(object) => object.has_news() || object.is_ahead() || object.has_everything(),
            FlowReceiver::Reflected(_) => true,
        };
        let report = self.flow.report(id);
        if is_credit {
            core.send_reliably(self.connection, id, report);
        } else {
            // The provider is to know that somebody waits for it.
            core.send(self.connection, report);
        }
    }

    /// Time at which a stream is given up unless it is heard, and an object unless there is more of it or its
    /// reader takes more.
    pub(super) fn gives_up_at(&self) -> Time {
        match &self.flow {
            // Of one whose packets come another way the owner knows.
            FlowReceiver::Stream(_) | FlowReceiver::Reflected(_) => self.heard.max(self.last) + self.patience,
            FlowReceiver::Object(_) => self.moved + self.patience,
        }
    }

    /// The first packet of another provider: what the one before would have sent meanwhile is missing.
    fn count_unsent(&mut self, now: Time, sequence: u64) {
        let Some(pace) = self.pace.take() else { return };
        // This one counts those before its own first, which was due as well.
        let unsent = pace.within(now.since(self.last)).saturating_sub(sequence.saturating_add(1));
        self.past.lost = self.past.lost.saturating_add(unsent);
    }

    fn note_data(&mut self, now: Time) {
        let pause = now.since(self.last);
        if self.first.is_some() && pause >= GAP && !matches!(self.flow, FlowReceiver::Object(_)) {
            self.gaps = (self.gaps.0 + 1, self.gaps.1 + pause);
        }
        self.first.get_or_insert(now);
        self.last = now;
        // A byte now and then is no progress.
        let bytes = self.bytes();
        if bytes >= self.moved_at + PROGRESS_BYTES || self.is_whole() {
            (self.moved, self.moved_at) = (now, bytes);
        }
    }

    /// True if any payload has come.
    pub(super) fn has_begun(&self) -> bool {
        self.first.is_some() || self.is_reflected()
    }

    /// True if a stream has gone on for too long.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Time at which it is to be over, if it is one that goes on.
    pub(super) fn over_at(&self) -> Option<Time> {
        self.over_at
    }

    /// True if a stream's end was announced.
    pub(super) fn has_ended(&self) -> bool {
        self.flow.has_ended()
    }

    /// True if nothing is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.flow.is_whole()
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.flow {
            FlowReceiver::Stream(_) => self.counted().bytes,
            FlowReceiver::Object(object) => object.bytes(),
            FlowReceiver::Reflected(_) => 0,
        }
    }
}
