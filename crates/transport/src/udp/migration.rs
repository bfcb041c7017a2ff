//! Sessions whose address changes on either side: a NAT gives a new port, a network a new address, or a vehicle enters
//! another radio cell.
//!
//! Connection ids would tell to which session a record from an unknown address belongs (RFC 9146). dimpl has none, and
//! they cost some bytes in every packet. Here the receiver asks for an id when it needs one:
//!
//! ```text
//! remote, at a new address                            we
//! record ──────────────────────────────────────▶ address unknown
//!   ◀─────────────────────────────── unknown: a cookie of that address
//! moved: id, cookie, sealed: the cookie ───────▶ session goes on there
//!   ◀───────────────────────────────────────────── ready
//! ```
//!
//! An end that has no session with that id answers with the reset token that it gave to the other end when the session
//! began, see [`crate::stateless_reset`]. So after a restart the other end learns of it at once.
//!
//! The exchange takes one round trip and no handshake. The cookie proves that the remote can be reached at the new
//! address (as in RFC 9853). The seal proves that it is the remote and means that address. We keep no state for the
//! sender and answer with fewer bytes than it sent. An `unknown` is believed only by an end that has just sent
//! something. It causes one small packet, and one repeated packet if something is unacknowledged, ever more rarely
//! while no record opens.
//!
//! An attacker that can watch and inject may make the remote confirm a wrong address. So the former address is
//! remembered, and probes for a silent remote go to both. A record from the former address may only be late: RFC 9000,
//! section 9.3, lets only the newest packet move a session, but dimpl does not reveal the order of records. So such a
//! record is questioned as well: a remote that is there seals a new answer, and that moves the session back.
//!
//! Reliable messages that were sent meanwhile are repeated at once. Datagrams of that round trip are lost, as others
//! may be. Behind a NAT that has forgotten its mapping, a remote is reached again once it sends something itself, for
//! example a reminder of an incomplete message.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::datagram_queue::Route;
use super::endpoint::{SessionSlot, UdpEndpoint};
use super::entry::{DtlsPhase, Entry, SessionChange, SessionContext};
use super::hello::{self, COOKIE, UdpSessionId};
use super::session::{PathChange, write_moved};
use super::table::EndpointTurn;
use super::unspecified;
use crate::connection::seen_at;
use crate::counters::LiveSchemeCounters;
use crate::event::Event;
use crate::local_addresses::is_local_address;
use crate::stateless_reset::{RESET_TOKEN_BYTES, reset_token};
use roost_wire::Scheme;

/// Shortest time after our last packet in which an `unknown` is believed.
const RECENT: Duration = Duration::from_secs(5);
/// The least time between two packets that identify us, and between two questions to a former address.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest that this pause becomes while no record opens, if the round trip is shorter.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The state that a session keeps in case an address changes.
#[derive(Debug, Default)]
pub(super) struct MigrationState {
    pub(super) id: Option<UdpSessionId>,
    /// Our id of the session, if the remote dialed us.
    pub(super) accepted_id: Option<UdpSessionId>,
    /// The listener's id of the session, and the token by which it shows that it has forgotten the session.
    pub(super) reset_token: Option<(UdpSessionId, [u8; RESET_TOKEN_BYTES])>,
    /// The time at which the last packet left that was not itself an identification.
    pub(super) last_sent: Option<Instant>,
    introductions: Introductions,
    /// The cookie that a remote must have sealed to prove that it has moved.
    pub(super) claim: Option<[u8; COOKIE]>,
    /// True if a record of the current datagram has opened.
    pub(super) heard: bool,
    /// The former address of the remote, the last one from which a record opened.
    pub(super) former: Option<Route>,
    /// True if a record other than the claim has opened from the present address.
    has_spoken: bool,
    /// The time at which a record from the former address was last questioned.
    asked: Option<Instant>,
    /// True while packets are sent to the former address as well.
    pub(super) is_doubtful: bool,
    /// Our address from which the system sends.
    source: Option<IpAddr>,
}

/// Limits the packets that identify us. The pause doubles while no record opens, since the `unknown` may be forged or
/// nobody may be there.
#[derive(Debug, Default)]
struct Introductions {
    last: Option<Instant>,
    unanswered: u32,
}

impl Introductions {
    fn try_identify(&mut self, now: Instant, rtt: Duration) -> bool {
        let pause = PAUSE.max(rtt).saturating_mul(1 << self.unanswered.saturating_sub(1).min(8));
        let is_due = self.last.is_none_or(|at| at + pause.min(LONGEST_PAUSE.max(rtt)) <= now);
        if is_due {
            self.last = Some(now);
            self.unanswered += 1;
        }
        is_due
    }
}

impl MigrationState {
    /// Notes that a record has opened, so that the next identification may leave soon.
    pub(super) fn note_heard(&mut self) {
        self.heard = true;
        self.introductions.unanswered = 0;
    }

