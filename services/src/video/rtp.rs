//! RTP packets (RFC 3550, section 5.1) and their session description.

use std::net::SocketAddr;
use std::time::Duration;

use super::rtcp::is_control;
use crate::format;

/// The static payload type of MPEG transport streams (RFC 3551).
pub const MP2T: u8 = 33;

const HEADER_BYTES: usize = 12;

/// The fields of an RTP packet that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    pub payload_type: u8,
    pub source: u32,
    /// The payload without header, extension and padding.
    pub payload: &'a [u8],
}

/// Parses `datagram`; `None` if it is not RTP of version 2, or if it is RTCP.
pub fn parse(datagram: &[u8]) -> Option<Packet<'_>> {
    let (header, mut rest) = datagram.split_at_checked(HEADER_BYTES)?;
    if header[0] >> 6 != 2 || is_control(datagram) {
        return None;
    }
    rest = rest.get(usize::from(header[0] & 0x0f) * 4..)?;
    if header[0] & 0x10 != 0 {
        let length = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
        rest = rest.get(4 + length * 4..)?;
    }
    if header[0] & 0x20 != 0 {
        let padding = usize::from(*rest.last()?);
        rest = rest.get(..rest.len().checked_sub(padding)?)?;
    }
    let source = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    Some(Packet { payload_type: header[1] & 0x7f, source, payload: rest })
}

/// Packs an MPEG transport stream into RTP (RFC 2250, section 2).
#[derive(Clone, Debug)]
pub struct Packer {
    source: u32,
    sequence: u16,
    timestamp: u32,
}

impl Packer {
    /// The seed gives the SSRC, the first sequence number and the first timestamp; RFC 3550 requires random
    /// ones.
    pub const fn new(seed: [u8; 10]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j] = seed;
        Self {
            source: u32::from_be_bytes([a, b, c, d]),
            timestamp: u32::from_be_bytes([e, f, g, h]),
            sequence: u16::from_be_bytes([i, j]),
        }
    }

    /// Replaces `packet` with an RTP packet of `payload`, sent `since_start` after the start.
    pub fn pack(&mut self, since_start: Duration, payload: &[u8], packet: &mut Vec<u8>) {
        // The clock of 90 kHz wraps after 13 hours.
        let ticks = (since_start.as_nanos() * 9 / 100_000) as u32;
        packet.clear();
        packet.extend_from_slice(&[0x80, MP2T]);
        packet.extend_from_slice(&self.sequence.to_be_bytes());
        packet.extend_from_slice(&self.timestamp.wrapping_add(ticks).to_be_bytes());
        packet.extend_from_slice(&self.source.to_be_bytes());
        packet.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
    }
}

/// Writes a session description (SDP, RFC 8866) for players at `to`, from the first datagram of the stream;
/// `None` for a format that does not go over RTP.
pub fn describe(format: &str, to: SocketAddr, first: &[u8]) -> Option<String> {
    let (payload_type, attributes) = match format {
        format::MPEG_TS => (MP2T, format!("a=rtpmap:{MP2T} MP2T/90000\r\n")),
        format::RTP_H264 => {
            let number = parse(first)?.payload_type;
            let mode = format!("a=fmtp:{number} packetization-mode=1\r\n");
            (number, format!("a=rtpmap:{number} H264/90000\r\n{mode}"))
        }
        _ => return None,
    };
    let (ip, port) = (to.ip(), to.port());
    let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
    let hops = if ip.is_multicast() && ip.is_ipv4() { "/1" } else { "" };
    Some(format!(
        "v=0\r\no=- 0 0 IN {family} {ip}\r\ns=Roost\r\nc=IN {family} {ip}{hops}\r\nt=0 0\r\n\
         m=video {port} RTP/AVP {payload_type}\r\n{attributes}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(first: u8, second: u8, rest: &[u8]) -> Vec<u8> {
        [&[first, second, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0][..], rest].concat()
    }

    #[test]
    fn rtp_extras_are_stripped() {
        let plain = packet(0x80, 0x80 | MP2T, b"data");
        assert_eq!(parse(&plain), Some(Packet { payload_type: MP2T, source: 0, payload: b"data" }));
        let full = packet(0xb1, 96, b"CSRC\0\0\0\x01EXT!data\0\x02");
        assert_eq!(parse(&full).unwrap().payload, b"data");
    }

    #[test]
    fn what_is_not_rtp_is_none() {
        assert_eq!(parse(b"short"), None);
        assert_eq!(parse(&packet(0x40, MP2T, b"data")), None);
        assert_eq!(parse(&packet(0x80, 200, b"rtcp")), None);
        assert_eq!(parse(&packet(0x8f, 33, b"too few sources")), None);
        assert_eq!(parse(&packet(0xa0, 33, b"\xff")), None);
    }

    #[test]
    fn players_are_told_what_comes() {
        let to = SocketAddr::from(([127, 0, 0, 1], 5004));
        let sdp = describe(format::MPEG_TS, to, b"").unwrap();
        assert!(sdp.contains("c=IN IP4 127.0.0.1\r\n") && sdp.contains("m=video 5004 RTP/AVP 33\r\n"), "{sdp}");
        let sdp = describe(format::RTP_H264, to, &packet(0x80, 97, b"data")).unwrap();
        assert!(sdp.contains("m=video 5004 RTP/AVP 97\r\na=rtpmap:97 H264/90000\r\n"), "{sdp}");
        assert_eq!(describe(format::JSON_LINES, to, b"{}"), None);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read(
            seed in any::<[u8; 10]>(),
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..400), 2..20),
        ) {
            let (mut packer, mut packet, mut numbers) = (Packer::new(seed), Vec::new(), Vec::new());
            for (second, payload) in payloads.iter().enumerate() {
                packer.pack(Duration::from_secs(second as u64), payload, &mut packet);
                let read = parse(&packet).map(|read| (read.payload_type, read.payload));
                prop_assert_eq!(read, Some((MP2T, &payload[..])));
                let timestamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
                numbers.push((u16::from_be_bytes([packet[2], packet[3]]), timestamp));
            }
            for pair in numbers.windows(2) {
                prop_assert_eq!((pair[1].0.wrapping_sub(pair[0].0), pair[1].1.wrapping_sub(pair[0].1)), (1, 90_000));
            }
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
        }
    }
}
