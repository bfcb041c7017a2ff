//! Captures of links: a pcapng file for each, of the packets that enter and leave its directions.
//!
//! The carrier's thread hands packets to a thread that writes files. It never waits: a packet for which the queue has
//! no room is counted, and not in the file.

mod pcapng;
mod running;
mod size;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_netcore::wiring::NamedPipe;
use roost_netcore::{DropCause, PipeId, Sighting, SightingKind};
use roost_topology::file_name;
use roost_wire::Time;
use serde::Serialize;

use self::pcapng::{PacketBlock, PacketEnd};
pub use self::size::parse_size;
use self::writer::CaptureFile;
use crate::carrier::CarrierFrame;

/// Packets that wait for the writing thread: at 1500 bytes, 24 MB.
const QUEUE: usize = 16_384;

/// The most links that are captured at a time: each has files open.
pub const MAX_CAPTURED: usize = 256;

/// The largest frame with its header and tags is 1522 bytes.
const WHOLE_FRAME: u32 = 1522;

/// The limits of what a capture keeps of a link's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureLimits {
    /// The most bytes that are kept of each packet.
    pub snap: u32,
    /// The most bytes of all files of a link.
    pub bytes: u64,
    /// True to keep the last packets instead of the first, in two files.
    pub is_ring: bool,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self { snap: WHOLE_FRAME, bytes: 1_000_000_000, is_ring: false }
    }
}

/// The capture of a link after its end, with all that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureSummary {
    pub link: String,
    pub file: PathBuf,
    pub packets: u64,
    /// Packets that are not in the file: the disk was full or slow, or the limit of its size was reached.
    pub not_written: u64,
    /// The time 0 of the run, as the file's clock shows it; absent if nothing began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl CaptureSummary {
    /// A sentence about packets that are missing in the file.
    pub fn doubt(&self) -> Option<String> {
        let why = self.problem.as_ref().map_or_else(
            || "the disk was slower than the link".to_owned(),
            |problem| format!("the capture ended early: {problem}"),
        );
        let Self { link, not_written, packets, .. } = self;
        let all = packets + not_written;
        let is_whole = *not_written == 0 && self.problem.is_none();
        (!is_whole).then(|| format!("{link}: {not_written} of {all} packets are not in the capture: {why}"))
    }
}

pub(crate) struct CapturedNet {
    pub(crate) name: String,
    pub(crate) pipes: Vec<NamedPipe>,
}

struct CapturedPacket {
    file: usize,
    interface: u32,
    sighting: Sighting<CarrierFrame>,
}

/// The end of a capture that belongs to the carrier's thread.
pub(crate) struct CaptureSender {
    /// By pipe: its file, and its interface there.
    places: Vec<(PipeId, (usize, u32))>,
    packets: SyncSender<CapturedPacket>,
    not_sent: Arc<Mutex<Vec<u64>>>,
}

impl CaptureSender {
    pub(crate) fn send(&self, sighting: Sighting<CarrierFrame>) {
        let pipe = sighting.pipe;
        let Some((file, interface)) = self.place(pipe) else { return };
        if self.packets.try_send(CapturedPacket { file, interface, sighting }).is_err() {
            self.miss(pipe, 1);
        }
    }

    /// Counts packets that are in no file.
    pub(crate) fn miss(&self, pipe: PipeId, count: u64) {
        if let Some((file, _)) = self.place(pipe) {
            self.not_sent.lock().unwrap_or_else(PoisonError::into_inner)[file] += count;
        }
    }

    fn place(&self, pipe: PipeId) -> Option<(usize, u32)> {
        self.places.binary_search_by_key(&pipe, |(pipe, _)| *pipe).ok().map(|found| self.places[found].1)
    }

    pub(crate) fn pipes(&self) -> impl Iterator<Item = PipeId> {
        self.places.iter().map(|(pipe, _)| *pipe)
    }
}

/// A running capture. It ends once its sender is gone, and waits for that when it is dropped.
#[derive(Debug)]
pub(crate) struct Capture {
    names: Vec<String>,
    not_sent: Arc<Mutex<Vec<u64>>>,
    thread: Option<JoinHandle<Vec<CaptureFile>>>,
    base: Duration,
}

