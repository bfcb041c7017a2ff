//! Reassembles messages and delivers each once, in order within its flow.
//!
//! The numbers of received messages are kept as ranges. There are few, since the sender's window limits the messages
//! under way. A message that must wait for another is held until that one is delivered or given up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use bytes::{Bytes, BytesMut};

use super::chunk::{CHUNK_BYTES, ChunkFrame, MessageSlice, read};
use super::{MESSAGE_COST, WINDOW_BYTES};

/// The most memory of messages that are incomplete or wait for others, bytes. The sender keeps to [`WINDOW_BYTES`], but
/// messages that it has seen acknowledged may still wait to be read here, hence twice as much.
pub(crate) const MAX_HELD_BYTES: usize = 2 * WINDOW_BYTES;
/// The most gaps between the numbers of received messages.
const MAX_GAPS: usize = 32 << 10;

/// The remote has broken the protocol, and the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkViolation;

#[derive(Debug, Default)]
pub(super) struct ChunkReceiver {
    /// Numbers of messages that are complete or given up.
    received: MessageRanges,
    partial: HashMap<u64, Partial>,
    /// Complete messages that wait, by the number of the message before; the content is `None` if it was given up.
    held: HashMap<u64, (u64, Option<Bytes>)>,
    held_numbers: HashSet<u64>,
    /// The memory of `partial` and `held`, in bytes.
    bytes: usize,
    delivered: VecDeque<Bytes>,
    pub(super) duplicates: u64,
}

/// A message of which slices are missing.
#[derive(Debug)]
struct Partial {
    body: BytesMut,
    missing: usize,
    offsets: BTreeSet<usize>,
}

impl ChunkReceiver {
    /// Handles a chunk.
    ///
    /// # Errors
    ///
    /// The chunk is malformed, or needs more memory than a sender may use.
    pub(super) fn receive_chunk(&mut self, chunk: &Bytes) -> Result<(), ChunkViolation> {
        for piece in read(chunk).ok_or(ChunkViolation)? {
            self.receive_frame(piece)?;
            if self.bytes > MAX_HELD_BYTES || self.received.0.len() > MAX_GAPS {
                return Err(ChunkViolation);
            }
        }
        Ok(())
    }

    pub(super) const fn held_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn poll(&mut self) -> Option<Bytes> {
        self.delivered.pop_front()
    }

    fn receive_frame(&mut self, ChunkFrame { order: place, part }: ChunkFrame) -> Result<(), ChunkViolation> {
        if self.received.contains(place.number) {
            self.duplicates += 1;
            return Ok(());
        }
        let message = match part {
            Some(part) if part.body.len() == part.total => Some(part.body),
            Some(part) => match self.add(place.number, part)? {
                Some(whole) => Some(whole),
                None => return Ok(()),
            },
            None => None,
        };
        if let Some(partial) = self.partial.remove(&place.number) {
            self.bytes -= partial.body.len() + MESSAGE_COST;
        }
        self.received.insert(place.number);
        match place.before().filter(|before| !self.is_delivered(*before)) {
            Some(before) => self.hold(before, place.number, message),
            None => {
                self.deliver(place.number, message);
                Ok(())
            }
        }
    }

    /// Adds a slice to its message. Returns the message if it is complete now.
    fn add(&mut self, number: u64, part: MessageSlice) -> Result<Option<Bytes>, ChunkViolation> {
        // The sender makes no other slices. Smaller ones would need more memory than is counted.
        if !part.offset.is_multiple_of(CHUNK_BYTES) || part.body.len() != CHUNK_BYTES.min(part.total - part.offset) {
            return Err(ChunkViolation);
        }
        let partial = self.partial.entry(number).or_insert_with(|| {
            self.bytes += part.total + MESSAGE_COST;
            Partial { body: BytesMut::zeroed(part.total), missing: part.total, offsets: BTreeSet::new() }
        });
        if !partial.offsets.insert(part.offset) {
            self.duplicates += 1;
            return Ok(None);
        }
        if partial.body.len() != part.total || partial.missing < part.body.len() {
            return Err(ChunkViolation);
        }
        partial.body[part.offset..part.offset + part.body.len()].copy_from_slice(&part.body);
        partial.missing -= part.body.len();
        if partial.missing > 0 {
            return Ok(None);
        }
        self.bytes -= part.total + MESSAGE_COST;
        Ok(self.partial.remove(&number).map(|whole| whole.body.freeze()))
    }

    fn is_delivered(&self, number: u64) -> bool {
        self.received.contains(number) && !self.held_numbers.contains(&number)
    }

    fn hold(&mut self, before: u64, number: u64, message: Option<Bytes>) -> Result<(), ChunkViolation> {
        self.bytes += message.as_ref().map_or(0, Bytes::len) + MESSAGE_COST;
        self.held_numbers.insert(number);
        // Two messages cannot follow the same one.
        self.held.insert(before, (number, message)).map_or(Ok(()), |_| Err(ChunkViolation))
    }

    /// Delivers a message and all that waited for it.
    fn deliver(&mut self, mut number: u64, message: Option<Bytes>) {
        self.delivered.extend(message);
        while let Some((next, message)) = self.held.remove(&number) {
            self.bytes -= message.as_ref().map_or(0, Bytes::len) + MESSAGE_COST;
            self.held_numbers.remove(&next);
            self.delivered.extend(message);
            number = next;
        }
    }

