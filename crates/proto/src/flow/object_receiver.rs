//! The requester's end of an object.

use bytes::{Buf, Bytes};
use sha2::{Digest, Sha256};

use super::REPORT_BYTES;
use crate::ids::RequestId;
use crate::wire::{Chunk, Report};

/// Takes an object's chunks in order and says in the end whether it is the
/// object that was announced.
#[derive(Clone, Debug)]
pub struct ObjectReceiver {
    id: RequestId,
    length: u64,
    expected: [u8; 32],
    received: u64,
    reported: u64,
    digest: Sha256,
}

impl ObjectReceiver {
    /// The receiver of an object of `length` bytes with the digest `expected`, as flow `id`.
    pub fn new(id: RequestId, length: u64, expected: [u8; 32]) -> Self {
        Self { id, length, expected, received: 0, reported: 0, digest: Sha256::new() }
    }

    /// What of the chunk is new; `None` if nothing is, if it leaves a gap, or
    /// if it goes beyond the announced length.
    pub fn chunk(&mut self, chunk: Chunk) -> Option<Bytes> {
        let until = chunk.offset.checked_add(chunk.payload.len() as u64)?;
        if chunk.offset > self.received || until <= self.received || until > self.length {
            return None;
        }
        let mut fresh = chunk.payload;
        // No greater than the payload's length, as `until` is beyond `received`.
        fresh.advance((self.received - chunk.offset) as usize);
        self.received = until;
        self.digest.update(&fresh);
        Some(fresh)
    }

    /// Whether it is time to report.
    pub fn wants_report(&self) -> bool {
        self.received - self.reported >= REPORT_BYTES || self.has_everything()
    }

    /// Whether there is more than was reported.
    pub fn has_news(&self) -> bool {
        self.received > self.reported
    }

    /// What to report to the sender: the credit for more.
    pub fn report(&mut self) -> Report {
        self.reported = self.received;
        Report { id: self.id, bytes: self.received, ..Report::default() }
    }

    /// Whether every byte is here.
    pub fn has_everything(&self) -> bool {
        self.received == self.length
    }

    /// Payload bytes taken.
    pub fn bytes(&self) -> u64 {
        self.received
    }

    /// Whether the object is the announced one; `None` until every byte is here.
    pub fn digest_ok(&self) -> Option<bool> {
        self.has_everything().then(|| <[u8; 32]>::from(self.digest.clone().finalize()) == self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, payload: &'static [u8]) -> Chunk {
        Chunk { id: RequestId(1), offset, payload: Bytes::from_static(payload) }
    }

    #[test]
    fn overlapping_chunks_give_each_byte_once() {
        let whole = Bytes::from_static(b"abcdef");
        let mut receiver = ObjectReceiver::new(RequestId(1), 6, crate::flow::digest(&whole));
        assert_eq!(receiver.chunk(chunk(0, b"abc")).as_deref(), Some(&b"abc"[..]));
        assert_eq!(receiver.chunk(chunk(0, b"abc")), None);
        assert_eq!(receiver.chunk(chunk(4, b"ef")), None, "a gap");
        assert_eq!(receiver.digest_ok(), None);
        assert_eq!(receiver.chunk(chunk(1, b"bcdefg")), None, "too long");
        assert_eq!(receiver.chunk(chunk(1, b"bcdef")).as_deref(), Some(&b"def"[..]));
        assert_eq!(receiver.digest_ok(), Some(true));
        assert!(receiver.wants_report());
    }

    #[test]
    fn a_damaged_object_is_not_the_announced_one() {
        let mut receiver = ObjectReceiver::new(RequestId(1), 3, crate::flow::digest(&Bytes::from_static(b"abc")));
        receiver.chunk(chunk(0, b"abd"));
        assert_eq!(receiver.digest_ok(), Some(false));
    }
}
