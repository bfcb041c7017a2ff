//! Blocks of 8 × 8 cells: the grain in which hubs tell one another where
//! there is something.

use std::ops::RangeInclusive;

use minicbor::{Decode, Encode};

use crate::grid::{Area, Cell, MAX_COORDINATE};
use crate::service::ServiceCode;

/// Bits of a block number on one axis: 250 001 blocks of 8 cells.
pub const BLOCK_BITS: u32 = 18;
/// Bits of a place inside a block on one axis.
pub const INNER_BITS: u32 = 3;

/// A block of 8 × 8 cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    pub row: u32,
    pub column: u32,
}

/// A service in a block, in the order of service, row, column: 28 + 18 + 18 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct BlockService(#[n(0)] u64);

impl Block {
    /// The last row and column of the grid.
    pub const LAST: u32 = (2 * MAX_COORDINATE as u32) >> INNER_BITS;

    pub fn from_cell(cell: Cell) -> Self {
        Self { row: offset(cell.y) >> INNER_BITS, column: offset(cell.x) >> INNER_BITS }
    }

    /// The rows and columns of blocks in which `area` lies.
    pub fn bounds(area: Area) -> (RangeInclusive<u32>, RangeInclusive<u32>) {
        let (min, max) = match area {
            Area::Rectangle { min, max } => (min, max),
            Area::Radius { center, radius } => {
                // A valid radius is at most four times the largest coordinate.
                let radius = radius as i32;
                let low = |at: i32| (at - radius).max(-MAX_COORDINATE);
                let high = |at: i32| (at + radius).min(MAX_COORDINATE);
                (Cell::new(low(center.x), low(center.y)), Cell::new(high(center.x), high(center.y)))
            }
            Area::Exact(cell) => (cell, cell),
            Area::Nearest(_) | Area::Anywhere => return (0..=Self::LAST, 0..=Self::LAST),
        };
        let (low, high) = (Self::from_cell(min), Self::from_cell(max));
        (low.row..=high.row, low.column..=high.column)
    }
}

impl BlockService {
    pub fn from_cell(service: ServiceCode, cell: Cell) -> Self {
        Self::at(service, Block::from_cell(cell))
    }

    pub fn at(service: ServiceCode, block: Block) -> Self {
        Self(
            u64::from(service.number()) << (2 * BLOCK_BITS)
                | u64::from(block.row) << BLOCK_BITS
                | u64::from(block.column),
        )
    }

    pub fn service(self) -> ServiceCode {
        // A code has as many bits as there are above a block's.
        ServiceCode::from_number((self.0 >> (2 * BLOCK_BITS)) as u32).unwrap_or_default()
    }

    pub fn block(self) -> Block {
        let mask = (1 << BLOCK_BITS) - 1;
        Block { row: (self.0 >> BLOCK_BITS) as u32 & mask, column: self.0 as u32 & mask }
    }

    /// The number that it is on the wire.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The service and block of this number, if there is one.
    pub fn from_number(number: u64) -> Option<Self> {
        let block_service = Self(number);
        let block = block_service.block();
        let is_sound = block.row <= Block::LAST && block.column <= Block::LAST;
        is_sound.then_some(block_service)
    }

    /// The blocks of `area`, each with `service`, if they are at most `limit`.
    pub fn few(service: ServiceCode, area: Area, limit: usize) -> Option<Vec<Self>> {
        let (rows, columns) = Block::bounds(area);
        let length = |range: &RangeInclusive<u32>| (range.end() - range.start()) as usize + 1;
        if length(&rows).saturating_mul(length(&columns)) > limit {
            return None;
        }
        let block_services =
            rows.flat_map(|row| columns.clone().map(move |column| Self::at(service, Block { row, column })));
        Some(block_services.collect())
    }
}

/// The distance of a row or column of blocks from a coordinate, in cells; 0 inside it.
pub fn gap(block: u32, coordinate: i32) -> u64 {
    let first = unset(block << INNER_BITS);
    let nearest = coordinate.clamp(first, first + 7);
    u64::from(nearest.abs_diff(coordinate))
}

/// A coordinate as a number from 0.
pub fn offset(coordinate: i32) -> u32 {
    (coordinate.clamp(-MAX_COORDINATE, MAX_COORDINATE) + MAX_COORDINATE) as u32
}

/// The coordinate that `offset` made into `number`.
pub fn unset(number: u32) -> i32 {
    number as i32 - MAX_COORDINATE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;

    #[test]
    fn block_service_number_round_trips() {
        for cell in [(0, 0), (27, 92), (-1, -9), (MAX_COORDINATE, -MAX_COORDINATE)] {
            for service in Service::ALL {
                let block_service = BlockService::from_cell(service.code(), Cell::new(cell.0, cell.1));
                assert_eq!(block_service.block(), Block::from_cell(Cell::new(cell.0, cell.1)));
                assert_eq!(BlockService::from_number(block_service.number()), Some(block_service));
            }
        }
        assert_eq!(BlockService::from_number(u64::from(Block::LAST) + 1), None);
    }

    #[test]
    fn area_listing_respects_limit() {
        let few = |area, limit| BlockService::few(Service::Track.code(), area, limit).map(|blocks| blocks.len());
        assert_eq!(few(Area::Exact(Cell::new(3, 3)), 16), Some(1));
        assert_eq!(few(Area::Radius { center: Cell::new(4, 4), radius: 8 }, 16), Some(9));
        assert_eq!(few(Area::Radius { center: Cell::new(4, 4), radius: 20 }, 16), None);
        assert_eq!(few(Area::Anywhere, 16), None);
    }
}
