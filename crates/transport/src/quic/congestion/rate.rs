//! Congestion control by a model of the path. The window is the product of the path's rate and its shortest round trip,
//! and from time to time a little more, to find out if the rate has grown. A loss alone changes nothing, so that radio
//! and satellite links are filled.
//!
//! The idea is that of BBR (Cardwell et al. 2016), but without its pacing rate, which quinn does not take: the window
//! has to express everything.

use std::any::Any;
use std::time::{Duration, Instant};

use quinn::congestion::Controller;
use quinn_proto::RttEstimator;

use super::INITIAL_WINDOW;
use super::delivery::DeliveryRateSampler;
use super::trains::Trains;

/// The window while the path is explored, as a multiple of the bytes that it holds.
const STARTUP_GAIN: f64 = 2.0;
/// As [`STARTUP_GAIN`], while the queue of the exploration drains.
const DRAIN_GAIN: f64 = 0.5;
/// As [`DRAIN_GAIN`], from then on, each for a round trip. The first step looks for more rate. The second drains the
/// queue of the first, but no further, since the link would be idle then; on short paths the slack for clumps is larger
/// than this reduction, and the step only lasts longer. The other steps keep a tenth more than the share under way, so
/// that senders which fill the queue do not starve this one.
const CYCLE: [f64; 8] = [1.3, 0.95, 1.08, 1.08, 1.08, 1.08, 1.08, 1.08];
/// The step that drains the queue. It lasts until the queue is gone, but at most this many round trips.
const DRAINING: usize = 1;
const LONGEST_DRAIN: u32 = 4;
/// The step in which the cycle begins.
const FIRST_STEP: usize = 2;
/// Growth of the startup window for each byte that arrives. The window doubles in each round trip while the path is
/// unknown. It grows fivefold while packet trains show that the path holds more. After that it creeps, because a queue
/// is noticed a round trip after it began.
const DOUBLES: f64 = 1.0;
const LEAPS: f64 = 4.0;
const CREEPS: f64 = 0.25;
/// The part of the packet trains' estimate that is trusted.
const TRUSTED: f64 = 0.9;
/// The startup ends when a queue is noticed: the first packets of this many trains, and of all trains in this part of
/// the shortest round trip, took longer than that round trip by this factor and [`QUEUED`].
const NOTICED_TRAINS: u32 = 3;
const NOTICED: u32 = 8;
const NOTICED_RTT: f64 = 1.03;
/// The longest queue that the first step of [`CYCLE`] makes. On long paths the step is smaller for that.
const LONGEST_QUEUE: Duration = Duration::from_millis(125);
const SHORTEST_STEP: Duration = Duration::from_millis(10);
/// The startup goes on while the rate grows by this factor in a round, and for this many rounds without growth.
const GROWTH: f64 = 1.25;
const FLAT_ROUNDS: u32 = 3;
/// A path is full if a round loses more than chance explains, or if its shortest round trip contains this much queue.
const MUCH_LOSS: f64 = 0.02;
const QUEUED_RTT: f64 = 1.2;
const QUEUED: Duration = Duration::from_millis(3);
/// Rounds before losses count. In fewer rounds a single loss would be too much.
const FEW_ROUNDS: u32 = 4;
/// A round of the cycle that loses this part, and more than this many packets, has overrun the queue. Then the window
/// is limited to a part of the bytes under way, and the limit grows by a factor in each cycle.
const FEW_LOSSES: f64 = 4.0;
const CEILING: f64 = 0.7;
const CEILING_GROWTH: f64 = 1.25;
/// Rounds of a window of the greatest rate. The last three windows count.
const PEAK_ROUNDS: u32 = 5;
/// Slack for acknowledgements that are delayed or come in clumps: this much time at the rate, and this many packets.
const CLUMP: Duration = Duration::from_millis(2);
const CLUMP_PACKETS: f64 = 6.0;
/// The least window, packets. It is TCP's initial one (RFC 6928), so that an object of 10 KB after short messages,
/// which showed little of the path, takes no extra round trip.
const LEAST_PACKETS: f64 = 10.0;
/// After this time, or this many round trips if that is longer, the shortest round trip is measured again. Meanwhile
/// the window is only a part of the bytes that the path holds, for two round trips or the time of the probe, whichever
/// is longer. A sender that started while others had filled the queue would otherwise take that queue for the path, and
/// use more than its share.
const RTT_LIFE: Duration = Duration::from_secs(10);
const RTT_LIFE_ROUNDS: u32 = 60;
const RTT_PROBE: Duration = Duration::from_millis(100);
const RTT_PROBE_GAIN: f64 = 0.7;
/// The most by which the shortest round trip grows at each measurement: an apparently longer path may be a queue that
/// other senders keep full.
const RTT_GROWTH: f64 = 1.1;

