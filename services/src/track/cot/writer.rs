//! Events as XML, on one line and without a declaration, as they follow one another on a stream.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use quick_xml::escape::escape;

use super::{CotEvent, UNKNOWN};

/// An element of an event's `detail`: names and attributes are the program's, values and text may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CotDetail {
    pub name: &'static str,
    pub attributes: Vec<(&'static str, String)>,
    pub text: String,
    pub parts: Vec<Self>,
}

impl CotDetail {
    pub fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((key, value.into()));
        self
    }

    fn write(&self, xml: &mut String) {
        let _ = write!(xml, "<{}", self.name);
        for (key, value) in &self.attributes {
            attribute(xml, key, value);
        }
        if self.text.is_empty() && self.parts.is_empty() {
            xml.push_str("/>");
            return;
        }
        let _ = write!(xml, ">{}", safe(&self.text));
        self.parts.iter().for_each(|part| part.write(xml));
        let _ = write!(xml, "</{}>", self.name);
    }
}

/// Writes an event that says what it knows at `now`, and more details behind its own.
pub fn write(event: &CotEvent, now: SystemTime, more: &[CotDetail]) -> String {
    let mut xml = "<event version=\"2.0\"".to_owned();
    let time = event.time.unwrap_or(now);
    attribute(&mut xml, "uid", &event.uid);
    attribute(&mut xml, "type", &event.kind);
    attribute(&mut xml, "how", &event.how);
    attribute(&mut xml, "time", &utc(time));
    attribute(&mut xml, "start", &utc(time));
    attribute(&mut xml, "stale", &utc(event.stale.unwrap_or(time)));
    xml.push('>');
    point(&mut xml, event);
    xml.push_str("<detail>");
    for detail in &details(event) {
        detail.write(&mut xml);
    }
    more.iter().for_each(|detail| detail.write(&mut xml));
    xml.push_str("</detail></event>");
    xml
}

fn point(xml: &mut String, event: &CotEvent) {
    let number = |number: Option<f64>| number.filter(|number| number.is_finite()).unwrap_or(UNKNOWN);
    let (lat, lon) = event.point.map_or((0.0, 0.0), |point| (point.lat, point.lon));
    let hae = number(event.point.and_then(|point| point.hae_m));
    let ce = number(event.point.and_then(|point| point.ce_m));
    // Seven decimals of a degree are a centimeter.
    let _ =
        write!(xml, "<point lat=\"{lat:.7}\" lon=\"{lon:.7}\" hae=\"{hae:.1}\" ce=\"{ce:.1}\" le=\"{UNKNOWN:.1}\"/>");
}

fn details(event: &CotEvent) -> Vec<CotDetail> {
    let mut details = Vec::new();
    if let Some(callsign) = &event.callsign {
        details.push(CotDetail::new("contact").with("callsign", callsign.clone()));
    }
    let number = |number: Option<f64>| number.filter(|number| number.is_finite()).map(|number| format!("{number:.2}"));
    if let (Some(speed), Some(course)) = (number(event.speed_mps), number(event.course_deg)) {
        details.push(CotDetail::new("track").with("speed", speed).with("course", course));
    }
    details
}

fn attribute(xml: &mut String, key: &str, value: &str) {
    let _ = write!(xml, " {key}=\"{}\"", safe(value));
}

/// Escapes a text. Characters that XML cannot have become spaces.
fn safe(text: &str) -> String {
    let is_allowed = |letter: &char| !letter.is_control() && !matches!(letter, '\u{fffe}' | '\u{ffff}');
    let text: String = text.chars().map(|letter| if is_allowed(&letter) { letter } else { ' ' }).collect();
    escape(text).into_owned()
}

/// The first moment that has a year of more than four digits; humantime writes none of them.
const LAST_S: u64 = 253_402_300_799;

fn utc(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(Duration::from_secs(LAST_S));
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{CotPoint, read};
    use super::*;

    fn moments() -> impl Strategy<Value = Option<SystemTime>> {
        (0..LAST_S * 1000).prop_map(|millis| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)))
    }

    /// Numbers with the decimals that are written.
    fn numbers(most: i32, scale: f64) -> impl Strategy<Value = f64> {
        (-most..=most).prop_map(move |number| f64::from(number) / scale)
    }

    fn events() -> impl Strategy<Value = CotEvent> {
        let words = "[a-zA-Z0-9 <>&'\"/=\u{e4}\u{1F681}-]{1,30}";
        let point = (numbers(900_000_000, 1e7), numbers(1_800_000_000, 1e7), numbers(99_999, 10.0))
            .prop_map(|(lat, lon, meters)| CotPoint { lat, lon, hae_m: Some(meters), ce_m: Some(meters.abs()) });
        let motion = prop::option::of((numbers(9_999, 100.0), numbers(35_999, 100.0)));
        (words, "a(-[a-zA-Z]){0,9}", moments(), moments(), point, motion, prop::option::of(words)).prop_map(
            |(uid, kind, time, stale, point, motion, callsign)| CotEvent {
                uid,
                kind,
                how: "m-g".to_owned(),
                time,
                stale,
                point: Some(point),
                speed_mps: motion.map(|(speed, _)| speed),
                course_deg: motion.map(|(_, course)| course),
                callsign,
                link: None,
            },
        )
    }

    proptest! {
        #[test]
        fn events_read_back(event in events()) {
            prop_assert_eq!(read(&write(&event, SystemTime::UNIX_EPOCH, &[])), Ok(event));
        }

        #[test]
        fn any_text_stays_one_event(text in any::<String>(), key in any::<String>()) {
            let event = CotEvent { uid: format!("u{}", text.chars().take(20).collect::<String>()), ..CotEvent::default() };
            let remarks = CotDetail { text: text.clone(), ..CotDetail::new("remarks").with("source", key) };
            let nested = CotDetail { parts: vec![remarks.clone()], ..CotDetail::new("video") };
            let xml = write(&event, SystemTime::UNIX_EPOCH, &[remarks, nested]);
            prop_assert!(read(&xml).is_ok(), "{}", xml);
            prop_assert_eq!(xml.matches("</event>").count(), 1);
            prop_assert!(!xml.contains('\n'));
        }
    }

    #[test]
    fn unknown_values_have_their_number() {
        let event = CotEvent { uid: "a".to_owned(), speed_mps: Some(f64::NAN), ..CotEvent::default() };
        let xml = write(&event, SystemTime::UNIX_EPOCH, &[]);
        assert!(xml.contains(r#"hae="9999999.0" ce="9999999.0" le="9999999.0""#), "{xml}");
        assert!(!xml.contains("track") && !xml.contains("contact"), "{xml}");
    }
}
