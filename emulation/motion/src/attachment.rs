//! The access point of a host that moves.

use std::time::Duration;

/// Attaches a host to the strongest access point, and keeps it until another is stronger by the hysteresis.
///
/// There is never more than one access point. During a handover there is none: the old link is gone, and the new one
/// is not there yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attachment {
    point: Option<usize>,
    ready_at: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    pub(crate) left: Option<usize>,
}

impl Attachment {
    /// The access point whose link is in use at a time.
    pub fn in_use(&self, now: Duration) -> Option<usize> {
        self.point.filter(|_| self.ready_at.is_none_or(|at| at <= now))
    }

    pub fn is_changing(&self, now: Duration) -> bool {
        self.ready_at.is_some_and(|at| at > now)
    }

    /// The end of a handover that is still to come.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        self.ready_at.filter(|at| *at > now)
    }

    /// Chooses anew. `signals` has each access point's strength, `None` out of reach. The first access point after
    /// none costs no time.
    pub(crate) fn choose(
        &mut self,
        now: Duration,
        signals: &[Option<f64>],
        rules: &roost_topology::model::Access,
    ) -> Option<Handover> {
        let strength = |point: usize| signals.get(point).copied().flatten();
        let reachable = signals.iter().enumerate().filter_map(|(point, signal)| Some((point, (*signal)?)));
        // The first of equals.
        let best = reachable.reduce(|best, next| if next.1 > best.1 { next } else { best });
        let current = self.point.and_then(|point| Some((point, strength(point)?)));
        let next = match (best, current) {
            (Some((best, signal)), Some((_, own))) if signal > own + rules.hysteresis_db => Some(best),
            (_, Some((own, _))) => Some(own),
            (best, None) => best.map(|(best, _)| best),
        };
        if next == self.point {
            return None;
        }
        let left = std::mem::replace(&mut self.point, next);
        let costs = left.is_some() && next.is_some() && !rules.interruption.is_zero();
        self.ready_at = costs.then(|| now + rules.interruption);
        Some(Handover { left })
    }
}