#[derive(Clone, Debug)]
pub(super) struct RateController {
    mtu: f64,
    phase: RatePhase,
    delivery: DeliveryRateSampler,
    peak: Peak,
    trains: Trains,
    /// The time since which all trains have waited in a queue, and their number.
    queued: Option<(Instant, u32)>,
    /// The shortest round trip, and the time of its measurement.
    base: Option<(Duration, Instant)>,
    round: Round,
    rounds: u32,
    in_flight: u64,
    /// The most bytes that may be under way, after more has overrun the queue.
    ceiling: f64,
    /// The time at which the queue of the startup was gone.
    drained_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum RatePhase {
    /// The window grows. `best` is the greatest rate so far, `flat` the number of rounds since it grew.
    Startup {
        window: f64,
        best: f64,
        flat: u32,
    },
    Drain,
    /// A step of [`CYCLE`], and the time since which it lasts.
    Cruise {
        step: usize,
        since: Instant,
    },
    /// The shortest round trip is measured again.
    Measure {
        since: Instant,
        shortest: Option<Duration>,
    },
}

/// The events of one round trip, which ends when all bytes that were under way at its beginning have arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ends: u64,
    arrived: u64,
    lost: u64,
    /// The lost bytes that left after the queue of the startup was gone.
    overrun: u64,
    shortest: Option<Duration>,
    /// The most bytes that were under way.
    most: u64,
    was_idle: bool,
}

/// The greatest rate of recent rounds, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
struct Peak([f64; 3]);

impl Peak {
    fn get(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    fn add_sample(&mut self, rate: f64) {
        self.0[0] = self.0[0].max(rate);
    }

    fn age(&mut self) {
        self.0 = [0.0, self.0[0], self.0[1]];
    }
}

impl RatePhase {
    const fn start() -> Self {
        Self::Startup { window: INITIAL_WINDOW as f64, best: 0.0, flat: 0 }
    }
}

impl RateController {
    pub(super) fn new(now: Instant, mtu: u16) -> Self {
        Self {
            mtu: mtu.into(),
            phase: RatePhase::start(),
            delivery: DeliveryRateSampler::new(now),
            peak: Peak::default(),
            trains: Trains::default(),
            queued: None,
            base: None,
            round: Round::default(),
            rounds: 0,
            in_flight: 0,
            ceiling: f64::INFINITY,
            drained_at: None,
        }
    }

    /// The bytes that the path holds; `None` before they are known.
    fn held(&self) -> Option<f64> {
        self.base.map(|(base, _)| self.peak.get() * base.as_secs_f64()).filter(|held| *held > 0.0)
    }

    pub(super) fn record_sent(&mut self, now: Instant, bytes: u64) {
        self.delivery.record_sent(now, self.in_flight == 0);
        self.in_flight += bytes;
        self.round.most = self.round.most.max(self.in_flight);
    }

