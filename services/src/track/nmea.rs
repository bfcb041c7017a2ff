//! NMEA 0183 sentences.

use std::time::{Duration, SystemTime};

use nmea::sentences::rmc::RmcStatusOfFix;
use nmea::{ParseResult, parse_str};

use super::record::{Origin, TrackRecord, parse_time};

/// The longest sentence, bytes. The standard says 82; some talkers send more.
pub const MAX_SENTENCE_BYTES: usize = 256;

/// Bytes of sentences kept to go with the next position; the oldest are dropped.
const MAX_HELD_BYTES: usize = 2048;

const METRES_PER_SECOND_IN_KNOT: f64 = 1852.0 / 3600.0;

/// Decimals of a latitude and longitude: a centimeter, finer than any talker gives.
const PLACE_DECIMALS: i32 = 7;

/// Decimals of meters, meters per second and degrees of course.
const MOTION_DECIMALS: i32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub enum Sentence {
    Position(TrackRecord),
    /// The sentence gives no position, or has no fix.
    Other,
    /// The sentence is malformed or its checksum is wrong.
    Malformed,
}

/// Parses a talker's sentences in order.
///
/// Each position (RMC, GGA, GLL) becomes a record; its raw form includes the sentences since the last one, so
/// that nothing is lost.
#[derive(Clone, Debug)]
pub struct Sentences {
    id: String,
    /// The last date received, `YYYY-MM-DD`; only RMC and ZDA carry one.
    date: Option<String>,
    alt_m: Option<f64>,
    held: String,
}

struct Fix {
    time: Option<String>,
    lat: Option<f64>,
    lon: Option<f64>,
    speed: Option<f32>,
    course: Option<f32>,
}

impl Sentences {
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), date: None, alt_m: None, held: String::new() }
    }

    /// Takes a sentence received at `now`; the date of `now` stands in until a sentence carries one.
    pub fn push(&mut self, sentence: &str, now: SystemTime) -> Sentence {
        let sentence = sentence.trim();
        if sentence.len() > MAX_SENTENCE_BYTES {
            return Sentence::Malformed;
        }
        let fix = match parse_str(sentence) {
            Ok(parsed) => self.fix(parsed),
            Err(nmea::Error::Unsupported(_) | nmea::Error::DisabledSentence) => None,
            Err(_) => return Sentence::Malformed,
        };
        self.hold(sentence);
        let Some(Fix { time, lat: Some(lat), lon: Some(lon), speed, course }) = fix else {
            return Sentence::Other;
        };
        let record = TrackRecord {
            time: time.and_then(|clock| self.time(&clock, now)),
            id: self.id.clone(),
            lat: rounded(lat, PLACE_DECIMALS),
            lon: rounded(lon, PLACE_DECIMALS),
            alt_m: self.alt_m.map(|meters| rounded(meters, MOTION_DECIMALS)),
            speed_mps: speed.map(|knots| rounded(f64::from(knots) * METRES_PER_SECOND_IN_KNOT, MOTION_DECIMALS)),
            course_deg: course.map(|degrees| rounded(f64::from(degrees), MOTION_DECIMALS)),
            source: Origin::Nmea,
            raw: std::mem::take(&mut self.held),
        };
        if record.is_sound() { Sentence::Position(record) } else { Sentence::Malformed }
    }

    /// Returns the position of a sentence, if it has a fix.
    fn fix(&mut self, parsed: ParseResult) -> Option<Fix> {
        let fix = match parsed {
            ParseResult::RMC(rmc) => {
                self.date = rmc.fix_date.map(|date| date.to_string()).or(self.date.take());
                let valid = rmc.status_of_fix != RmcStatusOfFix::Invalid;
                let time = rmc.fix_time.map(|time| time.to_string());
                let (speed, course) = (rmc.speed_over_ground, rmc.true_course);
                valid.then_some(Fix { time, lat: rmc.lat, lon: rmc.lon, speed, course })?
            }
            ParseResult::GGA(gga) => {
                self.alt_m = gga.altitude.map(f64::from);
                let valid = gga.fix_type.is_some_and(|kind| kind != nmea::sentences::FixType::Invalid);
                let time = gga.fix_time.map(|time| time.to_string());
                let (lat, lon) = (gga.latitude, gga.longitude);
                valid.then_some(Fix { time, lat, lon, speed: None, course: None })?
            }
            ParseResult::GLL(gll) => {
                let time = gll.fix_time.map(|time| time.to_string());
                let (lat, lon) = (gll.latitude, gll.longitude);
                gll.valid.then_some(Fix { time, lat, lon, speed: None, course: None })?
            }
            _ => return None,
        };
        Some(fix)
    }

    fn hold(&mut self, sentence: &str) {
        if !self.held.is_empty() {
            self.held.push('\n');
        }
        self.held.push_str(sentence);
        while self.held.len() > MAX_HELD_BYTES {
            let oldest = self.held.find('\n').map_or(self.held.len(), |end| end + 1);
            self.held.drain(..oldest);
        }
    }

    /// The time at which the talker's clock showed `HH:MM:SS.fff`.
    fn time(&self, clock: &str, now: SystemTime) -> Option<SystemTime> {
        if let Some(date) = &self.date {
            return parse_time(&format!("{date}T{clock}Z"));
        }
        let today = humantime::format_rfc3339_seconds(now.max(SystemTime::UNIX_EPOCH)).to_string();
        let read = parse_time(&format!("{}T{clock}Z", today.split('T').next()?))?;
        // Around midnight the clock may belong to yesterday or tomorrow: the nearest day is meant.
        const DAY: Duration = Duration::from_secs(24 * 3600);
        match (read.duration_since(now), now.duration_since(read)) {
            (Ok(ahead), _) if ahead > DAY / 2 => read.checked_sub(DAY),
            (_, Ok(behind)) if behind > DAY / 2 => read.checked_add(DAY),
            _ => Some(read),
        }
    }
}

