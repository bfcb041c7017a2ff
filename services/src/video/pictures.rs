//! Whole pictures of H.264, out of the datagrams of a stream, for those that play them one by one.
//!
//! A picture that misses a datagram is left out. Each has its data as a decoder reads it: units after start codes
//! (ITU-T H.264, annex B), and before a key frame the parameter sets.

use bytes::Bytes;

use super::keyframes::{FU_A, H264_TYPE, IDR, PPS, SPS, STAP_A, TransportStream, UNIT_START, payload};
use super::{rtp, ts};
use crate::format;

/// The most bytes of a picture; a longer one is left out.
const MAX_PICTURE_BYTES: usize = 4 << 20;

/// Parameter sets are short; longer ones are not kept.
const MAX_PARAMETER_BYTES: usize = 1024;

const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// The start of a PES packet, up to the length of its optional header (ISO/IEC 13818-1, 2.4.3.6).
const PES_HEAD: usize = 9;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The time of its decoding, ticks of 90 kHz below 2^33.
    pub time: u64,
    pub is_key: bool,
    pub data: Bytes,
}

#[derive(Clone, Debug)]
pub struct Pictures {
    framing: Framing,
    /// The last sequence parameter set and picture parameter set.
    parameters: [Vec<u8>; 2],
}

#[derive(Clone, Debug)]
enum Framing {
    TransportStream { tables: Box<TransportStream>, units: Units, counter: Option<u8> },
    Rtp { units: Units, sequence: Option<u16> },
}

#[derive(Clone, Debug, Default)]
struct Units {
    time: u64,
    data: Vec<u8>,
    length: Option<usize>,
    /// False before the first picture, and once a part of this one is missing.
    is_whole: bool,
}

impl Pictures {
    /// A reader of a stream of this format; `None` if it has no H.264.
    pub fn for_format(format: &str) -> Option<Self> {
        let framing = match format {
            format::MPEG_TS => {
                Framing::TransportStream { tables: Box::default(), units: Units::default(), counter: None }
            }
            format::RTP_H264 => Framing::Rtp { units: Units::default(), sequence: None },
            _ => return None,
        };
        Some(Self { framing, parameters: [Vec::new(), Vec::new()] })
    }

    /// Reads the next datagram, and returns the pictures that are whole now.
    pub fn read(&mut self, datagram: &[u8]) -> Vec<Picture> {
        let mut done = Vec::new();
        match &mut self.framing {
            Framing::TransportStream { tables, units, counter } => {
                for packet in datagram.chunks_exact(ts::PACKET_BYTES) {
                    tables.mark(packet);
                    if tables.video().is_some_and(|(pid, kind)| kind == H264_TYPE && is_of(packet, pid)) {
                        read_packet(packet, units, counter, &mut done);
                    }
                }
            }
            Framing::Rtp { units, sequence } => read_rtp(datagram, units, sequence, &mut done),
        }
        done.into_iter().map(|units| self.finish(units)).collect()
    }

    /// Puts the last parameter sets before a key frame that comes without.
    fn finish(&mut self, units: Units) -> Picture {
        let (mut is_key, mut missing) = (false, [true, true]);
        for unit in units_of(&units.data) {
            match unit.first().map(|head| head & 0x1f) {
                Some(IDR) => is_key = true,
                Some(kind @ (SPS | PPS)) => {
                    let row = usize::from(kind - SPS);
                    missing[row] = false;
                    if unit.len() <= MAX_PARAMETER_BYTES {
                        self.parameters[row] = unit.to_vec();
                    }
                }
                _ => {}
            }
        }
        let mut data = Vec::with_capacity(units.data.len());
        let kept = self.parameters.iter().zip(missing).filter(|(set, missing)| *missing && is_key && !set.is_empty());
        for (set, _) in kept {
            data.extend_from_slice(&START_CODE);
            data.extend_from_slice(set);
        }
        data.extend_from_slice(&units.data);
        Picture { time: units.time, is_key, data: data.into() }
    }
}

impl Units {
    fn begin(&mut self, time: u64, length: Option<usize>) {
        self.time = time;
        self.length = length;
        self.data.clear();
        self.is_whole = true;
    }

    fn add(&mut self, data: &[u8]) {
        if self.data.len() + data.len() > MAX_PICTURE_BYTES {
            self.is_whole = false;
        }
        if self.is_whole {
            self.data.extend_from_slice(data);
        }
    }

    /// Gives the picture, if nothing of it is missing.
    fn end(&mut self) -> Option<Self> {
        let is_whole = std::mem::take(&mut self.is_whole);
        (is_whole && !self.data.is_empty()).then(|| std::mem::take(self))
    }
}

