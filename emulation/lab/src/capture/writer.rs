//! Files of captures, written on a thread of their own.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::CaptureLimits;
use super::pcapng::{self, PacketBlock};

const CHUNK: usize = 256 * 1024;

/// The file of a link, within its limits.
#[derive(Debug)]
pub(super) struct CaptureFile {
    path: PathBuf,
    header: Vec<u8>,
    interfaces: u32,
    limits: CaptureLimits,
    file: Option<File>,
    waiting: Vec<u8>,
    waiting_packets: u64,
    /// Bytes of the present file that the system has taken.
    taken: u64,
    /// Bytes in the present file, with those that wait.
    bytes: u64,
    pub(super) packets: u64,
    pub(super) not_written: u64,
    pub(super) problem: Option<String>,
}

impl CaptureFile {
    pub(super) fn create(
        path: PathBuf,
        interfaces: &[String],
        comment: &str,
        limits: CaptureLimits,
    ) -> io::Result<Self> {
        let header = pcapng::header(interfaces, limits.snap, comment);
        let mut file = Self {
            path,
            interfaces: interfaces.len() as u32,
            limits,
            file: None,
            waiting: Vec::new(),
            waiting_packets: 0,
            taken: 0,
            bytes: 0,
            packets: 0,
            not_written: 0,
            problem: None,
            header,
        };
        file.begin()?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a packet. Once the disk or the limit refuses one, those after it are only counted.
    pub(super) fn add(&mut self, packet: &PacketBlock<'_>) {
        if self.problem.is_some() {
            self.not_written += 1;
            return;
        }
        let counted = self.packets + self.not_written;
        let written = self.write(packet);
        self.keep_problem(written);
        if self.packets + self.not_written == counted {
            self.not_written += 1;
        }
    }

    /// Keeps the first problem; packets that still wait then are lost.
    fn keep_problem(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        let problem = format!("{}: {error}", self.path.display());
        self.problem.get_or_insert(problem);
        self.waiting.clear();
        self.packets -= self.waiting_packets;
        self.not_written += std::mem::take(&mut self.waiting_packets);
    }

    /// Writes what waits, and counts of packets that are not there.
    pub(super) fn finish(&mut self, unix_ns: u64) {
        for interface in 0..self.interfaces {
            self.waiting.extend(pcapng::statistics(interface, unix_ns, self.not_written));
        }
        let written = self.flush();
        self.keep_problem(written);
        self.file = None;
    }

    fn begin(&mut self) -> io::Result<()> {
        self.file = Some(File::create(&self.path)?);
        self.waiting.clone_from(&self.header);
        (self.bytes, self.taken) = (self.header.len() as u64, 0);
        self.flush()
    }

    fn write(&mut self, packet: &PacketBlock<'_>) -> io::Result<()> {
        let before = self.waiting.len();
        pcapng::packet(packet, &mut self.waiting);
        let more = (self.waiting.len() - before) as u64;
        if self.bytes + more > self.room() {
            self.waiting.truncate(before);
            self.make_room()?;
            pcapng::packet(packet, &mut self.waiting);
        }
        self.bytes += more;
        self.packets += 1;
        self.waiting_packets += 1;
        if self.waiting.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// The most bytes of a file: a ring has two.
    fn room(&self) -> u64 {
        if self.limits.is_ring { self.limits.bytes / 2 } else { self.limits.bytes }
    }

    /// Begins a new file of a ring, and keeps the last one beside it.
    fn make_room(&mut self) -> io::Result<()> {
        self.flush()?;
        if !self.limits.is_ring {
            return Err(io::Error::other("the limit of its size is reached"));
        }
        fs::rename(&self.path, self.path.with_extension("before.pcapng"))?;
        self.begin()
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(&self.waiting)
        {
            // A part of a packet would end the file for readers; a device has no length.
            let _ = file.set_len(self.taken).and_then(|()| file.seek(SeekFrom::Start(self.taken)));
            return Err(error);
        }
        self.taken += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting_packets = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcapng::PacketEnd;
    use super::*;

    fn file(folder: &Path, bytes: u64, is_ring: bool) -> CaptureFile {
        let limits = CaptureLimits { snap: 1522, bytes, is_ring };
        CaptureFile::create(folder.join("net.pcapng"), &["net a to-net".to_owned()], "", limits).unwrap()
    }

    fn add(file: &mut CaptureFile, count: u64) {
        let bytes = [7; 1000];
        for number in 0..count {
            let (interface, unix_ns, end) = (0, number, PacketEnd::Entered);
            file.add(&PacketBlock { interface, unix_ns, end, number, length: 1000, bytes: &bytes, comment: None });
        }
    }

    /// The packet blocks in a file: type 6, and a length behind the type.
    fn packet_blocks(path: &Path) -> u64 {
        let (bytes, mut at, mut count) = (fs::read(path).unwrap(), 0, 0);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        while at < bytes.len() {
            count += u64::from(word(at) == 6);
            at += word(at + 4) as usize;
        }
        count
    }

    #[test]
    fn file_ends_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path(), 10_000, false);
        add(&mut file, 20);
        file.finish(0);
        assert_eq!((file.packets, file.not_written), (9, 11));
        assert_eq!(packet_blocks(file.path()), 9);
        assert!(file.problem.as_ref().unwrap().contains("limit"), "{:?}", file.problem);
        // The statistics at the end are short.
        assert!(fs::metadata(file.path()).unwrap().len() < 10_100);
    }

    #[test]
    fn ring_keeps_the_last_packets() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path(), 20_000, true);
        add(&mut file, 50);
        file.finish(0);
        assert_eq!((file.packets, file.not_written, file.problem.as_ref()), (50, 0, None));
        let sizes: Vec<u64> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
        assert!(sizes.len() == 2 && sizes.iter().sum::<u64>() <= 20_100, "{sizes:?}");
    }

    #[test]
    fn full_disk_ends_the_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path(), u64::MAX, false);
        file.file = Some(File::options().write(true).open("/dev/full").unwrap());
        add(&mut file, 1000);
        file.finish(0);
        assert!(file.problem.as_ref().unwrap().contains("No space left"), "{:?}", file.problem);
        assert_eq!((file.packets, file.not_written), (0, 1000));
    }
}
