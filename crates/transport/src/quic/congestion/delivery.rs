//! At which rate packets arrive, measured from their acknowledgements.
//!
//! A packet that is acknowledged tells how much arrived between the moment when
//! it left and now. That, over the longer of the time that the acknowledgements
//! took and the time that the packets took to leave, is a rate at which the path
//! delivers: acknowledgements that come in a clump cannot make it too great.
//! Cheng et al., draft-cheng-iccrg-delivery-rate-estimation.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Packets that leave within so long are remembered together.
const GRAIN: Duration = Duration::from_millis(1);
/// The most that is remembered: more than four seconds under way.
const MAX_DEPARTURES: usize = 4096;

/// What has arrived, and how it stood when packets left.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRateSampler {
    /// Bytes that have arrived so far.
    pub(super) delivered: u64,
    /// When the last of them were acknowledged, and when those had left.
    delivered_at: Instant,
    delivered_left: Instant,
    departures: VecDeque<DeliverySnapshot>,
}

/// How it stood when a packet left.
#[derive(Clone, Copy, Debug)]
struct DeliverySnapshot {
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    delivered_left: Instant,
}

impl DeliveryRateSampler {
    pub(super) const fn new(now: Instant) -> Self {
        Self { delivered: 0, delivered_at: now, delivered_left: now, departures: VecDeque::new() }
    }

    /// A packet leaves. `is_first` if nothing else is under way: the time
    /// until now, when there was nothing to deliver, does not count.
    pub(super) fn record_sent(&mut self, now: Instant, is_first: bool) {
        if is_first {
            (self.delivered_at, self.delivered_left) = (now, now);
        }
        if self.departures.back().is_some_and(|last| now.saturating_duration_since(last.at) < GRAIN) {
            return;
        }
        if self.departures.len() == MAX_DEPARTURES {
            self.departures.pop_front();
        }
        let Self { delivered, delivered_at, delivered_left, .. } = *self;
        self.departures.push_back(DeliverySnapshot { at: now, delivered, delivered_at, delivered_left });
    }

    /// A packet of `bytes` that left at `sent` is acknowledged; answers the rate
    /// that this shows, bytes per second, unless that takes less than `least`.
    pub(super) fn record_acknowledged(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        least: Duration,
    ) -> Option<f64> {
        self.delivered += bytes;
        self.delivered_at = now;
        self.delivered_left = self.delivered_left.max(sent);
        while self.departures.get(1).is_some_and(|next| next.at <= sent) {
            self.departures.pop_front();
        }
        let departure = self.departures.front().filter(|first| first.at <= sent)?;
        let answered = now.saturating_duration_since(departure.delivered_at);
        let took = answered.max(sent.saturating_duration_since(departure.delivered_left));
        (took >= least && !took.is_zero()).then(|| (self.delivered - departure.delivered) as f64 / took.as_secs_f64())
    }
}
