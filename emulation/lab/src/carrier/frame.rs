//! Ethernet frames: their buffers, and the header fields that the carrier reads.

use std::net::Ipv4Addr;
use std::sync::Arc;

use roost_netcore::HEADER_BYTES;

/// The longest frame that is carried: 1500 bytes of payload, the header, and two VLAN tags.
pub const MAX_FRAME_BYTES: usize = 1522;

/// A large buffer. It is longer than the longest frame, so that a longer one is noticed.
const LARGE_BYTES: usize = 1536;
/// A small buffer: acknowledgements, requests, voice. A frame that fits is copied here, so that many small
/// frames in flight take little memory.
const SMALL_BYTES: usize = 256;
/// Free buffers of each size that are kept: 6 MiB and 1 MiB.
const MAX_FREE: usize = 4096;

const TYPE_ARP: u16 = 0x0806;
const TYPE_IPV6: u16 = 0x86dd;
const ARP_BYTES: usize = 28;
/// An Ethernet header and an ARP body.
pub(super) const ARP_FRAME_BYTES: usize = HEADER_BYTES + ARP_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The address of the interface with this IPv4 address: `02:00` (locally administered, unicast) and the
    /// four bytes, so that no table is needed to translate.
    pub const fn from_ipv4(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self([2, 0, a, b, c, d])
    }

    /// The IPv4 address in it, if it is one of [`from_ipv4`](Self::from_ipv4).
    pub const fn address(self) -> Option<Ipv4Addr> {
        match self.0 {
            [2, 0, a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d)),
            _ => None,
        }
    }

    /// True if it names a group or everyone.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

/// An Ethernet frame in flight. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct CarrierFrame {
    buffer: Arc<[u8]>,
    bytes: u16,
}

impl CarrierFrame {
    /// The frame's bytes, header first.
    pub fn bytes(&self) -> &[u8] {
        // Never longer than its buffer: `FramePool` makes both.
        self.buffer.get(..usize::from(self.bytes)).unwrap_or_default()
    }
}

/// A pool of buffers, so that carrying a frame allocates nothing.
#[derive(Debug)]
pub(super) struct FramePool {
    large: Vec<Arc<[u8]>>,
    small: Vec<Arc<[u8]>>,
    /// The buffer for the next frame, which nobody else holds.
    next: Arc<[u8]>,
}

impl FramePool {
    pub(super) fn new() -> Self {
        Self { large: Vec::new(), small: Vec::new(), next: buffer(LARGE_BYTES) }
    }

    /// The buffer to read the next frame into. It is longer than any frame that is carried.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if Arc::get_mut(&mut self.next).is_none() {
            self.next = self.large.pop().unwrap_or_else(|| buffer(LARGE_BYTES));
        }
        // Buffers in `large` have no other holder (see `give_back`), and new ones have none either.
        Arc::get_mut(&mut self.next).unwrap_or_default()
    }

    /// Turns the first bytes of [`space`](Self::space) into a frame.
    pub(super) fn take_frame(&mut self, bytes: usize) -> CarrierFrame {
        let length = bytes.min(LARGE_BYTES) as u16;
        if bytes > SMALL_BYTES {
            let fresh = self.large.pop().unwrap_or_else(|| buffer(LARGE_BYTES));
            return CarrierFrame { buffer: std::mem::replace(&mut self.next, fresh), bytes: length };
        }
        let mut small = self.small.pop().unwrap_or_else(|| buffer(SMALL_BYTES));
        if let Some(to) = Arc::get_mut(&mut small) {
            to[..bytes].copy_from_slice(&self.next[..bytes]);
        }
        CarrierFrame { buffer: small, bytes: length }
    }

    /// Keeps the buffer of a delivered frame, unless another receiver still needs it.
    pub(super) fn give_back(&mut self, frame: CarrierFrame) {
        let mut buffer = frame.buffer;
        let free = if buffer.len() == LARGE_BYTES { &mut self.large } else { &mut self.small };
        if free.len() < MAX_FREE && Arc::get_mut(&mut buffer).is_some() {
            free.push(buffer);
        }
    }
}

fn buffer(bytes: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, bytes).collect()
}

