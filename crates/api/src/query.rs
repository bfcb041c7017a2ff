//! Queries: the part of an endpoint's address after the question mark.

use std::fmt::Write as _;
use std::time::Duration;

use roost_wire::messages::MAX_REQUEST_TIME;
use roost_wire::{Area, Cell, Metadata, NodeSelector, Service, ServiceSet};

pub const MAX_DURATION: Duration = MAX_REQUEST_TIME;

mod place;
mod room;
mod send;

pub use place::{PlaceQuery, PlacedRequest};
pub use room::{MAX_ROOM_NAME_BYTES, RoomQuery};
pub use send::{OutboxTerms, SendQuery};

/// The error of a malformed query. The daemon did nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QueryError(String);

/// An area as a query names it: `at=X,Y`, `near=X,Y`, `near=X,Y&within=R`, `rect=X1,Y1,X2,Y2` or `any=true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaQuery(pub Area);

/// The query of `POST /v1/lookup` and `GET /v1/index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupQuery {
    pub service: Service,
    pub area: Area,
    /// The area in words of people, instead of `area`.
    pub place: Option<PlaceQuery>,
    /// `k=N`: the most providers; 0 is the hub's default.
    pub count: u8,
    /// `timeout=2s`: the longest wait for an answer; `None` is 20 s, or longer over a long path.
    pub timeout: Option<Duration>,
    /// `names=true`: hubs tell the nodes' names, which costs some bytes each.
    pub names: bool,
    /// `where=KEY=VALUE,KEY=VALUE`: metadata that an offer has to carry.
    pub filter: Metadata,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchQuery {
    /// `service=NAME,NAME`; all services if it is left out.
    pub services: ServiceSet,
    pub area: Area,
    /// The area in words of people, instead of `area`.
    pub place: Option<PlaceQuery>,
    /// `names=true`, as in [`LookupQuery`].
    pub names: bool,
}

impl LookupQuery {
    pub fn new(service: Service, area: Area) -> Self {
        Self { service, area, place: None, count: 0, timeout: None, names: false, filter: Metadata::EMPTY }
    }

    /// # Errors
    /// One sentence that says which parameter is wrong and what was expected.
    pub fn from_pairs(pairs: &QueryPairs) -> Result<Self, QueryError> {
        Self::from_parts(pairs, "")
    }

    /// Like [`Self::from_pairs`], of a query whose body may have polygons.
    ///
    /// # Errors
    /// As there.
    pub fn from_parts(pairs: &QueryPairs, geojson: &str) -> Result<Self, QueryError> {
        let params = Params::with_area(pairs, &["service", "k", "timeout", "names", "where"])?;
        let (area, place) = params.place(geojson)?;
        Ok(Self {
            service: params.required("service")?,
            area,
            place,
            count: params.number("k", u8::MAX)?.unwrap_or(0),
            timeout: params.duration("timeout")?,
            names: params.parsed("names")?.unwrap_or(false),
            filter: params.parsed("where")?.unwrap_or_default(),
        })
    }

    /// Writes the query without the question mark.
    pub fn to_text(&self) -> String {
        let service = escaped(&self.service.full_text());
        let mut text = format!("service={service}&{}", area_text(self.area, self.place.as_ref()));
        push_count(&mut text, self.count);
        if let Some(timeout) = self.timeout {
            push_duration(&mut text, "timeout", timeout);
        }
        push_names(&mut text, self.names);
        if !self.filter.is_empty() {
            push(&mut text, "where", escaped(&self.filter.to_string()));
        }
        text
    }
}

impl WatchQuery {
    /// # Errors
    /// One sentence that says which parameter is wrong and what was expected.
    pub fn from_pairs(pairs: &QueryPairs) -> Result<Self, QueryError> {
        Self::from_parts(pairs, "")
    }

    /// Like [`Self::from_pairs`], of a query whose body may have polygons.
    ///
    /// # Errors
    /// As there.
    pub fn from_parts(pairs: &QueryPairs, geojson: &str) -> Result<Self, QueryError> {
        let params = Params::with_area(pairs, &["service", "names"])?;
        let services = match params.get("service") {
            None => ServiceSet::ALL,
            Some(list) => list
                .split(',')
                .map(|name| name.parse::<Service>().map_err(|error| QueryError(error.to_string())))
                .collect::<Result<_, _>>()?,
        };
        let (area, place) = params.place(geojson)?;
        Ok(Self { services, area, place, names: params.parsed("names")?.unwrap_or(false) })
    }

    /// Writes the query without the question mark.
    pub fn to_text(&self) -> String {
        let names: Vec<_> = self.services.iter().map(|service| escaped(&service.full_text())).collect();
        let area = area_text(self.area, self.place.as_ref());
        let mut text = format!("service={}&{area}", names.join(","));
        push_names(&mut text, self.names);
        text
    }
}

