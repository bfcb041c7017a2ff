//! Puts packets back into the order in which they were published.
//!
//! What is repaired comes late. Until it does, or is not to be expected any
//! more, what was sent after it waits.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_proto::Time;

/// The most packets that wait; more, and what is missing is given up.
const MAX_WAITING: usize = 1024;

/// The packets of a stream, in order.
#[derive(Debug)]
pub struct Sequence {
    patience: Duration,
    /// The counter of the next one; none before the first.
    next: Option<u64>,
    /// What waits, and since when.
    waiting: BTreeMap<u64, (Time, Bytes)>,
    skipped: u64,
}

impl Sequence {
    /// A stream of which nothing has come. What is missing is waited for at most so long.
    pub fn new(patience: Duration) -> Self {
        Self { patience, next: None, waiting: BTreeMap::new(), skipped: 0 }
    }

    /// Takes a packet, each only once. What comes from a cache has no gaps to wait for: a joiner
    /// begins with parameters, then goes on at a key frame.
    pub fn push(&mut self, now: Time, counter: u64, is_cached: bool, payload: Bytes) {
        if self.next.is_some_and(|next| counter < next) {
            // Too late: it was given up.
            return;
        }
        if self.next.is_none() || is_cached && self.waiting.is_empty() {
            self.next = Some(counter);
        }
        self.waiting.insert(counter, (now, payload));
    }

    /// The next packet, if it is there or what is before it was waited for long enough.
    pub fn poll(&mut self, now: Time) -> Option<Bytes> {
        let entry = self.waiting.first_entry()?;
        let (counter, next) = (*entry.key(), self.next.unwrap_or(*entry.key()));
        let is_late = now >= entry.get().0 + self.patience;
        if counter > next && !is_late && self.waiting.len() < MAX_WAITING {
            return None;
        }
        let (counter, (_, payload)) = self.waiting.pop_first()?;
        self.skipped += counter.saturating_sub(next);
        self.next = Some(counter + 1);
        Some(payload)
    }

    /// When something waits no longer.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|(_, (since, _))| *since + self.patience)
    }

    /// Packets that were given up.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn drain(sequence: &mut Sequence, now: Time) -> Vec<u8> {
        std::iter::from_fn(|| sequence.poll(now)).map(|payload| payload[0]).collect()
    }

    fn push(sequence: &mut Sequence, now: Time, counter: u8, is_cached: bool) {
        sequence.push(now, counter.into(), is_cached, Bytes::from(vec![counter]));
    }

    #[test]
    fn what_is_repaired_in_time_comes_in_its_place() {
        let mut sequence = Sequence::new(PATIENCE);
        [1, 3, 4].iter().for_each(|counter| push(&mut sequence, at(0), *counter, false));
        assert_eq!(drain(&mut sequence, at(10)), [1]);
        assert_eq!(sequence.poll_deadline(), Some(at(200)));
        push(&mut sequence, at(50), 2, false);
        assert_eq!(drain(&mut sequence, at(50)), [2, 3, 4]);
        assert_eq!((sequence.skipped(), sequence.poll_deadline()), (0, None));
    }

    #[test]
    fn what_does_not_come_is_given_up_and_not_taken_afterwards() {
        let mut sequence = Sequence::new(PATIENCE);
        [1, 3, 4].iter().for_each(|counter| push(&mut sequence, at(0), *counter, false));
        drain(&mut sequence, at(0));
        assert_eq!(drain(&mut sequence, at(199)), []);
        assert_eq!(drain(&mut sequence, at(200)), [3, 4]);
        push(&mut sequence, at(201), 2, false);
        assert_eq!((drain(&mut sequence, at(201)), sequence.skipped()), (vec![], 1));
    }

    #[test]
    fn a_joiner_does_not_wait_between_parameters_and_key_frame() {
        let mut sequence = Sequence::new(PATIENCE);
        for counter in [1, 10, 11] {
            push(&mut sequence, at(0), counter, true);
            assert_eq!(drain(&mut sequence, at(0)), [counter]);
        }
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut sequence = Sequence::new(PATIENCE);
        let mut came = 0;
        for counter in (0..5000).filter(|counter| *counter != 1) {
            sequence.push(at(0), counter, false, Bytes::new());
            came += std::iter::from_fn(|| sequence.poll(at(0))).count();
        }
        assert_eq!((came, sequence.skipped()), (4999, 1));
    }

    proptest! {
        #[test]
        fn whatever_is_in_time_comes_once_and_in_order(order in proptest::collection::vec(0..200_u8, 1..400)) {
            let mut sequence = Sequence::new(PATIENCE);
            let (mut out, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
            for (number, counter) in order.iter().enumerate() {
                if seen.insert(*counter) {
                    push(&mut sequence, at(number as u64), *counter, false);
                }
                out.extend(drain(&mut sequence, at(number as u64)));
            }
            out.extend(drain(&mut sequence, at(10_000)));
            prop_assert!(out.is_sorted_by(|one, next| one < next));
            prop_assert_eq!(out.len() + seen.iter().filter(|counter| **counter < out[0] || !out.contains(counter)).count(), seen.len());
        }
    }
}
