//! Who may begin a handshake, and who gives way when there are too many.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::endpoint::Slot;
use super::entry::{Entry, Phase, Turn};
use super::hello::{self, Greeting};
use super::outbox::Route;
use super::table::Turning;
use crate::counters::Live;

impl Turning<'_> {
    /// Whether a stranger may begin a handshake with a first datagram of `size` bytes.
    pub(super) fn admit(&mut self, route: Route, greeting: &Greeting, size: usize) -> bool {
        if self.endpoint.context.closing.load(Ordering::Relaxed) {
            return false;
        }
        let limit = self.endpoint.context.limits.handshakes;
        let needs_proof = self.table.strangers * 4 >= limit || size < hello::MIN_UNPROVED;
        if needs_proof && !self.proves(route, greeting) {
            return false;
        }
        let admitted = self.table.bucket.take(self.now);
        let full = self.table.strangers >= limit;
        if !admitted || full {
            Live::add(&self.endpoint.live.turned_away, 1);
        }
        if admitted && full {
            self.displace_oldest();
        }
        admitted
    }

    /// Checks a ClientHello's proof of its sender's address; one without it is answered with a cookie.
    pub(super) fn proves(&mut self, route: Route, greeting: &Greeting) -> bool {
        let proves = self.has_proved(route, greeting);
        if !proves {
            let cookie = self.table.cookies.make(self.now, route.to);
            let echo = greeting.echo();
            self.table.outbox.push(route, &[echo.as_ref().map_or(&[], |echo| echo), &[hello::RETRY], &cookie]);
        }
        proves
    }

    pub(super) fn has_proved(&self, route: Route, greeting: &Greeting) -> bool {
        greeting.cookie.is_some_and(|cookie| self.table.cookies.check(self.now, route.to, &cookie))
    }

    /// Ends a stranger's handshake that holds the address of a peer to be dialled and has proved
    /// nothing: its sender may have forged that address, and a dial would wait for it in vain.
    pub(super) fn displace_unproved(&mut self, at: SocketAddr) {
        let Some(slot) = self.table.handshaking.get(&at).copied() else { return };
        self.with(slot, |entry, _| {
            if matches!(&entry.phase, Phase::Handshake(handshake) if handshake.is_doubtful()) {
                entry.phase = Phase::Gone;
            }
            Turn::Same
        });
    }

    /// Ends the oldest handshake that a stranger began. Looks at all that are
    /// under way, which the bucket before it keeps cheap.
    fn displace_oldest(&mut self) {
        let began = |slot: &Slot| match self.table.entries.get(*slot as usize)?.as_deref()? {
            Entry { phase: Phase::Handshake(handshake), by_peer: true, .. } if handshake.dial.is_none() => {
                Some((handshake.until(), *slot))
            }
            _ => None,
        };
        if let Some((_, oldest)) = self.table.handshaking.values().filter_map(began).min() {
            self.with(oldest, |entry, _| {
                entry.phase = Phase::Gone;
                Turn::Same
            });
        }
    }
}
