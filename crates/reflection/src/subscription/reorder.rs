//! Puts packets back into the order in which they were published.
//!
//! What is repaired comes late. Until it does, or is not to be expected any
//! more, what was sent after it waits.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_wire::Time;

use crate::loss_tracker::{StreamStart, first_counter_of};
use crate::packet::{Epoch, Flags, Header};

/// The most packets that wait; more, and what is missing is given up.
const MAX_WAITING: usize = 1024;

/// The longest gap in which packets are counted, some minutes of any stream: beyond it the publisher has begun
/// to number anew, or lies, and the gap counts as one packet.
const MAX_COUNTED: u64 = 1 << 20;

/// The packets of a stream, in order.
#[derive(Debug)]
pub struct ReorderBuffer {
    patience: Duration,
    /// The latest of which a packet has come.
    epoch: Option<Epoch>,
    /// The counter of the next one; none before the first.
    next: Option<u64>,
    greatest: Option<u64>,
    beginning: StreamStart,
    /// True if what has come is what a joiner is shown first, which has gaps.
    is_joining: bool,
    waiting: BTreeMap<u64, Waiting>,
    skipped: u64,
}

/// A packet that waits for those before it.
#[derive(Debug)]
struct Waiting {
    since: Time,
    /// Nothing is missing between it and the one before: the stream begins with it, or begins anew.
    begins: bool,
    /// True if it is of what a joiner is shown first.
    joins: bool,
    flags: Flags,
    payload: Bytes,
}

impl ReorderBuffer {
    /// A stream of which nothing has come. What is missing is waited for at most so long.
    pub fn new(patience: Duration) -> Self {
        let (beginning, waiting) = (StreamStart::default(), BTreeMap::new());
        let (epoch, next, greatest) = (None, None, None);
        Self { patience, epoch, next, greatest, beginning, is_joining: true, waiting, skipped: 0 }
    }

    /// Takes a packet that has been opened, each only once. Where the stream begins for a joiner, there is
    /// nothing to wait for between parameters and a key frame.
    pub fn push(&mut self, now: Time, header: &Header, is_cached: bool, payload: Bytes) {
        let Header { epoch, counter, flags, .. } = *header;
        self.turn_over(epoch, counter);
        let is_past = self.epoch > Some(epoch) && self.greatest.is_some_and(|greatest| counter > greatest);
        if is_past || self.next.is_some_and(|next| counter < next) {
            // Too late: it was given up, or the epoch of whoever made it is over.
            return;
        }
        let greatest = self.greatest;
        self.greatest = greatest.max(Some(counter));
        let begins = greatest.is_none_or(|greatest| counter > greatest)
            && self.beginning.record_packet(greatest.map(|greatest| counter - greatest), is_cached, flags);
        // A publisher's first packets are waited for.
        self.next.get_or_insert_with(|| first_counter_of(counter));
        let begins = begins && greatest.is_some();
        let joins = begins && self.is_joining;
        self.is_joining &= is_cached && !flags.has(Flags::KEY_FRAME);
        self.waiting.insert(counter, Waiting { since: now, begins, joins, flags, payload });
    }

    /// Counters grow across epochs. Who knows an epoch's key can make packets of it that are far ahead: what
    /// those shut out comes again when the epoch ends.
    fn turn_over(&mut self, epoch: Epoch, counter: u64) {
        if self.epoch < Some(epoch) {
            if self.next.is_some_and(|next| counter < next) {
                self.restart();
            }
            self.epoch = Some(epoch);
        }
    }

