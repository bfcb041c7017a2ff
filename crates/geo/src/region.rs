//! Regions: areas as people draw them, and the areas of the grid that cover them.

use roost_wire::grid::{Area, MAX_COORDINATE};
use roost_wire::position::LatLon;

use crate::cover::{self, Outline};
use crate::datum::{Datum, GridPoint, MAX_REACH_M, REACH_KM};
use crate::error::{PlaceError, RegionError};
use crate::geodesic::distance_m;
use crate::geojson::{self, MAX_POINTS};
use crate::length::Length;
use crate::ring::crosses_itself;

/// The longest piece of an edge, degrees. Edges are straight in latitude and longitude (RFC 7946, section 3.1.1), and
/// each piece is straight on the grid: up to 60° of latitude, 9 m from the true edge at most.
const PIECE_DEG: f64 = 0.25;

/// The pieces of all edges together. Near a pole an edge in reach may go half around the Earth, in 720 pieces.
const MAX_PIECES: usize = 20_000;

/// An area on the Earth: a circle, a box between two corners, or polygons with holes.
///
/// Hubs search the areas of [`cover`](Self::cover), which contain each point of the region and more. The requester then
/// asks [`contains`](Self::contains) for each provider that was found, and a search that wants k nearest asks for more
/// than k.
///
/// ```
/// use roost_geo::{Datum, Region};
///
/// let datum = Datum::new("47.0,8.0".parse()?, "1km".parse()?)?;
/// let lake = r#"{"type":"Polygon","coordinates":[[[8.5,47.2],[8.9,47.2],[8.5,47.4],[8.5,47.2]]]}"#;
/// let region = Region::from_geojson(lake, &datum)?;
/// assert!(region.contains("47.25,8.6".parse()?));
/// assert!(!region.contains("47.39,8.89".parse()?));
/// assert!(region.cover().len() <= roost_geo::MAX_RECTANGLES);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    datum: Datum,
    shape: Shape,
    cover: Vec<Area>,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Circle { center: LatLon, radius_m: f64 },
    Outlines(Vec<Outline>),
}

impl Region {
    /// All points within a distance of a point.
    ///
    /// # Errors
    /// Fails for a circle that leaves the datum's reach or the grid.
    pub fn circle(center: LatLon, radius: Length, datum: &Datum) -> Result<Self, RegionError> {
        let cell = datum.cell(center)?;
        let farthest_m = distance_m(datum.origin(), center) + radius.meters();
        if farthest_m > MAX_REACH_M {
            return Err(RegionError::Circle { center, radius, reach_km: REACH_KM });
        }
        // Cells are compared by their lower corners: both ends are up to a cell's diagonal off, together.
        let reach =
            radius.meters() / datum.cell_size().meters() * Datum::stretch(farthest_m) + std::f64::consts::SQRT_2;
        let cells = reach.ceil() as u32;
        if cells > 4 * MAX_COORDINATE as u32 {
            return Err(PlaceError::OffGrid { at: center, cell: datum.cell_size() }.into());
        }
        let cover = vec![Area::Radius { center: cell, radius: cells }];
        Ok(Self { datum: *datum, shape: Shape::Circle { center, radius_m: radius.meters() }, cover })
    }

    /// All points between the parallels and meridians of two opposite corners, in any order; of the two boxes between
    /// two meridians the narrower.
    ///
    /// # Errors
    /// Fails for corners out of the datum's reach or off the grid.
    pub fn corners(a: LatLon, b: LatLon, datum: &Datum) -> Result<Self, RegionError> {
        let corner = |lat: LatLon, lon: LatLon| [lat.lat(), lon.lon()];
        let ring = vec![corner(a, a), corner(a, b), corner(b, b), corner(b, a), corner(a, a)];
        Self::outlined(&[vec![ring]], datum)
    }

