//! When the address of a peer, or ours, becomes another one: a NAT gives a new
//! port, a network a new address, a vehicle comes into another cell.
//!
//! Whose a record from an unknown address is, connection ids would tell
//! (RFC 9146); dimpl has none, and they cost some bytes of every packet. Here an
//! id is asked for when it is needed:
//!
//! ```text
//! peer, at another address                            we
//! record ──────────────────────────────────────▶ know nobody there
//!   ◀─────────────────────────────── unknown: a cookie of that address
//! moved: id, cookie, sealed: the cookie ───────▶ go on with the session there
//!   ◀───────────────────────────────────────────── ready
//! ```
//!
//! An end that knows no session of that id answers `forgotten` with the token that it left with the
//! other when the session began, see [`crate::stateless_reset`]: after a restart the other need not find
//! out by itself.
//!
//! That is one round trip, without a handshake. The cookie proves that the peer
//! can be reached where it says (as in RFC 9853), the seal that it is the peer
//! and means that address. We keep nothing for who asks and answer fewer bytes
//! than we got; an `unknown` is believed only by who has just sent something,
//! and leads to one small packet now and then, and a repeated one if something is
//! unacknowledged; ever more rarely as long as nothing is heard.
//!
//! Who can watch and inject may have the peer confirm a wrong address; so the
//! former one is remembered, and what asks whether the peer is there goes to both.
//! A record from there may only be late: RFC 9000, section 9.3, lets none but the
//! newest move a session, and dimpl does not tell the order of records. So it is
//! asked as well: who is there seals a new answer, and that takes the session back.
//!
//! What was sent reliably meanwhile is repeated at once. Datagrams of that round
//! trip are lost, as others are. Behind a NAT that has forgotten it, a peer is
//! reached again once it sends something itself, as who misses the rest of a
//! message does.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::datagram_queue::Route;
use super::endpoint::{Endpoint, SessionSlot};
use super::entry::{DtlsPhase, Entry, SessionChange, SessionContext};
use super::hello::{self, COOKIE, SessionId};
use super::session::write_moved;
use super::table::EndpointTurn;
use super::unspecified;
use crate::connection::seen_at;
use crate::counters::LiveSchemeCounters;
use crate::event::Event;
use crate::local_addresses::is_local_address;
use crate::stateless_reset::{RESET_TOKEN_BYTES, reset_token};
use roost_proto::Scheme;

/// Shortest time after the last packet in which `unknown` is believed.
const RECENT: Duration = Duration::from_secs(5);
/// The least time between two packets that tell who we are, and between two
/// questions to a former address.
const PAUSE: Duration = Duration::from_millis(50);
/// The most that it becomes while nobody answers, if the round trip is shorter.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a session keeps in case an address changes.
#[derive(Debug, Default)]
pub(super) struct MigrationState {
    pub(super) id: Option<SessionId>,
    /// Our id of the session, if the remote dialled us.
    pub(super) called: Option<SessionId>,
    /// The listener's id of it, and the token by which the listener shows that it has forgotten it.
    pub(super) reset_token: Option<(SessionId, [u8; RESET_TOKEN_BYTES])>,
    /// When a packet that somebody wanted sent has left.
    pub(super) last_sent: Option<Instant>,
    introductions: Introductions,
    /// What a peer must have sealed to be believed that it has moved.
    pub(super) claim: Option<[u8; COOKIE]>,
    /// Whether a record has opened.
    pub(super) heard: bool,
    /// Where the peer was before, the last address from which it spoke.
    pub(super) former: Option<Route>,
    /// Whether it has spoken from where it is now, apart from the claim.
    has_spoken: bool,
    /// When it was asked whether it is there again.
    asked: Option<Instant>,
    /// Whether what leaves goes there as well.
    pub(super) is_doubtful: bool,
    /// The address of ours that the system sends from.
    source: Option<IpAddr>,
}

