//! Unencrypted answers to our ClientHello, genuine or forged.
//!
//! Only a sender that has seen our ClientHello can send an answer with an [echo](super::hello::ECHO). A listener of the
//! previous version echoes nothing, so anybody can forge its answers. One ServerHello without an echo is therefore held
//! back, and used only if no echo arrives for a while. If an echo arrives after all, the handshake restarts and
//! believes only answers with an echo.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::datagram_queue::Route;
use super::endpoint::SessionSlot;
use super::entry::{DtlsPhase, Entry, SessionChange, SessionContext};
use super::handshake::{Handshake, most_bytes};
use super::hello::{self, COOKIE, DatagramKind, UdpSessionId};
use super::table::EndpointTurn;
use crate::counters::LiveSchemeCounters;
use crate::handshake_side::HandshakeSide;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Only a sender that has seen our ClientHello can have sent it.
    Echoed,
    Doubtful,
}

/// Time for which a ServerHello without an echo is held back. It is four times as long after each restart, since the
/// answer with an echo may take a longer route.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// The most restarts of a dial's handshake. After these the dial fails.
const MAX_RESTARTS: u8 = 3;

/// The answers to the ClientHello of a handshake that we began.
#[derive(Default)]
pub(super) struct Answers {
    /// An answer with an echo has arrived, so the listener supports echoes, and answers without one are not from it.
    is_echoed: bool,
    /// A ServerHello without an echo, which may be forged.
    held: Option<HeldAnswer>,
    /// True once a ServerHello without an echo has been used.
    is_doubtful: bool,
    restarts: u8,
}

struct HeldAnswer {
    answer: Vec<u8>,
    /// The time at which the first such answer arrived.
    came: Instant,
    due: Instant,
}

impl Answers {
    /// Notes an answer with an echo. Returns true if an answer without one has been used before.
    fn note_echo(&mut self) -> bool {
        self.is_echoed = true;
        self.held = None;
        self.is_doubtful
    }

    fn hold_answer(&mut self, answer: &[u8], now: Instant) {
        if !self.is_echoed && !self.is_doubtful {
            let first = (now, now + HOLD_TIME * 4u32.pow(self.restarts.into()));
            let (came, due) = self.held.take().map_or(first, |held| (held.came, held.due));
            self.held = Some(HeldAnswer { answer: answer.to_vec(), came, due });
        }
    }

    /// Takes the answer that was held back for long enough, and the time since it arrived.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Vec<u8>, Duration)> {
        let held = self.held.take_if(|held| held.due <= now)?;
        self.is_doubtful = true;
        Some((held.answer, now.saturating_duration_since(held.came)))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.due)
    }

    /// The answers of a restarted handshake; `None` if it may not restart again.
    pub(super) fn for_restart(&self) -> Option<Self> {
        (self.restarts < MAX_RESTARTS).then(|| Self {
            is_echoed: self.is_echoed,
            restarts: self.restarts + 1,
            ..Self::default()
        })
    }
}

impl Handshake {
    /// The bytes to put before a datagram of the handshake, and those to put after it.
    pub(super) fn around(&self, datagram: &[u8]) -> (Vec<u8>, &'static [u8]) {
        let is_plain = datagram.first().is_some_and(|first| *first < 32);
        match self.echo.filter(|_| is_plain) {
            Some(echo) => (echo.to_vec(), &[]),
            None if self.client && hello::client_random(datagram).is_some() => {
                let proof = self.cookie.map(|(cookie, _)| [&[hello::PROVED][..], &cookie].concat());
                (proof.unwrap_or_default(), &hello::ASKS)
            }
            None => (Vec::new(), &[]),
        }
    }

    fn is_greeted_by(&self, random: &UdpSessionId) -> bool {
        self.client && self.random.as_ref().is_some_and(|ours| ours.starts_with(random))
    }

    /// Stores a cookie. Returns true if it is a new one.
    fn prove_with(&mut self, cookie: [u8; COOKIE], trust: Trust) -> bool {
        let before = self.cookie.map(|(_, trust)| trust);
        let is_wanted = self.client
            && !self.is_answered()
            && match trust {
                Trust::Echoed => before != Some(Trust::Echoed),
                Trust::Doubtful => before.is_none() && !self.answers.is_echoed,
            };
        if is_wanted {
            self.cookie = Some((cookie, trust));
        }
        is_wanted
    }
}