    pub(super) fn record_acknowledged(&mut self, now: Instant, sent: Instant, bytes: u64, is_idle: bool) {
        let took = now.saturating_duration_since(sent);
        self.note_round_trip(now, took);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.round.arrived += bytes;
        self.round.was_idle |= is_idle;
        self.round.shortest = Some(self.round.shortest.map_or(took, |shortest| shortest.min(took)));
        if self.trains.arrived(now, sent, bytes) {
            // Later packets of a train wait for the first one, so only that one shows a queue.
            self.note_queue(now, took);
        }
        let growth = self.growth();
        if let RatePhase::Startup { window, .. } = &mut self.phase
            && !is_idle
        {
            *window += growth * bytes as f64;
        }
        let least = self.base.map_or(Duration::ZERO, |(base, _)| base);
        if let Some(rate) = self.delivery.record_acknowledged(now, sent, bytes, least) {
            self.peak.add_sample(rate);
        }
    }

    /// The factor by which the startup window grows, see [`LEAPS`].
    fn growth(&self) -> f64 {
        let (RatePhase::Startup { window, .. }, Some((base, _))) = (self.phase, self.base) else { return DOUBLES };
        match self.told(base) {
            None => DOUBLES,
            Some(told) if window < told => LEAPS,
            Some(_) => CREEPS,
        }
    }

    /// The bytes that the path holds according to its packet trains, as far as these are trusted.
    fn told(&self, base: Duration) -> Option<f64> {
        self.trains.rate().map(|rate| TRUSTED * rate * base.as_secs_f64())
    }

    /// Ends the startup when a queue has persisted.
    fn note_queue(&mut self, now: Instant, took: Duration) {
        let Some((base, _)) = self.base else { return };
        if took <= base.mul_f64(NOTICED_RTT) + QUEUED {
            self.queued = None;
            return;
        }
        let (since, trains) = self.queued.unwrap_or((now, 0));
        self.queued = Some((since, trains + 1));
        let is_noticed = trains >= NOTICED_TRAINS && now.saturating_duration_since(since) >= base / NOTICED;
        if is_noticed && matches!(self.phase, RatePhase::Startup { .. }) {
            self.phase = RatePhase::Drain;
        }
    }

    fn note_round_trip(&mut self, now: Instant, took: Duration) {
        if let RatePhase::Measure { shortest, .. } = &mut self.phase {
            *shortest = Some(shortest.map_or(took, |shortest| shortest.min(took)));
        }
        self.base = match self.base {
            Some(base) if base.0 <= took => Some(base),
            _ => Some((took, now)),
        };
    }

    /// Called after all acknowledgements of a packet.
    pub(super) fn acknowledged(&mut self, now: Instant, in_flight: u64) {
        self.in_flight = in_flight;
        if self.delivery.delivered >= self.round.ends {
            self.end_round();
            self.round = Round { ends: self.delivery.delivered + in_flight, ..Round::default() };
        }
        let Some((base, measured)) = self.base else { return };
        let is_drained = self.held().is_some_and(|held| in_flight as f64 <= held);
        if is_drained && matches!(self.phase, RatePhase::Drain) {
            self.drained_at = Some(now);
        }
        self.phase = match self.phase {
            RatePhase::Drain if is_drained => RatePhase::Cruise { step: FIRST_STEP, since: now },
            RatePhase::Cruise { .. }
                if now.saturating_duration_since(measured) > RTT_LIFE.max(RTT_LIFE_ROUNDS * base) =>
            {
                RatePhase::Measure { since: now, shortest: None }
            }
            RatePhase::Cruise { step, since } => {
                let lasted = now.saturating_duration_since(since);
                let is_over = lasted >= base.max(SHORTEST_STEP);
                let still_drains = step == DRAINING && !is_drained && lasted < LONGEST_DRAIN * base;
                match is_over && !still_drains {
                    true => self.next_step(now, step),
                    false => self.phase,
                }
            }
            RatePhase::Measure { since, shortest }
                if now.saturating_duration_since(since) > RTT_PROBE.max(2 * base) =>
            {
                let most = base.mul_f64(RTT_GROWTH);
                self.base = Some((shortest.map_or(base, |shortest| shortest.min(most)), now));
                RatePhase::Cruise { step: FIRST_STEP, since: now }
            }
            other => other,
        };
    }

