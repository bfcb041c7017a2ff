//! Track records on their way out.

use std::borrow::Cow;

use serde::Deserialize;

use super::TrackForm;

/// The longest line that is looked into, bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    raw: Option<Cow<'a, str>>,
}

/// A line in the form asked for, with its line end; `None` if it is no record.
///
/// A record without an original form (a synthetic one) stays what it is.
pub(super) fn convert(line: &[u8], form: TrackForm) -> Option<Cow<'_, [u8]>> {
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    let line = line.trim_ascii();
    if !line.starts_with(b"{") {
        return None; // an array would do for a struct as well
    }
    let record: Line<'_> = serde_json::from_slice(line).ok()?;
    let text = match (form, record.raw) {
        (TrackForm::Raw, Some(raw)) => raw.as_bytes().trim_ascii_end().to_vec(),
        (TrackForm::Raw, None) | (TrackForm::JsonLines, _) => line.to_vec(),
    };
    Some(Cow::Owned([text.as_slice(), b"\n"].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn raw_is_what_the_source_gave() {
        let line = br#"{"lat":1,"raw":"<event a=\"1\"/>"}"#;
        assert_eq!(convert(line, TrackForm::Raw).unwrap(), &b"<event a=\"1\"/>\n"[..]);
        assert_eq!(convert(line, TrackForm::JsonLines).unwrap(), &[&line[..], b"\n"].concat()[..]);
        assert_eq!(convert(b"{\"lat\":1}\n", TrackForm::Raw).unwrap(), &b"{\"lat\":1}\n"[..]);
    }

    #[test]
    fn what_is_no_record_is_left_out() {
        for line in [&b""[..], b"\n", b"nonsense", b"[1]", b"[\"x\"]", b"{\"raw\":", b"7"] {
            assert_eq!(convert(line, TrackForm::JsonLines), None);
        }
    }

    proptest! {
        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = convert(&line, TrackForm::Raw);
        }
    }
}
