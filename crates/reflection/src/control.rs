//! Control packets beside a stream, in datagrams of their own.
//!
//! ```text
//! all        kind 1 | stream 8 | word 8 | what the kind has
//!
//! from upstream to downstream
//! offer      10010000 | tag 8                    "this is what you asked for"
//! alive      10010001 | depth 1 | next 8         hops from the publisher; all packets before this counter
//!                                                have been sent, none if it is 0
//! moving     10010010                            "find another way soon"
//! parity     10010100 | first 8 | packets 1 | parities 1 | number 1 | shard
//!
//! from downstream to upstream
//! answer     10011000 | tag 8 | next 8           "here; send", from this counter on if it is not 0
//! report     10011001 | received 8 | lost 8 | missed 8 | highest 8 | jitter 4, in microseconds
//! nack       10011010 | first 8 | mask 1 to 32   bit n of byte m is first + 8 m + n
//! key frame  10011011                            "I need one"
//! knock      10011100 | tag 8                    "I asked under this tag, and am here"; no stream, no word
//!
//! both ways
//! done       10010011                            "no more of it"
//! ```
//!
//! The word is drawn at random by the upstream for each downstream, and sent to its address
//! only: who knows it receives what is sent there.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use roost_wire::StreamTag;

use crate::fec::{MAX_SHARD_BYTES, ParityPacket};
use crate::packet::{Malformed, StreamId, array};

/// The most packets that one message says are missing.
pub const MAX_NACKED: u64 = 256;

const OFFER: u8 = 0b1001_0000;
const ALIVE: u8 = 0b1001_0001;
const MOVING: u8 = 0b1001_0010;
const DONE: u8 = 0b1001_0011;
const PARITY: u8 = 0b1001_0100;
const ANSWER: u8 = 0b1001_1000;
const REPORT: u8 = 0b1001_1001;
const NACK: u8 = 0b1001_1010;
const KEY_FRAME: u8 = 0b1001_1011;
const KNOCK: u8 = 0b1001_1100;
const KIND_MASK: u8 = 0b1111_0000;
/// Kind, stream and word.
const HEAD_BYTES: usize = 17;
const MASK_BYTES: usize = MAX_NACKED as usize / 8;
/// The bytes of parity before its shard.
const PARITY_BYTES: usize = 11;
/// All but parity are shorter.
const MAX_BYTES: usize = HEAD_BYTES + 8 + MASK_BYTES;

const _: () = assert!(HEAD_BYTES + PARITY_BYTES + MAX_SHARD_BYTES <= crate::packet::MAX_PACKET_BYTES);

/// A secret that only the host at an address can know, as it is sent there alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathToken(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    first: u64,
    mask: [u8; MASK_BYTES],
}

/// A receiver's counts of a stream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverReport {
    /// Packets that came, repaired ones among them.
    pub received: u64,
    /// Packets that were lost on this hop, whether or not they were repaired.
    pub lost: u64,
    /// Packets that were lost, here or before, and did not come in time.
    pub missed: u64,
    pub highest: u64,
    /// The jitter of frames, microseconds: the mean deviation of RFC 3550, section 6.4.1.
    pub jitter_us: u32,
}

/// A control packet, without its stream and word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlPacket {
    /// The stream that was asked for under this tag.
    Offer(StreamTag),
    /// Upstream is there.
    Heartbeat {
        /// The hops from the publisher to the sender.
        depth: u8,
        /// The counter after the last packet that it has sent; 0 if it does not say.
        next: u64,
    },
    Leaving,
    /// Parity of a block, for lost packets of it.
    Parity(ParityPacket),
    /// No more of it.
    Bye,
    /// The downstream wants the stream at this address.
    Answer {
        /// The tag of the offer that it answers.
        tag: StreamTag,
        /// The counter of the first packet that is missing; 0 if none has come.
        next: u64,
    },
    /// The downstream still wants the stream; its counts.
    Report(ReceiverReport),
    /// To be sent again.
    Nack(Nack),
    KeyFrameRequest,
    /// The stream asked for under this tag is to be offered to the sender's address: a NAT lets in
    /// only hosts that were called.
    HolePunch(StreamTag),
}

