//! A video with numbered datagrams: a transport stream without pictures, and its analysis at a receiver.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

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

/// Sends it to the calling host's provider until it is `over`, and counts in `sent`.
pub(super) fn send(over: &AtomicBool, sent: &AtomicU64) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let began = Instant::now();
    while !over.load(Relaxed) {
        let number = sent.load(Relaxed);
        let due = INTERVAL.mul_f64(number as f64);
        thread::sleep(due.saturating_sub(began.elapsed()));
        // Nobody receives it before the first subscription.
        let _ = socket.send_to(&datagram(number), (Ipv4Addr::LOCALHOST, PORT));
        sent.store(number + 1, Relaxed);
    }
    Ok(())
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

/// The arrivals of datagrams with their times: a few thousand in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct VideoArrivals(Vec<(Instant, u64)>);

impl VideoArrivals {
    pub(super) fn record_datagrams(&mut self, now: Instant, bytes: &[u8]) {
        self.0.extend(numbers(bytes).map(|number| (now, number)));
    }

    pub(super) fn last(&self) -> Option<Instant> {
        self.0.last().map(|(at, _)| *at)
    }

    /// The time at which the first key frame was complete, with its parameter sets.
    pub(super) fn first_picture(&self) -> Option<Instant> {
        let mut wanted = Vec::new();
        self.0.iter().find_map(|(at, number)| {
            if number.is_multiple_of(KEY_EVERY) {
                wanted = (*number..number + KEY_DATAGRAMS).collect();
            }
            let before = wanted.len();
            wanted.retain(|one| one != number);
            (before == 1 && wanted.is_empty()).then_some(*at)
        })
    }

    pub(super) fn between(&self, from: Instant, until: Instant) -> Self {
        Self(self.0.iter().filter(|(at, _)| (from..until).contains(at)).copied().collect())
    }

    pub(super) fn longest_gap(&self) -> Duration {
        self.0.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or_default()
    }

    /// The number of datagrams missing between the first and the last, and of duplicates.
    pub(super) fn lost_and_duplicated(&self) -> (u64, u64) {
        let mut numbers: Vec<u64> = self.0.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        let all = numbers.len() as u64;
        numbers.dedup();
        let (first, last) = (numbers.first().copied().unwrap_or(1), numbers.last().copied().unwrap_or(0));
        ((last + 1).saturating_sub(first) - numbers.len() as u64, all - numbers.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(numbers: impl IntoIterator<Item = u64>) -> (Instant, VideoArrivals) {
        let (began, mut arrivals) = (Instant::now(), VideoArrivals::default());
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
        assert_eq!(middle.first_picture(), Some(began + INTERVAL * 19));
        let (_, torn) = arrivals((240..255).chain(256..499));
        assert_eq!(torn.first_picture(), None);
    }

    #[test]
    fn lost_and_duplicated_are_counted() {
        let (began, some) = arrivals([3, 4, 4, 7, 6, 10]);
        assert_eq!((some.lost_and_duplicated(), some.longest_gap()), ((3, 1), INTERVAL));
        assert_eq!(some.between(began + INTERVAL, began + INTERVAL * 3).lost_and_duplicated(), (0, 1));
        assert_eq!(VideoArrivals::default().lost_and_duplicated(), (0, 0));
    }
}
