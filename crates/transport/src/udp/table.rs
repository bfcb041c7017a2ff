//! The sessions of an endpoint, filed by address and by id, with their timers. Decides to which session a datagram
//! belongs.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use roost_wire::RoleSet;

use super::answers::Trust;
use super::datagram_queue::{DatagramQueue, Refused, Route};
use super::endpoint::{SessionSlot, UdpEndpoint};
use super::entry::{DtlsPhase, Entry, SessionChange, SessionContext};
use super::handshake::{Handshake, PendingDial};
use super::hello::{self, Bucket, ClientHello, Cookies, DatagramKind, UdpSessionId};
use super::session::Session;
use super::unread::UnreadQueue;
use crate::config::Limits;
use crate::counters::LiveSchemeCounters;
use crate::event::Event;
use crate::handshake_limiter::{HandshakeLimiter, HandshakeRateLimiter};
use crate::handshake_side::HandshakeSide;

/// The most timers that fire in one turn.
const TIMERS: usize = 256;
/// Room for an output of dimpl: a record, or the remote's certificate, which is no longer than the fragments that dimpl
/// keeps.
const OUTPUT: usize = 64 * 1024;

/// The sessions of an endpoint and the state that they share.
pub(super) struct SessionTable {
    /// At most [`crate::Limits::connections`] and [`crate::Limits::handshakes`], plus those that we dialed.
    pub(super) entries: Vec<Option<Box<Entry>>>,
    free: Vec<SessionSlot>,
    /// By the remote's address, and by its former one.
    pub(super) established: HashMap<SocketAddr, SessionSlot>,
    /// By id, so that a remote is found at any address.
    pub(super) ids: HashMap<UdpSessionId, SessionSlot>,
    pub(super) handshaking: HashMap<SocketAddr, SessionSlot>,
    /// The limit on strangers whose handshakes are under way.
    pub(super) handshake_limiter: Arc<HandshakeLimiter>,
    pub(super) shares: HandshakeRateLimiter,
    /// The budget of questions to unknown senders, as many as handshakes.
    pub(super) questions: Bucket,
    pub(super) cookies: Cookies,
    pub(super) timers: BTreeSet<(Instant, SessionSlot)>,
    stirred: Vec<SessionSlot>,
    pub(super) unread: UnreadQueue,
    pub(super) outbox: DatagramQueue,
    pub(super) events: Vec<Event>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl SessionTable {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// The system has no randomness for the cookies.
    pub(super) fn new(limits: &Limits) -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            entries: Vec::new(),
            free: Vec::new(),
            established: HashMap::new(),
            ids: HashMap::new(),
            handshaking: HashMap::new(),
            handshake_limiter: HandshakeLimiter::new(limits.handshakes),
            shares: HandshakeRateLimiter::new(limits.handshakes_per_second, now),
            questions: Bucket::new(limits.handshakes_per_second, now),
            cookies: Cookies::new(now).ok_or_else(|| io::Error::other("the system has no randomness"))?,
            timers: BTreeSet::new(),
            stirred: Vec::new(),
            unread: UnreadQueue::new(),
            outbox: DatagramQueue::default(),
            events: Vec::new(),
            plain: Vec::with_capacity(2048),
            sealed: vec![0; OUTPUT],
        })
    }
}

impl SessionTable {
    /// Keeps the system's refusal of a datagram, so that a dial that fails can report it.
    pub(super) fn note_refused(&mut self, refused: Refused) {
        let slot = self.handshaking.get(&refused.to).copied();
        let entry = slot.and_then(|slot| self.entries.get_mut(slot as usize)).and_then(Option::as_deref_mut);
        if let Some(Entry { phase: DtlsPhase::Handshake(handshake), .. }) = entry {
            handshake.unsent = Some(refused.why);
        }
    }

    /// Removes a session from an address, unless another session has taken it.
    pub(super) fn forget_address(&mut self, address: SocketAddr, slot: SessionSlot) {
        if self.established.get(&address) == Some(&slot) {
            self.established.remove(&address);
        }
    }
}

/// The borrowed parts of a turn, in which an endpoint works.
pub(super) struct EndpointTurn<'a> {
    pub(super) endpoint: &'a Arc<UdpEndpoint>,
    pub(super) table: &'a mut SessionTable,
    pub(super) now: Instant,
}

impl<'a> EndpointTurn<'a> {
    pub(super) fn new(endpoint: &'a Arc<UdpEndpoint>, table: &'a mut SessionTable) -> Self {
        Self { endpoint, table, now: Instant::now() }
    }

