//! Missing packets and the times to ask for them: the receiving end of repair.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use roost_wire::Time;

use crate::control::{MAX_NACKED, Nack};
use crate::packet::Flags;

/// The longest gap that is asked for. A longer one is no loss but a skip: to the next key
/// frame, or over what was missed while there was no way.
pub(crate) const MAX_GAP: u64 = 64;
/// A gap is asked for after this: what has only been overtaken comes by itself.
const OVERTAKEN: Duration = Duration::from_millis(5);
/// A packet is asked for again after a round trip and this time, from the third time on twice as long as
/// before: the upstream may be waiting for it itself.
const SLACK: Duration = Duration::from_millis(10);
/// The most times that a packet is asked for.
const TIMES: u8 = 6;
/// After so many in a row that were asked for in vain each is asked for once: upstream has nothing to spare
/// for repairs, and to ask may be more for a connection that is full.
const IN_VAIN: u8 = 32;

/// A publisher's first packets: who begins with one of them has missed those before it.
const FIRST_PACKETS: u64 = 16;

/// The first counter of a stream of which this packet comes first.
pub(crate) fn first_counter_of(counter: u64) -> u64 {
    if is_of_first_packets(counter) { counter - number_of(counter) } else { counter }
}

/// True for one of a stream's first packets.
pub(crate) fn is_of_first_packets(counter: u64) -> bool {
    number_of(counter) < FIRST_PACKETS
}

/// The number of a packet in its stream, from 0: a publisher's counters begin with nothing in their lower half.
fn number_of(counter: u64) -> u64 {
    counter & u64::from(u32::MAX)
}

/// Tells where a stream begins for a joiner, or begins anew: what lies before that is not missing.
///
/// What comes from a cache begins with the parameter sets that hold, and goes on at a key frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamStart {
    /// Parameter sets have come, and no key frame yet.
    is_open: bool,
}

impl StreamStart {
    /// A packet has come, so far after the greatest before it, if there was one; answers whether
    /// the stream begins with it.
    pub(crate) fn record_packet(&mut self, far: Option<u64>, is_cached: bool, flags: Flags) -> bool {
        let (has_key, has_parameters) = (flags.has(Flags::KEY_FRAME), flags.has(Flags::PARAMETERS));
        let can_begin = is_cached && (has_key || has_parameters);
        let begins = far.is_none_or(|far| can_begin && (self.is_open || far > MAX_GAP));
        self.is_open = begins && can_begin && !has_key;
        begins
    }
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Time,
    due: Time,
    times: u8,
}

/// The packets of a stream that a receiver misses.
#[derive(Clone, Debug)]
pub struct LossTracker {
    /// A packet is of use for this time after the one behind it.
    deadline: Duration,
    greatest: Option<u64>,
    beginning: StreamStart,
    missing: BTreeMap<u64, Missing>,
    given_up: u64,
    /// Packets in a row that were asked for in vain.
    in_vain: u8,
    /// The last that were given up: some come all the same.
    late: BTreeSet<u64>,
}

