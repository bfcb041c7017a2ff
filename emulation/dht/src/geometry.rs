//! Circles, directions and rings on the grid.

use roost_wire::Cell;

/// A node's number, which stands for its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DhtId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contact {
    pub id: DhtId,
    pub cell: Cell,
}

/// The area of a search; a radius of 0 is a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circle {
    pub center: Cell,
    /// In cells; what lies exactly on it counts.
    pub radius: u32,
}

impl Circle {
    pub fn contains(&self, cell: Cell) -> bool {
        self.center.distance_squared(cell) <= u64::from(self.radius) * u64::from(self.radius)
    }

    /// The order in which nodes are asked: 0 inside, and outside the square of the distance to the center.
    pub(crate) fn gap(&self, cell: Cell) -> u64 {
        if self.contains(cell) { 0 } else { self.center.distance_squared(cell) }
    }
}

/// The directions of a table: north-east, north-west, south-west, south-east.
pub(crate) const DIRECTIONS: u8 = 4;

/// The place of a bucket in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BucketKey {
    /// Ring n holds what is from 2ⁿ to 2ⁿ⁺¹ cells away.
    pub(crate) ring: u8,
    pub(crate) direction: u8,
}

impl BucketKey {
    pub(crate) fn between(own: Cell, other: Cell) -> Self {
        let (dx, dy) = (other.x.saturating_sub(own.x), other.y.saturating_sub(own.y));
        let direction = match () {
            () if dx > 0 && dy >= 0 => 0,
            () if dx <= 0 && dy > 0 => 1,
            () if dx < 0 => 2,
            () => 3,
        };
        // The root of a square has half its logarithm.
        let ring = own.distance_squared(other).checked_ilog2().unwrap_or(0) / 2;
        Self { ring: ring as u8, direction }
    }

    pub(crate) fn middle(self, own: Cell) -> Cell {
        // Cells are at most a few million apart.
        let far = 3_i32 << self.ring.min(22);
        let (long, short) = (far / 2, far / 4);
        let (dx, dy) = match self.direction {
            0 => (long, short),
            1 => (-short, long),
            2 => (-long, -short),
            _ => (short, -long),
        };
        Cell::new(own.x.saturating_add(dx), own.y.saturating_add(dy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_double_in_each_direction() {
        let own = Cell::new(10, 10);
        let key = |x: i32, y: i32| {
            let BucketKey { ring, direction } = BucketKey::between(own, Cell::new(10 + x, 10 + y));
            (ring, direction)
        };
        assert_eq!(
            [key(1, 0), key(2, 0), key(3, 0), key(4, 0), key(7, 0), key(8, 0)].map(|(ring, _)| ring),
            [0, 1, 1, 2, 2, 3]
        );
        assert_eq!([key(5, 0), key(0, 5), key(-5, 0), key(0, -5)].map(|(_, direction)| direction), [0, 1, 2, 3]);
        assert_eq!([key(5, 5), key(-5, 5), key(-5, -5), key(5, -5)].map(|(_, direction)| direction), [0, 1, 2, 3]);
        assert_eq!(key(0, 0).0, 0);
    }

    #[test]
    fn middle_lies_in_its_bucket() {
        let own = Cell::new(-3, 8);
        for ring in 1..20 {
            for direction in 0..DIRECTIONS {
                let key = BucketKey { ring, direction };
                assert_eq!(BucketKey::between(own, key.middle(own)), key);
            }
        }
    }

    #[test]
    fn inside_comes_before_outside() {
        let circle = Circle { center: Cell::new(0, 0), radius: 5 };
        let gaps = [(3, 4), (0, 0), (4, 4), (9, 0)].map(|(x, y)| circle.gap(Cell::new(x, y)));
        assert_eq!(gaps, [0, 0, 32, 81]);
    }
}
