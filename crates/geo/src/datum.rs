//! The datum: where on the Earth the grid lies.

use minicbor::decode::Error as DecodeError;
use minicbor::{Decode, Decoder, Encode};
use roost_wire::messages::StatedDatum;
use roost_wire::position::LatLon;
use roost_wire::{Cell, text};
use serde::{Deserialize, Serialize};

use crate::error::{DatumError, PlaceError};
use crate::geodesic::{self, Way};
use crate::length::Length;

/// The distance from its origin up to which a datum converts, meters. A scale is 1.7 % off there.
pub const MAX_REACH_M: f64 = 2_000_000.0;
/// [`MAX_REACH_M`] as errors tell it, kilometers.
pub(crate) const REACH_KM: u32 = 2000;

const MIN_CELL_M: f64 = 1.0;
const MAX_CELL_M: f64 = 100_000.0;

/// The origin of a group's grid, and the size of its cells.
///
/// The projection is azimuthal equidistant (Snyder, "Map Projections: A Working Manual", USGS 1395, chapter 25),
/// computed with geodesics: distance and bearing *from the origin* are exact. Across the bearing, lengths grow with
/// the distance c from the origin (in radians of the Earth) by c / sin c: 0.1 % at 500 km, 0.4 % at 1000 km and
/// 1.7 % at 2000 km, where the projection ends. Poles and the meridian of 180° are places like others. At an origin
/// on a pole, north is the meridian of 180° (of 0° at the South Pole).
///
/// Cell (x, y) reaches from x to x + 1 cells to the east and from y to y + 1 to the north of the origin.
///
/// In JSON `{"origin": "47.37,8.54", "cell": "1km"}`; in CBOR the origin in 1e-7° and the size in meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Serialize, Deserialize)]
#[cbor(array)]
#[serde(try_from = "Unchecked")]
pub struct Datum {
    #[n(0)]
    #[serde(with = "text")]
    origin: LatLon,
    #[n(1)]
    #[serde(with = "text")]
    cell: Length,
}

/// A point on the grid, in cells east and north of the origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridPoint {
    pub x: f64,
    pub y: f64,
}

impl Datum {
    /// # Errors
    /// Fails for cells below 1 m and above 100 km.
    pub fn new(origin: LatLon, cell: Length) -> Result<Self, DatumError> {
        if !(MIN_CELL_M..=MAX_CELL_M).contains(&cell.meters()) {
            return Err(DatumError::CellSize(cell));
        }
        Ok(Self { origin, cell })
    }

    pub const fn origin(&self) -> LatLon {
        self.origin
    }

    pub const fn cell_size(&self) -> Length {
        self.cell
    }

    /// The greatest factor by which the grid stretches a length at this distance from the origin.
    pub fn stretch(distance_m: f64) -> f64 {
        // The smallest radius of curvature, that of a meridian at the equator, gives the greatest factor.
        let angle = distance_m / 6_335_439.0;
        if angle < 1e-6 { 1.0 } else { angle / angle.sin() }
    }

    /// # Errors
    /// Fails farther than [`MAX_REACH_M`] from the origin.
    pub fn grid_point(&self, at: LatLon) -> Result<GridPoint, PlaceError> {
        let Way { distance_m, bearing_deg } = Way::between(self.origin, at);
        if distance_m > MAX_REACH_M {
            let away_km = (distance_m / 1000.0).round() as u32;
            return Err(PlaceError::Far { at, away_km, origin: self.origin, reach_km: REACH_KM });
        }
        let (sin, cos) = bearing_deg.to_radians().sin_cos();
        let cells = distance_m / self.cell.meters();
        Ok(GridPoint { x: cells * sin, y: cells * cos })
    }

    /// The cell in which a point is.
    ///
    /// # Errors
    /// Fails beyond the datum's reach, and off the grid where cells are small.
    pub fn cell(&self, at: LatLon) -> Result<Cell, PlaceError> {
        let GridPoint { x, y } = self.grid_point(at)?;
        let cell = Cell::new(x.floor() as i32, y.floor() as i32);
        if cell.is_on_grid() { Ok(cell) } else { Err(PlaceError::OffGrid { at, cell: self.cell }) }
    }

    /// The point on the Earth; none beyond the datum's reach.
    pub fn lat_lon(&self, point: GridPoint) -> Option<LatLon> {
        let distance_m = point.x.hypot(point.y) * self.cell.meters();
        let bearing_deg = point.x.atan2(point.y).to_degrees();
        (distance_m <= MAX_REACH_M).then(|| geodesic::travel(self.origin, Way { distance_m, bearing_deg }).0)
    }

    /// The middle of a cell.
    ///
    /// # Errors
    /// Fails beyond the datum's reach.
    pub fn middle(&self, cell: Cell) -> Result<LatLon, PlaceError> {
        let middle = GridPoint { x: f64::from(cell.x) + 0.5, y: f64::from(cell.y) + 0.5 };
        self.lat_lon(middle).ok_or_else(|| PlaceError::FarCell(cell.to_string(), REACH_KM))
    }
}

impl From<Datum> for StatedDatum {
    fn from(Datum { origin, cell }: Datum) -> Self {
        Self { origin, cell_m: cell.meters() as u32 }
    }
}

#[derive(Decode, Deserialize)]
#[cbor(array)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    #[n(0)]
    #[serde(with = "text")]
    origin: LatLon,
    #[n(1)]
    #[serde(with = "text")]
    cell: Length,
}

impl TryFrom<Unchecked> for Datum {
    type Error = DatumError;

