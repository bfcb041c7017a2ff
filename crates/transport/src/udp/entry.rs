//! One session of an endpoint: its DTLS state, its phase, its counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rand;
use dimpl::{Dtls, Output};
use roost_proto::{NodeId, Scheme};

use super::SEAL_BYTES;
use super::endpoint::{Endpoint, Slot};
use super::established::refused;
use super::handshake::{Dialling, Handshake, Step};
use super::hello::SessionId;
use super::moving::Moving;
use super::outbox::{Outbox, Route};
use super::session::{Packet, PeerSilent, Session, write_keepsake, write_ready};
use crate::counters::Live;
use crate::dial::TOO_LATE;
use crate::event::Event;
use crate::forgotten::token;
use crate::link::{Identified, Passed, seen_at};
use crate::transport::Context;

/// dimpl names a deadline even when it has nothing to do; one that is this far
/// away means none.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes that a host gets before it has shown that it dials us, for each that came in its name:
/// as in QUIC (RFC 9000, section 8.1).
const UNPROVED_SHARE: u64 = 3;
/// The close code that stands for no refusal.
pub(super) const NO_REFUSAL: u8 = 0;

/// A session.
pub(super) struct Entry {
    pub(super) slot: Slot,
    pub(super) route: Route,
    pub(super) dtls: Dtls,
    pub(super) dtls_deadline: Option<Instant>,
    pub(super) session: Session,
    pub(super) phase: Phase,
    /// What the endpoint's timer table holds for this session.
    pub(super) timer: Option<Instant>,
    /// Whether acknowledgements or window may let packets out.
    pub(super) stirred: bool,
    /// Whether the peer began; until the handshake is over, it counts against
    /// the limit on those.
    pub(super) by_peer: bool,
    pub(super) moving: Moving,
    /// What goes in front of the next datagram.
    head: Vec<u8>,
    /// Output of dimpl that came while something was sealed.
    pub(super) late: VecDeque<Late>,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) messages_sent: u64,
    pub(super) messages_received: u64,
}

/// Output of dimpl, kept until it may be worked off.
pub(super) enum Late {
    Certificate(Vec<u8>),
    Connected,
    Plain(Vec<u8>),
    Closed,
}

impl Late {
    /// `None` for what is worked off at once.
    fn of(output: &Output<'_>) -> Option<Self> {
        match output {
            Output::PeerCert(der) => Some(Self::Certificate(der.to_vec())),
            Output::Connected => Some(Self::Connected),
            Output::ApplicationData(plain) => Some(Self::Plain(plain.to_vec())),
            Output::CloseNotify => Some(Self::Closed),
            _ => None,
        }
    }
}

pub(super) enum Phase {
    Handshake(Box<Handshake>),
    Up(Box<Identified>),
    /// Waits until the peer has everything, then says farewell.
    Draining {
        reason: String,
        until: Instant,
    },
    /// Repeats its farewell if need be, then goes.
    Closed {
        farewell: Vec<u8>,
        left: u8,
        until: Instant,
    },
    /// To be removed.
    Gone,
}

/// What a session works with, apart from itself.
pub(super) struct Desk<'a> {
    pub(super) now: Instant,
    pub(super) context: &'a Context,
    pub(super) endpoint: &'a Arc<Endpoint>,
    pub(super) live: &'a Live,
    pub(super) outbox: &'a mut Outbox,
    pub(super) events: &'a mut Vec<Event>,
    /// Where packets are built before they are sealed.
    pub(super) plain: &'a mut Vec<u8>,
    /// Where dimpl puts its output.
    pub(super) sealed: &'a mut Vec<u8>,
}

/// The place of a datagram among those that wait for the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Post {
    /// By itself.
    Alone,
    /// With others for the same host.
    Shared,
}

/// What became of a session.
pub(super) enum Turn {
    /// Nothing that concerns the endpoint's tables.
    Same,
    /// The handshake is over; the endpoint must enter the session under its
    /// address and have it announced.
    Established {
        /// The dial that led to it.
        dial: Option<Dialling>,
        /// The first packet, if it is more than a greeting.
        early: Option<Vec<u8>>,
    },
}

impl Entry {
    /// The node at the other end, while the session is up.
    pub(super) fn node(&self) -> Option<NodeId> {
        match &self.phase {
            Phase::Up(identified) => Some(identified.peer.node),
            _ => None,
        }
    }

