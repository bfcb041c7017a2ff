//! Which packets are missing, and when to ask for them: the receiving end of repair.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_proto::Time;

use crate::words::{MAX_NACKED, Nack};

/// The longest gap that is asked for. A longer one is no loss but a skip: to the next key
/// frame, or over what was missed while there was no way.
const MAX_GAP: u64 = 64;
/// A gap is asked for after this: what has only been overtaken comes by itself.
const OVERTAKEN: Duration = Duration::from_millis(5);
/// How often a packet is asked for, and how long after a round trip it is asked for again.
const TIMES: u8 = 3;
const SLACK: Duration = Duration::from_millis(10);

/// A packet that is missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Time,
    due: Time,
    times: u8,
}

/// What one receiver of a stream misses.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// How long a packet is of use after the one behind it.
    deadline: Duration,
    greatest: Option<u64>,
    missing: BTreeMap<u64, Missing>,
    given_up: u64,
    /// The last that were given up: some come all the same.
    late: BTreeSet<u64>,
}

impl Gaps {
    /// Of packets that are of use for so long after those that follow them: less than what the
    /// player holds back.
    pub const fn new(deadline: Duration) -> Self {
        Self { deadline, greatest: None, missing: BTreeMap::new(), given_up: 0, late: BTreeSet::new() }
    }

    /// Packets that never came.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// A packet has come, live or repaired.
    pub fn arrived(&mut self, now: Time, counter: u64) {
        let greatest = *self.greatest.get_or_insert(counter);
        if counter <= greatest {
            self.missing.remove(&counter);
            self.given_up -= u64::from(self.late.remove(&counter));
            return;
        }
        self.greatest = Some(counter);
        let has_room = self.missing.len() as u64 + counter - greatest <= MAX_NACKED;
        if counter - greatest <= MAX_GAP && has_room {
            let missing = Missing { since: now, due: now + OVERTAKEN, times: 0 };
            self.missing.extend((greatest + 1..counter).map(|counter| (counter, missing)));
        }
    }

    /// What to ask for now, where a round trip takes so long. What is too late is given up.
    pub fn poll_nack(&mut self, now: Time, round_trip: Duration) -> Option<Nack> {
        let Self { deadline, missing, late, .. } = self;
        let before = missing.len();
        missing.retain(|counter, missing| {
            let is_spent = missing.times >= TIMES && now >= missing.due;
            let is_kept = now.since(missing.since) + round_trip < *deadline && !is_spent
                || missing.times > 0 && now < missing.due;
            if !is_kept {
                late.insert(*counter);
            }
            is_kept
        });
        self.given_up += (before - missing.len()) as u64;
        while self.late.len() as u64 > MAX_NACKED {
            self.late.pop_first();
        }
        let due = self.missing.iter().filter(|(_, missing)| now >= missing.due).map(|(counter, _)| *counter);
        let nack = Nack::of(&due.collect::<BTreeSet<u64>>())?;
        for counter in nack.counters() {
            if let Some(missing) = self.missing.get_mut(&counter) {
                missing.times += 1;
                missing.due = now + round_trip + SLACK;
            }
        }
        Some(nack)
    }

    /// When there is something to ask for, or to give up.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.missing.values().map(|missing| missing.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn gaps() -> Gaps {
        Gaps::new(Duration::from_millis(200))
    }

    fn asked(gaps: &mut Gaps, ms: u64) -> Vec<u64> {
        gaps.poll_nack(at(ms), ROUND_TRIP).map(|nack| nack.counters().collect()).unwrap_or_default()
    }

    #[test]
    fn what_is_missing_is_asked_for_once_a_round_trip_and_three_times() {
        let mut gaps = gaps();
        [10, 11, 14].iter().for_each(|counter| gaps.arrived(at(0), *counter));
        let times: Vec<(u64, Vec<u64>)> = (0..300).map(|ms| (ms, asked(&mut gaps, ms))).collect();
        let times: Vec<u64> = times.into_iter().filter(|(_, asked)| *asked == [12, 13]).map(|(ms, _)| ms).collect();
        assert_eq!(times, [5, 35, 65]);
        assert_eq!((gaps.given_up(), gaps.poll_deadline()), (2, None));
    }

    #[test]
    fn what_was_only_overtaken_or_is_repaired_is_not_asked_for() {
        let mut gaps = gaps();
        [10, 12, 11, 14].iter().for_each(|counter| gaps.arrived(at(0), *counter));
        assert_eq!(asked(&mut gaps, 5), [13]);
        gaps.arrived(at(25), 13);
        assert_eq!((gaps.poll_deadline(), gaps.given_up()), (None, 0));
    }

    #[test]
    fn a_skip_is_no_loss() {
        let mut gaps = gaps();
        [10, 10 + MAX_GAP + 1, 10 + MAX_GAP + 3].iter().for_each(|counter| gaps.arrived(at(0), *counter));
        assert_eq!(asked(&mut gaps, 5), [10 + MAX_GAP + 2]);
    }

    #[test]
    fn what_would_come_too_late_is_given_up() {
        let mut gaps = Gaps::new(Duration::from_millis(24));
        [10, 12].iter().for_each(|counter| gaps.arrived(at(0), *counter));
        assert_eq!(asked(&mut gaps, 5), []);
        assert_eq!(gaps.given_up(), 1);
    }

    #[test]
    fn what_comes_after_all_was_not_missed() {
        let mut gaps = Gaps::new(Duration::from_millis(24));
        [10, 13].iter().for_each(|counter| gaps.arrived(at(0), *counter));
        assert_eq!((asked(&mut gaps, 5), gaps.given_up()), (vec![], 2));
        [12, 12].iter().for_each(|counter| gaps.arrived(at(6), *counter));
        assert_eq!(gaps.given_up(), 1);
    }

    proptest! {
        /// Each packet that is lost is asked for, or given up; those that came are not, and there is an end.
        #[test]
        fn all_that_is_lost_is_asked_for(lost in proptest::collection::btree_set(1..400_u64, 0..80)) {
            let mut gaps = gaps();
            let mut wanted = BTreeSet::new();
            for counter in 0..=400 {
                if !lost.contains(&counter) {
                    gaps.arrived(at(counter), counter);
                }
                wanted.extend(asked(&mut gaps, counter));
                prop_assert!(gaps.missing.len() as u64 <= MAX_NACKED);
            }
            (400..1000).for_each(|ms| wanted.extend(asked(&mut gaps, ms)));
            prop_assert_eq!(&wanted, &lost);
            prop_assert_eq!((gaps.given_up(), gaps.poll_deadline()), (lost.len() as u64, None));
        }
    }
}
