//! Areas in words of people, in the cells of the group's grid, and places of nodes on the Earth.

use std::cmp::Ordering;
use std::time::Duration;

use roost_api::server::ApiError;
use roost_api::types::EarthPlace;
use roost_api::{Code, PlaceQuery};
use roost_core::directory::NOWHERE;
use roost_geo::{Datum, Length, ParseLengthError, Place, PlaceError, Region, RegionError, Way, is_moving, predict};
use roost_wire::grid::MAX_COORDINATE;
use roost_wire::messages::Candidate;
use roost_wire::position::LatLon;
use roost_wire::{Area, Cell};

#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub datum: Option<Datum>,
    /// The daemon's own place; `None` of a hub.
    pub own: Option<Place>,
}

/// An area to search: cells that hubs know, and the region that the requester tests.
#[derive(Clone, Debug)]
pub struct SearchArea {
    grid: Grid,
    areas: Vec<Area>,
    region: Option<Region>,
    from: Option<LatLon>,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Hubs,
    Nearest,
}

impl Grid {
    /// # Errors
    /// As [`Place::parse`].
    pub fn place(&self, text: &str) -> Result<Place, ApiError> {
        Place::parse(text, self.datum.as_ref()).map_err(|error| wrong_place(&error))
    }

    /// The place of a node on the Earth, and the way to it.
    pub fn on_earth(&self, place: &Place, from: Option<LatLon>) -> Option<EarthPlace> {
        let at = place.at(self.datum.as_ref()?).ok()?;
        let way = from.map(|from| Way::between(from, at));
        Some(EarthPlace {
            // Seven decimals are a centimeter, and the middle of a cell has no more than five.
            lat: rounded(at.lat(), if place.exact.is_some() { 1e7 } else { 1e5 }),
            lon: rounded(at.lon(), if place.exact.is_some() { 1e7 } else { 1e5 }),
            distance_m: way.map(|way| rounded(way.distance_m, 10.0)),
            bearing_deg: way.map(|way| rounded(way.bearing_deg, 10.0) % 360.0),
        })
    }

    pub fn own_place(&self) -> Option<EarthPlace> {
        self.on_earth(&self.own?, None)
    }

    fn own_at(&self) -> Option<LatLon> {
        self.own?.at(self.datum.as_ref()?).ok()
    }

    fn at(&self, place: &Place) -> Option<LatLon> {
        place.at(self.datum.as_ref()?).ok()
    }

    /// The area of a query, which is `area` unless it is said in words.
    ///
    /// # Errors
    /// A text is no place, or the group has no datum for it.
    pub fn search(&self, area: Area, words: Option<&PlaceQuery>) -> Result<SearchArea, ApiError> {
        let Some(words) = words else {
            let center = area.center().map(|cell| Place { cell, exact: None });
            return Ok(self.plain(area, center));
        };
        match words {
            PlaceQuery::At(text) => self.place(text).map(|place| self.plain(Area::Exact(place.cell), Some(place))),
            PlaceQuery::Near(text) => {
                let place = self.place(text)?;
                Ok(SearchArea { order: Order::Nearest, ..self.plain(Area::Nearest(place.cell), Some(place)) })
            }
            PlaceQuery::Within { center, radius } => self.within(center.as_deref(), radius),
            PlaceQuery::Corners(a, b) => self.between(self.place(a)?, self.place(b)?),
            PlaceQuery::Region { geojson, near } => {
                let near = near.as_deref().map(|near| self.place(near)).transpose()?;
                let datum = self.datum.as_ref().ok_or_else(|| no_datum("a polygon"))?;
                let region = Region::from_geojson(geojson, datum).map_err(|error| wrong_region(&error))?;
                Ok(self.in_region(region, near))
            }
        }
    }

    fn plain(&self, area: Area, center: Option<Place>) -> SearchArea {
        let from = center.and_then(|center| self.at(&center)).or_else(|| self.own_at());
        SearchArea { grid: *self, areas: vec![area], region: None, from, order: Order::Hubs }
    }