/// The kinds of frames that the carrier distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CarrierFrameKind {
    /// A request for an address: answered at once.
    ArpRequest {
        asked: Ipv4Addr,
        sender: Ipv4Addr,
        sender_mac: Mac,
    },
    /// Other ARP: announcements and answers, which nobody waits for.
    ArpOther,
    /// IPv6, which is off: hosts send it of their own accord.
    Ipv6,
    Unicast(Mac),
    Group,
    /// Too short or too long.
    Malformed,
}

/// Reads the fields needed to carry a frame: its receiver, or the question if it is ARP.
pub(super) fn classify(frame: &[u8]) -> CarrierFrameKind {
    let Some((to, ethertype)) = header(frame) else { return CarrierFrameKind::Malformed };
    match ethertype {
        _ if frame.len() > MAX_FRAME_BYTES => CarrierFrameKind::Malformed,
        TYPE_ARP => arp(&frame[HEADER_BYTES..]),
        TYPE_IPV6 => CarrierFrameKind::Ipv6,
        _ if to.is_group() => CarrierFrameKind::Group,
        _ => CarrierFrameKind::Unicast(to),
    }
}

fn header(frame: &[u8]) -> Option<(Mac, u16)> {
    let (to, rest) = frame.split_first_chunk::<6>()?;
    let (_from, rest) = rest.split_first_chunk::<6>()?;
    let (ethertype, _) = rest.split_first_chunk::<2>()?;
    Some((Mac(*to), u16::from_be_bytes(*ethertype)))
}

/// Parses an ARP body (RFC 826) for IPv4 on Ethernet.
fn arp(body: &[u8]) -> CarrierFrameKind {
    let Some(body) = body.first_chunk::<ARP_BYTES>() else { return CarrierFrameKind::Malformed };
    if body[..6] != [0, 1, 8, 0, 6, 4] {
        return CarrierFrameKind::Malformed;
    }
    let address = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
    let (sender, asked) = (address(14), address(24));
    // A request for the sender's own address is only an announcement.
    if body[6..8] != [0, 1] || sender == asked {
        return CarrierFrameKind::ArpOther;
    }
    let mac = Mac([body[8], body[9], body[10], body[11], body[12], body[13]]);
    CarrierFrameKind::ArpRequest { asked, sender, sender_mac: mac }
}

/// The answer to an ARP request: `asked` has the [`Mac`] of its own address.
pub(super) fn arp_answer(asked: Ipv4Addr, sender: Ipv4Addr, sender_mac: Mac) -> [u8; ARP_FRAME_BYTES] {
    let target = ArpAddresses { mac: sender_mac, ip: sender };
    arp_frame(sender_mac, 2, ArpAddresses { mac: Mac::from_ipv4(asked), ip: asked }, target)
}

struct ArpAddresses {
    mac: Mac,
    ip: Ipv4Addr,
}

fn arp_frame(to: Mac, operation: u8, sender: ArpAddresses, target: ArpAddresses) -> [u8; ARP_FRAME_BYTES] {
    let mut frame = [0; ARP_FRAME_BYTES];
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&sender.mac.0);
    frame[12..14].copy_from_slice(&TYPE_ARP.to_be_bytes());
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, operation]);
    frame[22..28].copy_from_slice(&sender.mac.0);
    frame[28..32].copy_from_slice(&sender.ip.octets());
    frame[32..38].copy_from_slice(&target.mac.0);
    frame[38..42].copy_from_slice(&target.ip.octets());
    frame
}

