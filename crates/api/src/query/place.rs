//! Areas in words of people. The daemon turns them into cells with the datum of its group, so that every client of the
//! API can say places in each notation.

use std::borrow::Cow;

use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Cell};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{Params, QueryError, escaped, parse_rectangle};

/// An area of which not all is said in cells. Places are texts in each notation of the reference, lengths have their
/// unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceQuery {
    At(String),
    Near(String),
    Within {
        /// `None` is the place of the daemon that is asked.
        center: Option<String>,
        /// A length such as `5km`, or a number of cells.
        radius: String,
    },
    Corners(String, String),
    /// Polygons in GeoJSON, nearest to `near` or to the daemon's own place first.
    Region {
        geojson: String,
        near: Option<String>,
    },
}

impl PlaceQuery {
    /// The parameters of a query. Polygons are its body.
    pub fn to_text(&self) -> String {
        match self {
            Self::At(place) => format!("at={}", escaped(place)),
            Self::Near(place) => format!("near={}", escaped(place)),
            Self::Within { center: None, radius } => format!("within={}", escaped(radius)),
            Self::Within { center: Some(center), radius } => {
                format!("near={}&within={}", escaped(center), escaped(radius))
            }
            Self::Corners(a, b) => format!("area={}..{}", escaped(a), escaped(b)),
            Self::Region { near: Some(near), .. } => format!("near={}", escaped(near)),
            Self::Region { near: None, .. } => String::new(),
        }
    }

    /// The body of a query, GeoJSON; empty without polygons.
    pub fn body(&self) -> &str {
        match self {
            Self::Region { geojson, .. } => geojson,
            _ => "",
        }
    }

    /// The area, if all of it is said in cells.
    pub fn in_cells(&self) -> Option<Area> {
        let cell = |text: &str| text.parse::<Cell>().ok();
        match self {
            Self::At(place) => cell(place).map(Area::Exact),
            Self::Near(place) => cell(place).map(Area::Nearest),
            Self::Within { center: Some(center), radius } => {
                Some(Area::Radius { center: cell(center)?, radius: radius.parse().ok()? })
            }
            Self::Corners(a, b) => Some(Area::rectangle(cell(a)?, cell(b)?)),
            Self::Within { center: None, .. } | Self::Region { .. } => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::At(place) => json!({ "at": place }),
            Self::Near(place) => json!({ "near": place }),
            Self::Within { center: None, radius } => json!({ "within": { "radius": radius } }),
            Self::Within { center: Some(center), radius } => {
                json!({ "within": { "center": center, "radius": radius } })
            }
            Self::Corners(a, b) => json!({ "rect": { "min": a, "max": b } }),
            Self::Region { geojson, near } => json!({ "region": { "geojson": geojson, "near": near } }),
        }
    }
}

/// The area of a request's JSON in words of people: as [`Area`], with other texts for places.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum PlaceJson {
    At(String),
    Near(String),
    Within { center: Option<String>, radius: Value },
    Rect { min: String, max: String },
    Region { geojson: Value, near: Option<String> },
}

impl From<PlaceJson> for PlaceQuery {
    fn from(json: PlaceJson) -> Self {
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match json {
            PlaceJson::At(place) => Self::At(place),
            PlaceJson::Near(place) => Self::Near(place),
            PlaceJson::Within { center, radius } => Self::Within { center, radius: text(radius) },
            PlaceJson::Rect { min, max } => Self::Corners(min, max),
            PlaceJson::Region { geojson, near } => Self::Region { geojson: text(geojson), near },
        }
    }
}

/// A request whose area may be said in words of people; the request's own area is anywhere then.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedRequest {
    pub request: ServiceRequest,
    pub place: Option<PlaceQuery>,
}

impl PlacedRequest {
    /// The body of `POST /v1/request`, as JSON.
    ///
    /// # Errors
    /// Fails if the request has no JSON form.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let Some(place) = &self.place else { return serde_json::to_vec(&self.request) };
        let mut request = serde_json::to_value(&self.request)?;
        request["area"] = place.to_json();
        serde_json::to_vec(&request)
    }
}

impl JsonSchema for PlacedRequest {
    fn schema_name() -> Cow<'static, str> {
        ServiceRequest::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ServiceRequest::json_schema(generator);
        let areas = [generator.subschema_for::<Area>(), generator.subschema_for::<PlaceJson>()];
        if let Some(area) = schema.pointer_mut("/properties/area") {
            *area = json!({ "anyOf": areas });
        }
        schema
    }
}

