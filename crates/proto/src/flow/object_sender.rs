//! The provider's end of an object.

use bytes::Bytes;

use super::{CHUNK_BYTES, WINDOW_BYTES};
use crate::ids::RequestId;
use crate::wire::{Chunk, Message};

/// Cuts an object into chunks, as far as the receiver's reports allow.
#[derive(Clone, Debug)]
pub struct ObjectSender {
    id: RequestId,
    object: Bytes,
    digest: [u8; 32],
    sent: u64,
    reported: u64,
    end_sent: bool,
    /// The path broke: nothing leaves until a report says where to go on.
    interrupted: bool,
}

impl ObjectSender {
    /// The sender of `object`, whose digest is `digest`, as flow `id`.
    pub fn new(id: RequestId, object: Bytes, digest: [u8; 32]) -> Self {
        Self { id, object, digest, sent: 0, reported: 0, end_sent: false, interrupted: false }
    }

    /// The next message that may leave now: a chunk, the end, or nothing.
    pub fn poll(&mut self) -> Option<Message> {
        if self.interrupted || self.end_sent {
            return None;
        }
        let length = self.object.len() as u64;
        if self.sent == length {
            self.end_sent = true;
            return Some(Message::End { id: self.id, packets: 0, bytes: length, digest: self.digest });
        }
        let until = (self.sent + CHUNK_BYTES as u64).min(length);
        if until - self.reported > WINDOW_BYTES {
            return None;
        }
        let offset = self.sent;
        self.sent = until;
        // Both are at most the object's length, which is a `usize`.
        let payload = self.object.slice(offset as usize..until as usize);
        Some(Message::Chunk(Chunk { id: self.id, offset, payload }))
    }

    /// The receiver has `bytes` bytes from the beginning.
    pub fn report(&mut self, bytes: u64) {
        let bytes = bytes.min(self.sent);
        self.reported = self.reported.max(bytes);
        if self.interrupted {
            self.interrupted = false;
            self.sent = self.reported;
            self.end_sent = false;
        }
    }

    /// The path broke, so that what is under way may be lost: wait for a report.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Whether the receiver has everything.
    pub fn is_done(&self) -> bool {
        self.end_sent && self.reported == self.object.len() as u64
    }

    /// The object's size, bytes.
    pub fn len(&self) -> usize {
        self.object.len()
    }

    /// Whether the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// Payload bytes that the receiver has, as far as is known.
    pub fn delivered(&self) -> u64 {
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(bytes: usize) -> ObjectSender {
        let object = Bytes::from(vec![7; bytes]);
        let digest = crate::flow::digest(&object);
        ObjectSender::new(RequestId(1), object, digest)
    }

    #[test]
    fn a_sender_goes_one_window_beyond_the_last_report() {
        let mut sender = sender(WINDOW_BYTES as usize * 2);
        assert_eq!(std::iter::from_fn(|| sender.poll()).count(), 16);
        sender.report(CHUNK_BYTES as u64);
        assert_eq!(std::iter::from_fn(|| sender.poll()).count(), 1);
        sender.report(WINDOW_BYTES * 9);
        assert_eq!(std::iter::from_fn(|| sender.poll()).count(), 16, "15 chunks and the end");
        assert!(!sender.is_done());
        sender.report(WINDOW_BYTES * 2);
        assert!(sender.is_done());
    }

    #[test]
    fn after_an_interruption_the_report_says_where_to_go_on() {
        let mut sender = sender(CHUNK_BYTES * 4);
        assert_eq!(std::iter::from_fn(|| sender.poll()).count(), 5);
        sender.interrupt();
        assert_eq!(sender.poll(), None);
        sender.report(CHUNK_BYTES as u64);
        let Some(Message::Chunk(chunk)) = sender.poll() else { panic!("no chunk") };
        assert_eq!(chunk.offset, CHUNK_BYTES as u64);
    }
}