    /// The next packet, if it is there or what is before it was waited for long enough.
    pub fn poll(&mut self, now: Time) -> Option<(Flags, Bytes)> {
        let entry = self.waiting.first_entry()?;
        let (counter, next) = (*entry.key(), self.next.unwrap_or(*entry.key()));
        let is_late = now >= entry.get().since + self.patience;
        let is_next = counter <= next || entry.get().begins;
        if !is_next && !is_late && self.waiting.len() < MAX_WAITING {
            return None;
        }
        let (counter, Waiting { flags, payload, joins, .. }) = self.waiting.pop_first()?;
        let gap = counter.saturating_sub(next);
        let lost = if gap > MAX_COUNTED { 1 } else { gap };
        self.skipped = self.skipped.saturating_add(if joins { 0 } else { lost });
        self.next = Some(counter.saturating_add(1));
        Some((flags, payload))
    }

    /// Forgets the counters so far, which have nothing to do with those that follow: packets that wait are
    /// dropped.
    pub fn restart(&mut self) {
        (self.epoch, self.next, self.greatest) = (None, None, None);
        (self.beginning, self.is_joining) = (StreamStart::default(), true);
        self.waiting.clear();
    }

    /// The time at which a packet waits no longer.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|(_, first)| first.since + self.patience)
    }

    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::StreamId;
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn drain(sequence: &mut ReorderBuffer, now: Time) -> Vec<u8> {
        std::iter::from_fn(|| sequence.poll(now)).map(|(_, payload)| payload[0]).collect()
    }

    fn header(counter: u64, flags: Flags) -> Header {
        Header { flags, frame: 0, stream: StreamId(9), epoch: Epoch(5), counter }
    }

    /// Counts from none of a publisher's first packets.
    fn flagged(sequence: &mut ReorderBuffer, now: Time, counter: u8, is_cached: bool, flags: Flags) {
        sequence.push(now, &header(1000 + u64::from(counter), flags), is_cached, Bytes::from(vec![counter]));
    }

    fn push(sequence: &mut ReorderBuffer, now: Time, counter: u8, is_cached: bool) {
        flagged(sequence, now, counter, is_cached, Flags::default());
    }

    #[test]
    fn repaired_packet_keeps_its_place() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        [1, 3, 4].iter().for_each(|counter| push(&mut sequence, at(0), *counter, false));
        assert_eq!(drain(&mut sequence, at(10)), [1]);
        assert_eq!(sequence.poll_deadline(), Some(at(200)));
        push(&mut sequence, at(50), 2, false);
        assert_eq!(drain(&mut sequence, at(50)), [2, 3, 4]);
        assert_eq!((sequence.skipped(), sequence.poll_deadline()), (0, None));
    }

    #[test]
    fn missing_packet_given_up_after_wait() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        [1, 3, 4].iter().for_each(|counter| push(&mut sequence, at(0), *counter, false));
        drain(&mut sequence, at(0));
        assert_eq!(drain(&mut sequence, at(199)), [0_u8; 0]);
        assert_eq!(drain(&mut sequence, at(200)), [3, 4]);
        push(&mut sequence, at(201), 2, false);
        assert_eq!((drain(&mut sequence, at(201)), sequence.skipped()), (vec![], 1));
    }

    #[test]
    fn joiner_skips_gap_before_key_frame() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        let (parameters, key) = (Flags::PARAMETERS, Flags::KEY_FRAME);
        for (counter, flags) in [(1, parameters), (2, parameters), (10, key), (11, Flags::default()), (12, key)] {
            flagged(&mut sequence, at(0), counter, true, flags);
            assert_eq!(drain(&mut sequence, at(0)), [counter]);
        }
    }

    /// As when they have come before what opens them.
    #[test]
    fn joiner_skips_gap_in_one_batch() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        let (parameters, key) = (Flags::PARAMETERS, Flags::KEY_FRAME);
        for (counter, flags) in [(1, parameters), (2, parameters), (10, key), (11, Flags::default()), (13, key)] {
            flagged(&mut sequence, at(0), counter, true, flags);
        }
        assert_eq!(drain(&mut sequence, at(0)), [1, 2, 10, 11]);
        assert_eq!((drain(&mut sequence, at(200)), sequence.skipped()), (vec![13], 1));
    }

    #[test]
    fn gap_in_burst_is_awaited() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        let key = Flags::KEY_FRAME;
        for (counter, flags) in [(10, key), (12, Flags::default()), (14, key)] {
            flagged(&mut sequence, at(0), counter, true, flags);
        }
        assert_eq!(drain(&mut sequence, at(0)), [10]);
        [13, 11].iter().for_each(|counter| push(&mut sequence, at(30), *counter, true));
        assert_eq!(drain(&mut sequence, at(30)), [11, 12, 13, 14]);
        // After a break it begins anew, and what was missed in between is lost.
        flagged(&mut sequence, at(9000), 200, true, key);
        assert_eq!((drain(&mut sequence, at(9000)), sequence.skipped()), (vec![200], 185));
    }

    #[test]
    fn there_is_an_end_to_counters() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        for counter in [u64::MAX - 1, u64::MAX] {
            sequence.push(at(0), &header(counter, Flags::default()), false, Bytes::new());
            assert!(sequence.poll(at(0)).is_some());
        }
    }

    /// By whoever knows its key, and not beyond it.
    #[test]
    fn counter_jump_ends_with_its_epoch() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        let mut push = |millis, epoch, counter, number: u8| {
            let header = Header { epoch: Epoch(epoch), ..header(counter, Flags::default()) };
            sequence.push(at(millis), &header, false, Bytes::from(vec![number]));
            drain(&mut sequence, at(millis))
        };
        assert_eq!(push(0, 5, 1000, 1), [1]);
        assert_eq!((push(0, 5, u64::MAX, 99), push(10, 5, 1001, 2)), (vec![], vec![2]));
        // Once that is not waited for any more.
        assert_eq!((push(200, 5, 1002, 3), push(210, 5, 1003, 4)), (vec![3, 99], vec![]));
        assert_eq!((push(300, 6, 1004, 5), push(310, 6, 1005, 6)), (vec![5], vec![6]));
        assert_eq!((push(320, 5, u64::MAX - 1, 99), push(600, 6, 1006, 7)), (vec![], vec![7]));
    }

    #[test]
    fn no_gap_counts_beyond_reason() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        for counter in [1000, u64::MAX - 7] {
            sequence.push(at(0), &header(counter, Flags::default()), false, Bytes::new());
        }
        assert_eq!((0..2).filter(|_| sequence.poll(at(200)).is_some()).count(), 2);
        assert_eq!(sequence.skipped(), 1);
    }

    #[test]
    fn first_packets_are_awaited() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        let mut push = |number: u8| {
            let header = header((7 << 32) + u64::from(number), Flags::default());
            sequence.push(at(0), &header, false, Bytes::from(vec![number]));
            drain(&mut sequence, at(0))
        };
        assert_eq!([push(1), push(2), push(0)], [vec![], vec![], vec![0, 1, 2]]);
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut sequence = ReorderBuffer::new(PATIENCE);
        let mut came = 0;
        for counter in (0..5000).filter(|counter| *counter != 1) {
            sequence.push(at(0), &header(counter, Flags::default()), false, Bytes::new());
            came += std::iter::from_fn(|| sequence.poll(at(0))).count();
        }
        assert_eq!((came, sequence.skipped()), (4999, 1));
    }

    proptest! {
        #[test]
        fn timely_packets_come_once_in_order(order in proptest::collection::vec(0..200_u8, 1..200)) {
            let mut sequence = ReorderBuffer::new(PATIENCE);
            let (mut out, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
            for (number, counter) in order.iter().enumerate() {
                if seen.insert(*counter) {
                    push(&mut sequence, at(number as u64), *counter, false);
                }
                out.extend(drain(&mut sequence, at(number as u64)));
            }
            out.extend(drain(&mut sequence, at(10_000)));
            prop_assert!(out.is_sorted_by(|one, next| one < next));
            // Nothing has waited for long enough to be given up.
            let expected: Vec<u8> = seen.into_iter().filter(|counter| *counter >= out[0]).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
