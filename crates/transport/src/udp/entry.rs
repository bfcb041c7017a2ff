//! A session of an endpoint: its DTLS state, phase and counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rand;
use dimpl::{Dtls, Output};
use roost_wire::{NodeId, Scheme};

use super::SEAL_BYTES;
use super::datagram_queue::{DatagramQueue, Route};
use super::endpoint::{SessionSlot, UdpEndpoint};
use super::established::refused;
use super::handshake::{ConnectedAction, Handshake, PendingDial};
use super::hello::UdpSessionId;
use super::migration::MigrationState;
use super::session::{Packet, RemoteSilent, Session, write_ready, write_reset_token};
use crate::connection::{ConnectionIdentity, VerifiedRemote, seen_at};
use crate::counters::LiveSchemeCounters;
use crate::dial::TOO_LATE;
use crate::event::Event;
use crate::stateless_reset::reset_token;
use crate::transport::Context;

/// dimpl returns a deadline even when it has nothing to do. One further away than this means none.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes sent to a host that has not proved its address, for each byte received from it, as in QUIC (RFC 9000, section
/// 8.1).
const UNPROVED_SHARE: u64 = 3;
/// The close code for an end without a refusal.
pub(super) const NO_REFUSAL: u8 = 0;

/// A session in any of its phases.
pub(super) struct Entry {
    pub(super) slot: SessionSlot,
    pub(super) route: Route,
    pub(super) dtls: Dtls,
    pub(super) dtls_deadline: Option<Instant>,
    pub(super) session: Session,
    pub(super) phase: DtlsPhase,
    /// The entry for this session in the endpoint's timer table.
    pub(super) timer: Option<Instant>,
    /// True if an acknowledgement may allow packets to leave.
    pub(super) stirred: bool,
    /// True if the remote began the handshake, which then counts against the limit on handshakes.
    pub(super) is_incoming: bool,
    pub(super) migration: MigrationState,
    /// Plain bytes to put before the next datagram.
    head: Vec<u8>,
    /// Output of dimpl that arrived while a packet was sealed.
    pub(super) late: VecDeque<DeferredOutput>,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) messages_sent: u64,
    pub(super) messages_received: u64,
}

/// Output of dimpl that is kept until it may be handled.
pub(super) enum DeferredOutput {
    Certificate(Vec<u8>),
    Connected,
    Plain(Vec<u8>),
    Closed,
}

impl DeferredOutput {
    /// `None` for output that is handled at once.
    fn from_output(output: &Output<'_>) -> Option<Self> {
        match output {
            Output::PeerCert(der) => Some(Self::Certificate(der.to_vec())),
            Output::Connected => Some(Self::Connected),
            Output::ApplicationData(plain) => Some(Self::Plain(plain.to_vec())),
            Output::CloseNotify => Some(Self::Closed),
            _ => None,
        }
    }
}

pub(super) enum DtlsPhase {
    Handshake(Box<Handshake>),
    Up(Box<ConnectionIdentity>),
    /// Waits until the remote has everything, then sends the farewell.
    Draining {
        reason: String,
        until: Instant,
    },
    /// Repeats the farewell when necessary, until it is removed.
    Closed {
        farewell: Vec<u8>,
        left: u8,
        until: Instant,
    },
    Gone,
}

/// The environment in which a session works.
pub(super) struct SessionContext<'a> {
    pub(super) now: Instant,
    pub(super) context: &'a Context,
    pub(super) endpoint: &'a Arc<UdpEndpoint>,
    pub(super) live: &'a LiveSchemeCounters,
    pub(super) outbox: &'a mut DatagramQueue,
    pub(super) events: &'a mut Vec<Event>,
    /// The buffer in which packets are built before they are sealed.
    pub(super) plain: &'a mut Vec<u8>,
    /// The buffer into which dimpl writes its output.
    pub(super) sealed: &'a mut Vec<u8>,
}