    pub(super) fn new(slot: Slot, route: Route, dtls: Dtls, session: Session, handshake: Handshake) -> Self {
        Self {
            by_peer: !handshake.client,
            slot,
            route,
            dtls,
            dtls_deadline: None,
            session,
            phase: Phase::Handshake(Box::new(handshake)),
            timer: None,
            stirred: false,
            moving: Moving::default(),
            head: Vec::new(),
            late: VecDeque::new(),
            bytes_sent: 0,
            bytes_received: 0,
            messages_sent: 0,
            messages_received: 0,
        }
    }

    /// Says the first word, if it is ours to say.
    pub(super) fn start(&mut self, desk: &mut Desk<'_>) -> Turn {
        match self.dtls.handle_timeout(desk.now) {
            Ok(()) => self.run(desk),
            Err(error) => {
                self.fail(&error.to_string(), desk);
                Turn::Same
            }
        }
    }

    /// Takes a datagram of DTLS records.
    pub(super) fn receive(&mut self, datagram: &[u8], desk: &mut Desk<'_>) -> Turn {
        self.bytes_received += datagram.len() as u64;
        if let Phase::Handshake(handshake) = &mut self.phase {
            if !handshake.admits(datagram, &desk.context.limits) {
                Live::add(&desk.live.malformed, 1);
                return Turn::Same;
            }
            if let Err(error) = self.dtls.handle_timeout(desk.now) {
                self.fail(&error.to_string(), desk);
                return Turn::Same;
            }
        }
        match self.dtls.handle_packet(datagram) {
            Ok(()) => self.run(desk),
            Err(error) => {
                self.break_off(&format!("the encryption failed: {error}"), desk);
                Turn::Same
            }
        }
    }

    /// dimpl goes no further: a handshake of ours begins anew, anything else is over.
    fn break_off(&mut self, reason: &str, desk: &mut Desk<'_>) {
        if !self.begin_anew(desk) {
            self.fail(reason, desk);
        }
    }

    /// Works off what dimpl has to say.
    pub(super) fn run(&mut self, desk: &mut Desk<'_>) -> Turn {
        while let Some(late) = self.late.pop_front() {
            match late {
                Late::Certificate(der) => self.judge(&der, desk),
                Late::Connected => self.connected(desk),
                Late::Plain(plain) => {
                    let turn = self.opened(&plain, desk);
                    if matches!(turn, Turn::Established { .. }) {
                        return turn;
                    }
                }
                Late::Closed => self.break_off("the peer closed the link", desk),
            }
        }
        let mut sealed = std::mem::take(desk.sealed);
        let turn = loop {
            match self.dtls.poll_output(&mut sealed) {
                Output::Packet(packet) => self.post(packet, desk),
                Output::PeerCert(der) => self.judge(der, desk),
                Output::Connected => self.connected(desk),
                Output::ApplicationData(plain) => {
                    let turn = self.opened(plain, desk);
                    if matches!(turn, Turn::Established { .. }) {
                        break turn;
                    }
                }
                Output::CloseNotify => self.break_off("the peer closed the link", desk),
                Output::BufferTooSmall { needed } => sealed.resize(needed, 0),
                Output::Timeout(at) => {
                    self.dtls_deadline = (at < desk.now + IDLE).then_some(at);
                    break Turn::Same;
                }
                _ => {}
            }
        };
        *desk.sealed = sealed;
        self.come_back(desk.now);
        turn
    }

    /// Has what came late worked off soon.
    fn come_back(&mut self, now: Instant) {
        if !self.late.is_empty() {
            self.dtls_deadline = Some(now);
        }
    }

