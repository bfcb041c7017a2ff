//! Replay of the positions in a file.

use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Deserialize;

use super::gpsd::Report;
use super::nmea::{Sentence, Sentences};
use super::record::{is_on_earth, parse_time};
use super::{cot, gpsd};
use crate::pace::Due;
use crate::{MAX_DATAGRAM_BYTES, SourceError, files};

/// Largest file, bytes; it is read into memory.
const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

/// Gap to the next record if one of both has no time, and from the last record to the first.
const DEFAULT_GAP: Duration = Duration::from_secs(1);

/// Longest gap of a replay; longer ones are cut.
const MAX_GAP: Duration = Duration::from_secs(60);

/// Reads the file and returns its replay.
pub(super) async fn open(path: &Path, id: &str) -> Result<Replay, SourceError> {
    let id = id.to_owned();
    files::blocking(path, move |path| {
        let bytes = files::read(path, MAX_FILE_BYTES)?;
        let records = parse(&String::from_utf8_lossy(&bytes), &id, SystemTime::now());
        if records.is_empty() { Err(no_track(path)) } else { Ok(Replay::new(records)) }
    })
    .await
}

fn no_track(path: &Path) -> SourceError {
    SourceError::Malformed {
        from: path.display().to_string(),
        expected: "track",
        reason: "it has no record; it must hold JSON lines, gpsd JSON, NMEA sentences or CoT events".to_owned(),
    }
}

/// Line of a record and its time, if it has one.
#[derive(Clone, Debug, PartialEq)]
struct DatedLine {
    time: Option<SystemTime>,
    line: Bytes,
}

/// Parses a file of any known format and skips lines that are no records.
fn parse(text: &str, id: &str, now: SystemTime) -> Vec<DatedLine> {
    // Only CoT files begin with XML; records of other formats may contain it.
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        let records = cot::split(text).filter_map(|event| cot::parse(event).ok());
        return records.map(|record| DatedLine { time: record.time, line: record.line(now) }).collect();
    }
    let mut sentences = Sentences::new(id);
    text.lines().filter_map(|line| parse_line(line.trim(), &mut sentences, now)).collect()
}

fn parse_line(line: &str, sentences: &mut Sentences, now: SystemTime) -> Option<DatedLine> {
    let record = if line.starts_with('{') {
        match gpsd::parse(line) {
            Some(Report::Position(record)) => record,
            Some(Report::Other) => return None,
            None => return parse_common(line),
        }
    } else {
        match sentences.push(line, now) {
            Sentence::Position(record) => record,
            Sentence::Other | Sentence::Malformed => return None,
        }
    };
    Some(DatedLine { time: record.time, line: record.line(now) })
}

/// Parses a record of this program, which is replayed unchanged.
fn parse_common(line: &str) -> Option<DatedLine> {
    #[derive(Deserialize)]
    struct Common {
        t: Option<String>,
        lat: f64,
        lon: f64,
    }
    let Common { t, lat, lon } = serde_json::from_str(line).ok()?;
    let is_valid = is_on_earth(lat, lon) && line.len() < MAX_DATAGRAM_BYTES;
    is_valid.then(|| DatedLine { time: t.as_deref().and_then(parse_time), line: Bytes::from(format!("{line}\n")) })
}

/// Iterator over the records with their due times; endless unless there are none.
#[derive(Debug)]
pub(super) struct Replay {
    records: Vec<DatedLine>,
    next: usize,
    at: Duration,
}

impl Replay {
    const fn new(records: Vec<DatedLine>) -> Self {
        Self { records, next: 0, at: Duration::ZERO }
    }
}

impl Iterator for Replay {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let record = self.records.get(self.next)?;
        let time = record.time;
        let due = Due { at: self.at, payload: record.line.clone() };
        self.next = (self.next + 1) % self.records.len();
        let following = self.records.get(self.next).filter(|_| self.next > 0);
        self.at += match (time, following.and_then(|record| record.time)) {
            (Some(this), Some(next)) => next.duration_since(this).unwrap_or(Duration::ZERO).min(MAX_GAP),
            _ => DEFAULT_GAP,
        };
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(text: &str) -> Vec<(u64, String)> {
        let replay = Replay::new(parse(text, "x", SystemTime::UNIX_EPOCH));
        let dues = replay.take(4);
        dues.map(|due| (due.at.as_millis() as u64, String::from_utf8(due.payload.to_vec()).unwrap())).collect()
    }

    #[test]
    fn timestamps_set_pace_and_file_loops() {
        let line = |second: u32| format!(r#"{{"t":"2026-05-01T12:00:{second:02}Z","lat":{second},"lon":2}}"#);
        let got = replay(&format!("{}\nrubbish\n{}\n{}\n", line(1), line(3), line(2)));
        assert_eq!(got.iter().map(|due| due.0).collect::<Vec<_>>(), [0, 2000, 2000, 3000]);
        assert_eq!(got[0].1, format!("{}\n", line(1)));
        assert_eq!(got[3].1, got[0].1);
    }

    #[test]
    fn lines_without_timestamps_replay_each_second() {
        let got = replay("{\"lat\":1,\"lon\":2}\n{\"lat\":2,\"lon\":2}\n");
        assert_eq!(got.iter().map(|due| due.0).collect::<Vec<_>>(), [0, 1000, 2000, 3000]);
    }

    #[test]
    fn sink_output_can_be_replayed() {
        let event = "<event uid='a'><point lat='1' lon='2'/></event>";
        let line = cot::parse(event).unwrap().line(SystemTime::UNIX_EPOCH);
        let got = parse(std::str::from_utf8(&line).unwrap(), "x", SystemTime::UNIX_EPOCH);
        assert_eq!(got, [DatedLine { time: Some(SystemTime::UNIX_EPOCH), line }]);
    }

    #[test]
    fn every_format_is_read() {
        for text in [
            "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\n",
            r#"{"class":"VERSION"}
               {"class":"TPV","lat":1.0,"lon":2.0}"#,
            "<events><event uid='a'><point lat='1' lon='2'/></event></events>",
        ] {
            assert_eq!(parse(text, "x", SystemTime::UNIX_EPOCH).len(), 1, "{text}");
        }
        assert!(parse("nothing\n{\"lat\":91,\"lon\":0}", "x", SystemTime::UNIX_EPOCH).is_empty());
    }
}
