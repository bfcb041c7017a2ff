//! What happened to the frames of each wire. The carrier's thread writes, any
//! thread may look, and looking does not disturb it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::lab::kernel;

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
    /// Frames that were due for an interface that is down or gone, which is the
    /// host's own doing: no overruns.
    pub undeliverable: u64,
    /// Whether the wire broke: its host is gone, and nothing more is read.
    pub broken: bool,
    /// Whether the kernel does not tell what it dropped: there may be more
    /// overruns than are counted here.
    pub uncounted: bool,
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
pub(super) struct AtomicWireCounts {
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

/// What the kernel lost of a wire's frames, as far as it was asked.
#[derive(Debug)]
pub(super) struct KernelLosses {
    device: Option<DeviceStatistics>,
    /// What the device had counted before, if it told.
    before: Option<DeviceCounts>,
    /// What the socket dropped until it was asked last; none if it is no packet
    /// socket, which a TAP device is not.
    socket: Option<u64>,
}

impl KernelLosses {
    /// Of a wire with this device, from now on.
    pub(super) fn before(wire: &OwnedFd, device: Option<DeviceStatistics>) -> Self {
        let before = device.as_ref().and_then(|device| device.counts().ok());
        // Asking makes it count from zero.
        let socket = kernel::packet_socket_drops(wire.as_fd()).ok().map(|_| 0);
        Self { device, before, socket }
    }

    /// What happened to the wire's frames; asks the kernel, as far as it knows
    /// about such a wire.
    pub(super) fn counts(&mut self, tally: &AtomicWireCounts, wire: &OwnedFd) -> WireCounts {
        // Before the device is asked: what it has then is at least what was written by now.
        let mut counts = tally.counts();
        match self.device.as_ref().and_then(|device| device.counts().ok()).zip(self.before) {
            Some((now, before)) => counts.take_in(now.since(before)),
            None => counts.uncounted = true,
        }
        if let Some(dropped) = &mut self.socket {
            match kernel::packet_socket_drops(wire.as_fd()) {
                Ok(more) => *dropped += u64::from(more),
                Err(_) => counts.uncounted = true,
            }
            counts.missed += *dropped;
        }
        counts
    }
}

impl AtomicWireCounts {
    fn counts(&self) -> WireCounts {
        WireCounts {
            read: self.read.get(),
            written: self.written.get(),
            answered: self.answered.get(),
            ignored: self.ignored.get(),
            unknown: self.unknown.get(),
            malformed: self.malformed.get(),
            missed: 0,
            refused: self.refused.get(),
            undeliverable: self.undeliverable.get(),
            broken: self.broken.get() > 0,
            uncounted: false,
        }
    }
}

impl WireCounts {
    /// Corrects what the carrier counted by what the host's interface did. The
    /// kernel takes a frame for an interface that drops it, and, for one end of
    /// a veth pair whose other end is down, without a word to anybody: such
    /// frames are those that were written and did not come.
    fn take_in(&mut self, device: DeviceCounts) {
        // What was refused its device has counted as dropped too.
        self.missed = device.dropped.saturating_sub(self.undeliverable + self.refused);
        let lost = (self.written + self.answered).saturating_sub(device.received);
        self.written -= lost.min(self.written);
        self.undeliverable += lost.saturating_sub(self.missed);
    }
}

/// What an interface did with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DeviceCounts {
    /// It took in.
    received: u64,
    /// It dropped, in both directions.
    dropped: u64,
}

impl DeviceCounts {
    const fn since(self, before: Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            dropped: self.dropped.saturating_sub(before.dropped),
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
        statistics.counts()?;
        Ok(statistics)
    }

    /// What it did since it was made; an error when it is gone.
    fn counts(&self) -> io::Result<DeviceCounts> {
        let text = self.read()?;
        counts_of(&text, &self.name).ok_or_else(|| {
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

/// From a line of `/proc/net/dev`: name, colon, eight numbers about receiving
/// and eight about sending, of which the second are packets and the fourth the
/// dropped.
fn counts_of(list: &str, name: &str) -> Option<DeviceCounts> {
    let numbers = list.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    Some(DeviceCounts { received: *numbers.get(1)?, dropped: numbers.get(3)? + numbers.get(11)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_counts_match_named_interface() {
        let list = "Inter-|   Receive        |  Transmit\n face |bytes packets errs drop fifo frame compressed \
                    multicast|bytes packets errs drop fifo colls carrier compressed\n    lo:  1 2 3 40 5 6 7 8 9 10 11 50 13 14 15 16\n\
                    \x20 eth0:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let counts = |received, dropped| Some(DeviceCounts { received, dropped });
        assert_eq!(counts_of(list, "eth0"), counts(2, 16));
        assert_eq!(counts_of(list, "lo"), counts(2, 90));
        assert_eq!(counts_of(list, "eth"), None);
        assert_eq!(counts_of("eth0: 1 2 3", "eth0"), None);
    }

    #[test]
    fn kernel_reports_existing_interface() {
        assert_eq!(DeviceStatistics::open("lo").unwrap().counts().unwrap().dropped, 0);
        assert!(DeviceStatistics::open("none-such").is_err());
    }

    #[test]
    fn missing_kernel_counts_are_not_zero() {
        let wire = OwnedFd::from(std::os::unix::net::UnixDatagram::unbound().unwrap());
        let uncounted =
            |device| KernelLosses::before(&wire, device).counts(&AtomicWireCounts::default(), &wire).uncounted;
        let gone = DeviceStatistics { name: "none-such".to_owned(), ..DeviceStatistics::open("lo").unwrap() };
        assert_eq!([DeviceStatistics::open("lo").ok(), Some(gone), None].map(uncounted), [false, true, true]);
    }

    #[test]
    fn written_frames_are_delivered_or_lost() {
        let written = |written, refused| WireCounts { written, refused, ..WireCounts::default() };
        let with = |mut counts: WireCounts, received, dropped| {
            counts.take_in(DeviceCounts { received, dropped });
            (counts.written, counts.missed, counts.refused, counts.undeliverable)
        };
        assert_eq!(with(written(100, 0), 100, 0), (100, 0, 0, 0), "all came");
        assert_eq!(with(written(100, 0), 90, 10), (90, 10, 0, 0), "dropped without a word");
        assert_eq!(with(written(90, 10), 90, 10), (90, 0, 10, 0), "dropped, and the writer was told");
        assert_eq!(with(written(100, 0), 70, 0), (70, 0, 0, 30), "the other end of the pair is down");
        assert_eq!(with(written(100, 0), 100, 5), (100, 5, 0, 0), "what the host sent was dropped");
        assert_eq!(
            with(WireCounts { undeliverable: 4, ..written(6, 0) }, 6, 4),
            (6, 0, 0, 4),
            "as a TAP device counts"
        );
        assert_eq!(with(WireCounts { answered: 3, ..written(6, 0) }, 9, 0), (6, 0, 0, 0), "answers come as well");
    }
}
