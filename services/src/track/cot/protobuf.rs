//! Events of TAK protocol version 1, as members of a multicast group send them: a header, and a `TakMessage` in
//! protobuf. The numbers of its fields are those of TAK's own description.

use std::time::{Duration, SystemTime};

use super::{CotEvent, CotPoint, MAX_HOW_BYTES, MAX_ID_BYTES, MAX_TYPE_BYTES, UNKNOWN, read};

/// A mark, the version, and the mark once more.
const HEADER: [u8; 3] = [0xbf, 1, 0xbf];

/// The most fields looked at in one message.
const MAX_FIELDS: usize = 200;

const MALFORMED: &str = "it is not well-formed protobuf";

/// Reads one datagram with an event in protobuf; `None` if it is of another form.
pub fn read_protobuf(datagram: &[u8]) -> Option<Result<CotEvent, &'static str>> {
    datagram.strip_prefix(&HEADER[..]).map(message)
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn text(self) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| MALFORMED)
    }

    const fn bytes(self) -> Result<&'a [u8], &'static str> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(MALFORMED) }
    }

    const fn double(self) -> Result<f64, &'static str> {
        if let Self::Double(number) = self { Ok(number) } else { Err(MALFORMED) }
    }

    /// Milliseconds since 1970.
    fn time(self) -> Result<Option<SystemTime>, &'static str> {
        let Self::Number(millis) = self else { return Err(MALFORMED) };
        Ok(SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)))
    }
}

/// Hands each field of a message to `take`, with its number.
fn fields<'a>(
    mut bytes: &'a [u8],
    mut take: impl FnMut(u64, Value<'a>) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    for _ in 0..MAX_FIELDS {
        if bytes.is_empty() {
            return Ok(());
        }
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => Value::Double(f64::from_le_bytes(*split(&mut bytes, 8)?.first_chunk().ok_or(MALFORMED)?)),
            2 => {
                let length = varint(&mut bytes)?;
                Value::Bytes(split(&mut bytes, usize::try_from(length).map_err(|_| MALFORMED)?)?)
            }
            5 => Value::Number(split(&mut bytes, 4).map(|_| 0)?),
            _ => return Err(MALFORMED),
        };
        take(key >> 3, value)?;
    }
    Err("it is too long")
}

fn varint(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(MALFORMED)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(MALFORMED)
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], &'static str> {
    let (part, rest) = bytes.split_at_checked(length).ok_or(MALFORMED)?;
    *bytes = rest;
    Ok(part)
}

fn message(bytes: &[u8]) -> Result<CotEvent, &'static str> {
    let mut found = None;
    fields(bytes, |number, value| {
        if number == 2 {
            found = Some(event(value.bytes()?)?);
        }
        Ok(())
    })?;
    found.ok_or("it has no event")
}

fn event(bytes: &[u8]) -> Result<CotEvent, &'static str> {
    // A number that is 0 is left out.
    let mut point = CotPoint { lat: 0.0, lon: 0.0, hae_m: Some(0.0), ce_m: Some(0.0) };
    let (mut event, mut parts) = (CotEvent::default(), None);
    let known = |number: f64| Some(number).filter(|number| *number < UNKNOWN);
    fields(bytes, |number, value| {
        match number {
            1 => event.kind = value.text()?.to_owned(),
            5 => event.uid = value.text()?.to_owned(),
            6 => event.time = value.time()?,
            8 => event.stale = value.time()?,
            9 => event.how = value.text()?.to_owned(),
            10 => point.lat = value.double()?,
            11 => point.lon = value.double()?,
            12 => point.hae_m = known(value.double()?),
            13 => point.ce_m = known(value.double()?),
            15 => parts = Some(value.bytes()?),
            _ => {}
        }
        Ok(())
    })?;
    if !(1..=MAX_ID_BYTES).contains(&event.uid.len()) || event.kind.len() > MAX_TYPE_BYTES {
        return Err("it has no event with a uid and a type");
    }
    if event.how.len() > MAX_HOW_BYTES {
        return Err("its how is too long");
    }
    event.point = Some(point);
    parts.map_or(Ok(()), |parts| detail(parts, &mut event))?;
    Ok(event)
}

