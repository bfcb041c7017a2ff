//! The receiving side: what has come lately, and what can be made of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::Time;

use super::{BLOCK_PACKETS, LENGTH_BYTES, MAX_BYTES, ParityPacket, pad, shard};

/// The most packets that are kept, and the most blocks with parity: so much may overtake a packet.
const MAX_PACKETS: usize = 128;
const MAX_BLOCKS: usize = 8;
/// Without parity for so long there will be none.
const SILENCE: Duration = Duration::from_secs(10);

/// Parity of a block that is not whole yet.
#[derive(Debug)]
struct Block {
    packets: u8,
    parities: u8,
    shard_bytes: usize,
    parity: BTreeMap<u8, Bytes>,
}

/// The packets and parity of a stream that have come. Nothing is kept before the first parity.
#[derive(Debug, Default)]
pub(crate) struct ParityDecoder {
    last_parity: Option<Time>,
    packets: BTreeMap<u64, Vec<u8>>,
    blocks: BTreeMap<u64, Block>,
}

impl ParityDecoder {
    /// A packet has come; returns those that it brings back, in order.
    pub(crate) fn packet(&mut self, now: Time, counter: u64, packet: &[u8]) -> Vec<Vec<u8>> {
        let Some(last) = self.last_parity else { return Vec::new() };
        if now.since(last) > SILENCE {
            *self = Self::default();
            return Vec::new();
        }
        if packet.len() <= MAX_BYTES {
            self.packets.insert(counter, shard(packet));
        }
        if self.packets.len() > MAX_PACKETS {
            self.packets.pop_first();
        }
        let block = self.blocks.range(..=counter).next_back();
        let first = block.filter(|(first, block)| counter - **first < block.packets.into()).map(|(first, _)| *first);
        first.map(|first| self.solve(first)).unwrap_or_default()
    }

    /// Parity has come; returns the packets that it brings back, in order.
    pub(crate) fn parity(&mut self, now: Time, parity: ParityPacket) -> Vec<Vec<u8>> {
        self.last_parity = Some(now);
        let ParityPacket { first, packets, parities, number, shard } = parity;
        let new = || Block { packets, parities, shard_bytes: shard.len(), parity: BTreeMap::new() };
        let block = self.blocks.entry(first).or_insert_with(new);
        if (block.packets, block.parities, block.shard_bytes) != (packets, parities, shard.len()) {
            return Vec::new();
        }
        block.parity.insert(number, shard);
        if self.blocks.len() > MAX_BLOCKS {
            self.blocks.pop_first();
        }
        self.solve(first)
    }

    /// Brings back what is missing of a block, if there is enough of it.
    fn solve(&mut self, first: u64) -> Vec<Vec<u8>> {
        let Some(block) = self.blocks.get(&first) else { return Vec::new() };
        let packets = usize::from(block.packets);
        let known: BTreeMap<usize, &Vec<u8>> = self
            .packets
            .range(first..first + packets as u64)
            .map(|(counter, shard)| ((counter - first) as usize, shard))
            .collect();
        if known.len() + block.parity.len() < packets && known.len() < packets {
            return Vec::new();
        }
        let missing: Vec<usize> = (0..packets).filter(|number| !known.contains_key(number)).collect();
        let found = if missing.is_empty() { Vec::new() } else { block.solve(&known, &missing) };
        self.blocks.remove(&first);
        for (number, packet) in missing.iter().zip(&found) {
            self.packets.insert(first + *number as u64, shard(packet));
        }
        found
    }

    #[cfg(test)]
    pub(super) fn is_bounded(&self) -> bool {
        self.packets.len() <= MAX_PACKETS + usize::from(BLOCK_PACKETS) && self.blocks.len() <= MAX_BLOCKS
    }
}

impl Block {
    /// The missing packets, or none of them. Their first byte is for the hop to say.
    fn solve(&self, known: &BTreeMap<usize, &Vec<u8>>, missing: &[usize]) -> Vec<Vec<u8>> {
        if known.values().any(|shard| shard.len() > self.shard_bytes) {
            return Vec::new();
        }
        let mut originals: Vec<Vec<u8>> = known.values().map(|shard| (*shard).clone()).collect();
        pad(&mut originals, self.shard_bytes);
        let originals = known.keys().copied().zip(originals);
        let parity = self.parity.iter().map(|(number, shard)| (usize::from(*number), shard));
        let solved = reed_solomon_simd::decode(self.packets.into(), self.parities.into(), originals, parity);
        let Ok(solved) = solved else { return Vec::new() };
        let packet = |number: &usize| {
            let (length, rest) = solved.get(number)?.split_at_checked(LENGTH_BYTES)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            Some([&[0], rest.get(..length)?].concat())
        };
        // Forged parity gives nonsense: all or nothing.
        missing.iter().map(packet).collect::<Option<_>>().unwrap_or_default()
    }
}

const _: () = assert!(MAX_PACKETS >= 4 * BLOCK_PACKETS as usize);
