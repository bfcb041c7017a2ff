//! Parsing of MPEG transport packets (ISO/IEC 13818-1), enough to pace a file by its clock.

use std::time::Duration;

/// Size of a transport packet, in bytes.
pub const PACKET_BYTES: usize = 188;

/// Transport packets in a datagram: the most that fit an Ethernet frame, and the usual number.
pub const PACKETS_PER_DATAGRAM: usize = 6;

pub const SYNC: u8 = 0x47;

pub const NULL_PID: u16 = 0x1fff;

/// The fields of a packet's header that pacing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Packet identifier, 13 bits.
    pub pid: u16,
    /// The programme clock, if the packet has one.
    pub clock: Option<Clock>,
    /// True if the clock starts again here.
    pub discontinuity: bool,
}

/// Programme clock reference, ticks of 27 MHz, below [`Clock::WRAP`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(u64);

impl Clock {
    /// The clock wraps to 0 here, after 26.5 hours.
    pub const WRAP: u64 = (1 << 33) * 300;

    /// The time from `earlier` to this, across a wrap if there was one.
    pub fn since(self, earlier: Self) -> Duration {
        let ticks = (self.0 + Self::WRAP - earlier.0) % Self::WRAP;
        // Below 2^42, so that the product stays below 2^63.
        Duration::from_nanos(ticks * 1_000 / 27)
    }
}

/// Parses a packet's header; `None` if `packet` is no transport packet.
pub fn header(packet: &[u8]) -> Option<Header> {
    let packet: &[u8; PACKET_BYTES] = packet.try_into().ok()?;
    if packet[0] != SYNC {
        return None;
    }
    let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
    let has_adaptation = packet[3] & 0x20 != 0;
    let (length, flags) = if has_adaptation { (packet[4], packet[5]) } else { (0, 0) };
    let flags = if length == 0 { 0 } else { flags };
    let clock = (flags & 0x10 != 0 && length >= 7).then(|| clock(&packet[6..12]));
    Some(Header { pid, clock, discontinuity: flags & 0x80 != 0 })
}

fn clock(field: &[u8]) -> Clock {
    let bits = field.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let (base, extension) = (bits >> 15, bits & 0x1ff);
    Clock((base * 300 + extension) % Clock::WRAP)
}

/// True if a datagram consists of whole transport packets.
pub fn is_datagram(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len().is_multiple_of(PACKET_BYTES) && bytes.chunks(PACKET_BYTES).all(|p| p[0] == SYNC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(pid: u16, ticks: Option<u64>) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let mut out = vec![SYNC, high, low, 0x10];
        if let Some(ticks) = ticks {
            let bits = ((ticks / 300) << 15) | 0x7e00 | (ticks % 300);
            out[3] = 0x30;
            out.extend_from_slice(&[7, 0x10]);
            out.extend_from_slice(&bits.to_be_bytes()[2..]);
        }
        out.resize(PACKET_BYTES, 0xff);
        out
    }

    #[test]
    fn reads_identifier_and_clock() {
        let header = header(&packet(0x100, Some(27_000_123))).unwrap();
        assert_eq!(header, Header { pid: 0x100, clock: Some(Clock(27_000_123)), discontinuity: false });
        assert_eq!(super::header(&packet(NULL_PID, None)).unwrap().clock, None);
    }

    #[test]
    fn a_clock_wraps() {
        assert_eq!(Clock(26_999_900).since(Clock(Clock::WRAP - 100)), Duration::from_secs(1));
        assert_eq!(Clock(27_000_000).since(Clock(0)), Duration::from_secs(1));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = (header(&bytes), is_datagram(&bytes));
        }

        #[test]
        fn synced_packet_has_header(mut bytes in proptest::collection::vec(any::<u8>(), PACKET_BYTES)) {
            bytes[0] = SYNC;
            prop_assert!(header(&bytes).is_some_and(|header| header.pid <= NULL_PID));
        }

        #[test]
        fn clocks_survive(ticks in 0..Clock::WRAP) {
            prop_assert_eq!(header(&packet(7, Some(ticks))).unwrap().clock, Some(Clock(ticks)));
        }
    }
}
