//! Decides which strangers may begin a handshake, and which handshake ends when there are too many.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::datagram_queue::Route;
use super::endpoint::SessionSlot;
use super::entry::{DtlsPhase, Entry, SessionChange};
use super::hello::{self, ClientHello};
use super::table::EndpointTurn;
use crate::counters::LiveSchemeCounters;
use crate::handshake_limiter::{HandshakeSlot, Stranger};

impl EndpointTurn<'_> {
    /// Gives a slot to a stranger that begins a handshake with a first datagram of `size` bytes, if it may.
    pub(super) fn admit(&mut self, route: Route, greeting: &ClientHello, size: usize) -> Option<HandshakeSlot> {
        if self.endpoint.context.closing.load(Ordering::Relaxed) {
            return None;
        }
        let limit = self.endpoint.context.limits.handshakes;
        let needs_proof = self.table.handshake_limiter.len() * 4 >= limit || size < hello::MIN_UNPROVED;
        if needs_proof && !self.proves(route, greeting) {
            return None;
        }
        let host = route.to.ip();
        let stranger = if self.has_proved(route, greeting) { Stranger::Heard } else { Stranger::Silent };
        let admitted = self.table.shares.try_begin_handshake(host, self.now);
        let entered = admitted.then(|| self.table.handshake_limiter.acquire_slot(host, stranger)).flatten();
        if entered.as_ref().is_none_or(|(_, displaced)| *displaced) {
            LiveSchemeCounters::add(&self.endpoint.live.turned_away, 1);
        }
        let (place, displaced) = entered?;
        if displaced {
            self.end_displaced();
        }
        Some(place)
    }

    /// True if a ClientHello proves its sender's address. Otherwise a cookie is sent in answer.
    pub(super) fn proves(&mut self, route: Route, greeting: &ClientHello) -> bool {
        let proves = self.has_proved(route, greeting);
        if !proves {
            let cookie = self.table.cookies.make(self.now, route.to);
            let echo = greeting.echo();
            self.table.outbox.push(route, &[echo.as_ref().map_or(&[], |echo| echo), &[hello::RETRY], &cookie]);
        }
        proves
    }

    pub(super) fn has_proved(&self, route: Route, greeting: &ClientHello) -> bool {
        greeting.cookie.is_some_and(|cookie| self.table.cookies.check(self.now, route.to, &cookie))
    }

    /// Ends a stranger's unproved handshake from an address that is about to be dialed. Its sender may have forged that
    /// address, and the dial would wait for it in vain.
    pub(super) fn displace_unproved(&mut self, at: SocketAddr) {
        let Some(slot) = self.table.handshaking.get(&at).copied() else { return };
        self.run_on_session(slot, |entry, _| {
            if matches!(&entry.phase, DtlsPhase::Handshake(handshake) if handshake.is_doubtful()) {
                entry.phase = DtlsPhase::Gone;
            }
            SessionChange::Same
        });
    }

    /// Ends the handshake whose slot was given away. It looks at all handshakes; the tokens that were needed to get
    /// here keep that cheap.
    fn end_displaced(&mut self) {
        let slots: Vec<SessionSlot> = self.table.handshaking.values().copied().collect();
        for slot in slots {
            let Some(Entry { phase: DtlsPhase::Handshake(handshake), .. }) = self.entry(slot) else { continue };
            // A dial that waits for this handshake keeps its time, however many strangers arrive.
            if handshake.dial.is_none() && handshake.slot.as_mut().is_some_and(HandshakeSlot::is_lost) {
                self.run_on_session(slot, |entry, _| {
                    entry.phase = DtlsPhase::Gone;
                    SessionChange::Same
                });
            }
        }
    }
}