    /// The polygons of a GeoJSON text (RFC 7946): `Polygon` and `MultiPolygon`, alone or in features. Of two points with
    /// more than 180° of longitude between them, the edge goes the shorter way, across that meridian.
    ///
    /// # Errors
    /// Fails for other geometries, above [`MAX_POINTS`] points, and out of the datum's reach.
    pub fn from_geojson(text: &str, datum: &Datum) -> Result<Self, RegionError> {
        let polygons = geojson::polygons(text)?;
        Self::outlined(&polygons, datum).map_err(|cause| {
            let swapped = |[lat, lon]: &[f64; 2]| [*lon, *lat];
            let rings =
                |rings: &geojson::Polygon| rings.iter().map(|ring| ring.iter().map(swapped).collect()).collect();
            let swapped: Vec<geojson::Polygon> = polygons.iter().map(rings).collect();
            let may_be_swapped = matches!(cause, RegionError::Place(PlaceError::Far { .. } | PlaceError::LatLon(_)));
            if may_be_swapped && Self::outlined(&swapped, datum).is_ok() {
                return RegionError::Swapped(Box::new(cause));
            }
            cause
        })
    }

    /// The areas of the grid to search: one circle, or at most [`MAX_RECTANGLES`](crate::MAX_RECTANGLES) rectangles
    /// that do not overlap.
    pub fn cover(&self) -> &[Area] {
        &self.cover
    }

    /// True of a point in the region. Ask it with the exact position of a provider, or with the middle of its cell.
    pub fn contains(&self, at: LatLon) -> bool {
        match &self.shape {
            Shape::Circle { center, radius_m } => distance_m(*center, at) <= *radius_m,
            Shape::Outlines(outlines) => {
                let point = self.datum.grid_point(at);
                point.is_ok_and(|point| outlines.iter().any(|outline| outline.contains(point)))
            }
        }
    }

    fn outlined(polygons: &[geojson::Polygon], datum: &Datum) -> Result<Self, RegionError> {
        let points: usize = polygons.iter().flatten().map(Vec::len).sum();
        if points > MAX_POINTS {
            return Err(RegionError::Points(MAX_POINTS));
        }
        let mut room = MAX_PIECES;
        let mut project = |rings: &geojson::Polygon| {
            let rings: Result<Vec<_>, _> = rings.iter().map(|ring| project_ring(ring, datum, &mut room)).collect();
            rings.map(Outline::new)
        };
        let outlines = polygons.iter().map(&mut project).collect::<Result<Vec<_>, RegionError>>()?;
        let cover = cover::rectangles(&outlines);
        Ok(Self { datum: *datum, shape: Shape::Outlines(outlines), cover })
    }
}

/// A ring on the grid, with points added on long edges as long as there is room.
fn project_ring(ring: &[[f64; 2]], datum: &Datum, room: &mut usize) -> Result<Vec<GridPoint>, RegionError> {
    if ring.len() < 4 || ring.first() != ring.last() {
        return Err(RegionError::Ring);
    }
    if crosses_itself(ring) {
        return Err(RegionError::Crossing);
    }
    let mut points = Vec::new();
    for (from, to) in ring.iter().zip(&ring[1..]) {
        let north = to[0] - from[0];
        let east = (to[1] - from[1] + 180.0).rem_euclid(360.0) - 180.0;
        if east.abs() >= 179.999 {
            return Err(RegionError::Edge);
        }
        // The ends are checked first: an edge between points in reach has at most 1440 pieces.
        project([from[0], from[1]], datum)?;
        project([to[0], to[1]], datum)?;
        let pieces = (north.abs().max(east.abs()) / PIECE_DEG).ceil().max(1.0) as u32;
        *room = room.checked_sub(pieces as usize).ok_or(RegionError::Pieces(MAX_PIECES))?;
        for piece in 0..pieces {
            let part = f64::from(piece) / f64::from(pieces);
            points.push(project([from[0] + north * part, from[1] + east * part], datum)?);
        }
    }
    Ok(points)
}

fn project([lat, lon]: [f64; 2], datum: &Datum) -> Result<GridPoint, PlaceError> {
    let at = LatLon::new(lat, (lon + 180.0).rem_euclid(360.0) - 180.0)?;
    datum.cell(at)?;
    datum.grid_point(at)
}

#[cfg(test)]
mod tests {
    use geo::Contains;
    use proptest::prelude::*;

    use super::*;
    use crate::MAX_RECTANGLES;
    use crate::geodesic::{Way, travel};