impl Entry {
    /// Handles an answer with an echo. It ends the trust in answers without one.
    fn receive_answer(&mut self, answer: &[u8], cx: &mut SessionContext<'_>) -> SessionChange {
        let DtlsPhase::Handshake(handshake) = &mut self.phase else { return SessionChange::Same };
        if handshake.answers.note_echo() && self.restart_handshake(cx) {
            return SessionChange::Same;
        }
        self.receive(answer, cx)
    }

    /// Restarts a handshake that we began, unless the remote has answered with its certificate: the datagrams that made
    /// it fail may have been forged.
    pub(super) fn restart_handshake(&mut self, cx: &mut SessionContext<'_>) -> bool {
        let DtlsPhase::Handshake(handshake) = &mut self.phase else { return false };
        let begins = handshake.restart(cx.now, cx.context.limits.incoming_handshake_timeout());
        if begins {
            tracing::debug!(remote = %self.route.to, "a handshake begins anew");
            self.dtls = cx.endpoint.dtls(HandshakeSide::Client, cx.now);
            self.dtls_deadline = Some(cx.now);
            self.late.clear();
        }
        begins
    }
}

impl EndpointTurn<'_> {
    fn handshake(&mut self, at: SocketAddr) -> Option<(SessionSlot, &mut Handshake)> {
        let slot = self.table.handshaking.get(&at).copied()?;
        match self.entry(slot)? {
            Entry { phase: DtlsPhase::Handshake(handshake), .. } => Some((slot, handshake)),
            _ => None,
        }
    }

    /// Handles an answer of a sender that has seen our ClientHello.
    pub(super) fn handle_echo(&mut self, route: Route, random: UdpSessionId, answer: &[u8]) {
        let found = self.handshake(route.to).filter(|(_, handshake)| handshake.is_greeted_by(&random));
        let slot = found.map(|(slot, _)| slot);
        match (slot, hello::classify(answer)) {
            (Some(_), DatagramKind::Retry(cookie)) => self.handle_retry(route.to, cookie, Trust::Echoed),
            (Some(slot), DatagramKind::Records { epoch: None }) => {
                self.run_on_session(slot, |entry, cx| entry.receive_answer(answer, cx));
            }
            _ => LiveSchemeCounters::add(&self.endpoint.live.malformed, 1),
        }
    }

    /// Handles unencrypted records without an echo. Alerts, acknowledgements and fragments are ignored, since anybody
    /// may have sent them.
    pub(super) fn handle_doubtful(&mut self, datagram: &[u8], from: SocketAddr) {
        let (now, most) = (self.now, most_bytes(&self.endpoint.context.limits));
        let slot = self.handshake(from).filter(|(_, handshake)| handshake.client).map(|(slot, _)| slot);
        let Some(slot) = slot.filter(|_| datagram.len() <= most && hello::is_server_hello(datagram)) else {
            return LiveSchemeCounters::add(&self.endpoint.live.malformed, 1);
        };
        // The time at which the answer is used may be the session's next deadline.
        self.run_on_session(slot, |entry, _| {
            if let DtlsPhase::Handshake(handshake) = &mut entry.phase {
                handshake.answers.hold_answer(datagram, now);
            }
            SessionChange::Same
        });
    }

    /// Handles a listener's demand for proof of our address.
    pub(super) fn handle_retry(&mut self, from: SocketAddr, cookie: [u8; COOKIE], trust: Trust) {
        let (now, limits) = (self.now, self.endpoint.context.limits);
        let Some((slot, handshake)) = self.handshake(from) else { return };
        if !handshake.prove_with(cookie, trust) {
            return;
        }
        let was_misled = trust == Trust::Echoed && handshake.answers.note_echo();
        handshake.greet_again(now, &limits);
        let hello = handshake.hello.clone();
        self.run_on_session(slot, |entry, cx| {
            if !was_misled || !entry.restart_handshake(cx) {
                entry.post(&hello, cx);
            }
            SessionChange::Same
        });
    }
}
