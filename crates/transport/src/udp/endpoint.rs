//! A UDP socket with its sessions, and the turns in which they work.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context as Waking;
use std::time::Instant;

use aws_lc_rs::hmac;
use bytes::Bytes;
use dimpl::{Dtls, DtlsCertificate};
use quinn::udp::{RecvMeta, UdpSocketState};
use roost_identity::CertificateStatus;
use roost_wire::{Channel, ConnectionId, Delivery, Scheme};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::Udp;
use super::datagram_queue::Route;
use super::entry::{DtlsPhase, Entry, SessionChange};
use super::handshake::PendingDial;
use super::hello;
use super::table::{EndpointTurn, SessionTable};
use super::unread::{BATCH, BUFFER};
use crate::connection::ConnectionInfo;
use crate::counters::LiveSchemeCounters;
use crate::error::SendError;
use crate::event::Event;
use crate::handshake_side::HandshakeSide;
use crate::known_remotes::KnownRemote;
use crate::stateless_reset::reset_token;
use crate::transport::Context;

/// The index of a session in its endpoint's table.
pub(crate) type SessionSlot = u32;

/// Turns in one poll, unless an event ends it earlier.
const TURNS: usize = 4;
/// The size of the system's buffer that the socket asks for.
const SOCKET_BUFFER: usize = 4 << 20;

pub(crate) struct UdpEndpoint {
    socket: UdpSocket,
    io: UdpSocketState,
    pub(super) local: SocketAddr,
    pub(super) context: Arc<Context>,
    pub(super) live: Arc<LiveSchemeCounters>,
    config: Arc<dimpl::Config>,
    /// The key from which the reset tokens of its sessions follow.
    pub(super) forgotten: hmac::Key,
    table: Mutex<SessionTable>,
}

impl UdpEndpoint {
    pub(super) fn bind(at: SocketAddr, udp: &Udp) -> io::Result<Arc<Self>> {
        let socket = std::net::UdpSocket::bind(at)?;
        let io = UdpSocketState::new((&socket).into())?;
        // The system grants as much as it allows. Less only causes losses under load.
        let _ = io.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = io.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let table = SessionTable::new(&udp.context.limits)?;
        Ok(Arc::new(Self {
            forgotten: udp.context.forgotten.key(Scheme::Udp, socket.local_addr()?),
            local: socket.local_addr()?,
            socket: UdpSocket::from_std(socket)?,
            io,
            context: Arc::clone(&udp.context),
            live: Arc::clone(&udp.live),
            config: Arc::clone(&udp.config),
            table: Mutex::new(table),
        }))
    }

    /// The DTLS state of a handshake that begins now.
    pub(super) fn dtls(&self, side: HandshakeSide, now: Instant) -> Dtls {
        let mut dtls = Dtls::new_13(Arc::clone(&self.config), self.certificate(), now);
        dtls.set_active(side == HandshakeSide::Client);
        dtls
    }