    /// True if no message is incomplete or waits.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.partial.is_empty() && self.held.is_empty() && self.held_numbers.is_empty() && self.bytes == 0
    }
}

/// A set of numbers as ranges, from the first to one past the last.
#[derive(Debug, Default)]
struct MessageRanges(BTreeMap<u64, u64>);

impl MessageRanges {
    fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Adds a number that is not in the set.
    fn insert(&mut self, number: u64) {
        let end = self.0.remove(&(number + 1)).unwrap_or(number + 1);
        match self.0.range_mut(..number).next_back().filter(|(_, before)| **before == number) {
            Some((_, before)) => *before = end,
            None => {
                self.0.insert(number, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::chunk::{MessageOrder, PIECES, write_given_up, write_head};
    use super::*;

    fn chunk(number: u64, distance: u64, total: usize, offset: usize, body: &[u8]) -> Bytes {
        let mut chunk = vec![PIECES];
        write_head(&mut chunk, MessageOrder { number, distance }, total, offset, body.len());
        chunk.extend_from_slice(body);
        chunk.into()
    }

    fn given_up(number: u64, distance: u64) -> Bytes {
        let mut chunk = vec![PIECES];
        write_given_up(&mut chunk, MessageOrder { number, distance });
        chunk.into()
    }

    fn taken(chunks: &[Bytes]) -> Vec<Bytes> {
        let mut receiver = ChunkReceiver::default();
        chunks.iter().for_each(|chunk| receiver.receive_chunk(chunk).unwrap());
        std::iter::from_fn(|| receiver.poll()).collect()
    }

    #[test]
    fn abandoned_message_keeps_flow_order() {
        let (first, third) = (chunk(0, 0, 1, 0, b"a"), chunk(2, 1, 1, 0, b"c"));
        assert_eq!(taken(&[third.clone(), given_up(1, 1)]), Vec::<Bytes>::new());
        assert_eq!(taken(&[third, given_up(1, 1), first]), ["a", "c"]);
    }

    #[test]
    fn late_chunk_is_not_delivered_twice() {
        let whole = [b'a'; CHUNK_BYTES + 1];
        let first = chunk(0, 0, whole.len(), 0, &whole[..CHUNK_BYTES]);
        let last = chunk(0, 0, whole.len(), CHUNK_BYTES, &whole[CHUNK_BYTES..]);
        let twice = [first.clone(), first.clone(), last.clone(), last.clone()];
        assert_eq!(taken(&twice), [&whole[..]]);
        assert_eq!(taken(&[first, given_up(0, 0), last]), Vec::<Bytes>::new());
    }

    #[test]
    fn held_memory_is_bounded() {
        let mut receiver = ChunkReceiver::default();
        let part = [0; CHUNK_BYTES];
        let large = (0..10_000).find(|number| receiver.receive_chunk(&chunk(*number, 0, 65_536, 0, &part)).is_err());
        assert_eq!(large, Some((MAX_HELD_BYTES / (65_536 + MESSAGE_COST)) as u64));
        let mut receiver = ChunkReceiver::default();
        let gaps = (0..).find(|number| receiver.receive_chunk(&chunk(2 * number + 1, 0, 1, 0, b"a")).is_err());
        assert_eq!(gaps, Some(MAX_GAPS as u64));
        let mut receiver = ChunkReceiver::default();
        let held = (1..).find(|number| receiver.receive_chunk(&chunk(*number, 1, 0, 0, b"")).is_err());
        assert_eq!(held, Some((MAX_HELD_BYTES / MESSAGE_COST) as u64 + 1));
    }

    #[test]
    fn invalid_slices_are_rejected() {
        for (total, offset, length) in [(65_536, 1, CHUNK_BYTES), (65_536, 0, 100), (CHUNK_BYTES + 2, CHUNK_BYTES, 1)] {
            assert!(ChunkReceiver::default().receive_chunk(&chunk(0, 0, total, offset, &vec![0; length])).is_err());
        }
        let mut receiver = ChunkReceiver::default();
        let mut many = vec![PIECES];
        for number in 0..1000 {
            let place = MessageOrder { number, distance: 0 };
            write_head(&mut many, place, 57_345, 57_344, 1);
            many.push(0);
        }
        assert!(
            receiver.receive_chunk(&many.into()).is_err() && receiver.bytes <= MAX_HELD_BYTES + 57_345 + MESSAGE_COST
        );
    }

    #[test]
    fn shared_predecessor_is_a_violation() {
        let mut receiver = ChunkReceiver::default();
        assert_eq!(receiver.receive_chunk(&chunk(1, 1, 1, 0, b"a")), Ok(()));
        assert_eq!(receiver.receive_chunk(&chunk(2, 2, 1, 0, b"a")), Err(ChunkViolation));
    }

    proptest! {
        #[test]
        fn ranges_are_a_set(numbers in prop::collection::vec(0..60u64, 0..100)) {
            let (mut ranges, mut set) = (MessageRanges::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.contains(number), set.contains(&number));
                if set.insert(number) {
                    ranges.insert(number);
                }
            }
            prop_assert!((0..61).all(|number| ranges.contains(number) == set.contains(&number)));
            let starts = set.iter().filter(|number| **number == 0 || !set.contains(&(**number - 1)));
            prop_assert_eq!(ranges.0.len(), starts.count());
        }
    }
}
