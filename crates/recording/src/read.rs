//! The reader of recordings. It reads what a crash or a later version has left, and says what it leaves out.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use crate::line::{RecordingLine, StampedLine, VERSION};

/// The longest line: one with an area of many cells.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// The most lines: a day of a hub with a hundred connections, each of which makes a line a second.
pub const MAX_LINES: usize = 10_000_000;
const MAX_TOLD: usize = 20;
const MAX_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    pub lines: Vec<StampedLine>,
    /// Sentences about parts that were left out.
    pub remarks: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{file}: cannot be read: {source}")]
    File { file: String, source: io::Error },
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

/// Reads a recording from a file.
///
/// # Errors
/// Fails when it cannot be read, or is no recording: with all mistakes.
pub fn read(path: &Path) -> Result<Recording, ReadError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|source| ReadError::File { file: name.clone(), source })?;
    parse(&name, BufReader::new(file))
}

/// Reads a recording; `name` is for messages.
///
/// # Errors
/// As [`read`].
pub fn parse(name: &str, mut from: impl BufRead) -> Result<Recording, ReadError> {
    let mut reader = LineReader { name, recording: Recording::default(), wrong: Vec::new(), unknown: 0, last: 0.0 };
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let limited = from.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut bytes);
        let length = limited.map_err(|source| ReadError::File { file: name.to_owned(), source })?;
        let is_cut = !bytes.ends_with(b"\n");
        if length == 0 {
            break;
        }
        if length > MAX_LINE_BYTES || number > MAX_LINES {
            reader.refuse(number, format!("a recording has at most {MAX_LINES} lines of {MAX_LINE_BYTES} bytes"));
            break;
        }
        match serde_json::from_slice::<StampedLine>(&bytes) {
            Ok(line) => reader.push(number, line),
            Err(_) if is_cut => {
                reader.recording.remarks.push(format!("{name}:{number}: the last line is not whole and is left out"));
            }
            Err(error) => reader.refuse(number, format!("is no line of a recording: {error}")),
        }
        if reader.wrong.len() >= MAX_TOLD {
            break;
        }
    }
    reader.finish()
}

struct LineReader<'a> {
    name: &'a str,
    recording: Recording,
    wrong: Vec<String>,
    unknown: usize,
    last: f64,
}

impl LineReader<'_> {
    fn refuse(&mut self, number: usize, why: impl Into<String>) {
        self.wrong.push(format!("{}:{number}: {}", self.name, why.into()));
    }

    fn push(&mut self, number: usize, stamped: StampedLine) {
        let is_first = self.recording.lines.is_empty();
        match (&stamped.line, is_first) {
            (RecordingLine::Begin { version: VERSION, .. }, true) => {}
            (RecordingLine::Begin { version, .. }, true) => {
                let why = format!("is of version {version}, and this program reads {VERSION}: use its own version");
                return self.refuse(number, why);
            }
            (_, true) if self.wrong.is_empty() => {
                self.refuse(number, "a recording begins with its line `begin`: give a file that `roost record` wrote");
                return;
            }
            (RecordingLine::Begin { .. }, false) => return self.refuse(number, "begins twice: give each file alone"),
            (RecordingLine::Unknown, _) => {
                self.unknown += 1;
                return;
            }
            _ => {}
        }
        if !(0.0..=MAX_SECONDS).contains(&stamped.t) || stamped.t < self.last {
            return self.refuse(number, format!("its time {} does not follow {}", stamped.t, self.last));
        }
        self.last = stamped.t;
        self.recording.lines.push(stamped);
    }

    fn finish(mut self) -> Result<Recording, ReadError> {
        if self.wrong.is_empty() && self.recording.lines.is_empty() {
            self.wrong.push(format!("{}: is empty: give a file that `roost record` wrote", self.name));
        }
        if !self.wrong.is_empty() {
            return Err(ReadError::Wrong(self.wrong));
        }
        if self.unknown > 0 {
            let remark = format!("{}: {} lines of a later version are left out", self.name, self.unknown);
            self.recording.remarks.push(remark);
        }
        Ok(self.recording)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEGIN: &str =
        r#"{"t":0.0,"unix_ms":1764327600000,"record":"begin","version":1,"program":"0.1.0","redacted":false}"#;

    fn told(text: &str) -> Vec<String> {
        match parse("r.jsonl", text.as_bytes()) {
            Err(ReadError::Wrong(wrong)) => wrong,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_read_back() {
        let node = "a".repeat(32);
        let text = format!(
            "{BEGIN}\n{{\"t\":1.5,\"unix_ms\":1764327601500,\"record\":\"ping\",\"daemon\":0,\"node\":\"{node}\",\"rtt_ms\":2.25}}\n\
             {{\"t\":2.0,\"unix_ms\":1,\"record\":\"of-tomorrow\",\"x\":[1]}}\n{{\"t\":3.0,\"unix"
        );
        let recording = parse("r.jsonl", text.as_bytes()).unwrap();
        assert_eq!(recording.lines.len(), 2);
        assert!(matches!(recording.lines[1].line, RecordingLine::Ping { rtt_ms: Some(rtt), .. } if rtt == 2.25));
        assert_eq!(recording.remarks.len(), 2, "{:?}", recording.remarks);
        let again = serde_json::to_string(&recording.lines[1]).unwrap();
        assert_eq!(serde_json::from_str::<StampedLine>(&again).unwrap(), recording.lines[1]);
    }

    #[test]
    fn all_mistakes_are_told() {
        let text = format!("{BEGIN}\nx\n{BEGIN}\n{}\n", BEGIN.replace("begin", "gone"));
        let wrong = told(&text);
        assert!(wrong.len() == 3 && wrong[0].starts_with("r.jsonl:2: ") && wrong[1].contains("twice"), "{wrong:?}");
        assert!(told("").concat().contains("empty"));
        assert!(told(&BEGIN.replace(":1,\"program\"", ":9,\"program\"")).concat().contains("version 9"));
        let first = r#"{"t":0,"unix_ms":1,"record":"end","why":"x"}"#;
        assert!(told(first).concat().contains("begins with"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse("r", &bytes[..]);
        }
    }
}
