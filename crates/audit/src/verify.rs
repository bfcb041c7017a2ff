//! Reads a chain of files, and finds lines that were changed, removed or moved.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::record::{AuditKind, AuditRecord, NO_LINE, digest};

/// A line that does not follow from the one before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {message}", file.display())]
pub struct AuditFault {
    pub file: PathBuf,
    pub line: usize,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    pub records: usize,
    /// The number of the first record; those before it are in files that are not here.
    pub first: u64,
    pub last: u64,
    pub tip: String,
    pub faults: Vec<AuditFault>,
    /// The file whose last line was cut short, as a crash does. The line is no record.
    pub torn: Option<PathBuf>,
    /// Records that the writer itself says it lost.
    pub dropped: u64,
}

/// The records of the files, in the order of the chain. Lines that are no records are left out.
///
/// # Errors
/// A file cannot be read.
pub fn read(files: &[PathBuf]) -> io::Result<Vec<AuditRecord>> {
    let contents = ordered(files)?;
    let lines = contents.iter().flat_map(|content| content.lines());
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Verifies the chain in these files, in whatever order they are given. With the digest of the last line, `tip`, it also
/// finds that the last lines are missing or were changed.
///
/// # Errors
/// A file cannot be read.
pub fn verify(files: &[PathBuf], tip: Option<&str>) -> io::Result<AuditReport> {
    let contents = ordered(files)?;
    let mut chain = Chain::default();
    for content in &contents {
        for (index, line) in content.lines().enumerate() {
            chain.check(&content.path, index + 1, line);
        }
        if content.has_torn_line() {
            chain.check_torn(content, contents.last().is_some_and(|last| last.path == content.path));
        }
    }
    let mut report = chain.report;
    report.tip = chain.previous.map_or_else(|| NO_LINE.to_owned(), |(_, digest)| digest);
    if let Some(content) = contents.last().filter(|_| tip.is_some_and(|tip| tip != report.tip)) {
        let message =
            "the chain does not end with the digest given: the last lines are missing or were changed".to_owned();
        report.faults.push(AuditFault { file: content.path.clone(), line: content.lines().count(), message });
    }
    Ok(report)
}

struct Content {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Content {
    /// The lines that have their newline, without it.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
    }

    fn has_torn_line(&self) -> bool {
        self.bytes.last().is_some_and(|byte| *byte != b'\n')
    }

    fn first(&self) -> u64 {
        let mut records = self.lines().filter_map(|line| serde_json::from_slice::<AuditRecord>(line).ok());
        records.next().map_or(u64::MAX, |record| record.sequence)
    }
}

/// A writer that rotates leaves a name without a file for moments only.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

fn ordered(files: &[PathBuf]) -> io::Result<Vec<Content>> {
    let read = |(path, file): (&PathBuf, File)| Ok(Content { path: path.clone(), bytes: bytes_of(file)? });
    let mut contents = files.iter().zip(opened(files)?).map(read).collect::<io::Result<Vec<_>>>()?;
    contents.sort_by_key(Content::first);
    Ok(contents)
}

/// Opens the files as they are at one moment, although daemons may rotate them.
fn opened(files: &[PathBuf]) -> io::Result<Vec<File>> {
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        let opened = files.iter().map(File::open).collect::<io::Result<Vec<_>>>();
        match opened {
            Ok(opened) if attempts == 0 || are_in_place(files, &opened) => return Ok(opened),
            Err(error) if attempts == 0 || error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => thread::sleep(PAUSE),
        }
    }
}

fn are_in_place(files: &[PathBuf], opened: &[File]) -> bool {
    files.iter().zip(opened).all(|(path, file)| {
        let inode = |found: io::Result<fs::Metadata>| found.map(|found| (found.dev(), found.ino())).ok();
        inode(fs::metadata(path)) == inode(file.metadata())
    })
}

/// The content of a file between two batches of its writer, if that is possible.
fn bytes_of(mut file: File) -> io::Result<Vec<u8>> {
    // A file system may have no locks; then a line may look cut short. One lock at a time, as a writer that rotates
    // holds that of the old file while it waits for that of the new one.
    let _ = file.lock_shared();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Default)]
struct Chain {
    report: AuditReport,
    /// The number and the digest of the line before.
    previous: Option<(u64, String)>,
}

impl Chain {
    fn check(&mut self, file: &Path, line: usize, bytes: &[u8]) {
        let Ok(record) = serde_json::from_slice::<AuditRecord>(bytes) else {
            self.find_fault(file, line, "this line is no audit record: it was changed".to_owned());
            let number = self.previous.as_ref().map_or(0, |(number, _)| *number);
            self.previous = Some((number + 1, digest(bytes)));
            return;
        };
        let sequence = record.sequence;
        if let Some((number, digest)) = self.previous.take() {
            let next = number + 1;
            if sequence > next {
                let missing = if sequence == next + 1 {
                    format!("record {next} is missing before this line")
                } else {
                    format!("records {next} to {} are missing before this line", sequence - 1)
                };
                self.find_fault(file, line, missing);
            } else if sequence < next {
                self.find_fault(
                    file,
                    line,
                    format!("record {sequence} is not in its place: record {next} should be here"),
                );
            } else if record.previous != digest {
                self.find_fault(file, line, "the line before this one was changed, or this one was".to_owned());
            }
        } else {
            self.report.first = sequence;
            if (sequence == 1) != (record.previous == NO_LINE) {
                self.find_fault(file, line, "this line does not begin a chain: it was changed".to_owned());
            }
        }
        if record.kind == AuditKind::RecordsDropped.name() {
            self.report.dropped += record.details.get("count").and_then(serde_json::Value::as_u64).unwrap_or_default();
        }
        self.report.records += 1;
        self.report.last = sequence;
        self.previous = Some((sequence, digest(bytes)));
    }

    fn check_torn(&mut self, content: &Content, is_last: bool) {
        if is_last {
            self.report.torn = Some(content.path.clone());
        } else {
            let line = content.lines().count() + 1;
            self.find_fault(
                &content.path,
                line,
                "this line is cut short, and others follow: it was changed".to_owned(),
            );
        }
    }

    fn find_fault(&mut self, file: &Path, line: usize, message: String) {
        self.report.faults.push(AuditFault { file: file.to_owned(), line, message });
    }
}