impl Nack {
    /// As many of these as fit one message, from the first on; none if there are none.
    pub fn from_counters(counters: &BTreeSet<u64>) -> Option<Self> {
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

impl ControlPacket {
    /// True if a datagram is one of these, by its first byte.
    pub fn is_control_packet(datagram: &[u8]) -> bool {
        datagram.first().is_some_and(|byte| byte & KIND_MASK == OFFER & KIND_MASK)
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Offer(_) => OFFER,
            Self::Heartbeat { .. } => ALIVE,
            Self::Leaving => MOVING,
            Self::Parity(_) => PARITY,
            Self::Bye => DONE,
            Self::Answer { .. } => ANSWER,
            Self::Report(_) => REPORT,
            Self::Nack(_) => NACK,
            Self::KeyFrameRequest => KEY_FRAME,
            Self::HolePunch(_) => KNOCK,
        }
    }

    pub fn encode(&self, stream: StreamId, word: PathToken) -> Bytes {
        let mut out = BytesMut::with_capacity(MAX_BYTES);
        out.put_u8(self.kind());
        out.put_u64(stream.0);
        out.put_u64(word.0);
        match self {
            Self::Offer(tag) | Self::HolePunch(tag) => out.put_u64(tag.0),
            Self::Heartbeat { depth, next } => {
                out.put_u8(*depth);
                out.put_u64(*next);
            }
            Self::Leaving | Self::Bye | Self::KeyFrameRequest => {}
            Self::Answer { tag, next } => {
                out.put_u64(tag.0);
                out.put_u64(*next);
            }
            Self::Parity(ParityPacket { first, packets, parities, number, shard }) => {
                out.put_u64(*first);
                out.put_slice(&[*packets, *parities, *number]);
                out.put_slice(shard);
            }
            Self::Report(ReceiverReport { received, lost, missed, highest, jitter_us }) => {
                for number in [received, lost, missed, highest] {
                    out.put_u64(*number);
                }
                out.put_u32(*jitter_us);
            }
            Self::Nack(nack) => {
                let used = nack.mask.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
                out.put_u64(nack.first);
                out.put_slice(&nack.mask[..used]);
            }
        }
        out.freeze()
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// Fails when it is none of these, or not as long as they are.
    pub fn decode(datagram: &[u8]) -> Result<(StreamId, PathToken, Self), Malformed> {
        let (head, rest) = datagram.split_at_checked(HEAD_BYTES).ok_or(Malformed("too short"))?;
        let number = |bytes: &[u8]| u64::from_be_bytes(array(bytes));
        let said = match (head[0], rest.len()) {
            (OFFER, 8) => Self::Offer(StreamTag(number(rest))),
            (ALIVE, 9) => Self::Heartbeat { depth: rest[0], next: number(&rest[1..]) },
            (MOVING, 0) => Self::Leaving,
            (DONE, 0) => Self::Bye,
            (ANSWER, 16) => Self::Answer { tag: StreamTag(number(rest)), next: number(&rest[8..]) },
            (REPORT, 36) => Self::Report(ReceiverReport {
                received: number(rest),
                lost: number(&rest[8..]),
                missed: number(&rest[16..]),
                highest: number(&rest[24..]),
                jitter_us: u32::from_be_bytes(array(&rest[32..])),
            }),
            (PARITY, PARITY_BYTES..) => {
                let shard = Bytes::copy_from_slice(&rest[PARITY_BYTES..]);
                let parity =
                    ParityPacket { first: number(rest), packets: rest[8], parities: rest[9], number: rest[10], shard };
                Self::Parity(Some(parity).filter(ParityPacket::is_possible).ok_or(Malformed("parity of no block"))?)
            }
            (NACK, 9..) if rest.len() <= 8 + MASK_BYTES => {
                let mut mask = [0; MASK_BYTES];
                mask[..rest.len() - 8].copy_from_slice(&rest[8..]);
                Self::Nack(Nack { first: number(rest), mask })
            }
            (KEY_FRAME, 0) => Self::KeyFrameRequest,
            (KNOCK, 8) => Self::HolePunch(StreamTag(number(rest))),
            _ => return Err(Malformed("another first byte or length")),
        };
        Ok((StreamId(number(&head[1..])), PathToken(number(&head[9..])), said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = ControlPacket> {
        let reported = (any::<[u64; 4]>(), any::<u32>()).prop_map(|([received, lost, missed, highest], jitter_us)| {
            ControlPacket::Report(ReceiverReport { received, lost, missed, highest, jitter_us })
        });
        prop_oneof![
            any::<u64>().prop_map(|tag| ControlPacket::Offer(StreamTag(tag))),
            any::<u64>().prop_map(|tag| ControlPacket::HolePunch(StreamTag(tag))),
            any::<(u8, u64)>().prop_map(|(depth, next)| ControlPacket::Heartbeat { depth, next }),
            Just(ControlPacket::Leaving),
            Just(ControlPacket::Bye),
            any::<[u64; 2]>().prop_map(|[tag, next]| ControlPacket::Answer { tag: StreamTag(tag), next }),
            reported,
            Just(ControlPacket::KeyFrameRequest),
            proptest::collection::vec(any::<u8>(), 2..600).prop_map(|mut bytes| {
                bytes.truncate(bytes.len() / 2 * 2);
                ControlPacket::Parity(ParityPacket {
                    first: 7,
                    packets: 16,
                    parities: 3,
                    number: 2,
                    shard: bytes.into(),
                })
            }),
        ]
    }

    proptest! {
        #[test]
        fn words_survive(stream in any::<u64>(), word in any::<u64>(), said in words()) {
            let datagram = said.encode(StreamId(stream), PathToken(word));
            prop_assert!(ControlPacket::is_control_packet(&datagram));
            prop_assert_eq!(ControlPacket::decode(&datagram), Ok((StreamId(stream), PathToken(word), said)));
            prop_assert!(ControlPacket::decode(&datagram[..HEAD_BYTES - 1]).is_err());
        }

        #[test]
        fn nack_holds_what_fits_from_first(first in any::<u64>(), far in proptest::collection::btree_set(0..600_u64, 1..100)) {
            let counters: BTreeSet<u64> = far.iter().filter_map(|far| first.checked_add(*far)).collect();
            prop_assume!(!counters.is_empty());
            let nack = Nack::from_counters(&counters).unwrap();
            let from = *counters.first().unwrap();
            let expected: Vec<u64> = counters.into_iter().filter(|counter| counter - from < MAX_NACKED).collect();
            prop_assert_eq!(nack.counters().collect::<Vec<_>>(), expected);
            let datagram = ControlPacket::Nack(nack.clone()).encode(StreamId(5), PathToken(6));
            prop_assert!(datagram.len() <= MAX_BYTES);
            prop_assert_eq!(ControlPacket::decode(&datagram), Ok((StreamId(5), PathToken(6), ControlPacket::Nack(nack))));
        }

        #[test]
        fn any_bytes_are_read_or_refused(kind in 0x8e..0xa2_u8, rest in proptest::collection::vec(any::<u8>(), 0..70)) {
            let bytes = [vec![kind], rest].concat();
            match ControlPacket::decode(&bytes) {
                Ok((_, _, ControlPacket::Nack(nack))) => prop_assert!(nack.counters().count() as u64 <= MAX_NACKED),
                Ok((stream, word, said)) => prop_assert_eq!(said.encode(stream, word), bytes),
                Err(_) => {}
            }
        }
    }
}