/// Rounds off the digits that only the conversion has added.
fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RMC: &str = "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A";
    const GGA: &str = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47";
    const GSA: &str = "$GPGSA,A,3,04,05,,09,12,,,24,,,,,2.5,1.3,2.1*39";

    fn position(sentence: Sentence) -> TrackRecord {
        let Sentence::Position(record) = sentence else { panic!("{sentence:?}") };
        record
    }

    #[test]
    fn positions_carry_the_sentences_before_them() {
        let mut sentences = Sentences::new("ship");
        assert_eq!(sentences.push(GSA, SystemTime::UNIX_EPOCH), Sentence::Other);
        let gga = position(sentences.push(GGA, SystemTime::UNIX_EPOCH));
        assert_eq!(gga.raw, format!("{GSA}\n{GGA}"));
        assert!((gga.lat - 48.1173).abs() < 1e-4 && (gga.lon - 11.516_67).abs() < 1e-4);
        let rmc = position(sentences.push(&format!("{RMC}\r\n"), SystemTime::UNIX_EPOCH));
        assert_eq!(rmc.raw, RMC);
        assert_eq!(rmc.time, parse_time("1994-03-23T12:35:19Z"));
        assert!((rmc.speed_mps.unwrap() - 11.5235).abs() < 1e-3);
        assert!((rmc.alt_m.unwrap() - 545.4).abs() < 1e-3);
    }

    #[test]
    fn numbers_keep_known_precision() {
        let mut sentences = Sentences::new("ship");
        sentences.push(GGA, SystemTime::UNIX_EPOCH);
        let record = position(sentences.push(RMC, SystemTime::UNIX_EPOCH));
        let line = String::from_utf8(record.line(SystemTime::UNIX_EPOCH).to_vec()).unwrap();
        let numbers = r#""lat":48.1173,"lon":11.5166667,"alt_m":545.4,"speed_mps":11.524,"course_deg":84.4"#;
        assert!(line.contains(numbers), "{line}");
    }

    #[test]
    fn the_nearest_day_is_meant() {
        let sentences = Sentences::new("x");
        let now = parse_time("2026-05-02T00:00:05Z").unwrap();
        assert_eq!(sentences.time("23:59:59", now), parse_time("2026-05-01T23:59:59Z"));
        assert_eq!(sentences.time("00:00:01", now), parse_time("2026-05-02T00:00:01Z"));
    }

    #[test]
    fn damaged_and_void_sentences_give_nothing() {
        let mut sentences = Sentences::new("x");
        let now = SystemTime::UNIX_EPOCH;
        assert_eq!(sentences.push(&RMC.replace("4807", "4907"), now), Sentence::Malformed);
        assert_eq!(sentences.push("", now), Sentence::Malformed);
        assert_eq!(sentences.push(&"$".repeat(1000), now), Sentence::Malformed);
        let void = "$GPRMC,123519,V,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*7D";
        assert_eq!(sentences.push(void, now), Sentence::Other);
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = Sentences::new("x").push(&text, SystemTime::UNIX_EPOCH);
        }

        #[test]
        fn never_panics_on_damaged_sentences(cut in 0..RMC.len(), with in "[0-9,.A-Z*$-]{0,4}", gga in any::<bool>()) {
            let body = if gga { GGA } else { RMC };
            let cut = cut.clamp(1, body.len() - 3);
            let body = format!("{}{with}{}", &body[1..cut], &body[cut..body.len() - 3]);
            let sum = body.bytes().fold(0, |sum, byte| sum ^ byte);
            let _ = Sentences::new("x").push(&format!("${body}*{sum:02X}"), SystemTime::UNIX_EPOCH);
        }
    }
}