    fn try_from(Unchecked { origin, cell }: Unchecked) -> Result<Self, DatumError> {
        Self::new(origin, cell)
    }
}

impl<'b, C> Decode<'b, C> for Datum {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        Self::try_from(Unchecked::decode(d, ctx)?).map_err(DecodeError::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geodesic::distance_m;

    fn datum(lat: f64, lon: f64, meters: u32) -> Datum {
        Datum::new(LatLon::new(lat, lon).unwrap(), Length::from_meters(meters)).unwrap()
    }

    fn assert_grid(datum: &Datum, at: [f64; 2], expected_m: [f64; 2]) {
        let point = datum.grid_point(LatLon::new(at[0], at[1]).unwrap()).unwrap();
        let error = (point.x - expected_m[0]).hypot(point.y - expected_m[1]);
        assert!(error < 0.02, "{at:?}: {point:?}");
    }

    /// Figures of PROJ as pyproj 3.7.2 brings it (`+proj=aeqd +ellps=WGS84`), with cells of a meter.
    #[test]
    fn grid_agrees_with_proj() {
        let zurich = datum(47.37, 8.54, 1);
        assert_grid(&zurich, [47.3769, 8.5417], [128.383, 767.13]);
        assert_grid(&zurich, [51.5, 0.0], [-592_263.416, 492_585.95]);
        assert_grid(&zurich, [40.0, 20.0], [978_165.815, -749_492.801]);
        assert_grid(&zurich, [60.0, -10.0], [-1_030_947.707, 1_537_909.606]);
        let arctic = datum(85.0, 179.0, 1);
        assert_grid(&arctic, [88.0, -10.0], [35_024.964, 779_086.802]);
        assert_grid(&arctic, [80.0, -170.0], [212_309.277, -538_056.856]);
    }

    /// The error across the bearing, measured over a kilometer.
    #[test]
    fn scale_error_is_as_stated() {
        for (away_m, at_most) in [(500_000.0, 0.0011), (1_000_000.0, 0.0042), (1_990_000.0, 0.0170)] {
            for lat in [0.0, 47.0, -70.0, 90.0] {
                let datum = datum(lat, 8.0, 1000);
                for degrees in [0.0_f64, 45.0, 90.0, 200.0] {
                    let (sin, cos) = degrees.to_radians().sin_cos();
                    let away = away_m / 1000.0;
                    let ends = [-0.5, 0.5].map(|side| {
                        let point = GridPoint { x: away * sin + side * cos, y: away * cos - side * sin };
                        datum.lat_lon(point).unwrap()
                    });
                    let error = 1000.0 / distance_m(ends[0], ends[1]) - 1.0;
                    assert!(error > at_most * 0.85 && error < at_most, "{lat} {degrees} {away_m}: {error}");
                    assert!(1.0 + error <= Datum::stretch(away_m) + 2e-5);
                }
            }
        }
    }

    #[test]
    fn far_and_antipodal_points_are_refused() {
        let datum = datum(47.37, 8.54, 1000);
        for (lat, lon) in [(-47.37, -171.46), (10.0, 8.54), (47.37, 40.0)] {
            let error = datum.cell(LatLon::new(lat, lon).unwrap()).unwrap_err();
            assert!(matches!(error, PlaceError::Far { .. }), "{error}");
        }
        assert!(datum.middle(Cell::new(2001, 0)).is_err());
        let fine = Datum { cell: Length::from_meters(1), ..datum };
        let error = fine.cell(LatLon::new(47.37, 23.0).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "47.37,23.0 is off the grid: its cells of 1m end before it, so choose larger cells"
        );
    }

    #[test]
    fn decoding_checks_the_bounds() {
        let datum = datum(47.37, 8.54, 1000);
        assert_eq!(minicbor::decode::<Datum>(&minicbor::to_vec(datum).unwrap()).unwrap(), datum);
        let json = r#"{"origin":"47.37,8.54","cell":"1km"}"#;
        assert_eq!(serde_json::to_string(&datum).unwrap(), json);
        assert_eq!(serde_json::from_str::<Datum>(json).unwrap(), datum);
        for meters in [0_u32, 100_001, u32::MAX] {
            let bytes = minicbor::to_vec((datum.origin, meters)).unwrap();
            assert!(minicbor::decode::<Datum>(&bytes).is_err(), "{meters}");
        }
        for wrong in [r#"{"origin":"47.37,8.54","cell":"101km"}"#, r#"{"origin":"97.37,8.54","cell":"1km"}"#] {
            assert!(serde_json::from_str::<Datum>(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn grid_round_trips(
            lat in prop_oneof![-90.0..=90.0, Just(90.0), Just(-90.0)],
            lon in prop_oneof![-180.0..180.0, 179.0..180.0],
            meters in 1_u32..=100_000,
            away in 0.0..1_999_000.0,
            bearing_deg in 0.0..360.0,
        ) {
            let datum = datum(lat, lon, meters);
            let (at, _) = geodesic::travel(datum.origin(), Way { distance_m: away, bearing_deg });
            let point = datum.grid_point(at).unwrap();
            prop_assert!((point.x.hypot(point.y) * f64::from(meters) - away).abs() < 0.02);
            prop_assert!(distance_m(datum.lat_lon(point).unwrap(), at) < 0.02);
        }

        #[test]
        fn middle_of_a_cell_is_in_it(x in -900_i32..900, y in -900_i32..900, lat in -90.0..=90.0, lon in -180.0..180.0) {
            let datum = datum(lat, lon, 1000);
            let cell = Cell::new(x, y);
            prop_assert_eq!(datum.cell(datum.middle(cell).unwrap()).unwrap(), cell);
        }
    }
}
