//! GPX 1.0 and 1.1: tracks of receivers, with times in UTC.

use std::time::{Duration, UNIX_EPOCH};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use roost_topology::model::{Position, Waypoint};

use super::{NamedPath, TextMistake, check_next, seconds};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpxTracks {
    /// The time that counts as 0, since the Unix epoch.
    pub start: Duration,
    pub tracks: Vec<NamedPath>,
}

#[derive(Default)]
struct Point {
    line: usize,
    lat: f64,
    lon: f64,
    altitude_m: f64,
    time: Option<Duration>,
}

/// A track: its name, and its points with their lines.
#[derive(Default)]
struct RawTrack {
    name: Option<String>,
    points: Vec<Point>,
}

/// Reads the tracks; all segments of one are joined. Times count from `start`, or from the first point of the file.
/// Points before it are left out.
///
/// # Errors
/// Fails for what is no GPX, and for points without a place or time, with the line.
pub fn read(text: &str, start: Option<Duration>) -> Result<GpxTracks, TextMistake> {
    let raw = raw_tracks(text)?;
    let times = raw.iter().flat_map(|track| &track.points).filter_map(|point| point.time);
    let start = start.or_else(|| times.min()).unwrap_or_default();
    let tracks = raw.into_iter().map(|track| named_path(track, start)).collect::<Result<Vec<_>, _>>()?;
    Ok(GpxTracks { start, tracks })
}

fn named_path(track: RawTrack, start: Duration) -> Result<NamedPath, TextMistake> {
    let mut path: Vec<Waypoint> = Vec::new();
    for Point { line, lat, lon, altitude_m, time } in track.points {
        let time = time.ok_or_else(|| TextMistake::new(line, "the point has no <time>"))?;
        let Some(after) = time.checked_sub(start) else { continue };
        let at = seconds(after.as_secs_f64()).map(|_| after);
        let at = at.ok_or_else(|| TextMistake::new(line, "the point is more than a year after the start"))?;
        check_next(&path, at, line)?;
        path.push(Waypoint { at, position: Position::Earth { lat, lon, altitude_m } });
    }
    Ok(NamedPath { name: track.name, path })
}

/// A reader of the elements that matter.
struct TrackReader<'t> {
    text: &'t str,
    /// The end of the last event, and its line: lines are counted once.
    counted: (usize, usize),
    tracks: Vec<RawTrack>,
    track: Option<RawTrack>,
    point: Option<Point>,
    content: String,
}

fn raw_tracks(text: &str) -> Result<Vec<RawTrack>, TextMistake> {
    let mut xml = Reader::from_str(text);
    let (track, point, content) = (None, None, String::new());
    let mut reader = TrackReader { text, counted: (0, 1), tracks: Vec::new(), track, point, content };
    let mut is_gpx = false;
    loop {
        let event = xml.read_event();
        let line = reader.line(usize::try_from(xml.buffer_position()).unwrap_or(usize::MAX));
        let wrong = |error: String| TextMistake::new(line, format!("is no XML: {error}"));
        match event.map_err(|error| wrong(error.to_string()))? {
            Event::Eof => break,
            Event::Start(start) => {
                is_gpx |= start.local_name().as_ref() == "gpx";
                reader.open(&start, line)?;
            }
            Event::Empty(start) => {
                reader.open(&start, line)?;
                reader.close(start.local_name().as_ref(), line)?;
            }
            Event::End(end) => reader.close(end.local_name().as_ref(), line)?,
            Event::Text(text) => {
                let text = text.xml_content(XmlVersion::Implicit1_0);
                reader.content.push_str(&text);
            }
            _ => {}
        }
    }
    if is_gpx { Ok(reader.tracks) } else { Err(TextMistake::new(1, "is no GPX: it has no element <gpx>")) }
}

impl TrackReader<'_> {
    fn line(&mut self, position: usize) -> usize {
        let (end, line) = self.counted;
        let position = position.clamp(end, self.text.len());
        let more = self.text.as_bytes()[end..position].iter().filter(|byte| **byte == b'\n').count();
        self.counted = (position, line + more);
        line + more
    }

    fn open(&mut self, start: &BytesStart<'_>, line: usize) -> Result<(), TextMistake> {
        self.content.clear();
        match start.local_name().as_ref() {
            "trk" => self.track = Some(RawTrack::default()),
            "trkpt" if self.track.is_some() => {
                let lat = coordinate(start, "lat", 90.0, line)?;
                let lon = coordinate(start, "lon", 180.0, line)?;
                self.point = Some(Point { line, lat, lon, ..Point::default() });
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &str, line: usize) -> Result<(), TextMistake> {
        let content = std::mem::take(&mut self.content);
        let content = content.trim();
        match (name, &mut self.point, &mut self.track) {
            ("ele", Some(point), _) => {
                let altitude: Option<f64> = content.parse().ok().filter(|altitude: &f64| altitude.abs() < 1e9);
                point.altitude_m =
                    altitude.ok_or_else(|| TextMistake::new(line, format!("`{content}` is no altitude")))?;
            }
            ("time", Some(point), _) => point.time = Some(instant(content, line)?),
            ("name", None, Some(track)) => track.name = Some(content.to_owned()),
            ("trkpt", _, Some(track)) => track.points.extend(self.point.take()),
            ("trk", ..) => self.tracks.extend(self.track.take()),
            _ => {}
        }
        Ok(())
    }
}

fn coordinate(start: &BytesStart<'_>, key: &str, most: f64, line: usize) -> Result<f64, TextMistake> {
    let attribute = start.attributes().flatten().find(|attribute| attribute.key.as_ref() == key);
    let number = attribute.and_then(|attribute| attribute.value.trim().parse::<f64>().ok());
    let within = number.filter(|number| number.abs() <= most);
    within.ok_or_else(|| TextMistake::new(line, format!("the point has no `{key}` from -{most} to {most} degrees")))
}

/// A time in UTC, also with an offset.
fn instant(text: &str, line: usize) -> Result<Duration, TextMistake> {
    let wrong = || TextMistake::new(line, format!("`{text}` is no time: write 2026-06-01T12:00:00Z"));
    let (local, offset_s) = match text.rfind(['+', '-']).filter(|at| *at > 10) {
        None => (text.to_owned(), 0),
        Some(at) => {
            let (hours, minutes) = text.get(at + 1..).and_then(|rest| rest.split_once(':')).ok_or_else(wrong)?;
            let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 60);
            let seconds = number(hours).zip(number(minutes)).map(|(hours, minutes)| hours * 3600 + minutes * 60);
            let seconds = i64::try_from(seconds.ok_or_else(wrong)?).unwrap_or(0);
            (format!("{}Z", &text[..at]), if text[at..].starts_with('+') { -seconds } else { seconds })
        }
    };
    let time = humantime::parse_rfc3339(&local).map_err(|_| wrong())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    let shift = Duration::from_secs(offset_s.unsigned_abs());
    let shifted = if offset_s < 0 { since.checked_sub(shift) } else { since.checked_add(shift) };
    shifted.ok_or_else(wrong)
}
