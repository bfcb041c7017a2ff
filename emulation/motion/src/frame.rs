//! A plane of meters, or the Earth.

use roost_geo::{Datum, GridPoint, LatLon, Length, Way, travel};
use roost_topology::model::{Motion, Position};

/// The mean radius of the Earth, meters (IUGG).
pub(crate) const EARTH_M: f64 = 6_371_008.8;
/// WGS 84: the semi-major axis and the flattening.
const EQUATOR_M: f64 = 6_378_137.0;
const FLATTENING: f64 = 1.0 / 298.257_223_563;

#[derive(Clone, Debug)]
pub enum Frame {
    Plane,
    /// The datum has cells of a meter at the origin of local positions.
    Earth {
        datum: Option<Datum>,
    },
}

/// A place in space, ready for distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Meters: east, north and up on a plane; from the middle of the Earth otherwise.
    point: [f64; 3],
    vertical: Option<[f64; 3]>,
    pub altitude_m: f64,
}

impl Frame {
    /// # Errors
    /// Fails for an origin off the Earth.
    pub fn from_motion(motion: &Motion) -> Result<Self, String> {
        let datum = |(lat, lon)| {
            let origin = LatLon::new(lat, lon).map_err(|error| error.to_string())?;
            Datum::new(origin, Length::from_meters(1)).map_err(|error| error.to_string())
        };
        let datum = motion.origin.map(datum).transpose()?;
        Ok(if motion.is_on_earth() { Self::Earth { datum } } else { Self::Plane })
    }

    /// The position in degrees; `None` on a plane, and beyond the reach of the origin.
    pub fn on_earth(&self, position: Position) -> Option<(LatLon, f64)> {
        match (self, position) {
            (Self::Plane, _) => None,
            (_, Position::Earth { lat, lon, altitude_m }) => Some((LatLon::new(lat, lon).ok()?, altitude_m)),
            (Self::Earth { datum }, Position::Local { east_m, north_m, up_m }) => {
                Some((datum.as_ref()?.lat_lon(GridPoint { x: east_m, y: north_m })?, up_m))
            }
        }
    }

    /// The position in meters from the origin; `None` without an origin, and beyond its reach.
    pub fn local(&self, position: Position) -> Option<[f64; 3]> {
        match (self, position) {
            (_, Position::Local { east_m, north_m, up_m }) => Some([east_m, north_m, up_m]),
            (Self::Plane, Position::Earth { .. }) => None,
            (Self::Earth { datum }, Position::Earth { lat, lon, altitude_m }) => {
                let GridPoint { x, y } = datum.as_ref()?.grid_point(LatLon::new(lat, lon).ok()?).ok()?;
                Some([x, y, altitude_m])
            }
        }
    }

    pub fn spot(&self, position: Position) -> Option<Spot> {
        match (self, position) {
            (Self::Plane, Position::Local { east_m, north_m, up_m }) => {
                Some(Spot { point: [east_m, north_m, up_m], vertical: None, altitude_m: up_m })
            }
            _ => {
                let (at, altitude_m) = self.on_earth(position)?;
                Some(earth_spot(at, altitude_m))
            }
        }
    }
}

fn earth_spot(at: LatLon, altitude_m: f64) -> Spot {
    let (sin_lat, cos_lat) = at.lat().to_radians().sin_cos();
    let (sin_lon, cos_lon) = at.lon().to_radians().sin_cos();
    let eccentricity_squared = FLATTENING * (2.0 - FLATTENING);
    let normal = EQUATOR_M / (1.0 - eccentricity_squared * sin_lat * sin_lat).sqrt();
    let from_axis = (normal + altitude_m) * cos_lat;
    let above = (normal * (1.0 - eccentricity_squared) + altitude_m) * sin_lat;
    let vertical = [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat];
    Spot { point: [from_axis * cos_lon, from_axis * sin_lon, above], vertical: Some(vertical), altitude_m }
}

fn separation(a: [f64; 3], b: [f64; 3]) -> f64 {
    let [x, y, z] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    (x * x + y * y + z * z).sqrt()
}

pub fn distance_m(a: &Spot, b: &Spot) -> f64 {
    separation(a.point, b.point)
}

impl Spot {
    pub(crate) fn ground_distance_m(&self, other: &Self) -> f64 {
        match (self.vertical, other.vertical) {
            (Some(here), Some(there)) => {
                // The chord of the unit sphere is exact for small angles, too.
                let half_chord = separation(here, there) / 2.0;
                2.0 * half_chord.min(1.0).asin() * EARTH_M
            }
            _ => (self.point[0] - other.point[0]).hypot(self.point[1] - other.point[1]),
        }
    }
}

/// A straight piece of a path: along a geodesic on the Earth.
#[derive(Clone, Debug)]
pub(crate) enum Leg {
    Local { from: [f64; 3], to: [f64; 3] },
    Earth { from: LatLon, way: Way, altitudes_m: [f64; 2] },
}

impl Leg {
    /// The leg between two positions; meters and degrees mix if there is an origin.
    pub(crate) fn between(frame: &Frame, from: Position, to: Position) -> Option<Self> {
        if let (Position::Local { east_m, north_m, up_m }, Position::Local { east_m: east, north_m: north, up_m: up }) =
            (from, to)
        {
            return Some(Self::Local { from: [east_m, north_m, up_m], to: [east, north, up] });
        }
        let (start, low) = frame.on_earth(from)?;
        let (end, high) = frame.on_earth(to)?;
        Some(Self::Earth { from: start, way: Way::between(start, end), altitudes_m: [low, high] })
    }

    pub(crate) fn length_m(&self) -> f64 {
        match self {
            Self::Local { from, to } => separation(*from, *to),
            Self::Earth { way, altitudes_m: [low, high], .. } => way.distance_m.hypot(high - low),
        }
    }

    /// The position after a part of the leg, 0 to 1.
    pub(crate) fn at(&self, part: f64) -> Position {
        let between = |from: f64, to: f64| from + (to - from) * part;
        match self {
            Self::Local { from, to } => Position::Local {
                east_m: between(from[0], to[0]),
                north_m: between(from[1], to[1]),
                up_m: between(from[2], to[2]),
            },
            Self::Earth { from, way, altitudes_m: [low, high] } => {
                let (at, _) = travel(*from, Way { distance_m: way.distance_m * part, ..*way });
                Position::Earth { lat: at.lat(), lon: at.lon(), altitude_m: between(*low, *high) }
            }
        }
    }
}
