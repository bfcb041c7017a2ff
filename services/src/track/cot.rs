//! Cursor on Target: XML events of MIL-STD-6090 and MITRE's base schema 2.0.

use std::time::SystemTime;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::MAX_ID_BYTES;
use super::record::{Origin, TrackRecord, parse_time};

mod protobuf;
mod writer;

pub use protobuf::read_protobuf;
pub use writer::{CotDetail, write};

/// The most XML events (tags, texts) looked at in one message.
const MAX_XML_EVENTS: usize = 1000;

/// The longest type of an event, bytes: those of MIL-STD-2525 have up to 30.
pub const MAX_TYPE_BYTES: usize = 64;

/// The longest `how` of an event, bytes: the longest known one is `h-g-i-g-o`.
const MAX_HOW_BYTES: usize = 32;

const START: &str = "<event";
const END: &str = "</event>";

/// The value for "unknown" in altitudes and errors.
const UNKNOWN: f64 = 9_999_999.0;

/// Depths of the tags: `event`, `point` in it, and the parts of its `detail`.
const EVENT: usize = 0;
const POINT: usize = 1;
const PART: usize = 2;

/// An event, as far as this program knows its parts. Speed is over ground, course from true north. Unknown values are
/// left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CotEvent {
    pub uid: String,
    /// A path such as `a-f-G-U`: atom, friend, ground, unit.
    pub kind: String,
    pub how: String,
    pub time: Option<SystemTime>,
    pub stale: Option<SystemTime>,
    pub point: Option<CotPoint>,
    pub speed_mps: Option<f64>,
    pub course_deg: Option<f64>,
    pub callsign: Option<String>,
    /// The uid of another event that this one is about.
    pub link: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CotPoint {
    pub lat: f64,
    pub lon: f64,
    pub hae_m: Option<f64>,
    /// The radius of the horizontal error, meters.
    pub ce_m: Option<f64>,
}

/// Reads one event.
///
/// # Errors
/// The XML is no event; the text gives the reason.
pub fn read(xml: &str) -> Result<CotEvent, &'static str> {
    let mut reader = Reader::from_str(xml);
    let mut found = CotFields::default();
    for _ in 0..MAX_XML_EVENTS {
        match reader.read_event().map_err(|_| "it is not well-formed XML")? {
            Event::Start(tag) => {
                found.read(&tag)?;
                found.depth += 1;
            }
            Event::Empty(tag) => found.read(&tag)?,
            Event::End(_) => found.depth = found.depth.saturating_sub(1),
            Event::DocType(_) => return Err("it has a document type"),
            Event::Eof if found.depth == 0 => return found.event(),
            Event::Eof => return Err("it has no end"),
            _ => {}
        }
    }
    Err("it is too long")
}

/// Reads the position of an event.
///
/// # Errors
/// As [`read`], and if the event has no point on Earth.
pub fn parse(xml: &str) -> Result<TrackRecord, &'static str> {
    let event = read(xml)?;
    let point = event.point.ok_or("it has no point with a latitude and a longitude")?;
    let record = TrackRecord {
        time: event.time,
        id: event.uid,
        lat: point.lat,
        lon: point.lon,
        alt_m: point.hae_m,
        speed_mps: event.speed_mps,
        course_deg: event.course_deg,
        source: Origin::Cot,
        raw: xml.trim().to_owned(),
    };
    if record.is_sound() { Ok(record) } else { Err("its point is not on Earth") }
}

#[derive(Default)]
struct CotFields {
    depth: usize,
    event: CotEvent,
    lat: Option<f64>,
    lon: Option<f64>,
    hae_m: Option<f64>,
    ce_m: Option<f64>,
    has_event: bool,
    has_point: bool,
}

