//! The datagrams since the last key frame, for those who come to watch in the middle.

use bytes::Bytes;
use roost_services::format;
use roost_services::video::keyframes::{FrameMarks, RtpH264, TransportStream};

/// The most memory, bytes. Of a longer group of pictures nothing is kept, and those who come wait for the next one.
const MAX_BYTES: usize = 8 << 20;

/// The memory that a datagram takes beside its bytes.
const DATAGRAM_BYTES: usize = 64;

#[derive(Debug)]
pub(crate) struct RecentFrames {
    reader: Option<Reader>,
    datagrams: Vec<Bytes>,
    bytes: usize,
    /// The datagram in which the present frame began.
    frame_start: usize,
    frame: Option<u16>,
    has_key_frame: bool,
    /// The last datagram with the tables of a transport stream.
    tables: Option<Bytes>,
}

#[derive(Debug)]
enum Reader {
    TransportStream(TransportStream),
    Rtp(RtpH264),
}

impl Reader {
    fn mark(&mut self, datagram: &[u8]) -> FrameMarks {
        match self {
            Self::TransportStream(reader) => reader.mark(datagram),
            Self::Rtp(reader) => reader.mark(datagram),
        }
    }
}

impl RecentFrames {
    /// Streams of other formats have no key frames, and nothing of them is kept.
    pub(crate) fn for_format(format: &str) -> Self {
        let reader = match format {
            format::MPEG_TS => Some(Reader::TransportStream(TransportStream::default())),
            format::RTP_H264 => Some(Reader::Rtp(RtpH264::default())),
            _ => None,
        };
        let (datagrams, tables) = (Vec::new(), None);
        Self { reader, datagrams, bytes: 0, frame_start: 0, frame: None, has_key_frame: false, tables }
    }

    pub(crate) fn datagrams(&self) -> &[Bytes] {
        if self.has_key_frame { &self.datagrams } else { &[] }
    }

    pub(crate) fn add(&mut self, datagram: &Bytes) {
        let Some(reader) = &mut self.reader else { return };
        let before = match reader {
            Reader::TransportStream(reader) => reader.before_key_frame(datagram),
            Reader::Rtp(_) => 0,
        };
        let marks = reader.mark(datagram);
        let is_transport_stream = matches!(reader, Reader::TransportStream(_));
        if self.frame != Some(marks.frame) {
            self.frame = Some(marks.frame);
            if !self.has_key_frame {
                self.clear();
            }
            self.frame_start = self.datagrams.len();
        }
        if marks.key_frame {
            let needs_tables = is_transport_stream && !marks.parameters;
            self.begin(if needs_tables { self.tables.clone() } else { None });
        }
        if is_transport_stream && marks.parameters {
            self.tables = Some(datagram.clone());
        }
        let kept = if marks.key_frame { datagram.slice(before.min(datagram.len())..) } else { datagram.clone() };
        self.bytes += kept.len() + DATAGRAM_BYTES;
        // Nothing of a buffer that it shares with others stays.
        self.datagrams.push(Bytes::copy_from_slice(&kept));
        if self.bytes > MAX_BYTES {
            self.clear();
        }
    }

    /// Forgets all before the frame that has just begun.
    fn begin(&mut self, tables: Option<Bytes>) {
        let begun = self.datagrams.split_off(self.frame_start.min(self.datagrams.len()));
        self.datagrams = tables.into_iter().chain(begun).collect();
        self.bytes = self.datagrams.iter().map(|datagram| datagram.len() + DATAGRAM_BYTES).sum();
        self.frame_start = 0;
        self.has_key_frame = true;
    }

    fn clear(&mut self) {
        self.datagrams.clear();
        (self.bytes, self.frame_start, self.has_key_frame) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtp(time: u8, ends: bool, payload: &[u8]) -> Bytes {
        let marker = if ends { 0x80 } else { 0 };
        [&[0x80, 96 | marker, 0, 0, 0, 0, 0, time, 0, 0, 0, 0][..], payload].concat().into()
    }

    #[test]
    fn group_begins_with_its_parameters() {
        let mut group = RecentFrames::for_format(format::RTP_H264);
        let [early, sets, key, next] =
            [rtp(1, true, &[0x41, 1]), rtp(2, false, &[0x67, 1]), rtp(2, true, &[0x65, 1]), rtp(3, true, &[0x41, 2])];
        group.add(&early);
        assert!(group.datagrams().is_empty(), "no key frame has come");
        for datagram in [&sets, &key, &next] {
            group.add(datagram);
        }
        assert_eq!(group.datagrams(), [sets.clone(), key.clone(), next]);
        let (sets, key) = (rtp(4, false, &sets[12..]), rtp(4, true, &key[12..]));
        group.add(&sets);
        group.add(&key);
        assert_eq!(group.datagrams(), [sets, key]);
    }

    #[test]
    fn endless_groups_are_forgotten() {
        let mut group = RecentFrames::for_format(format::RTP_H264);
        group.add(&rtp(1, true, &[0x65, 1]));
        let filler = rtp(2, true, &[&[0x41][..], &[0; 60_000]].concat());
        for _ in 0..=MAX_BYTES / filler.len() {
            group.add(&filler);
        }
        assert!(group.datagrams().is_empty() && group.bytes < MAX_BYTES);
        // Small ones count by the memory that they take.
        group.add(&rtp(3, true, &[0x65, 1]));
        let small = rtp(4, false, &[0x41]);
        let kept = (0..MAX_BYTES / DATAGRAM_BYTES).map(|_| {
            group.add(&small);
            group.datagrams.len()
        });
        assert!(kept.max() < Some(MAX_BYTES / DATAGRAM_BYTES));
    }
}
