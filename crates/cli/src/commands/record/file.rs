//! The file of a recording: it grows line by line, up to a limit.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use roost_recording::{MAX_LINES, RecordingLine, StampedLine};

use crate::failure::{Code, Failure, Outcome};

const LAST_BYTES: u64 = 256;

pub(super) struct RecordingFile {
    file: BufWriter<File>,
    path: PathBuf,
    began: Instant,
    bytes: u64,
    limit: u64,
    lines: u64,
}

impl RecordingFile {
    pub(super) fn create(path: &Path, limit: u64) -> Outcome<Self> {
        let options = File::options().write(true).create_new(true).mode(0o600).clone();
        let file = options.open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::new(Code::Usage, format!("{} is there already: choose another file", path.display()))
            }
            _ => Failure::failed(format!("cannot write {}: {error}", path.display())),
        })?;
        let (file, path) = (BufWriter::new(file), path.to_owned());
        Ok(Self { file, path, began: Instant::now(), bytes: 0, limit, lines: 0 })
    }

    /// False if the line has no room any more.
    pub(super) fn write(&mut self, line: RecordingLine) -> Outcome<bool> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let t = self.began.elapsed().as_micros() as f64 / 1e6;
        let line = StampedLine { t, unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), line };
        let mut text = serde_json::to_vec(&line).map_err(|error| Failure::failed(error.to_string()))?;
        text.push(b'\n');
        let is_end = matches!(line.line, RecordingLine::End { .. });
        let is_full = self.bytes + text.len() as u64 + LAST_BYTES > self.limit || self.lines + 1 >= MAX_LINES as u64;
        if is_full && !is_end {
            return Ok(false);
        }
        self.bytes += text.len() as u64;
        self.lines += 1;
        self.file.write_all(&text).map_err(|error| self.cannot(&error)).map(|()| true)
    }

    pub(super) fn flush(&mut self) -> Outcome {
        self.file.flush().map_err(|error| self.cannot(&error))
    }

    pub(super) fn end(&mut self, why: &str) -> Outcome {
        self.write(RecordingLine::End { why: why.to_owned() })?;
        self.flush()
    }

    pub(super) const fn lines(&self) -> u64 {
        self.lines
    }

    fn cannot(&self, error: &std::io::Error) -> Failure {
        Failure::failed(format!("cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const GONE: RecordingLine = RecordingLine::Gone { daemon: 0, silent_s: 0.0 };

    #[test]
    fn lines_of_recordings_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = RecordingFile::create(&folder.path().join("r.jsonl"), u64::MAX).unwrap();
        file.lines = MAX_LINES as u64 - 2;
        assert!(file.write(GONE).unwrap());
        assert!(!file.write(GONE).unwrap());
        file.end("full").unwrap();
        assert_eq!(file.lines(), MAX_LINES as u64);
    }

    #[test]
    fn recording_ends_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let mut file = RecordingFile::create(&path, 2000).unwrap();
        let begin = RecordingLine::Begin { version: 1, program: "x".to_owned(), redacted: false };
        assert!(file.write(begin).unwrap());
        let written = (0..1000).take_while(|_| file.write(GONE).unwrap()).count();
        assert!((10..50).contains(&written), "{written}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        file.end("full").unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= 2000);
        assert_eq!(roost_recording::read(&path).unwrap().lines.len(), written + 2);
        assert!(RecordingFile::create(&path, 2000).is_err(), "nothing is overwritten");
    }
}
