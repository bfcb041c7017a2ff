//! A session whose connection is up: its beginning, its messages, and its end.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use bytes::Bytes;
use roost_identity::{CertificateStatus, Refusal, Side};
use roost_wire::{Channel, ConnectionId, Delivery, Scheme};

use super::entry::{DtlsPhase, Entry, NO_REFUSAL, SessionChange, SessionContext};
use super::handshake::PendingDial;
use super::hello::UdpSessionId;
use super::session::{Packet, PacketViolation, Session, write_close};
use crate::connection::{AnyConnection, ConnectionIdentity, ConnectionInfo, VerifiedRemote, seen_at};
use crate::counters::LiveSchemeCounters;
use crate::dial::TOO_LATE;
use crate::error::SendError;
use crate::event::Event;
use crate::transport::given;

/// Shortest time for which a closed session answers packets, so that a lost farewell is repeated.
const LINGER: Duration = Duration::from_secs(3);
/// The most farewells that a closed session repeats.
const FAREWELLS: u8 = 5;

impl Entry {
    /// Both sides have accepted each other, so the connection comes up.
    pub(super) fn establish(&mut self, passed: VerifiedRemote, cx: &mut SessionContext<'_>) -> SessionChange {
        let DtlsPhase::Handshake(handshake) = &mut self.phase else { return SessionChange::Same };
        let (dial, late) = match handshake.dial.take() {
            Some(dial) if dial.request.try_win() => (Some(dial), false),
            Some(_) => (None, true),
            None => (None, false),
        };
        if late && handshake.client {
            self.farewell(NO_REFUSAL, TOO_LATE, cx);
            return SessionChange::Same;
        }
        if dial.is_none() && cx.context.registry.len() >= cx.context.limits.connections {
            LiveSchemeCounters::add(&cx.live.turned_away, 1);
            self.farewell(NO_REFUSAL, "the remote has no room for another connection", cx);
            return SessionChange::Same;
        }
        let (early, client) = (handshake.early.take(), handshake.client);
        self.migration.id = handshake.random.and_then(|random| random.first_chunk().copied());
        let identified = ConnectionIdentity {
            connection: cx.context.registry.allocate(),
            remote: passed.remote,
            certificate_status: passed.certificate_status,
            address: seen_at(Scheme::Udp, self.route.to),
            dialled: dial.is_some(),
            rtt: handshake.rtt(cx.now),
            since: SystemTime::now(),
        };
        cx.context.round_trips.record_rtt(Some(self.route.to.ip()), identified.remote.node, identified.rtt);
        let limits = &cx.context.limits;
        self.session = Session::new(limits.packet(), limits.connection_queue_bytes, identified.rtt);
        self.phase = DtlsPhase::Up(Box::new(identified));
        if !client {
            let mut called = UdpSessionId::default();
            self.migration.accepted_id = rand::fill(&mut called).ok().map(|()| called);
            self.welcome(cx);
        }
        SessionChange::Established { dial, early }
    }

    /// Announces a connection that has just come up, and handles the packet that its remote sent early.
    pub(super) fn announce(&mut self, dial: Option<PendingDial>, early: Option<Vec<u8>>, cx: &mut SessionContext<'_>) {
        let DtlsPhase::Up(identified) = &self.phase else { return };
        let connection = identified.connection;
        self.migration.remember_source(self.route, cx.endpoint.local);
        LiveSchemeCounters::add(&cx.live.handshakes, 1);
        cx.context.registry.insert(connection, AnyConnection::Udp(Arc::clone(cx.endpoint), self.slot));
        cx.events.push(identified.up(dial.as_ref().map(|dial| dial.request.dial)));
        if let Some(dial) = dial {
            dial.report_outcome(Ok(()));
        }
        if let Some(packet) = early.as_deref().and_then(Packet::parse) {
            self.received(connection, packet, cx);
        }
        self.run(cx);
    }

    /// The connection's description. `None` if the slot holds another session by now.
    pub(super) fn info(&self, connection: ConnectionId) -> Option<ConnectionInfo> {
        let DtlsPhase::Up(identified) = &self.phase else { return None };
        (identified.connection == connection).then(|| ConnectionInfo {
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            messages_sent: self.messages_sent,
            messages_received: self.messages_received,
            retransmissions: self.session.retransmissions(),
            packets_sent: Some(self.session.packets_sent()),
            ..identified.describe(self.session.rtt())
        })
    }

    pub(super) fn certificate_status(&self, connection: ConnectionId) -> Option<CertificateStatus> {
        match &self.phase {
            DtlsPhase::Up(identified) if identified.connection == connection => {
                Some(identified.certificate_status.clone())
            }
            _ => None,
        }
    }

