//! The newest records of a log, read from the end of its files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::log::numbered;
use crate::record::AuditRecord;

/// The most bytes that are read of a file: some thousand usual records, and thirty of the longest.
const WINDOW: u64 = 512 * 1024;

/// At most `limit` records, the newest first. Lines that are no records are left out.
///
/// # Errors
/// The file in use cannot be read.
pub fn newest(path: &Path, limit: usize) -> io::Result<Vec<AuditRecord>> {
    let mut records = last_records(path, limit)?;
    if records.len() < limit {
        // Without an older file there are no more.
        records.extend(last_records(&numbered(path, 1), limit - records.len()).unwrap_or_default());
    }
    Ok(records)
}

fn last_records(path: &Path, limit: usize) -> io::Result<Vec<AuditRecord>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    let mut bytes = Vec::new();
    file.take(WINDOW).read_to_end(&mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n').rev();
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).take(limit).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{AuditEvent, AuditKind, AuditLog, Limits};

    fn numbers(path: &Path, limit: usize) -> Vec<u64> {
        newest(path, limit).unwrap().iter().map(|record| record.sequence).collect()
    }

    #[test]
    fn newest_records_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        assert!(newest(&path, 3).is_err());
        // A file holds three records or so.
        let mut log = AuditLog::open(&path, Limits { file_bytes: 600, files: 8 }).unwrap();
        for _ in 0..8 {
            log.append(&[AuditEvent::new(AuditKind::Started)]).unwrap();
        }
        assert_eq!(numbers(&path, 4), [8, 7, 6, 5]);
        assert_eq!(numbers(&path, 0), Vec::<u64>::new());
        File::options().append(true).open(&path).unwrap().write_all(b"\n\0\0{\"time\":").unwrap();
        assert_eq!(numbers(&path, 2), [8, 7], "a line is cut short");
    }

    #[test]
    fn long_log_is_read_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut log = AuditLog::open(&path, Limits::default()).unwrap();
        let long = || AuditEvent::new(AuditKind::ActionDenied).with("rule", "x".repeat(12_000));
        log.append(&std::iter::repeat_with(long).take(100).collect::<Vec<_>>()).unwrap();
        let found = numbers(&path, 100);
        assert!(found.len() >= 40 && found.len() < 50, "{}", found.len());
        assert!(found.iter().rev().copied().eq(101 - found.len() as u64..=100));
    }
}