    /// Notes a record from this address. Returns true if its sender must be questioned.
    fn question_former(&mut self, from: SocketAddr, now: Instant) -> bool {
        let is_former = self.former.is_some_and(|former| former.to == from);
        let asks = is_former && self.heard && self.asked.is_none_or(|at| at + PAUSE <= now);
        self.asked = if asks { Some(now) } else { self.asked };
        asks
    }

    /// Remembers our address from which the system sends to the remote, if the system chooses it.
    pub(super) fn remember_source(&mut self, route: Route, local: SocketAddr) {
        if route.from.is_none() && local.ip().is_unspecified() {
            self.source = source_for(route.to);
        }
    }
}

impl Entry {
    /// Identifies us to the remote, which does not know our new address.
    fn introduce(&mut self, cookie: &[u8; COOKIE], cx: &mut SessionContext<'_>) {
        let id = self.migration.reset_token.map(|(id, _)| id).or(self.migration.id);
        let Some(id) = id.filter(|_| self.is_busy()) else { return };
        let sent = self.migration.last_sent;
        let recent = RECENT.max(2 * self.session.rtt());
        let has_sent = sent.is_some_and(|at| cx.now < at + recent);
        if !has_sent || !self.migration.introductions.try_identify(cx.now, self.session.rtt()) {
            return;
        }
        cx.plain.clear();
        write_moved(cx.plain, cookie);
        self.seal_after([&[hello::MOVED][..], &id, cookie].concat(), cx);
        self.session.probe();
        self.pump(cx);
        self.migration.last_sent = sent;
    }

    /// Continues the session at the remote's new address, unless the remote has only repeated itself.
    fn handle_migration(&mut self, from: SocketAddr, cx: &mut SessionContext<'_>) {
        let to = self.route.to;
        if from == to {
            return self.greet(cx);
        }
        if let DtlsPhase::Up(identified) = &mut self.phase {
            let (connection, address) = (identified.connection, seen_at(Scheme::Udp, to));
            tracing::debug!(connection = connection.0, %from, %to, "the remote has another address");
            identified.address = address.clone();
            cx.events.push(Event::Moved { connection, address });
        }
        let change = if from.ip() == to.ip() { PathChange::Port } else { PathChange::Host };
        self.session.change_path(cx.now, change);
        self.greet(cx);
    }

    /// Sends from our new address, so that the remote learns it, and continues there.
    fn greet(&mut self, cx: &mut SessionContext<'_>) {
        if self.is_busy() {
            self.seal_ready(cx);
            self.pump(cx);
        }
    }

    /// Returns true if the system sends from another of our addresses than before.
    fn note_source(&mut self, source: IpAddr, cx: &mut SessionContext<'_>) -> bool {
        let before = self.route.from.take().or(self.migration.source);
        self.migration.source = Some(source);
        let is_other = before.is_some_and(|before| before != source);
        if is_other {
            tracing::debug!(to = %self.route.to, %source, "our address is another one");
            self.session.change_path(cx.now, PathChange::Host);
            self.greet(cx);
        }
        is_other
    }
}

