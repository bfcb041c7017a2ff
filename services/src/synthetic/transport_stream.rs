//! A valid MPEG transport stream without pictures: program tables and null
//! packets that carry their number.

use bytes::{BufMut, Bytes, BytesMut};

use crate::pace::Slot;
use crate::video::ts::{NULL_PID, PACKET_BYTES, PACKETS_PER_DATAGRAM, SYNC};

/// The tables come again after this many datagrams: ten times a second at 66
/// datagrams a second, the pace that broadcasters keep.
const TABLES_EVERY: u64 = 6;

const PROGRAM_PID: u16 = 0x0100;

/// Makes the datagram of `slot`: six transport packets, cut to the slot's size.
pub(super) fn datagram(slot: Slot) -> Bytes {
    let mut out = BytesMut::with_capacity(PACKETS_PER_DATAGRAM * PACKET_BYTES);
    if slot.sequence.is_multiple_of(TABLES_EVERY) {
        let counter = slot.sequence / TABLES_EVERY;
        put_section(&mut out, 0, counter, &program_association());
        put_section(&mut out, PROGRAM_PID, counter, &program());
    }
    let mut number = slot.sequence * PACKETS_PER_DATAGRAM as u64;
    while out.len() < PACKETS_PER_DATAGRAM * PACKET_BYTES {
        put_null(&mut out, number);
        number += 1;
    }
    out.truncate(slot.bytes as usize);
    out.freeze()
}

/// Appends a null packet. Receivers skip its content; it repeats the packet's number, so that a test can tell
/// packets apart.
fn put_null(out: &mut BytesMut, number: u64) {
    out.put_slice(&header(NULL_PID, 0));
    for _ in 0..(PACKET_BYTES - 4) / 8 {
        out.put_u64(number);
    }
}

fn put_section(out: &mut BytesMut, pid: u16, counter: u64, section: &[u8]) {
    let start = out.len();
    out.put_slice(&header(UNIT_START | pid, counter));
    out.put_u8(0); // the section starts right here
    out.put_slice(section);
    out.resize(start + PACKET_BYTES, 0xff);
}

/// The flag beside a pid that a section starts in the packet.
const UNIT_START: u16 = 0x4000;

fn header(pid_with_flags: u16, counter: u64) -> [u8; 4] {
    let [high, low] = pid_with_flags.to_be_bytes();
    [SYNC, high, low, 0x10 | (counter & 0x0f) as u8]
}

/// Program association table: program 1 is described at [`PROGRAM_PID`].
fn program_association() -> Vec<u8> {
    let [high, low] = PROGRAM_PID.to_be_bytes();
    section(0x00, &[0x00, 0x01, 0xe0 | high, low])
}

/// Program map table: no clock, and one stream of private data.
fn program() -> Vec<u8> {
    let [high, low] = (PROGRAM_PID + 1).to_be_bytes();
    section(0x02, &[0xe0 | (NULL_PID >> 8) as u8, NULL_PID as u8, 0xf0, 0x00, 0x06, 0xe0 | high, low, 0xf0, 0x00])
}

/// Wraps a table in a section of one part, with table id extension 1 and version 0.
fn section(table: u8, body: &[u8]) -> Vec<u8> {
    let length = 5 + body.len() + 4; // from after the length field to the checksum; far below 256
    let mut out = vec![table, 0xb0, length as u8, 0x00, 0x01, 0xc1, 0x00, 0x00];
    out.extend_from_slice(body);
    out.extend_from_slice(&checksum(&out).to_be_bytes());
    out
}

/// CRC-32 of ISO/IEC 13818-1, annex A.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pace::Schedule;

    #[test]
    fn packets_sync_and_tables_verify() {
        let stream: Vec<u8> = Schedule::new(700_000, 1128, Duration::from_secs(1)).flat_map(datagram).collect();
        assert_eq!(stream.len(), 87_500);
        assert!(stream.chunks(PACKET_BYTES).all(|packet| packet[0] == SYNC));
        assert_eq!(checksum(&program_association()), 0);
        assert_eq!(checksum(&program()), 0);
    }

    #[test]
    fn checksum_matches_standard() {
        assert_eq!(checksum(b"123456789"), 0x0376_e6e7);
    }

    #[test]
    fn datagrams_differ() {
        let mut slots = Schedule::new(700_000, 1128, Duration::from_secs(1)).skip(1);
        assert_ne!(slots.next().map(datagram), slots.next().map(datagram));
    }
}