/// When we may tell who we are: after a pause that doubles while nothing is
/// heard, since the question may be forged or nobody be there.
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
    /// A record has opened.
    pub(super) fn note_heard(&mut self) {
        self.heard = true;
        self.introductions.unanswered = 0;
    }

    /// Whether a record that comes from this address is to be asked about.
    fn may_have_returned(&mut self, from: SocketAddr, now: Instant) -> bool {
        let is_former = self.former.is_some_and(|former| former.to == from);
        let asks = is_former && self.heard && self.asked.is_none_or(|at| at + PAUSE <= now);
        self.asked = if asks { Some(now) } else { self.asked };
        asks
    }

    /// Remembers from which address of ours the system sends to the peer, if we
    /// leave that to it.
    pub(super) fn remember_source(&mut self, route: Route, local: SocketAddr) {
        if route.from.is_none() && local.ip().is_unspecified() {
            self.source = source_for(route.to);
        }
    }
}

impl Entry {
    /// Tells the peer, which does not know us where we are now, who we are.
    fn introduce(&mut self, cookie: &[u8; COOKIE], desk: &mut SessionContext<'_>) {
        let id = self.migration.reset_token.map(|(id, _)| id).or(self.migration.id);
        let Some(id) = id.filter(|_| self.is_busy()) else { return };
        let sent = self.migration.last_sent;
        let recent = RECENT.max(2 * self.session.rtt());
        let has_sent = sent.is_some_and(|at| desk.now < at + recent);
        if !has_sent || !self.migration.introductions.try_identify(desk.now, self.session.rtt()) {
            return;
        }
        desk.plain.clear();
        write_moved(desk.plain, cookie);
        self.seal_after([&[hello::MOVED][..], &id, cookie].concat(), desk);
        self.session.probe();
        self.pump(desk);
        self.migration.last_sent = sent;
    }

    /// The peer is somewhere else now, unless it only says so again.
    fn handle_migration(&mut self, from: SocketAddr, desk: &mut SessionContext<'_>) {
        let to = self.route.to;
        if from == to {
            return self.greet(desk);
        }
        if let DtlsPhase::Up(identified) = &mut self.phase {
            let (connection, address) = (identified.connection, seen_at(Scheme::Udp, to));
            tracing::debug!(connection = connection.0, %from, %to, "the peer has another address");
            identified.address = address.clone();
            desk.events.push(Event::Moved { connection, address });
        }
        self.session.change_path(desk.now, from.ip() != to.ip());
        self.greet(desk);
    }

    /// Lets the peer hear of us where we are, and goes on from there.
    fn greet(&mut self, desk: &mut SessionContext<'_>) {
        if self.is_busy() {
            self.seal_ready(desk);
            self.pump(desk);
        }
    }

    /// Answers whether the system sends from another address of ours than before.
    fn note_source(&mut self, source: IpAddr, desk: &mut SessionContext<'_>) -> bool {
        let before = self.route.from.take().or(self.migration.source);
        self.migration.source = Some(source);
        let is_other = before.is_some_and(|before| before != source);
        if is_other {
            tracing::debug!(to = %self.route.to, %source, "our address is another one");
            self.session.change_path(desk.now, true);
            self.greet(desk);
        }
        is_other
    }
}