fn is_of(packet: &[u8], pid: u16) -> bool {
    ts::header(packet).is_some_and(|header| header.pid == pid)
}

/// Reads a transport packet of the video.
fn read_packet(packet: &[u8], units: &mut Units, counter: &mut Option<u8>, done: &mut Vec<Units>) {
    let Some(payload) = payload(packet) else { return };
    let number = packet[3] & 0x0f;
    match counter.replace(number) {
        // A packet may come twice.
        Some(before) if before == number => return,
        Some(before) if (before + 1) & 0x0f != number => units.is_whole = false,
        _ => {}
    }
    if packet[1] & UNIT_START == 0 {
        units.add(payload);
    } else {
        done.extend(units.end());
        if let Some((time, length, data)) = pes(payload) {
            units.begin(time, length);
            units.add(data);
        }
    }
    if units.length.is_some_and(|length| units.data.len() >= length) {
        done.extend(units.end());
    }
}

/// The time, the length of the data if it is told, and the data's begin in the first packet of a PES packet.
fn pes(payload: &[u8]) -> Option<(u64, Option<usize>, &[u8])> {
    let head = payload.get(..PES_HEAD).filter(|head| head[..3] == [0, 0, 1])?;
    let header_bytes = usize::from(head[8]);
    let fields = payload.get(PES_HEAD..PES_HEAD + header_bytes)?;
    // The time of decoding comes after that of showing, if they differ.
    let time = match head[7] >> 6 {
        0b10 => fields.get(..5)?,
        0b11 => fields.get(5..10)?,
        _ => return None,
    };
    let announced = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let length = announced.checked_sub(PES_HEAD - 6 + header_bytes).filter(|length| *length > 0);
    Some((time_stamp(time), length, &payload[PES_HEAD + header_bytes..]))
}

/// Reads the 33 bits of a time, which have marker bits in between.
fn time_stamp(field: &[u8]) -> u64 {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| u64::from(field[at]));
    (a >> 1 & 0x07) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1
}

fn read_rtp(datagram: &[u8], units: &mut Units, sequence: &mut Option<u16>, done: &mut Vec<Units>) {
    let Some(packet) = rtp::parse(datagram) else { return };
    let number = u16::from_be_bytes([datagram[2], datagram[3]]);
    let time = u64::from(u32::from_be_bytes([datagram[4], datagram[5], datagram[6], datagram[7]]));
    let is_next = sequence.is_none_or(|before| before.wrapping_add(1) == number);
    *sequence = Some(number);
    if !is_next {
        units.is_whole = false;
    }
    if units.time != time || units.data.is_empty() && !units.is_whole {
        done.extend(units.end());
        units.begin(time, None);
        // The begin of the picture may be what is missing.
        units.is_whole = is_next;
    }
    if !unpack(packet.payload, units) {
        units.is_whole = false;
    }
    let ends_picture = datagram[1] & 0x80 != 0;
    if ends_picture {
        done.extend(units.end());
    }
}

/// Adds the units of a payload (RFC 6184, section 5); false if it has none that can be used.
fn unpack(payload: &[u8], units: &mut Units) -> bool {
    let Some((&head, mut rest)) = payload.split_first() else { return false };
    match head & 0x1f {
        STAP_A => {
            while let [high, low, ..] = *rest {
                let length = usize::from(u16::from_be_bytes([high, low]));
                let Some(unit) = rest.get(2..2 + length) else { return false };
                units.add(&START_CODE);
                units.add(unit);
                rest = &rest[2 + length..];
            }
            true
        }
        FU_A => {
            let Some((&fragment, data)) = rest.split_first() else { return false };
            if fragment & 0x80 != 0 {
                units.add(&START_CODE);
                units.add(&[head & 0xe0 | fragment & 0x1f]);
            } else if units.data.is_empty() {
                return false;
            }
            units.add(data);
            true
        }
        1..STAP_A => {
            units.add(&START_CODE);
            units.add(payload);
            true
        }
        _ => false,
    }
}

/// The units of a picture, each from its header on, without the zeros before the next start code.
fn units_of(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts: Vec<usize> =
        data.windows(3).enumerate().filter(|(_, window)| *window == [0, 0, 1]).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([data.len()]).collect::<Vec<_>>();
    starts.into_iter().zip(ends).map(|(start, end)| {
        let unit = &data[start + 3..end];
        let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
        &unit[..unit.len() - zeros]
    })
}

#[cfg(test)]
mod tests;
