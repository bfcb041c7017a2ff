//! The header of RTP packets (RFC 3550, section 5.1).

/// The static payload type of MPEG transport streams (RFC 3551).
pub const MP2T: u8 = 33;

const HEADER_BYTES: usize = 12;

/// What of an RTP packet matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What the payload is.
    pub payload_type: u8,
    /// Without header, extension and padding.
    pub payload: &'a [u8],
}

/// The packet in `datagram`; `None` if it is not RTP of version 2, or RTCP.
pub fn parse(datagram: &[u8]) -> Option<Packet<'_>> {
    let (header, mut rest) = datagram.split_at_checked(HEADER_BYTES)?;
    if header[0] >> 6 != 2 || (192..=223).contains(&header[1]) {
        return None; // RFC 5761: second bytes that mean RTCP
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
    Some(Packet { payload_type: header[1] & 0x7f, payload: rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(first: u8, second: u8, rest: &[u8]) -> Vec<u8> {
        [&[first, second, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0][..], rest].concat()
    }

    #[test]
    fn header_extension_sources_and_padding_come_off() {
        let plain = packet(0x80, 0x80 | MP2T, b"data");
        assert_eq!(parse(&plain), Some(Packet { payload_type: MP2T, payload: b"data" }));
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

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
        }
    }
}