/// The way in which a datagram is added to the outbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DatagramPacking {
    Alone,
    /// Together with other records for the same host.
    Shared,
}

/// The change of a session that its endpoint must act on.
pub(super) enum SessionChange {
    Same,
    /// The handshake is over. The endpoint must file the session under its address and announce it.
    Established {
        dial: Option<PendingDial>,
        /// The first packet, if it is not just [`Packet::Ready`].
        early: Option<Vec<u8>>,
    },
}

impl Entry {
    /// The node at the other end, while the session is up.
    pub(super) fn node(&self) -> Option<NodeId> {
        match &self.phase {
            DtlsPhase::Up(identified) => Some(identified.remote.node),
            _ => None,
        }
    }

    pub(super) fn new(slot: SessionSlot, route: Route, dtls: Dtls, session: Session, handshake: Handshake) -> Self {
        Self {
            is_incoming: !handshake.client,
            slot,
            route,
            dtls,
            dtls_deadline: None,
            session,
            phase: DtlsPhase::Handshake(Box::new(handshake)),
            timer: None,
            stirred: false,
            migration: MigrationState::default(),
            head: Vec::new(),
            late: VecDeque::new(),
            bytes_sent: 0,
            bytes_received: 0,
            messages_sent: 0,
            messages_received: 0,
        }
    }

    /// Begins the handshake, if we are the client.
    pub(super) fn start(&mut self, cx: &mut SessionContext<'_>) -> SessionChange {
        match self.dtls.handle_timeout(cx.now) {
            Ok(()) => self.run(cx),
            Err(error) => {
                self.fail(&error.to_string(), cx);
                SessionChange::Same
            }
        }
    }

    /// Handles a datagram of DTLS records, if it may be useful in this phase.
    pub(super) fn receive(&mut self, datagram: &[u8], cx: &mut SessionContext<'_>) -> SessionChange {
        self.bytes_received += datagram.len() as u64;
        if let DtlsPhase::Handshake(handshake) = &mut self.phase {
            if !handshake.admit(datagram, &cx.context.limits) {
                LiveSchemeCounters::add(&cx.live.malformed, 1);
                return SessionChange::Same;
            }
            if let Err(error) = self.dtls.handle_timeout(cx.now) {
                self.fail(&error.to_string(), cx);
                return SessionChange::Same;
            }
        }
        match self.dtls.handle_packet(datagram) {
            Ok(()) => self.run(cx),
            Err(error) => {
                self.break_off(&format!("the encryption failed: {error}"), cx);
                SessionChange::Same
            }
        }
    }

    /// Ends the session after an error of dimpl, unless a handshake that we began can restart.
    fn break_off(&mut self, reason: &str, cx: &mut SessionContext<'_>) {
        if !self.restart_handshake(cx) {
            self.fail(reason, cx);
        }
    }

    /// Handles all output of dimpl, the deferred output first.
    pub(super) fn run(&mut self, cx: &mut SessionContext<'_>) -> SessionChange {
        while let Some(late) = self.late.pop_front() {
            match late {
                DeferredOutput::Certificate(der) => self.judge(&der, cx),
                DeferredOutput::Connected => self.connected(cx),
                DeferredOutput::Plain(plain) => {
                    let turn = self.opened(&plain, cx);
                    if matches!(turn, SessionChange::Established { .. }) {
                        return turn;
                    }
                }
                DeferredOutput::Closed => self.break_off("the remote closed the connection", cx),
            }
        }
        let mut sealed = std::mem::take(cx.sealed);
        let turn = loop {
            match self.dtls.poll_output(&mut sealed) {
                Output::Packet(packet) => self.post(packet, cx),
                Output::PeerCert(der) => self.judge(der, cx),
                Output::Connected => self.connected(cx),
                Output::ApplicationData(plain) => {
                    let turn = self.opened(plain, cx);
                    if matches!(turn, SessionChange::Established { .. }) {
                        break turn;
                    }
                }
                Output::CloseNotify => self.break_off("the remote closed the connection", cx),
                Output::BufferTooSmall { needed } => sealed.resize(needed, 0),
                Output::Timeout(at) => {
                    self.dtls_deadline = (at < cx.now + IDLE).then_some(at);
                    break SessionChange::Same;
                }
                _ => {}
            }
        };
        *cx.sealed = sealed;
        self.come_back(cx.now);
        turn
    }

