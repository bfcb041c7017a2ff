//! The messages of one DTLS session, without sockets, clocks or encryption: packets and the time go in, and packets,
//! messages and a deadline come out.
//!
//! A session that only exchanges small datagrams holds no state. The state for reliable messages and for fragments is
//! made when it is first needed.

mod fragments;
mod packet;
mod receive;
mod recovery;
mod send;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::Delivery;

use fragments::Fragments;
#[cfg(feature = "simulated")]
pub(crate) use packet::RELIABLE_HEADER;
use packet::{FRAGMENT_HEADER, MessagePart, write_datagram, write_fragment};
pub(crate) use packet::{Packet, PacketViolation, write_close, write_moved, write_ready, write_reset_token};
use receive::ReliableReceiver;
use send::ReliableSender;
pub(crate) use send::{QueueFull, RemoteSilent};

/// The part of an address, of either side, that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathChange {
    Host,
    /// Only the remote's port.
    Port,
}

#[derive(Debug)]
pub(crate) struct Session {
    packet_bytes: usize,
    queue_bytes: usize,
    /// The round trip that the handshake measured.
    rtt: Duration,
    is_paced: bool,
    next_fragment: u16,
    fragments: Option<Box<Fragments>>,
    sender: Option<Box<ReliableSender>>,
    receiver: Option<Box<ReliableReceiver>>,
}

impl Session {
    pub(crate) fn new(packet_bytes: usize, queue_bytes: usize, rtt: Duration) -> Self {
        Self {
            packet_bytes,
            queue_bytes,
            rtt,
            is_paced: true,
            next_fragment: 0,
            fragments: None,
            sender: None,
            receiver: None,
        }
    }

    /// A session whose packets leave as soon as the window allows, like those of TCP.
    #[cfg(feature = "simulated")]
    pub(crate) fn unpaced(self) -> Self {
        Self { is_paced: false, ..self }
    }

    /// The packets of a datagram message of `len` bytes, to be written one by one.
    pub(crate) fn datagram_packets(&mut self, len: usize) -> DatagramPackets {
        if len < self.packet_bytes {
            return DatagramPackets { part_bytes: len, id: None, next: 0, count: 1 };
        }
        let part_bytes = self.packet_bytes - FRAGMENT_HEADER;
        let id = self.next_fragment;
        self.next_fragment = id.wrapping_add(1);
        // A message of 64 KiB makes at most 55 parts.
        DatagramPackets { part_bytes, id: Some(id), next: 0, count: len.div_ceil(part_bytes) as u8 }
    }

    /// Queues a message for reliable delivery; [`Self::poll_packet`] sends it.
    pub(crate) fn send_reliable(
        &mut self,
        now: Instant,
        flow: u32,
        delivery: &Delivery,
        message: Bytes,
    ) -> Result<(), QueueFull> {
        let (packet, queue, rtt, is_paced) = (self.packet_bytes, self.queue_bytes, self.initial_rtt(), self.is_paced);
        let sender = self.sender.get_or_insert_with(|| Box::new(ReliableSender::new(packet, queue, rtt, is_paced)));
        sender.push(now, flow, delivery, message)
    }

