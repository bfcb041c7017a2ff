//! Detection of key frames, for subscribers that join a stream in its middle.
//!
//! Each form has one reader. It sees every datagram in order, and tells of each whether decoding can start
//! there, and whether it has the data that decoding needs first. Other forms have no reader: their subscribers
//! begin with the next datagram.

use super::{rtp, ts};

/// The marks of a datagram that matter to new subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMarks {
    /// True if a key frame begins here.
    pub key_frame: bool,
    /// True if it has tables or parameter sets.
    pub parameters: bool,
    /// True for the last datagram of a frame. Always false for transport streams.
    pub frame_end: bool,
    /// The number of the frame that begins here, or of the last one that began; wraps around.
    pub frame: u16,
}

const PAT_PID: u16 = 0;
/// Flags of an adaptation field and of a packet's second byte.
const RANDOM_ACCESS: u8 = 0x40;
pub(super) const UNIT_START: u8 = 0x40;
/// Stream types of a PMT that are video: MPEG-1 and 2, MPEG-4, H.264, H.265, H.266.
const VIDEO_TYPES: [u8; 6] = [0x01, 0x02, 0x10, 0x1b, 0x24, 0x33];
pub(super) const H264_TYPE: u8 = 0x1b;
/// Length of the header of a PAT or PMT up to its loop, and of the checksum at its end.
const PAT_HEAD: usize = 8;
const PMT_HEAD: usize = 12;
const CHECK_SUM: usize = 4;

/// Types of NAL units (ITU-T H.264, table 7-1; RFC 6184, table 1).
pub(super) const IDR: u8 = 5;
pub(super) const SPS: u8 = 7;
pub(super) const PPS: u8 = 8;
pub(super) const STAP_A: u8 = 24;
pub(super) const FU_A: u8 = 28;

/// Reads MPEG transport streams (ISO/IEC 13818-1). A key frame begins where the multiplexer signals random
/// access, or where H.264 has an IDR picture or a sequence parameter set.
#[derive(Clone, Debug, Default)]
pub struct TransportStream {
    table: Option<u16>,
    video: Option<(u16, u8)>,
    frame: u16,
}

impl TransportStream {
    pub fn mark(&mut self, datagram: &[u8]) -> FrameMarks {
        let mut marks = FrameMarks::default();
        for packet in datagram.chunks_exact(ts::PACKET_BYTES) {
            self.read(packet, &mut marks);
        }
        marks.frame = self.frame;
        marks
    }

    /// The packet identifier and the type of the video, once the tables have told them.
    pub(super) const fn video(&self) -> Option<(u16, u8)> {
        self.video
    }

    /// Bytes of the next datagram before its key frame and the tables right before that. They belong to frames
    /// that a subscriber that joins here cannot decode. 0 if no key frame begins in it.
    pub fn before_key_frame(&self, datagram: &[u8]) -> usize {
        let mut ahead = self.clone();
        let mut begin = 0;
        for (number, packet) in datagram.chunks_exact(ts::PACKET_BYTES).enumerate() {
            let mut marks = FrameMarks::default();
            ahead.read(packet, &mut marks);
            if marks.key_frame {
                return begin * ts::PACKET_BYTES;
            }
            let is_table = ts::header(packet).is_some_and(|head| head.pid == PAT_PID || Some(head.pid) == ahead.table);
            if !is_table {
                begin = number + 1;
            }
        }
        0
    }

    fn read(&mut self, packet: &[u8], marks: &mut FrameMarks) {
        let Some(ts::Header { pid, .. }) = ts::header(packet) else { return };
        let starts = packet[1] & UNIT_START != 0;
        let Some(payload) = payload(packet) else { return };
        if pid == PAT_PID && starts {
            marks.parameters = true;
            self.table = section(payload).and_then(first_table).or(self.table);
        } else if Some(pid) == self.table && starts {
            marks.parameters = true;
            self.video = section(payload).and_then(video_stream).or(self.video);
        } else if let Some((video, kind)) = self.video
            && pid == video
            && starts
        {
            self.frame = self.frame.wrapping_add(1);
            let is_announced = packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & RANDOM_ACCESS != 0;
            marks.key_frame |=
                is_announced || kind == H264_TYPE && units(payload).any(|unit| unit == IDR || unit == SPS);
        }
    }
}

/// Strips a packet's header and adaptation field.
pub(super) fn payload(packet: &[u8]) -> Option<&[u8]> {
    let has_payload = packet[3] & 0x10 != 0;
    let start = if packet[3] & 0x20 != 0 { 5 + usize::from(packet[4]) } else { 4 };
    packet.get(start..).filter(|_| has_payload)
}

