//! The requester's end of an object.

use bytes::{Buf, Bytes};
use roost_wire::RequestId;
use roost_wire::messages::{Chunk, Report, ResumePoint};
use sha2::{Digest, Sha256};

use super::{CHUNK_BYTES, MAX_WINDOW_BYTES, REPORT_BYTES};

/// Takes an object's chunks in order and says in the end whether it is the
/// object that was announced. The reader's pace is the sender's: the reports
/// give credit for what was read, not for what has come.
#[derive(Clone, Debug)]
pub struct ObjectReceiver {
    id: RequestId,
    length: u64,
    expected: [u8; 32],
    /// The part that the reader had already.
    began: u64,
    received: u64,
    read: u64,
    reported: u64,
    digest: Sha256,
}

impl ObjectReceiver {
    /// The receiver of an object of `length` bytes with the digest `expected`,
    /// as flow `id`, of which the reader has the first `began` bytes.
    pub fn new(id: RequestId, length: u64, expected: [u8; 32], began: u64) -> Self {
        let (received, read, reported) = (began, began, began);
        Self { id, length, expected, began, received, read, reported, digest: Sha256::new() }
    }

    /// The receiver under another number: its provider goes on where it is.
    #[must_use]
    pub fn going_on_as(self, id: RequestId) -> Self {
        Self { id, ..self }
    }

    /// Of which object it has how many bytes.
    pub fn resume_point(&self) -> ResumePoint {
        ResumePoint { digest: self.expected, offset: self.received }
    }

    /// Bytes that have come and were not read.
    pub fn unread(&self) -> u64 {
        self.received - self.read
    }

    /// True if an object of this length and digest is this one.
    pub fn is_of(&self, length: u64, digest: &[u8; 32]) -> bool {
        (self.length, &self.expected) == (length, digest)
    }

    /// True if the chunk is farther ahead of the reader than any credit goes: its
    /// sender heeds no reports, and what it sends would only fill memory.
    pub fn exceeds_credit(&self, chunk: &Chunk) -> bool {
        let until = chunk.offset.saturating_add(chunk.payload.len() as u64);
        until > self.read.saturating_add(MAX_WINDOW_BYTES + CHUNK_BYTES as u64)
    }

    /// Takes a chunk and returns what of it is new; `None` if nothing is, if it leaves a gap, or if it goes
    /// beyond the announced length.
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

    /// The reader has taken so many bytes more.
    pub fn read(&mut self, bytes: u64) {
        self.read = (self.read + bytes).min(self.received);
    }

    /// True if the reader has not taken all that has come.
    pub fn is_ahead(&self) -> bool {
        self.read < self.received
    }

    /// The offset that a report would say: all that has come once nothing more will.
    fn credit(&self) -> u64 {
        if self.has_everything() { self.length } else { self.read }
    }

    /// True if it is time to report.
    pub fn wants_report(&self) -> bool {
        self.credit() - self.reported >= REPORT_BYTES || self.has_everything()
    }

    /// True if there is more than was reported.
    pub fn has_news(&self) -> bool {
        self.credit() > self.reported
    }

    /// Makes the report for the sender: the credit for more.
    pub fn report(&mut self) -> Report {
        self.reported = self.credit();
        Report { id: self.id, bytes: self.reported, ..Report::default() }
    }

    /// True if every byte is here.
    pub fn has_everything(&self) -> bool {
        self.received == self.length
    }

    /// Payload bytes taken, without those that the reader had.
    pub fn bytes(&self) -> u64 {
        self.received - self.began
    }

    /// True if the object is the announced one; `None` until every byte is
    /// here, and where only the reader has had them all.
    pub fn digest_ok(&self) -> Option<bool> {
        let is_known = self.has_everything() && self.began == 0;
        is_known.then(|| <[u8; 32]>::from(self.digest.clone().finalize()) == self.expected)
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
        let mut receiver = ObjectReceiver::new(RequestId(1), 6, roost_wire::object::digest(&whole), 0);
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
    fn report_credits_what_was_read() {
        let half = REPORT_BYTES as usize;
        let payload = Bytes::from(vec![1; half]);
        let mut receiver = ObjectReceiver::new(RequestId(1), 2 * REPORT_BYTES, [0; 32], 0);
        receiver.chunk(Chunk { id: RequestId(1), offset: 0, payload: payload.clone() });
        assert!(receiver.is_ahead() && !receiver.wants_report() && !receiver.has_news());
        receiver.read(1000);
        assert_eq!(receiver.report().bytes, 1000);
        receiver.read(REPORT_BYTES);
        assert!(!receiver.is_ahead(), "no more is read than has come");
        receiver.chunk(Chunk { id: RequestId(1), offset: REPORT_BYTES, payload });
        assert!(receiver.wants_report());
        assert_eq!(receiver.report().bytes, 2 * REPORT_BYTES);
    }

    #[test]
    fn chunk_beyond_credit_is_detected() {
        let most = MAX_WINDOW_BYTES + CHUNK_BYTES as u64;
        let mut receiver = ObjectReceiver::new(RequestId(1), u64::MAX, [0; 32], 0);
        let mut offset = 0;
        while !receiver.exceeds_credit(&chunk(offset, &[0; CHUNK_BYTES])) {
            receiver.chunk(chunk(offset, &[0; CHUNK_BYTES])).unwrap();
            offset += CHUNK_BYTES as u64;
        }
        assert!(receiver.bytes() <= most && receiver.bytes() > most - CHUNK_BYTES as u64);
        receiver.read(CHUNK_BYTES as u64);
        assert!(!receiver.exceeds_credit(&chunk(offset, &[0; CHUNK_BYTES])));
        assert!(receiver.exceeds_credit(&chunk(u64::MAX, b"a")));
    }

    #[test]
    fn resumed_object_skips_digest_check() {
        let mut receiver = ObjectReceiver::new(RequestId(1), 6, [0; 32], 4);
        assert_eq!(receiver.chunk(chunk(0, b"abcd")), None);
        assert_eq!(receiver.chunk(chunk(2, b"cdef")).as_deref(), Some(&b"ef"[..]));
        assert_eq!((receiver.has_everything(), receiver.digest_ok(), receiver.bytes()), (true, None, 2));
    }

    #[test]
    fn damaged_object_fails_digest_check() {
        let mut receiver =
            ObjectReceiver::new(RequestId(1), 3, roost_wire::object::digest(&Bytes::from_static(b"abc")), 0);
        receiver.chunk(chunk(0, b"abd"));
        assert_eq!(receiver.digest_ok(), Some(false));
    }
}
