//! Cursor on Target: XML events of MIL-STD-6090 and MITRE's base schema 2.0.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::MAX_ID_BYTES;
use super::record::{Origin, TrackRecord, parse_time};

/// The most XML events (tags, texts) looked at in one message.
const MAX_XML_EVENTS: usize = 1000;

const END: &str = "</event>";

/// The value for "unknown" in altitudes and errors.
const UNKNOWN: f64 = 9_999_999.0;

/// Reads one event.
///
/// # Errors
/// The XML is no event; the text gives the reason.
pub fn parse(xml: &str) -> Result<TrackRecord, &'static str> {
    let mut reader = Reader::from_str(xml);
    let mut found = CotFields::default();
    for _ in 0..MAX_XML_EVENTS {
        match reader.read_event().map_err(|_| "it is not well-formed XML")? {
            Event::Start(tag) | Event::Empty(tag) => found.read(&tag)?,
            Event::Eof => return found.record(xml),
            _ => {}
        }
    }
    Err("it is too long")
}

#[derive(Default)]
struct CotFields {
    uid: Option<String>,
    time: Option<std::time::SystemTime>,
    lat: Option<f64>,
    lon: Option<f64>,
    hae: Option<f64>,
    speed: Option<f64>,
    course: Option<f64>,
}

impl CotFields {
    fn read(&mut self, tag: &BytesStart<'_>) -> Result<(), &'static str> {
        let name = tag.name();
        if !matches!(name.as_ref(), "event" | "point" | "track") {
            return Ok(());
        }
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|_| "it is not well-formed XML")?;
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .map_err(|_| "it is not well-formed XML")?;
            let number = || value.trim().parse::<f64>().ok();
            match (name.as_ref(), attribute.key.as_ref()) {
                ("event", "uid") => self.uid = Some(value.into_owned()),
                ("event", "time") => self.time = parse_time(&value),
                ("point", "lat") => self.lat = number(),
                ("point", "lon") => self.lon = number(),
                ("point", "hae") => self.hae = number().filter(|hae| *hae < UNKNOWN),
                ("track", "speed") => self.speed = number(),
                ("track", "course") => self.course = number(),
                _ => {}
            }
        }
        Ok(())
    }

    fn record(self, xml: &str) -> Result<TrackRecord, &'static str> {
        let record = TrackRecord {
            time: self.time,
            id: self.uid.filter(|uid| (1..=MAX_ID_BYTES).contains(&uid.len())).ok_or("it has no event with a uid")?,
            lat: self.lat.ok_or("it has no point with a latitude")?,
            lon: self.lon.ok_or("it has no point with a longitude")?,
            alt_m: self.hae,
            speed_mps: self.speed,
            course_deg: self.course,
            source: Origin::Cot,
            raw: xml.trim().to_owned(),
        };
        if record.is_sound() { Ok(record) } else { Err("its point is not on Earth") }
    }
}

/// Splits a file of concatenated events; the text between them is left out.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(END).filter_map(|piece| {
        let start = piece.find("<event")?;
        piece.ends_with(END).then(|| &piece[start..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVENT: &str = r#"<?xml version="1.0"?><event version="2.0" uid="UAV-7 &amp; co" type="a-f-A" time="2026-05-01T12:00:00.000Z" start="2026-05-01T12:00:00Z" stale="2026-05-01T12:01:00Z" how="m-g"><point lat="27.5" lon="92.25" hae="9999999.0" ce="10" le="10"/><detail><track course="45.0" speed="117"/></detail></event>"#;

    #[test]
    fn an_event_is_a_position() {
        let record = parse(EVENT).unwrap();
        assert_eq!((record.id.as_str(), record.lat, record.lon), ("UAV-7 & co", 27.5, 92.25));
        assert_eq!((record.alt_m, record.speed_mps, record.course_deg), (None, Some(117.0), Some(45.0)));
        assert_eq!(record.raw, EVENT);
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
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"<a>".repeat(2000)).is_err());
    }

    #[test]
    fn file_splits_into_events() {
        let text = format!("<?xml?>\n<events>{EVENT}\n\n{EVENT}</events> <event half");
        assert_eq!(split(&text).count(), 2);
        assert!(split(&text).all(|event| parse(event).is_ok()));
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = (parse(&text), split(&text).count());
        }

        #[test]
        fn never_panics_on_damaged_events(cut in 0..EVENT.len(), with in "[<>&'\"a/ ]{0,3}") {
            let _ = parse(&format!("{}{with}{}", &EVENT[..cut], &EVENT[cut..]));
            let _ = parse(&EVENT[..cut]);
        }
    }
}
