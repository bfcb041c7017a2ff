//! What is said beside a stream, in datagrams of their own: challenges,
//! answers, and which packets are missing.
//!
//! ```text
//! challenge  10010000 | stream 8 | word 8      from a reflector to a target's address
//! answer     10010001 | stream 8 | word 8      the same word, back from it
//! nack       10100000 | stream 8 | first 8 | mask 1 to 32: bit n of byte m is first + 8 m + n
//! ```

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};

use crate::packet::{Malformed, StreamId, array};

/// The most packets that one message says are missing.
pub const MAX_NACKED: u64 = 256;

const CHALLENGE: u8 = 0b1001_0000;
const ANSWER: u8 = 0b1001_0001;
const NACK: u8 = 0b1010_0000;
/// Kind, stream, and a word or the first counter.
const WORD_BYTES: usize = 17;
const MASK_BYTES: usize = MAX_NACKED as usize / 8;

/// What only who is at an address can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

/// Packets that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    first: u64,
    mask: [u8; MASK_BYTES],
}

/// One of these datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// To be answered with the same word.
    Challenge(Word),
    /// The answer.
    Answer(Word),
    /// To be sent again.
    Nack(Nack),
}

impl Nack {
    /// As many of these as fit one message, from the first on; none if there are none.
    pub fn of(counters: &BTreeSet<u64>) -> Option<Self> {
        let first = *counters.first()?;
        let mut mask = [0; MASK_BYTES];
        for far in counters.iter().map(|counter| counter - first).take_while(|far| *far < MAX_NACKED) {
            // Both below the length of the mask.
            mask[(far / 8) as usize] |= 1 << (far % 8);
        }
        Some(Self { first, mask })
    }

    /// The counters of the packets, in order.
    pub fn counters(&self) -> impl Iterator<Item = u64> {
        let is_set = |far: &u64| self.mask[(*far / 8) as usize] & 1 << (far % 8) != 0;
        (0..MAX_NACKED).filter(is_set).filter_map(|far| self.first.checked_add(far))
    }
}

impl Said {
    /// Whether a datagram is one of these, by its first byte.
    pub fn is(datagram: &[u8]) -> bool {
        matches!(datagram.first(), Some(&(CHALLENGE | ANSWER | NACK)))
    }

    /// The datagram.
    pub fn encode(&self, stream: StreamId) -> Bytes {
        let (kind, number) = match self {
            Self::Challenge(word) => (CHALLENGE, word.0),
            Self::Answer(word) => (ANSWER, word.0),
            Self::Nack(nack) => (NACK, nack.first),
        };
        let mut out = BytesMut::with_capacity(WORD_BYTES + MASK_BYTES);
        out.put_u8(kind);
        out.put_u64(stream.0);
        out.put_u64(number);
        if let Self::Nack(nack) = self {
            let used = nack.mask.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            out.put_slice(&nack.mask[..used]);
        }
        out.freeze()
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// When it is none of these, or not as long as they are.
    pub fn decode(datagram: &[u8]) -> Result<(StreamId, Self), Malformed> {
        let (head, mask) = datagram.split_at_checked(WORD_BYTES).ok_or(Malformed("too short"))?;
        let stream = StreamId(u64::from_be_bytes(array(&head[1..])));
        let number = u64::from_be_bytes(array(&head[9..]));
        let said = match (head[0], mask.len()) {
            (CHALLENGE, 0) => Self::Challenge(Word(number)),
            (ANSWER, 0) => Self::Answer(Word(number)),
            (NACK, 1..=MASK_BYTES) => {
                let mut whole = [0; MASK_BYTES];
                whole[..mask.len()].copy_from_slice(mask);
                Self::Nack(Nack { first: number, mask: whole })
            }
            _ => return Err(Malformed("another first byte or length")),
        };
        Ok((stream, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_survive(stream in any::<u64>(), word in any::<u64>()) {
            for said in [Said::Challenge(Word(word)), Said::Answer(Word(word))] {
                let datagram = said.encode(StreamId(stream));
                prop_assert!(Said::is(&datagram));
                prop_assert_eq!(Said::decode(&datagram), Ok((StreamId(stream), said)));
            }
        }

        #[test]
        fn a_nack_has_what_fits_from_the_first_on(first in any::<u64>(), far in proptest::collection::btree_set(0..600_u64, 1..100)) {
            let counters: BTreeSet<u64> = far.iter().filter_map(|far| first.checked_add(*far)).collect();
            prop_assume!(!counters.is_empty());
            let nack = Nack::of(&counters).unwrap();
            let from = *counters.first().unwrap();
            let expected: Vec<u64> = counters.into_iter().filter(|counter| counter - from < MAX_NACKED).collect();
            prop_assert_eq!(nack.counters().collect::<Vec<_>>(), expected);
            let datagram = Said::Nack(nack.clone()).encode(StreamId(5));
            prop_assert!(datagram.len() <= WORD_BYTES + MASK_BYTES);
            prop_assert_eq!(Said::decode(&datagram), Ok((StreamId(5), Said::Nack(nack))));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((_, Said::Nack(nack))) = Said::decode(&bytes) {
                prop_assert!(nack.counters().count() as u64 <= MAX_NACKED);
            }
        }
    }
}
