//! The sending side: blocks of packets, and their parity.

use std::time::Duration;

use roost_wire::Time;

use super::{BLOCK_PACKETS, LENGTH_BYTES, MAX_BYTES, ParityPacket, pad, shard};

/// A block that is not full by then ends with the next packet: parity that comes late is of no use.
const BLOCK_AGE: Duration = Duration::from_millis(100);

/// The block of one stream that is being filled.
#[derive(Debug, Default)]
pub(crate) struct ParityEncoder {
    first: u64,
    began: Time,
    shards: Vec<Vec<u8>>,
}

impl ParityEncoder {
    /// Takes a packet; returns the parity of the block that ends, so much for a full one and in
    /// proportion for others. One out of order ends a block; one that is too long is in none.
    pub(crate) fn push(&mut self, now: Time, counter: u64, packet: &[u8], parity: u8) -> Vec<ParityPacket> {
        let follows = self.first.checked_add(self.shards.len() as u64) == Some(counter);
        let is_over = !follows || now.since(self.began) >= BLOCK_AGE;
        let mut made = if is_over { self.end(parity) } else { Vec::new() };
        if packet.len() > MAX_BYTES {
            self.shards.clear();
            return made;
        }
        if self.shards.is_empty() {
            (self.first, self.began) = (counter, now);
        }
        self.shards.push(shard(packet));
        if self.shards.len() >= usize::from(BLOCK_PACKETS) {
            made.extend(self.end(parity));
        }
        made
    }

    fn end(&mut self, parity: u8) -> Vec<ParityPacket> {
        let mut shards = std::mem::take(&mut self.shards);
        let longest = shards.iter().map(Vec::len).max().unwrap_or(LENGTH_BYTES);
        pad(&mut shards, longest.next_multiple_of(2));
        let packets = shards.len();
        let parities = (packets * usize::from(parity)).div_ceil(BLOCK_PACKETS.into());
        if packets == 0 || parities == 0 {
            return Vec::new();
        }
        // Refused are only numbers and sizes that there are none of here; then there is no parity.
        let coded = reed_solomon_simd::encode(packets, parities, &shards).unwrap_or_default();
        let numbered = coded.into_iter().zip(0..);
        let of = |(shard, number): (Vec<u8>, u8)| ParityPacket {
            first: self.first,
            // Both below 256.
            packets: packets as u8,
            parities: parities as u8,
            number,
            shard: shard.into(),
        };
        numbered.map(of).collect()
    }
}
