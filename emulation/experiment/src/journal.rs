//! `events.jsonl`, written during the run.
//!
//! Each record is passed to the system at once, so that whatever ends the run, the file has everything up to
//! then.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roost_results::metrics::RequestCounts;
use roost_results::record::Record;
use tokio::sync::Notify;

use super::error::RunError;

/// The file of raw events, with counters of its records.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    inner: Mutex<JournalState>,
    broken: Notify,
}

#[derive(Debug)]
struct JournalState {
    file: File,
    failure: Option<io::Error>,
    tally: RequestCounts,
}

impl Journal {
    pub(super) fn create(path: &Path) -> Result<Self, RunError> {
        let file = File::create(path).map_err(|error| RunError::file("create", path, &error))?;
        let inner = JournalState { file, failure: None, tally: RequestCounts::default() };
        Ok(Self { path: path.to_owned(), inner: Mutex::new(inner), broken: Notify::new() })
    }

    /// Adds a record. A record that cannot be written ends the run: see [`Self::broken`].
    pub(super) fn write(&self, record: &Record) {
        let mut inner = self.lock();
        match record {
            Record::Request(request) => inner.tally.add(request),
            Record::RoomStream(stream) => inner.tally.dropped_by_reader += stream.dropped_by_reader,
            _ => {}
        }
        if inner.failure.is_some() {
            return;
        }
        if let Err(error) = write_line(&mut inner.file, record) {
            inner.failure = Some(error);
            self.broken.notify_one();
        }
    }

    /// Records an event of the schedule or a failure, `t` seconds after the beginning.
    pub(super) fn incident(&self, t: f64, object: impl Into<String>, what: impl Into<String>) {
        self.write(&Record::Incident { t, object: object.into(), what: what.into() });
    }

    pub(super) fn tally(&self) -> RequestCounts {
        self.lock().tally
    }

    /// Waits until a record could not be written.
    pub(super) async fn broken(&self) {
        self.broken.notified().await;
    }

    /// The reason why records could not be written, if that happened.
    pub(super) fn failure(&self) -> Option<RunError> {
        self.lock().failure.as_ref().map(|error| RunError::records(&self.path, error))
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        // A thread that panicked has left a whole record or a failure behind.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_line(file: &mut File, record: &Record) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use roost_results::record::RoomStreamRecord;

    use super::*;

    #[test]
    fn each_record_is_written_immediately() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let journal = Journal::create(&path).unwrap();
        journal.incident(1.5, "n1", "it died\nsuddenly");
        journal.incident(2.0, "n2", "it died");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(
            matches!(&lines[..], [Record::Incident { t: 1.5, .. }, Record::Incident { object, .. }] if object == "n2")
        );
    }

    #[test]
    fn datagrams_that_reader_dropped_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(&folder.path().join("events.jsonl")).unwrap();
        let stream = |dropped_by_reader| RoomStreamRecord { dropped_by_reader, ..RoomStreamRecord::default() };
        journal.write(&Record::RoomStream(stream(3)));
        journal.write(&Record::RoomStream(stream(2)));
        assert_eq!(journal.tally().dropped_by_reader, 5);
    }

    #[tokio::test]
    async fn full_disk_error_is_kept() {
        let journal = Journal::create(Path::new("/dev/full")).unwrap();
        journal.incident(1.0, "n1", "it died");
        journal.incident(2.0, "n1", "it died");
        journal.broken().await;
        let failure = journal.failure().unwrap().to_string();
        assert!(failure.starts_with("cannot write /dev/full: No space left"), "{failure}");
    }
}
