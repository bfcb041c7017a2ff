//! What happened to the frames of each wire. The carrier's thread writes, any
//! thread may look, and looking does not disturb it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest list of devices that is read: some 500 of them.
const MAX_DEVICE_BYTES: usize = 64 * 1024;

/// What one wire carried and what it did not, since the carrier started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireCounts {
    /// Frames that the host sent and the carrier read.
    pub read: u64,
    /// Frames that were handed to the host.
    pub written: u64,
    /// ARP requests that were answered; in `read` as well.
    pub answered: u64,
    /// IPv6 frames and ARP announcements, which are not carried; in `read` as well.
    pub ignored: u64,
    /// Frames for, and ARP requests about, an address that is not on the net;
    /// in `read` as well.
    pub unknown: u64,
    /// Frames that are too short or too long; in `read` as well.
    pub malformed: u64,
    /// Overruns: frames that the host sent, or was sent, and the kernel dropped
    /// because the carrier or the host was too slow to take them. Never in `read`.
    pub missed: u64,
    /// Overruns: frames that were due while the host's queue was full.
    pub refused: u64,
    /// Frames that were due for an interface that is down or gone.
    pub undeliverable: u64,
    /// Whether the wire broke: its host is gone, and nothing more is read.
    pub broken: bool,
}

impl WireCounts {
    /// Packets that the emulation lost because this machine is too slow. A run
    /// that has any does not show what the described network would do.
    pub const fn overruns(&self) -> u64 {
        self.missed + self.refused
    }
}

/// A number that one thread writes.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds one: a load and a store, as there is one writer.
    pub(super) fn count(&self) {
        self.0.store(self.get() + 1, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of a wire that its carrier writes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) read: Counter,
    pub(super) written: Counter,
    pub(super) answered: Counter,
    pub(super) ignored: Counter,
    pub(super) unknown: Counter,
    pub(super) malformed: Counter,
    pub(super) refused: Counter,
    pub(super) undeliverable: Counter,
    pub(super) broken: Counter,
}

impl Tally {
    /// All of them, and what the kernel says of the wire.
    pub(super) fn counts(&self, missed: u64) -> WireCounts {
        WireCounts {
            read: self.read.get(),
            written: self.written.get(),
            answered: self.answered.get(),
            ignored: self.ignored.get(),
            unknown: self.unknown.get(),
            malformed: self.malformed.get(),
            missed,
            refused: self.refused.get(),
            undeliverable: self.undeliverable.get(),
            broken: self.broken.get() > 0,
        }
    }
}

/// What the kernel counts of a host's interface, readable from any thread and
/// any namespace once it is open.
#[derive(Debug)]
pub struct DeviceStatistics {
    list: File,
    name: String,
}

impl DeviceStatistics {
    /// Opens the statistics of the interface `name` of the calling thread's
    /// network namespace. It needs `/proc`, and keeps the namespace alive.
    ///
    /// # Errors
    /// When there is no `/proc`, or no such interface.
    pub fn open(name: &str) -> io::Result<Self> {
        let statistics = Self { list: File::open("/proc/thread-self/net/dev")?, name: name.to_owned() };
        statistics.dropped()?;
        Ok(statistics)
    }

    /// Packets that the interface dropped, in both directions, since it was made.
    ///
    /// # Errors
    /// When it is gone.
    pub fn dropped(&self) -> io::Result<u64> {
        let text = self.read()?;
        dropped_of(&text, &self.name).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {} any more", self.name))
        })
    }

    fn read(&self) -> io::Result<String> {
        let mut text = vec![0; 4096];
        let mut used = 0;
        while used < MAX_DEVICE_BYTES {
            match self.list.read_at(&mut text[used..], used as u64)? {
                0 => break,
                bytes => used += bytes,
            }
            text.resize(used + 4096, 0);
        }
        text.truncate(used);
        String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// Received and sent packets that were dropped, from a line of `/proc/net/dev`:
/// name, colon, eight numbers about receiving and eight about sending, of which
/// the fourth are the dropped.
fn dropped_of(list: &str, name: &str) -> Option<u64> {
    let numbers = list.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let dropped: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    Some(dropped.get(3)? + dropped.get(11)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_those_of_the_named_interface() {
        let list = "Inter-|   Receive        |  Transmit\n face |bytes packets errs drop fifo frame compressed \
                    multicast|bytes packets errs drop fifo colls carrier compressed\n    lo:  1 2 3 40 5 6 7 8 9 10 11 50 13 14 15 16\n\
                    \x20 eth0:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dropped_of(list, "eth0"), Some(16));
        assert_eq!(dropped_of(list, "lo"), Some(90));
        assert_eq!(dropped_of(list, "eth"), None);
        assert_eq!(dropped_of("eth0: 1 2 3", "eth0"), None);
    }

    #[test]
    fn the_kernel_is_asked_about_an_interface_that_exists() {
        assert_eq!(DeviceStatistics::open("lo").unwrap().dropped().unwrap(), 0);
        assert!(DeviceStatistics::open("none-such").is_err());
    }
}
