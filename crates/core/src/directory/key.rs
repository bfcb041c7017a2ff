//! An entry of the index in eight bytes, ordered so that remotes on the grid are remotes in the index.

use roost_wire::Cell;
use roost_wire::block::{BLOCK_BITS, Block, INNER_BITS, offset, unset};

/// Bits of a slot number.
const SLOT_BITS: u32 = 20;

/// The most slots that keys can name.
pub(super) const MAX_SLOTS: u32 = 1 << SLOT_BITS;

/// Known service, row of blocks, column of blocks, place in the block, slot: from
/// the most significant bit to the least, 2 + 18 + 18 + 6 + 20 bits. An own service has an index of its own, in which
/// the number of the service is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexKey(u64);

impl IndexKey {
    /// The key of `slot` offering the service of number `known` at `cell`, which is on the grid.
    pub(super) fn new(known: u8, cell: Cell, slot: u32) -> Self {
        let (x, y) = (offset(cell.x), offset(cell.y));
        let inner = (y & 7) << INNER_BITS | x & 7;
        let place = u64::from(inner) << SLOT_BITS | u64::from(slot);
        Self(Self::first_in(known, Block { row: y >> INNER_BITS, column: x >> INNER_BITS }).0 | place)
    }

    /// The first key of `block`.
    pub(super) fn first_in(known: u8, block: Block) -> Self {
        let block_bits = u64::from(block.row) << BLOCK_BITS | u64::from(block.column);
        Self((u64::from(known) << (2 * BLOCK_BITS) | block_bits) << (2 * INNER_BITS + SLOT_BITS))
    }

    /// The last key of `block`.
    pub(super) fn last_in(known: u8, block: Block) -> Self {
        Self(Self::first_in(known, block).0 | ((1 << (2 * INNER_BITS + SLOT_BITS)) - 1))
    }

    pub(super) fn cell(self) -> Cell {
        let Block { row, column } = self.block();
        let inner = (self.0 >> SLOT_BITS) as u32;
        Cell::new(unset(column << INNER_BITS | inner & 7), unset(row << INNER_BITS | inner >> INNER_BITS & 7))
    }

    /// In which block that is.
    pub(super) fn block(self) -> Block {
        let bits = self.0 >> (2 * INNER_BITS + SLOT_BITS);
        let mask = (1 << BLOCK_BITS) - 1;
        Block { row: (bits >> BLOCK_BITS) as u32 & mask, column: bits as u32 & mask }
    }

    /// The slot of the node's record.
    pub(super) fn slot(self) -> u32 {
        self.0 as u32 & (MAX_SLOTS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::grid::MAX_COORDINATE;

    #[test]
    fn index_key_round_trips() {
        for cell in [(0, 0), (27, 92), (-1, -9), (MAX_COORDINATE, -MAX_COORDINATE), (-MAX_COORDINATE, MAX_COORDINATE)] {
            let cell = Cell::new(cell.0, cell.1);
            for service in 0..4 {
                let key = IndexKey::new(service, cell, MAX_SLOTS - 1);
                assert_eq!((key.cell(), key.slot()), (cell, MAX_SLOTS - 1));
                assert!(key.block() == Block::from_cell(cell));
                assert!(
                    key >= IndexKey::first_in(service, key.block()) && key <= IndexKey::last_in(service, key.block())
                );
            }
        }
    }

    #[test]
    fn services_do_not_share_keys() {
        let corner = Cell::new(MAX_COORDINATE, MAX_COORDINATE);
        let last = IndexKey::new(0, corner, MAX_SLOTS - 1);
        assert!(last < IndexKey::new(1, Cell::new(-MAX_COORDINATE, -MAX_COORDINATE), 0));
    }
}
