//! The datagrams that a session sends: sealed by DTLS, and put into the outbox.

use dimpl::Output;

use super::SEAL_BYTES;
use super::entry::{DeferredOutput, DtlsPhase, Entry, IDLE, SessionContext};
use super::session::{write_ready, write_reset_token};
use crate::counters::LiveSchemeCounters;
use crate::stateless_reset::reset_token;

/// Bytes sent to a host that has not proved its address, for each byte received from it, as in QUIC (RFC 9000, section
/// 8.1).
const UNPROVED_SHARE: u64 = 3;

/// The way in which a datagram is added to the outbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DatagramPacking {
    Alone,
    /// Together with other records for the same host.
    Shared,
}

impl Entry {
    /// True if a host that has not proved its address has been sent enough. A genuine one repeats its last flight and
    /// so allows more.
    fn is_sent_enough(&self, more: usize) -> bool {
        let DtlsPhase::Handshake(handshake) = &self.phase else { return false };
        handshake.is_doubtful() && self.bytes_sent + more as u64 > UNPROVED_SHARE * self.bytes_received
    }

    /// Puts a datagram of dimpl's own into the outbox. It is alone, because a receiver acknowledges records of a
    /// handshake only at the beginning of a datagram.
    pub(super) fn post(&mut self, datagram: &[u8], cx: &mut SessionContext<'_>) {
        self.post_as(DatagramPacking::Alone, datagram, cx);
    }

    /// Puts a sealed datagram into the outbox.
    fn post_as(&mut self, post: DatagramPacking, datagram: &[u8], cx: &mut SessionContext<'_>) {
        if self.is_sent_enough(datagram.len()) {
            return;
        }
        self.bytes_sent += datagram.len() as u64;
        self.migration.last_sent = Some(cx.now);
        let mut behind: &[u8] = &[];
        if let DtlsPhase::Handshake(handshake) = &mut self.phase {
            handshake.sent(datagram, cx.now);
            (self.head, behind) = handshake.around(datagram);
        }
        let head = std::mem::take(&mut self.head);
        let may_share = post == DatagramPacking::Shared && matches!(self.phase, DtlsPhase::Up(_)) && head.is_empty();
        let most = cx.context.limits.packet() + SEAL_BYTES;
        let doubtful = self.migration.former.filter(|_| self.migration.is_doubtful);
        for route in [Some(self.route), doubtful].into_iter().flatten() {
            let had_room = match may_share {
                true => cx.outbox.pack(route, datagram, most),
                false => cx.outbox.push(route, &[&head, datagram, behind]),
            };
            if !had_room {
                LiveSchemeCounters::add(&cx.live.dropped, 1);
            }
        }
    }

    /// Seals the packet in `cx.plain` and puts it into the outbox.
    pub(super) fn seal(&mut self, cx: &mut SessionContext<'_>) {
        if let Err(error) = self.dtls.send_application_data(cx.plain) {
            return self.fail(&format!("the encryption failed: {error}"), cx);
        }
        let mut sealed = std::mem::take(cx.sealed);
        loop {
            match self.dtls.poll_output(&mut sealed) {
                Output::Packet(packet) => self.post_as(DatagramPacking::Shared, packet, cx),
                Output::BufferTooSmall { needed } => sealed.resize(needed, 0),
                Output::Timeout(at) => {
                    self.dtls_deadline = (at < cx.now + IDLE).then_some(at);
                    break;
                }
                // This output was there before, and is handled in the next turn.
                output => self.late.extend(DeferredOutput::from_output(&output)),
            }
        }
        *cx.sealed = sealed;
        self.come_back(cx.now);
    }

    /// Seals the packet in `cx.plain` after plain bytes that everybody on the path can read.
    pub(super) fn seal_after(&mut self, head: Vec<u8>, cx: &mut SessionContext<'_>) {
        self.head = head;
        self.seal(cx);
    }

    pub(super) fn seal_ready(&mut self, cx: &mut SessionContext<'_>) {
        cx.plain.clear();
        write_ready(cx.plain);
        self.seal(cx);
    }

    /// Accepts the remote that dialed us, and gives it the token that we would send if we forgot the session.
    pub(super) fn welcome(&mut self, cx: &mut SessionContext<'_>) {
        self.seal_ready(cx);
        if let Some(called) = self.migration.accepted_id {
            cx.plain.clear();
            write_reset_token(cx.plain, &called, &reset_token(&cx.endpoint.forgotten, &called));
            self.seal(cx);
        }
    }
}