impl EndpointTurn<'_> {
    /// A record from where we know nobody: whoever it is may tell.
    pub(super) fn challenge_sender(&mut self, route: Route, size: usize) {
        let is_closing = self.endpoint.context.closing.load(Ordering::Relaxed);
        if size > COOKIE && !is_closing && self.table.questions.try_take_token(self.now) {
            let cookie = self.table.cookies.make(self.now, route.to);
            self.table.outbox.push(route, &[&[hello::UNKNOWN], &cookie]);
        }
    }

    /// A peer says that it does not know us.
    pub(super) fn handle_unknown(&mut self, from: SocketAddr, cookie: &[u8; COOKIE]) {
        let Some(slot) = self.table.established.get(&from).copied() else { return };
        self.with(slot, |entry, desk| {
            if entry.route.to == from {
                entry.introduce(cookie, desk);
            }
            SessionChange::Same
        });
    }

    /// Somebody says which session a record is of.
    pub(super) fn handle_moved(&mut self, route: Route, id: &SessionId, cookie: [u8; COOKIE], record: &[u8]) {
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
        self.with(slot, |entry, desk| {
            entry.migration.claim = Some(cookie);
            let turn = entry.receive(record, desk);
            is_meant = entry.migration.claim.take().is_none();
            turn
        });
        if is_meant {
            self.relocate(slot, route);
        }
    }

    /// A session that nobody here has: from an earlier run of ours, or it is over.
    fn send_reset(&mut self, route: Route, id: &SessionId, size: usize) {
        if size > RESET_TOKEN_BYTES && self.table.questions.try_take_token(self.now) {
            let said = reset_token(&self.endpoint.forgotten, id);
            self.table.outbox.push(route, &[&[hello::RESET], &said]);
        }
    }

    /// A peer says that it has forgotten a session: believed if it says what it left with us.
    pub(super) fn handle_reset(&mut self, from: SocketAddr, said: &[u8; RESET_TOKEN_BYTES]) {
        let Some(slot) = self.table.established.get(&from).copied() else { return };
        self.with(slot, |entry, desk| {
            let left = entry.migration.reset_token.filter(|_| entry.is_busy());
            if left.is_some_and(|(_, token)| verify_slices_are_equal(&token, said).is_ok()) {
                entry.end("the peer no longer knows the connection".to_owned(), desk);
            }
            SessionChange::Same
        });
    }

    /// Hands records to a session; where the peer was before, one that opens has
    /// us ask whether the peer is there again.
    pub(super) fn receive(&mut self, slot: SessionSlot, datagram: &[u8], route: Route) {
        let mut asks = false;
        self.with(slot, |entry, desk| {
            entry.migration.heard = false;
            let turn = entry.receive(datagram, desk);
            entry.migration.has_spoken |= entry.migration.heard && entry.route.to == route.to;
            asks = entry.migration.may_have_returned(route.to, desk.now);
            turn
        });
        if asks {
            self.challenge_sender(route, datagram.len());
        }
    }

    /// Enters a session under its new address; it is still found under the last one.
    fn relocate(&mut self, slot: SessionSlot, route: Route) {
        let Some(entry) = self.entry(slot) else { return };
        let old = std::mem::replace(&mut entry.route, route);
        if old.to != route.to {
            let returns = entry.migration.former.is_some_and(|former| former.to == route.to);
            // An address that was only claimed does not take the place of one it spoke from.
            let has_spoken = std::mem::replace(&mut entry.migration.has_spoken, returns);
            let is_lasting = has_spoken || returns || entry.migration.former.is_none();
            let forgotten = if is_lasting { entry.migration.former.replace(old) } else { Some(old) };
            let forgotten = forgotten.filter(|former| former.to != route.to);
            self.table.established.insert(route.to, slot);
            if let Some(forgotten) = forgotten {
                self.table.forget_address(forgotten.to, slot);
            }
        }
        self.with(slot, |entry, desk| {
            entry.handle_migration(old.to, desk);
            SessionChange::Same
        });
    }
}

impl Endpoint {
    /// Looks whether the system now sends from another address of ours, and has
    /// the peers learn of it that are concerned.
    pub(crate) fn look_around(self: &Arc<Self>) {
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
            EndpointTurn::new(self, &mut table).with(slot, |entry, desk| {
                is_news |= entry.note_source(source, desk);
                SessionChange::Same
            });
        }
        if is_news {
            self.flush();
            self.context.queue.waker.wake();
        }
    }

    /// Where the peers are whose connections we dialled or that know us by one address.
    fn routes(&self) -> Vec<(SessionSlot, Route)> {
        let table = self.lock();
        let entries = table.entries.iter().flatten().filter(|entry| entry.is_busy());
        entries.map(|entry| (entry.slot, entry.route)).collect()
    }
}

/// The address of ours from which the system would send to a peer.
fn source_for(to: SocketAddr) -> Option<IpAddr> {
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
        // Somebody asks every 50 ms.
        for ms in (0..=10_000).step_by(50) {
            if moving.introductions.try_identify(start + Duration::from_millis(ms), rtt) {
                told.push(ms);
            }
        }
        assert_eq!(told, [0, 50, 150, 350, 750, 1550, 3150, 5150, 7150, 9150]);
        // An answer makes it as quick as before.
        moving.note_heard();
        let later = start + Duration::from_millis(9200);
        assert!(moving.introductions.try_identify(later, rtt) && !moving.introductions.try_identify(later, rtt));
    }
}
