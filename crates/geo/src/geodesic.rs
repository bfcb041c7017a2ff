//! Distance and direction on the WGS 84 ellipsoid, after Karney, "Algorithms for geodesics" (2013).

use std::fmt;
use std::sync::LazyLock;

use geographiclib_rs::{DirectGeodesic, Geodesic, InverseGeodesic};
use roost_wire::position::LatLon;

/// The coefficients take longer to compute than a distance does.
static WGS84: LazyLock<Geodesic> = LazyLock::new(Geodesic::wgs84);

/// The way from one point to another: `12.3 km, bearing 045°`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    pub distance_m: f64,
    /// Degrees from true north over east, at the start; from 0 up to but not including 360.
    pub bearing_deg: f64,
}

impl Way {
    pub fn between(from: LatLon, to: LatLon) -> Self {
        let (distance_m, azimuth, _, _): (f64, f64, f64, f64) =
            WGS84.inverse(from.lat(), from.lon(), to.lat(), to.lon());
        Self { distance_m, bearing_deg: turn(azimuth) }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.distance_m {
            meters if meters < 999.5 => write!(f, "{meters:.0} m")?,
            meters if meters < 99_950.0 => write!(f, "{:.1} km", meters / 1000.0)?,
            meters => write!(f, "{:.0} km", meters / 1000.0)?,
        }
        write!(f, ", bearing {:03}°", self.bearing_deg.round() as u32 % 360)
    }
}

/// The length of the shortest way on the ellipsoid, meters; right to a micrometer.
/// [`LatLon::quick_distance_m`] is for ranking.
pub fn distance_m(from: LatLon, to: LatLon) -> f64 {
    WGS84.inverse(from.lat(), from.lon(), to.lat(), to.lon())
}

/// The direction in which the shortest way begins, degrees from true north over east.
pub fn bearing_deg(from: LatLon, to: LatLon) -> f64 {
    Way::between(from, to).bearing_deg
}

/// The end of a way, and the course there, degrees: except along the equator and meridians it turns on the way.
pub fn travel(from: LatLon, way: Way) -> (LatLon, f64) {
    let (lat, lon, azimuth) = WGS84.direct(from.lat(), from.lon(), way.bearing_deg, way.distance_m);
    // The library's results are on the Earth.
    (LatLon::new(lat, lon).unwrap_or(from), turn(azimuth))
}

/// An angle as a direction, from 0 up to but not including 360.
fn turn(degrees: f64) -> f64 {
    let turned = degrees.rem_euclid(360.0);
    if turned >= 360.0 { 0.0 } else { turned }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(lat: f64, lon: f64) -> LatLon {
        LatLon::new(lat, lon).unwrap()
    }

    /// Figures of PROJ as pyproj 3.7.2 brings it (`pyproj.Geod(ellps="WGS84").inv`).
    #[test]
    fn ways_agree_with_proj() {
        let way = Way::between(point(47.3769, 8.5417), point(51.5072, -0.1276));
        assert!((way.distance_m - 777_810.853_516).abs() < 1e-3);
        assert!((way.bearing_deg - 309.393_536).abs() < 1e-5);
        assert_eq!(way.to_string(), "778 km, bearing 309°");
        let across = Way::between(point(-16.5, 179.5), point(-17.0, -179.5));
        assert!((across.distance_m - 120_128.104_350).abs() < 1e-3);
        assert!((across.bearing_deg - 117.570_368).abs() < 1e-5);
    }

    #[test]
    fn distance_prints_with_unit() {
        let print = |distance_m, bearing_deg| Way { distance_m, bearing_deg }.to_string();
        assert_eq!(print(12.4, 359.7), "12 m, bearing 000°");
        assert_eq!(print(999.7, 7.0), "1.0 km, bearing 007°");
        assert_eq!(print(12_345.0, 45.4), "12.3 km, bearing 045°");
    }

    proptest! {
        #[test]
        fn quick_distance_is_near_geodesic(
            lat in -90.0..=90.0, lon in -180.0..180.0, bearing_deg in 0.0..360.0, reach in 0.0..1.0_f64,
        ) {
            let from = point(lat, lon);
            // Near and far ways alike: from 1 m to 2000 km.
            let distance_m = 2e6_f64.powf(reach);
            let (to, _) = travel(from, Way { distance_m, bearing_deg });
            let exact = super::distance_m(from, to);
            prop_assert!((from.quick_distance_m(to) - exact).abs() <= exact * 1e-4 + 1e-6);
            prop_assert!((exact - distance_m).abs() < 0.01);
        }

        #[test]
        fn quick_distance_holds_everywhere(
            a in (-90.0..=90.0, -180.0..180.0), b in (-90.0..=90.0, -180.0..180.0),
        ) {
            let (a, b) = (point(a.0, a.1), point(b.0, b.1));
            let exact = distance_m(a, b);
            let error = if exact < 1e7 { 2e-3 } else { 0.05 };
            prop_assert!((a.quick_distance_m(b) - exact).abs() <= exact * error);
        }
    }
}