/// Returns a table's section from its table id on, without the checksum; `None` if it continues in the next
/// packet.
fn section(payload: &[u8]) -> Option<&[u8]> {
    let section = payload.get(1 + usize::from(*payload.first()?)..)?;
    let length = usize::from(u16::from_be_bytes([*section.get(1)? & 0x0f, *section.get(2)?]));
    section.get(..(3 + length).checked_sub(CHECK_SUM)?)
}

/// Returns the PID of the PMT from a PAT: that of the first programme that is not the network.
fn first_table(section: &[u8]) -> Option<u16> {
    let mut programmes = section.get(PAT_HEAD..)?.chunks_exact(4);
    let programme = programmes.find(|entry| entry[..2] != [0, 0])?;
    Some(u16::from_be_bytes([programme[2] & 0x1f, programme[3]]))
}

/// Returns the PID and the type of the first video in a PMT.
fn video_stream(section: &[u8]) -> Option<(u16, u8)> {
    let length =
        |entry: &[u8], at: usize| Some(usize::from(u16::from_be_bytes([*entry.get(at)? & 0x0f, *entry.get(at + 1)?])));
    let mut rest = section.get(PMT_HEAD + length(section, PMT_HEAD - 2)?..)?;
    while rest.len() >= 5 {
        let pid = u16::from_be_bytes([rest[1] & 0x1f, rest[2]]);
        if VIDEO_TYPES.contains(&rest[0]) {
            return Some((pid, rest[0]));
        }
        rest = rest.get(5 + length(rest, 3)?..)?;
    }
    None
}

/// Finds the types of the NAL units that begin here, by their start codes.
fn units(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.windows(4).filter(|window| window[..3] == [0, 0, 1]).map(|window| window[3] & 0x1f)
}

/// Reads RTP with H.264 (RFC 6184): single units, aggregates and fragments.
#[derive(Clone, Debug, Default)]
pub struct RtpH264 {
    frame: u16,
    /// The timestamp of the current frame, and true if it is a key frame.
    present: Option<([u8; 4], bool)>,
}

impl RtpH264 {
    pub fn mark(&mut self, datagram: &[u8]) -> FrameMarks {
        let Some(packet) = rtp::parse(datagram) else {
            return FrameMarks { frame: self.frame, ..FrameMarks::default() };
        };
        // A whole header has the timestamp in bytes 4 to 7.
        let time = [datagram[4], datagram[5], datagram[6], datagram[7]];
        let is_known = match self.present {
            Some((present, is_key)) if present == time => is_key,
            _ => {
                self.frame = self.frame.wrapping_add(1);
                false
            }
        };
        let units = begun(packet.payload);
        let is_key = units.contains(&IDR);
        self.present = Some((time, is_known || is_key));
        FrameMarks {
            // A key frame of several slices begins only once.
            key_frame: is_key && !is_known,
            parameters: units.iter().any(|unit| [SPS, PPS].contains(unit)),
            frame_end: datagram[1] & 0x80 != 0,
            frame: self.frame,
        }
    }
}

