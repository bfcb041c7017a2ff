//! A video with numbered datagrams: a transport stream without pictures, and its analysis at a receiver.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::load::{Load, PacketSender};
use crate::tally::Arrivals;

const PACKET_BYTES: usize = 188;
pub(super) const DATAGRAM_BYTES: usize = 7 * PACKET_BYTES;
/// The interval of datagrams: 1.3 Mbit/s.
pub(super) const INTERVAL: Duration = Duration::from_millis(8);
/// The interval of key frames, in datagrams: two seconds.
pub(super) const KEY_EVERY: u64 = 250;
/// Datagrams of a key frame, and of other frames.
const KEY_DATAGRAMS: u64 = 10;
const FRAME_DATAGRAMS: u64 = 5;
/// The port at which the provider's daemon receives it.
pub(super) const PORT: u16 = 5004;

/// Longer than any case.
const ENDLESS: Duration = Duration::from_secs(3600);

const TABLE_PID: u16 = 0x100;
const VIDEO_PID: u16 = 0x101;
const NULL_PID: u16 = 0x1fff;
/// H.264: sequence and picture parameter sets and a key picture; and another picture.
const KEY_UNITS: [u8; 15] = [0, 0, 1, 0x67, 0, 0, 0, 1, 0x68, 0, 0, 0, 1, 0x65, 0];
const OTHER_UNITS: [u8; 5] = [0, 0, 1, 0x41, 0];
/// The header of a packet of the elementary stream, without time stamps.
const ELEMENTARY: [u8; 9] = [0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0];
/// A single programme, whose table has one stream, of H.264. Nobody here verifies the checksum.
const PROGRAMMES: [u8; 17] = [0, 0x00, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 0x00, 0, 0, 0, 0];
const STREAMS: [u8; 22] =
    [0, 0x02, 0xb0, 18, 0, 1, 0xc1, 0, 0, 0xe1, 0x01, 0xf0, 0, 0x1b, 0xe1, 0x01, 0xf0, 0, 0, 0, 0, 0];

/// The sending to the calling host's provider.
struct VideoSender<'a> {
    socket: UdpSocket,
    sent: &'a AtomicU64,
}

/// Sends it until it is `over`, and counts in `sent`.
pub(super) fn send(over: &AtomicBool, sent: &AtomicU64) -> io::Result<()> {
    let mut sender = VideoSender { socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, sent };
    let rate = Some(1.0 / INTERVAL.as_secs_f64());
    let load = Load { begin: Instant::now(), length: ENDLESS, rate, burst: 1, stop: over };
    load.generate(&mut sender).map(drop)
}

impl PacketSender for VideoSender<'_> {
    fn send(&mut self, number: u64, _count: u64, _due: Instant) -> io::Result<u64> {
        // Nobody receives it before the first subscription.
        let _ = self.socket.send_to(&datagram(number), (Ipv4Addr::LOCALHOST, PORT));
        self.sent.store(number + 1, Relaxed);
        Ok(1)
    }
}

fn datagram(number: u64) -> Vec<u8> {
    let place = number % KEY_EVERY;
    let mut out = Vec::with_capacity(DATAGRAM_BYTES);
    if place == 0 {
        put(&mut out, 0, true, &[], &PROGRAMMES);
        put(&mut out, TABLE_PID, true, &[], &STREAMS);
        // The adaptation field marks a random access point.
        put(&mut out, VIDEO_PID, true, &[1, 0x40], &[&ELEMENTARY[..], &KEY_UNITS].concat());
    } else if place >= KEY_DATAGRAMS && place.is_multiple_of(FRAME_DATAGRAMS) {
        put(&mut out, VIDEO_PID, true, &[], &[&ELEMENTARY[..], &OTHER_UNITS].concat());
    }
    while out.len() < DATAGRAM_BYTES - PACKET_BYTES {
        put(&mut out, VIDEO_PID, false, &[], &[]);
    }
    put(&mut out, NULL_PID, false, &[], &number.to_be_bytes());
    out
}

fn put(out: &mut Vec<u8>, pid: u16, starts: bool, adaptation: &[u8], payload: &[u8]) {
    let [high, low] = pid.to_be_bytes();
    let control = if adaptation.is_empty() { 0x10 } else { 0x30 };
    let end = out.len() + PACKET_BYTES;
    out.extend_from_slice(&[0x47, high | u8::from(starts) << 6, low, control]);
    out.extend_from_slice(adaptation);
    out.extend_from_slice(payload);
    out.resize(end, 0xff);
}

/// The numbers of datagrams that arrived together.
pub(super) fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(DATAGRAM_BYTES).filter_map(|datagram| {
        let number = datagram.get(DATAGRAM_BYTES - PACKET_BYTES + 4..)?.first_chunk()?;
        Some(u64::from_be_bytes(*number))
    })
}

/// The arrivals of datagrams, and of the first key frame with its parameter sets.
#[derive(Debug)]
pub(super) struct VideoArrivals {
    began: Instant,
    pub(super) tally: Arrivals,
    /// Datagrams of the latest key frame that have not come.
    wanted: Vec<u64>,
    pub(super) first_picture: Option<Instant>,
}

impl VideoArrivals {
    pub(super) fn since(began: Instant) -> Self {
        Self { began, tally: Arrivals::default(), wanted: Vec::new(), first_picture: None }
    }

    pub(super) fn record_datagrams(&mut self, now: Instant, bytes: &[u8]) {
        for number in numbers(bytes) {
            self.tally.record(number, DATAGRAM_BYTES, now - self.began);
            if number.is_multiple_of(KEY_EVERY) {
                self.wanted = (number..number + KEY_DATAGRAMS).collect();
            }
            let before = self.wanted.len();
            self.wanted.retain(|one| *one != number);
            if before == 1 && self.wanted.is_empty() {
                self.first_picture.get_or_insert(now);
            }
        }
    }

    /// The longest gap between datagrams since the last call.
    pub(super) fn take_gap(&mut self, now: Instant) -> Duration {
        self.tally.take_gap(now - self.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(numbers: impl IntoIterator<Item = u64>) -> (Instant, VideoArrivals) {
        let began = Instant::now();
        let mut arrivals = VideoArrivals::since(began);
        for (count, number) in (0..).zip(numbers) {
            arrivals.record_datagrams(began + INTERVAL * count, &datagram(number));
        }
        (began, arrivals)
    }

    #[test]
    fn datagram_size_and_number_are_kept() {
        for number in [0, 1, 10, 249, 250, u64::MAX] {
            let bytes = datagram(number);
            assert_eq!((bytes.len(), numbers(&bytes).collect::<Vec<_>>()), (DATAGRAM_BYTES, vec![number]));
            assert!(bytes.chunks(PACKET_BYTES).all(|packet| packet[0] == 0x47));
        }
    }

    #[test]
    fn picture_needs_whole_key_frame() {
        let (began, middle) = arrivals(240..300);
        assert_eq!(middle.first_picture, Some(began + INTERVAL * 19));
        let (_, torn) = arrivals((240..255).chain(256..499));
        assert_eq!(torn.first_picture, None);
    }

    #[test]
    fn lost_and_duplicated_are_counted() {
        let (began, mut some) = arrivals([3, 4, 4, 7, 6, 10]);
        assert_eq!((some.tally.missing(), some.tally.duplicated), (3, 1));
        assert_eq!(some.take_gap(began + INTERVAL * 5), INTERVAL * 2);
    }
}
