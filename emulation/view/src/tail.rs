//! The records of a file that may still grow, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use roost_results::record::Record;

/// The longest line that is read, bytes. What is longer is left out.
const MAX_LINE: u64 = 1 << 20;

/// Reads records. A line without its end waits for it.
#[derive(Debug)]
pub(crate) struct RecordTail {
    input: BufReader<File>,
    line: Vec<u8>,
    /// Lines that are no records of this version.
    pub(crate) left_out: u64,
    is_too_long: bool,
}

impl RecordTail {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { input: BufReader::new(File::open(path)?), line: Vec::new(), left_out: 0, is_too_long: false })
    }

    /// The next record that is there; `None` until the file grows.
    pub(crate) fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            let room = (MAX_LINE + 1).saturating_sub(self.line.len() as u64);
            let read = self.input.by_ref().take(room).read_until(b'\n', &mut self.line)?;
            let is_whole = self.line.last() == Some(&b'\n');
            if !is_whole && self.line.len() as u64 > MAX_LINE {
                // The rest of the line goes the same way.
                self.line.clear();
                self.is_too_long = true;
                continue;
            }
            if !is_whole {
                debug_assert!(read as u64 <= room);
                return Ok(None);
            }
            let record = serde_json::from_slice(&self.line).ok().filter(|_| !self.is_too_long);
            let is_empty = self.line.trim_ascii().is_empty() && !self.is_too_long;
            self.line.clear();
            self.is_too_long = false;
            match record {
                Some(record) => return Ok(Some(record)),
                None => self.left_out += u64::from(!is_empty),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn records_come_as_lines_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut tail = RecordTail::open(&path).unwrap();
        let mut next = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            tail.next().unwrap().map(|record| match record {
                Record::Incident { t, .. } => t,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(next(""), None);
        assert_eq!(next("{\"record\":\"incident\",\"t\":1.0,"), None);
        assert_eq!(next("\"object\":\"a\",\"what\":\"b\"}\n\n{\"record\":\"weather\"}\nnonsense\n"), Some(1.0));
        assert_eq!(next("{\"record\":\"incident\",\"t\":2.0,\"object\":\"a\",\"what\":\"b\"}\n"), Some(2.0));
        assert_eq!((next(""), tail.left_out), (None, 2));
    }

    #[test]
    fn long_line_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let good = "{\"record\":\"incident\",\"t\":2.0,\"object\":\"a\",\"what\":\"b\"}\n";
        std::fs::write(&path, format!("{}\n{good}", "x".repeat(3 * MAX_LINE as usize))).unwrap();
        let mut tail = RecordTail::open(&path).unwrap();
        assert!(matches!(tail.next(), Ok(Some(Record::Incident { .. }))));
        assert!(tail.left_out == 1 && tail.line.capacity() < 3 * MAX_LINE as usize);
    }
}