    fn next_step(&mut self, now: Instant, step: usize) -> RatePhase {
        let step = (step + 1) % CYCLE.len();
        if step == 0 {
            self.ceiling *= CEILING_GROWTH;
        }
        RatePhase::Cruise { step, since: now }
    }

    fn end_round(&mut self) {
        self.rounds += 1;
        if self.rounds.is_multiple_of(PEAK_ROUNDS) && !self.round.was_idle {
            self.peak.age();
        }
        let (peak, is_full) = (self.peak.get(), self.is_full());
        let overrun = self.round.overrun as f64;
        if overrun > FEW_LOSSES * self.mtu && overrun > MUCH_LOSS * (overrun + self.round.arrived as f64) {
            self.ceiling = self.ceiling.min(CEILING * self.round.most as f64);
        }
        if let RatePhase::Startup { best, flat, .. } = &mut self.phase {
            if peak >= *best * GROWTH {
                (*best, *flat) = (peak, 0);
            } else if !self.round.was_idle {
                *flat += 1;
            }
            if *flat >= FLAT_ROUNDS || is_full {
                self.phase = RatePhase::Drain;
            }
        }
    }

    /// True if the ending round shows that the path is full.
    fn is_full(&self) -> bool {
        let Round { arrived, lost, shortest, .. } = self.round;
        let loses = self.rounds > FEW_ROUNDS && lost as f64 > MUCH_LOSS * (lost + arrived) as f64;
        let queues =
            shortest.zip(self.base).is_some_and(|(shortest, (base, _))| shortest > base.mul_f64(QUEUED_RTT) + QUEUED);
        loses || queues
    }

    /// Notes that bytes were lost, the last of which left at `sent`.
    pub(super) fn lost(&mut self, sent: Instant, bytes: u64, is_persistent: bool) {
        self.round.lost += bytes;
        if self.drained_at.is_some_and(|at| at < sent) {
            self.round.overrun += bytes;
        }
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if is_persistent {
            // Nothing has arrived for several round trips, so the path may have changed.
            (self.phase, self.peak, self.base) = (RatePhase::start(), Peak::default(), None);
            (self.ceiling, self.drained_at) = (f64::INFINITY, None);
            // The losses on the old path say nothing about the new one.
            (self.round, self.rounds) = (Round { ends: self.delivery.delivered, ..Round::default() }, 0);
        }
    }

    pub(super) fn allowed(&self) -> u64 {
        let slack = self.peak.get() * CLUMP.as_secs_f64() + CLUMP_PACKETS * self.mtu;
        let gain = match self.phase {
            RatePhase::Startup { window, .. } => {
                let told = self.base.and_then(|(base, _)| self.told(base)).unwrap_or_default();
                let most = self.held().map_or(window, |held| (STARTUP_GAIN * held).max(INITIAL_WINDOW as f64));
                return window.min(most.max(told)).max(LEAST_PACKETS * self.mtu) as u64;
            }
            RatePhase::Drain => DRAIN_GAIN,
            RatePhase::Cruise { step, .. } => CYCLE[step].min(self.greatest_gain()),
            RatePhase::Measure { .. } => RTT_PROBE_GAIN,
        };
        (gain * self.held().unwrap_or_default() + slack).min(self.ceiling).max(LEAST_PACKETS * self.mtu) as u64
    }

    /// A greater gain would queue for longer than [`LONGEST_QUEUE`].
    fn greatest_gain(&self) -> f64 {
        self.base.map_or(1.0, |(base, _)| 1.0 + LONGEST_QUEUE.as_secs_f64() / base.as_secs_f64())
    }
}

impl Controller for RateController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.record_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        // The estimator's shortest round trip starts with an assumed one, so it is not used.
        self.record_acknowledged(now, sent, bytes, app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.acknowledged(now, in_flight);
    }

    fn on_congestion_event(&mut self, _now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.lost(sent, lost_bytes, is_persistent);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.into();
    }

    fn window(&self) -> u64 {
        self.allowed()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        INITIAL_WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