    /// The certificate for a handshake that begins now. It is read each time, since a renewal replaces it.
    fn certificate(&self) -> DtlsCertificate {
        let identity = &self.context.identity;
        let (certificate, private_key) = (identity.certificate_der().to_vec(), identity.key_pkcs8_der().to_vec());
        DtlsCertificate { certificate, private_key }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// True if a connection to this address is up.
    pub(super) fn has_connection_to(&self, to: SocketAddr) -> bool {
        let mut table = self.lock();
        let slot = table.established.get(&to).copied();
        let entry = slot.and_then(|slot| table.entries.get_mut(slot as usize)).and_then(Option::as_deref_mut);
        entry.is_some_and(|entry| entry.is_busy())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads datagrams, runs due timers, sends, and appends the events. Returns the time at which it must be called
    /// again even if nothing arrives.
    pub(crate) fn poll(self: &Arc<Self>, cx: &mut Waking<'_>, events: &mut impl Extend<Event>) -> Option<Instant> {
        let mut table = self.lock();
        let mut more = true;
        // With events to return, the caller polls again by itself, so neither reading on nor a wake-up is needed.
        for _ in 0..TURNS {
            more = self.turn(&mut table);
            if !table.events.is_empty() {
                more = false;
            } else if !more {
                more = self.socket.poll_recv_ready(cx).is_ready();
            }
            if !more {
                break;
            }
        }
        if more {
            cx.waker().wake_by_ref();
        }
        if !table.outbox.is_empty() && self.socket.poll_send_ready(cx).is_ready() {
            self.send_out(&mut table);
        }
        events.extend(table.events.drain(..));
        table.timers.first().map(|(at, _)| *at)
    }

    /// Like [`Self::poll`], but without arranging a wake-up. Returns true if a connection still has something to
    /// deliver or to send.
    pub(crate) fn wind_down(self: &Arc<Self>) -> bool {
        let mut table = self.lock();
        for _ in 0..TURNS {
            if !self.turn(&mut table) {
                break;
            }
        }
        table.events.clear();
        !table.outbox.is_empty() || table.entries.iter().flatten().any(|entry| entry.is_busy())
    }

    /// Runs one bounded round of work. Returns true if there may be more to read.
    fn turn(self: &Arc<Self>, table: &mut SessionTable) -> bool {
        let mut turning = EndpointTurn::new(self, table);
        let more = turning.read();
        turning.fire_timers();
        turning.pump_stirred();
        self.send_out(table);
        more
    }

    /// Begins a handshake, or lets the dial wait for one that the remote has begun.
    pub(super) fn dial(self: &Arc<Self>, to: SocketAddr, dialling: PendingDial) {
        let mut table = self.lock();
        let mut turning = EndpointTurn::new(self, &mut table);
        turning.displace_unproved(to);
        if let Some(slot) = turning.table.handshaking.get(&to).copied() {
            if let Some(Entry { phase: DtlsPhase::Handshake(handshake), .. }) = turning.entry(slot) {
                handshake.adopt(dialling);
            }
            return;
        }
        let expect = dialling.request.expect;
        turning.begin(Route { to, from: None }, Some(dialling), HandshakeSide::Client, expect);
        self.send_out(&mut table);
        drop(table);
        self.context.queue.waker.wake();
    }

    /// Seals a message into the outbox, which [`Self::flush`] hands to the socket.
    pub(crate) fn send(
        self: &Arc<Self>,
        slot: SessionSlot,
        connection: ConnectionId,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
    ) -> Result<(), SendError> {
        let mut table = self.lock();
        let mut sent = Err(SendError::NoConnection(connection));
        let mut turning = EndpointTurn::new(self, &mut table);
        let sooner = turning.run_on_session(slot, |entry, cx| {
            sent = entry.send(connection, channel, delivery, message, cx);
            SessionChange::Same
        });
        let failed = !table.events.is_empty();
        drop(table);
        if sooner || failed {
            self.context.queue.waker.wake();
        }
        sent
    }

    /// Hands the outbox to the socket, and tells the dials which of their datagrams the system refused.
    fn send_out(&self, table: &mut SessionTable) {
        table.outbox.flush(&self.socket, &self.io, &self.live);
        for refused in table.outbox.take_refused() {
            table.note_refused(refused);
        }
    }

    /// Hands all waiting datagrams to the socket.
    pub(crate) fn flush(&self) {
        let mut table = self.lock();
        if !table.outbox.is_empty() {
            self.send_out(&mut table);
            if !table.outbox.is_empty() {
                self.context.queue.waker.wake();
            }
        }
    }

    /// Closes a connection after everything sent has been acknowledged.
    pub(crate) fn close(self: &Arc<Self>, slot: SessionSlot, connection: ConnectionId, reason: String) {
        let mut table = self.lock();
        let mut turning = EndpointTurn::new(self, &mut table);
        turning.run_on_session(slot, |entry, cx| {
            entry.close(connection, reason, cx);
            SessionChange::Same
        });
        self.send_out(&mut table);
        drop(table);
        self.context.queue.waker.wake();
    }

    /// The remote of a connection, if it dialed us.
    pub(crate) fn known_remote(&self, slot: SessionSlot, connection: ConnectionId) -> Option<KnownRemote> {
        let table = self.lock();
        let entry = table.entries.get(slot as usize)?.as_deref()?;
        let Route { to, from } = entry.route;
        let is_up = matches!(&entry.phase, DtlsPhase::Up(identified) if identified.connection == connection);
        let name = entry.migration.accepted_id.filter(|_| is_up)?;
        Some(KnownRemote { scheme: Scheme::Udp, at: self.local, from, to, wire_id: name })
    }

    /// Tells a remote that its connection of an earlier run is gone. Returns false if the outbox has no room.
    pub(super) fn send_reset(&self, known: &KnownRemote) -> bool {
        let mut table = self.lock();
        let said = reset_token(&self.forgotten, &known.wire_id);
        let had_room = table.outbox.push(Route { to: known.to, from: known.from }, &[&[hello::RESET], &said]);
        drop(table);
        self.flush();
        had_room
    }

    pub(crate) fn certificate_status(&self, slot: SessionSlot, connection: ConnectionId) -> Option<CertificateStatus> {
        self.lock().entries.get(slot as usize)?.as_ref()?.certificate_status(connection)
    }

    pub(crate) fn info(&self, slot: SessionSlot, connection: ConnectionId) -> Option<ConnectionInfo> {
        self.lock().entries.get(slot as usize)?.as_ref()?.info(connection)
    }

    /// Reads a batch from the socket. Returns the number of filled buffers.
    pub(super) fn receive(&self, buffers: &mut [u8], meta: &mut [RecvMeta; BATCH]) -> usize {
        let mut chunks = buffers.chunks_mut(BUFFER);
        let mut slices: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let mut count = 0;
        let result = self.socket.try_io(Interest::READABLE, || {
            count = self.io.recv((&self.socket).into(), &mut slices, meta)?;
            // A batch that is not full has emptied the socket. The system reports the next datagrams, so no further
            // read is needed to find the socket empty.
            if cfg!(target_os = "linux") && count < BATCH { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match result {
            Ok(()) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => count,
            Err(error) => {
                // An ICMP error for an earlier datagram. The next read continues.
                tracing::debug!(%error, "reading the socket failed");
                0
            }
        }
    }
}
