//! Reading and printing of the places that people name.

use roost_wire::Cell;
use roost_wire::position::{ExactPosition, LatLon, ParseLatLonError};

use crate::datum::Datum;
use crate::error::PlaceError;
use crate::notation::{self, Written};
use crate::{geodesic, mgrs};

/// A place that a person named: its cell, and the exact position if it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub cell: Cell,
    pub exact: Option<ExactPosition>,
}

impl Place {
    /// Reads a place.
    ///
    /// Two whole numbers are a cell, and two numbers of which one has a decimal point are latitude and longitude.
    /// All other notations say themselves which they are:
    ///
    /// | text | place |
    /// |---|---|
    /// | `27,92`, `(27, 92)`, `cell:27,92` | a cell, with or without a datum |
    /// | `47.3769,8.5417` | latitude and longitude, degrees |
    /// | `geo:47,8`, `geo:47.3769,8.5417,408;u=20` | RFC 5870: also altitude and accuracy |
    /// | `32TMT6547`, `32T MT 65123 47123` | the middle of a square of MGRS, 1 m to 100 km |
    /// | `47°22'36.8"N 8°32'30"E`, `47.3769N 8.5417E` | degrees, minutes and seconds |
    ///
    /// # Errors
    /// Fails when the text is no place, when only a datum could tell its cell and there is none, and when the place
    /// is out of the datum's reach; then the error proposes latitude and longitude the other way round, if that fits.
    pub fn parse(text: &str, datum: Option<&Datum>) -> Result<Self, PlaceError> {
        let trimmed = text.trim();
        let bare = trimmed.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(trimmed);
        let written = match bare.split_once(':') {
            Some((scheme, cell)) if scheme.eq_ignore_ascii_case("cell") => return parse_cell(cell),
            Some((scheme, uri)) if scheme.eq_ignore_ascii_case("geo") => notation::geo_uri(uri)?,
            _ if is_pair_of_whole_numbers(bare) => return parse_cell(bare),
            _ => match mgrs::parse(bare) {
                Some(square) => return Self::from_exact(square?, known(datum, text)?),
                None => notation::decimal(bare)
                    .or_else(|| notation::degrees_with_letters(bare))
                    .ok_or_else(|| PlaceError::Form(text.to_owned()))?,
            },
        };
        Self::from_written(written, known(datum, text)?)
    }

    /// The place of an exact position, such as a receiver's.
    ///
    /// # Errors
    /// Fails out of the datum's reach.
    pub fn from_exact(exact: ExactPosition, datum: &Datum) -> Result<Self, PlaceError> {
        Ok(Self { cell: datum.cell(exact.at)?, exact: Some(exact) })
    }

    /// Checks the numbers, and tells from the datum if they are in the wrong order.
    fn from_written(written: Written, datum: &Datum) -> Result<Self, PlaceError> {
        let read = |lat, lon| {
            let at = LatLon::new(lat, lon)?;
            let Written { altitude_m, accuracy_m, .. } = written;
            Self::from_exact(ExactPosition { altitude_m, accuracy_m, ..ExactPosition::new(at) }, datum)
        };
        let Written { lat, lon, .. } = written;
        read(lat, lon).map_err(|cause| {
            let may_be_swapped =
                matches!(cause, PlaceError::Far { .. } | PlaceError::LatLon(ParseLatLonError::Latitude(_)));
            match read(lon, lat) {
                Ok(Self { exact: Some(exact), .. }) if may_be_swapped => {
                    PlaceError::Swapped { cause: Box::new(cause), swapped: exact.at }
                }
                _ => cause,
            }
        })
    }

    /// The point on the Earth: the exact position, or else the middle of the cell.
    ///
    /// # Errors
    /// Fails for a cell out of the datum's reach.
    pub fn at(&self, datum: &Datum) -> Result<LatLon, PlaceError> {
        self.exact.map_or_else(|| datum.middle(self.cell), |exact| Ok(exact.at))
    }

    /// The place with labels, to a meter: `lat 47.3769, lon 8.5417 (cell 40, 42)`; of a cell without an exact
    /// position `cell 40, 42 (middle lat 47.38, lon 8.53)`.
    pub fn describe(&self, datum: &Datum) -> String {
        let Cell { x, y } = self.cell;
        match (self.exact, datum.middle(self.cell)) {
            (Some(exact), _) => format!("{} (cell {x}, {y})", label(exact.at)),
            (None, Ok(middle)) => format!("cell {x}, {y} (middle {})", label(middle)),
            (None, Err(_)) => format!("cell {x}, {y}"),
        }
    }

    /// The way from another place to this one, such as from the requester to a provider.
    ///
    /// # Errors
    /// Fails for a cell out of the datum's reach.
    pub fn way_from(&self, other: &Self, datum: &Datum) -> Result<geodesic::Way, PlaceError> {
        Ok(geodesic::Way::between(other.at(datum)?, self.at(datum)?))
    }
}

/// Five decimals of a degree are a meter.
fn label(at: LatLon) -> String {
    let rounded = |degrees: f64| (degrees * 1e5).round() / 1e5;
    format!("lat {}, lon {}", rounded(at.lat()), rounded(at.lon()))
}

fn parse_cell(text: &str) -> Result<Place, PlaceError> {
    let cell = text.parse().map_err(|_| match is_pair_of_whole_numbers(text) {
        true => PlaceError::Cell(text.to_owned()),
        false => PlaceError::Form(format!("cell:{text}")),
    })?;
    Ok(Place { cell, exact: None })
}

