//! The point from which providers in cells equally far are compared by their exact distance.

use roost_geo::Datum;
use roost_wire::{Cell, ExactPosition, LatLon};

/// A point on the Earth, with the datum by which cells have middles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewpoint {
    pub(crate) at: LatLon,
    pub(crate) datum: Datum,
}

impl Viewpoint {
    /// Meters to a provider: to its position, or to the middle of its cell.
    pub(crate) fn meters(&self, cell: Cell, position: Option<ExactPosition>) -> u32 {
        let at = position.map(|position| position.at).or_else(|| self.datum.middle(cell).ok());
        at.map_or(u32::MAX, |at| self.at.quick_distance_m(at).round() as u32)
    }
}
