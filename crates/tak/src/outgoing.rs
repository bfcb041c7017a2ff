//! The events that wait for one connection: each uid once, the longest waiting first, within a rate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of an event: TAK shows the newest event of each uid.
pub(crate) type Uid = Arc<str>;

/// The most uids that wait; no more are sent at all.
const MAX_WAITING: usize = 16 * 1024;

/// A quiet connection may send as much as this time gives, at once.
const BURST: Duration = Duration::from_secs(2);

/// Bytes that may be sent, at a rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    bits_per_second: f64,
    /// Below zero after an event that was longer than what there was.
    left: f64,
    filled: Instant,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        let most = self.bits_per_second * BURST.as_secs_f64();
        self.left = (self.left + passed * self.bits_per_second).min(most);
        self.filled = now;
    }
}

/// Uids in the order in which they began to wait. A uid that waits keeps its turn when there is news of it, so that one
/// with much news passes none of the others.
#[derive(Debug)]
pub(crate) struct Outgoing {
    turns: BTreeMap<u64, Uid>,
    waiting: BTreeMap<Uid, u64>,
    sent: BTreeMap<Uid, Instant>,
    next_turn: u64,
    bucket: Bucket,
    /// News that stood in for older news that had not been sent.
    replaced: u64,
    refused: u64,
}

impl Outgoing {
    pub(crate) fn new(bits_per_second: f64, now: Instant) -> Self {
        let bucket = Bucket { bits_per_second, left: bits_per_second * BURST.as_secs_f64(), filled: now };
        Self {
            turns: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sent: BTreeMap::new(),
            next_turn: 0,
            bucket,
            replaced: 0,
            refused: 0,
        }
    }

    /// Puts a uid at the end, unless it waits already.
    pub(crate) fn put(&mut self, uid: &Uid) {
        if self.waiting.contains_key(uid) {
            self.replaced += 1;
        } else if self.waiting.len() >= MAX_WAITING {
            self.refused += 1;
        } else {
            self.turns.insert(self.next_turn, Arc::clone(uid));
            self.waiting.insert(Arc::clone(uid), self.next_turn);
            self.next_turn += 1;
        }
    }

    /// Removes the uid whose turn it is, if the rate allows an event now.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Uid> {
        self.bucket.fill(now);
        if self.bucket.left <= 0.0 {
            return None;
        }
        let (_, uid) = self.turns.pop_first()?;
        self.waiting.remove(&uid);
        Some(uid)
    }

    /// Counts the bytes of an event that was sent, and keeps the time.
    pub(crate) fn spend(&mut self, uid: Uid, bytes: usize, now: Instant) {
        self.bucket.left -= bytes as f64 * 8.0;
        self.sent.insert(uid, now);
    }

    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.sent.remove(uid);
        if let Some(turn) = self.waiting.remove(uid) {
            self.turns.remove(&turn);
        }
    }

    pub(crate) fn sent_at(&self, uid: &Uid) -> Option<Instant> {
        self.sent.get(uid).copied()
    }

    /// The moment at which the rate allows the next event; `None` if none waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.turns.is_empty() {
            return None;
        }
        // A little more than nothing has to be there.
        let missing = (1.0 - self.bucket.left).max(0.0) / self.bucket.bits_per_second;
        Some(self.bucket.filled + Duration::from_secs_f64(missing.min(3600.0)))
    }

    /// The time that events of so many bytes take.
    pub(crate) fn time_of(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64((bytes as f64 * 8.0 / self.bucket.bits_per_second).min(86_400.0))
    }

    /// The uids that it keeps the time of.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.sent.len()
    }

    pub(crate) const fn replaced(&self) -> u64 {
        self.replaced
    }

    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uid(number: usize) -> Uid {
        Uid::from(number.to_string())
    }

    proptest! {
        /// Whoever has much news: between two events of a uid, each other one that waited had its turn.
        #[test]
        fn nobody_starves(puts in prop::collection::vec((0_usize..10, any::<bool>()), 1..300)) {
            let mut now = Instant::now();
            let mut outgoing = Outgoing::new(8_000.0, now);
            let mut waits: BTreeMap<Uid, Vec<Uid>> = BTreeMap::new();
            for (number, takes) in puts {
                let uid = uid(number);
                outgoing.put(&uid);
                waits.entry(uid).or_default();
                now += Duration::from_millis(100);
                if !takes {
                    continue;
                }
                let Some(taken) = outgoing.pop(now) else { continue };
                outgoing.spend(Arc::clone(&taken), 100, now);
                waits.remove(&taken);
                for (other, passed) in &mut waits {
                    prop_assert!(!passed.contains(&taken), "{} passed {} twice", taken, other);
                    passed.push(Arc::clone(&taken));
                }
            }
        }

        #[test]
        fn the_rate_is_kept(sizes in prop::collection::vec(1_usize..3000, 1..200), kbits in 1_u32..100) {
            let start = Instant::now();
            let rate = f64::from(kbits) * 1e3;
            let (mut outgoing, mut now, mut bits) = (Outgoing::new(rate, start), start, 0.0);
            for (number, size) in sizes.iter().enumerate() {
                outgoing.put(&uid(number));
                now = now.max(outgoing.deadline().unwrap());
                let Some(uid) = outgoing.pop(now) else { return Err(TestCaseError::fail("the deadline is too early")) };
                outgoing.spend(uid, *size, now);
                bits += *size as f64 * 8.0;
            }
            let last = *sizes.last().unwrap() as f64 * 8.0;
            let allowed = rate * ((now - start).as_secs_f64() + BURST.as_secs_f64()) + last;
            prop_assert!(bits <= allowed + 1.0, "{} of {}", bits, allowed);
        }
    }

    #[test]
    fn news_keeps_its_turn() {
        let now = Instant::now();
        let mut outgoing = Outgoing::new(1e6, now);
        for number in [1, 2, 1, 1] {
            outgoing.put(&uid(number));
        }
        assert_eq!((outgoing.pop(now), outgoing.pop(now), outgoing.pop(now)), (Some(uid(1)), Some(uid(2)), None));
        assert_eq!((outgoing.replaced(), outgoing.deadline()), (2, None));
        outgoing.put(&uid(1));
        outgoing.forget(&uid(1));
        assert_eq!((outgoing.pop(now), outgoing.sent_at(&uid(1))), (None, None));
    }

    #[test]
    fn no_more_wait_than_the_limit() {
        let mut outgoing = Outgoing::new(1e6, Instant::now());
        (0..MAX_WAITING + 5).for_each(|number| outgoing.put(&uid(number)));
        assert_eq!((outgoing.waiting.len(), outgoing.refused()), (MAX_WAITING, 5));
    }
}