fn is_pair_of_whole_numbers(text: &str) -> bool {
    let is_whole = |part: &str| {
        let digits = part.trim().trim_start_matches(['-', '+']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split_once(',').is_some_and(|(x, y)| is_whole(x) && is_whole(y))
}

fn known<'a>(datum: Option<&'a Datum>, text: &str) -> Result<&'a Datum, PlaceError> {
    datum.ok_or_else(|| PlaceError::NoDatum(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zurich() -> Datum {
        Datum::new("47.0,8.0".parse().unwrap(), "1km".parse().unwrap()).unwrap()
    }

    fn error(text: &str) -> String {
        Place::parse(text, Some(&zurich())).unwrap_err().to_string()
    }

    #[test]
    fn whole_numbers_are_a_cell() {
        for text in ["27,92", "(27, 92)", " 27 ,92 ", "cell:27,92", "CELL: 27,92"] {
            let expected = Place { cell: Cell::new(27, 92), exact: None };
            assert_eq!(Place::parse(text, Some(&zurich())), Ok(expected), "{text}");
            assert_eq!(Place::parse(text, None), Ok(expected), "{text}");
        }
    }

    #[test]
    fn notations_name_one_cell() {
        for text in [
            "47.3769,8.5417",
            "(47.3769, 8.5417)",
            "geo:47.3769,8.5417",
            "GEO:47.3769,8.5417,408;crs=WGS84;u=20;note=x",
            "32TMT654471",
            "32T MT 65403 47150",
            "47°22'36.8\"N 8°32'30.1\"E",
            "47 22 36.8 N, 8 32 30.1 E",
            "47.3769N 8.5417E",
        ] {
            let place = Place::parse(text, Some(&zurich())).unwrap();
            assert_eq!(place.cell, Cell::new(40, 42), "{text}");
        }
        let place = Place::parse("geo:47.3769,8.5417,408;u=20", Some(&zurich())).unwrap();
        let exact = place.exact.unwrap();
        assert_eq!((exact.altitude_m, exact.accuracy_m), (Some(408.0), Some(20.0)));
        let south = Place::parse("geo:47,8", Some(&zurich())).unwrap();
        assert_eq!(south.cell, Cell::new(0, 0), "a URI without decimals is latitude and longitude, too");
    }

    #[test]
    fn place_on_earth_needs_a_datum() {
        for text in ["47.3769,8.5417", "geo:47,8", "32TMT6547", "47N 8E"] {
            let error = Place::parse(text, None).unwrap_err();
            assert_eq!(error, PlaceError::NoDatum(text.to_owned()));
        }
    }

    #[test]
    fn swapped_numbers_are_noticed() {
        assert_eq!(
            error("8.5417,47.3769"),
            "8.5417,47.3769 is 5660 km from the datum 47.0,8.0, beyond the 2000 km that a datum reaches; \
             did you mean 47.3769,8.5417?"
        );
        let sydney = Datum::new("-33.9,151.2".parse().unwrap(), "1km".parse().unwrap()).unwrap();
        let error = Place::parse("151.21,-33.86", Some(&sydney)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "latitude 151.21 is beyond a pole: latitudes are from -90 to 90 degrees; did you mean -33.86,151.21?"
        );
    }

    #[test]
    fn errors_say_what_to_do() {
        assert_eq!(
            error("-47.3769,-171.5"),
            "-47.3769,-171.5 is 19953 km from the datum 47.0,8.0, beyond the 2000 km that a datum reaches"
        );
        assert_eq!(error("1000001,0"), "cell 1000001,0 is off the grid: coordinates are from -1000000 to 1000000");
        assert_eq!(
            error("geo:47,8;crs=ch1903"),
            "a position of the reference system \"ch1903\" cannot be read: convert it to WGS 84"
        );
        assert!(error("47.5,181.0").starts_with("longitude 181 is more than half a turn"));
        for text in [
            "",
            "Zurich",
            "47.1",
            "1,2,3",
            "cell:1.5,2",
            "geo:",
            "geo:1",
            "geo:47.1,8.1;u=-1",
            "47°61'N 8°E",
            "1e1,2.0",
        ] {
            assert!(error(text).contains("is no place"), "{text}: {}", error(text));
        }
    }

    #[test]
    fn place_prints_with_labels() {
        let place = |text| Place::parse(text, Some(&zurich())).unwrap();
        assert_eq!(place("47.3769,8.5417").describe(&zurich()), "lat 47.3769, lon 8.5417 (cell 40, 42)");
        assert_eq!(place("-1,-1").describe(&zurich()), "cell -1, -1 (middle lat 46.9955, lon 7.99343)");
        assert_eq!(place("5000,0").describe(&zurich()), "cell 5000, 0");
        let way = place("47.3769,8.5417").way_from(&place("0,0"), &zurich()).unwrap();
        assert_eq!(way.to_string(), "58.0 km, bearing 044°");
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>(), near in "[-+0-9.,;:=°'\"NSEWgeocellu ]{0,24}") {
            let _ = Place::parse(&text, Some(&zurich()));
            let _ = Place::parse(&near, Some(&zurich()));
            let _ = Place::parse(&near, None);
        }

        #[test]
        fn printed_point_reads_as_itself(lat in 40.0..55.0, lon in 0.0..16.0) {
            let at = LatLon::new(lat, lon).unwrap();
            let place = Place::parse(&at.to_string(), Some(&zurich())).unwrap();
            prop_assert_eq!(place.at(&zurich()).unwrap(), at);
        }
    }
}
