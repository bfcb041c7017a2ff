//! A file of audit records: appended to under a lock, and rotated.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::record::{AuditEvent, AuditKind, AuditRecord, MAX_LINE, NO_LINE, digest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub file_bytes: u64,
    /// Files with the one in use; the oldest is deleted when a further one begins.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 16 * 1024 * 1024, files: 8 }
    }
}

/// A log of audit records. Several processes may append to one file.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    limits: Limits,
    /// The end of the chain, as long as nobody else has appended.
    tail: Option<Tail>,
    /// The file of the tail, so that no other file can get its inode.
    held: Option<File>,
    lost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tail {
    inode: u64,
    /// The length of the file up to the last whole line, bytes.
    length: u64,
    sequence: u64,
    digest: String,
}

impl AuditLog {
    /// Opens the log and makes its file if there is none.
    ///
    /// # Errors
    /// The file cannot be used, or its last line is no audit record.
    pub fn open(path: &Path, limits: Limits) -> io::Result<Self> {
        let mut log = Self { path: path.to_owned(), limits, tail: None, held: None, lost: 0 };
        let mut file = log.locked()?;
        let (tail, torn) = log.find_tail(&mut file)?;
        log.remember(file, tail)?;
        if torn > 0 {
            log.append(&[AuditEvent::new(AuditKind::LineTorn).with("bytes", torn)])?;
        }
        Ok(log)
    }

    /// Appends records. Those that cannot be written are counted, and the count is written when the disk takes records
    /// again.
    ///
    /// # Errors
    /// The first failure.
    pub fn append(&mut self, events: &[AuditEvent]) -> io::Result<()> {
        let lost = (self.lost > 0).then(|| AuditEvent::new(AuditKind::RecordsDropped).with("count", self.lost));
        let mut written = 0;
        let outcome = self.try_append(lost.iter().chain(events), &mut written);
        if lost.is_some() && written > 0 {
            self.lost = 0;
            written -= 1;
        }
        self.lost += (events.len() - written.min(events.len())) as u64;
        outcome
    }

    /// Counts records that were lost before they came here.
    pub(crate) fn add_lost(&mut self, count: u64) {
        self.lost += count;
    }