    pub(super) fn handle(&mut self, datagram: &[u8], from: SocketAddr, to: Option<IpAddr>) {
        let route = Route { to: from, from: to.filter(|_| self.endpoint.local.ip().is_unspecified()) };
        match hello::classify(datagram) {
            DatagramKind::Records { epoch: Some(epoch) } => self.handle_records(datagram, route, epoch),
            DatagramKind::Records { epoch: None } => self.handle_doubtful(datagram, from),
            DatagramKind::Hello { greeting, records } => self.handle_hello(records, route, &greeting),
            DatagramKind::Echo { random, answer } => self.handle_echo(route, random, answer),
            DatagramKind::Retry(cookie) => self.handle_retry(from, cookie, Trust::Doubtful),
            DatagramKind::Unknown(cookie) => self.handle_unknown(from, &cookie),
            DatagramKind::Reset(said) => self.handle_reset(from, &said),
            DatagramKind::Moved { id, cookie, record } => self.handle_moved(route, &id, cookie, record),
            DatagramKind::Noise => LiveSchemeCounters::add(&self.endpoint.live.malformed, 1),
        }
    }

    /// Handles encrypted records. They belong to the session at the address, to a handshake there, or, while a remote's
    /// session is being replaced, to either.
    fn handle_records(&mut self, datagram: &[u8], route: Route, epoch: u8) {
        const APPLICATION: u8 = 3;
        let from = route.to;
        let established = self.table.established.get(&from).copied();
        let handshaking = self.table.handshaking.get(&from).copied();
        match (established, handshaking) {
            (Some(slot), None) | (None, Some(slot)) => self.receive(slot, datagram, route),
            (Some(old), Some(new)) => {
                if epoch == APPLICATION {
                    self.receive(old, datagram, route);
                }
                self.receive(new, datagram, route);
            }
            (None, None) => {
                LiveSchemeCounters::add(&self.endpoint.live.malformed, 1);
                if epoch == APPLICATION {
                    self.challenge_sender(route, datagram.len());
                }
            }
        }
    }

    fn handle_hello(&mut self, records: &[u8], route: Route, greeting: &ClientHello) {
        let random = greeting.random;
        let mut inherited = None;
        if let Some(slot) = self.table.handshaking.get(&route.to).copied() {
            let Some(entry) = self.entry(slot) else { return };
            let DtlsPhase::Handshake(handshake) = &mut entry.phase else { return };
            if !handshake.client && handshake.random == Some(random) {
                self.run_on_session(slot, |entry, cx| entry.receive(records, cx));
                return;
            }
            // If two remotes dial each other at once, the greater random goes on. A remote that has answered our
            // handshake and still begins one has given ours up.
            if handshake.client && handshake.random >= Some(random) && !handshake.has_heard() {
                return;
            }
            // A sender that can forge the remote's address must not end the present handshake.
            if !self.proves(route, greeting) {
                return;
            }
            let Some(Entry { phase: DtlsPhase::Handshake(handshake), .. }) = self.entry(slot) else { return };
            inherited = handshake.dial.take().map(|dial| (dial, (handshake.since, handshake.until)));
            self.run_on_session(slot, |entry, _| {
                entry.phase = DtlsPhase::Gone;
                SessionChange::Same
            });
        }
        let mut place = None;
        if inherited.is_none() {
            let Some(admitted) = self.admit(route, greeting, records.len()) else { return };
            place = Some(admitted);
        }
        let is_proved = self.has_proved(route, greeting);
        let (dial, time) = inherited.unzip();
        let expect = dial.as_ref().map_or(self.endpoint.context.admit, |dial: &PendingDial| dial.request.expect);
        let Some(slot) = self.begin(route, dial, HandshakeSide::Server, expect) else { return };
        if let Some(Entry { phase: DtlsPhase::Handshake(handshake), .. }) = self.entry(slot) {
            handshake.random = Some(random);
            handshake.echo = greeting.echo();
            handshake.is_proved = is_proved;
            handshake.slot = place;
            // A dial keeps its time limit, however often the remote begins a new handshake.
            (handshake.since, handshake.until) = time.unwrap_or((handshake.since, handshake.until));
        }
        self.run_on_session(slot, |entry, cx| entry.receive(records, cx));
    }

    /// Adds a new handshake, and sends its first flight if it is ours.
    pub(super) fn begin(
        &mut self,
        route: Route,
        dial: Option<PendingDial>,
        side: HandshakeSide,
        expect: RoleSet,
    ) -> Option<SessionSlot> {
        let endpoint = self.endpoint;
        let limits = endpoint.context.limits;
        let slot = self.table.free.pop().unwrap_or(self.table.entries.len() as SessionSlot);
        let dtls = endpoint.dtls(side, self.now);
        let known =
            endpoint.context.round_trips.expected_rtt(route.to.ip(), dial.as_ref().and_then(|dial| dial.request.node));
        let limit = match side {
            HandshakeSide::Client => limits.first_answer(known),
            HandshakeSide::Server => limits.incoming_handshake_timeout(),
        };
        let handshake = Handshake::new(side, dial, expect, self.now, limit);
        let session = Session::new(limits.packet(), limits.connection_queue_bytes, limit);
        let entry = Entry::new(slot, route, dtls, session, handshake);
        if slot as usize == self.table.entries.len() {
            self.table.entries.push(None);
        }
        self.table.entries[slot as usize] = Some(Box::new(entry));
        self.table.handshaking.insert(route.to, slot);
        self.run_on_session(slot, |entry, cx| entry.start(cx));
        self.entry(slot).map(|entry| entry.slot)
    }

