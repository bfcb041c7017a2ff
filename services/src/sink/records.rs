//! Conversion of track records for output.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::TrackFormat;

/// The longest line that is parsed, bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(borrow)]
    raw: Option<Cow<'a, str>>,
}

/// Converts a line, with its line end, to the wanted form; `None` if it is no record.
///
/// A synthetic record has no original form and stays unchanged.
pub(super) fn convert(line: &[u8], format: TrackFormat) -> Option<Cow<'_, [u8]>> {
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    let line = line.trim_ascii();
    if !line.starts_with(b"{") {
        return None; // an array would do for a struct as well
    }
    let record: RawLine<'_> = serde_json::from_slice(line).ok()?;
    let text = match (format, record.raw) {
        (TrackFormat::Raw, Some(raw)) => raw.as_bytes().trim_ascii_end().to_vec(),
        (TrackFormat::JsonLines, Some(_)) => without_raw(line),
        (TrackFormat::Raw | TrackFormat::JsonLines, None) | (TrackFormat::Full, _) => line.to_vec(),
    };
    Some(Cow::Owned([text.as_slice(), b"\n"].concat()))
}

/// Removes the member `raw` from a record and keeps all other bytes. A quotation mark within a string is
/// escaped, so that the quoted name cannot occur inside one.
fn without_raw(line: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = br#""raw""#;
    let begins = |at: &usize| line[*at..].starts_with(NAME) && matches!(line[*at - 1], b'{' | b',' | b' ');
    let Some(start) = (1..line.len()).find(begins) else { return line.to_vec() };
    let after = &line[start + NAME.len()..];
    let colon = after.iter().position(|byte| *byte == b':').map_or(after.len(), |at| at + 1);
    let mut values = serde_json::Deserializer::from_slice(&after[colon..]).into_iter::<IgnoredAny>();
    values.next();
    let (mut head, mut tail) =
        (line[..start].trim_ascii_end(), after[colon + values.byte_offset()..].trim_ascii_start());
    match head.strip_suffix(b",") {
        Some(before) => head = before,
        None => tail = tail.strip_prefix(b",").unwrap_or(tail).trim_ascii_start(),
    }
    [head, tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn raw_is_what_the_source_gave() {
        let line = br#"{"lat":1,"raw":"<event a=\"1\"/>"}"#;
        assert_eq!(convert(line, TrackFormat::Raw).unwrap(), &b"<event a=\"1\"/>\n"[..]);
        assert_eq!(convert(line, TrackFormat::Full).unwrap(), &[&line[..], b"\n"].concat()[..]);
        assert_eq!(convert(b"{\"lat\":1}\n", TrackFormat::Raw).unwrap(), &b"{\"lat\":1}\n"[..]);
    }

    #[test]
    fn raw_is_left_out_unless_wanted() {
        for (line, left) in [
            (r#"{"lat":1,"raw":"<event a=\"1\"/>"}"#, r#"{"lat":1}"#),
            (r#"{"raw":"x,\"raw\":\"y\"","lat":1}"#, r#"{"lat":1}"#),
            (r#"{"id":"a,\"raw\":1","raw":"}","lat":1}"#, r#"{"id":"a,\"raw\":1","lat":1}"#),
            (r#"{ "lat": 1, "raw" : "\\" , "lon": 2 }"#, r#"{ "lat": 1, "lon": 2 }"#),
            (r#"{"raw":"x"}"#, "{}"),
            (r#"{"lat":1}"#, r#"{"lat":1}"#),
        ] {
            let written = convert(line.as_bytes(), TrackFormat::JsonLines).unwrap();
            assert_eq!(String::from_utf8_lossy(&written).trim_end(), left, "{line}");
        }
    }

    #[test]
    fn invalid_records_are_skipped() {
        for line in [&b""[..], b"\n", b"nonsense", b"[1]", b"[\"x\"]", b"{\"raw\":", b"7"] {
            assert_eq!(convert(line, TrackFormat::JsonLines), None);
        }
    }

    proptest! {
        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = convert(&line, TrackFormat::Raw);
            let _ = convert(&[b"{\"raw\":", &line[..], b"}"].concat(), TrackFormat::JsonLines);
        }
    }
}
