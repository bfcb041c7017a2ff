//! Frame counters of each wire. The carrier's thread writes them; any thread may read them without disturbing
//! it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::kernel;

/// The longest device list that is read, bytes: some 500 devices.
const MAX_DEVICE_BYTES: usize = 64 * 1024;

/// Frames of one wire since the carrier started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounts {
    pub read: u64,
    pub written: u64,
    /// ARP requests answered; included in `read`.
    pub answered: u64,
    /// IPv6 frames and ARP announcements, which are not carried; included in `read`.
    pub ignored: u64,
    /// Frames for, or ARP requests about, an address that is not on the net; included in `read`.
    pub unknown: u64,
    /// Frames that are too short or too long; included in `read`.
    pub malformed: u64,
    /// Overruns: frames from or to the host that the kernel dropped because the carrier or the host was too
    /// slow. Never included in `read`.
    pub missed: u64,
    /// Overruns: frames that were due while the host's queue was full.
    pub refused: u64,
    /// Frames that were due for an interface that is down or gone. The host did that itself, so they are no
    /// overruns.
    pub undeliverable: u64,
    /// True once the wire broke: its host is gone, and nothing more is read.
    pub broken: bool,
    /// True if the kernel does not report its drops: there may be more overruns than counted.
    pub uncounted: bool,
}

impl WireCounts {
    /// Packets that the emulation lost because this machine is too slow. A run with any does not show the
    /// behaviour of the described network.
    pub const fn overruns(&self) -> u64 {
        self.missed + self.refused
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds one with a load and a store, which suffices for a single writer.
    pub(super) fn count(&self) {
        self.0.store(self.get() + 1, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of a wire that the carrier writes.
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

/// The kernel's losses of a wire's frames, up to the last query.
#[derive(Debug)]
pub(super) struct KernelLosses {
    device: Option<DeviceStatistics>,
    /// The device's counters before the carrier started, if it reports them.
    before: Option<DeviceCounts>,
    /// The socket's drops up to the last query; `None` for a TAP device, which is no packet socket.
    socket: Option<u64>,
}

impl KernelLosses {
    /// Begins to count the losses of a wire with this device.
    pub(super) fn before(wire: &OwnedFd, device: Option<DeviceStatistics>) -> Self {
        let before = device.as_ref().and_then(|device| device.counts().ok());
        // The query resets the kernel's counter.
        let socket = kernel::packet_socket_drops(wire.as_fd()).ok().map(|_| 0);
        Self { device, before, socket }
    }

    /// The wire's counters; queries the kernel for its losses.
    pub(super) fn counts(&mut self, tally: &AtomicWireCounts, wire: &OwnedFd) -> WireCounts {
        // The carrier's counters come first: the device's then include at least the frames written by now.
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
    /// Corrects the carrier's counters by those of the host's interface. The kernel accepts a frame for an
    /// interface that drops it. It also silently discards a frame for one end of a veth pair whose other end is
    /// down: such frames were written and never received.
    fn take_in(&mut self, device: DeviceCounts) {
        // The device also counts refused frames as dropped.
        self.missed = device.dropped.saturating_sub(self.undeliverable + self.refused);
        let lost = (self.written + self.answered).saturating_sub(device.received);
        self.written -= lost.min(self.written);
        self.undeliverable += lost.saturating_sub(self.missed);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DeviceCounts {
    received: u64,
    /// Packets dropped in both directions.
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

/// The kernel's counters of a host's interface, readable from any thread and namespace once they are open.
#[derive(Debug)]
pub struct DeviceStatistics {
    list: File,
    name: String,
}

impl DeviceStatistics {
    /// Opens the statistics of the interface `name` in the calling thread's network namespace. This needs
    /// `/proc`, and keeps the namespace alive.
    ///
    /// # Errors
    /// Fails when there is no `/proc`, or no such interface.
    pub fn open(name: &str) -> io::Result<Self> {
        let statistics = Self { list: File::open("/proc/thread-self/net/dev")?, name: name.to_owned() };
        statistics.counts()?;
        Ok(statistics)
    }

    /// Reads the counters since the interface was made; an error when it is gone.
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

/// Parses a line of `/proc/net/dev`: name, colon, eight numbers about receiving and eight about sending. Of
/// each eight the second counts packets and the fourth drops.
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