impl LossTracker {
    /// Of packets that are of use for so long after those that follow them: less than what the
    /// player holds back.
    pub const fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            greatest: None,
            beginning: StreamStart { is_open: false },
            missing: BTreeMap::new(),
            given_up: 0,
            in_vain: 0,
            late: BTreeSet::new(),
        }
    }

    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// A packet has come, live, repaired, or from a cache.
    pub fn record_arrival(&mut self, now: Time, counter: u64, is_cached: bool, flags: Flags) {
        if self.greatest.is_some_and(|greatest| counter <= greatest) {
            if self.missing.remove(&counter).is_some_and(|missing| missing.times > 0) {
                self.in_vain = 0;
            }
            self.given_up -= u64::from(self.late.remove(&counter));
            return;
        }
        let greatest = self.greatest.replace(counter);
        let begins = self.beginning.record_packet(greatest.map(|greatest| counter - greatest), is_cached, flags);
        match greatest {
            None => self.miss(now, first_counter_of(counter)..counter),
            Some(greatest) if !begins && counter - greatest <= MAX_GAP => self.miss(now, greatest + 1..counter),
            Some(_) => {}
        }
    }

    /// Forgets what came before: the counters that follow have nothing to do with it.
    pub(crate) fn reset_sequence(&mut self) {
        (self.greatest, self.beginning) = (None, StreamStart::default());
        let missing: Vec<u64> = std::mem::take(&mut self.missing).into_keys().collect();
        self.give_up(missing);
    }

    fn give_up(&mut self, counters: Vec<u64>) {
        self.given_up += counters.len() as u64;
        self.late.extend(counters);
        while self.late.len() as u64 > MAX_NACKED {
            self.late.pop_first();
        }
    }

    /// Upstream has sent all packets before this one.
    pub fn record_end(&mut self, now: Time, next: u64) {
        let after = self.greatest.and_then(|greatest| greatest.checked_add(1)).filter(|after| *after < next);
        if let Some(after) = after.filter(|after| next - after <= MAX_GAP) {
            self.greatest = Some(next - 1);
            self.miss(now, after..next);
        }
    }

    fn miss(&mut self, now: Time, counters: Range<u64>) {
        // The longest gap at most.
        if self.missing.len() as u64 + (counters.end - counters.start) <= MAX_NACKED {
            let missing = Missing { since: now, due: now + OVERTAKEN, times: 0 };
            self.missing.extend(counters.map(|counter| (counter, missing)));
        }
    }

    /// The packets to ask for now, if a round trip takes so long. Packets that would come too late are given
    /// up.
    pub fn poll_nack(&mut self, now: Time, round_trip: Duration) -> Option<Nack> {
        let (deadline, mut late) = (self.deadline, Vec::new());
        let most = if self.in_vain < IN_VAIN { TIMES } else { 1 };
        self.missing.retain(|counter, missing| {
            let is_of_use = now.since(missing.since) + round_trip < deadline;
            let is_kept = is_of_use && missing.times < most || missing.times > 0 && now < missing.due;
            if !is_kept {
                self.in_vain = self.in_vain.saturating_add(u8::from(missing.times > 0));
                late.push(*counter);
            }
            is_kept
        });
        self.give_up(late);
        let due = self.missing.iter().filter(|(_, missing)| now >= missing.due).map(|(counter, _)| *counter);
        let nack = Nack::from_counters(&due.collect::<BTreeSet<u64>>())?;
        for counter in nack.counters() {
            if let Some(missing) = self.missing.get_mut(&counter) {
                let answered = round_trip + SLACK;
                let again = answered * (1 << missing.times.saturating_sub(1).min(TIMES));
                missing.times += 1;
                // The last that is of use, or the answer to this.
                missing.due = (now + again).min((missing.since + deadline).max(now + answered));
            }
        }
        Some(nack)
    }

    /// The next time at which packets are asked for, or given up.
    pub fn poll_deadline(&self) -> Option<Time> {
        self.missing.values().map(|missing| missing.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROUND_TRIP: Duration = Duration::from_millis(20);
    /// A counter that is not among a publisher's first ones.
    const FROM: u64 = 1000;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn gaps() -> LossTracker {
        LossTracker::new(Duration::from_millis(200))
    }

    fn live(gaps: &mut LossTracker, ms: u64, counter: u64) {
        gaps.record_arrival(at(ms), FROM + counter, false, Flags::default());
    }

    fn asked(gaps: &mut LossTracker, ms: u64) -> Vec<u64> {
        let nack = gaps.poll_nack(at(ms), ROUND_TRIP);
        nack.into_iter().flat_map(|nack| nack.counters().map(|counter| counter - FROM).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn unanswered_nacks_drop_to_one() {
        let mut gaps = gaps();
        // Every other packet is lost, and one of them comes in the end.
        let mut asks = |from: u64, comes: Option<u64>| {
            let mut asks = 0;
            for counter in from..from + 40 {
                live(&mut gaps, 500 * counter, 2 * counter);
                comes.filter(|lost| lost + 1 == 2 * counter).into_iter().for_each(|lost| {
                    asked(&mut gaps, 500 * counter + 5);
                    live(&mut gaps, 500 * counter + 20, lost);
                });
                asks += (0..500).filter(|ms| !asked(&mut gaps, 500 * counter + ms).is_empty()).count();
            }
            asks
        };
        assert_eq!(asks(0, None), 32 * 4 + 7);
        assert_eq!(asks(40, None), 40);
        assert_eq!(asks(80, Some(161)), 1 + 32 * 4 + 6);
    }

    #[test]
    fn nacks_back_off_until_deadline() {
        let mut gaps = gaps();
        [10, 11, 14].iter().for_each(|counter| live(&mut gaps, 0, *counter));
        let times: Vec<(u64, Vec<u64>)> = (0..300).map(|ms| (ms, asked(&mut gaps, ms))).collect();
        let times: Vec<u64> = times.into_iter().filter(|(_, asked)| *asked == [12, 13]).map(|(ms, _)| ms).collect();
        assert_eq!(times, [5, 35, 65, 125]);
        assert_eq!((gaps.given_up(), gaps.poll_deadline()), (2, None));
    }

    #[test]
    fn reordered_or_repaired_not_nacked() {
        let mut gaps = gaps();
        [10, 12, 11, 14].iter().for_each(|counter| live(&mut gaps, 0, *counter));
        assert_eq!(asked(&mut gaps, 5), [13]);
        live(&mut gaps, 25, 13);
        assert_eq!((gaps.poll_deadline(), gaps.given_up()), (None, 0));
    }

    #[test]
    fn a_skip_is_no_loss() {
        let mut gaps = gaps();
        [10, 10 + MAX_GAP + 1, 10 + MAX_GAP + 3].iter().for_each(|counter| live(&mut gaps, 0, *counter));
        assert_eq!(asked(&mut gaps, 5), [10 + MAX_GAP + 2]);
    }

    #[test]
    fn reset_gives_up_missing_packets() {
        let mut gaps = gaps();
        [10, 13].iter().for_each(|counter| live(&mut gaps, 0, *counter));
        gaps.reset_sequence();
        assert_eq!((gaps.given_up(), gaps.poll_deadline()), (2, None));
        [500, 12].iter().for_each(|counter| live(&mut gaps, 6, *counter));
        assert_eq!(gaps.given_up(), 1);
    }

    #[test]
    fn joiner_skips_parameters_to_key_frame() {
        let mut gaps = gaps();
        let key = Flags::KEY_FRAME;
        let cached = [(10, Flags::PARAMETERS), (11, Flags::PARAMETERS), (20, key), (22, Flags::default()), (25, key)];
        cached.iter().for_each(|(counter, flags)| gaps.record_arrival(at(0), FROM + *counter, true, *flags));
        assert_eq!(asked(&mut gaps, 5), [21, 23, 24]);
    }

    #[test]
    fn lost_first_packets_are_nacked() {
        let mut gaps = gaps();
        let first = 5 << 32;
        gaps.record_arrival(at(0), first + 2, false, Flags::default());
        assert_eq!(asked(&mut gaps, 5), [first - FROM, first + 1 - FROM]);
    }

    #[test]
    fn loss_before_pause_is_nacked() {
        let mut gaps = gaps();
        gaps.record_end(at(0), FROM + 10);
        assert_eq!(asked(&mut gaps, 5), [0_u64; 0]);
        live(&mut gaps, 0, 10);
        gaps.record_end(at(50), FROM + 13);
        assert_eq!(asked(&mut gaps, 55), [11, 12]);
        gaps.record_end(at(60), FROM + 13 + MAX_GAP + 1);
        live(&mut gaps, 60, 14);
        assert_eq!(asked(&mut gaps, 65), [13]);
    }

    #[test]
    fn there_is_an_end_to_counters() {
        let mut gaps = gaps();
        for counter in [u64::MAX - 70, u64::MAX - 60, u64::MAX - 3, u64::MAX] {
            gaps.record_arrival(at(0), counter, false, Flags::default());
        }
        gaps.record_end(at(0), u64::MAX);
        assert_eq!(asked(&mut gaps, 5).last(), Some(&(u64::MAX - 1 - FROM)));
    }

    #[test]
    fn late_repairs_are_given_up() {
        let mut gaps = LossTracker::new(Duration::from_millis(24));
        [10, 12].iter().for_each(|counter| live(&mut gaps, 0, *counter));
        assert_eq!(asked(&mut gaps, 5), [0_u64; 0]);
        assert_eq!(gaps.given_up(), 1);
    }

    #[test]
    fn late_arrival_uncounts_loss() {
        let mut gaps = LossTracker::new(Duration::from_millis(24));
        [10, 13].iter().for_each(|counter| live(&mut gaps, 0, *counter));
        assert_eq!((asked(&mut gaps, 5), gaps.given_up()), (vec![], 2));
        [12, 12].iter().for_each(|counter| live(&mut gaps, 6, *counter));
        assert_eq!(gaps.given_up(), 1);
    }

    proptest! {
        /// Each packet that is lost is asked for, or given up; those that came are not, and there is an end.
        #[test]
        fn every_loss_is_nacked(lost in proptest::collection::btree_set(1..400_u64, 0..80)) {
            let mut gaps = gaps();
            let mut wanted = BTreeSet::new();
            for counter in 0..=400 {
                if !lost.contains(&counter) {
                    live(&mut gaps, counter, counter);
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
