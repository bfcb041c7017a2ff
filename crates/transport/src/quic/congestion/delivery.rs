//! The rate at which packets arrive, measured from their acknowledgements.
//!
//! When a packet is acknowledged, the bytes that arrived since it left are known. They are divided by the longer of two
//! times: the time in which the acknowledgements came, and the time in which the packets left. So acknowledgements that
//! come in a clump cannot make the rate too great. The method is that of Cheng et al.,
//! draft-cheng-iccrg-delivery-rate-estimation.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Packets that leave within this time share a snapshot.
const GRAIN: Duration = Duration::from_millis(1);
/// The most snapshots: more than four seconds under way.
const MAX_DEPARTURES: usize = 4096;

/// The bytes delivered so far, with a snapshot of them for the departure of each packet.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRateSampler {
    pub(super) delivered: u64,
    /// The time of the last acknowledgement, and the time at which the last acknowledged packet had left.
    delivered_at: Instant,
    delivered_left: Instant,
    departures: VecDeque<DeliverySnapshot>,
}

/// The state of the sampler when a packet left.
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

    /// Notes that a packet leaves. `is_first` says that nothing else is under way, so the time until now does not
    /// count.
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

    /// Notes the acknowledgement of a packet of `bytes` that left at `sent`. Returns the rate that follows, in bytes
    /// per second, unless it was measured over less than `least`.
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