impl CotFields {
    fn read(&mut self, tag: &BytesStart<'_>) -> Result<(), &'static str> {
        let name = tag.name();
        match (self.depth, name.as_ref()) {
            (EVENT, "event") if self.has_event => return Err("it has more than one event"),
            (EVENT, "event") => self.has_event = true,
            (POINT, "point") if self.has_point => return Err("it has more than one point"),
            (POINT, "point") => self.has_point = true,
            (PART, "track" | "contact" | "link") => {}
            _ => return Ok(()),
        }
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|_| "it is not well-formed XML")?;
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .map_err(|_| "it is not well-formed XML")?;
            self.keep(name.as_ref(), attribute.key.as_ref(), &value);
        }
        Ok(())
    }

    fn keep(&mut self, tag: &str, key: &str, value: &str) {
        let number = || value.trim().parse::<f64>().ok();
        let known = || number().filter(|number| *number < UNKNOWN);
        let event = &mut self.event;
        match (tag, key) {
            ("event", "uid") => event.uid = value.to_owned(),
            ("event", "type") => event.kind = value.to_owned(),
            ("event", "how") => event.how = value.to_owned(),
            ("event", "time") => event.time = parse_time(value),
            ("event", "stale") => event.stale = parse_time(value),
            ("point", "lat") => self.lat = number(),
            ("point", "lon") => self.lon = number(),
            ("point", "hae") => self.hae_m = known(),
            ("point", "ce") => self.ce_m = known(),
            ("track", "speed") => event.speed_mps = number(),
            ("track", "course") => event.course_deg = number(),
            ("contact", "callsign") => event.callsign = Some(value.to_owned()),
            ("link", "uid") => event.link = Some(value.to_owned()),
            _ => {}
        }
    }

    fn event(self) -> Result<CotEvent, &'static str> {
        let Self { event, lat, lon, hae_m, ce_m, .. } = self;
        if !(1..=MAX_ID_BYTES).contains(&event.uid.len()) {
            return Err("it has no event with a uid");
        }
        if event.kind.len() > MAX_TYPE_BYTES {
            return Err("its type is too long");
        }
        if event.how.len() > MAX_HOW_BYTES {
            return Err("its how is too long");
        }
        let point = lat.zip(lon).map(|(lat, lon)| CotPoint { lat, lon, hae_m, ce_m });
        Ok(CotEvent { point, ..event })
    }
}

/// Splits a file of concatenated events; the text between them is left out.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    // A file may put its events into an element `events`.
    let begins = |rest: &str| rest.starts_with(|next: char| next.is_whitespace() || next == '>');
    text.split_inclusive(END).filter_map(move |piece| {
        let (start, _) = piece.match_indices(START).find(|(at, _)| begins(&piece[at + START.len()..]))?;
        piece.ends_with(END).then(|| &piece[start..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = r#"<?xml version="1.0"?><event version="2.0" uid="UAV-7 &amp; co" type="a-f-A" time="2026-05-01T12:00:00.000Z" start="2026-05-01T12:00:00Z" stale="2026-05-01T12:01:00Z" how="m-g"><point lat="27.5" lon="92.25" hae="9999999.0" ce="10" le="10"/><detail><track course="45.0" speed="117"/></detail></event>"#;

    #[test]
    fn an_event_is_a_position() {
        let record = parse(SAMPLE).unwrap();
        assert_eq!((record.id.as_str(), record.lat, record.lon), ("UAV-7 & co", 27.5, 92.25));
        assert_eq!((record.alt_m, record.speed_mps, record.course_deg), (None, Some(117.0), Some(45.0)));
        assert_eq!(record.raw, SAMPLE);
        assert!(record.time.is_some());
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for bad in [
            "",
            "text",
            "<event uid='a'/>",
            "<event uid='a'><point lat='x' lon='1'/></event>",
            "<event uid='a'><point lat='99' lon='1'/></event>",
            "<event uid='a'></point></event>",
            "<event><point lat='1' lon='1'/></event>",
            "<event uid='&bomb;'><point lat='1' lon='1'/></event>",
            "<event uid='a'><point lat='1' lon='1'/>",
            "<event uid='a'><point lat='1' lon='1'/></event><event uid='b'/>",
            "<event uid='a'><point lat='1' lon='1'/><point lat='2' lon='2'/></event>",
            "<event uid='a'><detail><point lat='1' lon='1'/></detail></event>",
            "<!DOCTYPE event [<!ENTITY a 'b'>]><event uid='a'><point lat='1' lon='1'/></event>",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"<a>".repeat(2000)).is_err());
        let kind = "a".repeat(MAX_TYPE_BYTES + 1);
        assert!(read(&format!("<event uid='a' type='{kind}'/>")).is_err());
        let how = "m".repeat(MAX_HOW_BYTES);
        assert!(read(&format!("<event uid='a' how='{how}'/>")).is_ok());
        assert!(read(&format!("<event uid='a' how='{how}m'/>")).is_err());
    }

    #[test]
    fn file_splits_into_events() {
        let text = format!("<?xml?>\n<events>{SAMPLE}\n\n{SAMPLE}</events> <event half");
        assert_eq!(split(&text).count(), 2);
        assert!(split(&text).all(|event| parse(event).is_ok()));
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = (parse(&text), split(&text).count());
        }

        #[test]
        fn never_panics_on_damaged_events(cut in 0..SAMPLE.len(), with in "[<>&'\"a/ ]{0,3}") {
            let _ = parse(&format!("{}{with}{}", &SAMPLE[..cut], &SAMPLE[cut..]));
            let _ = parse(&SAMPLE[..cut]);
        }
    }
}