    pub(super) fn entry(&mut self, slot: SessionSlot) -> Option<&mut Entry> {
        self.table.entries.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Runs `work` on a session and updates the tables. Returns true if the endpoint's next deadline has come closer.
    pub(super) fn run_on_session(
        &mut self,
        slot: SessionSlot,
        work: impl FnOnce(&mut Entry, &mut SessionContext<'_>) -> SessionChange,
    ) -> bool {
        let Some(mut entry) = self.table.entries.get_mut(slot as usize).and_then(Option::take) else { return false };
        let was_stirred = entry.stirred;
        let was_handshake = matches!(entry.phase, DtlsPhase::Handshake(_));
        if let SessionChange::Established { dial, early } = work(&mut entry, &mut self.session_context()) {
            self.promote(&entry);
            entry.announce(dial, early, &mut self.session_context());
        }
        if was_handshake && !matches!(entry.phase, DtlsPhase::Handshake(_)) {
            self.leave_handshake(&entry);
        }
        if matches!(entry.phase, DtlsPhase::Gone) {
            self.remove(&entry);
            return false;
        }
        if entry.stirred && !was_stirred {
            self.table.stirred.push(slot);
        }
        let sooner = self.arm(&mut entry);
        self.table.entries[slot as usize] = Some(entry);
        sooner
    }

    fn session_context(&mut self) -> SessionContext<'_> {
        let table = &mut *self.table;
        SessionContext {
            now: self.now,
            context: &self.endpoint.context,
            endpoint: self.endpoint,
            live: &self.endpoint.live,
            outbox: &mut table.outbox,
            events: &mut table.events,
            plain: &mut table.plain,
            sealed: &mut table.sealed,
        }
    }

    /// Files a session under its address, in place of the one that was there.
    fn promote(&mut self, entry: &Entry) {
        if let Some(node) = entry.node() {
            self.table.unread.promote(entry.route.to, node);
        }
        for id in [entry.migration.id, entry.migration.accepted_id].into_iter().flatten() {
            self.table.ids.entry(id).or_insert(entry.slot);
        }
        let at = entry.route.to;
        if let Some(old) = self.table.established.insert(at, entry.slot) {
            self.run_on_session(old, |old, cx| {
                match old.route.to == at {
                    true => old.end("the remote has begun anew".into(), cx),
                    // The old session's remote has moved, and another remote has its former address now.
                    false => old.migration.former = None,
                }
                SessionChange::Same
            });
        }
    }

    /// Removes a session from the table of handshakes. One that sends its farewell stays reachable, unless its address
    /// has another session.
    fn leave_handshake(&mut self, entry: &Entry) {
        if self.table.handshaking.get(&entry.route.to) == Some(&entry.slot) {
            self.table.handshaking.remove(&entry.route.to);
        }
        if matches!(entry.phase, DtlsPhase::Closed { .. }) {
            self.table.established.entry(entry.route.to).or_insert(entry.slot);
        }
    }

    fn remove(&mut self, entry: &Entry) {
        if let Some(at) = entry.timer {
            self.table.timers.remove(&(at, entry.slot));
        }
        self.table.forget_address(entry.route.to, entry.slot);
        if let Some(former) = entry.migration.former {
            self.table.forget_address(former.to, entry.slot);
        }
        for id in [entry.migration.id, entry.migration.accepted_id].into_iter().flatten() {
            if self.table.ids.get(&id) == Some(&entry.slot) {
                self.table.ids.remove(&id);
            }
        }
        self.table.free.push(entry.slot);
    }

    /// Updates the timer table. Returns true if the first timer has come closer.
    fn arm(&mut self, entry: &mut Entry) -> bool {
        let wanted = entry.deadline();
        if wanted == entry.timer {
            return false;
        }
        if let Some(at) = entry.timer {
            self.table.timers.remove(&(at, entry.slot));
        }
        entry.timer = wanted;
        let Some(at) = wanted else { return false };
        self.table.timers.insert((at, entry.slot));
        self.table.timers.first() == Some(&(at, entry.slot))
    }

    pub(super) fn fire_timers(&mut self) {
        for _ in 0..TIMERS {
            let Some((at, slot)) = self.table.timers.first().copied().filter(|(at, _)| *at <= self.now) else { return };
            self.run_on_session(slot, |entry, cx| {
                // A deadline that has not changed must not fire again at once.
                entry.timer = Some(at);
                entry.handle_timeout(cx)
            });
        }
    }

    /// Sends the packets that acknowledgements and arrivals have allowed.
    pub(super) fn pump_stirred(&mut self) {
        while let Some(slot) = self.table.stirred.pop() {
            self.run_on_session(slot, |entry, cx| {
                if entry.stirred {
                    entry.pump(cx);
                }
                SessionChange::Same
            });
        }
    }
}
