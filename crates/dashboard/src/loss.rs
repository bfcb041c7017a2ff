//! The share of packets that are lost lately, made of counters.

use std::collections::BTreeMap;
use std::time::Duration;

/// After this time a lost packet counts half as much.
const HALF_LIFE: Duration = Duration::from_secs(15);

/// The least number of packets, old ones in part, of which a share tells something: a single probe that was sent again
/// counts as lost.
const LEAST: f64 = 20.0;

/// The most packets from before the first look that count.
const MOST_BEFORE: f64 = 200.0;

/// Counters of a connection or a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketCounts {
    pub packets: u64,
    pub lost: u64,
    /// The seconds since the counters were nought.
    pub age_s: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    counted: PacketCounts,
    packets: f64,
    lost: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Losses(BTreeMap<String, Recent>);

impl Losses {
    /// The percent of packets that were lost, by the counters now and those at the last look, which was so long ago. `None` if
    /// there were too few packets.
    pub(crate) fn percent(&mut self, key: &str, now: PacketCounts, since: Duration) -> Option<f64> {
        let held = self.0.get(key).filter(|held| held.counted.age_s <= now.age_s);
        let recent = held.map_or_else(|| Recent::of_start(now), |held| held.after(now, since));
        self.0.insert(key.to_owned(), recent);
        (recent.packets >= LEAST).then(|| 100.0 * (recent.lost / recent.packets).min(1.0))
    }

    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|key, _| is_there(key));
    }
}

impl Recent {
    fn of_start(counted: PacketCounts) -> Self {
        let packets = counted.packets as f64;
        let scale = if packets > MOST_BEFORE { MOST_BEFORE / packets } else { 1.0 };
        Self { counted, packets: packets * scale, lost: counted.lost as f64 * scale }
    }

    fn after(&self, now: PacketCounts, since: Duration) -> Self {
        let kept = 0.5_f64.powf(since.as_secs_f64() / HALF_LIFE.as_secs_f64());
        let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
        Self {
            counted: now,
            packets: self.packets * kept + more(now.packets, self.counted.packets),
            lost: self.lost * kept + more(now.lost, self.counted.lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn counts(packets: u64, lost: u64, age_s: f64) -> PacketCounts {
        PacketCounts { packets, lost, age_s }
    }

    #[test]
    fn old_losses_fade() {
        let mut losses = Losses::default();
        assert_eq!(losses.percent("a", counts(19, 1, 1.0), SECOND), None, "too few packets");
        assert_eq!(losses.percent("b", counts(1000, 100, 1.0), SECOND), Some(10.0));
        let later = losses.percent("b", counts(1100, 100, 61.0), 60 * SECOND).unwrap();
        assert!(later > 0.5 && later < 2.0, "{later}");
        // Another connection has the place of one that has ended.
        assert_eq!(losses.percent("b", counts(100, 50, 0.5), SECOND), Some(50.0));
        losses.retain(|key| key == "a");
        assert_eq!(losses.0.len(), 1);
    }

    proptest! {
        #[test]
        fn share_is_at_most_all(steps in prop::collection::vec((0_u64..1000, 0_u64..1000, 0.0_f64..100.0), 0..20)) {
            let mut losses = Losses::default();
            for (packets, lost, age_s) in steps {
                if let Some(percent) = losses.percent("a", counts(packets, lost, age_s), SECOND) {
                    prop_assert!((0.0..=100.0).contains(&percent));
                }
            }
        }
    }
}