    fn in_region(&self, region: Region, near: Option<Place>) -> SearchArea {
        let from = near.and_then(|near| self.at(&near)).or_else(|| self.own_at());
        SearchArea { grid: *self, areas: region.cover().to_vec(), region: Some(region), from, order: Order::Nearest }
    }

    fn within(&self, center: Option<&str>, radius: &str) -> Result<SearchArea, ApiError> {
        let nowhere =
            || usage("this daemon has no place of its own: give --near PLACE with --within, near=PLACE with within=R");
        let center = match center {
            Some(text) => self.place(text)?,
            None => self.own.ok_or_else(nowhere)?,
        };
        if let Ok(cells) = radius.parse::<u32>() {
            let area = Area::Radius { center: center.cell, radius: cells };
            let is_on_grid = cells <= 4 * MAX_COORDINATE as u32 && area.is_valid();
            let too_wide = || usage(&format!("within={radius}: expected at most {} cells", 4 * MAX_COORDINATE));
            return if is_on_grid { Ok(self.plain(area, Some(center))) } else { Err(too_wide()) };
        }
        let radius: Length = radius.parse().map_err(|error: ParseLengthError| {
            usage(&format!("within={radius}: expected a whole number of cells or a length; {error}"))
        })?;
        let datum = self.datum.as_ref().ok_or_else(|| no_datum(&radius.to_string()))?;
        let at = center.at(datum).map_err(|error| wrong_place(&error))?;
        let region = Region::circle(at, radius, datum).map_err(|error| wrong_region(&error))?;
        Ok(self.in_region(region, Some(center)))
    }

    fn between(&self, a: Place, b: Place) -> Result<SearchArea, ApiError> {
        let Some(datum) = self.datum.as_ref().filter(|_| a.exact.is_some() || b.exact.is_some()) else {
            return Ok(self.plain(Area::rectangle(a.cell, b.cell), None));
        };
        let corner = |place: Place| place.at(datum).map_err(|error| wrong_place(&error));
        let region = Region::corners(corner(a)?, corner(b)?, datum).map_err(|error| wrong_region(&error))?;
        Ok(self.in_region(region, None))
    }
}

impl SearchArea {
    /// The areas to ask hubs for, one by one: at most [`roost_geo::MAX_RECTANGLES`].
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The one area that says all; `None` if the requester has to test what is found.
    pub fn whole(&self) -> Option<Area> {
        self.areas.first().copied().filter(|_| self.region.is_none())
    }

    /// A single area around all that is searched, since a watch has no more.
    pub fn around(&self) -> Area {
        match self.areas.as_slice() {
            [area] => *area,
            areas => areas.iter().copied().reduce(joined).unwrap_or(Area::Anywhere),
        }
    }

    /// The datum of a region that the requester tests; none without one.
    pub const fn datum(&self) -> Option<&Datum> {
        self.grid.datum.as_ref()
    }

    /// False of a node outside the region. One without an exact position is in the middle of its cell.
    pub fn contains(&self, place: &Place) -> bool {
        let Some(region) = &self.region else { return true };
        self.grid.at(place).is_some_and(|at| region.contains(at))
    }

    pub fn on_earth(&self, candidate: &Candidate) -> Option<EarthPlace> {
        self.grid.on_earth(&place_of(candidate), self.from)
    }

    /// Leaves out nodes outside the region, and nodes that were found twice; of these the later record stays. Puts the
    /// nearest first, if the query wants that.
    pub fn select(&self, mut found: Vec<Candidate>) -> Vec<Candidate> {
        if self.areas.len() > 1 {
            found.sort_by(|a, b| (a.node, b.version).cmp(&(b.node, a.version)));
            found.dedup_by_key(|candidate| candidate.node);
        }
        found.retain(|candidate| self.contains(&place_of(candidate)));
        if let Some(from) = self.from.filter(|_| self.order == Order::Nearest) {
            let distance =
                |candidate: &Candidate| self.grid.at(&place_of(candidate)).map(|at| from.quick_distance_m(at));
            let mut ranked: Vec<_> = found.into_iter().map(|candidate| (distance(&candidate), candidate)).collect();
            ranked.sort_by(|(a, _), (b, _)| compare(*a, *b));
            found = ranked.into_iter().map(|(_, candidate)| candidate).collect();
        }
        found
    }
}