    /// Schedules the deferred output to be handled soon.
    fn come_back(&mut self, now: Instant) {
        if !self.late.is_empty() {
            self.dtls_deadline = Some(now);
        }
    }

    fn judge(&mut self, der: &[u8], cx: &mut SessionContext<'_>) {
        if let DtlsPhase::Handshake(handshake) = &mut self.phase {
            handshake.judge(der, self.route.to, cx);
        }
    }

    /// True if a host that has not proved its address has been sent enough. A genuine one repeats its last flight and
    /// so allows more.
    fn is_sent_enough(&self, more: usize) -> bool {
        let DtlsPhase::Handshake(handshake) = &self.phase else { return false };
        handshake.is_doubtful() && self.bytes_sent + more as u64 > UNPROVED_SHARE * self.bytes_received
    }

    /// Puts a datagram of dimpl's own into the outbox. It is alone, because a receiver acknowledges records of a
    /// handshake only at the beginning of a datagram.
    pub(super) fn post(&mut self, datagram: &[u8], cx: &mut SessionContext<'_>) {
        self.post_as(DatagramPacking::Alone, datagram, cx);
    }

    /// Puts a sealed datagram into the outbox.
    fn post_as(&mut self, post: DatagramPacking, datagram: &[u8], cx: &mut SessionContext<'_>) {
        if self.is_sent_enough(datagram.len()) {
            return;
        }
        self.bytes_sent += datagram.len() as u64;
        self.migration.last_sent = Some(cx.now);
        let mut behind: &[u8] = &[];
        if let DtlsPhase::Handshake(handshake) = &mut self.phase {
            handshake.sent(datagram, cx.now);
            (self.head, behind) = handshake.around(datagram);
        }
        let head = std::mem::take(&mut self.head);
        let may_share = post == DatagramPacking::Shared && matches!(self.phase, DtlsPhase::Up(_)) && head.is_empty();
        let most = cx.context.limits.packet() + SEAL_BYTES;
        let doubtful = self.migration.former.filter(|_| self.migration.is_doubtful);
        for route in [Some(self.route), doubtful].into_iter().flatten() {
            let had_room = match may_share {
                true => cx.outbox.pack(route, datagram, most),
                false => cx.outbox.push(route, &[&head, datagram, behind]),
            };
            if !had_room {
                LiveSchemeCounters::add(&cx.live.dropped, 1);
            }
        }
    }

    /// Seals the packet in `cx.plain` and puts it into the outbox.
    pub(super) fn seal(&mut self, cx: &mut SessionContext<'_>) {
        if let Err(error) = self.dtls.send_application_data(cx.plain) {
            return self.fail(&format!("the encryption failed: {error}"), cx);
        }
        let mut sealed = std::mem::take(cx.sealed);
        loop {
            match self.dtls.poll_output(&mut sealed) {
                Output::Packet(packet) => self.post_as(DatagramPacking::Shared, packet, cx),
                Output::BufferTooSmall { needed } => sealed.resize(needed, 0),
                Output::Timeout(at) => {
                    self.dtls_deadline = (at < cx.now + IDLE).then_some(at);
                    break;
                }
                // This output was there before, and is handled in the next turn.
                output => self.late.extend(DeferredOutput::from_output(&output)),
            }
        }
        *cx.sealed = sealed;
        self.come_back(cx.now);
    }

    /// Seals the packet in `cx.plain` after plain bytes that everybody on the path can read.
    pub(super) fn seal_after(&mut self, head: Vec<u8>, cx: &mut SessionContext<'_>) {
        self.head = head;
        self.seal(cx);
    }

