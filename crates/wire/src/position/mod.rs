//! Positions on the Earth, in the form in which records carry them.

mod exact;
mod lat_lon;
mod orbit;
mod scale;

pub use exact::{ExactPosition, Move};
pub use lat_lon::{LatLon, ParseLatLonError};
pub use orbit::OrbitElements;
