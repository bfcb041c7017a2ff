//! The provider's end of a stream.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::ids::RequestId;
use crate::time::Time;
use crate::wire::{Message, Packet};

/// Numbers and stamps a stream's datagrams and knows its totals.
#[derive(Clone, Debug)]
pub struct StreamSender {
    id: RequestId,
    started: Time,
    next: u64,
    bytes: u64,
    digest: Sha256,
}

impl StreamSender {
    /// The sender of flow `id`, accepted at `now`.
    pub fn new(id: RequestId, now: Time) -> Self {
        Self { id, started: now, next: 0, bytes: 0, digest: Sha256::new() }
    }

    /// The next datagram. What is longer than [`super::MAX_PACKET_BYTES`] must
    /// have been cut by the caller.
    pub fn packet(&mut self, now: Time, payload: Bytes) -> Message {
        let sequence = self.next;
        self.next += 1;
        self.bytes += payload.len() as u64;
        self.digest.update(&payload);
        let sent_us = u64::try_from(now.since(self.started).as_micros()).unwrap_or(u64::MAX);
        Message::Packet(Packet { id: self.id, sequence, sent_us, payload })
    }

    /// The end of the stream, with its totals.
    pub fn end(&self) -> Message {
        Message::End {
            id: self.id,
            packets: self.next,
            bytes: self.bytes,
            digest: self.digest.clone().finalize().into(),
        }
    }

    /// Payload bytes sent.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
