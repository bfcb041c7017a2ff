//! A target's budget of packets beside its stream: repairs and parity.
//!
//! Both answer loss. Where chance loses packets, they make up for it. Where a connection is full they add to
//! what it has to carry, so that more is lost and more asked for. They are therefore a small part of what the
//! stream takes, and hardly anything where loss comes with a queue.

use std::time::Duration;

use roost_wire::Time;

use crate::loss_tracker::MAX_GAP;

/// The part of a stream that repairs and parity may be, on average.
const PART: f64 = 0.1;
/// The part where an answer takes [`FAR`] or longer: there parity is all that makes up for loss.
const FAR_PART: f64 = 0.25;
/// Nearly the 300 ms for which a packet is repaired.
const FAR: Duration = Duration::from_millis(250);
/// The most that is saved up, in packets of the largest size: the longest gap that a receiver asks for.
const BURST: f64 = MAX_GAP as f64;
/// So much later than ever, an answer has waited in a queue: longer than packets overtake one another.
const QUEUE: Duration = Duration::from_millis(20);
/// So many gaps in a row must be told of that late: a request to repair may have been lost, and repeated.
const IN_A_ROW: u8 = 3;
/// The part is halved at most so often, again after the time that this takes to have an effect, and doubled
/// after a time without loss behind a queue.
const MOST_HALVINGS: u8 = 5;
const HALVE_AGAIN: Duration = Duration::from_millis(200);
const EASE: Duration = Duration::from_secs(4);
/// For how long the soonest answer is remembered, at least: a queue may be there for as long, and
/// the way may have become another one.
const REMEMBERED: Duration = Duration::from_secs(150);

/// The budget of one target, and what is known of the queue on its way.
#[derive(Debug)]
pub(crate) struct RepairBudget {
    /// Bytes that may be sent now.
    left: f64,
    /// The size of the largest packet so far, bytes.
    packet: u64,
    /// The soonest answers of the present span of time, which began then, and of the one before.
    soonest: [Option<Duration>; 2],
    began: Time,
    /// Gaps in a row that were told of late.
    late: u8,
    halvings: u8,
    /// The time of that change, or of the last reason to keep it.
    changed: Time,
}

impl RepairBudget {
    /// Of a target that comes now: a burst, and nothing known.
    pub(crate) fn new(now: Time) -> Self {
        Self { left: 0.0, packet: 0, soonest: [None; 2], began: now, late: 0, halvings: 0, changed: now }
    }

    /// So many bytes of the stream were sent, in packets of this size.
    pub(crate) fn sent(&mut self, bytes: u64, packet: u64) {
        let halved = self.halved();
        let larger = packet.saturating_sub(self.packet);
        self.packet += larger;
        let part = if self.soonest().is_some_and(|soonest| soonest >= FAR) { FAR_PART } else { PART };
        let earned = bytes as f64 * part + larger as f64 * BURST;
        let most = self.packet as f64 * (BURST * halved).max(1.0);
        self.left = (self.left + earned * halved).min(most);
    }

