//! A transport stream from a file, repeated without end.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;

use super::pacing::PacketPacer;
use super::ts::{PACKET_BYTES, SYNC};
use crate::pace::Due;
use crate::{Feed, SourceError, files};

/// Bytes read at once, and searched for the first packet.
const READ_BYTES: usize = 64 * 1024;

/// Datagrams that are read ahead: two seconds at 1 Mbit/s.
const READ_AHEAD: usize = 200;

pub(super) async fn open(path: &Path, looped: bool, length: Duration) -> Result<Feed, SourceError> {
    check(path).await?;
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    let reader = ClipReader { path: path.to_owned(), looped, length, sender };
    // The reader has its own thread, since it blocks on the disk and on the full channel; it ends when the feed
    // is dropped.
    let spawned = std::thread::Builder::new().name("video-file".to_owned()).spawn(move || reader.run());
    spawned.map_err(|error| SourceError::unreadable(path, &error))?;
    Ok(Feed::read(receiver, length))
}

/// Checks that the file can be read and begins like a transport stream.
pub(super) async fn check(path: &Path) -> Result<(), SourceError> {
    files::blocking(path, |path| {
        let mut start = Vec::new();
        let read = files::open(path)?.take(READ_BYTES as u64).read_to_end(&mut start);
        read.map_err(|error| SourceError::unreadable(path, &error))?;
        if is_mostly_packets(&start) { Ok(()) } else { Err(no_stream(path)) }
    })
    .await
}

/// True if packets make up at least half of the start of a file: a recording off the air may be damaged in
/// places, and other formats have the odd packet by chance.
fn is_mostly_packets(start: &[u8]) -> bool {
    let mut packets = Packets::new(start);
    let count = std::iter::from_fn(|| packets.next().ok().flatten()).count();
    count > 0 && count * PACKET_BYTES * 2 >= start.len()
}

fn no_stream(path: &Path) -> SourceError {
    SourceError::Malformed {
        from: path.display().to_string(),
        expected: "MPEG transport stream",
        reason: "it has no packets of 188 bytes; convert it with ffmpeg -i IN -c copy -f mpegts OUT.ts".to_owned(),
    }
}

struct ClipReader {
    path: PathBuf,
    looped: bool,
    length: Duration,
    sender: mpsc::Sender<Result<Due, SourceError>>,
}

impl ClipReader {
    fn run(self) {
        if let Err(error) = self.send_all() {
            // The receiver may be gone already, and the error with it.
            let _ = self.sender.blocking_send(Err(error));
        }
    }

    /// Sends until the time is up, the file ends for good or the receiver is gone.
    fn send_all(&self) -> Result<(), SourceError> {
        let unreadable = |error: std::io::Error| SourceError::unreadable(&self.path, &error);
        let mut file = files::open(&self.path)?;
        let (mut pacer, mut out) = (PacketPacer::default(), Vec::new());
        loop {
            let mut packets = Packets::new(&mut file);
            let mut count = 0_u64;
            while let Some(packet) = packets.next().map_err(unreadable)? {
                count += 1;
                pacer.push(&packet, &mut out);
                if !self.send(&mut out) {
                    return Ok(());
                }
            }
            if count == 0 {
                return Err(no_stream(&self.path));
            }
            if !self.looped {
                pacer.finish(&mut out);
                self.send(&mut out);
                return Ok(());
            }
            pacer.restart(&mut out);
            file.rewind().map_err(unreadable)?;
        }
    }

    /// Returns false once the receiver is gone.
    fn send(&self, out: &mut Vec<Due>) -> bool {
        out.drain(..).all(|due| due.at < self.length && self.sender.blocking_send(Ok(due)).is_ok())
    }
}

/// Iterates over the packets of a file; bytes between packets are skipped.
struct Packets<R> {
    input: R,
    buffer: Vec<u8>,
    /// Offset of the first byte that is not parsed yet.
    position: usize,
    ended: bool,
}

impl<R: Read> Packets<R> {
    const fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), position: 0, ended: false }
    }

    fn next(&mut self) -> std::io::Result<Option<[u8; PACKET_BYTES]>> {
        loop {
            let rest = &self.buffer[self.position..];
            if rest.len() <= PACKET_BYTES && !self.ended {
                self.fill()?;
                continue;
            }
            let Some((packet, after)) = rest.split_first_chunk::<PACKET_BYTES>() else {
                return Ok(None);
            };
            // A sync byte counts only if the next packet also starts with one.
            if packet[0] == SYNC && after.first().is_none_or(|next| *next == SYNC) {
                let packet = *packet;
                self.position += PACKET_BYTES;
                return Ok(Some(packet));
            }
            self.position += 1;
        }
    }

    fn fill(&mut self) -> std::io::Result<()> {
        self.buffer.drain(..self.position);
        self.position = 0;
        let read = self.input.by_ref().take(READ_BYTES as u64).read_to_end(&mut self.buffer)?;
        self.ended = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(bytes: &[u8]) -> usize {
        let mut packets = Packets::new(bytes);
        std::iter::from_fn(|| packets.next().unwrap()).count()
    }

    #[test]
    fn rubbish_between_packets_is_skipped() {
        let mut packet = [0; PACKET_BYTES];
        packet[0] = SYNC;
        assert_eq!(count(&packet.repeat(1000)), 1000);
        assert_eq!(count(&[&packet.repeat(3)[..], b"xyz", &packet.repeat(4)].concat()), 6);
        assert_eq!(count(&packet[..187]), 0);
        assert_eq!(count(b""), 0);
    }

    #[test]
    fn damaged_recording_plays_noise_does_not() {
        let mut packet = [0; PACKET_BYTES];
        packet[0] = SYNC;
        assert!(is_mostly_packets(&[&packet.repeat(9)[..], b"lost", &packet.repeat(9)].concat()));
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        assert!(!is_mostly_packets(&noise.take(READ_BYTES).collect::<Vec<_>>()));
        assert!(!is_mostly_packets(b""));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(prop_oneof![Just(SYNC), any::<u8>()], 0..2000)) {
            prop_assert!(count(&bytes) <= bytes.len() / PACKET_BYTES);
        }
    }
}
