//! The grid: cells, areas, distances.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::Error as DecodeError;
use minicbor::{Decode, Decoder, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::refusal::check_bound;

/// The largest coordinate on either axis, in cells, on either side of zero.
pub const MAX_COORDINATE: i32 = 1_000_000;

/// A place on the grid, in cells: `27,92`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(array)]
pub struct Cell {
    /// East, in cells.
    #[cbor(n(0), decode_with = "decode_coordinate")]
    pub x: i32,
    /// North, in cells.
    #[cbor(n(1), decode_with = "decode_coordinate")]
    pub y: i32,
}

fn decode_coordinate<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<i32, DecodeError> {
    let coordinate = d.i32()?;
    check_bound(is_coordinate(coordinate), "a cell off the grid")?;
    Ok(coordinate)
}

const fn is_coordinate(number: i32) -> bool {
    number.unsigned_abs() <= MAX_COORDINATE as u32
}

impl Cell {
    pub const fn new(x: i32, y: i32) -> Self {
        Self { x, y }
    }

    /// The square of the straight distance to `other`, in cells².
    pub fn distance_squared(self, other: Self) -> u64 {
        let dx = u64::from(self.x.abs_diff(other.x));
        let dy = u64::from(self.y.abs_diff(other.y));
        dx.saturating_mul(dx).saturating_add(dy.saturating_mul(dy))
    }

    /// True if both coordinates lie within ±[`MAX_COORDINATE`].
    pub const fn is_on_grid(self) -> bool {
        is_coordinate(self.x) && is_coordinate(self.y)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.x, self.y)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a location: expected X,Y in whole cells between -1000000 and 1000000, such as 27,92")]
pub struct ParseCellError(String);

impl FromStr for Cell {
    type Err = ParseCellError;

    /// Reads `X,Y`, also in brackets and with spaces: `(27, 92)`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseCellError(text.to_owned());
        let trimmed = text.trim();
        let bare = trimmed.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(trimmed);
        let (x, y) = bare.split_once(',').ok_or_else(wrong)?;
        let number = |part: &str| part.trim().parse().map_err(|_| wrong());
        let cell = Self::new(number(x)?, number(y)?);
        if cell.is_on_grid() { Ok(cell) } else { Err(wrong()) }
    }
}

/// The area of the providers that a request or a lookup is for.
///
/// In JSON: `{"at": "27,92"}`, `{"near": "27,92"}`, `{"within": {"center": "27,92", "radius": 5}}`,
/// `{"rect": {"min": "0,0", "max": "9,9"}}` or `"anywhere"`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize, JsonSchema,
)]
#[cbor(flat)]
#[serde(deny_unknown_fields)]
pub enum Area {
    #[n(0)]
    #[serde(rename = "at")]
    Exact(#[n(0)] Cell),
    /// Everywhere, nearest to this cell first.
    #[n(1)]
    #[serde(rename = "near")]
    Nearest(#[n(0)] Cell),
    /// Within a straight distance of a cell, nearest first.
    #[n(2)]
    #[serde(rename = "within")]
    Radius {
        #[n(0)]
        center: Cell,
        /// The distance, in cells; what lies exactly on it counts.
        #[n(1)]
        radius: u32,
    },
    /// Inside a rectangle, edges included.
    #[n(3)]
    #[serde(rename = "rect")]
    Rectangle {
        /// The corner with the smaller coordinates.
        #[n(0)]
        min: Cell,
        /// The corner with the greater coordinates.
        #[n(1)]
        max: Cell,
    },
    #[n(4)]
    #[serde(rename = "anywhere")]
    Anywhere,
}

impl Area {
    /// The rectangle between two opposite corners, in any order.
    pub fn rectangle(a: Cell, b: Cell) -> Self {
        Self::Rectangle { min: Cell::new(a.x.min(b.x), a.y.min(b.y)), max: Cell::new(a.x.max(b.x), a.y.max(b.y)) }
    }

    pub fn contains(&self, cell: Cell) -> bool {
        match *self {
            Self::Exact(place) => place == cell,
            Self::Radius { center, radius } => center.distance_squared(cell) <= u64::from(radius) * u64::from(radius),
            Self::Rectangle { min, max } => (min.x..=max.x).contains(&cell.x) && (min.y..=max.y).contains(&cell.y),
            Self::Nearest(_) | Self::Anywhere => true,
        }
    }

    /// The cell from which distance ranks the answers, if distance does.
    pub fn center(&self) -> Option<Cell> {
        match *self {
            Self::Exact(cell) | Self::Nearest(cell) | Self::Radius { center: cell, .. } => Some(cell),
            Self::Rectangle { .. } | Self::Anywhere => None,
        }
    }

    /// True if whoever is found in it will do, however many others there are:
    /// in one cell all are as near, and anywhere nearness does not matter.
    pub const fn wants_any(&self) -> bool {
        matches!(self, Self::Exact(_) | Self::Anywhere)
    }

    /// True if every coordinate is on the grid and a rectangle's corners are in order.
    pub fn is_valid(&self) -> bool {
        match *self {
            Self::Exact(cell) | Self::Nearest(cell) => cell.is_on_grid(),
            Self::Radius { center, radius } => center.is_on_grid() && radius <= 4 * MAX_COORDINATE as u32,
            Self::Rectangle { min, max } => min.is_on_grid() && max.is_on_grid() && min.x <= max.x && min.y <= max.y,
            Self::Anywhere => true,
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(cell) => write!(f, "at ({cell})"),
            Self::Nearest(cell) => write!(f, "near ({cell})"),
            Self::Radius { center, radius } => write!(f, "within {radius} of ({center})"),
            Self::Rectangle { min, max } => write!(f, "from ({min}) to ({max})"),
            Self::Anywhere => f.write_str("anywhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_parses_common_notations() {
        for text in ["27,92", "(27, 92)", " 27 , 92 "] {
            assert_eq!(text.parse(), Ok(Cell::new(27, 92)), "{text}");
        }
        assert_eq!("-3,4".parse(), Ok(Cell::new(-3, 4)));
    }

    #[test]
    fn malformed_or_distant_cell_is_rejected() {
        for text in ["", "27", "27;92", "27,92,1", "a,b", "1000001,0", "0,-2147483648", "(1,2"] {
            assert!(text.parse::<Cell>().is_err(), "{text}");
        }
    }

    #[test]
    fn area_includes_its_edge() {
        let disc = Area::Radius { center: Cell::new(0, 0), radius: 5 };
        assert!(disc.contains(Cell::new(3, 4)));
        assert!(!disc.contains(Cell::new(4, 4)));
        let rectangle = Area::rectangle(Cell::new(2, 9), Cell::new(-1, 3));
        assert!(rectangle.contains(Cell::new(2, 3)));
        assert!(!rectangle.contains(Cell::new(3, 3)));
    }
}