    /// Sends a probe at once, because the packets under way may not have arrived.
    pub(crate) fn probe(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.probe();
        }
    }

    /// True if the next packet is a probe.
    pub(crate) fn is_probing(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.is_probing())
    }

    /// Continues over a changed path, with all packets under way counted as lost.
    pub(crate) fn change_path(&mut self, now: Instant, change: PathChange) {
        if let Some(sender) = &mut self.sender {
            sender.change_path(now, change);
        }
    }

    fn initial_rtt(&self) -> Duration {
        if self.rtt.is_zero() { recovery::INITIAL_RTT } else { self.rtt }
    }

    /// Handles a packet from the remote, and delivers the messages that it completes.
    pub(crate) fn handle_packet(
        &mut self,
        now: Instant,
        packet: Packet<'_>,
        mut deliver: impl FnMut(Bytes),
    ) -> Result<(), PacketViolation> {
        match packet {
            // Packets about the connection and not its messages.
            Packet::Ready | Packet::Close { .. } | Packet::Moved { .. } | Packet::ResetToken { .. } => {}
            Packet::Datagram(message) => deliver(Bytes::copy_from_slice(message)),
            Packet::Fragment(part) => {
                let fragments = self.fragments.get_or_insert_default();
                if let Some(message) = fragments.insert(now, &part) {
                    deliver(message);
                }
                self.drop_idle_fragments();
            }
            Packet::Reliable { number, follows, part } => {
                let rtt = self.rtt();
                let receiver = self.receiver.get_or_insert_default();
                return receiver.insert(now, rtt, number, follows, &part, &mut deliver);
            }
            Packet::Ack(ack) => {
                if let Some(sender) = &mut self.sender {
                    sender.acknowledge(now, &ack);
                }
            }
        }
        Ok(())
    }

    fn drop_idle_fragments(&mut self) {
        if self.fragments.as_ref().is_some_and(|fragments| fragments.is_empty()) {
            self.fragments = None;
        }
    }

    /// Writes the next packet that may leave now into `into`, which is emptied first.
    pub(crate) fn poll_packet(&mut self, now: Instant, into: &mut Vec<u8>) -> bool {
        into.clear();
        let rtt = self.rtt();
        if let Some(ack) = self.receiver.as_mut().and_then(|receiver| receiver.poll_ack(now, rtt)) {
            ack.write(into);
            return true;
        }
        self.sender.as_mut().is_some_and(|sender| sender.poll_packet(now, into))
    }

    /// Runs the due timers. The resulting packets come from [`Self::poll_packet`].
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<(), RemoteSilent> {
        if let Some(fragments) = &mut self.fragments {
            fragments.expire(now);
        }
        self.drop_idle_fragments();
        match &mut self.sender {
            Some(sender) => sender.handle_timeout(now),
            None => Ok(()),
        }
    }

    /// The time at which [`Self::handle_timeout`] and [`Self::poll_packet`] must be called again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let fragments = self.fragments.as_ref().and_then(|fragments| fragments.deadline());
        let sender = self.sender.as_ref().and_then(|sender| sender.deadline());
        let receiver = self.receiver.as_ref().and_then(|receiver| receiver.deadline());
        fragments.into_iter().chain(sender).chain(receiver).min()
    }

    /// True if a reliable message would leave at once.
    #[cfg(feature = "simulated")]
    pub(crate) fn has_room(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| sender.has_room())
    }

    /// Halves the congestion window this many times, but not below the initial one, because the path was not probed
    /// meanwhile (RFC 2861).
    #[cfg(feature = "simulated")]
    pub(crate) fn decay(&mut self, times: u32) {
        if let Some(sender) = &mut self.sender {
            sender.window.decay(times);
        }
    }

    /// True if the remote has acknowledged every reliable message.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| sender.is_idle())
    }

    /// True if the session has used up its packet numbers and must end.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.is_exhausted())
    }

    /// The round trip: of the handshake, or smoothed by reliable messages.
    pub(crate) fn rtt(&self) -> Duration {
        self.sender.as_ref().map_or(self.rtt, |sender| sender.rtt.smoothed)
    }

    /// The memory of messages that are not delivered yet, in bytes.
    pub(crate) fn held(&self) -> usize {
        let fragments = self.fragments.as_ref().map_or(0, |fragments| fragments.held());
        fragments + self.receiver.as_ref().map_or(0, |receiver| receiver.held())
    }

    pub(crate) fn retransmissions(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.retransmissions)
    }

    /// Packets of reliable messages, each sending counted.
    pub(crate) fn packets_sent(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.packets_sent())
    }
}

/// Writes the packets of one datagram message.
#[derive(Debug)]
pub(crate) struct DatagramPackets {
    part_bytes: usize,
    /// Present if the message is split into fragments.
    id: Option<u16>,
    next: u8,
    count: u8,
}

impl DatagramPackets {
    /// Writes the next packet into `into`, which is emptied first; `false` if there is none.
    pub(crate) fn write_next(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        if self.next == self.count {
            return false;
        }
        into.clear();
        let start = usize::from(self.next) * self.part_bytes;
        let bytes = &message[start..(start + self.part_bytes).min(message.len())];
        match self.id {
            None => write_datagram(into, bytes),
            Some(id) => {
                write_fragment(
                    into,
                    id,
                    &MessagePart { message: u32::from(id), index: self.next, count: self.count, bytes },
                );
            }
        }
        self.next += 1;
        true
    }
}