    /// True if so much more may be sent, which it then is.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let fits = bytes as f64 <= self.left;
        if fits {
            self.left -= bytes as f64;
        }
        fits
    }

    /// True if loss comes with a queue, or lately did: then nothing is added without being asked for.
    pub(crate) fn is_congested(&self) -> bool {
        self.halvings > 0
    }

    /// The target reports a packet that was sent so long ago. It has waited with that for up to a second
    /// if there is a pause: only a soon report says something.
    pub(crate) fn reported(&mut self, now: Time, after: Duration) {
        if now.since(self.began) >= REMEMBERED {
            (self.soonest, self.began) = ([None, self.soonest[0]], now);
        }
        self.soonest[0] = Some(self.soonest[0].map_or(after, |soonest| soonest.min(after)));
        if !self.is_late(after) {
            self.late = 0;
        }
        if self.halvings > 0 && now.since(self.changed) >= EASE {
            (self.halvings, self.changed) = (self.halvings - 1, now);
        }
    }

    /// The target has told of a gap so long after what shows it was sent.
    pub(crate) fn missed(&mut self, now: Time, after: Duration) {
        if !self.is_late(after) {
            self.late = 0;
            return;
        }
        self.late = self.late.saturating_add(1);
        let is_soon = now.since(self.changed) < HALVE_AGAIN;
        if self.late < IN_A_ROW || self.halvings > 0 && is_soon {
            return;
        }
        self.halvings = (self.halvings + 1).min(MOST_HALVINGS);
        self.changed = now;
        self.left = self.left.min(self.packet as f64 * BURST * self.halved());
    }

    fn soonest(&self) -> Option<Duration> {
        self.soonest.into_iter().flatten().min()
    }

    fn is_late(&self, after: Duration) -> bool {
        self.soonest().is_some_and(|soonest| after > soonest + QUEUE)
    }

    fn halved(&self) -> f64 {
        1.0 / f64::from(1_u32 << self.halvings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: usize = 1000;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A budget of a target that has been sent a packet and answers within 20 ms.
    fn budget() -> RepairBudget {
        let mut budget = RepairBudget::new(at(0));
        budget.sent(PACKET as u64, PACKET as u64);
        budget.reported(at(0), ms(20));
        budget
    }

    /// The number of packets until the budget is spent.
    fn spent(budget: &mut RepairBudget) -> usize {
        (0..).take_while(|_| budget.spend(PACKET)).count()
    }

    #[test]
    fn budget_covers_longest_gap_then_tenth() {
        let mut budget = budget();
        assert_eq!(spent(&mut budget), 64);
        budget.sent(100 * PACKET as u64, PACKET as u64);
        assert_eq!(spent(&mut budget), 10);
    }

    #[test]
    fn long_rtt_raises_budget_to_quarter() {
        let mut budget = RepairBudget::new(at(0));
        budget.reported(at(0), ms(600));
        budget.sent(PACKET as u64, PACKET as u64);
        spent(&mut budget);
        budget.sent(100 * PACKET as u64, PACKET as u64);
        assert_eq!(spent(&mut budget), 25);
    }

    #[test]
    fn loss_without_queue_keeps_budget() {
        let mut budget = budget();
        for gap in 0..1000 {
            // A third of the gaps is reported again, as the first report was lost.
            budget.missed(at(gap), if gap % 3 == 0 { ms(70) } else { ms(28) });
        }
        assert!(!budget.is_congested());
    }

    #[test]
    fn queue_loss_halves_budget_until_over() {
        let mut budget = budget();
        (0..20).for_each(|gap| budget.missed(at(100 * gap), ms(120)));
        assert!(budget.is_congested());
        assert_eq!(spent(&mut budget), 2);
        budget.sent(1000 * PACKET as u64, PACKET as u64);
        assert_eq!(spent(&mut budget), 2);
        (0..30).for_each(|second| budget.reported(at(2000 + 1000 * second), ms(21)));
        assert!(!budget.is_congested());
    }

    #[test]
    fn baseline_rtt_relearned_after_minutes() {
        let mut budget = budget();
        let mut seconds = |seconds: std::ops::Range<u64>| {
            for second in seconds {
                budget.reported(at(1000 * second), ms(120));
                budget.missed(at(1000 * second), ms(120));
            }
            budget.is_congested()
        };
        assert!(seconds(1..140));
        assert!(!seconds(140..500));
    }

    proptest! {
        /// In any span of time a target gets at most a part of the stream and a burst beside it.
        #[test]
        fn spending_bounded_by_burst_and_tenth(
            steps in proptest::collection::vec((0..3_u8, 1..2000_u64, 1..1400_usize), 1..400),
            span in 1..200_usize,
        ) {
            let (mut budget, mut now) = (RepairBudget::new(at(0)), 0);
            let mut flows = Vec::new();
            for (what, number, bytes) in steps {
                now += number;
                flows.push(match what {
                    0 => {
                        let packets = number % 64 + 1;
                        budget.sent(packets * bytes as u64, bytes as u64);
                        (packets as f64 * bytes as f64, 0.0)
                    }
                    1 => (0.0, if budget.spend(bytes) { bytes as f64 } else { 0.0 }),
                    _ => {
                        // Answers that are not far.
                        budget.reported(at(now), ms(number % 240));
                        budget.missed(at(now), ms(number));
                        (0.0, 0.0)
                    }
                });
            }
            for span in flows.windows(span.min(flows.len())) {
                let (sent, spent) = span.iter().fold((0.0, 0.0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1));
                prop_assert!(spent <= sent * PART + BURST * 1400.0 + 1.0, "{spent} beside {sent}");
            }
        }
    }
}