impl EndpointTurn<'_> {
    /// Asks the sender of a record from an unknown address to identify its session.
    pub(super) fn challenge_sender(&mut self, route: Route, size: usize) {
        let is_closing = self.endpoint.context.closing.load(Ordering::Relaxed);
        if size > COOKIE && !is_closing && self.table.questions.try_take_token(self.now) {
            let cookie = self.table.cookies.make(self.now, route.to);
            self.table.outbox.push(route, &[&[hello::UNKNOWN], &cookie]);
        }
    }

    /// Handles a remote's answer that it does not know our address.
    pub(super) fn handle_unknown(&mut self, from: SocketAddr, cookie: &[u8; COOKIE]) {
        let Some(slot) = self.table.established.get(&from).copied() else { return };
        self.run_on_session(slot, |entry, cx| {
            if entry.route.to == from {
                entry.introduce(cookie, cx);
            }
            SessionChange::Same
        });
    }

    /// Handles a record with the id of its session.
    pub(super) fn handle_moved(&mut self, route: Route, id: &UdpSessionId, cookie: [u8; COOKIE], record: &[u8]) {
        let slot = self.table.ids.get(id).copied();
        let is_free = self.table.established.get(&route.to).is_none_or(|other| Some(*other) == slot);
        let is_there = self.table.cookies.check(self.now, route.to, &cookie);
        if slot.is_none() && is_there {
            return self.send_reset(route, id, record.len());
        }
        let Some(slot) = slot.filter(|_| is_free && is_there) else {
            return LiveSchemeCounters::add(&self.endpoint.live.malformed, 1);
        };
        let mut is_meant = false;
        self.run_on_session(slot, |entry, cx| {
            entry.migration.claim = Some(cookie);
            let turn = entry.receive(record, cx);
            is_meant = entry.migration.claim.take().is_none();
            turn
        });
        if is_meant {
            self.relocate(slot, route);
        }
    }

    /// Answers for a session that this end does not have: it is from an earlier run, or it has ended.
    fn send_reset(&mut self, route: Route, id: &UdpSessionId, size: usize) {
        if size > RESET_TOKEN_BYTES && self.table.questions.try_take_token(self.now) {
            let said = reset_token(&self.endpoint.forgotten, id);
            self.table.outbox.push(route, &[&[hello::RESET], &said]);
        }
    }

    /// Handles a remote's answer that it has forgotten a session. The answer is believed if it is the token that the
    /// remote gave us.
    pub(super) fn handle_reset(&mut self, from: SocketAddr, said: &[u8; RESET_TOKEN_BYTES]) {
        let Some(slot) = self.table.established.get(&from).copied() else { return };
        self.run_on_session(slot, |entry, cx| {
            let left = entry.migration.reset_token.filter(|_| entry.is_busy());
            if left.is_some_and(|(_, token)| verify_slices_are_equal(&token, said).is_ok()) {
                entry.end("the remote no longer knows the connection".to_owned(), cx);
            }
            SessionChange::Same
        });
    }

    /// Hands records to a session. If one from the remote's former address opens, the sender is asked if the remote is
    /// there again.
    pub(super) fn receive(&mut self, slot: SessionSlot, datagram: &[u8], route: Route) {
        let mut asks = false;
        self.run_on_session(slot, |entry, cx| {
            entry.migration.heard = false;
            let turn = entry.receive(datagram, cx);
            entry.migration.has_spoken |= entry.migration.heard && entry.route.to == route.to;
            asks = entry.migration.question_former(route.to, cx.now);
            turn
        });
        if asks {
            self.challenge_sender(route, datagram.len());
        }
    }

    /// Files a session under its new address. It is still found under the former one.
    fn relocate(&mut self, slot: SessionSlot, route: Route) {
        let Some(entry) = self.entry(slot) else { return };
        let old = std::mem::replace(&mut entry.route, route);
        if old.to != route.to {
            let returns = entry.migration.former.is_some_and(|former| former.to == route.to);
            // An address that was only claimed does not replace one from which records opened.
            let has_spoken = std::mem::replace(&mut entry.migration.has_spoken, returns);
            let is_lasting = has_spoken || returns || entry.migration.former.is_none();
            let forgotten = if is_lasting { entry.migration.former.replace(old) } else { Some(old) };
            let forgotten = forgotten.filter(|former| former.to != route.to);
            self.table.established.insert(route.to, slot);
            if let Some(forgotten) = forgotten {
                self.table.forget_address(forgotten.to, slot);
            }
        }
        self.run_on_session(slot, |entry, cx| {
            entry.handle_migration(old.to, cx);
            SessionChange::Same
        });
    }
}

impl UdpEndpoint {
    /// Checks if the system now sends from another of our addresses, and if so lets the affected remotes learn it.
    pub(crate) fn update_sources(self: &Arc<Self>) {
        if !self.local.ip().is_unspecified() {
            return;
        }
        let (mut sources, mut there, mut is_news) = (BTreeMap::new(), BTreeMap::new(), false);
        for (slot, route) in self.routes() {
            if route
                .from
                .is_some_and(|from| *there.entry(from).or_insert_with(|| is_local_address(from) != Some(false)))
            {
                continue;
            }
            let Some(source) = *sources.entry(route.to.ip()).or_insert_with(|| source_for(route.to)) else { continue };
            let mut table = self.lock();
            EndpointTurn::new(self, &mut table).run_on_session(slot, |entry, cx| {
                is_news |= entry.note_source(source, cx);
                SessionChange::Same
            });
        }
        if is_news {
            self.flush();
            self.context.queue.waker.wake();
        }
    }

    /// The routes of the sessions that are up or draining.
    fn routes(&self) -> Vec<(SessionSlot, Route)> {
        let table = self.lock();
        let entries = table.entries.iter().flatten().filter(|entry| entry.is_busy());
        entries.map(|entry| (entry.slot, entry.route)).collect()
    }
}

/// Our address from which the system would send to a remote.
pub(super) fn source_for(to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(unspecified(to)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unanswered_identification_backs_off() {
        let (mut moving, start) = (MigrationState::default(), Instant::now());
        let rtt = Duration::from_millis(10);
        let mut told = Vec::new();
        // The remote answers `unknown` every 50 ms.
        for ms in (0..=10_000).step_by(50) {
            if moving.introductions.try_identify(start + Duration::from_millis(ms), rtt) {
                told.push(ms);
            }
        }
        assert_eq!(told, [0, 50, 150, 350, 750, 1550, 3150, 5150, 7150, 9150]);
        // After an answer the pause is as short as at first.
        moving.note_heard();
        let later = start + Duration::from_millis(9200);
        assert!(moving.introductions.try_identify(later, rtt) && !moving.introductions.try_identify(later, rtt));
    }
}
