//! The common record of a position: a line of JSON.
//!
//! `{"t":"2026-05-01T12:00:00.000Z","id":"uav-7","lat":27.1,"lon":92.4,
//! "alt_m":1200.0,"speed_mps":117.0,"course_deg":90.0,"source":"cot","raw":"…"}`: UTC (RFC 3339), WGS 84
//! degrees, meters, meters per second, degrees from true north; unknown values are left out. `raw` is the
//! source's original data.

use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::MAX_ID_BYTES;
use crate::MAX_DATAGRAM_BYTES;

/// The format in which a position was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Gpsd,
    Cot,
    Nmea,
    /// Of a program of people's own, or made up.
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TrackRecord {
    /// Time of the position; `None` if the source does not say.
    pub time: Option<SystemTime>,
    pub id: String,
    /// Latitude, degrees north.
    pub lat: f64,
    /// Longitude, degrees east.
    pub lon: f64,
    /// Altitude, meters.
    pub alt_m: Option<f64>,
    /// Speed over ground, meters per second.
    pub speed_mps: Option<f64>,
    /// Course over ground, degrees from true north.
    pub course_deg: Option<f64>,
    pub source: Origin,
    /// Original data of the source.
    pub raw: String,
}

#[derive(Serialize)]
struct TrackLine<'a> {
    t: String,
    id: &'a str,
    lat: f64,
    lon: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    alt_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_mps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    course_deg: Option<f64>,
    source: Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
}

/// A line of a provider, who may be anybody.
#[derive(Deserialize)]
struct ReadLine {
    t: Option<String>,
    id: Option<String>,
    lat: f64,
    lon: f64,
    alt_m: Option<f64>,
    speed_mps: Option<f64>,
    course_deg: Option<f64>,
    source: Option<Origin>,
    raw: Option<String>,
}

impl TrackRecord {
    /// Reads a line of JSON. A record without a name has the name `target`.
    pub fn read(line: &[u8]) -> Option<Self> {
        if line.len() > MAX_DATAGRAM_BYTES || !line.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let line: ReadLine = serde_json::from_slice(line).ok()?;
        let id = line.id.unwrap_or_else(|| "target".to_owned());
        let record = Self {
            time: line.t.as_deref().and_then(parse_time),
            id,
            lat: line.lat,
            lon: line.lon,
            alt_m: line.alt_m,
            speed_mps: line.speed_mps,
            course_deg: line.course_deg,
            source: line.source.unwrap_or(Origin::Other),
            raw: line.raw.unwrap_or_default(),
        };
        ((1..=MAX_ID_BYTES).contains(&record.id.len()) && record.is_sound()).then_some(record)
    }

    pub fn is_sound(&self) -> bool {
        is_on_earth(self.lat, self.lon)
    }

    /// Serializes the record with a line end. The present time stands in for a missing one; `raw` is left out
    /// if the line would not fit a datagram.
    pub fn line(&self, now: SystemTime) -> Bytes {
        let time = self.time.unwrap_or(now).max(SystemTime::UNIX_EPOCH);
        let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
        let mut line = TrackLine {
            t: humantime::format_rfc3339_millis(time).to_string(),
            id: &self.id,
            lat: self.lat,
            lon: self.lon,
            alt_m: finite(self.alt_m),
            speed_mps: finite(self.speed_mps),
            course_deg: finite(self.course_deg),
            source: self.source,
            raw: Some(self.raw.as_str()).filter(|raw| !raw.is_empty()),
        };
        let mut text = to_line(&line);
        if text.len() > MAX_DATAGRAM_BYTES {
            line.raw = None;
            text = to_line(&line);
        }
        Bytes::from(text)
    }
}

fn to_line(line: &TrackLine<'_>) -> Vec<u8> {
    // Serialization fails only for maps whose keys are no strings, and there are none.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Returns true if a latitude and a longitude, degrees, name a place.
pub(super) fn is_on_earth(lat: f64, lon: f64) -> bool {
    (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon)
}

/// Parses a time as gpsd and CoT write it (RFC 3339 in UTC).
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let line = br#"{"t":"2026-05-01T12:00:00.250Z","id":"a","lat":1.5,"lon":-2.0,"source":"cot","raw":"<x/>"}"#;
        let record = TrackRecord::read(line).unwrap();
        assert_eq!(record.line(SystemTime::UNIX_EPOCH).trim_ascii_end(), line);
        let bare = TrackRecord::read(br#"{"lat":1,"lon":2,"source":"radar"}"#).unwrap();
        assert_eq!((bare.id.as_str(), bare.source), ("target", Origin::Other));
        for bad in [&b"\n"[..], b"[1]", br#"{"lat":91,"lon":2}"#, br#"{"lat":1,"lon":2,"id":""}"#, br#"{"lat":1}"#] {
            assert_eq!(TrackRecord::read(bad), None);
        }
    }

    #[test]
    fn track_line_fits_size_limit() {
        let mut record = TrackRecord {
            time: parse_time("2026-05-01T12:00:00.25Z"),
            id: "a".to_owned(),
            lat: 1.5,
            lon: -2.0,
            alt_m: None,
            speed_mps: Some(f64::NAN),
            course_deg: Some(90.0),
            source: Origin::Cot,
            raw: "<x/>".to_owned(),
        };
        let expected = concat!(
            r#"{"t":"2026-05-01T12:00:00.250Z","id":"a","lat":1.5,"lon":-2.0,"course_deg":90.0,"#,
            r#""source":"cot","raw":"<x/>"}"#,
            "\n"
        );
        assert_eq!(record.line(SystemTime::UNIX_EPOCH), expected);
        record.raw = "x".repeat(MAX_DATAGRAM_BYTES);
        assert!(record.line(SystemTime::UNIX_EPOCH).len() < 200);
        record.lat = f64::NAN;
        assert!(!record.is_sound());
    }
}