    pub(super) fn seal_ready(&mut self, cx: &mut SessionContext<'_>) {
        cx.plain.clear();
        write_ready(cx.plain);
        self.seal(cx);
    }

    /// Accepts the remote that dialed us, and gives it the token that we would send if we forgot the session.
    pub(super) fn welcome(&mut self, cx: &mut SessionContext<'_>) {
        self.seal_ready(cx);
        if let Some(called) = self.migration.accepted_id {
            cx.plain.clear();
            write_reset_token(cx.plain, &called, &reset_token(&cx.endpoint.forgotten, &called));
            self.seal(cx);
        }
    }

    /// Both sides have the keys, and we have the remote's certificate.
    fn connected(&mut self, cx: &mut SessionContext<'_>) {
        let DtlsPhase::Handshake(handshake) = &mut self.phase else { return };
        match handshake.connected(cx.now) {
            ConnectedAction::Wait => {}
            ConnectedAction::Ready => {
                cx.plain.clear();
                write_ready(cx.plain);
                // dimpl packs it into the datagram of its last flight.
                if let Err(error) = self.dtls.send_application_data(cx.plain) {
                    self.fail(&error.to_string(), cx);
                }
            }
            ConnectedAction::Refuse { code, reason } => {
                self.fail(&reason, cx);
                self.farewell(code, &reason, cx);
            }
        }
    }

    /// Handles a packet that DTLS has opened.
    fn opened(&mut self, plain: &[u8], cx: &mut SessionContext<'_>) -> SessionChange {
        let Some(packet) = Packet::parse(plain) else {
            LiveSchemeCounters::add(&cx.live.malformed, 1);
            return SessionChange::Same;
        };
        self.migration.note_heard();
        match &mut self.phase {
            DtlsPhase::Handshake(handshake) => {
                if let Packet::Close { code, reason } = packet {
                    self.fail(&refused(code, reason), cx);
                    return SessionChange::Same;
                }
                let Some(passed) = handshake.take_passed() else { return SessionChange::Same };
                if !matches!(packet, Packet::Ready) {
                    handshake.early = Some(plain.to_vec());
                }
                self.establish(passed, cx)
            }
            DtlsPhase::Up(identified) => {
                let connection = identified.connection;
                self.received(connection, packet, cx);
                SessionChange::Same
            }
            DtlsPhase::Draining { .. } => {
                self.drained(packet, cx);
                SessionChange::Same
            }
            DtlsPhase::Closed { farewell, left, .. } => {
                if *left > 0 && !matches!(packet, Packet::Close { .. }) {
                    *left -= 1;
                    cx.plain.clone_from(farewell);
                    self.seal(cx);
                }
                SessionChange::Same
            }
            DtlsPhase::Gone => SessionChange::Same,
        }
    }

    /// Both sides have accepted each other, so the connection comes up.
    fn establish(&mut self, passed: VerifiedRemote, cx: &mut SessionContext<'_>) -> SessionChange {
        let DtlsPhase::Handshake(handshake) = &mut self.phase else { return SessionChange::Same };
        let (dial, late) = match handshake.dial.take() {
            Some(dial) if dial.request.try_win() => (Some(dial), false),
            Some(_) => (None, true),
            None => (None, false),
        };
        if late && handshake.client {
            self.farewell(NO_REFUSAL, TOO_LATE, cx);
            return SessionChange::Same;
        }
        if dial.is_none() && cx.context.registry.len() >= cx.context.limits.connections {
            LiveSchemeCounters::add(&cx.live.turned_away, 1);
            self.farewell(NO_REFUSAL, "the remote has no room for another connection", cx);
            return SessionChange::Same;
        }
        let (early, client) = (handshake.early.take(), handshake.client);
        self.migration.id = handshake.random.and_then(|random| random.first_chunk().copied());
        let identified = ConnectionIdentity {
            connection: cx.context.registry.allocate(),
            remote: passed.remote,
            certificate_status: passed.certificate_status,
            address: seen_at(Scheme::Udp, self.route.to),
            dialled: dial.is_some(),
            rtt: handshake.rtt(cx.now),
            since: SystemTime::now(),
        };
        cx.context.round_trips.record_rtt(Some(self.route.to.ip()), identified.remote.node, identified.rtt);
        let limits = &cx.context.limits;
        self.session = Session::new(limits.packet(), limits.connection_queue_bytes, identified.rtt);
        self.phase = DtlsPhase::Up(Box::new(identified));
        if !client {
            let mut called = UdpSessionId::default();
            self.migration.accepted_id = rand::fill(&mut called).ok().map(|()| called);
            self.welcome(cx);
        }
        SessionChange::Established { dial, early }
    }