/// The types of the NAL units that begin in a payload.
fn begun(payload: &[u8]) -> Vec<u8> {
    let Some((&first, rest)) = payload.split_first() else { return Vec::new() };
    match first & 0x1f {
        STAP_A => {
            let (mut rest, mut types) = (rest, Vec::new());
            while let [high, low, unit, ..] = *rest {
                types.push(unit & 0x1f);
                rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default();
            }
            types
        }
        FU_A => rest.first().filter(|head| *head & 0x80 != 0).map(|head| head & 0x1f).into_iter().collect(),
        single => vec![single],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE_PID: u16 = 0x1000;
    const VIDEO_PID: u16 = 0x100;

    /// A transport packet in which a unit starts, with optional flags of an adaptation field.
    fn packet(pid: u16, flags: Option<u8>, payload: &[u8]) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let mut out = vec![ts::SYNC, high | UNIT_START, low, 0x10];
        if let Some(flags) = flags {
            out[3] = 0x30;
            out.extend([1, flags]);
        }
        out.extend(payload);
        out.resize(ts::PACKET_BYTES, 0xff);
        out
    }

    fn pat() -> Vec<u8> {
        let [high, low] = TABLE_PID.to_be_bytes();
        // The network first, then programme 1; nobody checks the checksum.
        let entries = [[0, 0, 0xe0, 0x10], [0, 1, 0xe0 | high, low]].concat();
        packet(PAT_PID, None, &[&[0, 0, 0xb0, 17, 0, 1, 0xc1, 0, 0][..], &entries, &[0; 4]].concat())
    }

    fn pmt() -> Vec<u8> {
        let [high, low] = VIDEO_PID.to_be_bytes();
        // Audio with a descriptor of two bytes, then video.
        let streams = [&[0x0f, 0xe1, 1, 0xf0, 2, 9, 9][..], &[H264_TYPE, 0xe0 | high, low, 0xf0, 0]].concat();
        let head = [2, 0xb0, (9 + streams.len() + 4) as u8, 0, 1, 0xc1, 0, 0, 0xe1, 0, 0xf0, 0];
        packet(TABLE_PID, None, &[&[0][..], &head, &streams, &[0; 4]].concat())
    }

    #[test]
    fn transport_stream_key_frames_need_tables() {
        let mut reader = TransportStream::default();
        let announced = packet(VIDEO_PID, Some(RANDOM_ACCESS), &[0, 0, 1, 0xe0]);
        assert_eq!(reader.mark(&announced), FrameMarks::default(), "nobody knows yet that it is video");
        let tables = reader.mark(&[pat(), pmt()].concat());
        assert_eq!(tables, FrameMarks { parameters: true, ..FrameMarks::default() });
        assert_eq!(reader.mark(&announced), FrameMarks { key_frame: true, frame: 1, ..FrameMarks::default() });
        let other = packet(VIDEO_PID, None, &[0, 0, 1, 0xe0, 0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41]);
        assert_eq!(reader.mark(&other), FrameMarks { frame: 2, ..FrameMarks::default() });
        let unannounced = packet(VIDEO_PID, Some(0), &[0, 0, 1, 0xe0, 0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65]);
        assert_eq!(reader.mark(&unannounced), FrameMarks { key_frame: true, frame: 3, ..FrameMarks::default() });
        let all = reader.mark(&[pat(), pmt(), announced].concat());
        assert_eq!(all, FrameMarks { key_frame: true, parameters: true, frame: 4, frame_end: false });
    }

    #[test]
    fn key_frame_begins_with_its_tables() {
        let mut reader = TransportStream::default();
        reader.mark(&[pat(), pmt()].concat());
        let key = packet(VIDEO_PID, Some(RANDOM_ACCESS), &[0, 0, 1, 0xe0]);
        let other = packet(VIDEO_PID, None, &[0, 0, 1, 0xe0, 0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41]);
        for (datagram, before) in [
            (vec![&key], 0),
            (vec![&other, &key], 1),
            (vec![&other, &pat(), &pmt(), &key, &other], 1),
            (vec![&pat(), &pmt(), &key], 0),
            (vec![&pat(), &other, &other, &pmt(), &key], 3),
            (vec![&other, &other], 0),
        ] {
            let datagram = datagram.into_iter().flatten().copied().collect::<Vec<u8>>();
            assert_eq!(reader.before_key_frame(&datagram), before * ts::PACKET_BYTES);
        }
    }

    fn rtp(time: u8, marker: bool, payload: &[u8]) -> Vec<u8> {
        let second = 96 | if marker { 0x80 } else { 0 };
        [&[0x80, second, 0, 1, 0, 0, 0, time, 0, 0, 0, 9][..], payload].concat()
    }

    #[test]
    fn rtp_key_frames_found_despite_packing() {
        let mut reader = RtpH264::default();
        let stap = [STAP_A, 0, 2, 0x67, 1, 0, 2, 0x68, 2];
        assert_eq!(
            reader.mark(&rtp(1, false, &stap)),
            FrameMarks { parameters: true, frame: 1, ..FrameMarks::default() }
        );
        let fragment = |head, ends| rtp(1, ends, &[0x60 | FU_A, head, 7, 7]);
        let key = FrameMarks { key_frame: true, frame: 1, ..FrameMarks::default() };
        assert_eq!(reader.mark(&fragment(0x80 | IDR, false)), key);
        let within = FrameMarks { frame: 1, ..FrameMarks::default() };
        assert_eq!(reader.mark(&fragment(IDR, false)), within);
        assert_eq!(reader.mark(&fragment(0x80 | IDR, false)), within, "a second slice");
        assert_eq!(reader.mark(&fragment(0x40 | IDR, true)), FrameMarks { frame_end: true, ..within });
        assert_eq!(
            reader.mark(&rtp(2, true, &[0x41])),
            FrameMarks { frame_end: true, frame: 2, ..FrameMarks::default() }
        );
        let whole = reader.mark(&rtp(3, true, &[0x65, 1, 2]));
        assert_eq!(whole, FrameMarks { key_frame: true, frame_end: true, frame: 3, parameters: false });
        let together = [&stap[..], &[0, 2, 0x65, 1]].concat();
        let all = FrameMarks { key_frame: true, parameters: true, frame: 4, frame_end: false };
        assert_eq!(reader.mark(&rtp(4, false, &together)), all);
    }

    proptest! {
        #[test]
        fn any_bytes_are_marked(mut datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 0..8)) {
            let (mut stream, mut rtp) = (TransportStream::default(), RtpH264::default());
            for datagram in &mut datagrams {
                rtp.mark(datagram);
                datagram.iter_mut().step_by(ts::PACKET_BYTES).for_each(|byte| *byte = ts::SYNC);
                prop_assert!(stream.before_key_frame(datagram) <= datagram.len());
                stream.mark(datagram);
            }
        }
    }
}
