//! Places as people say them: latitude and longitude, `geo:` URIs, MGRS, polygons, receivers and orbits.
//!
//! The overlay finds nodes by cells of a grid. A [`Datum`] ties the grid to the Earth, and [`Place::parse`] reads
//! what a person writes. Nothing here opens a socket or reads a clock. Positions in the form in which records carry
//! them are words of `roost-wire`.
//!
//! ```
//! use roost_geo::{Datum, Place};
//! use roost_wire::Cell;
//!
//! let datum = Datum::new("47.0,8.0".parse()?, "1km".parse()?)?;
//! let place = Place::parse("geo:47.3769,8.5417;u=20", Some(&datum))?;
//! assert_eq!(place.cell, Cell::new(40, 42));
//! assert_eq!(place.describe(&datum), "lat 47.3769, lon 8.5417 (cell 40, 42)");
//!
//! // Two whole numbers are a cell.
//! assert_eq!(Place::parse("40,42", None)?.exact, None);
//!
//! let swapped = Place::parse("8.5417,47.3769", Some(&datum)).unwrap_err();
//! assert!(swapped.to_string().ends_with("did you mean 47.3769,8.5417?"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(missing_docs, reason = "a comment stands where it says more than the name")]

mod cover;
mod datum;
mod error;
mod follower;
mod geodesic;
mod geojson;
pub mod gpsd;
mod length;
mod mgrs;
mod motion;
mod notation;
mod orbit;
mod place;
mod region;
mod ring;
mod track;

pub use cover::MAX_RECTANGLES;
pub use datum::{Datum, GridPoint, MAX_REACH_M};
pub use error::{DatumError, PlaceError, RegionError};
pub use follower::{FollowState, Followed, OrbitFollower, ReceiverFollower};
pub use geodesic::{Way, bearing_deg, distance_m, travel};
pub use geojson::{MAX_GEOJSON_BYTES, MAX_POINTS};
pub use length::{Length, ParseLengthError};
pub use motion::{Mover, Update, deviates, is_moving, predict};
pub use orbit::{Orbit, OrbitError};
pub use place::Place;
pub use region::Region;
pub use roost_wire::position::{ExactPosition, LatLon, Move, OrbitElements};
pub use track::{Moment, Stay, Track};
