//! The requester's end of a stream.

use std::time::Duration;

use bytes::Bytes;
use roost_wire::messages::{Datagram, Report};
use roost_wire::{RequestId, Time};
use sha2::{Digest, Sha256};

/// The latest datagrams that are remembered one by one. A datagram that comes later than that is taken for a
/// duplicate.
const WINDOW: u64 = 1024;

/// The most datagrams a second that a provider is believed to send, for as long as its stream has gone on: a
/// gigabit of long ones. What it may have sent at once before the first came is added.
const BELIEVED_PER_SECOND: u64 = 100_000;
const BELIEVED_AT_ONCE: u64 = 65_536;

/// Takes a stream's datagrams as they come, drops repeated ones and counts.
#[derive(Clone, Debug)]
pub struct StreamReceiver {
    id: RequestId,
    /// The greatest number seen, plus one.
    next: u64,
    /// A bit for each of the last [`WINDOW`] numbers, set if it has come: bit `n % WINDOW`.
    seen: [u64; (WINDOW / 64) as usize],
    statistics: StreamStatistics,
    /// Time of arrival less time stamp of the last datagram, microseconds.
    transit_us: Option<i64>,
    /// RFC 3550's jitter in sixteenths of a microsecond.
    jitter_16ths: u64,
    digest: Sha256,
    totals: Option<Totals>,
    punctual: Option<LatenessFilter>,
}

/// The counts of a stream's receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatistics {
    /// Payload bytes taken.
    pub bytes: u64,
    /// Datagrams taken.
    pub packets: u64,
    /// Datagrams that are missing so far; of all, once the end is known.
    pub lost: u64,
    /// Datagrams that were not in time where they must be, whether they came afterwards or never. None of
    /// these is lost.
    pub late: u64,
    /// Datagrams that came after one with a greater number.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Interarrival jitter.
    pub jitter: Duration,
}

/// The word of the sender's end.
#[derive(Clone, Copy, Debug)]
struct Totals {
    packets: u64,
    bytes: u64,
    digest: [u8; 32],
}

impl StreamReceiver {
    /// The receiver of flow `id`.
    pub fn new(id: RequestId) -> Self {
        Self {
            id,
            next: 0,
            seen: [0; (WINDOW / 64) as usize],
            statistics: StreamStatistics::default(),
            transit_us: None,
            jitter_16ths: 0,
            digest: Sha256::new(),
            totals: None,
            punctual: None,
        }
    }

    /// A receiver of a stream whose datagrams are of no use any more if they take longer than the quickest of
    /// late, and `life` beyond that.
    pub fn with_lifetime(id: RequestId, life: Duration) -> Self {
        Self { punctual: Some(LatenessFilter::new(life)), ..Self::new(id) }
    }

    /// True if it is the flow of this number.
    pub fn is_of(&self, id: RequestId) -> bool {
        self.id == id
    }

    /// True if a provider claims to have sent more datagrams than anybody can in the time since it accepted.
    pub fn is_incredible(elapsed: Duration, datagrams: u64) -> bool {
        let credible = u128::from(BELIEVED_PER_SECOND) * elapsed.as_millis() / 1000 + u128::from(BELIEVED_AT_ONCE);
        u128::from(datagrams) > credible
    }

    /// The payload of `packet`, or `None` if it has come before or too late.
    pub fn packet(&mut self, now: Time, packet: Datagram) -> Option<Bytes> {
        if !self.mark_seen(packet.sequence) {
            self.statistics.duplicates += 1;
            return None;
        }
        let transit = self.measure_jitter(now, packet.sent_us);
        if self.punctual.as_mut().is_some_and(|punctual| punctual.is_late(now, transit)) {
            return None;
        }
        self.statistics.packets += 1;
        self.statistics.bytes += packet.payload.len() as u64;
        self.digest.update(&packet.payload);
        Some(packet.payload)
    }

    /// Takes the sender's totals.
    pub fn end(&mut self, packets: u64, bytes: u64, digest: [u8; 32]) {
        self.totals = Some(Totals { packets, bytes, digest });
    }

    /// True if the end is known.
    pub fn has_ended(&self) -> bool {
        self.totals.is_some()
    }

    /// True if the end is known and nothing is missing before it.
    pub fn has_everything(&self) -> bool {
        self.totals.is_some_and(|totals| self.statistics.packets >= totals.packets)
    }