    /// Ends a handshake or a connection that has failed.
    fn fail(&mut self, reason: &str, cx: &mut SessionContext<'_>) {
        if let DtlsPhase::Handshake(handshake) = &mut self.phase {
            match handshake.dial.take() {
                Some(dial) => dial.report_outcome(Err(reason.to_owned())),
                None => {
                    LiveSchemeCounters::add(&cx.live.failed_handshakes, 1);
                    tracing::debug!(remote = %self.route.to, reason, "handshake failed");
                }
            }
            self.phase = DtlsPhase::Gone;
        } else {
            self.end(reason.to_owned(), cx);
        }
    }

    /// Runs the due timers of DTLS and of the session.
    pub(super) fn handle_timeout(&mut self, cx: &mut SessionContext<'_>) -> SessionChange {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= cx.now);
        let mut turn = SessionChange::Same;
        if due(self.dtls_deadline) {
            match self.dtls.handle_timeout(cx.now) {
                Ok(()) => turn = self.run(cx),
                Err(error) => self.fail(&format!("no answer: {error}"), cx),
            }
        }
        if let DtlsPhase::Handshake(handshake) = &mut self.phase
            && let Some((answer, held)) = handshake.answers.take_due(cx.now)
        {
            handshake.answer_was_held(held);
            return self.receive(&answer, cx);
        }
        match &mut self.phase {
            DtlsPhase::Handshake(handshake) if handshake.is_idle_effort() => self.fail(TOO_LATE, cx),
            DtlsPhase::Handshake(handshake) => match handshake.overdue(cx.now) {
                Some(reason) => {
                    let wanted = handshake.dial.as_ref().map(|dial| dial.request.node);
                    wanted
                        .into_iter()
                        .for_each(|node| cx.context.round_trips.mark_unresponsive(self.route.to.ip(), node));
                    self.fail(&reason, cx);
                }
                None if handshake.take_ready_due(cx.now) => self.seal_ready(cx),
                None => {}
            },
            DtlsPhase::Up(_) | DtlsPhase::Draining { .. } => {
                if self.session.handle_timeout(cx.now) == Err(RemoteSilent) {
                    self.end("the remote no longer acknowledges anything".into(), cx);
                }
                self.migration.is_doubtful = self.session.is_probing();
                self.pump(cx);
                self.migration.is_doubtful = false;
                if matches!(self.phase, DtlsPhase::Draining { until, .. } if until <= cx.now) {
                    self.finish_draining(cx);
                }
            }
            DtlsPhase::Closed { until, .. } if *until <= cx.now => self.phase = DtlsPhase::Gone,
            DtlsPhase::Closed { .. } | DtlsPhase::Gone => {}
        }
        turn
    }

    /// The time at which [`Self::handle_timeout`] must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let own = match &self.phase {
            DtlsPhase::Handshake(handshake) => Some(handshake.deadline()),
            DtlsPhase::Up(_) => self.session.deadline(),
            DtlsPhase::Draining { until, .. } => self.session.deadline().into_iter().chain([*until]).min(),
            DtlsPhase::Closed { until, .. } => Some(*until),
            DtlsPhase::Gone => None,
        };
        own.into_iter().chain(self.dtls_deadline).min()
    }
}