fn compare(a: Option<f64>, b: Option<f64>) -> Ordering {
    a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY))
}

pub fn place_of(candidate: &Candidate) -> Place {
    Place { cell: candidate.cell, exact: candidate.position }
}

/// A candidate in motion as it is after a time on its course and at its speed.
pub fn predicted(candidate: &Candidate, datum: &Datum, after: Duration) -> Candidate {
    let position = candidate.position.map(|position| predict(&position, after));
    let moving = position.filter(is_moving);
    let cell = moving.map_or(candidate.cell, |position| datum.cell(position.at).unwrap_or(NOWHERE));
    Candidate { cell, position, ..candidate.clone() }
}

fn joined(a: Area, b: Area) -> Area {
    match (a, b) {
        (Area::Rectangle { min: a, max: b }, Area::Rectangle { min: c, max: d }) => {
            Area::Rectangle { min: Cell::new(a.x.min(c.x), a.y.min(c.y)), max: Cell::new(b.x.max(d.x), b.y.max(d.y)) }
        }
        _ => Area::Anywhere,
    }
}

fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

fn usage(sentence: &str) -> ApiError {
    ApiError::new(Code::Usage, sentence)
}

fn no_datum(what: &str) -> ApiError {
    wrong_place(&PlaceError::NoDatum(what.to_owned()))
}

fn wrong_place(error: &PlaceError) -> ApiError {
    usage(&error.to_string())
}

fn wrong_region(error: &RegionError) -> ApiError {
    usage(&error.to_string())
}

#[cfg(test)]
mod tests {
    use roost_wire::{Capacity, ExactPosition, NodeId, ServiceSet, Version};

    use super::*;