    /// True if the session may still have something to deliver or to send.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.phase, DtlsPhase::Up(_) | DtlsPhase::Draining { .. })
    }

    /// Handles a packet of an established connection.
    pub(super) fn received(&mut self, connection: ConnectionId, packet: Packet<'_>, cx: &mut SessionContext<'_>) {
        match packet {
            // The remote repeats its `Ready`, so ours was lost.
            Packet::Ready if self.is_incoming => return self.welcome(cx),
            Packet::Close { code, reason } => return self.end(refused(code, reason), cx),
            Packet::Reliable { .. } | Packet::Ack(_) => self.stirred = true,
            Packet::Moved { cookie } => {
                self.migration.claim.take_if(|claim| *claim == cookie);
            }
            Packet::ResetToken { id, token } if !self.is_incoming => self.migration.reset_token = Some((id, token)),
            Packet::Ready | Packet::ResetToken { .. } | Packet::Datagram(_) | Packet::Fragment(_) => {}
        }
        let (events, count) = (&mut *cx.events, &mut self.messages_received);
        let outcome = self.session.handle_packet(cx.now, packet, |message| {
            *count += 1;
            events.push(Event::Message { connection, message });
        });
        if let Err(PacketViolation(what)) = outcome {
            LiveSchemeCounters::add(&cx.live.malformed, 1);
            self.end(format!("the remote broke the protocol: {what}"), cx);
            self.farewell(NO_REFUSAL, &format!("you broke the protocol: {what}"), cx);
        }
    }

    /// Handles a packet of a connection that we are closing. Only acknowledgements count.
    pub(super) fn drained(&mut self, packet: Packet<'_>, cx: &mut SessionContext<'_>) {
        match packet {
            Packet::Close { .. } => self.phase = DtlsPhase::Gone,
            Packet::Moved { cookie } => {
                self.migration.claim.take_if(|claim| *claim == cookie);
            }
            Packet::Ack(_) => {
                self.stirred = true;
                let _ = self.session.handle_packet(cx.now, packet, |_| {});
            }
            _ => {}
        }
    }

    pub(super) fn send(
        &mut self,
        connection: ConnectionId,
        channel: Channel,
        delivery: &Delivery,
        message: Bytes,
        cx: &mut SessionContext<'_>,
    ) -> Result<(), SendError> {
        match &self.phase {
            DtlsPhase::Up(identified) if identified.connection == connection => {}
            _ => return Err(SendError::NoConnection(connection)),
        }
        self.messages_sent += 1;
        match channel {
            Channel::Datagram => self.send_datagram(&message, cx),
            Channel::Reliable { flow } => {
                let taken = self.session.send_reliable(cx.now, flow, delivery, message);
                self.pump(cx);
                taken.map_err(|_| SendError::Full(connection))?;
            }
        }
        Ok(())
    }

    fn send_datagram(&mut self, message: &[u8], cx: &mut SessionContext<'_>) {
        let mut packets = self.session.datagram_packets(message.len());
        let mut plain = std::mem::take(cx.plain);
        while packets.write_next(message, &mut plain) {
            std::mem::swap(&mut plain, cx.plain);
            self.seal(cx);
            std::mem::swap(&mut plain, cx.plain);
        }
        *cx.plain = plain;
    }

    /// Seals all packets that may leave now.
    pub(super) fn pump(&mut self, cx: &mut SessionContext<'_>) {
        self.stirred = false;
        if !matches!(self.phase, DtlsPhase::Up(_) | DtlsPhase::Draining { .. }) {
            return;
        }
        let mut plain = std::mem::take(cx.plain);
        while self.session.poll_packet(cx.now, &mut plain) {
            std::mem::swap(&mut plain, cx.plain);
            self.seal(cx);
            std::mem::swap(&mut plain, cx.plain);
        }
        *cx.plain = plain;
        if self.session.is_exhausted() {
            self.end("the connection has used up its packet numbers".into(), cx);
        }
        if matches!(self.phase, DtlsPhase::Draining { .. }) && self.session.is_flushed() {
            self.finish_draining(cx);
        }
    }

    /// Closes the connection once the remote has acknowledged every message, or its time is up.
    pub(super) fn close(&mut self, connection: ConnectionId, reason: String, cx: &mut SessionContext<'_>) {
        match &self.phase {
            DtlsPhase::Up(identified) if identified.connection == connection => {}
            _ => return,
        }
        cx.context.registry.remove(connection);
        self.phase = DtlsPhase::Draining { reason, until: cx.now + cx.context.limits.next_answer(self.session.rtt()) };
        self.pump(cx);
    }

    pub(super) fn finish_draining(&mut self, cx: &mut SessionContext<'_>) {
        if let DtlsPhase::Draining { reason, .. } = std::mem::replace(&mut self.phase, DtlsPhase::Gone) {
            self.farewell(NO_REFUSAL, &reason, cx);
        }
    }

    /// Sends the farewell, and stays for a while to repeat it.
    pub(super) fn farewell(&mut self, code: u8, reason: &str, cx: &mut SessionContext<'_>) {
        let mut farewell = Vec::new();
        write_close(&mut farewell, code, reason);
        cx.plain.clone_from(&farewell);
        self.seal(cx);
        self.phase =
            DtlsPhase::Closed { farewell, left: FAREWELLS, until: cx.now + LINGER.max(2 * self.session.rtt()) };
    }

    /// Ends the connection, if it is up, and reports that to the application.
    pub(super) fn end(&mut self, reason: String, cx: &mut SessionContext<'_>) {
        if let DtlsPhase::Up(identified) = &self.phase
            && cx.context.registry.remove(identified.connection)
        {
            cx.events.push(Event::down(identified.connection, reason));
        }
        self.phase = DtlsPhase::Gone;
    }
}

/// The content of a close packet as a sentence.
pub(super) fn refused(code: u8, reason: &str) -> String {
    match Refusal::from_code(code) {
        Some(refusal) => Side::Remote.sentence(refusal),
        None if reason.is_empty() => "the remote closed the connection".to_owned(),
        None => given(reason),
    }
}
