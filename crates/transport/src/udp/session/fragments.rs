//! Datagram messages in fragments. A message is reassembled if all fragments arrive soon, and otherwise dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_wire::messages::MAX_MESSAGE_BYTES;

use super::packet::{MessagePart, PacketViolation};

/// The most messages that may be incomplete in one connection.
const MAX_MESSAGES: usize = 8;
/// The longest time between a message's first fragment and its last: 64 KiB over 250 kbit/s.
const EXPIRY: Duration = Duration::from_secs(2);
/// The most memory for incomplete messages in one connection, bytes.
const MAX_BYTES: usize = 256 * 1024;
/// Bytes that a part costs besides its content, for its slot and allocation.
pub(super) const PART_COST: usize = 64;

/// The incomplete messages of one connection, within the limits above.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    messages: VecDeque<(Instant, Assembly)>,
}

impl Fragments {
    /// Adds a fragment. Returns the message if it is complete now. A fragment that does not fit the earlier ones is
    /// ignored.
    pub(super) fn insert(&mut self, now: Instant, part: &MessagePart<'_>) -> Option<Bytes> {
        self.expire(now);
        let known = self.messages.iter().position(|(_, assembly)| assembly.message == part.message);
        let index = known.unwrap_or_else(|| {
            self.messages.push_back((now, Assembly::new(part.message, part.count)));
            self.messages.len() - 1
        });
        let complete = self.messages.get_mut(index).is_some_and(|(_, assembly)| assembly.insert(part) == Ok(true));
        let message = if complete { self.messages.remove(index).map(|(_, assembly)| assembly.join()) } else { None };
        while self.messages.len() > MAX_MESSAGES || self.held() > MAX_BYTES {
            self.messages.pop_front();
        }
        message
    }

    /// Drops the messages that have waited too long.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.messages.pop_front();
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.messages.front().map(|(since, _)| *since + EXPIRY)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The memory of all incomplete messages, in bytes.
    pub(super) fn held(&self) -> usize {
        self.messages.iter().map(|(_, assembly)| assembly.held()).sum()
    }
}

/// A message of which parts are missing.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) message: u32,
    parts: Vec<Option<Bytes>>,
    missing: usize,
    /// Bytes of the parts that have arrived.
    bytes: usize,
}

impl Assembly {
    pub(super) fn new(message: u32, count: u8) -> Self {
        Self { message, parts: vec![None; usize::from(count)], missing: usize::from(count), bytes: 0 }
    }

    /// Adds a part. Returns true if the message is complete.
    pub(super) fn insert(&mut self, part: &MessagePart<'_>) -> Result<bool, PacketViolation> {
        if usize::from(part.count) != self.parts.len() {
            return Err(PacketViolation("a part of another message"));
        }
        if let Some(slot @ None) = self.parts.get_mut(usize::from(part.index)) {
            if self.bytes + part.bytes.len() > MAX_MESSAGE_BYTES {
                return Err(PacketViolation("a message that is too long"));
            }
            *slot = Some(Bytes::copy_from_slice(part.bytes));
            self.missing -= 1;
            self.bytes += part.bytes.len();
        }
        Ok(self.missing == 0)
    }

    /// The memory of this message, in bytes.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.parts.len() * PART_COST
    }

    pub(super) fn join(self) -> Bytes {
        let mut whole = Vec::with_capacity(self.bytes);
        self.parts.iter().flatten().for_each(|part| whole.extend_from_slice(part));
        whole.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(message: u32, index: u8, bytes: &[u8]) -> MessagePart<'_> {
        MessagePart { message, index, count: 2, bytes }
    }

    #[test]
    fn fragments_reassemble_in_any_order() {
        let (mut fragments, now) = (Fragments::default(), Instant::now());
        assert_eq!(fragments.insert(now, &part(7, 1, b"lo")), None);
        assert_eq!(fragments.insert(now, &part(7, 1, b"lo")), None);
        assert_eq!(fragments.insert(now, &part(7, 0, b"hel")).as_deref(), Some(&b"hello"[..]));
        assert!(fragments.is_empty());
    }

    #[test]
    fn what_stays_incomplete_is_forgotten() {
        let (mut fragments, now) = (Fragments::default(), Instant::now());
        fragments.insert(now, &part(1, 0, b"a"));
        fragments.expire(now + EXPIRY);
        assert!(fragments.is_empty());
    }

    #[test]
    fn oversized_message_is_never_delivered() {
        let (mut fragments, now) = (Fragments::default(), Instant::now());
        let half = vec![0; 40_000];
        assert_eq!(fragments.insert(now, &part(1, 0, &half)), None);
        assert_eq!(fragments.insert(now, &part(1, 1, &half)), None);
    }

    #[test]
    fn flooded_first_fragments_are_bounded() {
        let (mut fragments, now) = (Fragments::default(), Instant::now());
        let big = vec![0; 60_000];
        for message in 0..1000 {
            fragments.insert(now, &part(message, 0, &big));
        }
        assert!(fragments.held() <= MAX_BYTES);
        assert!(fragments.messages.len() <= MAX_MESSAGES);
    }
}