    pub fn report(&self) -> Report {
        let now = self.statistics();
        Report {
            id: self.id,
            bytes: now.bytes,
            packets: now.packets,
            lost: now.lost + now.late,
            jitter_us: u32::try_from(now.jitter.as_micros()).unwrap_or(u32::MAX),
        }
    }

    pub fn statistics(&self) -> StreamStatistics {
        let expected = self.totals.map_or(self.next, |totals| totals.packets.max(self.next));
        let missing = expected.saturating_sub(self.statistics.packets);
        let (lost, late) = if self.punctual.is_some() { (0, missing) } else { (missing, 0) };
        StreamStatistics { lost, late, jitter: Duration::from_micros(self.jitter_16ths / 16), ..self.statistics }
    }

    /// True if the payload has the sender's digest; `None` if that cannot be
    /// said: the end is not known, or something was lost or overtaken.
    pub fn digest_ok(&self) -> Option<bool> {
        let totals = self.totals?;
        let counted = self.statistics();
        (counted.lost + counted.late == 0 && counted.reordered == 0).then(|| {
            let ours: [u8; 32] = self.digest.clone().finalize().into();
            ours == totals.digest && counted.bytes == totals.bytes
        })
    }

    /// Marks a number as seen; false if it was, or is too old to tell.
    fn mark_seen(&mut self, sequence: u64) -> bool {
        if sequence >= self.next {
            let skipped = (sequence - self.next).min(WINDOW);
            for missing in (sequence - skipped)..sequence {
                self.clear(missing);
            }
            self.next = sequence.saturating_add(1);
        } else if self.next - sequence > WINDOW || self.is_set(sequence) {
            return false;
        } else {
            self.statistics.reordered += 1;
        }
        let (word, mask) = self.bit(sequence);
        *word |= mask;
        true
    }

    fn is_set(&self, sequence: u64) -> bool {
        let bit = sequence % WINDOW;
        self.seen[(bit / 64) as usize] & 1 << (bit % 64) != 0
    }

    fn clear(&mut self, sequence: u64) {
        let (word, mask) = self.bit(sequence);
        *word &= !mask;
    }

    /// The word with a number's bit, and a mask of that bit.
    fn bit(&mut self, sequence: u64) -> (&mut u64, u64) {
        let bit = sequence % WINDOW;
        (&mut self.seen[(bit / 64) as usize], 1 << (bit % 64))
    }

    /// RFC 3550, section 6.4.1: `J += (|D| − J) / 16`, with the clocks'
    /// unknown offset cancelling out between two datagrams.
    /// Gives the time from stamp to arrival.
    fn measure_jitter(&mut self, now: Time, sent_us: u64) -> i64 {
        let arrival = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let transit = arrival.saturating_sub(i64::try_from(sent_us).unwrap_or(i64::MAX));
        if let Some(before) = self.transit_us.replace(transit) {
            // Bounded, because the stamps are the sender's word.
            let difference = transit.abs_diff(before).min(u64::from(u32::MAX));
            self.jitter_16ths = self.jitter_16ths + difference - (self.jitter_16ths + 8) / 16;
        }
        transit
    }
}

/// Tells what is late. The clocks' offset is not known, so each datagram is
/// compared with the quickest of the last one to two windows: in that time
/// clocks drift by no more than a few milliseconds.
#[derive(Clone, Debug)]
struct LatenessFilter {
    life_us: i64,
    since: Time,
    /// The least times from stamp to arrival, microseconds.
    current: i64,
    previous: i64,
}

/// See [`LatenessFilter`].
const PUNCTUAL_WINDOW: Duration = Duration::from_secs(10);

impl LatenessFilter {
    fn new(life: Duration) -> Self {
        let life_us = i64::try_from(life.as_micros()).unwrap_or(i64::MAX);
        Self { life_us, since: Time::ZERO, current: i64::MAX, previous: i64::MAX }
    }

