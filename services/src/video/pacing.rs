//! Due times of transport packets, by the stream's own clock.

use std::time::Duration;

use bytes::BytesMut;

use super::ts::{self, Clock, PACKET_BYTES, PACKETS_PER_DATAGRAM};
use crate::pace::Due;

/// Packets held until the next clock value tells their time; beyond that they leave at the rate so far. A sound
/// stream has a clock value at least every 100 ms, which leaves room for 120 Mbit/s.
const MAX_HELD: usize = 8192;

/// A longer step of the clock is a jump, not elapsed time.
const MAX_STEP: Duration = Duration::from_secs(2);

/// The least time of a packet, so that a broken clock cannot make a stream of unlimited rate.
const MIN_PACKET_TIME: Duration = Duration::from_micros(1);

/// The time of a packet before any clock value was seen: 700 kbit/s.
const NOMINAL_PACKET_TIME: Duration = Duration::from_nanos(PACKET_BYTES as u64 * 8 * 1_000_000_000 / 700_000);

/// Puts packets into datagrams of six and sets their due times: packets between two clock values are spread
/// evenly.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    /// The time of the first packet that is held.
    base: Duration,
    /// The packets timed by the clock, and their total time.
    measured: (u32, Duration),
    clock_pid: Option<u16>,
    clock: Option<Clock>,
    held: Vec<[u8; PACKET_BYTES]>,
    datagram: BytesMut,
    datagram_at: Duration,
}

impl Pacing {
    /// Takes the next packet and appends complete datagrams to `out`.
    pub(super) fn push(&mut self, packet: &[u8; PACKET_BYTES], out: &mut Vec<Due>) {
        let header = ts::header(packet);
        let ours = header.filter(|header| self.clock_pid.is_none_or(|pid| pid == header.pid));
        if let Some((header, clock)) = ours.and_then(|header| header.clock.map(|clock| (header, clock))) {
            self.tick(header.discontinuity, clock, out);
            self.clock_pid = Some(header.pid);
        } else if self.held.len() >= MAX_HELD {
            self.release(self.usual_time(), out);
            self.clock = None;
        }
        self.held.push(*packet);
    }

    /// Continues with the start of a repeated stream: held packets leave at the rate so far, and the clock may
    /// jump.
    pub(super) fn restart(&mut self, out: &mut Vec<Due>) {
        self.release(self.usual_time(), out);
        self.clock = None;
        self.clock_pid = None;
    }

    /// Ends the stream: the last datagram may be short.
    pub(super) fn finish(&mut self, out: &mut Vec<Due>) {
        self.release(self.usual_time(), out);
        if !self.datagram.is_empty() {
            out.push(Due { at: self.datagram_at, payload: self.datagram.split().freeze() });
        }
    }

    fn tick(&mut self, jump: bool, clock: Clock, out: &mut Vec<Due>) {
        let mut packet_time = self.usual_time();
        if let (Some(before), false, Ok(count @ 1..)) = (self.clock, jump, u32::try_from(self.held.len())) {
            let step = clock.since(before);
            if !step.is_zero() && step <= MAX_STEP {
                packet_time = step / count;
                self.measured = (self.measured.0.saturating_add(count), self.measured.1 + step);
            }
        }
        self.release(packet_time, out);
        self.clock = Some(clock);
    }

    /// The average time of a packet so far, for packets that the clock does not time. The last interval would
    /// not do: key frames come in bursts.
    fn usual_time(&self) -> Duration {
        let (count, time) = self.measured;
        if count == 0 { NOMINAL_PACKET_TIME } else { time / count }
    }

    fn release(&mut self, packet_time: Duration, out: &mut Vec<Due>) {
        let packet_time = packet_time.max(MIN_PACKET_TIME);
        for packet in std::mem::take(&mut self.held) {
            if self.datagram.is_empty() {
                self.datagram_at = self.base;
            }
            self.datagram.extend_from_slice(&packet);
            self.base += packet_time;
            if self.datagram.len() == PACKETS_PER_DATAGRAM * PACKET_BYTES {
                let payload =
                    std::mem::replace(&mut self.datagram, BytesMut::with_capacity(PACKETS_PER_DATAGRAM * PACKET_BYTES))
                        .freeze();
                out.push(Due { at: self.datagram_at, payload });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet, with a clock value in milliseconds if one is given.
    fn packet(clock_ms: Option<u64>) -> [u8; PACKET_BYTES] {
        let mut packet = [0xff; PACKET_BYTES];
        packet[..4].copy_from_slice(&[ts::SYNC, 1, 0, 0x10]);
        if let Some(ms) = clock_ms {
            packet[3] = 0x30;
            packet[4..6].copy_from_slice(&[7, 0x10]);
            packet[6..12].copy_from_slice(&((ms * 90) << 15).to_be_bytes()[2..]);
        }
        packet
    }

    fn dues(clocks: impl IntoIterator<Item = Option<u64>>) -> Vec<Due> {
        let (mut pacing, mut out) = (Pacing::default(), Vec::new());
        clocks.into_iter().for_each(|clock| pacing.push(&packet(clock), &mut out));
        pacing.finish(&mut out);
        out
    }

    #[test]
    fn packets_are_spread_between_clock_values() {
        let clocks = (0..600).map(|index| (index % 60 == 0).then_some(index / 60 * 40));
        let out = dues(clocks);
        assert_eq!(out.len(), 100);
        for (index, due) in out.iter().enumerate() {
            assert_eq!(due.payload.len(), 1128);
            let expected = Duration::from_millis(4) * u32::try_from(index).unwrap();
            assert!(due.at.abs_diff(expected) < Duration::from_micros(1), "{index}: {:?}", due.at);
        }
    }

    #[test]
    fn missing_clock_defaults_to_700_kbit() {
        let out = dues((0..60).map(|_| None));
        assert!(out[9].at.abs_diff(Duration::from_nanos(9 * 12_891_428)) < Duration::from_micros(1));
    }

    #[test]
    fn clock_jump_causes_no_wait() {
        let clocks = [Some(0), None, Some(10), None, Some(90_000_000), None, Some(5), None, Some(15), None];
        let last = dues(clocks.into_iter().cycle().take(700)).pop().unwrap();
        assert!(last.at < Duration::from_secs(10), "{:?}", last.at);
    }

    proptest! {
        #[test]
        fn no_packet_lost_times_increase(clocks in proptest::collection::vec(proptest::option::of(0_u64..100_000), 0..200)) {
            let count = clocks.len();
            let out = dues(clocks);
            prop_assert_eq!(out.iter().map(|due| due.payload.len()).sum::<usize>(), count * PACKET_BYTES);
            prop_assert!(out.windows(2).all(|pair| pair[0].at < pair[1].at));
        }
    }
}
