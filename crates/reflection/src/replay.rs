//! A window of packets that have come, which slides (RFC 4303, section 3.4.3): a ring of words that are cleared
//! when it moves on (RFC 6479).

use crate::control::MAX_NACKED;
use crate::loss_tracker::MAX_GAP;
use crate::packet::Flags;

const WORD_BITS: u64 = u64::BITS as u64;
/// The words of a window, and the word that is being filled.
const fn words(packets: u64) -> usize {
    (packets / WORD_BITS) as usize + 1
}

/// A subscriber opens packets up to so far behind the greatest counter: 1024 packets, half a second of a stream
/// of 2000 a second.
pub(crate) const OPENED: usize = words(1024);
/// And where it is sent on: 16 384 packets, six seconds of 30 Mbit/s. Two ways differ by less, and
/// so does what is kept for repairs.
const SENT_ON: usize = words(16_384);
/// After so many packets in a row apart from the others it is these that lead.
const CONFIRMED: u8 = 4;

/// The place of a counter in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterState {
    /// No packet of this counter has come.
    New,
    /// A packet of this counter has come.
    Taken,
    /// The counter is behind the window: nobody can tell.
    Behind,
}

/// The counters that were taken lately: of one word less than it has.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow<const WORDS: usize> {
    greatest: Option<u64>,
    words: [u64; WORDS],
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> Self {
        Self { greatest: None, words: [0; WORDS] }
    }
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    const PACKETS: u64 = (WORDS as u64 - 1) * WORD_BITS;

    pub(crate) fn greatest(&self) -> Option<u64> {
        self.greatest
    }

    pub(crate) fn look(&self, counter: u64) -> CounterState {
        match self.greatest {
            Some(greatest) if counter > greatest => CounterState::New,
            Some(greatest) if greatest - counter >= Self::PACKETS => CounterState::Behind,
            Some(_) if self.words[Self::place(counter)] & bit(counter) != 0 => CounterState::Taken,
            _ => CounterState::New,
        }
    }

    /// Notes a counter that is new and not behind.
    pub(crate) fn record_counter(&mut self, counter: u64) {
        let block = counter / WORD_BITS;
        match self.greatest {
            Some(greatest) if counter > greatest => {
                let blocks = (block - greatest / WORD_BITS).min(WORDS as u64);
                (0..blocks).for_each(|back| self.words[Self::place((block - back) * WORD_BITS)] = 0);
                self.greatest = Some(counter);
            }
            Some(_) => {}
            None => self.greatest = Some(counter),
        }
        self.words[Self::place(counter)] |= bit(counter);
    }

    const fn place(counter: u64) -> usize {
        // Below the number of words.
        (counter / WORD_BITS % WORDS as u64) as usize
    }

    /// True if a packet may belong to those that were taken: any, if none was.
    fn is_near(&self, counter: u64) -> bool {
        self.greatest.is_none_or(|greatest| match counter.checked_sub(greatest) {
            Some(ahead) => ahead <= MAX_GAP,
            None => greatest - counter < Self::PACKETS,
        })
    }

    /// True if a packet comes later than any that is repaired.
    fn is_late(&self, counter: u64) -> bool {
        self.greatest.is_some_and(|greatest| greatest.saturating_sub(counter) > MAX_NACKED)
    }
}

/// The place of a packet in the sequence of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterOutcome {
    /// The packet is in the sequence that leads.
    InSequence,
    /// The packet is far from the sequence that leads.
    Outlier,
    /// The packet is far from the sequence that led, or late; its own sequence leads from now on.
    Resynced,
}

/// The packets of a stream where nobody can tell the genuine from the forged.
///
/// Counters grow by one. What is far from the others is sent on but kept apart, so that a
/// forged packet shuts out no genuine one; if nothing but its like comes, it leads: over a gap, or
/// back to the genuine packets from forged ones. What a cache sends after the parameter sets that a
/// stream begins with leads at once, however far ahead.
#[derive(Debug, Default)]
pub(crate) struct ReplayFilter {
    leading: ReplayWindow<SENT_ON>,
    /// Nothing leads but parameter sets from a cache.
    is_open: bool,
    apart: ReplayWindow<SENT_ON>,
    /// Packets apart from the leading sequence, or late, since the last one in it.
    in_row: u8,
}

impl ReplayFilter {
    /// The counter after the greatest of those that lead; 0 if nothing has come.
    pub(crate) fn next(&self) -> u64 {
        self.leading.greatest().map_or(0, |greatest| greatest.saturating_add(1))
    }

    /// True if a packet is one of those that lead.
    pub(crate) fn leads(&self, counter: u64) -> bool {
        self.leading.is_near(counter)
    }

    /// Notes a packet; `None` if it was taken before.
    pub(crate) fn classify_packet(&mut self, counter: u64, is_cached: bool, flags: Flags) -> Option<FilterOutcome> {
        if [&self.leading, &self.apart].into_iter().any(|track| track.look(counter) == CounterState::Taken) {
            return None;
        }
        let greatest = self.leading.greatest();
        let goes_on = self.is_open && is_cached && greatest.is_some_and(|greatest| counter > greatest);
        let (leads, is_late) = (goes_on || self.leading.is_near(counter), self.leading.is_late(counter));
        if leads && !is_late {
            let is_first = self.is_open || greatest.is_none();
            self.is_open = is_first && is_cached && flags.has(Flags::PARAMETERS) && !flags.has(Flags::KEY_FRAME);
            self.leading.record_counter(counter);
            self.in_row = 0;
            return Some(FilterOutcome::InSequence);
        }
        if !leads && !self.apart.is_near(counter) {
            self.apart = ReplayWindow::default();
            self.in_row = 0;
        }
        let track = if leads { &mut self.leading } else { &mut self.apart };
        track.record_counter(counter);
        self.in_row += 1;
        if self.in_row < CONFIRMED {
            return Some(if leads { FilterOutcome::InSequence } else { FilterOutcome::Outlier });
        }
        self.in_row = 0;
        if leads {
            // Words ahead are cleared when the window reaches them.
            self.leading.greatest = Some(counter);
        } else {
            std::mem::swap(&mut self.leading, &mut self.apart);
        }
        Some(FilterOutcome::Resynced)
    }
}