    fn is_late(&mut self, now: Time, transit_us: i64) -> bool {
        if now.since(self.since) > PUNCTUAL_WINDOW {
            (self.previous, self.current, self.since) = (self.current, i64::MAX, now);
        }
        self.current = self.current.min(transit_us);
        transit_us.saturating_sub(self.current.min(self.previous)) > self.life_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::messages::FlowMessage;

    fn packet(sequence: u64) -> Datagram {
        Datagram {
            id: RequestId(1),
            sequence,
            sent_us: sequence.wrapping_mul(1000),
            payload: Bytes::from(sequence.to_be_bytes().to_vec()),
        }
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn duplicates_dropped_reordered_datagrams_delivered() {
        let mut receiver = StreamReceiver::new(RequestId(1));
        let delivered: Vec<_> =
            [0, 2, 1, 2, 5, 0].into_iter().filter(|n| receiver.packet(at(*n), packet(*n)).is_some()).collect();
        assert_eq!(delivered, [0, 2, 1, 5]);
        let counted = receiver.statistics();
        assert_eq!((counted.packets, counted.reordered, counted.duplicates, counted.lost), (4, 1, 2, 2));
    }

    #[test]
    fn numbers_beyond_any_rate_are_incredible() {
        let after = |seconds, datagrams| StreamReceiver::is_incredible(Duration::from_secs(seconds), datagrams);
        assert!(!after(0, 1000) && after(0, 100_000) && !after(1, 100_000));
        assert!(after(3600, u64::MAX) && !after(3600, 300_000_000));
        assert!(after(u64::MAX, u64::MAX) || !after(u64::MAX, 1));
    }

    #[test]
    fn sequence_jump_clears_dedup_window() {
        let mut receiver = StreamReceiver::new(RequestId(1));
        assert!(receiver.packet(at(0), packet(3)).is_some());
        assert!(receiver.packet(at(1), packet(u64::MAX - 1)).is_some());
        assert!(receiver.packet(at(2), packet(3)).is_none());
        assert!(receiver.packet(at(3), packet(u64::MAX - 2)).is_some());
    }

    #[test]
    fn late_datagram_adds_sixteenth_to_jitter() {
        let mut receiver = StreamReceiver::new(RequestId(1));
        for n in 0..10 {
            receiver.packet(at(n), packet(n));
        }
        assert_eq!(receiver.statistics().jitter, Duration::ZERO);
        receiver.packet(at(10 + 16), packet(10));
        assert_eq!(receiver.statistics().jitter, Duration::from_millis(1));
    }

    #[test]
    fn digest_checked_only_without_loss() {
        let mut sender = crate::flow::StreamSender::new(RequestId(1), at(0));
        let mut receiver = StreamReceiver::new(RequestId(1));
        for n in 0..3_u8 {
            let Some(FlowMessage::Datagram(packet)) = sender.packet(at(1), Bytes::from(vec![n])) else { panic!() };
            receiver.packet(at(1), packet);
        }
        let Some(FlowMessage::End { packets, bytes, digest, .. }) = sender.end() else { panic!() };
        receiver.end(packets, bytes, digest);
        assert_eq!(receiver.digest_ok(), Some(true));
        receiver.end(packets, bytes, [0; 32]);
        assert_eq!(receiver.digest_ok(), Some(false));
        receiver.end(packets + 1, bytes, digest);
        assert_eq!((receiver.digest_ok(), receiver.statistics().lost), (None, 1));
    }

    #[test]
    fn late_datagrams_are_dropped_and_counted() {
        let mut receiver = StreamReceiver::with_lifetime(RequestId(1), Duration::from_millis(250));
        // Stamped a millisecond apart; what the clocks differ by is of no matter.
        let arrivals = [(0, 900), (1, 903), (2, 1152), (3, 1154), (5, 1100), (6, 1157)];
        let taken = arrivals.map(|(number, millis)| receiver.packet(at(millis), packet(number)).is_some());
        assert_eq!(taken, [true, true, true, false, true, false]);
        let counted = receiver.statistics();
        assert_eq!((counted.packets, counted.late, counted.lost), (4, 3, 0));
    }

    #[test]
    fn clock_drift_causes_no_lateness() {
        let mut receiver = StreamReceiver::with_lifetime(RequestId(1), Duration::from_millis(250));
        // 100 ppm for two hours: 720 ms, told by a datagram every second.
        let taken = (0..7200_u64).filter(|second| {
            let stamped = Datagram { sent_us: second * 1_000_000, ..packet(*second) };
            receiver.packet(Time::from_nanos(second * 1_000_100_000), stamped).is_some()
        });
        assert_eq!(taken.count(), 7200);
    }
}
