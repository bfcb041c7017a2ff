//! Polygons of GeoJSON (RFC 7946), as maps and planning tools export them.

use geojson::{Feature, GeoJson, Geometry, GeometryValue, Position};

use crate::error::RegionError;

/// The most points of a region, over all its rings.
pub const MAX_POINTS: usize = 1000;

/// The longest text: room for [`MAX_POINTS`] points with their properties.
pub const MAX_GEOJSON_BYTES: usize = 256 * 1024;

/// Rings of points, each a latitude and a longitude; the outer ring first.
pub(crate) type Polygon = Vec<Vec<[f64; 2]>>;

/// All polygons of a text, of which there is at least one.
pub(crate) fn polygons(text: &str) -> Result<Vec<Polygon>, RegionError> {
    if text.len() > MAX_GEOJSON_BYTES {
        return Err(RegionError::GeoJson(format!("it is longer than {MAX_GEOJSON_BYTES} bytes")));
    }
    let parsed: GeoJson = text.parse().map_err(|error: geojson::Error| RegionError::GeoJson(error.to_string()))?;
    let polygons = match parsed {
        GeoJson::Geometry(geometry) => of_geometry(geometry)?,
        GeoJson::Feature(feature) => of_feature(feature)?,
        GeoJson::FeatureCollection(collection) => {
            let polygons: Result<Vec<_>, _> = collection.features.into_iter().map(of_feature).collect();
            polygons?.concat()
        }
    };
    if polygons.is_empty() {
        return Err(RegionError::GeoJson("it has no polygon".to_owned()));
    }
    Ok(polygons)
}

fn of_feature(feature: Feature) -> Result<Vec<Polygon>, RegionError> {
    feature.geometry.map_or_else(|| Ok(Vec::new()), of_geometry)
}

fn of_geometry(geometry: Geometry) -> Result<Vec<Polygon>, RegionError> {
    let polygons = match geometry.value {
        GeometryValue::Polygon { coordinates } => vec![coordinates],
        GeometryValue::MultiPolygon { coordinates } => coordinates,
        other => return Err(RegionError::GeoJson(format!("a {} has no inside", other.type_name()))),
    };
    let read = |rings: Vec<Vec<Position>>| {
        let rings = rings.iter().map(|ring| ring.iter().map(point).collect()).collect::<Result<Polygon, _>>()?;
        if rings.is_empty() { Err(RegionError::Ring) } else { Ok(rings) }
    };
    polygons.into_iter().map(read).collect()
}

/// A third number is the altitude, which a region does not have.
fn point(position: &Position) -> Result<[f64; 2], RegionError> {
    match position.as_slice() {
        [lon, lat, ..] => Ok([*lat, *lon]),
        _ => Err(RegionError::GeoJson("a position needs a longitude and a latitude".to_owned())),
    }
}