    fn datum(lat: f64, lon: f64, meters: u32) -> Datum {
        Datum::new(LatLon::new(lat, lon).unwrap(), Length::from_meters(meters)).unwrap()
    }

    fn covered(region: &Region, at: LatLon) -> bool {
        let cell = region.datum.cell(at).unwrap();
        region.cover().iter().any(|area| area.contains(cell))
    }

    #[test]
    fn box_has_its_corners_in_any_order() {
        let datum = datum(47.0, 8.0, 1000);
        let point = |text: &str| text.parse::<LatLon>().unwrap();
        for (a, b) in [("47.1,8.1", "47.4,8.9"), ("47.4,8.1", "47.1,8.9"), ("47.4,8.9", "47.1,8.1")] {
            let region = Region::corners(point(a), point(b), &datum).unwrap();
            assert!(region.contains(point("47.399,8.899")) && region.contains(point("47.101,8.101")));
            assert!(!region.contains(point("47.401,8.5")) && !region.contains(point("47.2,8.901")));
            assert_eq!(region.cover().len(), 1, "{:?}", region.cover());
        }
    }

    #[test]
    fn box_crosses_the_antimeridian() {
        let datum = datum(-17.0, 179.0, 1000);
        let region = Region::corners("-18.0,179.0".parse().unwrap(), "-16.0,-179.0".parse().unwrap(), &datum).unwrap();
        assert!(region.contains("-17.0,179.9".parse().unwrap()) && region.contains("-17.0,-179.5".parse().unwrap()));
        assert!(!region.contains("-17.0,178.9".parse().unwrap()));
    }