impl<'de> Deserialize<'de> for PlacedRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn read<T: DeserializeOwned, E: serde::de::Error>(value: Value) -> Result<T, E> {
            serde_json::from_value(value).map_err(E::custom)
        }
        let mut value = Value::deserialize(deserializer)?;
        let area = value.get("area").cloned().unwrap_or_default();
        let words = match serde_json::from_value::<Area>(area.clone()) {
            Ok(_) => return Ok(Self { request: read(value)?, place: None }),
            Err(_) if area.is_null() => return Ok(Self { request: read(value)?, place: None }),
            Err(error) => serde_json::from_value::<PlaceJson>(area).map_err(|_| D::Error::custom(error))?,
        };
        value["area"] = serde_json::to_value(Area::Anywhere).map_err(D::Error::custom)?;
        Ok(Self { request: read(value)?, place: Some(words.into()) })
    }
}

impl Params<'_> {
    /// The area of a query: in cells, or else in words of people beside [`Area::Anywhere`].
    pub(super) fn place(&self, geojson: &str) -> Result<(Area, Option<PlaceQuery>), QueryError> {
        let given = Self::AREA.into_iter().filter(|key| self.get(key).is_some());
        let given: Vec<&str> = given.collect();
        let owned = |key| self.get(key).map(str::to_owned);
        let (at, near, radius) = (owned("at"), owned("near"), owned("within"));
        let place = match (given.as_slice(), owned("area")) {
            ([] | ["near"], None) if !geojson.is_empty() => PlaceQuery::Region { geojson: geojson.to_owned(), near },
            _ if !geojson.is_empty() => {
                let message = "the body has polygons: name no other area beside them than near=PLACE";
                return Err(QueryError(message.to_owned()));
            }
            (["area"], Some(corners)) => match corners.split_once("..") {
                Some((a, b)) => PlaceQuery::Corners(a.to_owned(), b.to_owned()),
                None => return Err(QueryError(format!("area={corners}: expected two corners, CORNER..CORNER"))),
            },
            (["within"], _) => PlaceQuery::Within { center: None, radius: radius.unwrap_or_default() },
            (["near", "within"], _) => PlaceQuery::Within { center: near, radius: radius.unwrap_or_default() },
            (["at"], _) => PlaceQuery::At(at.unwrap_or_default()),
            (["near"], _) => PlaceQuery::Near(near.unwrap_or_default()),
            (["rect"], _) => return checked(parse_rectangle(&owned("rect").unwrap_or_default())?),
            (["any"], _) if matches!(self.get("any"), Some("true" | "")) => return Ok((Area::Anywhere, None)),
            _ => return Err(QueryError(wrong(&given))),
        };
        match place.in_cells() {
            Some(area) => checked(area),
            None => Ok((Area::Anywhere, Some(place))),
        }
    }
}

fn checked(area: Area) -> Result<(Area, Option<PlaceQuery>), QueryError> {
    if area.is_valid() { Ok((area, None)) } else { Err(QueryError("the area is not on the grid".to_owned())) }
}

fn wrong(given: &[&str]) -> String {
    let more = if given.len() > 1 { "more than one area is given: " } else { "" };
    format!(
        "{more}name one area: at=PLACE, near=PLACE, within=R, near=PLACE&within=R, area=CORNER..CORNER, \
         rect=X1,Y1,X2,Y2 or any=true"
    )
}

#[cfg(test)]
mod tests {
    use roost_wire::Service;

    use super::*;

    #[test]
    fn request_carries_places_and_cells() {
        let request = ServiceRequest::new(Service::Image, Area::Anywhere);
        let text = |text: &str| text.to_owned();
        for place in [
            PlaceQuery::At(text("47.3769,8.5417")),
            PlaceQuery::Near(text("32TMT6547")),
            PlaceQuery::Within { center: Some(text("47.3769,8.5417")), radius: text("5km") },
            PlaceQuery::Within { center: None, radius: text("5km") },
            PlaceQuery::Corners(text("47.1,8.1"), text("47.2,8.2")),
            PlaceQuery::Region { geojson: text("{}"), near: None },
        ] {
            let placed = PlacedRequest { request: request.clone(), place: Some(place) };
            let json = placed.to_json().unwrap();
            assert_eq!(serde_json::from_slice::<PlacedRequest>(&json).unwrap(), placed);
        }
        for area in [Area::Anywhere, Area::Nearest(Cell::new(-3, 4)), Area::Exact(Cell::new(0, 0))] {
            let placed = PlacedRequest { request: ServiceRequest::new(Service::Image, area), place: None };
            assert_eq!(serde_json::from_slice::<PlacedRequest>(&placed.to_json().unwrap()).unwrap(), placed);
        }
    }

    #[test]
    fn geojson_may_be_an_object() {
        let json = r#"{"service":"image","area":{"region":{"geojson":{"type":"Polygon"}}}}"#;
        let placed: PlacedRequest = serde_json::from_str(json).unwrap();
        let expected = PlaceQuery::Region { geojson: r#"{"type":"Polygon"}"#.to_owned(), near: None };
        assert_eq!(placed.place, Some(expected));
        for wrong in [r#"{"service":"image","area":{"round":"1,2"}}"#, r#"{"service":"image","area":7}"#] {
            assert!(serde_json::from_str::<PlacedRequest>(wrong).is_err(), "{wrong}");
        }
    }
}
