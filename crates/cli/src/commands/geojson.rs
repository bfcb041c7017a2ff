//! Providers as GeoJSON (RFC 7946), for maps.

use std::collections::BTreeMap;

use roost_api::{Candidate, Lookup};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};

pub(super) fn collection(found: &Lookup) -> Outcome<Value> {
    let features = found.candidates.iter().map(feature).collect::<Option<Vec<Value>>>();
    let features = features.ok_or_else(|| {
        Failure::usage("the group has no datum, so nobody has a latitude: make one with roost group init --origin LAT,LON --cell 1km")
    })?;
    Ok(json!({ "type": "FeatureCollection", "features": features }))
}

/// None of a node whose place on the Earth is not known.
fn feature(candidate: &Candidate) -> Option<Value> {
    let place = candidate.place?;
    let mut coordinates = vec![place.lon, place.lat];
    coordinates.extend(candidate.position.and_then(|position| position.alt_m));
    let services: Vec<&str> = candidate.services.iter().map(|service| service.name()).collect();
    let metadata: BTreeMap<&str, &str> = candidate.offers.iter().flat_map(|offer| offer.metadata.iter()).collect();
    let cell = candidate.cell;
    Some(json!({
        "type": "Feature",
        "geometry": { "type": "Point", "coordinates": coordinates },
        "properties": {
            "node": candidate.node.to_string(),
            "name": candidate.name,
            "services": services,
            "metadata": metadata,
            "distance_m": place.distance_m,
            "bearing_deg": place.bearing_deg,
            "cell": [cell.x, cell.y],
            "exact": candidate.position.is_some(),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(place: &Value) -> Lookup {
        let row = json!({
            "node": "a".repeat(32), "name": "uav7", "cell": "40,42", "services": ["image"], "streams_left": 1,
            "uplink_left_kbps": null, "addresses": [], "record": "1.1", "place": place,
        });
        let lookup = json!({ "schema": 2, "coverage": "complete", "candidates": [row], "elapsed_ms": 1.0 });
        serde_json::from_value(lookup).unwrap()
    }

    #[test]
    fn longitude_comes_first() {
        let found = lookup(&json!({ "lat": 47.3769, "lon": 8.5417, "distance_m": 10.0, "bearing_deg": 45.0 }));
        let collection = collection(&found).unwrap();
        let feature = &collection["features"][0];
        assert_eq!(feature["geometry"], json!({ "type": "Point", "coordinates": [8.5417, 47.3769] }));
        assert_eq!(feature["properties"]["name"], "uav7");
        assert_eq!(feature["properties"]["distance_m"], 10.0);
    }

    #[test]
    fn plain_grid_has_no_geojson() {
        let failure = collection(&lookup(&Value::Null)).unwrap_err();
        assert!(failure.to_string().contains("--origin") && failure.exit_code() == 2);
    }
}