    #[test]
    fn hole_and_second_polygon_count() {
        let text = r#"{"type":"Feature","properties":{},"geometry":{"type":"MultiPolygon","coordinates":[
            [[[8,47],[9,47],[9,48],[8,48],[8,47]],[[8.4,47.4],[8.6,47.4],[8.6,47.6],[8.4,47.6],[8.4,47.4]]],
            [[[11,49],[11.1,49],[11.1,49.1],[11,49.1],[11,49]]]]}}"#;
        let region = Region::from_geojson(text, &datum(47.0, 8.0, 1000)).unwrap();
        let contains = |text: &str| region.contains(text.parse().unwrap());
        assert!(contains("47.2,8.2") && contains("49.05,11.05"));
        assert!(!contains("47.5,8.5") && !contains("48.5,10.0"));
        // The gap between the polygons is not searched.
        assert!(!covered(&region, "48.5,10.0".parse().unwrap()));
    }

    #[test]
    fn unusable_region_says_why() {
        let datum = datum(47.0, 8.0, 1000);
        let error = |text: &str| Region::from_geojson(text, &datum).unwrap_err();
        let polygon = |ring: &str| format!(r#"{{"type":"Polygon","coordinates":[[{ring}]]}}"#);
        assert!(matches!(error("{"), RegionError::GeoJson(_)));
        assert!(matches!(error(r#"{"type":"Point","coordinates":[8,47]}"#), RegionError::GeoJson(_)));
        assert!(matches!(error(r#"{"type":"FeatureCollection","features":[]}"#), RegionError::GeoJson(_)));
        assert_eq!(error(&polygon("[8,47],[9,47],[9,48]")), RegionError::Ring);
        assert_eq!(error(&polygon("[8,47],[9,47],[9,48],[8,48]")), RegionError::Ring);
        assert!(matches!(error(&polygon("[8,47],[9,47],[60,48],[8,47]")), RegionError::Place(PlaceError::Far { .. })));
        assert!(matches!(error(&polygon("[8,47],[9,47],[9,148],[8,47]")), RegionError::Place(PlaceError::LatLon(_))));
        let many = vec!["[8,47]"; MAX_POINTS + 1].join(",");
        assert_eq!(error(&polygon(&many)), RegionError::Points(MAX_POINTS));
        let wide = Region::circle("47.0,8.0".parse().unwrap(), "2001km".parse().unwrap(), &datum).unwrap_err();
        assert!(matches!(wide, RegionError::Circle { .. }));
    }

    #[test]
    fn edges_around_a_pole_are_limited() {
        let datum = datum(90.0, 0.0, 1000);
        // A zigzag between two parallels: up to 27 edges of 179° fit, and 999 would take seconds.
        let ring = |edges: usize| {
            let there = |edge: usize| if edge.is_multiple_of(2) { -89.0 } else { 89.0 };
            let lat = |edge: usize| 89.0 - edge as f64 / 1000.0;
            let mut ring: Vec<_> = (0..edges).map(|edge| [lat(edge), there(edge)]).collect();
            ring.extend([[lat(edges), -90.0], [89.0, -90.0], ring[0]]);
            ring
        };
        assert!(Region::outlined(&[vec![ring(21)]], &datum).is_ok());
        assert_eq!(Region::outlined(&[vec![ring(901)]], &datum), Err(RegionError::Pieces(MAX_PIECES)));
    }

    /// A star around a center, whose rays have these lengths in degrees of latitude.
    fn star(center: LatLon, rays: &[f64]) -> Vec<[f64; 2]> {
        let ray = |(i, ray): (usize, &f64)| {
            let (sin, cos) = (i as f64 / rays.len() as f64 * std::f64::consts::TAU).sin_cos();
            [center.lat() + cos * ray, center.lon() + sin * ray]
        };
        let mut ring: Vec<_> = rays.iter().enumerate().map(ray).collect();
        ring.push(ring[0]);
        ring
    }

    fn line(ring: &[[f64; 2]], datum: &Datum) -> geo::LineString {
        project_ring(ring, datum, &mut MAX_PIECES.clone()).unwrap().iter().map(|point| (point.x, point.y)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn cover_contains_the_polygon(
            lat in -65.0..65.0_f64, lon in -180.0..180.0_f64,
            rays in proptest::collection::vec(0.2..3.0_f64, 3..30),
            hole in 0.01..0.19_f64,
            meters in prop_oneof![Just(100_u32), Just(1000), Just(30_000)],
            points in proptest::collection::vec((-3.1..3.1_f64, -3.1..3.1_f64), 200),
        ) {
            let datum = datum(lat * 0.9, (lon + 2.0).min(180.0), meters);
            let center = LatLon::new(lat, lon).unwrap();
            let inner = star(center, &[hole; 5]);
            let outer = star(center, &rays);
            let region = Region::outlined(&[vec![outer.clone(), inner.clone()]], &datum).unwrap();
            prop_assert!(region.cover().len() <= MAX_RECTANGLES);
            prop_assert!(region.cover().iter().all(Area::is_valid));
            let reference = geo::Polygon::new(line(&outer, &datum), vec![line(&inner, &datum)]);
            for (north, east) in points {
                let east = (lon + east + 180.0_f64).rem_euclid(360.0) - 180.0;
                let at = LatLon::new(lat + north, east).unwrap();
                let point = datum.grid_point(at).unwrap();
                prop_assert_eq!(region.contains(at), reference.contains(&geo::Point::new(point.x, point.y)));
                prop_assert!(!region.contains(at) || covered(&region, at));
                let cell = datum.cell(at).unwrap();
                prop_assert!(region.cover().iter().filter(|area| area.contains(cell)).count() <= 1);
            }
        }

        #[test]
        fn cover_contains_the_circle(
            away in 0.0..1_400_000.0, bearing_deg in 0.0..360.0,
            radius in 1_u32..500_000,
            meters in prop_oneof![Just(10_u32), Just(1000), Just(100_000)],
            points in proptest::collection::vec((0.0..1.0_f64, 0.0..360.0), 50),
        ) {
            let mut datum = datum(70.0, 170.0, meters);
            if meters == 10 {
                datum = Datum::new(datum.origin(), Length::from_meters(10)).unwrap();
            }
            let (center, _) = travel(datum.origin(), Way { distance_m: away, bearing_deg });
            let region = Region::circle(center, Length::from_meters(radius), &datum).unwrap();
            for (part, bearing_deg) in points {
                let (at, _) = travel(center, Way { distance_m: f64::from(radius) * part, bearing_deg });
                prop_assert!(!region.contains(at) || covered(&region, at));
            }
        }
    }
}
