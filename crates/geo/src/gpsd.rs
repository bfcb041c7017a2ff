//! Fixes of gpsd: its messages of class TPV, a line of JSON each.

use roost_wire::position::{ExactPosition, LatLon};
use serde::Deserialize;

/// gpsd's own limit is 10 240 bytes.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// The least mode with a position; below, the receiver has no fix.
const MODE_2D: u8 = 2;
/// The least mode with an altitude. At a lower one gpsd may repeat an old altitude.
const MODE_3D: u8 = 3;

/// A message of gpsd, with the fields of its class TPV as they came.
#[derive(Debug, Deserialize)]
pub struct Tpv {
    class: String,
    pub device: Option<String>,
    pub time: Option<String>,
    mode: Option<u8>,
    pub lat: Option<f64>,
    pub lon: Option<f64>,
    #[serde(rename = "altHAE")]
    pub alt_hae: Option<f64>,
    #[serde(rename = "altMSL")]
    pub alt_msl: Option<f64>,
    pub alt: Option<f64>,
    eph: Option<f64>,
    epx: Option<f64>,
    epy: Option<f64>,
    pub track: Option<f64>,
    pub speed: Option<f64>,
}

/// Reads the position from a line of gpsd; none for messages of other classes, without a fix, and malformed ones.
///
/// The altitude is that above the ellipsoid, and above the sea where gpsd tells no other: they differ by 107 m at
/// most. The accuracy is gpsd's estimate for 95 %.
///
/// ```
/// let line = r#"{"class":"TPV","mode":3,"lat":47.3769,"lon":8.5417,"altHAE":456.0,"eph":4.5,"speed":0.0}"#;
/// let position = roost_geo::gpsd::parse(line).unwrap();
/// assert_eq!((position.at.to_string(), position.accuracy_m), ("47.3769,8.5417".to_owned(), Some(4.5)));
/// assert_eq!(roost_geo::gpsd::parse(r#"{"class":"TPV","mode":1}"#), None);
/// ```
pub fn parse(line: &str) -> Option<ExactPosition> {
    Tpv::read(line)?.position()
}

impl Tpv {
    /// Reads a line of gpsd; none if it is malformed.
    pub fn read(line: &str) -> Option<Self> {
        if line.len() > MAX_LINE_BYTES {
            return None;
        }
        serde_json::from_str(line).ok()
    }

    pub fn is_report(&self) -> bool {
        self.class == "TPV"
    }

    /// The position of a report with a fix.
    pub fn position(&self) -> Option<ExactPosition> {
        let mode = self.mode.filter(|mode| self.is_report() && *mode >= MODE_2D)?;
        let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
        let positive = |number| finite(number).filter(|number| *number >= 0.0);
        let of_axes = || Some(positive(self.epx)?.hypot(positive(self.epy)?));
        Some(ExactPosition {
            at: LatLon::new(self.lat?, self.lon?).ok()?,
            altitude_m: finite(self.alt_hae).or(finite(self.alt_msl)).filter(|_| mode >= MODE_3D),
            accuracy_m: positive(self.eph).or_else(of_axes),
            course_deg: finite(self.track),
            speed_mps: positive(self.speed),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made up, with the fields that gpsd documents for TPV.
    const TPV: &str = r#"{"class":"TPV","device":"/dev/ttyACM0","mode":3,"time":"2026-05-01T12:00:00.000Z","ept":0.005,"lat":47.376900000,"lon":8.541700000,"altHAE":456.1000,"altMSL":408.0000,"alt":408.0000,"epx":3.1,"epy":4.2,"epv":7.1,"track":10.5,"magtrack":13.1,"speed":3.5,"climb":0.1,"eph":5.7,"sep":9.1}"#;

    #[test]
    fn message_with_fix_is_read() {
        let expected = ExactPosition {
            at: LatLon::new(47.3769, 8.5417).unwrap(),
            altitude_m: Some(456.1),
            accuracy_m: Some(5.7),
            course_deg: Some(10.5),
            speed_mps: Some(3.5),
        };
        assert_eq!(parse(TPV), Some(expected));
        let flat = TPV.replace(r#""mode":3"#, r#""mode":2"#).replace(r#""eph":5.7,"#, "");
        let accuracy_m = Some(3.1_f64.hypot(4.2));
        assert_eq!(parse(&flat), Some(ExactPosition { altitude_m: None, accuracy_m, ..expected }));
    }

    #[test]
    fn message_without_fix_is_none() {
        for line in [
            r#"{"class":"VERSION","release":"3.22"}"#,
            r#"{"class":"TPV","mode":1,"lat":1.0,"lon":2.0}"#,
            r#"{"class":"TPV","lat":1.0,"lon":2.0}"#,
            r#"{"class":"TPV","mode":3,"lat":91.0,"lon":2.0}"#,
            r#"{"class":"TPV","mode":3}"#,
            "",
            "nonsense",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