    /// Records that are lost, and of which no record tells yet.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    fn try_append<'a>(&mut self, events: impl Iterator<Item = &'a AuditEvent>, written: &mut usize) -> io::Result<()> {
        let mut file = self.locked()?;
        let known = self.tail.take();
        let found = file.metadata()?;
        let is_current = |tail: &&Tail| (tail.inode, tail.length) == (found.ino(), found.len());
        let mut tail = match known.as_ref().filter(is_current) {
            Some(tail) => tail.clone(),
            None => self.find_tail(&mut file)?.0,
        };
        if let Some(known) = known.filter(|known| tail.sequence == 0 && known.sequence > 0) {
            // Somebody has moved the file away.
            tail = Tail { inode: tail.inode, length: tail.length, ..known };
        }
        for event in events {
            let mut line = event.line(tail.sequence + 1, &tail.digest) + "\n";
            if tail.length > 0 && tail.length + line.len() as u64 > self.limits.file_bytes {
                (file, tail) = self.rotate(&file, tail)?;
                line = event.line(tail.sequence + 1, &tail.digest) + "\n";
            }
            if let Err(error) = file.write_all(line.as_bytes()) {
                // If this fails too, the next process that appends removes the part of a line.
                let _ = file.set_len(tail.length);
                self.remember(file, tail)?;
                return Err(error);
            }
            tail.length += line.len() as u64;
            tail.sequence += 1;
            tail.digest = digest(line.trim_end().as_bytes());
            *written += 1;
        }
        file.sync_data()?;
        self.remember(file, tail)
    }

    /// Unlocks the file, and keeps the end of its chain.
    fn remember(&mut self, file: File, tail: Tail) -> io::Result<()> {
        file.unlock()?;
        (self.tail, self.held) = (Some(tail), Some(file));
        Ok(())
    }

    /// The file in use, locked. Another process may rotate it between opening and locking.
    fn locked(&self) -> io::Result<File> {
        loop {
            let file = open(&self.path)?;
            file.lock()?;
            let is_current =
                fs::metadata(&self.path).is_ok_and(|found| found.ino() == file.metadata().map_or(0, |own| own.ino()));
            if is_current {
                return Ok(file);
            }
        }
    }

    /// Renames the files, each to the next number, and begins a new one. `file` is the one in use.
    fn rotate(&self, file: &File, tail: Tail) -> io::Result<(File, Tail)> {
        // A crash must not leave a new file whose chain follows lines that never reached the disk.
        file.sync_data()?;
        for number in (0..self.limits.files.saturating_sub(1)).rev() {
            match fs::rename(numbered(&self.path, number), numbered(&self.path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.limits.files <= 1 {
            fs::remove_file(&self.path)?;
        }
        let mut next = self.locked()?;
        let found = next.metadata()?;
        // Another process may have begun the new file, and have written to it, as soon as the name was free.
        let tail =
            if found.len() > 0 { self.find_tail(&mut next)?.0 } else { Tail { inode: found.ino(), length: 0, ..tail } };
        Ok((next, tail))
    }

    /// The end of the chain, and the bytes of a line that was cut short, which are removed.
    fn find_tail(&self, file: &mut File) -> io::Result<(Tail, u64)> {
        let found = file.metadata()?;
        let (line, end) = last_line(file, found.len())?;
        if end < found.len() {
            file.set_len(end)?;
        }
        let line = match line {
            Some(line) => Some(line),
            // An empty file follows a rotation.
            None => match File::open(numbered(&self.path, 1)) {
                Ok(mut before) => {
                    let length = before.metadata()?.len();
                    last_line(&mut before, length)?.0
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
        };
        let tail = |sequence, digest| Tail { inode: found.ino(), length: end, sequence, digest };
        let Some(line) = line else { return Ok((tail(0, NO_LINE.to_owned()), found.len() - end)) };
        let record: AuditRecord = serde_json::from_slice(&line).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "its last line is no audit record: move the file away")
        })?;
        Ok((tail(record.sequence, digest(&line)), found.len() - end))
    }
}

/// The file with this number: 0 is the one in use, 1 the one before.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The most times that a file is opened. Each needs a rotation at that very moment, or a bad mind in its folder.
const MAX_ATTEMPTS: usize = 1000;

fn open(path: &Path) -> io::Result<File> {
    let (mut options, is_root) = (OpenOptions::new(), rustix::process::geteuid().is_root());
    options.read(true).append(true).mode(0o600);
    let mut attempts = MAX_ATTEMPTS;
    let file = loop {
        attempts -= 1;
        match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => break made?,
        }
        // Whom the folder belongs to may have put a link there, which root must not follow.
        let flags = if is_root { rustix::fs::OFlags::NOFOLLOW } else { rustix::fs::OFlags::empty() };
        match options.clone().custom_flags(flags.bits() as i32).open(path) {
            // Another process has rotated it away since.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() && attempts > 0 => {}
            opened => return opened,
        }
    };
    if is_root {
        // Root may run the operator's commands beside an authority of another user, which has to write the file.
        let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = fs::metadata(folder)?;
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(file)
}

/// The last line that has its newline, without it, and the end of it in the file. A crash may leave any number of bytes
/// after it, such as zeros of blocks that were not written.
fn last_line(file: &mut File, length: u64) -> io::Result<(Option<Vec<u8>>, u64)> {
    let mut window = 2 * MAX_LINE as u64;
    loop {
        let begin = length.saturating_sub(window);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        (&mut *file).take(length - begin).read_to_end(&mut bytes)?;
        let newline_in = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
        let end = newline_in(&bytes);
        let start = end.and_then(|end| newline_in(&bytes[..end])).map(|newline| newline + 1);
        match (start.or((begin == 0).then_some(0)), end) {
            (Some(start), Some(end)) => return Ok((Some(bytes[start..end].to_vec()), begin + end as u64 + 1)),
            (Some(_), None) => return Ok((None, 0)),
            (None, _) => window *= 4,
        }
    }
}