fn area_text(area: Area, place: Option<&PlaceQuery>) -> String {
    place.map_or_else(|| AreaQuery(area).to_text(), PlaceQuery::to_text)
}

impl AreaQuery {
    pub fn to_text(self) -> String {
        match self.0 {
            Area::Exact(cell) => format!("at={cell}"),
            Area::Nearest(cell) => format!("near={cell}"),
            Area::Radius { center, radius } => format!("near={center}&within={radius}"),
            Area::Rectangle { min, max } => format!("rect={min},{max}"),
            Area::Anywhere => "any=true".to_owned(),
        }
    }
}

/// The keys of a query with their texts, as they were given.
#[derive(Debug)]
pub struct QueryPairs(pub Vec<(String, String)>);

/// The parameters of one query, each known and given once.
#[derive(Debug)]
pub struct Params<'a>(&'a [(String, String)]);

impl<'a> Params<'a> {
    const AREA: [&'static str; 6] = ["at", "near", "within", "rect", "area", "any"];

    /// Checks that each parameter is among `known` and given once.
    ///
    /// # Errors
    /// Names the wrong parameter.
    pub fn new(pairs: &'a QueryPairs, known: &[&str]) -> Result<Self, QueryError> {
        let QueryPairs(pairs) = pairs;
        for (index, (key, _)) in pairs.iter().enumerate() {
            if !known.contains(&key.as_str()) {
                let names = known.join(", ");
                return Err(QueryError(format!("unknown parameter {key:?}: expected one of {names}")));
            }
            if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
                return Err(QueryError(format!("parameter {key:?} is given twice")));
            }
        }
        Ok(Self(pairs))
    }

    /// As [`Self::new`], for a query that also names an area.
    fn with_area(pairs: &'a QueryPairs, known: &[&str]) -> Result<Self, QueryError> {
        Self::new(pairs, &[known, Self::AREA.as_slice()].concat())
    }

    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Reads a parameter that may be left out.
    ///
    /// # Errors
    /// Fails if its text is no such value.
    pub fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, key: &str) -> Result<Option<T>, QueryError> {
        let wrong = |text, error| QueryError(format!("{key}={text}: {error}"));
        self.get(key).map(|text| text.parse().map_err(|error: T::Err| wrong(text, error.to_string()))).transpose()
    }

    /// Reads a parameter that must be there.
    ///
    /// # Errors
    /// Fails if it is absent or its text is no such value.
    pub fn required<T: std::str::FromStr<Err: std::fmt::Display>>(&self, key: &str) -> Result<T, QueryError> {
        self.parsed(key)?.ok_or_else(|| QueryError(format!("parameter {key:?} is missing")))
    }

    /// Reads a node's id, the beginning of one, or a name.
    ///
    /// # Errors
    /// Fails if the text is empty or longer than a name.
    pub fn selector(&self, key: &str) -> Result<Option<NodeSelector>, QueryError> {
        let selector: Option<NodeSelector> = self.parsed(key)?;
        if selector.is_some_and(|selector| selector.is_everybody()) {
            return Err(QueryError(format!("{key} is empty: expected a node's id, the beginning of it, or its name")));
        }
        Ok(selector)
    }

    fn number<T>(&self, key: &str, max: T) -> Result<Option<T>, QueryError>
    where
        T: std::str::FromStr + std::fmt::Display + Copy,
    {
        let wrong = |text| QueryError(format!("{key}={text}: expected a whole number from 0 to {max}"));
        self.get(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// Reads a duration with its unit, at most [`MAX_DURATION`].
    fn duration(&self, key: &str) -> Result<Option<Duration>, QueryError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let wrong = |_| QueryError(format!("{key}={text}: expected a duration such as 30s or 250ms"));
        let duration = humantime::parse_duration(text).map_err(wrong)?;
        if duration.is_zero() || duration > MAX_DURATION {
            return Err(QueryError(format!("{key}={text}: expected more than nothing and at most 24h")));
        }
        Ok(Some(duration))
    }
}

fn parse_rectangle(text: &str) -> Result<Area, QueryError> {
    let wrong = || QueryError(format!("rect={text}: expected four whole numbers X1,Y1,X2,Y2"));
    let numbers: Vec<i32> = text.split(',').map(|n| n.trim().parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    match numbers[..] {
        [x1, y1, x2, y2] => Ok(Area::rectangle(Cell::new(x1, y1), Cell::new(x2, y2))),
        _ => Err(wrong()),
    }
}

fn push(text: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "&{key}={value}");
}

fn push_names(text: &mut String, names: bool) {
    if names {
        push(text, "names", true);
    }
}

