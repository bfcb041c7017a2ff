//! A socket and its sessions.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context as Waking;
use std::time::Instant;

use bytes::Bytes;
use dimpl::{Dtls, DtlsCertificate};
use quinn::udp::{RecvMeta, UdpSocketState};
use roost_proto::{Channel, LinkId, RoleSet};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::Udp;
use super::entry::{Desk, Entry, Phase, Turn};
use super::handshake::{Dialling, Handshake};
use super::hello::{self, Bucket, Cookies, Kind};
use super::outbox::{Outbox, Route};
use super::session::Session;
use crate::counters::Live;
use crate::error::SendError;
use crate::event::Event;
use crate::link::LinkInfo;
use crate::transport::Context;

/// Where a session is in its endpoint's table.
pub(crate) type Slot = u32;

/// Buffers for one call to the system.
const BATCH: usize = 16;
/// Size of each: what the system may merge into one.
const BUFFER: usize = 64 * 1024;
/// Calls to the system in one turn.
const BATCHES: usize = 4;
/// Turns in one poll, unless something happens earlier.
const TURNS: usize = 4;
/// Timers that fire in one turn.
const TIMERS: usize = 256;
/// Room for what dimpl puts out: a record, or the peer's certificate, which is
/// no longer than what [`Handshake::admits`].
const OUTPUT: usize = 64 * 1024;
/// Room that is asked of the system for arriving datagrams.
const SOCKET_BUFFER: usize = 4 << 20;

/// A socket and its sessions.
pub(crate) struct Endpoint {
    socket: UdpSocket,
    io: UdpSocketState,
    local: SocketAddr,
    context: Arc<Context>,
    live: Arc<Live>,
    config: Arc<dimpl::Config>,
    certificate: DtlsCertificate,
    state: Mutex<State>,
}

struct State {
    /// At most [`crate::Limits::links`] and [`crate::Limits::handshakes`], plus
    /// what we dialled.
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<Slot>,
    established: HashMap<SocketAddr, Slot>,
    handshaking: HashMap<SocketAddr, Slot>,
    /// Handshakes that strangers began.
    strangers: usize,
    bucket: Bucket,
    cookies: Cookies,
    timers: BTreeSet<(Instant, Slot)>,
    stirred: Vec<Slot>,
    outbox: Outbox,
    events: Vec<Event>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    buffers: Vec<u8>,
}

/// The borrowed parts of a turn.
struct Turning<'a> {
    endpoint: &'a Arc<Endpoint>,
    state: &'a mut State,
    now: Instant,
}