fn detail(bytes: &[u8], event: &mut CotEvent) -> Result<(), &'static str> {
    fields(bytes, |number, value| {
        match number {
            1 => event.link = link(value.text()?),
            2 => {
                fields(value.bytes()?, |number, value| {
                    if number == 2 {
                        event.callsign = Some(value.text()?.to_owned());
                    }
                    Ok(())
                })?;
            }
            7 => {
                let (mut speed_mps, mut course_deg) = (0.0, 0.0);
                fields(value.bytes()?, |number, value| {
                    match number {
                        1 => speed_mps = value.double()?,
                        2 => course_deg = value.double()?,
                        _ => {}
                    }
                    Ok(())
                })?;
                (event.speed_mps, event.course_deg) = (Some(speed_mps), Some(course_deg));
            }
            _ => {}
        }
        Ok(())
    })
}

/// The link among the details that have no fields of their own and stay XML.
fn link(details: &str) -> Option<String> {
    read(&format!("<event uid='x'><detail>{details}</detail></event>")).ok()?.link
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An event that takproto made of XML.
    const SAMPLE: &str = concat!(
        "bf01bf12ba010a09612d662d472d552d432a09414e44524f49442d3130faeda39bde3338faeda39bde3340dac2a79bde",
        "334a036d2d67510000000000a047405900000000000021c061000000e0cf126341690000000000001440710000000000",
        "0014407a5b0a233c6c696e6b207569643d226f74686572222072656c6174696f6e3d22702d7022202f3e12120a092a3a",
        "2d313a7374637012055649504552320c0a01781201791a013122017a3a12090000000000000c40110000000000805640",
    );

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn event_of_takproto_is_read() {
        let event = read_protobuf(&bytes(SAMPLE)).unwrap().unwrap();
        assert_eq!((event.uid.as_str(), event.kind.as_str(), event.how.as_str()), ("ANDROID-1", "a-f-G-U-C", "m-g"));
        let point = CotPoint { lat: 47.25, lon: -8.5, hae_m: None, ce_m: Some(5.0) };
        assert_eq!((event.point, event.callsign.as_deref()), (Some(point), Some("VIPER")));
        assert_eq!((event.speed_mps, event.course_deg, event.link.as_deref()), (Some(3.5), Some(90.0), Some("other")));
        let time = event.time.map(|time| humantime::format_rfc3339_millis(time).to_string());
        assert_eq!(time.as_deref(), Some("2026-05-01T12:00:00.250Z"));
        let life = event.stale.unwrap().duration_since(event.time.unwrap()).unwrap();
        assert_eq!(life, Duration::from_secs(60));
    }

    #[test]
    fn other_forms_are_left() {
        assert_eq!(read_protobuf(b"<event/>"), None);
        for bad in
            [&b""[..], b"protobuf", b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x12\x00", b"\x0a\x00"]
        {
            assert!(read_protobuf(&[&HEADER[..], bad].concat()).unwrap().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn long_how_is_refused() {
        for (length, is_read) in [(MAX_HOW_BYTES, true), (MAX_HOW_BYTES + 1, false)] {
            let event = [&[0x2a, 1, b'u', 0x4a, u8::try_from(length).unwrap()][..], &vec![b'm'; length]].concat();
            let message = [&HEADER[..], &[0x12, u8::try_from(event.len()).unwrap()], &event].concat();
            assert_eq!(read_protobuf(&message).unwrap().is_ok(), is_read, "{length}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(noise in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..150, with in any::<u8>()) {
            let _ = read_protobuf(&[&HEADER[..], &noise].concat());
            let mut damaged = bytes(SAMPLE);
            let at = at % damaged.len();
            damaged[at] = with;
            let _ = (read_protobuf(&damaged), read_protobuf(&damaged[..at]));
        }
    }
}