    fn grid() -> Grid {
        let datum = Datum::new("47.0,8.0".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        Grid { datum: Some(datum), own: Some(Place { cell: Cell::new(40, 42), exact: None }) }
    }

    fn plain() -> Grid {
        Grid { datum: None, own: Some(Place { cell: Cell::new(1, 2), exact: None }) }
    }

    fn refusal(grid: Grid, words: &PlaceQuery) -> String {
        let ApiError(error) = grid.search(Area::Anywhere, Some(words)).unwrap_err();
        assert_eq!(error.code, Code::Usage);
        error.message
    }

    fn near(text: &str) -> PlaceQuery {
        PlaceQuery::Near(text.to_owned())
    }

    fn within(center: Option<&str>, radius: &str) -> PlaceQuery {
        PlaceQuery::Within { center: center.map(str::to_owned), radius: radius.to_owned() }
    }

    fn polygon(points: &str) -> PlaceQuery {
        let geojson = format!("{{\"type\":\"Polygon\",\"coordinates\":[[{points}]]}}");
        PlaceQuery::Region { geojson, near: None }
    }

    fn candidate(id: u8, cell: Cell, position: Option<&str>) -> Candidate {
        let exact = position.map(|text| ExactPosition::new(text.parse().unwrap()));
        Candidate {
            node: NodeId::from_bytes([id; 16]),
            version: Version { epoch: 1, sequence: 1 },
            cell,
            services: ServiceSet::ALL,
            capacity: Capacity { streams: 1, uplink_kbps: 1 },
            addresses: Vec::new(),
            name: None,
            position: exact,
        }
    }

    #[test]
    fn words_become_cells() {
        let search = |words: &PlaceQuery| grid().search(Area::Anywhere, Some(words)).unwrap();
        let cell = Cell::new(40, 42);
        assert_eq!(search(&near("47.3769,8.5417")).whole(), Some(Area::Nearest(cell)));
        assert_eq!(search(&PlaceQuery::At("32TMT654471".to_owned())).whole(), Some(Area::Exact(cell)));
        assert_eq!(search(&within(None, "3")).whole(), Some(Area::Radius { center: cell, radius: 3 }));
        let circle = search(&within(Some("47.3769,8.5417"), "5km"));
        assert_eq!(circle.whole(), None);
        assert!(matches!(circle.areas(), [Area::Radius { radius: 5..=7, .. }]), "{:?}", circle.areas());
        let corners = |a: &str, b: &str| search(&PlaceQuery::Corners(a.to_owned(), b.to_owned()));
        assert_eq!(corners("9,9", "1,2").whole(), Some(Area::rectangle(Cell::new(1, 2), Cell::new(9, 9))));
        assert!(corners("47.1,8.1", "47.2,8.2").whole().is_none());
    }

    #[test]
    fn plain_grid_knows_cells_only() {
        let search = |words: &PlaceQuery| plain().search(Area::Anywhere, Some(words)).unwrap().whole();
        assert_eq!(search(&within(None, "3")), Some(Area::Radius { center: Cell::new(1, 2), radius: 3 }));
        for words in [near("47.1,8.1"), within(None, "5km"), within(Some("1,2"), "5km"), polygon("[8,47]")] {
            let why = refusal(plain(), &words);
            assert!(why.contains("has no datum") && why.contains("roost group init --origin"), "{why}");
        }
        let hub = Grid { datum: None, own: None };
        assert!(refusal(hub, &within(None, "3")).contains("no place of its own"));
    }

    #[test]
    fn wrong_places_are_refused_in_a_sentence() {
        for (words, part) in [
            (near("8.5417,47.3769"), "did you mean 47.3769,8.5417?"),
            (near("-47.3769,-171.5"), "beyond the 2000 km"),
            (near("90.5,8.0"), "beyond a pole"),
            (near("99TMT6547"), "is no MGRS square"),
            (near("here"), "is no place"),
            (within(None, "5"), ""),
            (within(None, "5 parsecs"), "a whole number of cells or a length"),
            (within(None, "4000001"), "at most 4000000 cells"),
            (within(None, "2001km"), "choose a smaller one"),
            (polygon("[8,47],[8.1,47.1],[8.1,47],[8,47.1],[8,47]"), "crosses itself"),
            (polygon("[8,47],[60,47],[60,48],[8,47]"), "beyond the 2000 km"),
            (polygon(&vec!["[8,47]"; 1001].join(",")), "more than 1000 points"),
            (PlaceQuery::Region { geojson: "{}".to_owned(), near: None }, "the GeoJSON cannot be read"),
        ] {
            match grid().search(Area::Anywhere, Some(&words)) {
                Ok(_) => assert!(part.is_empty(), "{words:?}"),
                Err(ApiError(error)) => assert!(!part.is_empty() && error.message.contains(part), "{}", error.message),
            }
        }
    }

    #[test]
    fn region_is_tested_exactly_and_sorted() {
        let triangle =
            grid().search(Area::Anywhere, Some(&polygon("[8.5,47.3],[8.9,47.3],[8.5,47.6],[8.5,47.3]"))).unwrap();
        let cell = |text: &str| grid().place(text).unwrap().cell;
        let inside = candidate(1, cell("47.31,8.7"), Some("47.31,8.7"));
        let nearer = candidate(2, cell("47.35,8.55"), None);
        let outside = candidate(3, cell("47.58,8.88"), Some("47.58,8.88"));
        let later = Candidate { version: Version { epoch: 1, sequence: 2 }, ..inside.clone() };
        let selected = triangle.select(vec![inside, outside, later.clone(), nearer.clone()]);
        assert_eq!(selected, [nearer.clone(), later]);
        let place = triangle.on_earth(&nearer).unwrap();
        assert!(place.distance_m.is_some_and(|distance| distance < 5000.0), "{place:?}");
        assert!(matches!(triangle.around(), Area::Rectangle { .. }));
    }

    #[test]
    fn region_crosses_the_meridian() {
        let datum = Datum::new("-17.0,179.0".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        let grid = Grid { datum: Some(datum), own: None };
        let search =
            grid.search(Area::Anywhere, Some(&polygon("[179,-18],[-179,-18],[-179,-16],[179,-16],[179,-18]"))).unwrap();
        let contains = |text: &str| search.contains(&grid.place(text).unwrap());
        assert!(contains("-17.0,-179.5") && !contains("-17.0,178.5"));
    }
}