fn push_count(text: &mut String, count: u8) {
    if count > 0 {
        push(text, "k", count);
    }
}

/// Durations travel in whole milliseconds, at least one.
fn push_duration(text: &mut String, key: &str, duration: Duration) {
    push(text, key, format_args!("{}ms", duration.as_millis().max(1)));
}

/// Percent-encodes a text for a query (RFC 3986, section 2.1).
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> QueryPairs {
        let pair = |part: &str| part.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap();
        QueryPairs(text.split('&').map(pair).collect())
    }

    #[test]
    fn lookup_query_round_trips() {
        let center = Cell::new(-3, 7);
        for area in [
            Area::Exact(center),
            Area::Nearest(center),
            Area::Radius { center, radius: 9 },
            Area::rectangle(Cell::new(5, 5), center),
            Area::Anywhere,
        ] {
            let timeout = Some(Duration::from_millis(2500));
            let query = LookupQuery { count: 3, timeout, names: true, ..LookupQuery::new(Service::Video, area) };
            assert_eq!(LookupQuery::from_pairs(&pairs(&query.to_text())), Ok(query));
        }
    }

    #[test]
    fn places_are_left_to_the_daemon() {
        let place = |text: &str, body: &str| LookupQuery::from_parts(&pairs(text), body).map(|query| query.place);
        let owned = |text: &str| text.to_owned();
        let within = |center: Option<&str>, radius: &str| {
            Some(PlaceQuery::Within { center: center.map(str::to_owned), radius: owned(radius) })
        };
        for (text, expected) in [
            ("at=47.1,8.1", Some(PlaceQuery::At(owned("47.1,8.1")))),
            ("near=32TMT6547", Some(PlaceQuery::Near(owned("32TMT6547")))),
            ("near=1,2&within=5km", within(Some("1,2"), "5km")),
            ("within=3", within(None, "3")),
            ("area=47.1,8.1..47.2,8.2", Some(PlaceQuery::Corners(owned("47.1,8.1"), owned("47.2,8.2")))),
            ("area=1,2..3,4", None),
            ("near=1,2&within=3", None),
        ] {
            assert_eq!(place(&format!("service=video&{text}"), ""), Ok(expected), "{text}");
        }
        let region = |near: Option<&str>| PlaceQuery::Region { geojson: owned("{}"), near: near.map(str::to_owned) };
        assert_eq!(place("service=video&near=1,2", "{}"), Ok(Some(region(Some("1,2")))));
        assert_eq!(place("service=video", "{}"), Ok(Some(region(None))));
        assert!(place("service=video&any=true", "{}").is_err());
    }

    #[test]
    fn own_service_survives_a_query() {
        let query = LookupQuery {
            filter: "sensor=ir,range=120".parse().unwrap(),
            ..LookupQuery::new("acme/lidar#bow:stream".parse().unwrap(), Area::Anywhere)
        };
        let text = query.to_text();
        assert_eq!(text, "service=acme%2Flidar%23bow%3Astream&any=true&where=range%3D120%2Csensor%3Dir");
        let read = [("%2F", "/"), ("%23", "#"), ("%3A", ":"), ("%3D", "="), ("%2C", ",")];
        let text = read.into_iter().fold(text, |text, (code, letter)| text.replace(code, letter));
        assert_eq!(LookupQuery::from_pairs(&pairs(&text)), Ok(query));
    }

    #[test]
    fn watch_query_round_trips() {
        let services = ServiceSet::EMPTY.with(Service::Track).with(Service::Sensor);
        let query = WatchQuery { services, area: Area::Anywhere, place: None, names: true };
        assert_eq!(WatchQuery::from_pairs(&pairs(&query.to_text())), Ok(query));
    }

    #[test]
    fn wrong_query_names_the_error() {
        for (text, part) in [
            ("at=1,2", "\"service\" is missing"),
            ("service=videos&at=1,2", "unknown service"),
            ("service=video", "name one area"),
            ("service=video&at=1,2&any=true", "more than one area"),
            ("service=video&at=1,2&within=3", "name one area"),
            ("service=video&rect=1,2,3", "four whole numbers"),
            ("service=video&any=true&whose=1", "unknown parameter"),
            ("service=video&any=true&where=1", "where=1: \"1\" is not metadata"),
            ("service=video&service=track&any=true", "given twice"),
            ("service=video&any=true&timeout=10", "a duration such as"),
            ("service=video&any=true&timeout=0s", "more than nothing"),
            ("service=video&any=true&k=999999999999", "k=999999999999: expected a whole number from 0 to 255"),
            ("service=video&area=1,2", "expected two corners"),
            ("service=video&any=no", "name one area"),
        ] {
            let error = LookupQuery::from_pairs(&pairs(text)).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