impl Endpoint {
    pub(super) fn bind(at: SocketAddr, udp: &Udp) -> io::Result<Arc<Self>> {
        let socket = std::net::UdpSocket::bind(at)?;
        let io = UdpSocketState::new((&socket).into())?;
        // The system grants what it allows; less only costs losses under load.
        let _ = io.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = io.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let now = Instant::now();
        let cookies = Cookies::new(now).ok_or_else(|| io::Error::other("the system has no randomness"))?;
        let state = State {
            entries: Vec::new(),
            free: Vec::new(),
            established: HashMap::new(),
            handshaking: HashMap::new(),
            strangers: 0,
            bucket: Bucket::new(udp.context.limits.handshakes_per_second, now),
            cookies,
            timers: BTreeSet::new(),
            stirred: Vec::new(),
            outbox: Outbox::default(),
            events: Vec::new(),
            plain: Vec::with_capacity(2048),
            sealed: vec![0; OUTPUT],
            buffers: vec![0; BATCH * BUFFER],
        };
        Ok(Arc::new(Self {
            local: socket.local_addr()?,
            socket: UdpSocket::from_std(socket)?,
            io,
            context: Arc::clone(&udp.context),
            live: Arc::clone(&udp.live),
            config: Arc::clone(&udp.config),
            certificate: udp.certificate.clone(),
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether a link to this address is up.
    pub(super) fn has_link_to(&self, to: SocketAddr) -> bool {
        let mut state = self.lock();
        let slot = state.established.get(&to).copied();
        let entry = slot.and_then(|slot| state.entries.get_mut(slot as usize)).and_then(Option::as_deref_mut);
        entry.is_some_and(|entry| entry.is_busy())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what has arrived, runs what is due, sends what follows, and hands
    /// out what has happened. Answers when it must be called again even if
    /// nothing arrives.
    pub(crate) fn poll(self: &Arc<Self>, cx: &mut Waking<'_>, events: &mut impl Extend<Event>) -> Option<Instant> {
        let mut state = self.lock();
        let mut more = true;
        for _ in 0..TURNS {
            more = self.turn(&mut state) || self.socket.poll_recv_ready(cx).is_ready();
            if !more || !state.events.is_empty() {
                break;
            }
        }
        if more {
            cx.waker().wake_by_ref();
        }
        if !state.outbox.is_empty() && self.socket.poll_send_ready(cx).is_ready() {
            state.outbox.flush(&self.socket, &self.io, &self.live);
        }
        events.extend(state.events.drain(..));
        state.timers.first().map(|(at, _)| *at)
    }

    /// As [`Self::poll`], without asking to be woken. Answers whether the link
    /// has something left to deliver or to say.
    pub(crate) fn wind_down(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        self.turn(&mut state);
        state.events.clear();
        !state.outbox.is_empty() || state.entries.iter().flatten().any(|entry| entry.is_busy())
    }

    /// One bounded round of work; answers whether there may be more to read.
    fn turn(self: &Arc<Self>, state: &mut State) -> bool {
        let mut turning = Turning { endpoint: self, state, now: Instant::now() };
        let more = turning.read();
        turning.fire_timers();
        turning.pump_stirred();
        state.outbox.flush(&self.socket, &self.io, &self.live);
        more
    }

    /// Begins a handshake.
    pub(super) fn dial(self: &Arc<Self>, to: SocketAddr, dialling: Dialling) {
        let mut state = self.lock();
        let mut turning = Turning { endpoint: self, state: &mut state, now: Instant::now() };
        if let Some(slot) = turning.state.handshaking.get(&to).copied() {
            if let Some(Entry { phase: Phase::Handshake(handshake), .. }) = turning.entry(slot) {
                handshake.adopt(dialling);
            }
            return;
        }
        let expect = dialling.expect;
        turning.begin(Route { to, from: None }, Some(dialling), true, expect);
        state.outbox.flush(&self.socket, &self.io, &self.live);
        drop(state);
        self.context.queue.waker.wake();
    }

    /// Seals a message into the outbox.
    pub(crate) fn send(
        self: &Arc<Self>,
        slot: Slot,
        link: LinkId,
        channel: Channel,
        message: Bytes,
    ) -> Result<(), SendError> {
        let mut state = self.lock();
        let mut sent = Err(SendError::NoLink(link));
        let mut turning = Turning { endpoint: self, state: &mut state, now: Instant::now() };
        let sooner = turning.with(slot, |entry, desk| {
            sent = entry.send(link, channel, message, desk);
            Turn::Same
        });
        let failed = !state.events.is_empty();
        drop(state);
        if sooner || failed {
            self.context.queue.waker.wake();
        }
        sent
    }

    /// Hands the outbox to the socket.
    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        if !state.outbox.is_empty() {
            state.outbox.flush(&self.socket, &self.io, &self.live);
            if !state.outbox.is_empty() {
                self.context.queue.waker.wake();
            }
        }
    }

    /// Closes a link once what was sent has been acknowledged.
    pub(crate) fn close(self: &Arc<Self>, slot: Slot, link: LinkId, reason: String) {
        let mut state = self.lock();
        let mut turning = Turning { endpoint: self, state: &mut state, now: Instant::now() };
        turning.with(slot, |entry, desk| {
            entry.close(link, reason, desk);
            Turn::Same
        });
        state.outbox.flush(&self.socket, &self.io, &self.live);
        drop(state);
        self.context.queue.waker.wake();
    }

    pub(crate) fn info(&self, slot: Slot, link: LinkId) -> Option<LinkInfo> {
        self.lock().entries.get(slot as usize)?.as_ref()?.info(link)
    }
}

impl Turning<'_> {
    /// Reads up to [`BATCHES`] times; answers whether there may be more.
    fn read(&mut self) -> bool {
        let mut buffers = std::mem::take(&mut self.state.buffers);
        let mut more = true;
        for _ in 0..BATCHES {
            let mut meta = [RecvMeta::default(); BATCH];
            let received = self.endpoint.receive(&mut buffers, &mut meta);
            for (buffer, meta) in buffers.chunks(BUFFER).zip(&meta[..received]) {
                for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    self.handle(datagram, meta.addr, meta.dst_ip);
                }
            }
            more = received == BATCH;
            if !more {
                break;
            }
        }
        self.state.buffers = buffers;
        more
    }

    /// A datagram has arrived.
    fn handle(&mut self, datagram: &[u8], from: SocketAddr, to: Option<IpAddr>) {
        Live::add(&self.endpoint.live.bytes_received, datagram.len() as u64);
        Live::add(&self.endpoint.live.datagrams_received, 1);
        let route = Route { to: from, from: to.filter(|_| self.endpoint.local.ip().is_unspecified()) };
        match hello::classify(datagram) {
            Kind::Records { epoch } => self.handle_records(datagram, from, epoch),
            Kind::Hello { random, cookie, records } => self.handle_hello(records, route, random, cookie),
            Kind::Retry(cookie) => self.handle_retry(from, cookie),
            Kind::Noise => Live::add(&self.endpoint.live.malformed, 1),
        }
    }

    /// Records belong to the session under the address, to a handshake under
    /// it, or, while a peer is being replaced, to either.
    fn handle_records(&mut self, datagram: &[u8], from: SocketAddr, epoch: Option<u8>) {
        const APPLICATION: Option<u8> = Some(3);
        let established = self.state.established.get(&from).copied();
        let handshaking = self.state.handshaking.get(&from).copied();
        let receive = |entry: &mut Entry, desk: &mut Desk<'_>| entry.receive(datagram, desk);
        match (established, handshaking) {
            (Some(slot), None) | (None, Some(slot)) => {
                self.with(slot, receive);
            }
            (Some(old), Some(new)) => {
                if epoch == APPLICATION {
                    self.with(old, receive);
                }
                self.with(new, receive);
            }
            (None, None) => Live::add(&self.endpoint.live.malformed, 1),
        }
    }

    fn handle_hello(&mut self, records: &[u8], route: Route, random: [u8; 32], cookie: Option<[u8; hello::COOKIE]>) {
        let mut inherited = None;
        if let Some(slot) = self.state.handshaking.get(&route.to).copied() {
            let Some(entry) = self.entry(slot) else { return };
            let Phase::Handshake(handshake) = &mut entry.phase else { return };
            if !handshake.client && handshake.random == Some(random) {
                self.with(slot, |entry, desk| entry.receive(records, desk));
                return;
            }
            if handshake.client && handshake.random >= Some(random) {
                return;
            }
            inherited = handshake.dial.take();
            self.with(slot, |entry, _| {
                entry.phase = Phase::Gone;
                Turn::Same
            });
        }
        if inherited.is_none() && !self.admit(route, cookie) {
            return;
        }
        let expect = inherited.as_ref().map_or(self.endpoint.context.admit, |dial| dial.expect);
        let Some(slot) = self.begin(route, inherited, false, expect) else { return };
        if let Some(Entry { phase: Phase::Handshake(handshake), .. }) = self.entry(slot) {
            handshake.random = Some(random);
        }
        self.with(slot, |entry, desk| entry.receive(records, desk));
    }

    /// Whether a stranger may begin a handshake.
    fn admit(&mut self, route: Route, cookie: Option<[u8; hello::COOKIE]>) -> bool {
        let limit = self.endpoint.context.limits.handshakes;
        let proved = cookie.is_some_and(|cookie| self.state.cookies.check(self.now, route.to, &cookie));
        if !proved && self.state.strangers * 4 >= limit {
            let cookie = self.state.cookies.make(self.now, route.to);
            self.state.outbox.push(route, &[&[hello::RETRY], &cookie]);
            return false;
        }
        let admitted = self.state.strangers < limit && self.state.bucket.take(self.now);
        if !admitted {
            Live::add(&self.endpoint.live.turned_away, 1);
        }
        admitted
    }

    /// The listener wants proof of our address.
    fn handle_retry(&mut self, from: SocketAddr, cookie: [u8; hello::COOKIE]) {
        let Some(slot) = self.state.handshaking.get(&from).copied() else { return };
        let Some(Entry { phase: Phase::Handshake(handshake), route, .. }) = self.entry(slot) else { return };
        if !handshake.client || handshake.has_heard() || handshake.cookie.is_some() {
            return;
        }
        handshake.cookie = Some(cookie);
        let (route, hello) = (*route, handshake.hello.clone());
        self.state.outbox.push(route, &[&[hello::PROVED], &cookie, &hello]);
    }

    /// Enters a new handshake and lets it speak first if it is ours.
    fn begin(&mut self, route: Route, dial: Option<Dialling>, client: bool, expect: RoleSet) -> Option<Slot> {
        let endpoint = self.endpoint;
        let limits = endpoint.context.limits;
        let slot = self.state.free.pop().unwrap_or(self.state.entries.len() as Slot);
        let mut dtls = Dtls::new_13(Arc::clone(&endpoint.config), endpoint.certificate.clone(), self.now);
        dtls.set_active(client);
        let handshake = Handshake::new(client, dial, expect, self.now, limits.handshake_timeout);
        let session = Session::new(limits.packet(), limits.link_queue_bytes, limits.handshake_timeout);
        let entry = Entry::new(slot, route, dtls, session, handshake);
        if slot as usize == self.state.entries.len() {
            self.state.entries.push(None);
        }
        self.state.entries[slot as usize] = Some(Box::new(entry));
        self.state.handshaking.insert(route.to, slot);
        self.state.strangers += usize::from(!client);
        self.with(slot, |entry, desk| entry.start(desk));
        self.entry(slot).map(|entry| entry.slot)
    }

    fn entry(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.state.entries.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Runs `work` on a session and brings the tables up to date; answers
    /// whether the endpoint's next deadline has come closer.
    fn with(&mut self, slot: Slot, work: impl FnOnce(&mut Entry, &mut Desk<'_>) -> Turn) -> bool {
        let Some(mut entry) = self.state.entries.get_mut(slot as usize).and_then(Option::take) else { return false };
        let was_stirred = entry.stirred;
        let was_handshake = matches!(entry.phase, Phase::Handshake(_));
        if let Turn::Established { dial, early } = work(&mut entry, &mut self.desk()) {
            self.promote(&entry);
            entry.announce(dial, early, &mut self.desk());
        }
        if was_handshake && !matches!(entry.phase, Phase::Handshake(_)) {
            self.leave_handshake(&entry);
        }
        if matches!(entry.phase, Phase::Gone) {
            self.remove(&entry);
            return false;
        }
        if entry.stirred && !was_stirred {
            self.state.stirred.push(slot);
        }
        let sooner = self.arm(&mut entry);
        self.state.entries[slot as usize] = Some(entry);
        sooner
    }

    fn desk(&mut self) -> Desk<'_> {
        let state = &mut *self.state;
        Desk {
            now: self.now,
            context: &self.endpoint.context,
            endpoint: self.endpoint,
            live: &self.endpoint.live,
            outbox: &mut state.outbox,
            events: &mut state.events,
            plain: &mut state.plain,
            sealed: &mut state.sealed,
        }
    }

    /// Puts a session in the place of the one that was under its address.
    fn promote(&mut self, entry: &Entry) {
        if let Some(old) = self.state.established.insert(entry.route.to, entry.slot) {
            self.with(old, |entry, desk| {
                entry.end("the peer has begun anew".into(), desk);
                Turn::Same
            });
        }
    }

    /// Takes a session out of the table of handshakes. One that says farewell
    /// stays reachable unless its address has a better one.
    fn leave_handshake(&mut self, entry: &Entry) {
        if self.state.handshaking.get(&entry.route.to) == Some(&entry.slot) {
            self.state.handshaking.remove(&entry.route.to);
        }
        self.state.strangers -= usize::from(entry.by_peer);
        if matches!(entry.phase, Phase::Closed { .. }) {
            self.state.established.entry(entry.route.to).or_insert(entry.slot);
        }
    }

    fn remove(&mut self, entry: &Entry) {
        if let Some(at) = entry.timer {
            self.state.timers.remove(&(at, entry.slot));
        }
        if self.state.established.get(&entry.route.to) == Some(&entry.slot) {
            self.state.established.remove(&entry.route.to);
        }
        self.state.free.push(entry.slot);
    }

    /// Brings the timer table up to date; answers whether the first timer has
    /// come closer.
    fn arm(&mut self, entry: &mut Entry) -> bool {
        let wanted = entry.deadline();
        if wanted == entry.timer {
            return false;
        }
        if let Some(at) = entry.timer {
            self.state.timers.remove(&(at, entry.slot));
        }
        entry.timer = wanted;
        let Some(at) = wanted else { return false };
        self.state.timers.insert((at, entry.slot));
        self.state.timers.first() == Some(&(at, entry.slot))
    }

    fn fire_timers(&mut self) {
        for _ in 0..TIMERS {
            let Some((at, slot)) = self.state.timers.first().copied().filter(|(at, _)| *at <= self.now) else { return };
            self.with(slot, |entry, desk| {
                // A deadline that stays as it is must not fire again at once.
                entry.timer = Some(at);
                entry.handle_timeout(desk)
            });
        }
    }

    /// Sends what acknowledgements and arrivals have made possible.
    fn pump_stirred(&mut self) {
        while let Some(slot) = self.state.stirred.pop() {
            self.with(slot, |entry, desk| {
                if entry.stirred {
                    entry.pump(desk);
                }
                Turn::Same
            });
        }
    }
}

impl Endpoint {
    fn receive(&self, buffers: &mut [u8], meta: &mut [RecvMeta; BATCH]) -> usize {
        let mut chunks = buffers.chunks_mut(BUFFER);
        let mut slices: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let result = self.socket.try_io(Interest::READABLE, || self.io.recv((&self.socket).into(), &mut slices, meta));
        match result {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                // An ICMP error of an earlier datagram; the next call goes on.
                tracing::debug!(%error, "reading the socket failed");
                0
            }
        }
    }
}
