//! A session of an endpoint: its DTLS state, phase and counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dimpl::{Dtls, Output};
use roost_wire::NodeId;

use super::datagram_queue::{DatagramQueue, Route};
use super::endpoint::{SessionSlot, UdpEndpoint};
use super::established::refused;
use super::handshake::{ConnectedAction, Handshake, PendingDial};
use super::migration::MigrationState;
use super::session::{Packet, RemoteSilent, Session, write_ready};
use crate::connection::ConnectionIdentity;
use crate::counters::LiveSchemeCounters;
use crate::dial::TOO_LATE;
use crate::event::Event;
use crate::transport::Context;

/// dimpl returns a deadline even when it has nothing to do. One further away than this means none.
pub(super) const IDLE: Duration = Duration::from_secs(60);
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
    pub(super) head: Vec<u8>,
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
    pub(super) fn from_output(output: &Output<'_>) -> Option<Self> {
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
    pub(super) fn come_back(&mut self, now: Instant) {
        if !self.late.is_empty() {
            self.dtls_deadline = Some(now);
        }
    }

    fn judge(&mut self, der: &[u8], cx: &mut SessionContext<'_>) {
        if let DtlsPhase::Handshake(handshake) = &mut self.phase {
            handshake.judge(der, self.route.to, cx);
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

    /// Ends a handshake or a connection that has failed.
    pub(super) fn fail(&mut self, reason: &str, cx: &mut SessionContext<'_>) {
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
        self.run_phase_timers(cx);
        turn
    }

    fn run_phase_timers(&mut self, cx: &mut SessionContext<'_>) {
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
