//! The JSON protocol of gpsd: reports of class TPV.

use roost_geo::gpsd::Tpv;

use super::MAX_ID_BYTES;
use super::record::{Origin, TrackRecord, parse_time};

/// The request after which gpsd sends its reports.
pub const WATCH: &[u8] = b"?WATCH={\"enable\":true,\"json\":true};\n";

pub use roost_geo::gpsd::MAX_LINE_BYTES;

#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Position(TrackRecord),
    /// A report of another class, or one without a fix.
    Other,
}

/// Parses one line; `None` if it is no report.
pub fn parse(line: &str) -> Option<Report> {
    let tpv = Tpv::read(line)?;
    let (true, Some(lat), Some(lon)) = (tpv.is_report(), tpv.lat, tpv.lon) else {
        return Some(Report::Other);
    };
    let record = TrackRecord {
        time: tpv.time.as_deref().and_then(parse_time),
        id: tpv.device.filter(|device| device.len() <= MAX_ID_BYTES).unwrap_or_else(|| "gpsd".to_owned()),
        lat,
        lon,
        alt_m: tpv.alt_msl.or(tpv.alt_hae).or(tpv.alt),
        speed_mps: tpv.speed,
        course_deg: tpv.track,
        source: Origin::Gpsd,
        raw: line.trim_end().to_owned(),
    };
    record.is_sound().then_some(Report::Position(record))
}

/// Cuts a byte stream into lines of at most [`MAX_LINE_BYTES`].
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
    /// True while a line is too long: it is skipped to its end.
    skipping: bool,
}

impl Lines {
    /// Takes received bytes and calls `each` with every complete line, or with `None` for one that was too long
    /// or is not UTF-8.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Option<&str>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.skipping {
                self.held.extend_from_slice(piece);
            }
            self.skipping |= self.held.len() > MAX_LINE_BYTES;
            if self.skipping {
                self.held.clear();
            }
            if piece.ends_with(b"\n") {
                let line = std::str::from_utf8(&self.held).ok().filter(|_| !self.skipping);
                each(line.map(str::trim_end));
                self.held.clear();
                self.skipping = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TPV: &str = r#"{"class":"TPV","device":"/dev/pts/1","mode":3,"time":"2026-05-01T12:00:00.000Z","lat":27.5,"lon":92.25,"altMSL":1200.5,"altHAE":1150.1,"track":10.5,"speed":3.5}"#;

    #[test]
    fn only_fix_is_position() {
        let Some(Report::Position(record)) = parse(TPV) else { panic!() };
        assert_eq!((record.lat, record.lon, record.alt_m), (27.5, 92.25, Some(1200.5)));
        assert_eq!((record.id.as_str(), record.speed_mps, record.course_deg), ("/dev/pts/1", Some(3.5), Some(10.5)));
        assert_eq!(record.raw, TPV);
        for other in [r#"{"class":"VERSION","release":"3.22"}"#, r#"{"class":"TPV","device":"x","mode":1}"#] {
            assert_eq!(parse(other), Some(Report::Other));
        }
        for bad in ["", "nonsense", r#"{"lat":1}"#, r#"{"class":"TPV","lat":91,"lon":0}"#] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn overlong_line_is_skipped() {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        let long = [&vec![b'x'; MAX_LINE_BYTES + 1][..], b"\nnext\r\nhal"].concat();
        for piece in long.chunks(1000) {
            lines.push(piece, |line| got.push(line.map(str::to_owned)));
        }
        lines.push(b"f\n\xff\n", |line| got.push(line.map(str::to_owned)));
        assert_eq!(got, [None, Some("next".to_owned()), Some("half".to_owned()), None]);
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&text);
            Lines::default().push(&bytes, |_| ());
        }
    }
}
