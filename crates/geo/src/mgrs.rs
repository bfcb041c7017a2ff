//! Squares of the Military Grid Reference System (NGA.STND.0037): `32TMT6547`.

use geoconvert::Mgrs;
use roost_wire::position::{ExactPosition, LatLon};

use crate::error::PlaceError;

/// Digits of an easting or a northing: none is a square of 100 km, five are one of a meter.
const MAX_DIGITS: usize = 5;
const LARGEST_SQUARE_M: f64 = 100_000.0;

/// Reads a square, with or without spaces; none if the text does not have the form of one. The position is the middle
/// of the square, and its accuracy reaches the corners.
pub(crate) fn parse(text: &str) -> Option<Result<ExactPosition, PlaceError>> {
    let square: String = text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>().to_ascii_uppercase();
    let digits = digits_of(&square)?;
    Some(read(&square, digits).map_err(|reason| PlaceError::Mgrs { text: text.to_owned(), reason }))
}

/// The number of digits after the letters, if the text has the form of a square. The library relies on that form.
fn digits_of(square: &str) -> Option<usize> {
    let zone = square.bytes().take_while(u8::is_ascii_digit).count();
    let letters = square.bytes().skip(zone).take_while(u8::is_ascii_uppercase).count();
    let digits = square.bytes().skip(zone + letters).take_while(u8::is_ascii_digit).count();
    let is_whole = zone + letters + digits == square.len();
    let begins_well = match square.bytes().next()? {
        b'0'..=b'9' => zone <= 2,
        // Near the poles there are no zones.
        band => matches!(band, b'A' | b'B' | b'Y' | b'Z'),
    };
    (is_whole && begins_well && letters == 3).then_some(digits)
}

fn read(square: &str, digits: usize) -> Result<ExactPosition, String> {
    if digits % 2 == 1 {
        return Err("easting and northing must have the same number of digits".to_owned());
    }
    if digits / 2 > MAX_DIGITS {
        return Err(format!("easting and northing have at most {MAX_DIGITS} digits each"));
    }
    let middle = match Mgrs::parse_str(square) {
        Ok(read) => read.to_latlon(),
        Err(geoconvert::Error::InvalidMgrs(reason)) => return Err(reason),
        Err(error) => return Err(error.to_string()),
    };
    let at = LatLon::new(middle.latitude(), middle.longitude()).map_err(|error| error.to_string())?;
    let side_m = LARGEST_SQUARE_M / 10_f64.powi((digits / 2) as i32);
    Ok(ExactPosition { accuracy_m: Some(side_m * std::f64::consts::FRAC_1_SQRT_2), ..ExactPosition::new(at) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geodesic::distance_m;

    fn square(text: &str) -> ExactPosition {
        parse(text).unwrap().unwrap()
    }

    /// Figures of NGA's GEOTRANS (`mgrs` 1.6 for Python, `toLatLon`) for the middle of each square, with zones of
    /// Norway, both hemispheres and both poles.
    #[test]
    fn squares_agree_with_geotrans() {
        for (text, lat, lon) in [
            ("32TMT6547", 47.380_046_82, 8.542_953_99),
            ("32TMT6512347123", 47.376_639_13, 8.537_995_99),
            ("31NAA6602100000", 0.000_004_52, 0.000_000_51),
            ("60HWE0000000000", -37.046_217_97, 177.000_005_62),
            ("01KAB1234512345", -17.040_558_56, 179.359_370_35),
            ("33XVG7459743593", 77.865_495_36, 13.917_418_17),
            ("BAN12341234", -89.842_750_35, 45.0),
            ("32VKM5060", 60.005_761_21, 4.523_827_81),
            ("4QFJ1234567890", 21.409_801_16, -157.916_076_32),
        ] {
            let expected = LatLon::new(lat, lon).unwrap();
            let read = square(text);
            assert!(distance_m(read.at, expected) < 0.05, "{text}: {}", read.at);
        }
    }

    #[test]
    fn precision_becomes_accuracy() {
        let side = |text| (square(text).accuracy_m.unwrap() * std::f64::consts::SQRT_2).round();
        assert_eq!(side("32T MT"), 100_000.0);
        assert_eq!(side("32t mt 65 47"), 1000.0);
        assert_eq!(side("32TMT 65123 47123"), 1.0);
    }

    #[test]
    fn malformed_square_says_why() {
        for text in ["32TMT654", "32TMT651234471234", "61TMT6547", "32TAT6547", "32IMT6547", "32TMI6547", "0TMT6547"] {
            let error = parse(text).unwrap().unwrap_err();
            assert!(error.to_string().starts_with(&format!("{text:?} is no MGRS square: ")), "{error}");
        }
        for text in ["", "Zurich", "47N", "ZZZZ", "32TM", "123TMT6547", "32TMT65A7"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[0-9]{0,3}[A-Za-z]{0,4} ?[0-9]{0,12}") {
            let _ = parse(&text);
        }
    }
}