    fn judge(&mut self, der: &[u8], desk: &mut Desk<'_>) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.judge(der, self.route.to, desk);
        }
    }

    /// A host that may not have dialled us has been sent enough. If it did, it repeats what it has sent.
    fn is_sent_enough(&self, more: usize) -> bool {
        let Phase::Handshake(handshake) = &self.phase else { return false };
        handshake.is_doubtful() && self.bytes_sent + more as u64 > UNPROVED_SHARE * self.bytes_received
    }

    /// Puts a datagram of dimpl's own into the outbox. It is alone: a receiver acknowledges records of a
    /// handshake only where they begin a datagram.
    pub(super) fn post(&mut self, datagram: &[u8], desk: &mut Desk<'_>) {
        self.post_as(Post::Alone, datagram, desk);
    }

    /// Puts a sealed datagram into the outbox.
    fn post_as(&mut self, post: Post, datagram: &[u8], desk: &mut Desk<'_>) {
        if self.is_sent_enough(datagram.len()) {
            return;
        }
        self.bytes_sent += datagram.len() as u64;
        self.moving.last_sent = Some(desk.now);
        let mut behind: &[u8] = &[];
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.sent(datagram, desk.now);
            (self.head, behind) = handshake.around(datagram);
        }
        let head = std::mem::take(&mut self.head);
        let may_share = post == Post::Shared && matches!(self.phase, Phase::Up(_)) && head.is_empty();
        let most = desk.context.limits.packet() + SEAL_BYTES;
        let doubtful = self.moving.former.filter(|_| self.moving.is_doubtful);
        for route in [Some(self.route), doubtful].into_iter().flatten() {
            let had_room = match may_share {
                true => desk.outbox.pack(route, datagram, most),
                false => desk.outbox.push(route, &[&head, datagram, behind]),
            };
            if !had_room {
                Live::add(&desk.live.dropped, 1);
            }
        }
    }

    /// Seals the packet in `desk.plain` and posts it.
    pub(super) fn seal(&mut self, desk: &mut Desk<'_>) {
        if let Err(error) = self.dtls.send_application_data(desk.plain) {
            return self.fail(&format!("the encryption failed: {error}"), desk);
        }
        let mut sealed = std::mem::take(desk.sealed);
        loop {
            match self.dtls.poll_output(&mut sealed) {
                Output::Packet(packet) => self.post_as(Post::Shared, packet, desk),
                Output::BufferTooSmall { needed } => sealed.resize(needed, 0),
                Output::Timeout(at) => {
                    self.dtls_deadline = (at < desk.now + IDLE).then_some(at);
                    break;
                }
                // It had come before, and waits for its turn, which is the next.
                output => self.late.extend(Late::of(&output)),
            }
        }
        *desk.sealed = sealed;
        self.come_back(desk.now);
    }

    /// The same, with something in front of it that everybody may read.
    pub(super) fn seal_after(&mut self, head: Vec<u8>, desk: &mut Desk<'_>) {
        self.head = head;
        self.seal(desk);
    }

    pub(super) fn seal_ready(&mut self, desk: &mut Desk<'_>) {
        desk.plain.clear();
        write_ready(desk.plain);
        self.seal(desk);
    }

    /// Greets who dialled us, and leaves with it what we say should we forget it.
    pub(super) fn welcome(&mut self, desk: &mut Desk<'_>) {
        self.seal_ready(desk);
        if let Some(called) = self.moving.called {
            desk.plain.clear();
            write_keepsake(desk.plain, &called, &token(&desk.endpoint.forgotten, &called));
            self.seal(desk);
        }
    }

    /// Both sides have the keys and we have the peer's certificate.
    fn connected(&mut self, desk: &mut Desk<'_>) {
        let Phase::Handshake(handshake) = &mut self.phase else { return };
        match handshake.connected(desk.now) {
            Step::Wait => {}
            Step::Ready => {
                desk.plain.clear();
                write_ready(desk.plain);
                // Packed by dimpl into the datagram of its last flight.
                if let Err(error) = self.dtls.send_application_data(desk.plain) {
                    self.fail(&error.to_string(), desk);
                }
            }
            Step::Refuse { code, reason } => {
                self.fail(&reason, desk);
                self.farewell(code, &reason, desk);
            }
        }
    }

    /// Takes a packet that DTLS has opened.
    fn opened(&mut self, plain: &[u8], desk: &mut Desk<'_>) -> Turn {
        let Some(packet) = Packet::parse(plain) else {
            Live::add(&desk.live.malformed, 1);
            return Turn::Same;
        };
        self.moving.note_heard();
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                if let Packet::Close { code, reason } = packet {
                    self.fail(&refused(code, reason), desk);
                    return Turn::Same;
                }
                let Some(passed) = handshake.take_passed() else { return Turn::Same };
                if !matches!(packet, Packet::Ready) {
                    handshake.early = Some(plain.to_vec());
                }
                self.establish(passed, desk)
            }
            Phase::Up(identified) => {
                let link = identified.link;
                self.received(link, packet, desk);
                Turn::Same
            }
            Phase::Draining { .. } => {
                self.drained(packet, desk);
                Turn::Same
            }
            Phase::Closed { farewell, left, .. } => {
                if *left > 0 && !matches!(packet, Packet::Close { .. }) {
                    *left -= 1;
                    desk.plain.clone_from(farewell);
                    self.seal(desk);
                }
                Turn::Same
            }
            Phase::Gone => Turn::Same,
        }
    }

    /// The peer has passed and has let us pass: the link is up.
    fn establish(&mut self, passed: Passed, desk: &mut Desk<'_>) -> Turn {
        let Phase::Handshake(handshake) = &mut self.phase else { return Turn::Same };
        let (dial, late) = match handshake.dial.take() {
            Some(dial) if dial.wish.win() => (Some(dial), false),
            Some(_) => (None, true),
            None => (None, false),
        };
        if late && handshake.client {
            self.farewell(NO_REFUSAL, TOO_LATE, desk);
            return Turn::Same;
        }
        if dial.is_none() && desk.context.registry.len() >= desk.context.limits.links {
            Live::add(&desk.live.turned_away, 1);
            self.farewell(NO_REFUSAL, "the peer has no room for another link", desk);
            return Turn::Same;
        }
        let (early, client) = (handshake.early.take(), handshake.client);
        self.moving.id = handshake.random.and_then(|random| random.first_chunk().copied());
        let identified = Identified {
            link: desk.context.registry.allocate(),
            peer: passed.peer,
            standing: passed.standing,
            address: seen_at(Scheme::Udp, self.route.to),
            dialled: dial.is_some(),
            rtt: handshake.rtt(desk.now),
            since: SystemTime::now(),
        };
        desk.context.round_trips.note(Some(self.route.to.ip()), identified.peer.node, identified.rtt);
        let limits = &desk.context.limits;
        self.session = Session::new(limits.packet(), limits.link_queue_bytes, identified.rtt);
        self.phase = Phase::Up(Box::new(identified));
        if !client {
            let mut called = SessionId::default();
            self.moving.called = rand::fill(&mut called).ok().map(|()| called);
            self.welcome(desk);
        }
        Turn::Established { dial, early }
    }

    /// The handshake or the link has failed.
    fn fail(&mut self, reason: &str, desk: &mut Desk<'_>) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            match handshake.dial.take() {
                Some(dial) => dial.settle(Err(reason.to_owned())),
                None => {
                    Live::add(&desk.live.failed_handshakes, 1);
                    tracing::debug!(peer = %self.route.to, reason, "handshake failed");
                }
            }
            self.phase = Phase::Gone;
        } else {
            self.end(reason.to_owned(), desk);
        }
    }

    /// Runs what is due.
    pub(super) fn handle_timeout(&mut self, desk: &mut Desk<'_>) -> Turn {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= desk.now);
        let mut turn = Turn::Same;
        if due(self.dtls_deadline) {
            match self.dtls.handle_timeout(desk.now) {
                Ok(()) => turn = self.run(desk),
                Err(error) => self.fail(&format!("no answer: {error}"), desk),
            }
        }
        if let Phase::Handshake(handshake) = &mut self.phase
            && let Some((answer, held)) = handshake.answers.take_due(desk.now)
        {
            handshake.answer_was_held(held);
            return self.receive(&answer, desk);
        }
        match &mut self.phase {
            Phase::Handshake(handshake) if handshake.is_idle_effort() => self.fail(TOO_LATE, desk),
            Phase::Handshake(handshake) => match handshake.overdue(desk.now) {
                Some(reason) => {
                    let wanted = handshake.dial.as_ref().map(|dial| dial.wish.node);
                    wanted.into_iter().for_each(|node| desk.context.round_trips.doubt(self.route.to.ip(), node));
                    self.fail(&reason, desk);
                }
                None if handshake.ready_due(desk.now) => self.seal_ready(desk),
                None => {}
            },
            Phase::Up(_) | Phase::Draining { .. } => {
                if self.session.handle_timeout(desk.now) == Err(PeerSilent) {
                    self.end("the peer no longer acknowledges anything".into(), desk);
                }
                self.moving.is_doubtful = self.session.is_probing();
                self.pump(desk);
                self.moving.is_doubtful = false;
                if matches!(self.phase, Phase::Draining { until, .. } if until <= desk.now) {
                    self.finish_draining(desk);
                }
            }
            Phase::Closed { until, .. } if *until <= desk.now => self.phase = Phase::Gone,
            Phase::Closed { .. } | Phase::Gone => {}
        }
        turn
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let own = match &self.phase {
            Phase::Handshake(handshake) => Some(handshake.deadline()),
            Phase::Up(_) => self.session.deadline(),
            Phase::Draining { until, .. } => self.session.deadline().into_iter().chain([*until]).min(),
            Phase::Closed { until, .. } => Some(*until),
            Phase::Gone => None,
        };
        own.into_iter().chain(self.dtls_deadline).min()
    }
}
