//! The byte stream of a TCP connection: messages in frames, frames in TLS records, records in full segments.

use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use roost_wire::{Channel, Delivery};

use crate::config::Limits;
use crate::tcp::frame::{self, Frame};
use crate::tcp::queue::{WRITE_BATCH, WriteQueue};

/// The most content of a TLS record.
const RECORD_BYTES: usize = 16 * 1024;
/// Bytes that a record adds to its content: five of header, one for the content's type, and the tag. Here the first two
/// bytes are the content's length.
const RECORD_HEAD: usize = 5 + 1 + 16;

/// The outgoing messages of one end, and the incomplete one that it receives.
#[derive(Debug, Default)]
pub(super) struct Stream {
    queue: WriteQueue,
    /// Records that are not in a segment yet.
    written: BytesMut,
    /// Bytes received of a record, and of a frame.
    sealed: BytesMut,
    opened: BytesMut,
}

impl Stream {
    /// Queues a message. As in the product, a message that does not fit into the queue is lost.
    pub(super) fn push(&mut self, now: Instant, channel: Channel, delivery: &Delivery, message: Bytes) {
        self.queue.push(now, channel, delivery, message, Limits::default().connection_queue_bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.queue.is_empty()
    }

    /// The next segment, of at most `most` bytes. As without Nagle's algorithm, a short one leaves at once.
    pub(super) fn segment(&mut self, now: Instant, most: usize) -> Option<Bytes> {
        while self.written.len() < WRITE_BATCH && !self.queue.is_empty() {
            let mut plain = Vec::new();
            self.queue.take_batch(now, &mut plain);
            for content in plain.chunks(RECORD_BYTES) {
                self.written.extend_from_slice(&(content.len() as u16).to_be_bytes());
                self.written.extend_from_slice(&[0; RECORD_HEAD - 2]);
                self.written.extend_from_slice(content);
            }
        }
        let length = self.written.len().min(most);
        let segment = (length > 0).then(|| self.written.split_to(length).freeze());
        release(&mut self.written);
        segment
    }

    /// Handles a segment, and delivers the messages that it completes. A record is opened when all of it has arrived.
    pub(super) fn receive(&mut self, segment: &[u8], mut deliver: impl FnMut(Bytes)) {
        self.sealed.extend_from_slice(segment);
        while let Some(length) = self.sealed.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)))
            && self.sealed.len() >= RECORD_HEAD + length
        {
            self.sealed.advance(RECORD_HEAD);
            self.opened.extend_from_slice(&self.sealed[..length]);
            self.sealed.advance(length);
        }
        // The remote end runs the same code and sends no other frames.
        while let Ok(Some(Frame::Message(message))) = frame::take_frame(&mut self.opened) {
            deliver(message);
        }
        release(&mut self.sealed);
        release(&mut self.opened);
    }
}

/// Gives the memory of an empty buffer back: a network has many idle connections.
fn release(buffer: &mut BytesMut) {
    if buffer.is_empty() {
        *buffer = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_full_whatever_the_messages() {
        let mut stream = Stream::default();
        let (now, usual) = (Instant::now(), Delivery::default());
        let reliable = Channel::Reliable { flow: 1 };
        (0..6).for_each(|_| stream.push(now, reliable, &usual, vec![7; 16_400].into()));
        stream.push(now, Channel::Datagram, &usual, vec![8; 10].into());
        let segments: Vec<_> = std::iter::from_fn(|| stream.segment(now, 1448)).collect();
        let (last, full) = segments.split_last().unwrap();
        assert!(full.iter().all(|segment| segment.len() == 1448) && last.len() < 1448);
        // A hundred thousand bytes in three round trips, with ten segments in the first.
        assert_eq!(segments.len(), 69);
        let mut other = Stream::default();
        let mut lengths = Vec::new();
        segments.iter().for_each(|segment| other.receive(segment, |message| lengths.push(message.len())));
        assert_eq!(lengths, [10, 16_400, 16_400, 16_400, 16_400, 16_400, 16_400]);
        assert!(stream.is_empty() && other.is_empty());
    }
}
