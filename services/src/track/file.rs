//! Positions from a file, replayed.

use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Deserialize;

use super::gpsd::Report;
use super::nmea::{Sentence, Sentences};
use super::record::time;
use super::{cot, gpsd};
use crate::pace::Due;
use crate::{MAX_DATAGRAM_BYTES, SourceError, files};

/// The largest file, bytes: it is held in memory.
const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

/// The gap after a record without a time stamp, and between the last record and the first.
const USUAL_GAP: Duration = Duration::from_secs(1);

/// Longer gaps between records are cut to this.
const MAX_GAP: Duration = Duration::from_secs(60);

/// Reads the file and plans its endless replay.
pub(super) async fn open(path: &Path, id: &str) -> Result<Replay, SourceError> {
    let id = id.to_owned();
    files::blocking(path, move |path| {
        let bytes = files::read(path, MAX_FILE_BYTES)?;
        let records = parse(&String::from_utf8_lossy(&bytes), &id, SystemTime::now());
        if records.is_empty() { Err(no_track(path)) } else { Ok(Replay { records, next: 0, at: Duration::ZERO }) }
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

/// A record's time, if it has one, and its JSON line.
type Dated = (Option<SystemTime>, Bytes);

/// Parses a file of any format; lines that are no records are left out.
fn parse(text: &str, id: &str, now: SystemTime) -> Vec<Dated> {
    // JSON records of CoT contain XML as well, so only the first character decides.
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        let records = cot::split(text).filter_map(|event| cot::parse(event).ok());
        return records.map(|record| (record.time, record.line(now))).collect();
    }
    let mut sentences = Sentences::new(id);
    text.lines().filter_map(|line| parse_line(line.trim(), &mut sentences, now)).collect()
}

fn parse_line(line: &str, sentences: &mut Sentences, now: SystemTime) -> Option<Dated> {
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
    Some((record.time, record.line(now)))
}

/// Passes a record in the common form on unchanged.
fn parse_common(line: &str) -> Option<Dated> {
    #[derive(Deserialize)]
    struct Common {
        t: Option<String>,
        lat: f64,
        lon: f64,
    }
    let Common { t, lat, lon } = serde_json::from_str(line).ok()?;
    let sound = (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon) && line.len() < MAX_DATAGRAM_BYTES;
    sound.then(|| (t.as_deref().and_then(time), Bytes::from(format!("{line}\n"))))
}

/// An endless repetition of the records with their due times.
#[derive(Debug)]
pub(super) struct Replay {
    records: Vec<Dated>,
    next: usize,
    at: Duration,
}

impl Iterator for Replay {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let (time, line) = self.records.get(self.next)?;
        let due = Due { at: self.at, payload: line.clone() };
        self.next = (self.next + 1) % self.records.len();
        let following = self.records.get(self.next).filter(|_| self.next > 0);
        self.at += match (time, following.and_then(|(time, _)| *time)) {
            (Some(this), Some(next)) => next.duration_since(*this).unwrap_or(Duration::ZERO).min(MAX_GAP),
            _ => USUAL_GAP,
        };
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(text: &str) -> Vec<(u64, String)> {
        let replay = Replay { records: parse(text, "x", SystemTime::UNIX_EPOCH), next: 0, at: Duration::ZERO };
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
        assert_eq!(got, [(Some(SystemTime::UNIX_EPOCH), line)]);
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
