//! Packets that make up for lost ones without being asked: Reed–Solomon codes over the packets of a
//! stream, on one hop.
//!
//! Repair by [asking](crate::LossTracker) costs a round trip. Where that is longer than packets are of
//! use, as over a satellite, an upstream sends parity beside the stream: with k packets and r of parity,
//! any k of the k + r bring back the others. Every target of a stream gets the
//! same parity, as much of it as its [`ParityRate`] says; one that loses nothing, or is repaired in time, gets none.

mod decoder;
mod encoder;
mod share;

use bytes::Bytes;

pub(crate) use decoder::ParityDecoder;
pub(crate) use encoder::ParityEncoder;
pub(crate) use share::ParityRate;

/// Packets of a block, at most: 0.17 s of 700 kbit/s, 6 ms of 30 Mbit/s.
pub(crate) const BLOCK_PACKETS: u8 = 16;
/// The most parity of a block: loss of a third.
pub(crate) const MAX_PARITY: u8 = 8;
/// The largest packet that is protected, so that parity fits a datagram of 1452 bytes as well.
const MAX_BYTES: usize = 1400;
/// The bytes before a packet in its shard: its length. The hop's byte stays out.
const LENGTH_BYTES: usize = 2;
pub(crate) const MAX_SHARD_BYTES: usize = MAX_BYTES - 1 + LENGTH_BYTES + 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityPacket {
    /// The counter of the first packet of its block.
    pub first: u64,
    /// The number of packets of the block, with counters that follow each other.
    pub packets: u8,
    /// The number of parity packets that were made of the block.
    pub parities: u8,
    /// The number of this packet among these.
    pub number: u8,
    /// Parity over the shards of the block, an even number of bytes.
    pub shard: Bytes,
}

impl ParityPacket {
    /// True if it can be of a block.
    pub(crate) fn is_possible(&self) -> bool {
        (1..=BLOCK_PACKETS).contains(&self.packets)
            && (1..=MAX_PARITY).contains(&self.parities)
            && self.number < self.parities
            && self.shard.len().is_multiple_of(2)
            && (LENGTH_BYTES..=MAX_SHARD_BYTES).contains(&self.shard.len())
            && self.first.checked_add(self.packets.into()).is_some()
    }
}

/// A packet as it is coded, without padding.
fn shard(packet: &[u8]) -> Vec<u8> {
    let rest = packet.get(1..).unwrap_or_default();
    // No packet is longer than a length of two bytes tells.
    [&(rest.len() as u16).to_be_bytes()[..], rest].concat()
}

/// Shards of one length, which is even.
fn pad(shards: &mut [Vec<u8>], length: usize) {
    shards.iter_mut().for_each(|shard| shard.resize(length, 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use roost_wire::Time;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// As many as there is parity may be lost, and come back as they were but for the hop's byte.
        #[test]
        fn parity_recovers_lost_packets(
            sizes in proptest::collection::vec(30..MAX_BYTES, 16),
            parity in 1..=MAX_PARITY,
            order in any::<[u8; 24]>(),
            first in 0..u64::MAX - 100,
        ) {
            let packets: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(number, size)| vec![number as u8 + 1; *size]).collect();
            let (mut encoder, mut made) = (ParityEncoder::default(), Vec::new());
            for (number, packet) in packets.iter().enumerate() {
                made.extend(encoder.push(Time::ZERO, first + number as u64, packet, parity));
            }
            prop_assert_eq!(made.len(), usize::from(parity));
            prop_assert!(made.iter().all(ParityPacket::is_possible));
            // The first 16 of the packets and the parity, in some order, come.
            let mut all: Vec<usize> = (0..16 + made.len()).collect();
            all.sort_by_key(|number| order[*number]);
            let (mut decoder, mut back) = (ParityDecoder::default(), Vec::new());
            // The decoder keeps packets only after the first parity.
            decoder.parity(Time::ZERO, ParityPacket { first: 0, packets: 1, parities: 1, number: 0, shard: Bytes::from_static(&[0, 0]) });
            for number in &all[..16] {
                match packets.get(*number) {
                    Some(packet) => back.extend(decoder.packet(Time::ZERO, first + *number as u64, packet)),
                    None => back.extend(decoder.parity(Time::ZERO, made[number - 16].clone())),
                }
            }
            let mut lost: Vec<usize> = all[16..].iter().copied().filter(|number| *number < 16).collect();
            lost.sort_unstable();
            prop_assert_eq!(back.len(), lost.len());
            for (number, packet) in lost.iter().zip(&back) {
                prop_assert_eq!(&packet[1..], &packets[*number][1..]);
            }
        }

        /// Whatever is said, it is kept within limits and nothing breaks.
        #[test]
        fn any_parity_is_taken_or_refused(
            said in proptest::collection::vec((0..40_u64, any::<[u8; 3]>(), proptest::collection::vec(any::<u8>(), 0..40)), 1..60),
        ) {
            let mut decoder = ParityDecoder::default();
            for (first, [packets, parities, number], bytes) in said {
                decoder.packet(Time::ZERO, first, &bytes);
                let parity = ParityPacket { first, packets: packets % 20, parities: parities % 10, number: number % 10, shard: bytes.into() };
                if parity.is_possible() {
                    decoder.parity(Time::ZERO, parity);
                }
                prop_assert!(decoder.is_bounded());
            }
        }
    }
}