const fn bit(counter: u64) -> u64 {
    1 << (counter % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const WINDOW: u64 = ReplayWindow::<OPENED>::PACKETS;

    fn courses(tracks: &mut ReplayFilter, counters: impl IntoIterator<Item = u64>) -> Vec<Option<FilterOutcome>> {
        counters.into_iter().map(|counter| tracks.classify_packet(counter, false, Flags::default())).collect()
    }

    #[test]
    fn outliers_shut_out_no_packets() {
        let (mut tracks, from) = (ReplayFilter::default(), 1 << 20);
        let led = Some(FilterOutcome::InSequence);
        assert!(courses(&mut tracks, from..from + 10).iter().all(|course| *course == led));
        for forged in [from + 1000, from + 66_000, 0, u64::MAX, from + 74, 1 << 40] {
            assert_eq!(tracks.classify_packet(forged, true, Flags::KEY_FRAME), Some(FilterOutcome::Outlier));
        }
        assert_eq!(courses(&mut tracks, [from + 10, from + 5, from + 11]), [led, None, led]);
        assert_eq!(tracks.next(), from + 12);
    }

    #[test]
    fn resyncs_to_outliers_and_back() {
        let mut tracks = ReplayFilter::default();
        courses(&mut tracks, 1000..1010);
        let turned = [
            [Some(FilterOutcome::Outlier); 3].as_slice(),
            &[Some(FilterOutcome::Resynced), Some(FilterOutcome::InSequence)],
        ]
        .concat();
        assert_eq!(courses(&mut tracks, 50_000..50_005), turned);
        assert_eq!(courses(&mut tracks, 1010..1015), turned);
        // Both are remembered.
        assert_eq!(courses(&mut tracks, [50_000, 1000, 1014]), [None; 3]);
    }

    #[test]
    fn resyncs_behind_forged_packets() {
        let mut tracks = ReplayFilter::default();
        courses(&mut tracks, 1000..1010);
        // Each as far ahead as may be: together further than what is repaired.
        assert_eq!(
            courses(&mut tracks, (1..=5).map(|number| 1009 + number * MAX_GAP)),
            [Some(FilterOutcome::InSequence); 5]
        );
        let back = [
            [Some(FilterOutcome::InSequence); 3].as_slice(),
            &[Some(FilterOutcome::Resynced), Some(FilterOutcome::InSequence)],
        ]
        .concat();
        assert_eq!(courses(&mut tracks, 1010..1015), back);
        assert_eq!((courses(&mut tracks, [1014, 1005]), tracks.next()), (vec![None; 2], 1015));
    }

    #[test]
    fn cached_key_frame_follows_parameters() {
        let (mut tracks, led) = (ReplayFilter::default(), Some(FilterOutcome::InSequence));
        for (counter, flags) in [(1000, Flags::PARAMETERS), (1100, Flags::PARAMETERS), (1400, Flags::KEY_FRAME)] {
            assert_eq!((tracks.classify_packet(counter, true, flags), tracks.leads(counter)), (led, true));
        }
        assert_eq!((courses(&mut tracks, [1401, 1402]), tracks.next()), (vec![led; 2], 1403));
        // Only at its beginning, and from a cache.
        assert_eq!(tracks.classify_packet(2000, true, Flags::KEY_FRAME), Some(FilterOutcome::Outlier));
        let mut tracks = ReplayFilter::default();
        assert_eq!(tracks.classify_packet(1000, true, Flags::PARAMETERS), led);
        assert_eq!(tracks.classify_packet(1400, false, Flags::KEY_FRAME), Some(FilterOutcome::Outlier));
    }

    proptest! {
        /// Beside a set that forgets nothing.
        #[test]
        fn each_counter_is_new_once(
            start in prop_oneof![Just(0), Just(u64::MAX - 5000), any::<u64>()],
            steps in proptest::collection::vec((0..3_u8, 0..3000_u64), 1..400),
        ) {
            let (mut window, mut taken) = (ReplayWindow::<OPENED>::default(), BTreeSet::new());
            let mut greatest: Option<u64> = None;
            for (way, far) in steps {
                let from = greatest.unwrap_or(start);
                let counter = if way == 0 { from.saturating_add(far) } else { from.saturating_sub(far) };
                let expected = match greatest {
                    Some(greatest) if counter <= greatest && greatest - counter >= WINDOW => CounterState::Behind,
                    _ if taken.contains(&counter) => CounterState::Taken,
                    _ => CounterState::New,
                };
                prop_assert_eq!(window.look(counter), expected);
                if expected == CounterState::New {
                    window.record_counter(counter);
                    taken.insert(counter);
                    greatest = Some(from.max(counter)).filter(|_| greatest.is_some()).or(Some(counter));
                }
            }
        }
    }
}
