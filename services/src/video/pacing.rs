//! Due times of a transport stream's packets, taken from the stream's own clock.

use std::time::Duration;

use bytes::BytesMut;

use super::ts::{self, Clock, Header, PACKET_BYTES, PACKETS_PER_DATAGRAM};
use crate::pace::Due;

/// Most packets held while no clock value dates them; the next one releases them at the average rate. A sound
/// stream has a clock value every 100 ms, so this is enough for 120 Mbit/s.
const MAX_HELD: usize = 8192;

/// Longest step of the clock that counts as time; a longer one is a jump.
const MAX_STEP: Duration = Duration::from_secs(2);

/// Least time of a packet: a broken clock cannot make a stream of unlimited rate.
const MIN_PACKET_TIME: Duration = Duration::from_micros(1);

/// Time of a packet before the first clock value: 700 kbit/s.
const NOMINAL_PACKET_TIME: Duration = Duration::from_nanos(PACKET_BYTES as u64 * 8 * 1_000_000_000 / 700_000);

/// A pacer that groups packets into datagrams of six and spreads those between two clock values evenly over the
/// time between.
#[derive(Debug, Default)]
pub(super) struct PacketPacer {
    /// Due time of the first held packet.
    held_from: Duration,
    /// Packets between clock values so far, and the time that they took.
    measured_packets: u32,
    measured_time: Duration,
    clock_pid: Option<u16>,
    clock: Option<Clock>,
    held: Vec<[u8; PACKET_BYTES]>,
    datagram: BytesMut,
    datagram_at: Duration,
}

impl PacketPacer {
    /// Takes the next packet and appends complete datagrams to `out`.
    pub(super) fn push(&mut self, packet: &[u8; PACKET_BYTES], out: &mut Vec<Due>) {
        match ts::header(packet) {
            Some(Header { pid, clock: Some(clock), discontinuity })
                if self.clock_pid.is_none_or(|known| known == pid) =>
            {
                self.record_clock(discontinuity, clock, out);
                self.clock_pid = Some(pid);
            }
            _ if self.held.len() >= MAX_HELD => {
                self.release_held(self.average_packet_time(), out);
                self.clock = None;
            }
            _ => {}
        }
        self.held.push(*packet);
    }

    /// Starts the stream again: releases the held packets at the average rate and accepts a jump of the clock.
    pub(super) fn restart(&mut self, out: &mut Vec<Due>) {
        self.release_held(self.average_packet_time(), out);
        self.clock = None;
        self.clock_pid = None;
    }

    /// Ends the stream: releases the held packets; the last datagram may be short.
    pub(super) fn finish(&mut self, out: &mut Vec<Due>) {
        self.release_held(self.average_packet_time(), out);
        if !self.datagram.is_empty() {
            out.push(Due { at: self.datagram_at, payload: self.datagram.split().freeze() });
        }
    }

    /// Dates the held packets by the step of the clock.
    fn record_clock(&mut self, is_discontinuity: bool, clock: Clock, out: &mut Vec<Due>) {
        let step = match self.clock {
            Some(last) if !is_discontinuity => clock.since(last),
            _ => Duration::ZERO,
        };
        let count = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        let packet_time = if count == 0 || step.is_zero() || step > MAX_STEP {
            self.average_packet_time()
        } else {
            self.measured_packets = self.measured_packets.saturating_add(count);
            self.measured_time += step;
            step / count
        };
        self.release_held(packet_time, out);
        self.clock = Some(clock);
    }

    /// Average time of a packet so far. The last interval would not do: key frames come in bursts.
    fn average_packet_time(&self) -> Duration {
        if self.measured_packets == 0 { NOMINAL_PACKET_TIME } else { self.measured_time / self.measured_packets }
    }

    /// Appends the held packets to datagrams, `packet_time` apart.
    fn release_held(&mut self, packet_time: Duration, out: &mut Vec<Due>) {
        let packet_time = packet_time.max(MIN_PACKET_TIME);
        for packet in std::mem::take(&mut self.held) {
            if self.datagram.is_empty() {
                self.datagram_at = self.held_from;
            }
            self.datagram.extend_from_slice(&packet);
            self.held_from += packet_time;
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

    fn pace(clocks: impl IntoIterator<Item = Option<u64>>) -> Vec<Due> {
        let (mut pacer, mut out) = (PacketPacer::default(), Vec::new());
        for clock in clocks {
            pacer.push(&packet(clock), &mut out);
        }
        pacer.finish(&mut out);
        out
    }

    #[test]
    fn packets_are_spread_between_clock_values() {
        let clocks = (0..600).map(|index| (index % 60 == 0).then_some(index / 60 * 40));
        let out = pace(clocks);
        assert_eq!(out.len(), 100);
        for (index, due) in out.iter().enumerate() {
            assert_eq!(due.payload.len(), 1128);
            let expected = Duration::from_millis(4) * u32::try_from(index).unwrap();
            assert!(due.at.abs_diff(expected) < Duration::from_micros(1), "{index}: {:?}", due.at);
        }
    }

    #[test]
    fn missing_clock_defaults_to_700_kbit() {
        let out = pace((0..60).map(|_| None));
        assert!(out[9].at.abs_diff(Duration::from_nanos(9 * 12_891_428)) < Duration::from_micros(1));
    }

    #[test]
    fn clock_jump_causes_no_wait() {
        let clocks = [Some(0), None, Some(10), None, Some(90_000_000), None, Some(5), None, Some(15), None];
        let last = pace(clocks.into_iter().cycle().take(700)).pop().unwrap();
        assert!(last.at < Duration::from_secs(10), "{:?}", last.at);
    }

    proptest! {
        #[test]
        fn no_packet_lost_times_increase(clocks in proptest::collection::vec(proptest::option::of(0_u64..100_000), 0..200)) {
            let count = clocks.len();
            let out = pace(clocks);
            prop_assert_eq!(out.iter().map(|due| due.payload.len()).sum::<usize>(), count * PACKET_BYTES);
            prop_assert!(out.windows(2).all(|pair| pair[0].at < pair[1].at));
        }
    }
}