impl Capture {
    /// Makes the files in a folder, and starts to write. `origin` is the carrier's time 0 by the wall clock.
    pub(crate) fn start(
        nets: Vec<CapturedNet>,
        folder: &Path,
        limits: CaptureLimits,
        origin: SystemTime,
    ) -> io::Result<(Self, CaptureSender)> {
        std::fs::create_dir_all(folder)?;
        let base = origin.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut files, mut places) = (Vec::new(), Vec::new());
        for (number, net) in nets.iter().enumerate() {
            let interfaces: Vec<String> = net.pipes.iter().map(|pipe| pipe.name.clone()).collect();
            let comment = format!("{}: inbound packets enter the link, outbound ones leave it", net.name);
            let path = folder.join(format!("{}.pcapng", file_name(&net.name)));
            files.push(CaptureFile::create(path, &interfaces, &comment, limits)?);
            // A net has far fewer than 2^32 directions.
            places.extend(net.pipes.iter().enumerate().map(|(place, pipe)| (pipe.pipe, (number, place as u32))));
        }
        places.sort_unstable();
        let (packets, receiver) = sync_channel(QUEUE);
        let not_sent = Arc::new(Mutex::new(vec![0; files.len()]));
        let thread = thread::Builder::new().name("capture".to_owned());
        let thread = thread.spawn(move || write_all(&receiver, files, base, limits.snap))?;
        let names = nets.into_iter().map(|net| net.name).collect();
        let capture = Self { names, not_sent: Arc::clone(&not_sent), thread: Some(thread), base };
        Ok((capture, CaptureSender { places, packets, not_sent }))
    }

    /// Waits until all is written. The sender must be gone.
    pub(crate) fn finish(mut self, zero: Option<Time>) -> Vec<CaptureSummary> {
        let Some(Ok(files)) = self.thread.take().map(JoinHandle::join) else { return Vec::new() };
        let not_sent = self.not_sent.lock().unwrap_or_else(PoisonError::into_inner);
        let zero_unix_ns = zero.map(|zero| unix_ns(self.base, zero));
        let named = std::mem::take(&mut self.names).into_iter().zip(files).zip(not_sent.iter());
        let summary = |((link, file), not_sent): ((String, CaptureFile), &u64)| CaptureSummary {
            link,
            file: file.path().to_owned(),
            packets: file.packets,
            not_written: file.not_written + not_sent,
            zero_unix_ns,
            problem: file.problem,
        };
        named.map(summary).collect()
    }
}

impl Drop for Capture {
    /// The files are whole whichever way a capture ends.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic of the thread ends its files alone.
            let _ = thread.join();
        }
    }
}

fn unix_ns(base: Duration, at: Time) -> u64 {
    u64::try_from(base.as_nanos()).unwrap_or(u64::MAX).saturating_add(at.as_nanos())
}

fn write_all(
    packets: &Receiver<CapturedPacket>,
    mut files: Vec<CaptureFile>,
    base: Duration,
    snap: u32,
) -> Vec<CaptureFile> {
    let mut last = 0;
    while let Ok(CapturedPacket { file, interface, sighting }) = packets.recv() {
        let Some(file) = files.get_mut(file) else { continue };
        let frame = sighting.packet.bytes();
        last = unix_ns(base, sighting.at);
        file.add(&PacketBlock {
            interface,
            unix_ns: last,
            end: if sighting.kind == SightingKind::Left { PacketEnd::Left } else { PacketEnd::Entered },
            number: sighting.number,
            length: frame.len() as u32,
            bytes: &frame[..frame.len().min(snap as usize)],
            comment: comment(sighting.kind),
        });
    }
    files.iter_mut().for_each(|file| file.finish(last));
    files
}

fn comment(kind: SightingKind) -> Option<&'static str> {
    let SightingKind::Dropped(cause) = kind else { return None };
    Some(match cause {
        DropCause::Queue => "dropped: queue",
        DropCause::Loss => "dropped: loss",
        DropCause::Down => "dropped: down",
        DropCause::Limit => "dropped: limit of the emulator",
    })
}

#[cfg(test)]
mod tests {
    use roost_netcore::{Network, PipeConfig};

    use super::*;

    #[test]
    fn missed_packets_count_as_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut network: Network<()> = Network::new(1);
        let [a, _] = network.add_link(PipeConfig::default(), PipeConfig::default());
        let pipe = network.to_net(a).unwrap();
        let net = || CapturedNet { name: "../x".to_owned(), pipes: vec![NamedPipe { pipe, name: "x".to_owned() }] };
        let start = || Capture::start(vec![net()], folder.path(), CaptureLimits::default(), SystemTime::now()).unwrap();
        let (capture, sender) = start();
        sender.miss(pipe, 7);
        drop(sender);
        let summary = capture.finish(None).remove(0);
        assert_eq!((summary.packets, summary.not_written), (0, 7));
        assert_eq!(summary.file, folder.path().join("..%2Fx.pcapng"));
        let whole = std::fs::metadata(&summary.file).unwrap().len();
        // A capture that nobody ends writes its last blocks, too.
        let (capture, sender) = start();
        drop((sender, capture));
        assert_eq!(std::fs::metadata(&summary.file).unwrap().len(), whole);
    }

    #[test]
    fn problem_alone_is_a_doubt() {
        let summary = CaptureSummary {
            link: "x".to_owned(),
            file: PathBuf::new(),
            packets: 1,
            not_written: 0,
            zero_unix_ns: None,
            problem: Some("no space".to_owned()),
        };
        assert!(summary.doubt().unwrap().contains("no space"));
    }
}
