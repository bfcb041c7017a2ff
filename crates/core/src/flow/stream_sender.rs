//! The provider's end of a stream.

use std::collections::VecDeque;

use bytes::Bytes;
use roost_wire::messages::{Datagram, FlowMessage};
use roost_wire::{RequestId, Time};
use sha2::{Digest, Sha256};

use super::MAX_KEPT_BYTES;

/// Numbers and stamps a stream's datagrams and knows its totals.
#[derive(Clone, Debug)]
pub struct StreamSender {
    id: RequestId,
    started: Time,
    next: u64,
    bytes: u64,
    digest: Sha256,
    /// The most datagrams that its receiver has reported.
    reported: u64,
    kept: Option<Kept>,
}

/// The datagrams of a stream that must come whole and are not known to have come.
#[derive(Clone, Debug, Default)]
struct Kept {
    packets: VecDeque<Datagram>,
    bytes: usize,
    /// The path broke: nothing leaves until a report says where to go on.
    interrupted: bool,
    ended: bool,
}

impl StreamSender {
    /// The sender of flow `id`, accepted at `now`.
    pub fn new(id: RequestId, now: Time) -> Self {
        Self { id, started: now, next: 0, bytes: 0, digest: Sha256::new(), reported: 0, kept: None }
    }

    /// A sender of a stream that must come whole: it keeps its datagrams until the receiver has reported
    /// them.
    pub fn reliable(id: RequestId, now: Time) -> Self {
        Self { kept: Some(Kept::default()), ..Self::new(id, now) }
    }

    /// True if the stream must come whole, so that its messages go reliably.
    pub fn is_whole(&self) -> bool {
        self.kept.is_some()
    }

    /// The next datagram, unless it has to wait. What is longer than
    /// [`super::MAX_PACKET_BYTES`] must have been cut by the caller.
    pub fn packet(&mut self, now: Time, payload: Bytes) -> Option<FlowMessage> {
        let sequence = self.next;
        self.next += 1;
        self.bytes += payload.len() as u64;
        self.digest.update(&payload);
        let sent_us = u64::try_from(now.since(self.started).as_micros()).unwrap_or(u64::MAX);
        let packet = Datagram { id: self.id, sequence, sent_us, payload };
        if let Some(kept) = &mut self.kept {
            kept.bytes += cost(&packet);
            kept.packets.push_back(packet.clone());
            if kept.interrupted {
                return None;
            }
        }
        Some(FlowMessage::Datagram(packet))
    }

    /// Takes the number of datagrams that the receiver has. True if it is more than before.
    pub fn advance(&mut self, packets: u64) -> bool {
        let before = self.reported;
        self.reported = before.max(packets.min(self.next));
        self.reported > before
    }

    /// True if the receiver is further behind than can be kept.
    pub fn is_too_far_ahead(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.bytes > MAX_KEPT_BYTES)
    }

    /// The receiver has the first `packets` datagrams. Gives what must leave
    /// again if the path had broken.
    pub fn report(&mut self, packets: u64) -> Vec<FlowMessage> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        while let Some(first) = kept.packets.front().filter(|first| first.sequence < packets) {
            kept.bytes -= cost(first);
            kept.packets.pop_front();
        }
        if !std::mem::take(&mut kept.interrupted) {
            return Vec::new();
        }
        let mut again: Vec<_> = kept.packets.iter().cloned().map(FlowMessage::Datagram).collect();
        again.extend(kept.ended.then(|| self.totals()));
        again
    }

    /// Goes on as another flow, of which nothing has come: all that is kept leaves again upon the first report.
    pub fn go_on_as(&mut self, id: RequestId) {
        self.id = id;
        self.interrupt();
        if let Some(kept) = &mut self.kept {
            kept.packets.iter_mut().for_each(|packet| packet.id = id);
        }
    }

    /// The path broke, so that what is under way may be lost: wait for a report.
    pub fn interrupt(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.interrupted = true;
        }
    }

    /// The end of the stream, with its totals, unless it has to wait.
    pub fn end(&mut self) -> Option<FlowMessage> {
        let is_interrupted = self.kept.as_mut().is_some_and(|kept| {
            kept.ended = true;
            kept.interrupted
        });
        (!is_interrupted).then(|| self.totals())
    }

    fn totals(&self) -> FlowMessage {
        FlowMessage::End {
            id: self.id,
            packets: self.next,
            bytes: self.bytes,
            digest: self.digest.clone().finalize().into(),
        }
    }

    /// True if the end was said, and the receiver has all that it must have.
    pub fn is_done(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.ended && kept.packets.is_empty())
    }

    /// Payload bytes sent.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The bytes for which a kept datagram counts.
fn cost(packet: &Datagram) -> usize {
    packet.payload.len() + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(packets: u8) -> StreamSender {
        let mut sender = StreamSender::reliable(RequestId(1), Time::ZERO);
        for number in 0..packets {
            assert!(sender.packet(Time::ZERO, Bytes::from(vec![number])).is_some());
        }
        sender
    }

    fn numbers(messages: &[FlowMessage]) -> Vec<u64> {
        let number = |message: &FlowMessage| match message {
            FlowMessage::Datagram(packet) => packet.sequence,
            FlowMessage::End { packets, .. } => 100 + packets,
            _ => u64::MAX,
        };
        messages.iter().map(number).collect()
    }

    #[test]
    fn advance_counts_what_was_sent() {
        let mut sender = sender(3);
        assert_eq!([0, 2, 2, 9, 10].map(|packets| sender.advance(packets)), [false, true, false, true, false]);
    }

    #[test]
    fn interrupted_stream_retransmits_unreported_datagrams() {
        let mut sender = sender(5);
        assert_eq!(sender.report(2), []);
        sender.interrupt();
        assert_eq!(sender.packet(Time::ZERO, Bytes::new()), None);
        assert_eq!(sender.end(), None);
        assert_eq!(numbers(&sender.report(3)), [3, 4, 5, 106]);
        assert_eq!(sender.report(4), [], "once");
        assert!(!sender.is_done());
        sender.report(6);
        assert!(sender.is_done());
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut sender = sender(0);
        let payload = Bytes::from(vec![0; MAX_KEPT_BYTES / 2]);
        sender.packet(Time::ZERO, payload.clone());
        assert!(!sender.is_too_far_ahead());
        sender.packet(Time::ZERO, payload);
        assert!(sender.is_too_far_ahead());
        sender.report(1);
        assert!(!sender.is_too_far_ahead());
    }

    #[test]
    fn lossy_stream_retains_nothing() {
        let mut sender = StreamSender::new(RequestId(1), Time::ZERO);
        sender.interrupt();
        assert!(sender.packet(Time::ZERO, Bytes::new()).is_some() && sender.end().is_some());
        assert!(sender.report(0).is_empty() && sender.is_done());
    }
}
