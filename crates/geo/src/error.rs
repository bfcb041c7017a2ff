//! Errors of reading, each a sentence with its remedy.

use roost_wire::grid::MAX_COORDINATE;
use roost_wire::position::{LatLon, ParseLatLonError};

use crate::length::Length;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatumError {
    #[error("a cell of {0} is too small or too large: choose 1m to 100km")]
    CellSize(Length),
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlaceError {
    #[error(
        "{0:?} is no place: write a cell (27,92), latitude and longitude (47.3769,8.5417), a geo: URI or an MGRS square"
    )]
    Form(String),
    #[error(
        "{0} is a place on the Earth and the group has no datum: name a cell such as 27,92, or make a group with one (roost \
         group init --origin LAT,LON --cell 1km)"
    )]
    NoDatum(String),
    #[error("cell {0} is off the grid: coordinates are from -{MAX_COORDINATE} to {MAX_COORDINATE}")]
    Cell(String),
    #[error(transparent)]
    LatLon(#[from] ParseLatLonError),
    #[error("{cause}; did you mean {swapped}?")]
    Swapped { cause: Box<Self>, swapped: LatLon },
    #[error("{text:?} is no MGRS square: {reason}")]
    Mgrs { text: String, reason: String },
    #[error("a position of the reference system {0:?} cannot be read: convert it to WGS 84")]
    ReferenceSystem(String),
    #[error("{at} is {away_km} km from the datum {origin}, beyond the {reach_km} km that a datum reaches")]
    Far { at: LatLon, away_km: u32, origin: LatLon, reach_km: u32 },
    #[error("{at} is off the grid: its cells of {cell} end before it, so choose larger cells")]
    OffGrid { at: LatLon, cell: Length },
    #[error("cell {0} is farther from the datum than the {1} km that it reaches: check the cell")]
    FarCell(String, u32),
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegionError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the GeoJSON cannot be read ({0}): give a Polygon, a MultiPolygon, or features with them")]
    GeoJson(String),
    #[error("{0}; GeoJSON puts the longitude before the latitude, so are the numbers of each point swapped?")]
    Swapped(Box<Self>),
    #[error("a ring of the polygon is open or too short: repeat its first of at least three points at its end")]
    Ring,
    #[error("the region has more than {0} points: simplify its outline")]
    Points(usize),
    #[error("a ring of the polygon crosses itself: put its points in the order of its outline")]
    Crossing,
    #[error(
        "the outline of the region has more than {0} points on the grid, a quarter of a degree apart: make it shorter, or \
         draw it with fewer edges where meridians meet"
    )]
    Pieces(usize),
    #[error("an edge of the region is half around the Earth: choose a narrower box, or add points to the polygon")]
    Edge,
    #[error("a circle of {radius} around {center} leaves the {reach_km} km that a datum reaches: choose a smaller one")]
    Circle { center: LatLon, radius: Length, reach_km: u32 },
}
