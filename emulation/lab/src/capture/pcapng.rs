//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng), in little-endian order.

const LINK_TYPE: u16 = 1;
const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const STATISTICS: u32 = 5;

const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const PACKET_NUMBER: u16 = 5;
const STATISTICS_DROPPED: u16 = 5;

/// The resolution of times: 10 to the minus ninth of a second.
const NANOSECONDS: u8 = 9;

/// The end of a direction at which a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketEnd {
    /// Into the link, which the format calls inbound.
    Entered,
    Left,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PacketBlock<'a> {
    pub(super) interface: u32,
    pub(super) unix_ns: u64,
    pub(super) end: PacketEnd,
    pub(super) number: u64,
    /// The length of the frame, of which `bytes` is the beginning.
    pub(super) length: u32,
    pub(super) bytes: &'a [u8],
    pub(super) comment: Option<&'a str>,
}

#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    /// The upper half of the time comes first.
    fn time(&mut self, unix_ns: u64) {
        self.u32((unix_ns >> 32) as u32);
        self.u32(unix_ns as u32);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Comments and names are short.
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }

    fn write(mut self, kind: u32, to: &mut Vec<u8>) {
        self.u32(0);
        // A type, this length twice, and the body, which is much shorter than 4 GiB.
        let length = (self.0.len() + 12) as u32;
        to.extend(kind.to_le_bytes());
        to.extend(length.to_le_bytes());
        to.extend(self.0);
        to.extend(length.to_le_bytes());
    }
}

/// The beginning of a file: the section, and the interfaces in their order.
pub(super) fn header(interfaces: &[String], snap: u32, comment: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let mut section = Body::default();
    section.u32(BYTE_ORDER);
    section.u16(1);
    section.u16(0);
    // The length of the section is unknown.
    section.0.extend(u64::MAX.to_le_bytes());
    section.option(SECTION_APPLICATION, concat!("emulate ", env!("CARGO_PKG_VERSION")).as_bytes());
    section.option(COMMENT, comment.as_bytes());
    section.write(SECTION, &mut text);
    for name in interfaces {
        let mut interface = Body::default();
        interface.u16(LINK_TYPE);
        interface.u16(0);
        interface.u32(snap);
        interface.option(INTERFACE_NAME, name.as_bytes());
        interface.option(INTERFACE_RESOLUTION, &[NANOSECONDS]);
        interface.write(INTERFACE, &mut text);
    }
    text
}

pub(super) fn packet(packet: &PacketBlock<'_>, to: &mut Vec<u8>) {
    let mut body = Body(Vec::with_capacity(packet.bytes.len() + 64));
    body.u32(packet.interface);
    body.time(packet.unix_ns);
    body.u32(packet.bytes.len() as u32);
    body.u32(packet.length);
    body.padded(packet.bytes);
    let flags: u32 = match packet.end {
        PacketEnd::Entered => 1,
        PacketEnd::Left => 2,
    };
    body.option(PACKET_FLAGS, &flags.to_le_bytes());
    body.option(PACKET_NUMBER, &packet.number.to_le_bytes());
    if let Some(comment) = packet.comment {
        body.option(COMMENT, comment.as_bytes());
    }
    body.write(PACKET, to);
}

/// The end of an interface: the packets that are not in the file.
pub(super) fn statistics(interface: u32, unix_ns: u64, not_written: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let mut body = Body::default();
    body.u32(interface);
    body.time(unix_ns);
    body.option(STATISTICS_DROPPED, &not_written.to_le_bytes());
    body.write(STATISTICS, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_length_at_both_ends() {
        let mut text = header(&["net a to-net".to_owned(), "é".to_owned()], 96, "a comment");
        for length in 0..9 {
            let bytes = vec![7; length];
            let comment = (length % 2 == 0).then_some("dropped: queue");
            let (unix_ns, end) = (u64::MAX - 1, PacketEnd::Left);
            let block = PacketBlock { interface: 1, unix_ns, end, number: 3, length: 1514, bytes: &bytes, comment };
            packet(&block, &mut text);
        }
        text.extend(statistics(0, 5, 2));
        let (mut at, mut kinds) = (0, Vec::new());
        let word = |at: usize| u32::from_le_bytes(text[at..at + 4].try_into().unwrap());
        while at < text.len() {
            let length = word(at + 4) as usize;
            assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
            kinds.push(word(at));
            at += length;
        }
        assert_eq!(kinds, [vec![SECTION, 1, 1], vec![PACKET; 9], vec![STATISTICS]].concat());
    }
}
