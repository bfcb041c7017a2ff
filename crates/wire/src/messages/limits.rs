//! Bounds that the fields of several messages share.

use super::{MAX_CANDIDATES, WireError};
use crate::address::Address;
use crate::grid::{Area, Cell};
use crate::record::MAX_ADDRESSES;

/// # Errors
/// [`WireError::OutOfBounds`] unless the bound holds.
pub(super) fn check_bound(holds: bool, violation: &'static str) -> Result<(), WireError> {
    if holds { Ok(()) } else { Err(WireError::OutOfBounds(violation)) }
}

pub(super) fn check_cell(cell: Cell) -> Result<(), WireError> {
    check_bound(cell.is_on_grid(), "a cell off the grid")
}

pub(super) fn check_area(area: Area) -> Result<(), WireError> {
    check_bound(area.is_valid(), "an area off the grid")
}

pub(super) fn check_addresses(addresses: &[Address]) -> Result<(), WireError> {
    check_bound(addresses.len() <= MAX_ADDRESSES, "too many addresses")
}

pub(super) fn check_siblings(siblings: &[Address]) -> Result<(), WireError> {
    check_bound(siblings.len() <= MAX_CANDIDATES, "too many siblings")
}