/// Frames for tests of the carrier.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    const TYPE_IPV4: u16 = 0x0800;

    /// An ARP request as a host sends it.
    pub(in crate::carrier) fn arp_request(from: Ipv4Addr, asked: Ipv4Addr) -> Vec<u8> {
        let sender = ArpAddresses { mac: Mac::from_ipv4(from), ip: from };
        arp_frame(Mac::BROADCAST, 1, sender, ArpAddresses { mac: Mac([0; 6]), ip: asked }).to_vec()
    }

    /// An IPv4 frame of `bytes` bytes in total; its content is `mark`.
    pub(in crate::carrier) fn ipv4(from: Ipv4Addr, to: Mac, bytes: usize, mark: u8) -> Vec<u8> {
        let mut frame = vec![mark; bytes.max(HEADER_BYTES)];
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&Mac::from_ipv4(from).0);
        frame[12..14].copy_from_slice(&TYPE_IPV4.to_be_bytes());
        frame
    }

    /// An IPv6 frame to a group, as a host sends it when an interface comes up.
    pub(in crate::carrier) fn ipv6(from: Ipv4Addr) -> Vec<u8> {
        let mut frame = ipv4(from, Mac([0x33, 0x33, 0, 0, 0, 2]), 70, 0);
        frame[12..14].copy_from_slice(&TYPE_IPV6.to_be_bytes());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
    const BOB: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 3);

    #[test]
    fn mac_round_trips_ipv4_address() {
        assert_eq!(Mac::from_ipv4(ANN), Mac([2, 0, 10, 1, 0, 2]));
        assert_eq!(Mac::from_ipv4(ANN).address(), Some(ANN));
        assert_eq!(Mac::BROADCAST.address(), None);
        assert!(Mac::BROADCAST.is_group() && !Mac::from_ipv4(ANN).is_group());
    }

    #[test]
    fn frames_are_told_apart() {
        let multicast = Mac([0x01, 0x00, 0x5e, 2, 3, 1]);
        let request = CarrierFrameKind::ArpRequest { asked: BOB, sender: ANN, sender_mac: Mac::from_ipv4(ANN) };
        assert_eq!(classify(&testing::arp_request(ANN, BOB)), request);
        assert_eq!(classify(&testing::arp_request(ANN, ANN)), CarrierFrameKind::ArpOther);
        assert_eq!(classify(&arp_answer(BOB, ANN, Mac::from_ipv4(ANN))), CarrierFrameKind::ArpOther);
        assert_eq!(classify(&testing::ipv6(ANN)), CarrierFrameKind::Ipv6);
        assert_eq!(
            classify(&testing::ipv4(ANN, Mac::from_ipv4(BOB), 100, 0)),
            CarrierFrameKind::Unicast(Mac::from_ipv4(BOB))
        );
        assert_eq!(classify(&testing::ipv4(ANN, multicast, 100, 0)), CarrierFrameKind::Group);
        assert_eq!(classify(&testing::ipv4(ANN, Mac::BROADCAST, 100, 0)), CarrierFrameKind::Group);
    }

    #[test]
    fn non_frames_are_malformed() {
        let request = testing::arp_request(ANN, BOB);
        for bytes in 0..request.len() {
            assert_eq!(classify(&request[..bytes]), CarrierFrameKind::Malformed, "{bytes} bytes");
        }
        assert_eq!(
            classify(&testing::ipv4(ANN, Mac::from_ipv4(BOB), MAX_FRAME_BYTES + 1, 0)),
            CarrierFrameKind::Malformed
        );
        let mut other_hardware = request;
        other_hardware[15] = 6;
        assert_eq!(classify(&other_hardware), CarrierFrameKind::Malformed);
    }

    #[test]
    fn arp_reply_names_requested_address() {
        let answer = arp_answer(BOB, ANN, Mac::from_ipv4(ANN));
        assert_eq!(answer[..6], Mac::from_ipv4(ANN).0);
        assert_eq!(answer[6..12], Mac::from_ipv4(BOB).0);
        assert_eq!(answer[20..22], [0, 2]);
        assert_eq!(answer[22..32], [2, 0, 10, 1, 0, 3, 10, 1, 0, 3]);
        assert_eq!(answer[32..42], [2, 0, 10, 1, 0, 2, 10, 1, 0, 2]);
    }

    #[test]
    fn buffers_are_reused_unless_shared() {
        let mut pool = FramePool::new();
        for bytes in [60, 1400] {
            pool.space()[..bytes].fill(7);
            let first = pool.take_frame(bytes);
            let second = first.clone();
            pool.give_back(first);
            pool.space()[..bytes].fill(8);
            let other = pool.take_frame(bytes);
            assert_eq!(second.bytes(), vec![7; bytes]);
            assert_eq!(other.bytes(), vec![8; bytes]);
            pool.give_back(second);
            pool.give_back(other);
        }
        assert_eq!((pool.small.len(), pool.large.len()), (2, 2));
        (0..9).for_each(|_| {
            let frame = pool.take_frame(1400);
            pool.give_back(frame);
        });
        assert_eq!((pool.small.len(), pool.large.len()), (2, 2));
    }
}
